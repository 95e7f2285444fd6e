package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// Reasons why a subscription is over or suspended, and why a delivery was dropped.
const (
	ReasonUnsubscribed = "unsubscribed" // by its client
	ReasonLapsed       = "lapsed"       // not refreshed in time
	ReasonGone         = "gone"         // the destination answered 410
	ReasonRevoked      = "revoked"      // the principal may not any more
	ReasonRemoved      = "removed"      // the event type is gone, or changed beyond what its readers can expect
	ReasonFailing      = "failing"      // suspended: see Suspension
	ReasonEnded        = "ended"        // dropped: its subscription ended first
	ReasonTooLarge     = "too_large"    // dropped: 413
	ReasonRefused      = "refused"      // dropped: an answer that the policy does not repeat
	ReasonExhausted    = "exhausted"    // dropped: the last attempt failed
	ReasonDeadline     = "deadline"     // dropped: too old
	ReasonOverflow     = "overflow"     // dropped: more were waiting than the quota allows
)

const dropStep = 1000 // deliveries dropped by one statement

// dropAll drops everything that waits for a subscription.
func dropAll(deliveries driver.Deliveries, id, reason string, at time.Time) error {
	for {
		n, err := deliveries.Drop(id, reason, at, dropStep)
		if err != nil || n < dropStep {
			return err
		}
	}
}

// endSubscription ends sub: nothing of it is claimed from this transaction on.
func endSubscription(tx driver.Tx, sub Subscription, reason string, now time.Time) (Subscription, error) {
	sub.State, sub.Reason, sub.Changed = driver.Ended, reason, now
	if err := tx.Subscriptions().Save(sub); err != nil {
		return sub, err
	}
	return sub, dropAll(tx.Deliveries(), sub.ID, ReasonEnded, now)
}

// ended tells of a subscription that has just ended.
func (s *Server) ended(sub Subscription) {
	s.log.Info("subscription ended", "subscription", sub.ID, "event_type", sub.Name, "host", sub.Host, "reason", sub.Reason)
	s.watch.Ended(sub)
}

// EndTx ends a subscription within the caller's transaction: nothing more is sent for it once that commits, except an
// attempt that is on the wire. ErrNotFound when there is none; ending it twice changes nothing.
func (s *Server) EndTx(tx driver.Tx, id, reason string) error {
	sub, err := tx.Subscriptions().Get(id)
	if err != nil || sub.State == driver.Ended {
		return err
	}
	_, err = endSubscription(tx, sub, reason, millis(time.Now()))
	return err
}

// End ends a subscription in a transaction of its own and posts a terminated body where the policy wants one.
func (s *Server) End(ctx context.Context, id, reason string) error {
	var sub Subscription
	var before driver.State
	err := s.db.Update(ctx, func(tx driver.Tx) (err error) {
		if sub, err = tx.Subscriptions().Get(id); err != nil {
			return err
		}
		if before = sub.State; before == driver.Ended {
			return nil
		}
		sub, err = endSubscription(tx, sub, reason, millis(time.Now()))
		return err
	})
	if err == nil && before != driver.Ended {
		s.ended(sub)
		s.postTerminated(sub, forbidden(reason))
	}
	return err
}

func forbidden(reason string) *Error {
	e := &Error{Meaning: Forbidden, Message: "access was withdrawn"}
	return e.with("reason", reason)
}

// RevokeTx ends every subscription of a principal, of all families, within the caller's transaction. Call Revoked after
// it committed.
func (s *Server) RevokeTx(tx driver.Tx, principal string) error {
	_, err := revoke(tx, principal)
	return err
}

// revoke ends a principal's subscriptions and returns them.
func revoke(tx driver.Tx, principal string) (over []Subscription, err error) {
	if principal == "" {
		return nil, errors.New("mcpevents: revoke nobody")
	}
	f := driver.Filter{Principal: principal, Live: true, Limit: 100}
	for {
		page, err := tx.Subscriptions().List(f)
		if err != nil {
			return nil, err
		}
		for _, sub := range page {
			if sub, err = endSubscription(tx, sub, ReasonRevoked, millis(time.Now())); err != nil {
				return nil, err
			}
			over, f.After = append(over, sub), sub.ID
		}
		if len(page) < f.Limit {
			return over, nil
		}
	}
}

// Revoked ends the open streams of a principal whose subscriptions RevokeTx ended.
func (s *Server) Revoked(principal string) {
	s.hub.end(func(st *stream) *ending {
		if st.caller.Principal != principal {
			return nil
		}
		return &ending{cause: forbidden(ReasonRevoked)}
	})
}

// Revoke does RevokeTx in a transaction of its own, and Revoked, and posts a terminated body for each subscription where
// the policy wants one.
func (s *Server) Revoke(ctx context.Context, principal string) error {
	var over []Subscription
	err := s.db.Update(ctx, func(tx driver.Tx) (err error) {
		over, err = revoke(tx, principal)
		return err
	})
	if err != nil {
		return fmt.Errorf("mcpevents: revoke: %w", err)
	}
	s.Revoked(principal)
	for _, sub := range over {
		s.ended(sub)
		s.postTerminated(sub, forbidden(ReasonRevoked))
	}
	return nil
}

// Announce tells clients of a change of a catalog: listeners that the list changed, and subscribers of types that are
// gone or broken that their subscription is over. ledger restricts the latter to one ledger; "" is all.
func (s *Server) Announce(ctx context.Context, family, ledger string, c Change) error {
	causes := map[string]*Error{}
	for _, name := range c.Removed {
		e := &Error{Meaning: NotFound, Message: "the event type was removed"}
		causes[name] = e.with("kind", "event")
	}
	for name, schema := range c.Broken {
		e := &Error{Meaning: Unsupported, Message: "the event type changed"}
		causes[name] = e.with("feature", schema).with("reason", "schema_changed")
	}
	s.hub.end(func(st *stream) *ending {
		cause := causes[st.kind.Name]
		if cause == nil || st.family.Name != family || (ledger != "" && st.caller.Ledger != ledger) {
			return nil
		}
		return &ending{cause: cause}
	})
	if c.Listed {
		s.listeners.tell()
	}
	if len(causes) == 0 {
		return nil
	}
	return s.endTypes(ctx, driver.Filter{Family: family, Ledger: ledger, Live: true, Now: millis(time.Now()), Limit: 100}, causes)
}

func (s *Server) endTypes(ctx context.Context, f driver.Filter, causes map[string]*Error) error {
	for {
		var page, over []Subscription
		err := s.db.Update(ctx, func(tx driver.Tx) (err error) {
			over = over[:0]
			if page, err = tx.Subscriptions().List(f); err != nil {
				return err
			}
			for _, sub := range page {
				if causes[sub.Name] == nil {
					continue
				}
				sub, err = endSubscription(tx, sub, ReasonRemoved, f.Now)
				if err != nil {
					return err
				}
				over = append(over, sub)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("mcpevents: end subscriptions of changed types: %w", err)
		}
		for _, sub := range over {
			s.ended(sub)
			s.postTerminated(sub, causes[sub.Name])
		}
		if len(page) < f.Limit {
			return nil
		}
		f.After = page[len(page)-1].ID
	}
}
