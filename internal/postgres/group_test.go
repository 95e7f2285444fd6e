package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/postgres"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// noteOf is a notification of a key, ready to be inserted.
func noteOf(k relay.Key, agentID string) relay.Notification {
	n := relay.Notification{ID: relay.NewNotificationID(benchDay), Mailbox: k.Mailbox, Key: k.ID, AgentID: agentID, CreatedAt: benchDay, Payload: benchPayload}
	if agentID == "" {
		n.AgentID = n.ID.MadeAgentID()
	}
	return n
}

func insert(ctx context.Context, s *postgres.Store, n relay.Notification) error {
	return s.Update(ctx, func(tx store.Tx) error { return tx.Notifications().Insert(&n, n.CreatedAt.Add(-24*time.Hour)) })
}

// What the database refuses hits its author, however many share the transaction; all the others are kept.
func TestARefusedStatementHitsItsAuthorOnly(t *testing.T) {
	t.Parallel()
	s := pgtest.Open(t)
	keys := newKeys(t, s, 60)
	bad := func(i int) bool { return i%10 == 3 }
	for i, err := range together(len(keys), func(i int) error {
		n := noteOf(keys[i], "")
		if bad(i) {
			n.Duration = new(601.0) // beyond what the schema allows
		}
		return insert(t.Context(), s, n)
	}) {
		if (err != nil) != bad(i) {
			t.Errorf("insert %d = %v, refusal wanted: %v", i, err, bad(i))
		}
		if got, want := len(waitingOf(t, s, keys[i].Mailbox)) == 1, !bad(i); got != want {
			t.Errorf("mailbox %d holds its notification: %v, want %v", i, got, want)
		}
	}
}

// A duplicate that only the database can see is a Conflict for the second one, in whatever company.
func TestADuplicateIDIsAConflictInCompany(t *testing.T) {
	t.Parallel()
	s := pgtest.Open(t)
	keys := newKeys(t, s, 40)
	twin := noteOf(keys[0], "").ID
	conflicts := 0
	for i, err := range together(len(keys), func(i int) error {
		n := noteOf(keys[i], fmt.Sprint("agent's ", i))
		if i < 2 {
			n.ID = twin
		}
		return insert(t.Context(), s, n)
	}) {
		switch {
		case i < 2 && fault.Is(err, fault.Conflict):
			conflicts++
		case err != nil:
			t.Errorf("insert %d = %v", i, err)
		}
	}
	if conflicts != 1 {
		t.Errorf("%d conflicts, want 1", conflicts)
	}
}

// fn's own error after it has written takes the shared transaction back; the neighbours do not notice.
func TestFailingAfterAFlushSparesTheNeighbours(t *testing.T) {
	t.Parallel()
	s := pgtest.Open(t)
	keys := newKeys(t, s, 60)
	errNo := errors.New("no")
	for i, err := range together(len(keys), func(i int) error {
		n := noteOf(keys[i], "")
		return s.Update(t.Context(), func(tx store.Tx) error {
			if err := tx.Notifications().Insert(&n, benchDay); err != nil {
				return err
			}
			if _, err := tx.Notifications().Get(n.Mailbox, n.ID); err != nil { // sends the insert on its way
				return err
			}
			if i%5 == 0 {
				return errNo
			}
			return nil
		})
	}) {
		if want := i%5 == 0; (err == errNo) != want || (err != nil && err != errNo) {
			t.Errorf("Update %d = %v", i, err)
		}
		if got, want := len(waitingOf(t, s, keys[i].Mailbox)) == 1, i%5 != 0; got != want {
			t.Errorf("mailbox %d holds its notification: %v, want %v", i, got, want)
		}
	}
}

// touchAll saves a state in each mailbox in the given order, reading before each write.
func touchAll(ctx context.Context, s *postgres.Store, boxes ...relay.MailboxID) error {
	return s.Update(ctx, func(tx store.Tx) error {
		for _, m := range boxes {
			box, err := tx.Mailboxes().Get(m)
			if err != nil {
				return err
			}
			box.State.Muted = !box.State.Muted
			if err := tx.Mailboxes().SetState(m, box.State); err != nil {
				return err
			}
		}
		return nil
	})
}

// Updates over several mailboxes in any order, from two processes, neither deadlock nor lose a write.
func TestManyMailboxesInAnyOrder(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	stores := []*postgres.Store{pgtest.OpenURL(t, url, nil), pgtest.OpenURL(t, url, nil)}
	keys := newKeys(t, stores[0], 6)
	flips := make([]map[relay.MailboxID]int, 120)
	for i, err := range together(len(flips), func(i int) error {
		var boxes []relay.MailboxID
		flips[i] = map[relay.MailboxID]int{}
		for _, j := range rand.Perm(len(keys))[:3] {
			boxes = append(boxes, keys[j].Mailbox)
			flips[i][keys[j].Mailbox]++
		}
		return touchAll(t.Context(), stores[i%2], boxes...)
	}) {
		if err != nil {
			t.Errorf("Update %d = %v", i, err)
		}
	}
	for _, k := range keys {
		want := 0
		for _, f := range flips {
			want += f[k.Mailbox]
		}
		must(t, stores[0].View(t.Context(), func(tx store.Tx) error {
			box, err := tx.Mailboxes().Get(k.Mailbox)
			if err == nil && box.State.Muted != (want%2 == 1) {
				t.Errorf("a mailbox was flipped %d times and is muted: %v", want, box.State.Muted)
			}
			return err
		}))
	}
}

// One Update over many busy mailboxes, as the usage meter makes, gets its turn and delays nobody for long.
func TestOneUpdateOverManyBusyMailboxes(t *testing.T) {
	t.Parallel()
	s := pgtest.Open(t)
	keys := newKeys(t, s, 100)
	const rounds = 5
	for i, err := range together(len(keys)+10, func(i int) error {
		if i >= len(keys) {
			return s.Update(t.Context(), func(tx store.Tx) error {
				for _, j := range rand.Perm(len(keys)) {
					if err := tx.Usage().Add(keys[j].Mailbox, "2026-03-14", relay.Usage{Requests: 1}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		for range rounds {
			if err := insert(t.Context(), s, noteOf(keys[i], "")); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("caller %d = %v", i, err)
		}
	}
	for _, k := range keys {
		must(t, s.View(t.Context(), func(tx store.Tx) error {
			u, err := tx.Usage().Get(k.Mailbox, "2026-03-14")
			if want := (relay.Usage{Requests: 10, Notifications: rounds}); err == nil && u != want {
				t.Errorf("usage = %+v, want %+v", u, want)
			}
			return err
		}))
	}
}

// A mailbox that another process holds on to is Unavailable after a while. Nobody else waits that long.
func TestAStuckMailboxHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := pgtest.OpenURL(t, url, nil)
	keys := newKeys(t, s, 30)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	stuck, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stuck.Exec(t.Context(), `SELECT FROM counters WHERE mailbox = decode($1, 'hex') FOR UPDATE`, string(keys[0].Mailbox)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i, err := range together(len(keys), func(i int) error { return insert(t.Context(), s, noteOf(keys[i], "")) }) {
		switch {
		case i > 0 && err != nil:
			t.Errorf("insert %d = %v", i, err)
		case i == 0 && !fault.Is(err, fault.Unavailable):
			t.Errorf("the stuck mailbox: %v, want unavailable", err)
		case i == 0 && !strings.Contains(fault.From(err).Detail, "stuck session"):
			t.Errorf("the stuck mailbox: %q does not help the operator", fault.From(err).Detail)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	must(t, stuck.Rollback(t.Context()))
	must(t, insert(t.Context(), s, noteOf(keys[0], "")))
}

// Reads go on while a fn dawdles in its transaction.
func TestASlowFnHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	s := pgtest.Open(t)
	keys := newKeys(t, s, 20)
	inside, goOn := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.View(t.Context(), func(tx store.Tx) error {
			_, err := tx.Keys().Get(keys[0].Mailbox, keys[0].ID)
			close(inside)
			<-goOn
			return err
		})
	}()
	<-inside
	for _, err := range together(len(keys), func(i int) error {
		if err := insert(t.Context(), s, noteOf(keys[i], "")); err != nil {
			return err
		}
		return s.View(t.Context(), func(tx store.Tx) error { _, err := tx.Keys().Get(keys[i].Mailbox, keys[i].ID); return err })
	}) {
		must(t, err)
	}
	close(goOn)
	must(t, <-done)
}

// Callers of one mailbox queue in memory, so however many they are, the connections are free for others.
func TestABusyMailboxHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	s := pgtest.OpenURL(t, pgtest.URL(t), &postgres.Options{MaxConns: 8}) // two leaders
	keys := newKeys(t, s, 2)
	inside, goOn := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		first := true
		must(t, s.Update(t.Context(), func(tx store.Tx) error {
			_, err := tx.Keys().Get(keys[0].Mailbox, keys[0].ID)
			if first {
				first = false
				close(inside)
			}
			<-goOn
			return err
		}))
	})
	<-inside
	for range 100 {
		wg.Go(func() { must(t, insert(t.Context(), s, noteOf(keys[0], ""))) })
	}
	for range 20 {
		must(t, insert(t.Context(), s, noteOf(keys[1], "")))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := insert(ctx, s, noteOf(keys[0], "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller that gave up waiting got %v", err)
	}
	close(goOn)
	wg.Wait()
	if n := len(waitingOf(t, s, keys[0].Mailbox)); n != 100 {
		t.Errorf("%d notifications, want 100", n)
	}
}

// Text that PostgreSQL cannot hold is refused before it reaches the server, and never found.
func TestTextWithNUL(t *testing.T) {
	t.Parallel()
	s := pgtest.Open(t)
	k := newKey(t, s)
	if err := insert(t.Context(), s, noteOf(k, "a\x00b")); err == nil {
		t.Error("an agent id with NUL was stored")
	}
	n := noteOf(k, "")
	must(t, insert(t.Context(), s, n))
	n.Text = "\xff"
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Notifications().Save(n) }); err == nil {
		t.Error("a reply that is no UTF-8 was stored")
	}
	err := s.View(t.Context(), func(tx store.Tx) error {
		_, err := tx.Notifications().Sent(k.Mailbox, k.ID, "a\x00b", time.Time{})
		return err
	})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("Sent = %v, want not found", err)
	}
	err = s.Update(t.Context(), func(tx store.Tx) error { return tx.Marks().Add("kind", "a\x00b", benchDay) })
	if err == nil {
		t.Error("a mark with NUL was stored")
	}
}

func TestAViewCannotWrite(t *testing.T) {
	t.Parallel()
	s := pgtest.Open(t)
	k := newKey(t, s)
	n := noteOf(k, "")
	for name, write := range map[string]func(store.Tx) error{
		"insert": func(tx store.Tx) error { return tx.Notifications().Insert(&n, benchDay) },
		"save":   func(tx store.Tx) error { return tx.Notifications().Save(n) },
		"usage":  func(tx store.Tx) error { return tx.Usage().Add(k.Mailbox, "2026-03-14", relay.Usage{Requests: 1}) },
		"touch":  func(tx store.Tx) error { return tx.Keys().Touch(k.Mailbox, k.ID, benchDay) },
		"delete": func(tx store.Tx) error { return tx.Mailboxes().Delete(k.Mailbox) },
		"key":    func(tx store.Tx) error { return tx.Keys().Create(k) },
		"sweep":  func(tx store.Tx) error { _, err := tx.Marks().Forget(benchDay, 1); return err },
		"forget": func(tx store.Tx) error { _, err := tx.Notifications().Forget(benchDay, 1); return err },
	} {
		if err := s.View(t.Context(), write); err == nil {
			t.Errorf("%s in a View succeeded", name)
		}
	}
}
