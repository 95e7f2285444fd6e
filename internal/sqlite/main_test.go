package sqlite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
)

var rewrite = flag.Bool("update", false, "rewrite golden files")

// childEnv names the role of this test binary when a test starts it as another process.
const childEnv = "HERALD_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		child(role, os.Getenv(childEnv+"_PATH"))
		return
	}
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, newPath(t)) })
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "herald.db") }

// open opens a store that must open, and at the end of the test looks whether all of its invariants hold.
func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := verify(s); err != nil && err != errClosed {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// broken invariants are found by queries that must return no row.
var invariants = map[string]string{
	"the file is intact":       `SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
	"foreign keys hold":        `SELECT "table" FROM pragma_foreign_key_check`,
	"every mailbox has tally":  `SELECT id FROM mailboxes WHERE n NOT IN (SELECT mailbox FROM tallies)`,
	"no notification is lost":  `SELECT n FROM notifications WHERE mailbox NOT IN (SELECT n FROM mailboxes)`,
	"waiting equals the rows":  `SELECT mailbox FROM tallies t WHERE waiting <> (SELECT count(*) FROM notifications n WHERE n.mailbox = t.mailbox AND n.waiting)`,
	"bytes equal the rows":     `SELECT mailbox FROM tallies t WHERE bytes <> (SELECT total(bytes) FROM notifications n WHERE n.mailbox = t.mailbox)`,
	"bytes of a row are right": `SELECT n FROM notifications WHERE bytes <> octet_length(payload) + coalesce(octet_length(text), 0) + coalesce(octet_length(transcript), 0) + clip_bytes`,
	"no number is reused":      `SELECT mailbox FROM tallies t WHERE seq < (SELECT coalesce(max(seq), 0) FROM notifications n WHERE n.mailbox = t.mailbox)`,
	"numbers are unique":       `SELECT mailbox FROM notifications GROUP BY mailbox, seq HAVING count(*) > 1`,
	"the chain holds every row": `SELECT t.mailbox FROM tallies t WHERE (SELECT count(*) FROM notifications n WHERE n.mailbox = t.mailbox) <>
		(WITH RECURSIVE c(n, prev) AS (SELECT n, prev FROM notifications WHERE n = t.last AND mailbox = t.mailbox
			UNION ALL SELECT o.n, o.prev FROM c JOIN notifications o ON o.n = c.prev AND o.mailbox = t.mailbox) SELECT count(*) FROM c)`,
}

func verify(s *Store) error {
	err := s.View(context.Background(), func(t store.Tx) error {
		var errs []error
		for name, query := range invariants {
			err := t.(*tx).prepare(query).Rows(func(s *native.Stmt) error {
				errs = append(errs, fmt.Errorf("broken: %s: %s", name, s.ColText(0)))
				return nil
			})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	return s.Update(context.Background(), func(t store.Tx) error { return verifyMemory(t.(*tx)) })
}

// verifyMemory compares what the writer remembers with the rows.
func verifyMemory(t *tx) error {
	if n := len(t.mem.undo) + len(t.mem.dirty); n != 0 {
		return fmt.Errorf("broken: %d changes of memory are pending", n)
	}
	for id, b := range t.mem.boxes {
		fresh, err := (&tx{c: t.c}).box(id)
		if err != nil {
			return fmt.Errorf("broken: remembers %s: %w", id, err)
		}
		if fresh.tally != b.tally || fresh.n != b.n {
			return fmt.Errorf("broken: remembers %+v, the rows say %+v", b.tally, fresh.tally)
		}
	}
	const query = `SELECT count(*) FROM notifications WHERE waiting = 1 AND created_at < ?`
	if n, err := t.count("count", t.prepare(query).Int(t.mem.oldest)); err != nil || n != 0 {
		return fmt.Errorf("broken: %d wait since before the oldest: %w", n, err)
	}
	return nil
}

var t0 = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

// home is a mailbox with a key, in a store.
type home struct {
	*Store
	box relay.MailboxID
	key relay.KeyID
}

// settle makes a person, a mailbox and a key.
func settle(t testing.TB, s *Store) home {
	t.Helper()
	h := home{s, relay.MailboxID(relay.RandomHex(24)), relay.KeyID(relay.RandomHex(4))}
	p := relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: relay.RandomHex(8), CreatedAt: t0}
	mustUpdate(t, s, func(tx store.Tx) error {
		if err := tx.People().Create(p); err != nil {
			return err
		}
		if err := tx.Mailboxes().Create(relay.Mailbox{ID: h.box, Person: p.ID, CreatedAt: t0}); err != nil {
			return err
		}
		return tx.Keys().Create(relay.Key{ID: h.key, Mailbox: h.box, Name: "agent", Client: "other", Scope: "notify", Kind: "static", CreatedAt: t0})
	})
	return h
}

func mustUpdate(t testing.TB, s *Store, fn func(store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func (h home) note(at time.Time) relay.Notification {
	n := relay.Notification{ID: relay.NewNotificationID(at), Mailbox: h.box, Key: h.key, CreatedAt: at, Payload: []byte(`{"title":"x"}`)}
	n.AgentID = n.ID.MadeAgentID()
	return n
}

// send stores n and returns it with its number.
func (h home) send(ctx context.Context, n relay.Notification) (relay.Notification, error) {
	err := h.Update(ctx, func(tx store.Tx) error { return tx.Notifications().Insert(&n, n.CreatedAt.Add(-24*time.Hour)) })
	return n, err
}

func (h home) mustSend(t testing.TB, n relay.Notification) relay.Notification {
	t.Helper()
	n, err := h.send(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (h home) countWaiting(t testing.TB) (n int64) {
	t.Helper()
	if err := h.View(t.Context(), func(tx store.Tx) (err error) {
		n, err = tx.Notifications().CountWaiting(h.box)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
