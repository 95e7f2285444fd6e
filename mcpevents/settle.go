package mcpevents

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// settled is what a transaction stored, to be told of once it committed.
type settled struct {
	results []result
	held    []bool
	changed []Subscription // ended or suspended
}

// settle stores outcomes. A lease that has moved on is left alone: somebody else has that delivery, or it is settled by
// an earlier try of this very transaction whose answer was lost.
func (s *Server) settle(tx driver.Tx, rs []result) (settled, error) {
	if len(rs) == 0 {
		return settled{}, nil
	}
	batch := make([]driver.Settlement, len(rs))
	for i := range rs {
		batch[i] = rs[i].settlement
	}
	held, err := tx.Deliveries().Settle(batch)
	if err != nil {
		return settled{}, err
	}
	done := settled{results: append([]result(nil), rs...), held: held}
	notes := map[string]*note{}
	for i := range rs {
		if held[i] && rs[i].attempted {
			if err := s.takeNote(tx, &rs[i], notes); err != nil {
				return settled{}, err
			}
		}
	}
	for _, n := range notes {
		if err := n.write(tx, &done); err != nil {
			return settled{}, err
		}
	}
	return done, nil
}

// note is what the attempts of one transaction say about a subscription's destination.
type note struct {
	sub     Subscription
	over    bool // it was ended before
	changed bool // its state has changed
}

// takeNote adds what an attempt says about its destination.
func (s *Server) takeNote(tx driver.Tx, r *result, notes map[string]*note) error {
	id := r.lease.Subscription.ID
	n := notes[id]
	if n == nil {
		sub, err := tx.Subscriptions().Get(id)
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			return err
		}
		n = &note{sub: sub, over: err != nil || sub.State == driver.Ended}
		notes[id] = n
	}
	if n.over || n.sub.State == driver.Ended {
		return nil
	}
	at := millis(r.ended)
	p := &s.family(n.sub.Family).Policy
	n.sub.Health = observe(n.sub.Health, r.outcome, r.category, at, p.Suspension.Window)
	switch {
	case r.verdict == End:
		n.become(driver.Ended, ReasonGone, at)
	case n.sub.State == driver.Active && p.Suspension.suspends(n.sub.Health, at):
		n.become(driver.Suspended, ReasonFailing, at)
	}
	return nil
}

func (n *note) become(state driver.State, reason string, at time.Time) {
	n.sub.State, n.sub.Reason, n.sub.Changed, n.changed = state, reason, at, true
}

func (n *note) write(tx driver.Tx, done *settled) error {
	switch {
	case n.over:
		return nil
	case !n.changed:
		return tx.Subscriptions().SetHealth(n.sub.ID, n.sub.Health)
	}
	done.changed = append(done.changed, n.sub)
	if n.sub.State == driver.Ended {
		_, err := endSubscription(tx, n.sub, n.sub.Reason, n.sub.Changed)
		return err
	}
	return tx.Subscriptions().Save(n.sub)
}

// report tells of what was stored: one line and one observation for each attempt, and for each change.
func (s *Server) report(done settled) {
	for i := range done.results {
		r := &done.results[i]
		if r.attempted {
			s.reportAttempt(r, done.held[i])
		}
	}
	for _, sub := range done.changed {
		if sub.State == driver.Ended {
			s.ended(sub)
			continue
		}
		s.log.Warn("subscription suspended", "subscription", sub.ID, "event_type", sub.Name, "host", sub.Host, "reason", sub.Reason)
		s.watch.Suspended(sub)
	}
}

func (s *Server) reportAttempt(r *result, held bool) {
	l := &r.lease
	if s.log.Enabled(context.Background(), slog.LevelInfo) {
		s.logAttempt(r)
	}
	s.watch.Attempted(AttemptReport{Subscription: l.Subscription, Event: l.Event, Tries: l.Delivery.Tries + 1,
		Outcome: r.outcome, Verdict: r.verdict, Category: r.category, State: r.settlement.State, Next: r.settlement.Due,
		Waited: r.ended.Sub(l.Delivery.Queued), Stale: !held})
	if l.Subscription.Gap && r.verdict == Done {
		s.postGap(l.Subscription)
	}
}

func (s *Server) logAttempt(r *result) {
	l := &r.lease
	s.log.Info("attempt", "subscription", l.Subscription.ID, "event_type", l.Event.Name, "sequence", l.Delivery.Sequence,
		"host", l.Subscription.Host, "attempt", l.Delivery.Attempts+1, "status", r.outcome.Status,
		"category", string(r.category), "verdict", string(r.verdict), "elapsed_ms", r.outcome.Elapsed.Milliseconds())
}
