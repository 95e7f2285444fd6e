package storetest

import (
	"context"
	"sync"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/store"
)

// Failure says how an Update of a Faulty store fails.
type Failure int

const (
	// NotPersisted fails after fn ran and before anything was committed.
	NotPersisted Failure = iota + 1
	// Persisted commits and then loses the answer: the caller sees a failure although the writes are there.
	Persisted
)

// ErrInjected is what a Faulty store's failing Update returns: the fault of a database that cannot be reached.
var ErrInjected = fault.New(fault.Unavailable, "unavailable", "the database cannot be reached; try again")

// Faulty is a store whose Updates fail on demand. Run a flow once to count its Updates, then once for each of them
// with either Failure, and look whether the flow can be repeated safely.
type Faulty struct {
	store.Store

	mu      sync.Mutex // guards what follows
	seen    int
	nth     int
	failure Failure
}

// NewFaulty wraps s. Nothing fails until FailNth.
func NewFaulty(s store.Store) *Faulty { return &Faulty{Store: s} }

// FailNth makes the nth Update from now, counted from 1, fail in that way. It replaces an earlier order; 0 fails none.
func (f *Faulty) FailNth(n int, how Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen, f.nth, f.failure = 0, n, how
}

// Updates returns how many Updates began since the last FailNth, or since the beginning.
func (f *Faulty) Updates() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// Update runs fn on the wrapped store, or fails as ordered. An error of fn's own comes first.
func (f *Faulty) Update(ctx context.Context, fn func(store.Tx) error) error {
	switch f.next() {
	case NotPersisted:
		return f.Store.Update(ctx, func(tx store.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			return ErrInjected
		})
	case Persisted:
		if err := f.Store.Update(ctx, fn); err != nil {
			return err
		}
		return ErrInjected
	}
	return f.Store.Update(ctx, fn)
}

func (f *Faulty) next() Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	if f.seen != f.nth {
		return 0
	}
	return f.failure
}
