package mcpevents

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/internal/canonical"
)

// maxBody is the largest webhook body: 256 KiB, hard for some receivers.
const maxBody = 256 << 10

// ErrTooLarge says that an event would not fit a webhook body of 256 KiB.
var ErrTooLarge = errors.New("mcpevents: event larger than 256 KiB")

// Emitted is what became of an emission.
type Emitted struct {
	Event Event
	// Duplicate says that the ledger had an event with that ID already; nothing was stored or queued.
	Duplicate bool
	// Queued is how many deliveries were queued.
	Queued int
}

// Emit records an event and queues its deliveries in a transaction of its own. When it returns, both are as durable as
// the store. On an error the outcome may be unknown; emitting again with the same ID is safe.
func (s *Server) Emit(ctx context.Context, e Emission) (done Emitted, err error) {
	err = s.db.Update(ctx, func(tx driver.Tx) (err error) {
		done, err = s.EmitTx(tx, e)
		return err
	})
	if err != nil {
		return Emitted{}, err
	}
	s.Wake(e.Ledger)
	return done, nil
}

// EmitTx does what Emit does within the caller's own transaction: a fact and its event commit together, or neither. Call
// Wake after the commit. The error says what is wrong with the emission, or is the store's; the transaction should then
// be rolled back.
func (s *Server) EmitTx(tx driver.Tx, e Emission) (Emitted, error) {
	now := millis(time.Now())
	f, t := s.typeOf(e.Ledger, e.Name)
	if t == nil {
		return Emitted{}, fmt.Errorf("mcpevents: emit: there is no event type %q", e.Name)
	}
	event, data, err := t.prepare(e, now)
	if err != nil {
		return Emitted{}, fmt.Errorf("mcpevents: emit %s: %w", e.Name, err)
	}
	if err := tx.Events().Append(&event); errors.Is(err, driver.ErrExists) {
		return Emitted{Event: event, Duplicate: true}, nil
	} else if err != nil {
		return Emitted{}, fmt.Errorf("mcpevents: emit %s: append: %w", e.Name, err)
	}
	n, err := s.fanOut(tx, f, t, &event, data, now)
	if err != nil {
		return Emitted{}, fmt.Errorf("mcpevents: emit %s: queue: %w", e.Name, err)
	}
	return Emitted{Event: event, Queued: n}, nil
}

// typeOf finds an event type on a ledger.
func (s *Server) typeOf(ledger, name string) (*Family, *EventType) {
	for _, f := range s.families {
		if t := f.catalog(ledger).Lookup(name); t != nil {
			return f, t
		}
	}
	return nil, nil
}

// prepare turns an emission into an event, and its payload as parsed.
func (t *EventType) prepare(e Emission, now time.Time) (Event, map[string]any, error) {
	event := Event{Ledger: e.Ledger, ID: e.ID, Name: e.Name, Subject: e.Subject, Audience: e.Audience,
		Time: e.Time, Recorded: now}
	if event.ID == "" {
		event.ID = "evt_" + rand.Text()
	}
	if !validEventID(event.ID) {
		return event, nil, fmt.Errorf("an event id has 1 to %d of A-Z a-z 0-9 and _-: as characters", maxEventID)
	}
	if event.Time.IsZero() {
		event.Time = now
	}
	var err error
	if event.Data, err = rawJSON(e.Data); err != nil {
		return event, nil, err
	}
	data, err := t.checkPayload(event.Data)
	if err != nil {
		return event, nil, fmt.Errorf("data does not fit payloadSchema: %w", err)
	}
	if event.Meta, err = rawMeta(e.Meta); err != nil {
		return event, nil, err
	}
	if len(event.Data)+len(event.Meta)+len(event.Name)+512 > maxBody {
		return event, nil, ErrTooLarge
	}
	return event, data, nil
}

func rawJSON(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode data: %w", err)
	}
	return raw, nil
}

func rawMeta(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := rawJSON(v)
	if err != nil {
		return nil, err
	}
	parsed, err := canonical.Parse(raw)
	if _, ok := parsed.(map[string]any); err != nil || !ok {
		return nil, errors.New("meta must be a JSON object")
	}
	return raw, nil
}

// fanOut queues the event for every subscription that it concerns.
func (s *Server) fanOut(tx driver.Tx, f *Family, t *EventType, e *Event, data map[string]any, now time.Time) (int, error) {
	candidates, err := tx.Subscriptions().Matching(f.Name, e.Ledger, e.Name, e.Audience, now)
	if err != nil || len(candidates) == 0 {
		return 0, err
	}
	ds := make([]Delivery, 0, len(candidates))
	parse := argumentReader()
	for i := range candidates {
		c := &candidates[i]
		arguments, err := parse(c.Arguments)
		if err != nil {
			return 0, fmt.Errorf("arguments of subscription %s: %w", c.ID, err)
		}
		if !t.wants(arguments, data, e.Subject) {
			continue
		}
		if err := s.makeRoom(tx, f, c, now); err != nil {
			return 0, err
		}
		ds = append(ds, f.deliveryOf(&c.Subscription, e, bodyCursor(&f.Policy, t, e.Sequence, c.Oldest), now))
	}
	return len(ds), tx.Deliveries().Queue(ds)
}

// argumentReader parses arguments, each distinct text once.
func argumentReader() func([]byte) (map[string]any, error) {
	seen := map[string]map[string]any{"{}": {}}
	return func(raw []byte) (map[string]any, error) {
		if m, ok := seen[string(raw)]; ok {
			return m, nil
		}
		v, err := canonical.Parse(raw)
		m, _ := v.(map[string]any)
		seen[string(raw)] = m
		return m, err
	}
}

// makeRoom drops the oldest waiting delivery of a subscription that has as many as its quota allows, and notes the gap.
func (s *Server) makeRoom(tx driver.Tx, f *Family, c *driver.Candidate, now time.Time) error {
	if limit := f.Policy.Quotas.Waiting; limit < 0 || c.Waiting < limit {
		return nil
	}
	if _, err := tx.Deliveries().Drop(c.ID, ReasonOverflow, now, c.Waiting-f.Policy.Quotas.Waiting+1); err != nil {
		return err
	}
	if c.Gap {
		return nil
	}
	c.Gap = true
	return tx.Subscriptions().Save(c.Subscription)
}

// bodyCursor is the position that a delivery's body carries, negative for null. Under strict order nothing older can be
// outstanding when it is sent; otherwise it must not pass the oldest delivery that waits now (contract b.9).
func bodyCursor(p *Policy, t *EventType, sequence, oldest int64) int64 {
	switch {
	case p.Replay.None || t.NoReplay:
		return -1
	case p.Order.Strict || oldest == 0 || oldest >= sequence:
		return sequence
	}
	return oldest - 1
}

func (f *Family) deliveryOf(sub *Subscription, e *Event, cursor int64, now time.Time) Delivery {
	d := Delivery{Subscription: sub.ID, Sequence: e.Sequence, Ledger: e.Ledger, State: driver.Pending, Cursor: cursor,
		Queued: now, Due: now}
	if f.Policy.Deadline > 0 {
		d.Deadline = now.Add(f.Policy.Deadline)
	}
	if f.Hold != nil {
		if d.Reason = f.Hold(e.Ledger); d.Reason != "" {
			d.State, d.Settled = driver.Held, now
		}
	}
	return d
}

// queueAll queues events for one subscription, oldest first: the replay of a subscribe call.
func (s *Server) queueAll(tx driver.Tx, f *Family, sub *Subscription, events []Event, now time.Time) error {
	if len(events) == 0 {
		return nil
	}
	oldest, err := tx.Deliveries().Oldest(sub.ID)
	if err != nil {
		return err
	}
	t := f.catalog(sub.Ledger).Lookup(sub.Name)
	ds := make([]Delivery, len(events))
	for i := range events {
		ds[i] = f.deliveryOf(sub, &events[i], bodyCursor(&f.Policy, t, events[i].Sequence, oldest), now)
		if oldest == 0 || oldest > events[i].Sequence {
			oldest = events[i].Sequence
		}
	}
	return tx.Deliveries().Queue(ds)
}

// Wake tells the server that a ledger grew: call it after a transaction with EmitTx committed, and when another process
// says so. It is a hint that spares a wait; without it the server finds out by itself within Engine.PollEvery. "" only
// wakes the deliveries.
func (s *Server) Wake(ledger string) {
	s.hub.tell(ledger)
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}
