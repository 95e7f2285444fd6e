package storetest

import (
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

func (f *fixture) expire(m relay.MailboxID, cutoff time.Time, limit int) (got []store.Expired) {
	f.Helper()
	f.update(func(tx store.Tx) (err error) {
		got, err = tx.Notifications().Expire(m, cutoff, limit)
		return err
	})
	return got
}

func (f *fixture) forget(cutoff time.Time, limit int) (n int) {
	f.Helper()
	f.update(func(tx store.Tx) (err error) {
		n, err = tx.Notifications().Forget(cutoff, limit)
		return err
	})
	return n
}

func named(list ...relay.Notification) (out []store.Expired) {
	for _, n := range list {
		out = append(out, store.Expired{Mailbox: n.Mailbox, ID: n.ID})
	}
	return out
}

// series sends n notifications a minute apart.
func (f *fixture) series(n int) (list []relay.Notification) {
	f.Helper()
	for i := range n {
		list = append(list, f.send(f.note("", t0.Add(time.Duration(i)*time.Minute))))
	}
	return list
}

var sweepCases = []testCase{
	{"Expire suppresses what waited before the cutoff, oldest first, in batches", func(f *fixture) {
		list := f.series(5)
		list[1].Acknowledge(t0)
		f.save(list[1])
		cutoff := list[4].CreatedAt
		f.same("first batch", f.expire(f.box, cutoff, 2), named(list[0], list[2]))
		f.same("second batch", f.expire(f.box, cutoff, 2), named(list[3]))
		f.same("third batch", f.expire(f.box, cutoff, 2), []store.Expired(nil))
		want := list[0]
		want.Expire()
		f.same("expired", f.get(list[0]), want)
		f.same("acknowledged", f.get(list[1]), list[1])
		f.same("young", f.get(list[4]), list[4])
		f.same("waiting", f.countWaiting(f.box), int64(1))
		f.same("admission", f.admission(99, cutoff).Waiting, int64(1))
		f.same("listed", len(f.waiting(f.box, 0, 10)), 1)
	}},
	{"Expire of every mailbox, and of one only", func(f *fixture) {
		first := f.send(f.note("", t0))
		other := f.note("", t0.Add(time.Minute))
		other.Mailbox = f.addMailbox(f.person)
		other = f.send(other)
		third := f.send(f.note("", t0.Add(2*time.Minute)))
		later := t0.Add(time.Hour)
		f.same("one mailbox", f.expire(other.Mailbox, later, 10), named(other))
		f.same("every mailbox", f.expire("", later, 10), named(first, third))
		f.same("an unknown one", f.expire(newMailboxID(), later, 10), []store.Expired(nil))
	}},
	{"what Expire did is undone with its Update", func(f *fixture) {
		n := f.send(f.note("", t0))
		f.store.Update(f.Context(), func(tx store.Tx) error {
			if _, err := tx.Notifications().Expire("", t0.Add(time.Hour), 10); err != nil {
				return err
			}
			return errRefused
		})
		f.same("notification", f.get(n), n)
		f.same("waiting", f.countWaiting(f.box), int64(1))
		f.same("expired now", f.expire("", t0.Add(time.Hour), 10), named(n))
	}},
	{"Expire finds what became waiting again and what arrived with an older date", func(f *fixture) {
		n := f.send(f.note("", t0))
		cutoff := t0.Add(time.Hour)
		f.same("expired", f.expire("", cutoff, 10), named(n))
		f.save(n)
		f.same("waiting again", f.expire("", cutoff, 10), named(n))
		old := f.send(f.note("", t0.Add(-time.Hour)))
		f.same("an older date", f.expire(f.box, cutoff, 10), named(old))
	}},
	{"Expire after the clock was set back takes those of the right date only", func(f *fixture) {
		ahead := f.send(f.note("", t0.Add(time.Hour)))
		behind := f.send(f.note("", t0))
		f.same("expired", f.expire("", t0.Add(time.Minute), 10), named(behind))
		f.same("still waiting", f.get(ahead), ahead)
	}},
	{"Forget removes what is older than the cutoff, oldest first, in batches", func(f *fixture) {
		list := f.series(5)
		list[0].Acknowledge(t0)
		f.save(list[0])
		cutoff := list[4].CreatedAt
		f.same("first batch", f.forget(cutoff, 3), 3)
		for _, n := range list[:3] {
			f.missing(func(tx store.Tx) error { _, err := tx.Notifications().Get(f.box, n.ID); return err })
		}
		f.same("waiting", f.countWaiting(f.box), int64(2))
		f.same("second batch", f.forget(cutoff, 3), 1)
		f.same("third batch", f.forget(cutoff, 3), 0)
		f.same("size", f.size(f.box), int64(len(list[4].Payload)))
		f.same("the young one", f.get(list[4]), list[4])
		f.same("today still counts them", f.admission(99, t0).Today, int64(5))
		f.same("Seq goes on", f.send(f.note("", t0)).Seq, int64(6))
	}},
	{"a forgotten notification frees its AgentID", func(f *fixture) {
		n := f.send(f.note("nightly", t0))
		f.forget(t0.Add(time.Minute), 10)
		if _, err := f.sent("nightly", t0); !fault.Is(err, fault.NotFound) {
			f.Errorf("Sent = %v, want not found", err)
		}
		again := f.note("nightly", t0)
		f.update(func(tx store.Tx) error { return tx.Notifications().Insert(&again, t0.Add(-time.Hour)) })
		f.wantSent("nightly", t0, again)
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Notifications().Save(n) })
	}},
}

var usageCases = []testCase{
	{"counters add up by day and mailbox", func(f *fixture) {
		delta := relay.Usage{Requests: 1, WSMessages: 2, PollSeconds: 3, AudioUploads: 4, AudioBytes: 5 << 40}
		day, next := relay.Day(t0), relay.Day(t0.Add(24*time.Hour))
		for range 2 {
			f.update(func(tx store.Tx) error { return tx.Usage().Add(f.box, day, delta) })
		}
		f.update(func(tx store.Tx) error { return tx.Usage().Add(f.box, next, relay.Usage{Requests: 7}) })
		f.send(f.note("", t0))
		want := delta.Add(delta)
		want.Notifications = 1
		f.same("that day", f.usage(f.box, day), want)
		f.same("the next", f.usage(f.box, next), relay.Usage{Requests: 7})
		f.same("a day without", f.usage(f.box, "2020-01-01"), relay.Usage{})
		f.same("another mailbox", f.usage(f.addMailbox(f.person), day), relay.Usage{})
	}},
	{"an Update reads what it added", func(f *fixture) {
		var got relay.Usage
		f.update(func(tx store.Tx) (err error) {
			n := f.note("", t0)
			if err := insert(tx, &n); err != nil {
				return err
			}
			if err := tx.Usage().Add(f.box, relay.Day(t0), relay.Usage{Requests: 2}); err != nil {
				return err
			}
			got, err = tx.Usage().Get(f.box, relay.Day(t0))
			return err
		})
		f.same("usage", got, relay.Usage{Requests: 2, Notifications: 1})
	}},
	{"a mailbox that is gone keeps nothing and is no error", func(f *fixture) {
		gone := newMailboxID()
		f.update(func(tx store.Tx) error { return tx.Usage().Add(gone, relay.Day(t0), relay.Usage{Requests: 1}) })
		f.same("usage", f.usage(gone, relay.Day(t0)), relay.Usage{})
	}},
	{"Forget removes days before a day, in batches", func(f *fixture) {
		days := []string{"2026-03-10", "2026-03-11", "2026-03-12"}
		for _, d := range days {
			f.update(func(tx store.Tx) error { return tx.Usage().Add(f.box, d, relay.Usage{Requests: 1}) })
		}
		f.send(f.note("", time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)))
		var counts []int
		for range 3 {
			f.update(func(tx store.Tx) error {
				n, err := tx.Usage().Forget("2026-03-12", 2)
				counts = append(counts, n)
				return err
			})
		}
		total := 0
		for _, c := range counts {
			total += c
			if c > 2 {
				f.Errorf("a batch removed %d rows, its limit is 2", c)
			}
		}
		f.same("removed", total, 3)
		f.same("kept", f.usage(f.box, "2026-03-12"), relay.Usage{Requests: 1})
		f.same("removed day", f.usage(f.box, "2026-03-11"), relay.Usage{})
		f.same("removed day of a notification", f.usage(f.box, "2026-03-09"), relay.Usage{})
	}},
}

func (f *fixture) usage(m relay.MailboxID, day string) relay.Usage {
	f.Helper()
	return read(f, func(tx store.Tx) (relay.Usage, error) { return tx.Usage().Get(m, day) })
}

func (f *fixture) code(address string, expires time.Time) relay.PairCode {
	f.Helper()
	c := relay.PairCode{Hash: newHash(), Person: f.person, Name: "phone", Address: address, CreatedAt: t0, ExpiresAt: expires}
	f.update(func(tx store.Tx) error { return tx.Pairing().Create(c) })
	return c
}

func (f *fixture) take(h relay.Hash, now time.Time) (c relay.PairCode, err error) {
	f.Helper()
	err = f.store.Update(f.Context(), func(tx store.Tx) error {
		c, err = tx.Pairing().Take(h, now)
		return err
	})
	return c, err
}

var pairingCases = []testCase{
	{"a code is taken once, while it is valid", func(f *fixture) {
		c := f.code("address", t0.Add(10*time.Minute))
		link := relay.PairCode{Hash: newHash(), Person: f.person, Mailbox: f.box, CreatedAt: t0, ExpiresAt: t0.Add(time.Minute)}
		f.update(func(tx store.Tx) error { return tx.Pairing().Create(link) })
		got, err := f.take(c.Hash, t0.Add(9*time.Minute))
		if err != nil {
			f.Fatal(err)
		}
		f.same("code", got, c)
		_, err = f.take(c.Hash, t0)
		f.wantFault(err, fault.NotFound, "")
		got, err = f.take(link.Hash, t0)
		if err != nil {
			f.Fatal(err)
		}
		f.same("link", got, link)
	}},
	{"a code that ran out or is unknown is not found", func(f *fixture) {
		c := f.code("", t0.Add(10*time.Minute))
		for _, h := range []relay.Hash{c.Hash, newHash()} {
			_, err := f.take(h, t0.Add(10*time.Minute))
			f.wantFault(err, fault.NotFound, "")
		}
	}},
	{"a code taken in an Update that fails can be taken again", func(f *fixture) {
		c := f.code("", t0.Add(time.Minute))
		f.store.Update(f.Context(), func(tx store.Tx) error {
			if _, err := tx.Pairing().Take(c.Hash, t0); err != nil {
				return err
			}
			return errRefused
		})
		if _, err := f.take(c.Hash, t0); err != nil {
			f.Error(err)
		}
	}},
	{"fifty takers of one code: one gets it", func(f *fixture) {
		c := f.code("", t0.Add(time.Minute))
		won := 0
		for i, err := range together(50, func(int) error { _, err := f.take(c.Hash, t0); return err }) {
			if err == nil {
				won++
			} else if !fault.Is(err, fault.NotFound) {
				f.Errorf("taker %d: %v", i, err)
			}
		}
		f.same("winners", won, 1)
	}},
	{"a code's hash belongs to one", func(f *fixture) {
		c := f.code("", t0.Add(time.Minute))
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Pairing().Create(c) })
	}},
	{"CountWaiting counts valid codes, of one address or of all that have one", func(f *fixture) {
		f.code("a", t0.Add(time.Minute))
		f.code("a", t0.Add(time.Hour))
		f.code("b", t0.Add(time.Hour))
		f.code("", t0.Add(time.Hour))
		count := func(address string, now time.Time) int {
			return read(f, func(tx store.Tx) (int, error) { return tx.Pairing().CountWaiting(address, now) })
		}
		f.same("a", count("a", t0), 2)
		f.same("a, later", count("a", t0.Add(time.Minute)), 1)
		f.same("all", count("", t0), 3)
		f.same("unknown", count("c", t0), 0)
	}},
	{"Forget removes what ran out, in batches", func(f *fixture) {
		for range 3 {
			f.code("a", t0.Add(time.Minute))
		}
		valid := f.code("a", t0.Add(time.Hour))
		var counts []int
		for range 3 {
			f.update(func(tx store.Tx) error {
				n, err := tx.Pairing().Forget(t0.Add(2*time.Minute), 2)
				counts = append(counts, n)
				return err
			})
		}
		f.same("removed", counts, []int{2, 1, 0})
		if _, err := f.take(valid.Hash, t0); err != nil {
			f.Error(err)
		}
	}},
}

var markCases = []testCase{
	{"strokes are counted by kind and subject after a time", func(f *fixture) {
		add := func(kind, subject string, at time.Time) {
			f.update(func(tx store.Tx) error { return tx.Marks().Add(kind, subject, at) })
		}
		add("wrong", "a", t0)
		add("wrong", "a", t0) // two in one millisecond are two
		add("wrong", "a", t0.Add(time.Minute))
		add("wrong", "b", t0.Add(time.Minute))
		add("start", "a", t0.Add(time.Minute))
		count := func(kind, subject string, since time.Time) int {
			return read(f, func(tx store.Tx) (int, error) { return tx.Marks().Count(kind, subject, since) })
		}
		f.same("since before", count("wrong", "a", t0.Add(-1*time.Millisecond)), 3)
		f.same("strictly after", count("wrong", "a", t0), 1)
		f.same("all subjects", count("wrong", "", t0.Add(-1*time.Millisecond)), 4)
		f.same("another kind", count("start", "", t0), 1)
		f.same("unknown", count("other", "a", t0), 0)
	}},
	{"Forget removes strokes up to the cutoff, of every kind, in batches", func(f *fixture) {
		for i := range 5 {
			f.update(func(tx store.Tx) error {
				return tx.Marks().Add([]string{"x", "y"}[i%2], "s", t0.Add(time.Duration(i)*time.Second))
			})
		}
		var counts []int
		for range 3 {
			f.update(func(tx store.Tx) error {
				n, err := tx.Marks().Forget(t0.Add(2*time.Second), 2)
				counts = append(counts, n)
				return err
			})
		}
		f.same("removed", counts, []int{2, 1, 0})
		left := read(f, func(tx store.Tx) (int, error) { return tx.Marks().Count("x", "", t0.Add(-time.Hour)) })
		f.same("left of x", left, 1)
	}},
}
