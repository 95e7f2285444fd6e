package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/drivertest"
)

func TestEventsDriver(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) driver.Driver { return pgtest.Open(t).Events() })
}

// Two processes append to one ledger: a reader who follows its end misses none, whichever commits later.
func TestAReaderOfALedgerMissesNothingThatTwoProcessesAppend(t *testing.T) {
	t.Parallel()
	const each = 60
	url := pgtest.URL(t)
	stores := [2]driver.Driver{pgtest.OpenURL(t, url, nil).Events(), pgtest.OpenURL(t, url, nil).Events()}
	var wg sync.WaitGroup
	for i, db := range stores {
		for w := range 2 {
			wg.Go(func() {
				for j := range each {
					err := db.Update(t.Context(), func(tx driver.Tx) error {
						e := driver.Event{Ledger: "l", ID: fmt.Sprint(i, "-", w, "-", j), Name: "n", Time: benchDay, Recorded: benchDay, Data: []byte("{}")}
						return tx.Events().Append(&e)
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	reader, after := stores[0], int64(0)
	for after < 4*each && !t.Failed() {
		must(t, reader.View(t.Context(), func(tx driver.Tx) error {
			found, err := tx.Events().Read(driver.Query{Ledger: "l", After: after, Limit: 9})
			for _, e := range found {
				if e.Sequence != after+1 {
					t.Errorf("after %d came %d", after, e.Sequence)
				}
				after = e.Sequence
			}
			return err
		}))
	}
	wg.Wait()
}

// Two processes share the work: no delivery is leased by both, and a lease that moved on settles nothing.
func TestTwoProcessesShareDeliveries(t *testing.T) {
	t.Parallel()
	const subscriptions = 40
	url := pgtest.URL(t)
	stores := [2]driver.Driver{pgtest.OpenURL(t, url, nil).Events(), pgtest.OpenURL(t, url, nil).Events()}
	must(t, stores[0].Update(t.Context(), func(tx driver.Tx) error {
		e := driver.Event{Ledger: "l", ID: "1", Name: "n", Time: benchDay, Recorded: benchDay, Data: []byte("{}")}
		if err := tx.Events().Append(&e); err != nil {
			return err
		}
		var ds []driver.Delivery
		for i := range subscriptions {
			s := driver.Subscription{ID: fmt.Sprint("s", i), Key: fmt.Sprint("k", i), Family: "f", Principal: "p", Ledger: "l", Name: "n", Arguments: []byte("{}"),
				URL: "https://a.example/", Host: fmt.Sprint("h", i, ".example"), Strict: true, Parallel: 1, State: driver.Active, Created: benchDay}
			if err := tx.Subscriptions().Save(s); err != nil {
				return err
			}
			ds = append(ds, driver.Delivery{Subscription: s.ID, Sequence: 1, Ledger: "l", State: driver.Pending, Queued: benchDay, Due: benchDay})
		}
		return tx.Deliveries().Queue(ds)
	}))
	var mu sync.Mutex // guards leases
	leases := map[string]int64{}
	var wg sync.WaitGroup
	for _, db := range stores {
		for range 2 {
			wg.Go(func() {
				for range subscriptions {
					var got []driver.Lease
					err := db.Update(t.Context(), func(tx driver.Tx) (err error) {
						got, err = tx.Deliveries().Claim(driver.ClaimParams{Now: benchDay, Until: benchDay.Add(time.Minute), Limit: 3, PerLane: 1, PerHost: 1})
						return err
					})
					mu.Lock()
					for _, l := range got {
						if leases[l.Subscription.ID] != 0 {
							t.Errorf("%s is leased twice", l.Subscription.ID)
						}
						leases[l.Subscription.ID] = l.Delivery.Lease
					}
					mu.Unlock()
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if len(leases) != subscriptions {
		t.Errorf("%d deliveries were leased, want %d", len(leases), subscriptions)
	}
	later := benchDay.Add(2 * time.Minute)
	settle := func(db driver.Driver, lease int64) (held []bool) {
		must(t, db.Update(t.Context(), func(tx driver.Tx) (err error) {
			held, err = tx.Deliveries().Settle([]driver.Settlement{{Subscription: "s0", Sequence: 1, Lease: lease, State: driver.Delivered, At: later}})
			return err
		}))
		return held
	}
	must(t, stores[1].Update(t.Context(), func(tx driver.Tx) error {
		_, err := tx.Deliveries().Claim(driver.ClaimParams{Now: later, Until: later.Add(time.Minute), Limit: 100, PerLane: 1, PerHost: 1})
		return err
	}))
	if held := settle(stores[0], leases["s0"]); held[0] {
		t.Error("a lease that moved on settled its delivery")
	}
	if held := settle(stores[1], leases["s0"]+1); !held[0] {
		t.Error("the newest lease did not settle its delivery")
	}
}
