package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

var errRefused = errors.New("the rule says no")

var transactionCases = []testCase{
	{"an error of fn is returned as it is and undoes every write", func(f *fixture) {
		kept := f.send(f.note("", t0))
		n := f.note("", t0)
		err := f.store.Update(f.Context(), func(tx store.Tx) error {
			if err := writeOfEachKind(f, tx, &n, kept); err != nil {
				return err
			}
			return errRefused
		})
		if err != errRefused {
			f.Errorf("Update = %v, want the very error of fn", err)
		}
		f.missing(func(tx store.Tx) error { _, err := tx.Notifications().Get(n.Mailbox, n.ID); return err })
		f.missing(func(tx store.Tx) error { _, err := tx.People().ByName("grace"); return err })
		f.same("the saved notification", f.get(kept), kept)
		f.same("waiting", f.countWaiting(f.box), int64(1))
		f.same("state", f.mailbox().State, relay.State{})
		f.same("active keys", f.activeKeys(), 1)
		if next := f.send(f.note("", t0)); next.Seq != kept.Seq+1 {
			f.Errorf("Seq after a rollback = %d, want %d", next.Seq, kept.Seq+1)
		}
	}},
	{"an error of a View is returned as it is", func(f *fixture) {
		if err := f.store.View(f.Context(), func(store.Tx) error { return errRefused }); err != errRefused {
			f.Errorf("View = %v, want the very error of fn", err)
		}
	}},
	{"all writes of an Update become visible together", func(f *fixture) {
		kept, n := f.send(f.note("", t0)), f.note("", t0)
		f.update(func(tx store.Tx) error { return writeOfEachKind(f, tx, &n, kept) })
		f.same("waiting", f.countWaiting(f.box), int64(1))
		f.same("muted", f.mailbox().State.Muted, true)
		f.same("active keys", f.activeKeys(), 2)
	}},
	{"an Update reads its own writes", func(f *fixture) {
		kept := f.send(f.note("", t0))
		n := f.note("mine", t0)
		var got relay.Notification
		var sent relay.Notification
		var queued int64
		var list []store.Waiting
		f.update(func(tx store.Tx) (err error) {
			if err = writeOfEachKind(f, tx, &n, kept); err != nil {
				return err
			}
			got, err = tx.Notifications().Get(n.Mailbox, n.ID)
			if err != nil {
				return err
			}
			if sent, err = tx.Notifications().Sent(f.box, f.key, "mine", t0); err != nil {
				return err
			}
			if queued, err = tx.Notifications().CountWaiting(f.box); err != nil {
				return err
			}
			list, err = tx.Notifications().Waiting(f.box, 0, 10)
			return err
		})
		f.same("Get", got, n)
		f.same("Sent", sent, n)
		f.same("CountWaiting", queued, int64(1))
		if len(list) != 1 || list[0].ID != n.ID {
			f.Errorf("Waiting = %v, want the new notification only", list)
		}
	}},
	{"a View includes every Update that returned before it", func(f *fixture) {
		for i := range 50 {
			n := f.send(f.note("", t0))
			if got := f.get(n); got.Seq != int64(i+1) {
				f.Fatalf("round %d: Seq = %d", i, got.Seq)
			}
		}
	}},
	{"a View keeps to one snapshot while others write", func(f *fixture) {
		first := f.send(f.note("", t0))
		var before, after int64
		var again relay.Notification
		err := f.store.View(f.Context(), func(tx store.Tx) (err error) {
			if before, err = tx.Notifications().CountWaiting(f.box); err != nil {
				return err
			}
			if err = elsewhere(func() error { return f.overtake(first) }); err != nil {
				return err
			}
			if again, err = tx.Notifications().Get(f.box, first.ID); err != nil {
				return err
			}
			after, err = tx.Notifications().CountWaiting(f.box)
			return err
		})
		if err != nil {
			f.Fatal(err)
		}
		f.same("counts seen by one View", []int64{before, after}, []int64{1, 1})
		f.same("the notification seen by the View", again, first)
		f.same("count afterwards", f.countWaiting(f.box), int64(1))
		f.same("acknowledged afterwards", f.get(first).AckedAt, t0)
	}},
	{"a panic of fn undoes its writes and leaves the store working", func(f *fixture) {
		n := f.note("", t0)
		func() {
			defer func() { _ = recover() }() // whether it surfaces as a panic or as an error is the adapter's choice
			err := f.store.Update(f.Context(), func(tx store.Tx) error {
				_ = insert(tx, &n)
				panic("a mistake of the caller")
			})
			if err == nil {
				f.Error("Update = nil although fn panicked")
			}
		}()
		f.missing(func(tx store.Tx) error { _, err := tx.Notifications().Get(n.Mailbox, n.ID); return err })
		f.send(f.note("", t0))
	}},
	{"a caller whose context has ended changes nothing", func(f *fixture) {
		n := f.note("", t0)
		err := f.store.Update(f.canceled(), func(tx store.Tx) error { return insert(tx, &n) })
		if !errors.Is(err, context.Canceled) {
			f.Errorf("Update = %v, want context.Canceled", err)
		}
		f.missing(func(tx store.Tx) error { _, err := tx.Notifications().Get(n.Mailbox, n.ID); return err })
		err = f.store.View(f.canceled(), func(store.Tx) error { return nil })
		if !errors.Is(err, context.Canceled) {
			f.Errorf("View = %v, want context.Canceled", err)
		}
	}},
	{"it is ready and says what it is", func(f *fixture) {
		if err := f.store.Ready(f.Context()); err != nil {
			f.Errorf("Ready = %v", err)
		}
		if f.store.Describe() == "" {
			f.Error("Describe is empty")
		}
	}},
	{"after Close every call fails and none hangs", func(f *fixture) {
		if err := f.store.Close(); err != nil {
			f.Fatalf("Close = %v", err)
		}
		nothing := func(store.Tx) error { return nil }
		f.wantFault(f.store.Update(f.Context(), nothing), fault.Unavailable, "")
		f.wantFault(f.store.View(f.Context(), nothing), fault.Unavailable, "")
		f.wantFault(f.store.Ready(f.Context()), fault.Unavailable, "")
		if err := f.store.Close(); err != nil {
			f.Errorf("second Close = %v, want nil", err)
		}
	}},
}

// writeOfEachKind makes writes that the rollback and visibility cases look for.
func writeOfEachKind(f *fixture, tx store.Tx, n *relay.Notification, kept relay.Notification) error {
	kept.Acknowledge(t0)
	for _, err := range []error{
		tx.Notifications().Save(kept),
		insert(tx, n),
		tx.People().Create(relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: "grace", CreatedAt: t0}),
		tx.Mailboxes().SetState(f.box, relay.State{Muted: true}),
		tx.Keys().Create(newKey(f.box, "second")),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// overtake acknowledges one notification and sends another, both committed.
func (f *fixture) overtake(first relay.Notification) error {
	first.Acknowledge(t0)
	n := f.note("", t0)
	return f.store.Update(f.Context(), func(tx store.Tx) error {
		if err := tx.Notifications().Save(first); err != nil {
			return err
		}
		return insert(tx, &n)
	})
}

// elsewhere runs fn on another goroutine and waits for it.
func elsewhere(fn func() error) error {
	done := make(chan error)
	go func() { done <- fn() }()
	return <-done
}

// together runs fn n times at once and returns what each returned.
func together(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	return errs
}

var concurrencyCases = []testCase{
	{"Updates of one mailbox behave as if one ran after the other", func(f *fixture) {
		const n = 100
		for i, err := range together(n, func(int) error {
			note := f.note("", t0)
			return f.store.Update(f.Context(), func(tx store.Tx) error { return insert(tx, &note) })
		}) {
			if err != nil {
				f.Fatalf("insert %d: %v", i, err)
			}
		}
		list := f.waiting(f.box, 0, 2*n)
		if len(list) != n || f.countWaiting(f.box) != n {
			f.Fatalf("listed %d, counted %d, want %d", len(list), f.countWaiting(f.box), n)
		}
		for i, w := range list {
			if w.Seq != int64(i+1) {
				f.Fatalf("place %d holds Seq %d", i, w.Seq)
			}
		}
	}},
	{"a read and the write that depends on it are not separated", func(f *fixture) {
		n := f.send(f.note("", t0))
		const reports = 40
		for _, err := range together(reports, func(i int) error {
			return f.store.Update(f.Context(), func(tx store.Tx) error {
				got, err := tx.Notifications().Get(n.Mailbox, n.ID)
				if err != nil {
					return err
				}
				got.ClipBytes++
				return tx.Notifications().Save(got)
			})
		}) {
			if err != nil {
				f.Fatal(err)
			}
		}
		f.same("increments", f.get(n).ClipBytes, int64(reports))
	}},
	{"fifty inserts with one AgentID make one notification", func(f *fixture) {
		const n = 50
		inserted := make([]bool, n)
		errs := together(n, func(i int) error {
			note := f.note("same", t0)
			return f.store.Update(f.Context(), func(tx store.Tx) error {
				inserted[i] = false
				_, err := tx.Notifications().Sent(f.box, f.key, "same", t0.Add(-time.Hour))
				if !fault.Is(err, fault.NotFound) {
					return err
				}
				inserted[i] = true
				return insert(tx, &note)
			})
		})
		won := 0
		for i, err := range errs {
			switch {
			case err == nil && inserted[i]:
				won++
			case err != nil && !fault.Is(err, fault.Conflict):
				f.Errorf("insert %d: %v, want nil or a conflict", i, err)
			}
		}
		f.same("winners", won, 1)
		f.same("waiting", f.countWaiting(f.box), int64(1))
	}},
	{"fifty inserts that do not look first: one wins, the rest conflict", func(f *fixture) {
		won := 0
		for i, err := range together(50, func(int) error {
			note := f.note("same", t0)
			return f.store.Update(f.Context(), func(tx store.Tx) error { return insert(tx, &note) })
		}) {
			if err == nil {
				won++
			} else if !fault.Is(err, fault.Conflict) {
				f.Errorf("insert %d: %v, want a conflict", i, err)
			}
		}
		f.same("winners", won, 1)
	}},
	{"a limit admits exactly its number, however many ask at once", func(f *fixture) {
		limits := relay.AdmissionLimits{PerKey: 20, PerDay: 1000, Queue: 1000}
		admitted := 0
		for i, err := range together(50, func(int) error { return f.admitAndInsert(limits, t0) }) {
			if err == nil {
				admitted++
			} else if !fault.Is(err, fault.Exhausted) {
				f.Errorf("sender %d: %v", i, err)
			}
		}
		f.same("admitted", admitted, limits.PerKey)
	}},
	{"a failing neighbour takes nothing from the others", func(f *fixture) {
		const n = 60
		for i, err := range together(n, func(i int) error {
			note := f.note("", t0)
			return f.store.Update(f.Context(), func(tx store.Tx) error {
				if err := insert(tx, &note); err != nil {
					return err
				}
				if i%3 == 0 {
					return errRefused
				}
				return nil
			})
		}) {
			if want := i%3 == 0; (err == errRefused) != want || (err != nil && err != errRefused) {
				f.Errorf("Update %d = %v", i, err)
			}
		}
		list := f.waiting(f.box, 0, 2*n)
		f.same("kept", len(list), 40)
		f.same("counted", f.countWaiting(f.box), int64(40))
		for i, w := range list {
			if w.Seq != int64(i+1) {
				f.Fatalf("place %d holds Seq %d: a rolled back number was lost", i, w.Seq)
			}
		}
	}},
	{"mailboxes written at once keep to themselves", func(f *fixture) {
		boxes := make([]relay.MailboxID, 8)
		for i := range boxes {
			boxes[i] = f.addMailbox(f.person)
		}
		for i, err := range together(80, func(i int) error {
			note := f.note(fmt.Sprint("n", i/8), t0)
			note.Mailbox = boxes[i%8]
			return f.store.Update(f.Context(), func(tx store.Tx) error { return insert(tx, &note) })
		}) {
			if err != nil {
				f.Fatalf("insert %d: %v", i, err)
			}
		}
		for _, b := range boxes {
			f.same("waiting", f.countWaiting(b), int64(10))
			if list := f.waiting(b, 0, 20); list[9].Seq != 10 {
				f.Errorf("last Seq = %d, want 10", list[9].Seq)
			}
		}
	}},
}

// admitAndInsert is what the relay does with a notification.
func (f *fixture) admitAndInsert(limits relay.AdmissionLimits, at time.Time) error {
	n := f.note("", at)
	return f.store.Update(f.Context(), func(tx store.Tx) error {
		a, err := tx.Notifications().Admission(n.Mailbox, n.Key, limits.PerKey, at)
		if err != nil {
			return err
		}
		if err := limits.AdmitRate(a, at); err != nil {
			return err
		}
		if err := limits.AdmitQueue(a); err != nil {
			return err
		}
		return insert(tx, &n)
	})
}
