package memdriver

import (
	"bytes"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// ledger holds the events with sequences forgotten+1, forgotten+2 and so on, at index 0, 1 and so on.
type ledger struct {
	events    []driver.Event
	forgotten int64
	ids       map[string]int64
	needed    map[int64]int // pending deliveries by sequence
}

func (l *ledger) newest() int64 { return l.forgotten + int64(len(l.events)) }

// at returns the event with that sequence, which must be kept.
func (l *ledger) at(sequence int64) *driver.Event { return &l.events[sequence-l.forgotten-1] }

func (s *state) ledger(name string) *ledger {
	l := s.ledgers[name]
	if l == nil {
		l = &ledger{ids: map[string]int64{}, needed: map[int64]int{}}
		s.ledgers[name] = l
	}
	return l
}

type events struct{ *tx }

func (t events) Append(e *driver.Event) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	l := t.ledger(e.Ledger)
	if sequence, ok := l.ids[e.ID]; ok {
		e.Sequence = sequence
		return driver.ErrExists
	}
	e.Sequence = l.newest() + 1
	stored := *e
	stored.Time, stored.Recorded = milli(e.Time), milli(e.Recorded)
	stored.Data, stored.Meta = bytes.Clone(e.Data), bytes.Clone(e.Meta)
	l.events = append(l.events, stored)
	l.ids[e.ID] = e.Sequence
	t.onRollback(func() {
		l.events = l.events[:len(l.events)-1]
		delete(l.ids, stored.ID)
	})
	return nil
}

func (t events) Head(name string) (driver.Head, error) {
	h := driver.Head{Epoch: t.epoch}
	if l := t.ledgers[name]; l != nil {
		h.Newest, h.Forgotten = l.newest(), l.forgotten
	}
	return h, nil
}

func (t events) Newest(name, audience string) (int64, error) {
	l := t.ledgers[name]
	if l == nil {
		return 0, nil
	}
	for i := len(l.events) - 1; i >= 0; i-- {
		if a := l.events[i].Audience; a == "" || a == audience {
			return l.events[i].Sequence, nil
		}
	}
	return 0, nil
}

func (t events) Read(q driver.Query) ([]driver.Event, error) {
	var found []driver.Event
	l := t.ledgers[q.Ledger]
	if l == nil {
		return nil, nil
	}
	for s := max(q.After, l.forgotten) + 1; s <= l.newest() && len(found) < q.Limit; s++ {
		if q.Until > 0 && s > q.Until {
			break
		}
		e := l.at(s)
		if chosen(q, e) {
			found = append(found, *e)
		}
	}
	return found, nil
}

func chosen(q driver.Query, e *driver.Event) bool {
	return (q.Name == "" || q.Name == e.Name) && (q.Subject == "" || q.Subject == e.Subject) &&
		(e.Audience == "" || e.Audience == q.Audience)
}

func (t events) Get(name, id string) (driver.Event, error) {
	l := t.ledgers[name]
	if l == nil {
		return driver.Event{}, driver.ErrNotFound
	}
	sequence, ok := l.ids[id]
	if !ok || sequence <= l.forgotten {
		return driver.Event{}, driver.ErrNotFound
	}
	return *l.at(sequence), nil
}

func (t events) Since(name string, at time.Time) (int64, error) {
	l := t.ledgers[name]
	if l == nil {
		return 1, nil
	}
	for i := range l.events {
		if !l.events[i].Time.Before(milli(at)) {
			return l.events[i].Sequence, nil
		}
	}
	return l.newest() + 1, nil
}

// Forget drops from the front of each ledger, and stops at the first event that is young or needed. The id of a
// forgotten event is forgotten with it.
func (t events) Forget(cutoff time.Time, limit int) (int, error) {
	if err := t.mayWrite(); err != nil {
		return 0, err
	}
	n := 0
	for _, l := range t.ledgers {
		before, first := l.events, l.forgotten
		for n < limit && len(l.events) > 0 {
			e := l.events[0]
			if !e.Recorded.Before(milli(cutoff)) || l.needed[e.Sequence] > 0 {
				break
			}
			delete(l.ids, e.ID)
			t.onRollback(func() { l.ids[e.ID] = e.Sequence })
			l.events, l.forgotten = l.events[1:], e.Sequence
			n++
		}
		t.onRollback(func() { l.events, l.forgotten = before, first })
	}
	return n, nil
}

type verifications struct{ *tx }

func (t verifications) Verified(principal, url string) (time.Time, error) {
	return t.verified[address{principal, url}], nil
}

func (t verifications) Record(principal, url string, at time.Time) error {
	return t.setVerified(address{principal, url}, milli(at))
}

func (t verifications) Withdraw(principal, url string) error {
	return t.setVerified(address{principal, url}, time.Time{})
}

func (t verifications) setVerified(a address, at time.Time) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	before, had := t.verified[a]
	t.onRollback(func() {
		delete(t.verified, a)
		if had {
			t.verified[a] = before
		}
	})
	delete(t.verified, a)
	if !at.IsZero() {
		t.verified[a] = at
	}
	return nil
}

func (t verifications) Forget(cutoff time.Time, limit int) (int, error) {
	used := map[address]bool{}
	for _, l := range t.lanes {
		if l.sub.State != driver.Ended {
			used[address{l.sub.Principal, l.sub.URL}] = true
		}
	}
	n := 0
	for a, at := range t.verified {
		if n == limit || !at.Before(milli(cutoff)) || used[a] {
			continue
		}
		if err := t.setVerified(a, time.Time{}); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
