package mcpevents

import (
	"context"
	"errors"
	"log/slog"

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
	for i := range rs {
		if held[i] && rs[i].attempted {
			if err := s.takeNote(tx, &rs[i], &done); err != nil {
				return settled{}, err
			}
		}
	}
	return done, nil
}

// takeNote records what an attempt says about its destination, and acts on it.
func (s *Server) takeNote(tx driver.Tx, r *result, done *settled) error {
	sub, err := tx.Subscriptions().Get(r.lease.Subscription.ID)
	if errors.Is(err, driver.ErrNotFound) || (err == nil && sub.State == driver.Ended) {
		return nil
	}
	if err != nil {
		return err
	}
	p := &s.family(sub.Family).Policy
	sub.Health = observe(sub.Health, r.outcome, r.category, millis(r.ended), p.Suspension.Window)
	switch {
	case r.verdict == End:
		if sub, err = endSubscription(tx, sub, ReasonGone, millis(r.ended)); err != nil {
			return err
		}
	case sub.State == driver.Active && p.Suspension.suspends(sub.Health, millis(r.ended)):
		sub.State, sub.Reason, sub.Changed = driver.Suspended, ReasonFailing, millis(r.ended)
		if err := tx.Subscriptions().Save(sub); err != nil {
			return err
		}
	default:
		return tx.Subscriptions().SetHealth(sub.ID, sub.Health)
	}
	done.changed = append(done.changed, sub)
	return nil
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
