package postgres_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/herald-relay/herald/internal/postgres"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// newKey makes a person with a mailbox that has one key.
func newKey(t testing.TB, s *postgres.Store) relay.Key {
	t.Helper()
	return newKeys(t, s, 1)[0]
}

// newKeys makes a person with n mailboxes that have one key each.
func newKeys(t testing.TB, s *postgres.Store, n int) []relay.Key {
	t.Helper()
	p := relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: relay.RandomHex(8), CreatedAt: benchDay}
	must(t, s.Update(t.Context(), func(tx store.Tx) error { return tx.People().Create(p) }))
	keys := make([]relay.Key, n)
	for i := range keys {
		keys[i] = relay.Key{ID: relay.KeyID(relay.RandomHex(4)), Mailbox: relay.MailboxID(relay.RandomHex(24)), Name: "bench",
			Client: "other", Scope: relay.ScopeNotify, Kind: relay.KindStatic, CreatedAt: benchDay}
	}
	for batch := range slices.Chunk(keys, 64) {
		for _, err := range together(len(batch), func(i int) error { return addKey(t, s, p, batch[i]) }) {
			must(t, err)
		}
	}
	return keys
}

func addKey(t testing.TB, s *postgres.Store, p relay.Person, k relay.Key) error {
	return s.Update(t.Context(), func(tx store.Tx) error {
		if err := tx.Mailboxes().Create(relay.Mailbox{ID: k.Mailbox, Person: p.ID, CreatedAt: benchDay}); err != nil {
			return err
		}
		return tx.Keys().Create(k)
	})
}

// must reports an error without ending the test, so that any goroutine may use it.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// together runs fn n times at once and returns what each returned.
func together(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	return errs
}

// waitingOf lists the Seq of everything that waits in a mailbox.
func waitingOf(t testing.TB, s *postgres.Store, m relay.MailboxID) (list []store.Waiting) {
	t.Helper()
	must(t, s.View(t.Context(), func(tx store.Tx) (err error) {
		list, err = tx.Notifications().Waiting(m, 0, 1_000_000)
		return err
	}))
	return list
}
