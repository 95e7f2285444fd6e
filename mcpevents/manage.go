package mcpevents

import (
	"context"
	"errors"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// ErrNotFound says that there is no such subscription or delivery.
var ErrNotFound = driver.ErrNotFound

// ErrEnded says that a subscription is over, so that nothing can be sent for it.
var ErrEnded = errors.New("mcpevents: the subscription has ended")

// SubscriptionFilter selects subscriptions; see driver.Filter.
type SubscriptionFilter = driver.Filter

// Subscriptions returns what f selects, ordered by id. A zero Limit is 100.
func (s *Server) Subscriptions(ctx context.Context, f SubscriptionFilter) (found []Subscription, err error) {
	orElse(&f.Limit, 100)
	if f.Live && f.Now.IsZero() {
		f.Now = time.Now()
	}
	err = s.db.View(ctx, func(tx driver.Tx) (err error) {
		found, err = tx.Subscriptions().List(f)
		return err
	})
	return found, err
}

// Subscription returns one, or ErrNotFound.
func (s *Server) Subscription(ctx context.Context, id string) (sub Subscription, err error) {
	err = s.db.View(ctx, func(tx driver.Tx) (err error) {
		sub, err = tx.Subscriptions().Get(id)
		return err
	})
	return sub, err
}

// Logged is a delivery with its newest attempts, newest first.
type Logged struct {
	Delivery
	Log []Attempt
}

const loggedAttempts = 20

// Deliveries returns up to limit deliveries of a subscription with a sequence below before (0 for the newest), newest
// first, each with up to 20 attempts.
func (s *Server) Deliveries(ctx context.Context, subscription string, before int64, limit int) (found []Logged, err error) {
	err = s.db.View(ctx, func(tx driver.Tx) error {
		found = nil
		ds, err := tx.Deliveries().List(subscription, before, limit)
		if err != nil {
			return err
		}
		for _, d := range ds {
			log, err := tx.Deliveries().Attempts(subscription, d.Sequence, loggedAttempts)
			if err != nil {
				return err
			}
			found = append(found, Logged{d, log})
		}
		return nil
	})
	return found, err
}

// Resend queues a delivery again, whatever became of it, with a whole schedule before it. It keeps its event id, and its
// attempts are marked manual. One that is pending stays as it is: it is attempted anyway. ErrNotFound when there is no such delivery or its
// event is forgotten, ErrEnded when the subscription is over.
func (s *Server) Resend(ctx context.Context, subscription string, sequence int64) error {
	now := millis(time.Now())
	err := s.db.Update(ctx, func(tx driver.Tx) error {
		l, err := tx.Deliveries().Leased(subscription, sequence)
		switch {
		case err != nil:
			return err
		case !isLive(&l.Subscription, now):
			return ErrEnded
		case l.Event.Sequence == 0:
			return ErrNotFound
		}
		f := s.family(l.Subscription.Family)
		if f == nil {
			return ErrNotFound
		}
		d := f.deliveryOf(&l.Subscription, &l.Event, l.Delivery.Cursor, now)
		d.Manual = true
		return tx.Deliveries().Queue([]Delivery{d})
	})
	if err == nil {
		s.Wake("")
	}
	return err
}

// Sample posts a signed event that is none to a subscription's destination and reports what came of it; nothing is
// stored. data must be a JSON object; it is for people to see whether their receiver works.
func (s *Server) Sample(ctx context.Context, subscription string, data any) (Outcome, Verdict, error) {
	sub, err := s.Subscription(ctx, subscription)
	if err != nil {
		return Outcome{}, "", err
	}
	f := s.family(sub.Family)
	raw, err := rawMeta(data)
	switch {
	case sub.State == driver.Ended || f == nil:
		return Outcome{}, "", ErrEnded
	case err != nil:
		return Outcome{}, "", err
	}
	secrets, err := s.openAll(&sub, time.Now())
	if err != nil {
		return Outcome{}, "", err
	}
	id := "evt_sample_" + randomHex(24)
	body := render(placed{Occurrence: Occurrence{EventID: id, Name: sub.Name, Timestamp: stamp(time.Now()), Data: raw}})
	req, err := s.newPost(ctx, sub.URL, id, sub.ID, secrets, body)
	if err != nil {
		return Outcome{}, "", err
	}
	o := s.do(req, f.Policy.Timeout)
	return o, f.Policy.Verdicts.Judge(o), nil
}
