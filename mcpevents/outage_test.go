package mcpevents_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/drivertest"
	"github.com/herald-relay/herald/mcpevents/eventstest"
)

// TestStoreGoneForThirtySeconds lets every write fail for a while, in both ways, in the middle of deliveries. The attempt
// under way finishes and its outcome is stored once the store is back; none begins meanwhile, and nothing is lost.
func TestStoreGoneForThirtySeconds(t *testing.T) {
	for _, how := range []drivertest.Failure{drivertest.NotPersisted, drivertest.Persisted} {
		t.Run(how.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := drivertest.NewFaulty(newMemory())
				w := newWorld(t, db, mcpevents.Relay(), nil)
				w.run()
				r := w.receiver().Always(eventstest.Step{After: time.Second, Status: 200})
				w.subscribe()
				for i := range 20 {
					w.emit(fmt.Sprint("e", i))
				}
				after(5500 * time.Millisecond)
				begun := len(r.Deliveries())
				db.FailWhen(func(int) drivertest.Failure { return how })
				after(30 * time.Second)
				if n := len(r.Deliveries()); n != begun {
					t.Errorf("%d attempts began without a store", n-begun)
				}
				db.FailWhen(nil)
				after(5 * time.Minute)
				if n := len(r.Deliveries()); n != 20 {
					t.Errorf("%d attempts at 20 events, all of which succeed: an outcome was not kept", n)
				}
				for _, d := range w.deliveries(r) {
					if d.State != driver.Delivered || len(d.Log) != 1 || d.Log[0].Elapsed != time.Second {
						t.Errorf("delivery %d is %s after the attempts %+v, want one that took its second", d.Sequence, d.State, d.Log)
					}
				}
				var cursors []string
				for _, d := range r.Deliveries() {
					if len(cursors) == 0 || cursors[len(cursors)-1] != d.Cursor {
						cursors = append(cursors, d.Cursor)
					}
				}
				var want []string
				for i := range 20 {
					want = append(want, fmt.Sprint(i+1))
				}
				if diff := cmp.Diff(want, cursors); diff != "" {
					t.Errorf("cursors in order of arrival, repetitions left out (-want +got):\n%s", diff)
				}
				w.halt()
			})
		})
	}
}

// deliveries returns the log of the subscription that a receiver serves.
func (w *world) deliveries(r *eventstest.Receiver) []mcpevents.Logged {
	w.Helper()
	log, err := w.srv.Deliveries(w.Context(), r.Deliveries()[0].Subscription, 0, 100)
	if err != nil || len(log) != 20 {
		w.Fatalf("%d deliveries, %v", len(log), err)
	}
	return log
}

// crashing is a store whose process dies: from then on nothing is stored and nothing answers.
type crashing struct {
	driver.Driver
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

func (c *crashing) Update(ctx context.Context, fn func(driver.Tx) error) error {
	if c.dead.Load() {
		return errDead
	}
	return c.Driver.Update(ctx, fn)
}

// TestKilledProcessesLoseNothing kills a server at a random moment again and again; each time another takes over the
// store. What the dead one has on the wire still arrives, its outcome is lost.
func TestKilledProcessesLoseNothing(t *testing.T) {
	for name, p := range map[string]mcpevents.Policy{"strict": mcpevents.Relay(), "free": mcpevents.Ledger()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := newMemory()
				r := eventstest.NewReceiver(secret1).Always(eventstest.Step{After: 700 * time.Millisecond, Status: 200})
				const rounds, each = 40, 3
				for round := range rounds {
					c := &crashing{Driver: db}
					w := newWorld(t, c, p, nil)
					w.net.Handle("agent.example.com", http.Handler(r))
					w.run()
					if round == 0 {
						w.subscribe(`"ttlMs":100000000`)
					}
					for i := range each {
						w.emit(fmt.Sprintf("e%d-%d", round, i))
					}
					time.Sleep(time.Duration(round*137%2500) * time.Millisecond)
					c.dead.Store(true)
					w.halt()
				}
				w := newWorld(t, db, p, nil)
				w.net.Handle("agent.example.com", http.Handler(r))
				w.run()
				after(30 * time.Minute)
				w.halt()
				if n := len(r.Events()); n != rounds*each {
					t.Errorf("%d of %d events arrived", n, rounds*each)
				}
				if p.Order.Strict {
					checkOrder(t, r)
				}
			})
		})
	}
}

// checkOrder wants every first arrival to be later than those of all smaller cursors.
func checkOrder(t *testing.T, r *eventstest.Receiver) {
	t.Helper()
	newest, seen := 0, map[string]bool{}
	for _, d := range r.Deliveries() {
		var n int
		if _, err := fmt.Sscan(d.Cursor, &n); err != nil {
			t.Fatal(err)
		}
		if !seen[d.Event] && n != newest+1 {
			t.Errorf("cursor %d came first after %d", n, newest)
		}
		seen[d.Event], newest = true, max(newest, n)
	}
}

// TestTwoProcessesShareTheWork runs two servers on one store at once.
func TestTwoProcessesShareTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newMemory()
		r := eventstest.NewReceiver(secret1).Always(eventstest.Step{After: 100 * time.Millisecond, Status: 200})
		var ws [2]*world
		for i := range ws {
			ws[i] = newWorld(t, db, mcpevents.Relay(), nil)
			ws[i].net.Handle("agent.example.com", r)
			ws[i].run()
		}
		ws[0].subscribe()
		for i := range 50 {
			ws[i%2].emit(fmt.Sprint("e", i))
		}
		after(10 * time.Minute)
		if n, posts := len(r.Events()), len(r.Deliveries()); n != 50 || posts != 50 {
			t.Errorf("%d events in %d posts, want 50 in 50", n, posts)
		}
		checkOrder(t, r)
		for _, w := range ws {
			w.halt()
		}
	})
}

// TestASecondProcessMayRescueWhatHangs stops one process in the middle of an attempt.
func TestASecondProcessMayRescueWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newMemory()
		first := newWorld(t, db, mcpevents.Relay(), func(_ *mcpevents.Family, o *mcpevents.Options) { o.Engine.Grace = time.Nanosecond })
		first.run()
		r := first.receiver().Script(eventstest.Hang(), eventstest.Status(200))
		first.subscribe()
		first.emit("e1")
		after(time.Second)
		second := newWorld(t, db, mcpevents.Relay(), nil)
		second.net.Handle("agent.example.com", r)
		second.run()
		first.halt() // its attempt is cut off and its lease given back
		after(2 * time.Second)
		if n := len(r.Deliveries()); n != 2 {
			t.Errorf("%d posts, want the second process's at once", n)
		}
		second.halt()
	})
}
