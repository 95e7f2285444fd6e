// Package drivertest proves that a store keeps the promises of package driver.
//
// One call tests an implementation:
//
//	func TestDriver(t *testing.T) {
//		drivertest.Run(t, func(t *testing.T) driver.Driver { return open(t) })
//	}
//
// Run states each promise as a test of its own, then compares long random histories with memdriver's, and lets whole
// servers live through a fault at every one of their writes, each both failed and not persisted, and failed yet
// persisted (see Faulty). The opener is called for each test and returns an empty store.
package drivertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// Open returns an empty store that lives as long as the test.
type Open func(t *testing.T) driver.Driver

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"an error rolls everything back", testRollback},
		{"a panic rolls everything back", testPanic},
		{"a view cannot write", testViewWrites},
		{"an ended context is an error", testContext},
		{"events get sequences in their ledger", testAppend},
		{"an event id is taken once", testAppendTwice},
		{"events are kept byte for byte", testEventBytes},
		{"reading selects", testRead},
		{"events are forgotten from the front", testForgetEvents},
		{"subscriptions are kept whole", testSaveSubscription},
		{"a key belongs to one subscription", testKeyTaken},
		{"listing pages by id", testListSubscriptions},
		{"matching finds those who may want it", testMatching},
		{"lapsed subscriptions are found", testLapsed},
		{"ended subscriptions are forgotten with all they had", testForgetSubscriptions},
		{"a strict lane yields its oldest only", testStrictClaim},
		{"a free lane yields up to its bound", testFreeClaim},
		{"a claim respects its bounds", testClaimBounds},
		{"who may not be sent to is not claimed", testClaimExcludes},
		{"a lease that ran out is claimed again", testRescue},
		{"a lease number fences", testFencing},
		{"settling records attempts", testSettle},
		{"queueing twice is queueing once", testQueueTwice},
		{"a settled delivery begins anew", testRequeue},
		{"dropping takes the oldest first", testDrop},
		{"what is overdue is dropped", testOverdue},
		{"suspension stops and postpones", testPostpone},
		{"the next due time", testNextDue},
		{"deliveries are listed and forgotten", testForgetDeliveries},
		{"verifications", testVerifications},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(&suite{T: t, db: open(t)}) })
	}
	t.Run("random histories equal memdriver's", func(t *testing.T) { testHistories(t, open) })
	t.Run("a server survives a fault at every write", func(t *testing.T) { testFaults(t, open) })
	t.Run("so does what ends and removes", func(t *testing.T) { testHousekeeping(t, open) })
}

// suite is one test on one store.
type suite struct {
	*testing.T
	db driver.Driver
}

// epoch is a fixed instant that tests count from.
var epoch = time.UnixMilli(1_700_000_000_123).UTC()

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

func (s *suite) update(fn func(driver.Tx) error) {
	s.Helper()
	if err := s.db.Update(s.Context(), fn); err != nil {
		s.Fatalf("update: %v", err)
	}
}

func (s *suite) view(fn func(driver.Tx) error) {
	s.Helper()
	if err := s.db.View(s.Context(), fn); err != nil {
		s.Fatalf("view: %v", err)
	}
}

// append appends n events named "e" with ids <ledger>1, <ledger>2 and so on, one second apart.
func (s *suite) append(ledger string, n int) {
	s.Helper()
	s.update(func(tx driver.Tx) error {
		h, err := tx.Events().Head(ledger)
		for i := 1; i <= n && err == nil; i++ {
			k := int(h.Newest) + i
			err = tx.Events().Append(&driver.Event{Ledger: ledger, ID: fmt.Sprint(ledger, k), Name: "e", Time: at(k), Recorded: at(k), Data: []byte(`{}`)})
		}
		return err
	})
}

// subscription is an active one of principal "p" on ledger "l" for events "e".
func subscription(id string, change ...func(*driver.Subscription)) driver.Subscription {
	sub := driver.Subscription{ID: id, Key: "key-" + id, Family: "f", Principal: "p", Ledger: "l", Name: "e", Arguments: []byte(`{}`),
		URL: "https://" + id + ".example.com/", Host: id + ".example.com", Secrets: []driver.Secret{{Sealed: []byte{0, 1, 255}}},
		Dialect: "sketch", Strict: true, Parallel: 2, State: driver.Active, Created: at(0), Refreshed: at(0), Changed: at(0)}
	for _, f := range change {
		f(&sub)
	}
	return sub
}

func free(s *driver.Subscription) { s.Strict = false }

func (s *suite) save(subs ...driver.Subscription) {
	s.Helper()
	s.update(func(tx driver.Tx) error {
		for _, sub := range subs {
			if err := tx.Subscriptions().Save(sub); err != nil {
				return err
			}
		}
		return nil
	})
}

func pending(sub string, sequence int64, due time.Time) driver.Delivery {
	return driver.Delivery{Subscription: sub, Sequence: sequence, Ledger: "l", State: driver.Pending, Cursor: sequence, Queued: at(0), Due: due}
}

func (s *suite) queue(ds ...driver.Delivery) {
	s.Helper()
	s.update(func(tx driver.Tx) error { return tx.Deliveries().Queue(ds) })
}

// claim claims at an instant for ten seconds, with wide bounds that changes narrow, and names what it got.
func (s *suite) claim(now time.Time, change ...func(*driver.ClaimParams)) []driver.Lease {
	s.Helper()
	p := driver.ClaimParams{Now: now, Until: now.Add(10 * time.Second), Limit: 100, PerLane: 100, PerHost: 100}
	for _, f := range change {
		f(&p)
	}
	var leases []driver.Lease
	s.update(func(tx driver.Tx) (err error) {
		leases, err = tx.Deliveries().Claim(p)
		return err
	})
	return leases
}

func (s *suite) claims(now time.Time, want ...string) []driver.Lease {
	s.Helper()
	leases := s.claim(now)
	s.same("claimed", want, named(leases))
	return leases
}

func named(leases []driver.Lease) []string {
	var names []string
	for _, l := range leases {
		names = append(names, fmt.Sprintf("%s/%d#%d", l.Delivery.Subscription, l.Delivery.Sequence, l.Delivery.Lease))
	}
	return names
}

func (s *suite) settle(ss ...driver.Settlement) []bool {
	s.Helper()
	var held []bool
	s.update(func(tx driver.Tx) (err error) {
		held, err = tx.Deliveries().Settle(ss)
		return err
	})
	return held
}

func settlement(l driver.Lease, state driver.DeliveryState, when time.Time) driver.Settlement {
	return driver.Settlement{Subscription: l.Delivery.Subscription, Sequence: l.Delivery.Sequence, Lease: l.Delivery.Lease, State: state, Due: when, At: when,
		Attempt: &driver.Attempt{Started: when, Elapsed: 12 * time.Millisecond, Status: 500, Category: "http_5xx", Verdict: "again"}}
}

func (s *suite) get(sub string, sequence int64) driver.Lease {
	s.Helper()
	var l driver.Lease
	s.view(func(tx driver.Tx) (err error) {
		l, err = tx.Deliveries().Leased(sub, sequence)
		return err
	})
	return l
}

func (s *suite) same(what string, want, got any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (s *suite) fails(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: error %v, want %v", what, err, want)
	}
}
