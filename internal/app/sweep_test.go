package app_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
	"github.com/herald-relay/herald/internal/testkit"
)

// hold keeps the store of a relay within reach of its test.
type hold struct{ store.Store }

func (h *hold) wrap(s store.Store) store.Store {
	h.Store = s
	return s
}

// look reads from the store.
func look[T any](t *testing.T, s store.Store, fn func(store.Tx) (T, error)) (v T) {
	t.Helper()
	err := s.View(t.Context(), func(tx store.Tx) (err error) {
		v, err = fn(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWhatNobodyTookExpires(t *testing.T) {
	t.Parallel()
	for _, hours := range []int{1, 24} {
		t.Run(fmt.Sprint(hours, " hours"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.QueueTTL = time.Duration(hours) * time.Hour }})
				d := r.Pair("laptop")
				agent := d.Agent("bot")
				waiting, other := agent.Send(map[string]any{"title": "waits"}), agent.Send(map[string]any{"title": "acknowledged"})
				s := d.Stream()
				for _, id := range []string{waiting, other} {
					if f := s.Next(); f.Text("notificationId") != id {
						t.Fatalf("frame = %v, want %s", f, id)
					} else if id == other {
						s.Send(testkit.Frame{"type": "ack", "id": f["id"]})
					}
				}
				devSettle(s)
				s.Conn.CloseNow()
				ttl := time.Duration(hours) * time.Hour
				time.Sleep(ttl - time.Second)
				want := `{"notificationId":"` + waiting + `","received":true,"receivedAt":"<time>","queued":true,"displayed":false,"spoken":false,"replied":false,"expectReply":false,"suppressed":false}`
				devMatch(t, "before", devReceipt(agent, waiting).Raw, want)
				if hours == 24 {
					return // its id is forgotten with the day; loop_test.go has the expiry after one
				}
				time.Sleep(20 * time.Second)
				want = strings.Replace(strings.Replace(want, `"queued":true`, `"queued":false`, 1),
					`"suppressed":false`, `"suppressed":true,"reason":"expired","suppressedScope":"all"`, 1)
				devMatch(t, "after", devReceipt(agent, waiting).Raw, want)
				devMatch(t, "the acknowledged one", devReceipt(agent, other).Raw,
					`{"notificationId":"`+other+`","received":true,"receivedAt":"<time>","queued":false,<rest>"suppressed":false}`)
				if got := d.Call("GET", "/v1/device/info", nil).Body["pending"]; got != 0.0 {
					t.Errorf("pending = %v", got)
				}
				devSettle(d.Stream())

				// A short waiting time does not shorten the day for which ids are known (section 15, trap 10).
				time.Sleep(22*time.Hour + 30*time.Minute)
				devReceipt(agent, waiting)
			})
		})
	}
}

// A place in the queue is free the moment its holder's time is over, sweep or no sweep.
func TestAnExpiredNotificationHoldsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.QueueMax, c.QueueTTL = 1, time.Hour }})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		agent.Send(map[string]any{"title": "one"})
		time.Sleep(time.Hour)
		a := agent.Call("POST", "/v1/notify", map[string]any{"title": "two"})
		devRefused(t, a, 429, "queue_full")
		time.Sleep(time.Millisecond)
		agent.Send(map[string]any{"title": "two"})
	})
}

func TestAWaitingTimeBeyondADayIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.QueueTTL = 30 * time.Hour }})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		id := agent.Send(map[string]any{"title": "patient"})
		time.Sleep(30*time.Hour - time.Minute)
		devRefused(t, agent.Call("GET", "/v1/receipts/"+id, nil), 404, "not_found") // known for a day
		s := d.Stream()
		if f := s.Next(); f.Text("notificationId") != id {
			t.Errorf("frame = %v, want %s", f, id)
		}
	})
}

func TestNotificationsAreForgottenAfterTwentyFiveHours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		s := d.Stream()
		agentID, id := devNotified(agent, s)
		s.Send(testkit.Frame{"type": "receipt", "id": id, "kind": "replied", "text": "yes"})
		devSettle(s)
		time.Sleep(24 * time.Hour)
		devReceipt(agent, agentID) // to the millisecond
		time.Sleep(time.Millisecond)
		devRefused(t, agent.Call("GET", "/v1/receipts/"+agentID, nil), 404, "not_found")
		time.Sleep(time.Hour - time.Second)
		if devUsage(d, "storageBytes") == 0 {
			t.Error("forgotten before the 25 hours were over")
		}
		time.Sleep(5*time.Minute + time.Second)
		if got := devUsage(d, "storageBytes"); got != 0 {
			t.Errorf("storageBytes = %d, want everything forgotten", got)
		}
		devRefused(t, d.Call("POST", "/v1/device/receipt", map[string]any{"id": id, "kind": "spoken"}), 404, "not_found")
	})
}

// What other records live through: usage rows seven days, marks their longest window, codes ten minutes, mailboxes
// thirty days of silence.
func TestOldRecordsAreSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		testkit.New(t, testkit.Options{Pipes: true, Dir: dir}).Stop()
		start := time.Now()
		over, almost, seen := aged("over", 30*day+time.Millisecond, 0), aged("almost", 30*day-2*time.Minute, 0), aged("seen", 90*day, 30*day-time.Hour)
		never := aged("long ago", 90*day, 31*day)
		plant(t, dir, over, almost, seen, never)
		token := plantDevice(t, dir, almost.ID)
		inStore(t, dir, func(tx store.Tx) error {
			people, err := tx.People().List()
			if err != nil {
				return err
			}
			for days := range 10 {
				if err := tx.Usage().Add(seen.ID, relay.Day(start.AddDate(0, 0, -days)), relay.Usage{Requests: 1}); err != nil {
					return err
				}
			}
			for i, age := range []time.Duration{time.Hour, 2*time.Hour - time.Minute, 2 * time.Hour, 3 * time.Hour} {
				if err := tx.Marks().Add("pair_start", fmt.Sprint(i), start.Add(-age)); err != nil {
					return err
				}
			}
			for i, left := range []time.Duration{-time.Minute, 0, time.Minute} {
				code := relay.PairCode{Hash: relay.Hash{byte(i)}, Person: people[0].ID, CreatedAt: start, ExpiresAt: start.Add(left)}
				if err := tx.Pairing().Create(code); err != nil {
					return err
				}
			}
			return nil
		})

		var h hold
		r := testkit.New(t, testkit.Options{Pipes: true, Dir: dir, Wrap: h.wrap})
		synctest.Wait() // the first round comes at once
		boxes := func() (names []string) {
			for _, b := range look(t, h.Store, func(tx store.Tx) ([]relay.Mailbox, error) {
				people, err := tx.People().List()
				if err != nil {
					return nil, err
				}
				return tx.Mailboxes().List(people[0].ID)
			}) {
				names = append(names, b.Name)
			}
			return names
		}
		if diff := cmp.Diff([]string{"seen", "almost"}, boxes()); diff != "" {
			t.Errorf("mailboxes (-want +got):\n%s", diff)
		}
		days := look(t, h.Store, func(tx store.Tx) (n int, err error) {
			for age := range 10 {
				u, err := tx.Usage().Get(seen.ID, relay.Day(start.AddDate(0, 0, -age)))
				if err != nil {
					return n, err
				}
				n += int(u.Requests)
			}
			return n, nil
		})
		if days != 8 {
			t.Errorf("usage of %d days is kept, want today and seven before", days)
		}
		marks := look(t, h.Store, func(tx store.Tx) (int, error) { return tx.Marks().Count("pair_start", "", start.AddDate(-1, 0, 0)) })
		if marks != 2 {
			t.Errorf("%d marks are kept, want those of the last two hours", marks)
		}
		var left int
		err := h.Update(t.Context(), func(tx store.Tx) (err error) {
			left, err = tx.Pairing().Forget(start.Add(time.Hour), 10)
			return err
		})
		if err != nil || left == 0 || left > 2 {
			t.Errorf("%d codes were kept, %v; want those that still work", left, err)
		}

		time.Sleep(6 * time.Minute)
		if diff := cmp.Diff([]string{"seen"}, boxes()); diff != "" {
			t.Errorf("mailboxes after the next round (-want +got):\n%s", diff)
		}
		devRefused(t, r.Do("GET", "/v1/device/info", token, nil), 401, "unauthorized")
	})
}

// sizes notes by how much each Update changes what a mailbox holds.
type sizes struct {
	store.Store
	mailbox relay.MailboxID

	mu    sync.Mutex // guards the rest
	steps []int64    // bytes removed, zeros left out
}

func (s *sizes) Update(ctx context.Context, fn func(store.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.size(ctx)
	if err != nil {
		return err
	}
	if err := s.Store.Update(ctx, fn); err != nil {
		return err
	}
	after, err := s.size(ctx)
	if before != after {
		s.steps = append(s.steps, before-after)
	}
	return err
}

func (s *sizes) size(ctx context.Context) (n int64, err error) {
	err = s.View(ctx, func(tx store.Tx) error {
		n, err = tx.Notifications().Size(s.mailbox)
		return err
	})
	return n, err
}

// However much there is to remove, one transaction removes 500 at most.
func TestSweepsRemoveInBoundedBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		testkit.New(t, testkit.Options{Pipes: true, Dir: dir}).Stop()
		box := aged("laptop", time.Hour, 0)
		plant(t, dir, box)
		old := time.Now().Add(-26 * time.Hour)
		const payload = `{"title":"x"}`
		inStore(t, dir, func(tx store.Tx) error {
			for range 1200 {
				n := relay.Notification{ID: relay.NewNotificationID(old), Mailbox: box.ID, Key: "00000000", CreatedAt: old, Payload: []byte(payload), AckedAt: old}
				n.AgentID = n.ID.MadeAgentID()
				if err := tx.Notifications().Insert(&n, old); err != nil {
					return err
				}
			}
			return nil
		})
		s := &sizes{mailbox: box.ID}
		testkit.New(t, testkit.Options{Pipes: true, Dir: dir, Wrap: func(st store.Store) store.Store {
			s.Store = st
			return s
		}})
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if diff := cmp.Diff([]int64{500 * int64(len(payload)), 500 * int64(len(payload)), 200 * int64(len(payload))}, s.steps); diff != "" {
			t.Errorf("bytes removed by each transaction (-want +got):\n%s", diff)
		}
	})
}

// A sweep that fails, at whichever of its transactions, is made good by the next one.
func TestAFailedSweepIsMadeGood(t *testing.T) {
	t.Parallel()
	for _, how := range []storetest.Failure{storetest.NotPersisted, storetest.Persisted} {
		for nth := 1; nth <= 8; nth++ {
			t.Run(fmt.Sprintf("failure %d at %d", how, nth), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var faulty *storetest.Faulty
					r := testkit.New(t, testkit.Options{
						Pipes: true, Wrap: wrapFaulty(&faulty), Config: func(c *config.Config) { c.QueueTTL = time.Minute },
					})
					agent := r.Pair("laptop").Agent("bot")
					id := agent.Send(map[string]any{"title": "x"})
					time.Sleep(59 * time.Second)
					faulty.FailNth(nth, how)
					time.Sleep(10 * time.Second)
					if got := devReceipt(agent, id); got.Text("reason") != "expired" {
						t.Errorf("receipt = %s, want it expired", got.Raw)
					}
				})
			})
		}
	}
}
