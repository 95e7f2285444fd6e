package mcpevents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

const (
	maxControlPosts = 1024 // control bodies that wait to be posted
	controlTries    = 3
	controlWorkers  = 8
)

// Control bodies (contract b.10): a top-level type tells them from events.
type (
	gapBody struct {
		Type   string `json:"type"`
		Cursor string `json:"cursor"`
	}
	terminatedBody struct {
		Type  string `json:"type"`
		Error Wire   `json:"error"`
	}
)

// controlPost is a control body on its way. Posting is best effort: a server that stops forgets it. What it says is not
// lost with it: a gap is told at the next refresh too, and an ended subscription is found to be over by refreshing it.
type controlPost struct {
	sub  Subscription
	id   string
	body []byte
	gap  bool
}

// takesControl reports whether control bodies are posted for a subscription.
func (p *Policy) takesControl(sub *Subscription) bool {
	return p.Control == ControlAll || (p.Control == ControlSEP && Dialect(sub.Dialect) == DialectSEP)
}

func (s *Server) postTerminated(sub Subscription, cause *Error) {
	f := s.family(sub.Family)
	if f == nil || !f.Policy.takesControl(&sub) {
		return
	}
	body := wireJSON(terminatedBody{Type: "terminated", Error: ErrorOf(cause, Dialect(sub.Dialect))})
	s.post(controlPost{sub: sub, id: "msg_terminated_" + randomHex(24), body: body})
}

func (s *Server) postGap(sub Subscription) {
	if f := s.family(sub.Family); f != nil && f.Policy.takesControl(&sub) && !f.Policy.Replay.None {
		s.post(controlPost{sub: sub, id: "msg_gap_" + randomHex(24), gap: true})
	}
}

func (s *Server) post(p controlPost) {
	select {
	case s.posts <- p:
	default:
		s.log.Warn("control body dropped: too many are waiting", "subscription", p.sub.ID, "host", p.sub.Host)
	}
}

// postLoop posts until ctx ends.
func (s *Server) postLoop(ctx context.Context) {
	var workers sync.WaitGroup
	for range controlWorkers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case p := <-s.posts:
					s.carryControl(ctx, p)
				}
			}
		})
	}
	workers.Wait()
}

func (s *Server) carryControl(ctx context.Context, p controlPost) {
	f := s.family(p.sub.Family)
	if p.gap {
		cursor, err := s.gapCursor(ctx, f, &p.sub)
		if err != nil || cursor == "" {
			return // told already, over, or the store is away: the next refresh tells it
		}
		p.body = wireJSON(gapBody{Type: "gap", Cursor: cursor})
	}
	for try := 1; try <= controlTries; try++ {
		if ok := s.tryControl(ctx, f, p); ok || ctx.Err() != nil {
			return
		}
		wait, _ := f.Policy.Schedule.Wait(try)
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

func (s *Server) tryControl(ctx context.Context, f *Family, p controlPost) bool {
	secrets, err := s.openAll(&p.sub, time.Now())
	if err != nil {
		s.log.Error("control body cannot be signed", "subscription", p.sub.ID, "err", err)
		return true
	}
	req, err := s.newPost(ctx, p.sub.URL, p.id, p.sub.ID, secrets, p.body)
	if err != nil {
		return true
	}
	o := s.do(req, f.Policy.Timeout)
	verdict := f.Policy.Verdicts.Judge(o)
	s.log.Info("control body", "subscription", p.sub.ID, "host", p.sub.Host, "status", o.Status, "verdict", string(verdict))
	if verdict == Done && p.gap {
		if err := s.gapTold(ctx, p.sub.ID); err != nil {
			s.log.Warn("gap stays noted", "subscription", p.sub.ID, "err", err)
		}
	}
	return verdict != Again
}

// gapCursor returns the position to go on from, "" when there is nothing to tell any more.
func (s *Server) gapCursor(ctx context.Context, f *Family, sub *Subscription) (cursor string, err error) {
	err = s.db.View(ctx, func(tx driver.Tx) error {
		current, err := tx.Subscriptions().Get(sub.ID)
		if err != nil || !current.Gap || current.State == driver.Ended {
			return err
		}
		head, err := tx.Events().Head(sub.Ledger)
		if err != nil {
			return err
		}
		sequence, err := watermark(tx, f.Policy.Replay, &current, head)
		cursor = f.Policy.Replay.write(sequence, head.Epoch)
		return err
	})
	return cursor, err
}

func (s *Server) gapTold(ctx context.Context, id string) error {
	return s.db.Update(ctx, func(tx driver.Tx) error {
		sub, err := tx.Subscriptions().Get(id)
		if errors.Is(err, driver.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		sub.Gap = false
		return tx.Subscriptions().Save(sub)
	})
}

// listeners are told when a list of event types changed.
type listeners struct {
	mu    sync.Mutex // guards those
	those map[chan struct{}]struct{}
}

// ListChanges returns a channel that gets a value after each change of a list that Announce was told of; several may
// become one. Call stop when done. A transport turns each into notifications/events/list_changed for those of its clients
// that opted in.
func (s *Server) ListChanges() (changes <-chan struct{}, stop func()) {
	l := &s.listeners
	c := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.those == nil {
		l.those = map[chan struct{}]struct{}{}
	}
	l.those[c] = struct{}{}
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.those, c)
	}
}

func (l *listeners) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.those {
		select {
		case c <- struct{}{}:
		default: // it has one waiting
		}
	}
}
