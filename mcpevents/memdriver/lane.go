package memdriver

import (
	"container/heap"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// lane is one subscription with its deliveries, and the indexes that make its due time cheap to know.
type lane struct {
	sub      driver.Subscription
	records  map[int64]*driver.Delivery
	attempts map[int64][]driver.Attempt // oldest first
	pending  int
	leased   map[int64]bool
	byOrder  sequenceHeap // pending by sequence; stale entries are skipped when met
	byDue    dueHeap      // pending by due time; likewise
	due      time.Time
	index    int // in the heap of due lanes, -1 when it is not there
}

func newLane(s driver.Subscription) *lane {
	return &lane{sub: s, records: map[int64]*driver.Delivery{}, attempts: map[int64][]driver.Attempt{},
		leased: map[int64]bool{}, index: -1}
}

// oldest returns the pending delivery with the lowest sequence, or nil.
func (l *lane) oldest() *driver.Delivery {
	for len(l.byOrder) > 0 {
		if d := l.records[l.byOrder[0]]; d != nil && d.State == driver.Pending {
			return d
		}
		heap.Pop(&l.byOrder)
	}
	return nil
}

// soonest returns the pending delivery with the earliest due time, or nil.
func (l *lane) soonest() *driver.Delivery {
	for len(l.byDue) > 0 {
		top := l.byDue[0]
		if d := l.records[top.sequence]; d != nil && d.State == driver.Pending && d.Due.Equal(top.at) {
			return d
		}
		heap.Pop(&l.byDue)
	}
	return nil
}

// whenDue is the lane rule.
func (l *lane) whenDue() time.Time {
	if l.sub.State != driver.Active || l.pending == 0 {
		return time.Time{}
	}
	if l.sub.Strict {
		return l.oldest().Due
	}
	return l.claimable().Due
}

// claimable returns the next delivery of a free lane to be claimed once it is due: the soonest, or among those leased
// when no more may be. There must be a pending one, or it is nil.
func (l *lane) claimable() *driver.Delivery {
	if len(l.leased) < l.sub.Parallel {
		return l.soonest()
	}
	var first *driver.Delivery
	for sequence := range l.leased {
		d := l.records[sequence]
		if first == nil || d.Due.Before(first.Due) || (d.Due.Equal(first.Due) && sequence < first.Sequence) {
			first = d
		}
	}
	return first
}

// settle brings the lane's place in the heap of due lanes up to date.
func (s *state) settle(l *lane) {
	due := l.whenDue()
	if due.Equal(l.due) && (l.index >= 0) == !due.IsZero() {
		return
	}
	l.due = due
	switch {
	case due.IsZero() && l.index >= 0:
		heap.Remove(&s.due, l.index)
	case due.IsZero():
	case l.index >= 0:
		heap.Fix(&s.due, l.index)
	default:
		heap.Push(&s.due, l)
	}
}

// put stores d, or removes the delivery when d is nil, and keeps every index true. It does not settle the lane.
func (t *tx) put(l *lane, sequence int64, d *driver.Delivery) {
	before := l.records[sequence]
	t.place(l, sequence, d)
	t.onRollback(func() {
		t.place(l, sequence, before)
		t.settle(l)
	})
}

func (s *state) place(l *lane, sequence int64, d *driver.Delivery) {
	if before := l.records[sequence]; before != nil && before.State == driver.Pending {
		l.pending--
		delete(l.leased, sequence)
		s.need(before, -1)
	}
	if d == nil {
		delete(l.records, sequence)
		return
	}
	l.records[sequence] = d
	if d.State != driver.Pending {
		heap.Push(&s.settled, dueEntry{d.Settled, l, sequence})
		return
	}
	l.pending++
	s.need(d, 1)
	if d.Leased {
		l.leased[sequence] = true
	}
	heap.Push(&l.byOrder, sequence)
	heap.Push(&l.byDue, dueEntry{d.Due, l, sequence})
	if !d.Deadline.IsZero() {
		heap.Push(&s.overdue, dueEntry{d.Deadline, l, sequence})
	}
}

func (s *state) need(d *driver.Delivery, n int) {
	l := s.ledger(d.Ledger)
	if l.needed[d.Sequence] += n; l.needed[d.Sequence] == 0 {
		delete(l.needed, d.Sequence)
	}
}

// laneHeap orders lanes by due time.
type laneHeap []*lane

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *laneHeap) Push(x any) {
	l := x.(*lane)
	l.index = len(*h)
	*h = append(*h, l)
}
func (h *laneHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	l.index = -1
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return l
}

// after returns the earliest due time later than now at or below node i.
func (h laneHeap) after(i int, now time.Time) time.Time {
	if i >= len(h) {
		return time.Time{}
	}
	if h[i].due.After(now) {
		return h[i].due
	}
	left, right := h.after(2*i+1, now), h.after(2*i+2, now)
	if left.IsZero() || (!right.IsZero() && right.Before(left)) {
		return right
	}
	return left
}

type sequenceHeap []int64

func (h sequenceHeap) Len() int           { return len(h) }
func (h sequenceHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h sequenceHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *sequenceHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *sequenceHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

type dueEntry struct {
	at       time.Time
	lane     *lane
	sequence int64
}

type dueHeap []dueEntry

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].sequence < h[j].sequence
	}
	return h[i].at.Before(h[j].at)
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(dueEntry)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = dueEntry{}
	*h = old[:len(old)-1]
	return x
}
