package storetest

import (
	"fmt"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/mcpevents/driver"
)

func (f *fixture) event(id string) driver.Event {
	return driver.Event{Ledger: string(f.box), ID: id, Name: "notification.reply", Audience: "a", Time: t0, Recorded: t0, Data: []byte(`{"a":1}`)}
}

func (f *fixture) told() (ids []string) {
	f.Helper()
	events := read(f, func(tx store.Tx) ([]driver.Event, error) {
		return tx.Events().Events().Read(driver.Query{Ledger: string(f.box), Audience: "a", Limit: 100})
	})
	for i, e := range events {
		if e.Sequence != int64(i)+1 {
			f.Errorf("event %d has the sequence %d", i, e.Sequence)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

// A reply and its event are one transaction (decision 15).
var eventCases = []testCase{
	{"an event commits with the fact that it reports, or not at all", func(f *fixture) {
		n := f.send(f.note("one", t0))
		report := func(id string, err error) error {
			return f.store.Update(f.Context(), func(tx store.Tx) error {
				n, err2 := tx.Notifications().Get(f.box, n.ID)
				if err2 != nil {
					return err2
				}
				if n.Acknowledge(t0.Add(time.Minute)); id == "lost" {
					n.DisplayedAt = t0
				}
				e := f.event(id)
				if err := tx.Notifications().Save(n); err != nil {
					return err
				}
				if err := tx.Events().Events().Append(&e); err != nil {
					return err
				}
				return err
			})
		}
		f.wantFault(report("lost", fault.InvalidRequest("x", "no")), fault.Invalid, "")
		f.same("told after a failure", f.told(), []string(nil))
		if err := report("kept", nil); err != nil {
			f.Fatal(err)
		}
		f.same("told", f.told(), []string{"kept"})
		got := read(f, func(tx store.Tx) (relay.Notification, error) { return tx.Notifications().Get(f.box, n.ID) })
		if got.AckedAt.IsZero() || !got.DisplayedAt.IsZero() {
			f.Errorf("the fact is %+v", got)
		}
	}},
	{"an event that is told twice leaves the transaction usable", func(f *fixture) {
		for i := range 3 {
			f.update(func(tx store.Tx) error {
				e, again := f.event(fmt.Sprint(i)), f.event("0")
				if err := tx.Events().Events().Append(&e); i > 0 && err != nil {
					return err
				}
				if err := tx.Events().Events().Append(&again); err != driver.ErrExists || again.Sequence != 1 {
					return fmt.Errorf("the second time: %v, sequence %d", err, again.Sequence)
				}
				return tx.Mailboxes().SetState(f.box, relay.State{Muted: i == 2})
			})
		}
		f.same("told", f.told(), []string{"0", "1", "2"})
		f.same("state", f.mailbox().State, relay.State{Muted: true})
	}},
	{"a ledger of nobody's mailbox is kept too", func(f *fixture) {
		f.update(func(tx store.Tx) error {
			if _, err := tx.Mailboxes().Get(f.box); err != nil { // owned by now
				return err
			}
			for range 2 {
				e := f.event("")
				e.Ledger, e.ID = "workspace", relay.RandomHex(4)
				if err := tx.Events().Events().Append(&e); err != nil {
					return err
				}
			}
			return nil
		})
		head := read(f, func(tx store.Tx) (driver.Head, error) { return tx.Events().Events().Head("workspace") })
		f.same("newest", head.Newest, int64(2))
	}},
}
