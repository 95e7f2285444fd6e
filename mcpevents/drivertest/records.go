package drivertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/herald-relay/herald/mcpevents/driver"
)

var errOurs = errors.New("the test's own error")

func (s *suite) wantEmpty(what string) {
	s.Helper()
	s.view(func(tx driver.Tx) error {
		h, err := tx.Events().Head("l")
		if err != nil {
			return err
		}
		s.same(what+": newest event", int64(0), h.Newest)
		_, err = tx.Subscriptions().Get("s")
		s.fails(what+": subscription", err, driver.ErrNotFound)
		_, err = tx.Deliveries().Leased("s", 1)
		s.fails(what+": delivery", err, driver.ErrNotFound)
		when, err := tx.Verifications().Verified("p", "u")
		s.same(what+": verification", true, when.IsZero())
		return err
	})
	s.claims(at(100))
}

// fillOne writes one record of each kind.
func fillOne(tx driver.Tx) error {
	e := driver.Event{Ledger: "l", ID: "x", Name: "e", Time: at(0), Recorded: at(0), Data: []byte(`{}`)}
	return errors.Join(tx.Events().Append(&e), tx.Subscriptions().Save(subscription("s")),
		tx.Deliveries().Queue([]driver.Delivery{pending("s", 1, at(0))}), tx.Verifications().Record("p", "u", at(0)))
}

func testRollback(s *suite) {
	err := s.db.Update(s.Context(), func(tx driver.Tx) error {
		if err := fillOne(tx); err != nil {
			return err
		}
		if leases, err := tx.Deliveries().Claim(driver.ClaimParams{Now: at(1), Until: at(9), Limit: 9, PerLane: 9, PerHost: 9}); err != nil || len(leases) != 1 {
			s.Errorf("a transaction does not see its own writes: %v, %v", leases, err)
		}
		return errOurs
	})
	s.fails("the function's error", err, errOurs)
	s.wantEmpty("after a rollback")
}

func testPanic(s *suite) {
	func() {
		defer func() {
			if recover() == nil {
				s.Error("the panic did not come through")
			}
		}()
		_ = s.db.Update(s.Context(), func(tx driver.Tx) error {
			_ = fillOne(tx)
			panic("the test's own")
		})
	}()
	s.wantEmpty("after a panic")
}

func testViewWrites(s *suite) {
	for name, write := range map[string]func(driver.Tx) error{
		"append": func(tx driver.Tx) error {
			return tx.Events().Append(&driver.Event{Ledger: "l", ID: "x", Name: "e", Data: []byte(`{}`), Time: at(0), Recorded: at(0)})
		},
		"save":   func(tx driver.Tx) error { return tx.Subscriptions().Save(subscription("s")) },
		"record": func(tx driver.Tx) error { return tx.Verifications().Record("p", "u", at(0)) },
	} {
		if err := s.db.View(s.Context(), write); err == nil {
			s.Errorf("%s succeeded in a view", name)
		}
	}
	s.wantEmpty("after writes in views")
}

func testContext(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if err := s.db.Update(ctx, fillOne); err == nil {
		s.Error("an update under an ended context succeeded")
	}
	s.wantEmpty("after an ended context")
}

func testAppend(s *suite) {
	s.append("l", 3)
	s.append("m", 1)
	s.append("l", 1)
	s.view(func(tx driver.Tx) error {
		for ledger, want := range map[string]int64{"l": 4, "m": 1, "none": 0} {
			h, err := tx.Events().Head(ledger)
			if err != nil || h.Newest != want || h.Forgotten != 0 {
				s.Errorf("head of %s: %+v, %v; want newest %d", ledger, h, err, want)
			}
		}
		e, err := tx.Events().Get("l", "l4")
		s.same("sequence of the fourth", int64(4), e.Sequence)
		return err
	})
}

func testAppendTwice(s *suite) {
	s.append("l", 2)
	s.update(func(tx driver.Tx) error {
		e := driver.Event{Ledger: "l", ID: "l2", Name: "other", Data: []byte(`{}`), Time: at(0), Recorded: at(0)}
		s.fails("the second time", tx.Events().Append(&e), driver.ErrExists)
		s.same("sequence of the one that is there", int64(2), e.Sequence)
		e = driver.Event{Ledger: "m", ID: "l2", Name: "e", Data: []byte(`{}`), Time: at(0), Recorded: at(0)}
		return tx.Events().Append(&e)
	})
	s.append("l", 1)
	s.view(func(tx driver.Tx) error {
		e, err := tx.Events().Get("l", "l3")
		s.same("sequence after a refusal", int64(3), e.Sequence)
		return err
	})
}

func testEventBytes(s *suite) {
	want := driver.Event{Ledger: "l", ID: "x", Name: "e", Subject: "a/b", Audience: "p", Time: at(1), Recorded: at(2),
		Data: []byte("{ \"b\":1,\"a\": 1.0, \"u\":\"Zoë ☃ 🚀 \\u0000\"}"), Meta: []byte(`{"m":1}`)}
	s.update(func(tx driver.Tx) error {
		e := want
		return tx.Events().Append(&e)
	})
	want.Sequence = 1
	s.view(func(tx driver.Tx) error {
		got, err := tx.Events().Get("l", "x")
		s.same("the event", want, got)
		_, missing := tx.Events().Get("l", "y")
		s.fails("another id", missing, driver.ErrNotFound)
		return err
	})
}

func testRead(s *suite) {
	s.update(func(tx driver.Tx) error {
		for i := 1; i <= 12; i++ {
			e := driver.Event{Ledger: "l", ID: fmt.Sprint(i), Name: []string{"a", "b"}[i%2], Subject: []string{"s", "t", ""}[i%3],
				Audience: []string{"", "p", "q", ""}[i%4], Time: at(10 * i), Recorded: at(i), Data: []byte(`{}`)}
			if err := tx.Events().Append(&e); err != nil {
				return err
			}
		}
		return nil
	})
	for name, c := range map[string]struct {
		q    driver.Query
		want []int64
	}{
		"all of nobody":  {driver.Query{Ledger: "l", Limit: 99}, []int64{3, 4, 7, 8, 11, 12}},
		"all of p":       {driver.Query{Ledger: "l", Audience: "p", Limit: 99}, []int64{1, 3, 4, 5, 7, 8, 9, 11, 12}},
		"after":          {driver.Query{Ledger: "l", After: 7, Limit: 99}, []int64{8, 11, 12}},
		"until":          {driver.Query{Ledger: "l", After: 3, Until: 8, Limit: 99}, []int64{4, 7, 8}},
		"limit":          {driver.Query{Ledger: "l", Limit: 2}, []int64{3, 4}},
		"name":           {driver.Query{Ledger: "l", Name: "a", Limit: 99}, []int64{4, 8, 12}},
		"subject":        {driver.Query{Ledger: "l", Subject: "s", Audience: "p", Limit: 99}, []int64{3, 9, 12}},
		"another ledger": {driver.Query{Ledger: "m", Limit: 99}, nil},
	} {
		s.view(func(tx driver.Tx) error {
			events, err := tx.Events().Read(c.q)
			var got []int64
			for _, e := range events {
				got = append(got, e.Sequence)
			}
			s.same(name, c.want, got)
			return err
		})
	}
	s.view(func(tx driver.Tx) error {
		for audience, want := range map[string]int64{"": 12, "p": 12, "q": 12} {
			n, err := tx.Events().Newest("l", audience)
			if err != nil || n != want {
				s.Errorf("newest of %q: %d, %v; want %d", audience, n, err, want)
			}
		}
		for seconds, want := range map[int]int64{0: 1, 10: 1, 11: 2, 120: 12, 121: 13} {
			n, err := tx.Events().Since("l", at(seconds))
			if err != nil || n != want {
				s.Errorf("since %d s: %d, %v; want %d", seconds, n, err, want)
			}
		}
		n, err := tx.Events().Newest("none", "p")
		s.same("newest of nothing", int64(0), n)
		return err
	})
}

func testForgetEvents(s *suite) {
	s.append("l", 6)
	s.append("m", 3)
	s.save(subscription("s"))
	s.queue(pending("s", 4, at(0)))
	forget := func(cutoff, limit, want int) {
		s.Helper()
		s.update(func(tx driver.Tx) error {
			n, err := tx.Events().Forget(at(cutoff), limit)
			s.same("forgotten", want, n)
			return err
		})
	}
	forget(3, 99, 4)  // l1 l2 m1 m2
	forget(99, 99, 2) // l3 m3; l4 is needed, and what follows must not leave a gap
	s.view(func(tx driver.Tx) error {
		h, err := tx.Events().Head("l")
		s.same("extent", [2]int64{6, 3}, [2]int64{h.Newest, h.Forgotten})
		m, err2 := tx.Events().Head("m")
		s.same("extent of an empty ledger", [2]int64{3, 3}, [2]int64{m.Newest, m.Forgotten})
		_, gone := tx.Events().Get("l", "l3")
		s.fails("a forgotten event", gone, driver.ErrNotFound)
		return errors.Join(err, err2)
	})
	l := s.claims(at(1), "s/4#1")[0]
	s.settle(settlement(l, driver.Delivered, at(2)))
	forget(99, 2, 2)
	forget(99, 99, 1)
	s.append("m", 1)
	s.view(func(tx driver.Tx) error {
		m, err := tx.Events().Head("m")
		s.same("sequences go on", int64(4), m.Newest)
		return err
	})
	left := s.get("s", 4)
	s.same("event of a delivery that outlives it", int64(0), left.Event.Sequence)
}

func testSaveSubscription(s *suite) {
	want := subscription("s", func(x *driver.Subscription) {
		x.Label, x.Reason, x.Start, x.Gap, x.Strict, x.State = "label", "why", 7, true, false, driver.Suspended
		x.Secrets = append(x.Secrets, driver.Secret{Sealed: []byte{9}, Until: at(50)})
		x.Arguments = []byte(`{"a":"Zoë"}`)
		x.Expires = at(1000)
		x.Health = driver.Health{LastDelivery: at(1), LastError: "timeout", FailingSince: at(2), Throttled: at(3), Window: at(4), Tried: 5, Failed: 6}
	})
	s.save(want)
	read := func(want driver.Subscription) {
		s.Helper()
		s.view(func(tx driver.Tx) error {
			got, err := tx.Subscriptions().Get("s")
			s.same("by id", want, got)
			byKey, err2 := tx.Subscriptions().ByKey("key-s")
			s.same("by key", want, byKey)
			return errors.Join(err, err2)
		})
	}
	read(want)
	want.URL, want.Secrets, want.State, want.Reason = "https://other.example.com/", want.Secrets[:1], driver.Active, ""
	s.save(want)
	read(want)
	want.Health = driver.Health{Tried: 1}
	s.update(func(tx driver.Tx) error {
		return errors.Join(tx.Subscriptions().SetHealth("s", want.Health), tx.Subscriptions().SetHealth("none", want.Health))
	})
	read(want)
	s.view(func(tx driver.Tx) error {
		_, err := tx.Subscriptions().ByKey("none")
		s.fails("an unknown key", err, driver.ErrNotFound)
		return nil
	})
}

func testKeyTaken(s *suite) {
	s.save(subscription("s"))
	err := s.db.Update(s.Context(), func(tx driver.Tx) error {
		return tx.Subscriptions().Save(subscription("t", func(x *driver.Subscription) { x.Key = "key-s" }))
	})
	s.fails("a key that is taken", err, driver.ErrExists)
}

func testListSubscriptions(s *suite) {
	for i := range 7 {
		s.save(subscription(fmt.Sprint("s", i), func(x *driver.Subscription) {
			x.Principal = []string{"p", "q"}[i%2]
			if i == 4 {
				x.State = driver.Ended
			}
			if i == 5 {
				x.Expires, x.Label = at(10), "x"
			}
		}))
	}
	for name, c := range map[string]struct {
		f    driver.Filter
		want []string
	}{
		"all":       {driver.Filter{Limit: 99}, []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6"}},
		"page":      {driver.Filter{After: "s1", Limit: 2}, []string{"s2", "s3"}},
		"principal": {driver.Filter{Principal: "q", Limit: 99}, []string{"s1", "s3", "s5"}},
		"label":     {driver.Filter{Label: "x", Limit: 99}, []string{"s5"}},
		"live":      {driver.Filter{Live: true, Now: at(10), Limit: 99}, []string{"s0", "s1", "s2", "s3", "s6"}},
		"another":   {driver.Filter{Family: "g", Limit: 99}, nil},
		"ledger":    {driver.Filter{Ledger: "m", Limit: 99}, nil},
	} {
		s.view(func(tx driver.Tx) error {
			found, err := tx.Subscriptions().List(c.f)
			s.same(name, c.want, ids(found))
			n, err2 := tx.Subscriptions().Count(c.f)
			if c.f.After == "" {
				s.same(name+" counted", len(c.want), n)
			}
			return errors.Join(err, err2)
		})
	}
}

func ids(subs []driver.Subscription) []string {
	var names []string
	for _, sub := range subs {
		names = append(names, sub.ID)
	}
	return names
}

func testMatching(s *suite) {
	s.append("l", 5)
	s.save(subscription("a"), subscription("b", func(x *driver.Subscription) { x.Principal = "q" }),
		subscription("c", func(x *driver.Subscription) { x.State = driver.Ended }),
		subscription("d", func(x *driver.Subscription) { x.Expires = at(10) }),
		subscription("e", func(x *driver.Subscription) { x.State = driver.Suspended }),
		subscription("f", func(x *driver.Subscription) { x.Name = "other" }),
		subscription("g", func(x *driver.Subscription) { x.Ledger = "m" }))
	s.queue(pending("a", 3, at(0)), pending("a", 2, at(0)))
	match := func(audience string, now int, want ...string) {
		s.Helper()
		s.view(func(tx driver.Tx) error {
			found, err := tx.Subscriptions().Matching("f", "l", "e", audience, at(now))
			var got []string
			for _, c := range found {
				got = append(got, fmt.Sprintf("%s %d %d", c.ID, c.Oldest, c.Waiting))
			}
			s.same("matching", want, got)
			return err
		})
	}
	match("", 5, "a 2 2", "b 0 0", "d 0 0", "e 0 0")
	match("", 10, "a 2 2", "b 0 0", "e 0 0")
	match("q", 5, "b 0 0")
	match("nobody", 5)
}

func testLapsed(s *suite) {
	s.save(subscription("a"), subscription("b", func(x *driver.Subscription) { x.Expires = at(10) }),
		subscription("c", func(x *driver.Subscription) { x.Expires, x.State = at(5), driver.Ended }),
		subscription("d", func(x *driver.Subscription) { x.Expires, x.State = at(10), driver.Suspended }))
	s.view(func(tx driver.Tx) error {
		early, err := tx.Subscriptions().Lapsed(at(9), 99)
		s.same("before", 0, len(early))
		due, err2 := tx.Subscriptions().Lapsed(at(10), 99)
		s.same("at the time", 2, len(due))
		one, err3 := tx.Subscriptions().Lapsed(at(10), 1)
		s.same("with a limit", 1, len(one))
		return errors.Join(err, err2, err3)
	})
}

func testForgetSubscriptions(s *suite) {
	s.append("l", 2)
	s.save(subscription("a"), subscription("b"))
	s.queue(pending("a", 1, at(0)), pending("b", 1, at(0)))
	s.save(subscription("a", func(x *driver.Subscription) { x.State, x.Changed = driver.Ended, at(10) }))
	forget := func(cutoff, want int) {
		s.Helper()
		s.update(func(tx driver.Tx) error {
			n, err := tx.Subscriptions().Forget(at(cutoff), 99)
			s.same("forgotten", want, n)
			return err
		})
	}
	forget(10, 0)
	forget(11, 1)
	s.view(func(tx driver.Tx) error {
		_, err := tx.Subscriptions().Get("a")
		s.fails("the subscription", err, driver.ErrNotFound)
		_, err = tx.Deliveries().Leased("a", 1)
		s.fails("its delivery", err, driver.ErrNotFound)
		return nil
	})
	s.save(subscription("a"))
	s.claims(at(20), "b/1#1")
}

func testVerifications(s *suite) {
	verified := func(principal, url string) bool {
		s.Helper()
		var known bool
		s.view(func(tx driver.Tx) error {
			when, err := tx.Verifications().Verified(principal, url)
			known = !when.IsZero()
			return err
		})
		return known
	}
	s.save(subscription("a"))
	s.update(func(tx driver.Tx) error {
		v := tx.Verifications()
		return errors.Join(v.Record("p", "https://a.example.com/", at(1)), v.Record("p", "u", at(1)), v.Record("p", "u", at(2)), v.Record("q", "u", at(5)))
	})
	s.view(func(tx driver.Tx) error {
		when, err := tx.Verifications().Verified("p", "u")
		s.same("the newest", at(2), when)
		return err
	})
	s.same("another principal's", false, verified("r", "u"))
	s.update(func(tx driver.Tx) error {
		n, err := tx.Verifications().Forget(at(5), 99)
		s.same("forgotten", 1, n)
		return errors.Join(err, tx.Verifications().Withdraw("q", "u"), tx.Verifications().Withdraw("none", "u"))
	})
	s.same("one in use", true, verified("p", "https://a.example.com/"))
	s.same("an old one", false, verified("p", "u"))
	s.same("a withdrawn one", false, verified("q", "u"))
}
