// Package memdriver keeps everything in memory: for examples, for tests, and for small servers whose events need not
// outlive the process.
//
// It keeps every promise of package driver but one: nothing survives the process. A ledger's Epoch is fresh in every
// Driver, so a client's cursor of an earlier run is recognised as such and answered with a gap, never with silence.
package memdriver

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

var errReadOnly = errors.New("memdriver: write inside a View")

// Driver is an in-memory store. New makes one.
type Driver struct {
	mu sync.RWMutex // guards what follows; an Update holds it for writing
	*state
}

// New returns an empty store.
func New() *Driver {
	return &Driver{state: &state{
		epoch:    rand.Text()[:8],
		ledgers:  map[string]*ledger{},
		lanes:    map[string]*lane{},
		keys:     map[string]*lane{},
		topics:   map[topic][]*lane{},
		verified: map[address]time.Time{},
	}}
}

// Update runs fn alone and undoes its writes when it fails or panics.
func (d *Driver) Update(ctx context.Context, fn func(driver.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t := &tx{state: d.state, writable: true}
	done := false
	defer func() {
		if !done {
			t.rollback()
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	done = true
	return nil
}

// View runs fn beside other Views.
func (d *Driver) View(ctx context.Context, fn func(driver.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return fn(&tx{state: d.state})
}

// state is the whole store. Slices handed out share memory with it: events never change, so nobody writes to them.
type state struct {
	epoch    string
	ledgers  map[string]*ledger
	lanes    map[string]*lane // by subscription ID
	keys     map[string]*lane
	topics   map[topic][]*lane // sorted by ID
	due      laneHeap
	overdue  dueHeap // pending deliveries by Deadline; stale entries are skipped when met
	settled  dueHeap // settled ones by Settled; likewise
	verified map[address]time.Time
}

type topic struct{ family, ledger, name string }

type address struct{ principal, url string }

// tx is one transaction: the state itself, with a way back.
type tx struct {
	*state
	writable bool
	undo     []func()
}

func (t *tx) Events() driver.Events               { return events{t} }
func (t *tx) Subscriptions() driver.Subscriptions { return subscriptions{t} }
func (t *tx) Deliveries() driver.Deliveries       { return deliveries{t} }
func (t *tx) Verifications() driver.Verifications { return verifications{t} }

func (t *tx) rollback() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
}

func (t *tx) onRollback(f func()) { t.undo = append(t.undo, f) }

func (t *tx) mayWrite() error {
	if !t.writable {
		return errReadOnly
	}
	return nil
}

// milli is what a time becomes by being stored.
func milli(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// Durable reports that nothing outlives the process, so that no subscription is granted without end.
func (d *Driver) Durable() bool { return false }
