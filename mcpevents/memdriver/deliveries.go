package memdriver

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

type deliveries struct{ *tx }

func (t deliveries) Queue(ds []driver.Delivery) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, d := range ds {
		l := t.lanes[d.Subscription]
		if l == nil {
			return driver.ErrNotFound
		}
		if before := l.records[d.Sequence]; before != nil {
			if before.State == driver.Pending {
				continue
			}
			d.Attempts, d.Lease = before.Attempts, before.Lease
		}
		d.Queued, d.Due, d.Deadline, d.Settled = milli(d.Queued), milli(d.Due), milli(d.Deadline), milli(d.Settled)
		d.Leased = false
		t.put(l, d.Sequence, &d)
		t.settle(l)
	}
	return nil
}

func (t deliveries) Claim(p driver.ClaimParams) ([]driver.Lease, error) {
	if err := t.mayWrite(); err != nil {
		return nil, err
	}
	room := hostRoom(p)
	now := milli(p.Now)
	var leases []driver.Lease
	var touched []*lane
	for len(leases) < p.Limit && len(t.due) > 0 && !t.due[0].due.After(now) {
		l := heap.Pop(&t.due).(*lane)
		touched = append(touched, l)
		if n := room.limit - room.taken[l.sub.Host]; n > 0 && live(&l.sub, now) {
			before := len(leases)
			leases = t.claimLane(leases, l, now, p, min(n, p.Limit-before))
			room.taken[l.sub.Host] += len(leases) - before
		}
	}
	for _, l := range touched {
		t.settle(l)
	}
	return leases, nil
}

// hosts counts what a claim may still take of each host.
type hosts struct {
	taken map[string]int
	limit int
}

func hostRoom(p driver.ClaimParams) hosts {
	h := hosts{taken: map[string]int{}, limit: p.PerHost}
	for _, name := range p.BusyHosts {
		h.taken[name] = p.PerHost
	}
	return h
}

func (t deliveries) claimLane(leases []driver.Lease, l *lane, now time.Time, p driver.ClaimParams, most int) []driver.Lease {
	if l.sub.Strict {
		return append(leases, t.lease(l, l.oldest(), p))
	}
	for n := 0; n < min(p.PerLane, most); n++ {
		d := l.claimable()
		if d == nil || d.Due.After(now) {
			break
		}
		leases = append(leases, t.lease(l, d, p))
	}
	return leases
}

func (t deliveries) lease(l *lane, d *driver.Delivery, p driver.ClaimParams) driver.Lease {
	next := *d
	next.Lease++
	next.Leased = true
	next.Due = milli(p.Until)
	t.put(l, d.Sequence, &next)
	return driver.Lease{Delivery: next, Event: *t.ledger(d.Ledger).at(d.Sequence), Subscription: l.sub, Epoch: t.epoch}
}

func (t deliveries) Settle(ss []driver.Settlement) ([]bool, error) {
	if err := t.mayWrite(); err != nil {
		return nil, err
	}
	held := make([]bool, len(ss))
	for i, s := range ss {
		l := t.lanes[s.Subscription]
		if l == nil {
			continue
		}
		d := l.records[s.Sequence]
		if d == nil || d.State != driver.Pending || d.Lease != s.Lease || !d.Leased {
			continue
		}
		held[i] = true
		t.settleOne(l, *d, s)
		t.settle(l)
	}
	return held, nil
}

func (t deliveries) settleOne(l *lane, d driver.Delivery, s driver.Settlement) {
	d.State, d.Reason, d.Leased = s.State, s.Reason, false
	if s.State == driver.Pending {
		d.Due = milli(s.Due)
	} else {
		d.Settled = milli(s.At)
	}
	if s.Attempt != nil {
		d.Attempts++
		d.Tries++
		t.record(l, *s.Attempt, d)
	}
	t.put(l, d.Sequence, &d)
}

func (t deliveries) record(l *lane, a driver.Attempt, d driver.Delivery) {
	a.Subscription, a.Sequence, a.Number, a.Manual = d.Subscription, d.Sequence, d.Attempts, d.Manual
	a.Started = milli(a.Started)
	a.Elapsed = a.Elapsed.Truncate(time.Millisecond)
	before := l.attempts[d.Sequence]
	l.attempts[d.Sequence] = append(before[:len(before):len(before)], a)
	t.onRollback(func() { l.attempts[d.Sequence] = before })
}

func (t deliveries) Leased(subscription string, sequence int64) (driver.Lease, error) {
	l := t.lanes[subscription]
	if l == nil || l.records[sequence] == nil {
		return driver.Lease{}, driver.ErrNotFound
	}
	d := *l.records[sequence]
	found := driver.Lease{Delivery: d, Subscription: l.sub, Epoch: t.epoch}
	if led := t.ledgers[d.Ledger]; led != nil && d.Sequence > led.forgotten {
		found.Event = *led.at(d.Sequence)
	}
	return found, nil
}

func (t deliveries) Oldest(subscription string) (int64, error) {
	l := t.lanes[subscription]
	if l == nil || l.pending == 0 {
		return 0, nil
	}
	return t.oldest(l), nil
}

func (t deliveries) CountPending(subscription string) (int, error) {
	if l := t.lanes[subscription]; l != nil {
		return l.pending, nil
	}
	return 0, nil
}

func (t deliveries) Drop(subscription, reason string, at time.Time, limit int) (int, error) {
	if err := t.mayWrite(); err != nil {
		return 0, err
	}
	l := t.lanes[subscription]
	if l == nil {
		return 0, nil
	}
	n := 0
	for ; n < limit && l.pending > 0; n++ {
		t.drop(l, l.oldest(), reason, at)
	}
	t.settle(l)
	return n, nil
}

func (t *tx) drop(l *lane, d *driver.Delivery, reason string, at time.Time) {
	next := *d
	next.State, next.Reason, next.Leased, next.Settled = driver.Dropped, reason, false, milli(at)
	t.put(l, d.Sequence, &next)
}

func (t deliveries) Overdue(now time.Time, reason string, limit int) (map[string]int, error) {
	if err := t.mayWrite(); err != nil {
		return nil, err
	}
	dropped := map[string]int{}
	var kept []dueEntry
	for n := 0; n < limit && len(t.overdue) > 0 && !t.overdue[0].at.After(milli(now)); {
		top := heap.Pop(&t.overdue).(dueEntry)
		d := top.lane.records[top.sequence]
		if d == nil || d.State != driver.Pending || !d.Deadline.Equal(top.at) {
			continue
		}
		kept = append(kept, top) // a rollback, or the end of a lease, needs it again
		if d.Leased || top.lane.sub.State == driver.Suspended {
			continue
		}
		t.drop(top.lane, d, reason, now)
		t.settle(top.lane)
		dropped[top.lane.sub.ID]++
		n++
	}
	for _, e := range kept {
		heap.Push(&t.state.overdue, e)
	}
	return dropped, nil
}

func (t deliveries) Postpone(subscription string, by time.Duration, now time.Time) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	l := t.lanes[subscription]
	if l == nil {
		return driver.ErrNotFound
	}
	for sequence, d := range l.records {
		if d.State != driver.Pending {
			continue
		}
		next := *d
		if !d.Deadline.IsZero() {
			next.Deadline = milli(d.Deadline.Add(by))
		}
		if !d.Leased && d.Due.After(milli(now)) {
			next.Due = milli(now)
		}
		t.put(l, sequence, &next)
	}
	t.settle(l)
	return nil
}

func (t deliveries) List(subscription string, before int64, limit int) ([]driver.Delivery, error) {
	l := t.lanes[subscription]
	if l == nil {
		return nil, nil
	}
	var found []driver.Delivery
	for sequence, d := range l.records {
		if before == 0 || sequence < before {
			found = append(found, *d)
		}
	}
	slices.SortFunc(found, func(a, b driver.Delivery) int { return cmp.Compare(b.Sequence, a.Sequence) })
	return found[:min(len(found), limit)], nil
}

func (t deliveries) Attempts(subscription string, sequence int64, limit int) ([]driver.Attempt, error) {
	l := t.lanes[subscription]
	if l == nil {
		return nil, nil
	}
	found := slices.Clone(l.attempts[sequence])
	slices.Reverse(found)
	return found[:min(len(found), limit)], nil
}

func (t deliveries) NextDue(now time.Time) (time.Time, error) { return t.due.after(0, milli(now)), nil }

func (t deliveries) Forget(cutoff time.Time, limit int) (int, error) {
	if err := t.mayWrite(); err != nil {
		return 0, err
	}
	n := 0
	for n < limit && len(t.settled) > 0 && t.settled[0].at.Before(milli(cutoff)) {
		top := heap.Pop(&t.state.settled).(dueEntry)
		d := top.lane.records[top.sequence]
		if d == nil || d.State == driver.Pending || !d.Settled.Equal(top.at) {
			continue
		}
		attempts := top.lane.attempts[top.sequence]
		delete(top.lane.attempts, top.sequence)
		t.onRollback(func() { top.lane.attempts[top.sequence] = attempts })
		t.put(top.lane, top.sequence, nil)
		n++
	}
	return n, nil
}
