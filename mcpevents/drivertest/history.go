package drivertest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

const (
	histories    = 12
	historySteps = 150
)

// testHistories does the same random things to the store and to a memdriver, and wants the same answers.
func testHistories(t *testing.T, open Open) {
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := &history{rand: rand.New(rand.NewPCG(seed, 1)), suites: [2]*suite{{t, open(t)}, {t, memdriver.New()}}}
			for step := range historySteps {
				h.now += h.rand.IntN(4)
				op := h.pick()
				h.both(fmt.Sprintf("step %d: %s", step, op.name), op.do)
				if t.Failed() {
					return
				}
			}
			h.both("at the end", h.dump)
		})
	}
}

// history is a random life of two stores.
type history struct {
	rand   *rand.Rand
	suites [2]*suite
	now    int
	leases []driver.Settlement
}

type operation struct {
	name string
	do   func(tx driver.Tx) (any, error)
}

// both does one thing to each store in a transaction and compares what they answer. One in eight is rolled back.
func (h *history) both(what string, do func(driver.Tx) (any, error)) {
	var answers [2]any
	undo := h.rand.IntN(8) == 0
	for i, s := range h.suites {
		err := s.db.Update(s.Context(), func(tx driver.Tx) error {
			var err error
			if answers[i], err = do(tx); err == nil && undo {
				err = errOurs
			}
			return err
		})
		if err != nil && !errors.Is(err, errOurs) {
			s.Errorf("%s: %v", what, err)
		}
	}
	if diff := gocmp.Diff(answers[1], answers[0]); diff != "" {
		h.suites[0].Errorf("%s (-memdriver +store):\n%s", what, diff)
	}
}

func (h *history) someSub() string { return fmt.Sprint("s", h.rand.IntN(5)) }

// pick chooses an operation and everything random about it, so that both stores get the same.
func (h *history) pick() operation {
	ops := []func() operation{h.append, h.append, h.save, h.queue, h.queue, h.queue, h.claim, h.claim, h.settle, h.settle,
		h.drop, h.overdue, h.postpone, h.forget, h.look}
	return ops[h.rand.IntN(len(ops))]()
}

func (h *history) append() operation {
	id, audience := fmt.Sprint(h.rand.IntN(200)), []string{"", "p"}[h.rand.IntN(2)]
	now := at(h.now)
	return operation{"append", func(tx driver.Tx) (any, error) {
		e := driver.Event{Ledger: "l", ID: id, Name: "e", Audience: audience, Time: now, Recorded: now, Data: []byte(`{}`)}
		err := tx.Events().Append(&e)
		if errors.Is(err, driver.ErrExists) {
			err = nil
		}
		return e, err
	}}
}

func (h *history) save() operation {
	sub := subscription(h.someSub(), func(x *driver.Subscription) {
		x.Host = "h"
		x.Strict = x.ID < "s2"
		x.State = []driver.State{driver.Active, driver.Active, driver.Active, driver.Suspended, driver.Ended}[h.rand.IntN(5)]
		if h.rand.IntN(4) == 0 {
			x.Expires = at(h.now + h.rand.IntN(20))
		}
		x.Changed = at(h.now)
	})
	return operation{"save", func(tx driver.Tx) (any, error) { return nil, tx.Subscriptions().Save(sub) }}
}

func (h *history) queue() operation {
	id, back, delay := h.someSub(), int64(h.rand.IntN(6)), h.rand.IntN(10)
	now := h.now
	return operation{"queue", func(tx driver.Tx) (any, error) {
		head, err := tx.Events().Head("l")
		sequence := head.Newest - back
		if err != nil || sequence <= head.Forgotten {
			return "nothing there", err
		}
		if _, err := tx.Subscriptions().Get(id); errors.Is(err, driver.ErrNotFound) {
			return "nobody there", nil
		}
		d := pending(id, sequence, at(now+delay))
		d.Deadline = at(now + 10 + 7*delay)
		return nil, tx.Deliveries().Queue([]driver.Delivery{d})
	}}
}

// claim keeps the leases of the first store, for settle; those of a rolled back claim become stale ones.
func (h *history) claim() operation {
	p := driver.ClaimParams{Now: at(h.now), Until: at(h.now + 5), Limit: 1000, PerLane: 1000, PerHost: 1000}
	return operation{"claim", func(tx driver.Tx) (any, error) {
		leases, err := tx.Deliveries().Claim(p)
		slices.SortFunc(leases, func(a, b driver.Lease) int {
			return cmp.Or(cmp.Compare(a.Delivery.Subscription, b.Delivery.Subscription), cmp.Compare(a.Delivery.Sequence, b.Delivery.Sequence))
		})
		h.leases = h.leases[max(0, len(h.leases)-10):]
		for i := range leases {
			leases[i].Epoch = ""
			h.leases = append(h.leases, settlement(leases[i], driver.Delivered, at(h.now)))
		}
		return leases, err
	}}
}

func (h *history) settle() operation {
	if len(h.leases) == 0 {
		return h.look()
	}
	s := h.leases[h.rand.IntN(len(h.leases))]
	s.State = []driver.DeliveryState{driver.Pending, driver.Delivered, driver.Dropped}[h.rand.IntN(3)]
	s.At, s.Due = at(h.now), at(h.now+h.rand.IntN(10))
	return operation{"settle", func(tx driver.Tx) (any, error) { return tx.Deliveries().Settle([]driver.Settlement{s}) }}
}

func (h *history) drop() operation {
	id, limit, now := h.someSub(), 1+h.rand.IntN(3), at(h.now)
	return operation{"drop", func(tx driver.Tx) (any, error) { return tx.Deliveries().Drop(id, "why", now, limit) }}
}

func (h *history) overdue() operation {
	now := at(h.now)
	return operation{"overdue", func(tx driver.Tx) (any, error) {
		n, err := tx.Deliveries().Overdue(now, "late", 1000)
		return len(n), err
	}}
}

func (h *history) postpone() operation {
	id, now := h.someSub(), at(h.now)
	return operation{"postpone", func(tx driver.Tx) (any, error) {
		if _, err := tx.Subscriptions().Get(id); errors.Is(err, driver.ErrNotFound) {
			return "nobody there", nil
		}
		return nil, tx.Deliveries().Postpone(id, 3*time.Second, now)
	}}
}

func (h *history) forget() operation {
	cutoff, kind := at(h.now-60), h.rand.IntN(3)
	return operation{"forget", func(tx driver.Tx) (any, error) {
		switch kind {
		case 0:
			return tx.Events().Forget(cutoff, 1000)
		case 1:
			return tx.Subscriptions().Forget(cutoff, 1000)
		}
		return tx.Deliveries().Forget(cutoff, 1000)
	}}
}

func (h *history) look() operation { return operation{"look", h.dump} }

// dump reads everything there is.
func (h *history) dump(tx driver.Tx) (any, error) {
	all := map[string]any{}
	head, err := tx.Events().Head("l")
	head.Epoch = ""
	all["head"] = head
	events, err2 := tx.Events().Read(driver.Query{Ledger: "l", Audience: "p", Limit: 1000})
	all["events"] = events
	subs, err3 := tx.Subscriptions().List(driver.Filter{Limit: 1000})
	all["subscriptions"] = subs
	matching, err4 := tx.Subscriptions().Matching("f", "l", "e", "", at(h.now))
	all["matching"] = matching
	due, err5 := tx.Deliveries().NextDue(at(h.now))
	all["due"] = due
	errs := []error{err, err2, err3, err4, err5}
	for _, sub := range subs {
		ds, err := tx.Deliveries().List(sub.ID, 0, 1000)
		all["deliveries of "+sub.ID] = ds
		errs = append(errs, err)
		for _, d := range ds {
			log, err := tx.Deliveries().Attempts(sub.ID, d.Sequence, 100)
			all[fmt.Sprint("attempts of ", sub.ID, d.Sequence)] = log
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}
