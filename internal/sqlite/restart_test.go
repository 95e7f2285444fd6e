package sqlite

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

func (h home) admission(t *testing.T, perKey int, now time.Time) (a relay.Admission) {
	t.Helper()
	mustUpdate(t, h.Store, func(tx store.Tx) (err error) {
		a, err = tx.Notifications().Admission(h.box, h.key, perKey, now)
		return err
	})
	return a
}

// again closes the store and opens it anew.
func (h *home) again(t *testing.T) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), h.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Store = s
}

func TestNothingIsForgottenOverARestart(t *testing.T) {
	s, err := Open(t.Context(), newPath(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := settle(t, s)
	defer func() { h.Close() }()
	var sent []relay.Notification
	for i := range 6 {
		sent = append(sent, h.mustSend(t, h.note(t0.Add(time.Duration(i)*time.Minute))))
	}
	sent[2].Acknowledge(t0)
	mustUpdate(t, h.Store, func(tx store.Tx) error { return tx.Notifications().Save(sent[2]) })
	now := t0.Add(6 * time.Minute)
	before := h.admission(t, 4, now)
	h.again(t)
	if d := cmp.Diff(before, h.admission(t, 4, now)); d != "" {
		t.Errorf("admission (-before +after):\n%s", d)
	}
	if want := t0.Add(2 * time.Minute); !before.NthSend.Equal(want) || before.Today != 6 || before.Waiting != 5 {
		t.Errorf("admission = %+v, want the 4th at %v, 6 today, 5 waiting", before, want)
	}
	if n := h.mustSend(t, h.note(now)); n.Seq != 7 {
		t.Errorf("Seq = %d, want 7", n.Seq)
	}
	if err := verify(h.Store); err != nil {
		t.Error(err)
	}
}

func TestARollbackAfterARestartLeavesTheRateExact(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	h.mustSend(t, h.note(t0))
	clear(h.writer.mem.boxes) // as after a restart
	n := h.note(t0.Add(time.Second))
	err := h.Update(t.Context(), func(tx store.Tx) error { // the rate is loaded from rows that hold what is taken back
		if err := tx.Notifications().Insert(&n, t0); err != nil {
			return err
		}
		if _, err := tx.Notifications().Admission(h.box, h.key, 1, n.CreatedAt); err != nil {
			return err
		}
		return errNo
	})
	if err != errNo {
		t.Fatal(err)
	}
	if a := h.admission(t, 1, n.CreatedAt); !a.NthSend.Equal(t0) {
		t.Errorf("NthSend = %v, want %v", a.NthSend, t0)
	}
	if a := h.admission(t, 2, n.CreatedAt); !a.NthSend.IsZero() {
		t.Errorf("NthSend = %v, want none", a.NthSend)
	}
}

func TestMemoryStaysBounded(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	for i := range maxBoxes + 1 {
		h.writer.mem.boxes[relay.MailboxID(relay.RandomHex(2))+relay.MailboxID(rune(i))] = &box{}
	}
	h.mustSend(t, h.note(t0))
	if n := len(h.writer.mem.boxes); n != 0 {
		t.Errorf("%d mailboxes are remembered", n)
	}
	if n := h.mustSend(t, h.note(t0)); n.Seq != 2 {
		t.Errorf("Seq = %d, want 2", n.Seq)
	}
}

// TestForgetPassesByWhatAWrongClockDated keeps the chain whole when it must remove from its middle.
func TestForgetPassesByWhatAWrongClockDated(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	ahead := h.mustSend(t, h.note(t0.Add(100*24*time.Hour)))
	var old []relay.Notification
	for i := range 3 {
		old = append(old, h.mustSend(t, h.note(t0.Add(time.Duration(i)*time.Minute))))
	}
	young := h.mustSend(t, h.note(t0.Add(time.Hour)))
	mustUpdate(t, h.Store, func(tx store.Tx) error {
		n, err := tx.Notifications().Forget(t0.Add(10*time.Minute), 2)
		if n != 2 {
			t.Errorf("forgot %d, want 2", n)
		}
		return err
	})
	if err := verify(h.Store); err != nil {
		t.Error(err)
	}
	mustUpdate(t, h.Store, func(tx store.Tx) error {
		for _, n := range old[:2] {
			if _, err := tx.Notifications().Get(h.box, n.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("%d: %v, want not found", n.Seq, err)
			}
		}
		for _, n := range []relay.Notification{ahead, old[2], young} {
			if _, err := tx.Notifications().Get(h.box, n.ID); err != nil {
				t.Errorf("%d: %v", n.Seq, err)
			}
		}
		return tx.Mailboxes().Delete(h.box)
	})
}

// TestExpireReadsNothingWhenNothingIsDue is the promise that lets every sender ask.
func TestExpireReadsNothingWhenNothingIsDue(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	n := h.mustSend(t, h.note(t0))
	expire := func(cutoff time.Time) (list []store.Expired) {
		mustUpdate(t, h.Store, func(tx store.Tx) (err error) {
			list, err = tx.Notifications().Expire(h.box, cutoff, 10)
			return err
		})
		return list
	}
	expire(t0.Add(-time.Hour)) // looks once
	if got := h.writer.mem.oldest; got != t0.UnixMilli() {
		t.Errorf("oldest = %d, want %d", got, t0.UnixMilli())
	}
	if d := cmp.Diff([]store.Expired{{Mailbox: h.box, ID: n.ID}}, expire(t0.Add(1))); d != "" {
		t.Errorf("expired (-want +got):\n%s", d)
	}
}
