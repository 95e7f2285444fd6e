package mcpevents

import (
	"context"
	"encoding/json"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

const (
	readPage = 500    // events read from the store at a time
	maxScan  = 20_000 // events looked at in one call
)

type pollResult struct {
	Events     []Occurrence `json:"events"`
	Cursor     *string      `json:"cursor"`
	Truncated  bool         `json:"truncated"`
	HasMore    bool         `json:"hasMore"`
	NextPollMs int64        `json:"nextPollMs"`
}

// want is what a reader of a ledger asked for.
type want struct {
	cursor Cursor
	maxAge time.Duration
	aged   bool
	limit  int
	hold   time.Duration
}

// poll serves events/poll. It keeps nothing between calls: the cursor is all there is.
func (s *Server) poll(ctx context.Context, r Request) (any, error) {
	t, m, err := s.reader(ctx, r, Poll)
	if err != nil {
		return nil, err
	}
	w, err := readWant(m, t.policy())
	if err != nil {
		return nil, err
	}
	s.hub.join(t.caller.Ledger)
	defer s.hub.leave(t.caller.Ledger)
	deadline := time.NewTimer(w.hold)
	defer deadline.Stop()
	for {
		grew := s.hub.next(t.caller.Ledger)
		b, err := s.readBatch(ctx, t, w, time.Now())
		if err != nil {
			return nil, internal("read events", err)
		}
		if w.hold == 0 || !w.cursor.Set || len(b.events) > 0 || b.gap || b.more {
			return t.pollResult(b), nil
		}
		select {
		case <-grew:
		case <-deadline.C:
			return t.pollResult(b), nil
		case <-ctx.Done():
			return nil, internal("wait for events", ctx.Err())
		}
	}
}

// reader finds the event type of a poll or stream and checks that the caller may read it.
func (s *Server) reader(ctx context.Context, r Request, mode Mode) (*target, members, error) {
	m, err := readMembers(r.Params, "params")
	if err != nil {
		return nil, nil, err
	}
	t, err := s.find(ctx, r, m)
	if err != nil {
		return nil, nil, err
	}
	if err := t.mayUse(r.Dialect, mode); err != nil {
		return nil, nil, err
	}
	if err := t.readArguments(r.Dialect); err != nil {
		return nil, nil, err
	}
	return t, m, s.authorize(ctx, t, mode)
}

func readWant(m members, p *Policy) (w want, err error) {
	if w.cursor, err = m.cursor(p.Replay.Lenient); err != nil {
		return w, err
	}
	if w.maxAge, w.aged, err = m.span("maxAgeMs"); err != nil {
		return w, err
	}
	limit, given, err := m.number("maxEvents")
	if err != nil {
		return w, err
	}
	if w.limit = p.Polling.MaxEvents; given {
		w.limit = int(min(max(limit, 1), int64(w.limit)))
	}
	hold, _, err := m.span("timeoutMs")
	w.hold = min(hold, p.Polling.Hold)
	return w, err
}

// batch is a stretch of a ledger as one reader sees it.
type batch struct {
	events []Event
	// after is the position behind everything that was looked at.
	after int64
	gap   bool
	more  bool
	epoch string
}

// readBatch reads what the want asks for in one consistent state of the store.
func (s *Server) readBatch(ctx context.Context, t *target, w want, now time.Time) (b batch, err error) {
	err = s.db.View(ctx, func(tx driver.Tx) error {
		head, err := tx.Events().Head(t.caller.Ledger)
		if err != nil {
			return err
		}
		at, err := startAt(tx.Events(), t.policy().Replay, t.caller.Ledger, head, w, now)
		if err != nil {
			return err
		}
		b = batch{after: at.after, gap: at.gap, epoch: head.Epoch}
		return b.fill(tx.Events(), t, head.Newest, w.limit)
	})
	return b, err
}

// startAt finds where a reader begins: at its cursor, or later where maxAgeMs says so (contract b.1).
func startAt(events driver.Events, r Replay, ledger string, head driver.Head, w want, now time.Time) (position, error) {
	at := r.read(w.cursor, head)
	if !w.cursor.Set || !w.aged {
		return at, nil
	}
	first, err := events.Since(ledger, now.Add(-w.maxAge))
	if err != nil {
		return at, err
	}
	if first-1 > at.after {
		at = position{after: first - 1, gap: true}
	}
	return at, nil
}

// fill reads on from b.after, up to limit events that concern the reader, the end of the ledger or maxScan.
func (b *batch) fill(events driver.Events, t *target, newest int64, limit int) error {
	for scanned := 0; b.after < newest; {
		page, err := events.Read(t.query(b.after, newest, readPage))
		if err != nil {
			return err
		}
		for i := range page {
			if t.concerns(&page[i]) {
				if len(b.events) == limit {
					b.more = true
					return nil
				}
				b.events = append(b.events, page[i])
			}
			b.after = page[i].Sequence
		}
		if len(page) < readPage {
			b.after = newest
			return nil
		}
		if scanned += len(page); scanned >= maxScan {
			b.more = true
			return nil
		}
	}
	return nil
}

func (t *target) query(after, until int64, limit int) driver.Query {
	return driver.Query{Ledger: t.caller.Ledger, After: after, Until: until, Name: t.kind.Name,
		Subject: t.kind.subjectOf(t.arguments), Audience: t.caller.Principal, Limit: limit}
}

// concerns runs the type's filter. Data was checked when it was emitted, so it parses.
func (t *target) concerns(e *Event) bool {
	if t.kind.Filter == nil {
		return t.kind.wants(t.arguments, nil, e.Subject)
	}
	var data map[string]any
	return json.Unmarshal(e.Data, &data) == nil && t.kind.wants(t.arguments, data, e.Subject)
}

func (t *target) pollResult(b batch) pollResult {
	p := t.policy()
	result := pollResult{Events: []Occurrence{}, Truncated: b.gap, HasMore: b.more, NextPollMs: p.Polling.Next.Milliseconds()}
	cursor := p.Replay.write(b.after, b.epoch)
	result.Cursor = &cursor
	reader := t.readerID()
	for i := range b.events {
		result.Events = append(result.Events, occurrence(&b.events[i], p.EventIDs.wireID(&b.events[i], reader)))
	}
	return result
}

// readerID stands in for a subscription's id where there is none: stable for one principal, type and arguments.
func (t *target) readerID() string {
	key := subscriptionKey(t.caller.Principal, "", t.kind.Name, t.arguments, t.caller.Ledger)
	return "sub_" + key[:t.policy().Identity.Digits]
}

func occurrence(e *Event, id string) Occurrence {
	return Occurrence{EventID: id, Name: e.Name, Timestamp: stamp(e.Time), Data: e.Data, Meta: e.Meta}
}
