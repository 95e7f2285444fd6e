// Package allowance counts what mailboxes and keys use, against limits that are data with names.
//
// Daily counters live in memory and reach the store at most once a minute and at the end (contract section 7.3); a crash
// forgives the last minute. Several processes on one store each hold their own part and see the others' at each
// flush. Counts that must be exact (notifications, clips) are kept by the store itself.
package allowance

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// FlushEvery is how often counters reach the store.
const FlushEvery = time.Minute

// Meter keeps the daily counters of the mailboxes this process serves.
type Meter struct {
	store store.Store
	log   *slog.Logger

	mu   sync.Mutex // guards days; never held during a store call
	days map[relay.MailboxID]*day

	// moving is held by a flush from taking counts to their commit, and shared by who adds up what the store says and what
	// is pending: counts on their way are in neither. It comes before mu.
	moving sync.RWMutex
}

// day is one mailbox's counters. stored is what the store said at the last look, pending what it does not know yet.
type day struct {
	name    string
	loaded  bool
	stored  relay.Usage
	pending relay.Usage
}

// NewMeter makes a meter; Run flushes it.
func NewMeter(s store.Store, log *slog.Logger) *Meter {
	return &Meter{store: s, log: log, days: map[relay.MailboxID]*day{}}
}

// Count adds to the counters of the day of now.
func (m *Meter) Count(id relay.MailboxID, now time.Time, delta relay.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dayLocked(id, now)
	d.pending = d.pending.Add(delta)
}

// Used returns the counters of the day of now, what is still pending included. Clips and notifications are as the
// store counted them when the mailbox was first seen today or last flushed: ask the store where exactness matters.
func (m *Meter) Used(ctx context.Context, id relay.MailboxID, now time.Time) (relay.Usage, error) {
	m.mu.Lock()
	d := m.dayLocked(id, now)
	if d.loaded {
		sum := d.stored.Add(d.pending)
		m.mu.Unlock()
		return sum, nil
	}
	m.mu.Unlock()
	return m.load(ctx, id, now)
}

// load is Used for a mailbox of which the store has to be asked.
func (m *Meter) load(ctx context.Context, id relay.MailboxID, now time.Time) (relay.Usage, error) {
	m.moving.RLock()
	defer m.moving.RUnlock()
	name := relay.Day(now)
	stored, err := m.read(ctx, id, name)
	if err != nil {
		return relay.Usage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dayLocked(id, now)
	if !d.loaded {
		d.stored, d.loaded = stored, true
	}
	return d.stored.Add(d.pending), nil
}

func (m *Meter) read(ctx context.Context, id relay.MailboxID, name string) (u relay.Usage, err error) {
	err = m.store.View(ctx, func(tx store.Tx) error {
		u, err = tx.Usage().Get(id, name)
		return err
	})
	return u, err
}

// dayLocked returns the counters of now's day. What an earlier day still had pending is dropped: less than a minute of
// counting, of a day whose limits no longer matter.
func (m *Meter) dayLocked(id relay.MailboxID, now time.Time) *day {
	name := relay.Day(now)
	d := m.days[id]
	if d == nil || d.name != name {
		d = &day{name: name}
		m.days[id] = d
	}
	return d
}

// Run flushes every FlushEvery and once more when ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	t := time.NewTicker(FlushEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			m.Flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			m.Flush(last)
			return nil
		}
	}
}

// flushBatch bounds the mailboxes written in one transaction.
const flushBatch = 256

type flushItem struct {
	id    relay.MailboxID
	name  string
	delta relay.Usage
}

// Flush writes what is pending and forgets the counters of mailboxes that were not used since the flush before.
func (m *Meter) Flush(ctx context.Context) {
	for ids := range slices.Chunk(m.due(), flushBatch) {
		if err := m.flush(ctx, ids); err != nil {
			m.log.Warn("usage not written, counters kept in memory", "err", err)
			return
		}
	}
}

// due lists the mailboxes with something to write and drops idle entries, so memory follows the mailboxes in use.
func (m *Meter) due() []relay.MailboxID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []relay.MailboxID
	for id, d := range m.days {
		if d.pending == (relay.Usage{}) {
			delete(m.days, id)
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

func (m *Meter) flush(ctx context.Context, ids []relay.MailboxID) error {
	m.moving.Lock()
	defer m.moving.Unlock()
	items := m.take(ids)
	err := m.write(ctx, items)
	if err != nil {
		m.giveBack(items)
	}
	return err
}

// take moves what is pending to what the store is about to know.
func (m *Meter) take(ids []relay.MailboxID) []flushItem {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := make([]flushItem, 0, len(ids))
	for _, id := range ids {
		d := m.days[id]
		if d == nil || d.pending == (relay.Usage{}) { // another flush was faster
			continue
		}
		items = append(items, flushItem{id, d.name, d.pending})
		d.stored, d.pending = d.stored.Add(d.pending), relay.Usage{}
		d.loaded = d.loaded && m.store.Bus() == nil // others may have counted too: look again
	}
	return items
}

func (m *Meter) write(ctx context.Context, items []flushItem) error {
	return m.store.Update(ctx, func(tx store.Tx) error {
		for _, it := range items {
			if err := tx.Usage().Add(it.id, it.name, it.delta); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *Meter) giveBack(items []flushItem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range items {
		d := m.days[it.id]
		if d == nil || d.name != it.name {
			continue
		}
		d.pending = d.pending.Add(it.delta)
		d.loaded = false
	}
}

// Whole calls read with what was counted on the day of now and has not reached the store. Nothing reaches it meanwhile:
// what read finds in the store and what it was given make up the whole.
func (m *Meter) Whole(id relay.MailboxID, now time.Time, read func(pending relay.Usage) error) error {
	m.moving.RLock()
	defer m.moving.RUnlock()
	return read(m.pending(id, now))
}

func (m *Meter) pending(id relay.MailboxID, now time.Time) relay.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dayLocked(id, now).pending
}
