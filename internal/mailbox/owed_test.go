package mailbox_test

import (
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/mailbox"
	"github.com/herald-relay/herald/internal/presence"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite"
	"github.com/herald-relay/herald/internal/store"
)

const (
	person = relay.PersonID("0123456789abcdef")
	box    = relay.MailboxID("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	device = relay.DeviceID("0123456789abcdef")
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// service serves one mailbox with one device.
func service(t *testing.T) *mailbox.Service {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	s := &mailbox.Service{Store: st, Hub: presence.New(nil), Limits: mailbox.Limits{QueueTTL: 24 * time.Hour}, Log: slog.New(slog.DiscardHandler)}
	update(t, s, func(tx store.Tx) error {
		if err := tx.People().Create(relay.Person{ID: person, Name: "ada", CreatedAt: noon}); err != nil {
			return err
		}
		if err := tx.Mailboxes().Create(relay.Mailbox{ID: box, Person: person, CreatedAt: noon}); err != nil {
			return err
		}
		return tx.Devices().Create(relay.Device{ID: device, Mailbox: box, Owner: true, CreatedAt: noon})
	})
	return s
}

func update(t *testing.T, s *mailbox.Service, fn func(store.Tx) error) {
	t.Helper()
	if err := s.Store.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// queue stores one notification and does something to it.
func queue(t *testing.T, s *mailbox.Service, at time.Time, then func(*relay.Notification)) relay.Notification {
	t.Helper()
	n := relay.Notification{ID: relay.NewNotificationID(at), Mailbox: box, Key: "00000000", CreatedAt: at, Payload: []byte(`{"title":"x"}`)}
	n.AgentID = n.ID.MadeAgentID()
	update(t, s, func(tx store.Tx) error {
		if err := tx.Notifications().Insert(&n, at.Add(-time.Hour)); err != nil {
			return err
		}
		then(&n)
		return tx.Notifications().Save(n)
	})
	return n
}

// sent plays a stream: it takes what is owed, batch by batch, until there is no more.
func sent(t *testing.T, s *mailbox.Service, after int64, fresh []relay.NotificationID, limit int) (seqs []int64) {
	t.Helper()
	for {
		list, err := s.Owed(t.Context(), box, device, mailbox.Place{After: after, Fresh: fresh}, limit, noon)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range list {
			seqs = append(seqs, w.Seq)
			after = w.Seq
		}
		if len(list) > limit {
			t.Fatalf("%d are listed, more than %d", len(list), limit)
		}
		if len(list) < limit {
			return seqs
		}
	}
}

// Whatever is fresh and whatever waits, a stream is owed both, each once and in order.
func TestAStreamIsOwedWhatWaitsAndWhatIsFreshInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := service(t)
		var fresh []relay.NotificationID
		var want []int64
		after := int64(rnd.IntN(5))
		for range 30 {
			waits, isFresh := rnd.IntN(2) == 0, rnd.IntN(2) == 0
			n := queue(t, s, noon, func(n *relay.Notification) {
				if !waits {
					n.Acknowledge(noon)
				}
			})
			if isFresh {
				fresh = append(fresh, n.ID)
			}
			if n.Seq > after && (waits || isFresh) {
				want = append(want, n.Seq)
			}
		}
		rnd.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
		fresh = append(fresh, fresh...) // a hint may be repeated
		for _, limit := range []int{1, 4, 100} {
			if diff := cmp.Diff(want, sent(t, s, after, fresh, limit)); diff != "" {
				t.Errorf("seed %d, %d at a time: sent (-want +got):\n%s", seed, limit, diff)
			}
		}
	}
}

func TestWhatIsNotOwed(t *testing.T) {
	t.Parallel()
	s := service(t)
	expired := queue(t, s, noon.Add(-25*time.Hour), func(n *relay.Notification) { n.Expire() })
	old := queue(t, s, noon.Add(-24*time.Hour-time.Millisecond), func(*relay.Notification) {})
	held := queue(t, s, noon, func(n *relay.Notification) {
		_, _ = n.Record(relay.Receipt{Kind: relay.KindSuppressed, Reason: "muted"}, noon)
	})
	fresh := []relay.NotificationID{expired.ID, old.ID, held.ID, "r_000000000000000000000000"}
	if diff := cmp.Diff([]int64{held.Seq}, sent(t, s, 0, fresh, 4)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if got := sent(t, s, 0, nil, 4); got != nil {
		t.Errorf("without hints: %v, want nothing", got)
	}
	update(t, s, func(tx store.Tx) error {
		n, err := tx.Notifications().Get(box, old.ID)
		if err == nil && (!n.Suppressed || n.Reason != relay.ReasonExpired) {
			t.Errorf("what waited too long is %+v, want it expired on the way", n)
		}
		return err
	})
}

func TestADeviceThatIsGoneIsOwedNothing(t *testing.T) {
	t.Parallel()
	s := service(t)
	n := queue(t, s, noon, func(*relay.Notification) {})
	update(t, s, func(tx store.Tx) error { return tx.Devices().Delete(box, device) })
	list, err := s.Owed(t.Context(), box, device, mailbox.Place{Fresh: []relay.NotificationID{n.ID}}, 4, noon)
	if !fault.Is(err, fault.Unauthenticated) || len(list) != 0 {
		t.Errorf("Owed = %v, %v; want Unauthenticated", list, err)
	}
	if _, err := s.OpenStream(t.Context(), box, device, noon); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("OpenStream = %v, want Unauthenticated", err)
	}
	if err := s.Heard(t.Context(), box, device, noon); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Heard = %v, want Unauthenticated", err)
	}
}

func TestAStreamsNameIsKeptAndSortsBehindTheOneBefore(t *testing.T) {
	t.Parallel()
	s := service(t)
	var names []string
	for _, at := range []time.Time{noon, noon, noon.Add(-time.Hour), noon.Add(time.Minute)} { // the clock is set back once
		name, err := s.OpenStream(t.Context(), box, device, at)
		if err != nil {
			t.Fatal(err)
		}
		update(t, s, func(tx store.Tx) error {
			list, err := tx.Devices().List(box)
			if err == nil && list[0].Stream != name {
				t.Errorf("the store knows %q, want %q", list[0].Stream, name)
			}
			return err
		})
		names = append(names, name)
	}
	if !slices.IsSorted(names) || len(slices.Compact(names)) != 4 {
		t.Errorf("names = %v, want each behind the one before", names)
	}
}
