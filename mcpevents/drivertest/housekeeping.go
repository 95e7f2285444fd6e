package drivertest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
)

// testHousekeeping lets a server that delivers nothing do all that changes or ends subscriptions and removes records, once
// for each write and each failure, with a caller who repeats what failed. What is there at the end must be the same.
func testHousekeeping(t *testing.T, open Open) {
	var want []string
	writes := 0
	synctest.Test(t, func(t *testing.T) { want, writes = newHousekeeping(t, open).live(0, 0) })
	for n := 1; n <= most(writes); n++ {
		for _, how := range []Failure{NotPersisted, Persisted} {
			t.Run(fmt.Sprintf("write %d %s", n, how), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					got, _ := newHousekeeping(t, open).live(n, how)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("what became of the records (-without +with the failure):\n%s", diff)
					}
				})
			})
		}
	}
}

type housekeeping struct {
	*flow
	seen []string
}

func newHousekeeping(t *testing.T, open Open) *housekeeping {
	p := mcpevents.SEP()
	p.Quotas.Waiting = 3
	p.Verification.Remember = time.Hour
	return &housekeeping{flow: newFlow(t, open, p)}
}

// live returns what it saw on its way, and how many writes it made.
func (h *housekeeping) live(nth int, how Failure) ([]string, int) {
	h.db.FailNth(nth, how)
	first := h.subscribe()
	for i := range 5 { // two of them overflow
		h.emit(fmt.Sprint("e", i))
	}
	h.look("overflown", first)
	h.suspend(first)
	h.subscribe() // wakes it and postpones
	h.look("awake", first)
	h.insist("resend", func() error { return h.srv.Resend(h.Context(), first, 1) })
	h.look("resent", first)
	h.sweep(time.Hour) // all are past their deadline
	h.look("overdue", first)
	h.emit("pending")
	h.unsubscribe()
	h.look("unsubscribed", first)
	h.subscribe()
	h.emit("again")
	h.insist("revoke", func() error { return h.srv.Revoke(h.Context(), "p") })
	h.look("revoked", first)
	h.subscribe()
	h.sweep(10 * 24 * time.Hour) // it has lapsed
	h.look("lapsed", first)
	h.sweep(100 * 24 * time.Hour)
	h.look("forgotten", first)
	return h.seen, h.db.Updates()
}

func (h *housekeeping) unsubscribe() {
	params := fmt.Appendf(nil, `{"name":"e","delivery":{"url":%q}}`, flowURL)
	h.insist("unsubscribe", func() error {
		_, err := h.srv.Call(h.Context(), mcpevents.Request{Method: mcpevents.MethodUnsubscribe, Params: params, Dialect: mcpevents.DialectSketch,
			Caller: mcpevents.Caller{Principal: "p"}})
		return err
	})
}

func (h *housekeeping) sweep(later time.Duration) {
	now := time.Now().Add(later)
	h.insist("sweep", func() error { return h.srv.Sweep(h.Context(), now) })
}

// suspend does what failing deliveries would.
func (h *housekeeping) suspend(id string) {
	h.Helper()
	err := h.db.Driver.Update(h.Context(), func(tx driver.Tx) error {
		sub, err := tx.Subscriptions().Get(id)
		if err != nil {
			return err
		}
		sub.State, sub.Reason, sub.Changed = driver.Suspended, "failing", time.Now()
		return tx.Subscriptions().Save(sub)
	})
	if err != nil {
		h.Fatal(err)
	}
}

// look notes what there is, without what depends on when a failed call was repeated.
func (h *housekeeping) look(when, id string) {
	h.Helper()
	err := h.db.View(h.Context(), func(tx driver.Tx) error {
		sub, err := tx.Subscriptions().Get(id)
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			return err
		}
		proof, err2 := tx.Verifications().Verified("p", flowURL)
		head, err3 := tx.Events().Head("")
		kept, err4 := tx.Events().Read(driver.Query{Limit: 100})
		oldest, err5 := tx.Deliveries().Oldest(id)
		waiting, err6 := tx.Deliveries().CountPending(id)
		ds, err7 := tx.Deliveries().List(id, 0, 100)
		h.seen = append(h.seen, fmt.Sprintf("%s: %s %s gap=%t proved=%t newest=%d forgotten=%d events=%d oldest=%d waiting=%d", when, sub.State, sub.Reason,
			sub.Gap, !proof.IsZero(), head.Newest, head.Forgotten, len(kept), oldest, waiting))
		for _, d := range ds {
			h.seen = append(h.seen, fmt.Sprintf("%s: delivery %d %s %s manual=%t tries=%d", when, d.Sequence, d.State, d.Reason, d.Manual, d.Tries))
		}
		return errors.Join(err2, err3, err4, err5, err6, err7)
	})
	if err != nil {
		h.Fatal(err)
	}
}
