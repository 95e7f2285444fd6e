package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

func testStrictClaim(s *suite) {
	s.append("l", 3)
	s.save(subscription("s"))
	s.queue(pending("s", 3, at(0)), pending("s", 2, at(5)), pending("s", 1, at(9)))
	s.claims(at(8)) // the oldest is not due, the others wait behind it
	leases := s.claims(at(9), "s/1#1")
	s.same("its event", "l1", leases[0].Event.ID)
	s.same("its subscription", "key-s", leases[0].Subscription.Key)
	s.same("leased until", at(19), leases[0].Delivery.Due)
	s.same("leased", true, leases[0].Delivery.Leased)
	s.claims(at(10)) // one is under way
	s.settle(settlement(leases[0], driver.Delivered, at(11)))
	s.claims(at(11), "s/2#1")
}

func testFreeClaim(s *suite) {
	s.append("l", 5)
	s.save(subscription("s", free))
	for i := int64(1); i <= 5; i++ {
		s.queue(pending("s", i, at(6-int(i))))
	}
	leases := s.claims(at(2), "s/5#1", "s/4#1") // longest due first
	s.claims(at(9))                             // two are under way, as many as may be
	s.settle(settlement(leases[0], driver.Pending, at(30)))
	s.claims(at(9), "s/3#1")
	s.settle(settlement(leases[1], driver.Delivered, at(9)))
	s.claims(at(9), "s/2#1")
}

func testClaimBounds(s *suite) {
	s.append("l", 6)
	wide := func(x *driver.Subscription) { x.Strict, x.Parallel = false, 99 }
	for _, id := range []string{"a", "b"} {
		s.save(subscription(id, wide, func(x *driver.Subscription) { x.Host = "one" }))
	}
	s.save(subscription("c", wide))
	for i := int64(1); i <= 6; i++ {
		for k, id := range []string{"a", "b", "c"} {
			s.queue(pending(id, i, at(k)))
		}
	}
	count := func(want int, change func(*driver.ClaimParams)) {
		s.Helper()
		total := 0
		err := s.db.Update(s.Context(), func(tx driver.Tx) error {
			p := driver.ClaimParams{Now: at(50), Until: at(60), Limit: 100, PerLane: 100, PerHost: 100}
			change(&p)
			leases, err := tx.Deliveries().Claim(p)
			total = len(leases)
			return errors.Join(err, errOurs) // nothing stays
		})
		s.fails("rollback", err, errOurs)
		s.same("claimed", want, total)
	}
	count(18, func(*driver.ClaimParams) {})
	count(5, func(p *driver.ClaimParams) { p.Limit = 5 })
	count(6, func(p *driver.ClaimParams) { p.PerLane = 2 })
	count(10, func(p *driver.ClaimParams) { p.PerHost = 5; p.PerLane = 5 })
	count(6, func(p *driver.ClaimParams) { p.BusyHosts = []string{"one"} })
	count(0, func(p *driver.ClaimParams) { p.BusyHosts = []string{"one", "c.example.com"} })
}

func testClaimExcludes(s *suite) {
	s.append("l", 1)
	s.save(subscription("active"), subscription("ended"), subscription("suspended"),
		subscription("lapses", func(x *driver.Subscription) { x.Expires = at(10) }), subscription("held"))
	for _, id := range []string{"active", "ended", "suspended", "lapses"} {
		s.queue(pending(id, 1, at(0)))
	}
	held := pending("held", 1, at(0))
	held.State, held.Reason, held.Settled = driver.Held, "test", at(0)
	s.queue(held)
	s.save(subscription("ended", func(x *driver.Subscription) { x.State = driver.Ended }),
		subscription("suspended", func(x *driver.Subscription) { x.State = driver.Suspended }))
	s.claims(at(10), "active/1#1")
	s.save(subscription("suspended"), subscription("lapses", func(x *driver.Subscription) { x.Expires = at(99) }))
	s.same("those that live again", 2, len(s.claim(at(11))))
}

func testRescue(s *suite) {
	s.append("l", 2)
	s.save(subscription("strict"), subscription("free", free, func(x *driver.Subscription) { x.Parallel = 1 }))
	for _, id := range []string{"strict", "free"} {
		s.queue(pending(id, 1, at(0)), pending(id, 2, at(0)))
	}
	first := s.claim(at(0))
	s.same("claimed", 2, len(first))
	s.same("while leased", 0, len(s.claim(at(9))))
	again := s.claim(at(10))
	s.same("after the lease", 2, len(again))
	for _, l := range again {
		s.same("the same delivery", int64(1), l.Delivery.Sequence)
		s.same("by a new number", int64(2), l.Delivery.Lease)
	}
}

func testFencing(s *suite) {
	s.append("l", 1)
	s.save(subscription("s"))
	s.queue(pending("s", 1, at(0)))
	old := s.claims(at(0), "s/1#1")[0]
	next := s.claims(at(10), "s/1#2")[0]
	s.same("the old lease holds", []bool{false}, s.settle(settlement(old, driver.Delivered, at(11))))
	s.same("attempts", 0, s.get("s", 1).Delivery.Attempts)
	s.same("the new lease holds", []bool{true}, s.settle(settlement(next, driver.Pending, at(20))))
	s.same("settling twice", []bool{false}, s.settle(settlement(next, driver.Delivered, at(12))))
	last := s.claims(at(20), "s/1#3")[0]
	s.same("in one batch", []bool{true, false}, s.settle(settlement(last, driver.Delivered, at(21)), settlement(last, driver.Delivered, at(21))))
	s.same("of nothing", []bool{false}, s.settle(driver.Settlement{Subscription: "none", Sequence: 1, Lease: 1, State: driver.Delivered, At: at(1)}))
}

func testSettle(s *suite) {
	s.append("l", 1)
	s.save(subscription("s"))
	s.queue(pending("s", 1, at(0)))
	l := s.claims(at(0), "s/1#1")[0]
	s.settle(settlement(l, driver.Pending, at(5)))
	l = s.claims(at(5), "s/1#2")[0]
	s.settle(driver.Settlement{Subscription: "s", Sequence: 1, Lease: l.Delivery.Lease, State: driver.Pending, Due: at(6), At: at(6)})
	l = s.claims(at(6), "s/1#3")[0]
	end := settlement(l, driver.Dropped, at(7))
	end.Reason = "exhausted"
	s.settle(end)
	d := s.get("s", 1).Delivery
	want := pending("s", 1, d.Due)
	want.State, want.Reason, want.Tries, want.Attempts, want.Settled, want.Lease = driver.Dropped, "exhausted", 2, 2, at(7), 3
	s.same("the delivery", want, d)
	attempt := func(number, seconds int) driver.Attempt {
		return driver.Attempt{Subscription: "s", Sequence: 1, Number: number, Started: at(seconds), Elapsed: 12 * time.Millisecond, Status: 500, Category: "http_5xx", Verdict: "again"}
	}
	s.view(func(tx driver.Tx) error {
		log, err := tx.Deliveries().Attempts("s", 1, 99)
		s.same("attempts", []driver.Attempt{attempt(2, 7), attempt(1, 5)}, log)
		newest, err2 := tx.Deliveries().Attempts("s", 1, 1)
		s.same("the newest", []driver.Attempt{attempt(2, 7)}, newest)
		return errors.Join(err, err2)
	})
}

func testQueueTwice(s *suite) {
	s.append("l", 1)
	s.save(subscription("s"))
	s.queue(pending("s", 1, at(0)))
	l := s.claims(at(0), "s/1#1")[0]
	s.queue(pending("s", 1, at(0)))
	s.same("while leased", l.Delivery, s.get("s", 1).Delivery)
	s.view(func(tx driver.Tx) error {
		n, err := tx.Deliveries().CountPending("s")
		s.same("pending", 1, n)
		return err
	})
	err := s.db.Update(s.Context(), func(tx driver.Tx) error { return tx.Deliveries().Queue([]driver.Delivery{pending("none", 1, at(0))}) })
	if err == nil {
		s.Error("a delivery was queued for no subscription")
	}
}

func testRequeue(s *suite) {
	s.append("l", 1)
	s.save(subscription("s"))
	s.queue(pending("s", 1, at(0)))
	s.settle(settlement(s.claims(at(0), "s/1#1")[0], driver.Delivered, at(1)))
	again := pending("s", 1, at(5))
	again.Manual, again.Queued = true, at(5)
	s.queue(again)
	again.Attempts, again.Lease = 1, 1
	s.same("the delivery", again, s.get("s", 1).Delivery)
	l := s.claims(at(5), "s/1#2")[0]
	s.settle(settlement(l, driver.Delivered, at(6)))
	s.view(func(tx driver.Tx) error {
		log, err := tx.Deliveries().Attempts("s", 1, 99)
		if err == nil && (len(log) != 2 || !log[0].Manual || log[1].Manual || log[0].Number != 2) {
			s.Errorf("attempts %+v, want the newer marked manual", log)
		}
		return err
	})
}

func testDrop(s *suite) {
	s.append("l", 5)
	s.save(subscription("s"))
	for i := int64(1); i <= 5; i++ {
		s.queue(pending("s", i, at(0)))
	}
	l := s.claims(at(0), "s/1#1")[0]
	drop := func(limit, want int) {
		s.Helper()
		s.update(func(tx driver.Tx) error {
			n, err := tx.Deliveries().Drop("s", "overflow", at(3), limit)
			s.same("dropped", want, n)
			return err
		})
	}
	drop(2, 2)
	s.same("a dropped lease holds", []bool{false}, s.settle(settlement(l, driver.Delivered, at(4))))
	d := s.get("s", 2).Delivery
	s.same("a dropped one", "dropped overflow", fmt.Sprint(d.State, " ", d.Reason))
	s.same("when", at(3), d.Settled)
	s.view(func(tx driver.Tx) error {
		oldest, err := tx.Deliveries().Oldest("s")
		s.same("the oldest left", int64(3), oldest)
		return err
	})
	s.claims(at(5), "s/3#1")
	drop(99, 3)
	drop(99, 0)
	s.claims(at(99))
}

func testOverdue(s *suite) {
	s.append("l", 4)
	s.save(subscription("s"), subscription("rests"))
	for i := int64(1); i <= 4; i++ {
		d := pending("s", i, at(0))
		d.Deadline = at(10 * int(i))
		s.queue(d)
	}
	d := pending("rests", 1, at(0))
	d.Deadline = at(10)
	s.queue(d)
	s.save(subscription("rests", func(x *driver.Subscription) { x.State = driver.Suspended }))
	l := s.claims(at(5), "s/1#1")[0]
	overdue := func(now, limit int, want map[string]int) {
		s.Helper()
		s.update(func(tx driver.Tx) error {
			got, err := tx.Deliveries().Overdue(at(now), "deadline", limit)
			if len(got) > 0 || len(want) > 0 {
				s.same("overdue", want, got)
			}
			return err
		})
	}
	overdue(9, 99, nil)
	overdue(14, 99, nil) // the first is leased, the resting one is not looked at
	overdue(30, 1, map[string]int{"s": 1})
	overdue(30, 99, map[string]int{"s": 1})
	s.same("the leased one", []bool{true}, s.settle(settlement(l, driver.Pending, at(30))))
	overdue(31, 99, map[string]int{"s": 1})
	s.claims(at(31), "s/4#1")
	s.same("reason", "deadline", s.get("s", 2).Delivery.Reason)
}

func testPostpone(s *suite) {
	s.append("l", 2)
	s.save(subscription("s"))
	d := pending("s", 1, at(500))
	d.Deadline = at(600)
	s.queue(d, pending("s", 2, at(0)))
	s.save(subscription("s", func(x *driver.Subscription) { x.State = driver.Suspended }))
	s.claims(at(550))
	s.save(subscription("s"))
	s.update(func(tx driver.Tx) error { return tx.Deliveries().Postpone("s", time.Hour, at(100)) })
	got := s.get("s", 1).Delivery
	s.same("deadline", at(600+3600), got.Deadline)
	s.same("due", at(100), got.Due)
	s.same("one due before", at(0), s.get("s", 2).Delivery.Due)
	s.same("no deadline stays none", true, s.get("s", 2).Delivery.Deadline.IsZero())
	s.claims(at(100), "s/1#1")
}

func testNextDue(s *suite) {
	next := func(now int, want time.Time) {
		s.Helper()
		s.view(func(tx driver.Tx) error {
			got, err := tx.Deliveries().NextDue(at(now))
			s.same("next due", want, got)
			return err
		})
	}
	next(0, time.Time{})
	s.append("l", 2)
	s.save(subscription("a"), subscription("b"), subscription("c"))
	s.queue(pending("a", 1, at(5)), pending("a", 2, at(1)), pending("b", 1, at(20)), pending("c", 1, at(30)))
	next(0, at(5))
	next(5, at(20))
	s.claims(at(5), "a/1#1")
	next(5, at(15))
	s.save(subscription("b", func(x *driver.Subscription) { x.State = driver.Suspended }))
	next(15, at(30))
	next(30, time.Time{})
}

func testForgetDeliveries(s *suite) {
	s.append("l", 4)
	s.save(subscription("s"))
	for i := int64(1); i <= 4; i++ {
		s.queue(pending("s", i, at(0)))
	}
	for i := 1; i <= 3; i++ {
		s.settle(settlement(s.claims(at(i), fmt.Sprintf("s/%d#1", i))[0], driver.Delivered, at(i)))
	}
	list := func(before int64, limit int, want ...int64) {
		s.Helper()
		s.view(func(tx driver.Tx) error {
			ds, err := tx.Deliveries().List("s", before, limit)
			var got []int64
			for _, d := range ds {
				got = append(got, d.Sequence)
			}
			s.same("listed", want, got)
			return err
		})
	}
	list(0, 99, 4, 3, 2, 1)
	list(4, 2, 3, 2)
	s.update(func(tx driver.Tx) error {
		n, err := tx.Deliveries().Forget(at(3), 99)
		s.same("forgotten", 2, n)
		return err
	})
	list(0, 99, 4, 3)
	s.view(func(tx driver.Tx) error {
		log, err := tx.Deliveries().Attempts("s", 1, 99)
		s.same("attempts of a forgotten delivery", 0, len(log))
		return err
	})
}
