package allowance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// ledger is a store of usage and nothing else: any other table is a nil interface, whose use panics.
type ledger struct {
	store.Store
	bus store.Bus

	mu      sync.Mutex // guards the rest
	rows    map[string]relay.Usage
	largest int // most rows one Update wrote
	batch   int
	broken  error
	reads   int
}

func newLedger() *ledger { return &ledger{rows: map[string]relay.Usage{}} }

func (l *ledger) Bus() store.Bus { return l.bus }

func (l *ledger) View(_ context.Context, fn func(store.Tx) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads++; l.broken != nil {
		return l.broken
	}
	return fn(usageTx{l: l})
}

func (l *ledger) Update(_ context.Context, fn func(store.Tx) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	l.batch = 0
	err := fn(usageTx{l: l})
	l.largest = max(l.largest, l.batch)
	return err
}

type usageTx struct {
	store.Tx
	l *ledger
}

func (t usageTx) Usage() store.Usage { return usageRows{t.l} }

type usageRows struct{ l *ledger }

func (u usageRows) Add(m relay.MailboxID, day string, delta relay.Usage) error {
	u.l.batch++
	u.l.rows[day+" "+string(m)] = u.l.rows[day+" "+string(m)].Add(delta)
	return nil
}

func (u usageRows) Get(m relay.MailboxID, day string) (relay.Usage, error) {
	return u.l.rows[day+" "+string(m)], nil
}

func (usageRows) Forget(string, int) (int, error) { panic("a meter forgets nothing") }

func (l *ledger) row(key string) relay.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows[key]
}

func (l *ledger) breakDown(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = err
}

func newMeter(t *testing.T, l *ledger) *Meter {
	return NewMeter(l, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func wantUsed(t *testing.T, m *Meter, id relay.MailboxID, now time.Time, want int64) {
	t.Helper()
	got, err := m.Used(t.Context(), id, now)
	if err != nil || got.Requests != want {
		t.Errorf("used at %s = %d requests (%v), want %d", now.Format(time.DateTime), got.Requests, err, want)
	}
}

var one = relay.Usage{Requests: 1}

func TestAMeterAddsToWhatTheStoreKnows(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.rows["2026-10-05 a"] = relay.Usage{Requests: 10, PollSeconds: 3}
	m := newMeter(t, l)
	wantUsed(t, m, "a", noon, 10)
	m.Count("a", noon, one)
	m.Count("a", noon, relay.Usage{Requests: 1, PollSeconds: 2, WSMessages: 4})
	wantUsed(t, m, "a", noon, 12)
	wantUsed(t, m, "b", noon, 0)
	if got, want := m.pending("a", noon), (relay.Usage{Requests: 2, PollSeconds: 2, WSMessages: 4}); got != want {
		t.Errorf("pending = %+v, want %+v", got, want)
	}
	m.Flush(t.Context())
	m.Flush(t.Context())
	if got, want := l.row("2026-10-05 a"), (relay.Usage{Requests: 12, PollSeconds: 5, WSMessages: 4}); got != want {
		t.Errorf("stored = %+v, want %+v, each count once", got, want)
	}
	wantUsed(t, m, "a", noon, 12)
	if got := m.pending("a", noon); got != (relay.Usage{}) {
		t.Errorf("after a flush %+v is pending", got)
	}
}

func TestAMeterAsksTheStoreOncePerMailbox(t *testing.T) {
	t.Parallel()
	l := newLedger()
	m := newMeter(t, l)
	for range 100 {
		m.Count("a", noon, one)
		wantUsed(t, m, "a", noon, m.pending("a", noon).Requests)
	}
	if l.reads != 1 {
		t.Errorf("100 requests asked the store %d times", l.reads)
	}
}

func TestCountersStartAnewAtMidnightUTC(t *testing.T) {
	t.Parallel()
	m := newMeter(t, newLedger())
	last := time.Date(2026, 10, 5, 23, 59, 59, 999e6, time.UTC)
	m.Count("a", last, one)
	wantUsed(t, m, "a", last.In(time.FixedZone("", 9*3600)), 1)
	wantUsed(t, m, "a", last.Add(time.Millisecond), 0)
}

func TestAFailedFlushLosesNothing(t *testing.T) {
	t.Parallel()
	l := newLedger()
	m := newMeter(t, l)
	m.Count("a", noon, one)
	wantUsed(t, m, "a", noon, 1)
	l.breakDown(errors.New("no room"))
	m.Flush(t.Context())
	l.breakDown(nil)
	wantUsed(t, m, "a", noon, 1)
	m.Count("a", noon, one)
	m.Flush(t.Context())
	if got := l.row("2026-10-05 a").Requests; got != 2 {
		t.Errorf("stored %d requests after a failed flush and a good one, want 2", got)
	}
	wantUsed(t, m, "a", noon, 2)
}

// TestCountsOnTheirWayToTheStoreAreSeen: while a flush commits, its counts are neither pending nor stored.
func TestCountsOnTheirWayToTheStoreAreSeen(t *testing.T) {
	t.Parallel()
	l := newLedger()
	m := newMeter(t, l)
	m.Count("a", noon, one) // a device's: nothing has asked the store for the mailbox yet
	l.mu.Lock()             // the store takes its time
	var flush, reads sync.WaitGroup
	flush.Go(func() { m.Flush(t.Context()) })
	for m.moving.TryRLock() {
		m.moving.RUnlock()
		runtime.Gosched()
	}
	reads.Go(func() { wantUsed(t, m, "a", noon, 1) })
	reads.Go(func() {
		_ = m.Whole("a", noon, func(pending relay.Usage) error {
			if got := l.row("2026-10-05 a").Add(pending).Requests; got != 1 {
				t.Errorf("the store and the meter make up %d requests, want 1", got)
			}
			return nil
		})
	})
	l.mu.Unlock()
	flush.Wait()
	reads.Wait()
	wantUsed(t, m, "a", noon, 1)
}

func TestAStoreThatCannotAnswerIsAnErrorAndNotAFreePass(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.broken = errors.New("gone")
	if _, err := newMeter(t, l).Used(t.Context(), "a", noon); !errors.Is(err, l.broken) {
		t.Errorf("err = %v, want the store's", err)
	}
}

func TestAFlushIsBoundedAndForgetsTheIdle(t *testing.T) {
	t.Parallel()
	l := newLedger()
	m := newMeter(t, l)
	for i := range 1000 {
		m.Count(relay.MailboxID(fmt.Sprint(i)), noon, one)
	}
	m.Flush(t.Context())
	if len(l.rows) != 1000 || l.largest > flushBatch {
		t.Errorf("%d rows written, up to %d in one transaction; want 1000 in batches of %d", len(l.rows), l.largest, flushBatch)
	}
	m.Count("7", noon, one)
	m.Flush(t.Context())
	if len(m.days) != 1 {
		t.Errorf("%d mailboxes are held after a flush without their use, want 1", len(m.days))
	}
	wantUsed(t, m, "7", noon, 2)
	wantUsed(t, m, "8", noon, 1) // from the store again
}

// deaf is a bus that hears and says nothing: other processes write to the store.
type deaf struct{}

func (deaf) Publish(...relay.Hint) {}

func (deaf) Listen(ctx context.Context, _ func(relay.Hint)) error {
	<-ctx.Done()
	return nil
}

func TestProcessesOnOneStoreSeeEachOthersCountsAfterAFlush(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.bus = deaf{}
	a, b := newMeter(t, l), newMeter(t, l)
	for range 3 {
		a.Count("x", noon, one)
		b.Count("x", noon, one)
		a.Count("x", noon, one)
	}
	wantUsed(t, a, "x", noon, 6)
	wantUsed(t, b, "x", noon, 3)
	a.Flush(t.Context())
	b.Flush(t.Context())
	wantUsed(t, a, "x", noon, 9)
	wantUsed(t, b, "x", noon, 9)
}

func TestAMeterFlushesEveryMinuteAndOnceMoreAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		m := newMeter(t, l)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		row := relay.Day(time.Now()) + " a"

		m.Count("a", time.Now(), one)
		time.Sleep(FlushEvery - time.Second)
		synctest.Wait()
		if got := l.row(row).Requests; got != 0 {
			t.Errorf("stored %d before the minute was over", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := l.row(row).Requests; got != 1 {
			t.Errorf("stored %d after a minute, want 1", got)
		}
		m.Count("a", time.Now(), one)
		stop()
		if err := <-done; err != nil {
			t.Errorf("a deliberate stop returned %v", err)
		}
		if got := l.row(row).Requests; got != 2 {
			t.Errorf("stored %d after the end, want 2", got)
		}
	})
}

func TestAMeterCountsExactlyUnderContention(t *testing.T) {
	t.Parallel()
	l := newLedger()
	m := newMeter(t, l)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				m.Count("a", noon, one)
				if i%100 == 0 {
					m.Flush(t.Context())
				}
			}
		})
	}
	wg.Wait()
	m.Flush(t.Context())
	if got := l.row("2026-10-05 a").Requests; got != 4000 {
		t.Errorf("stored %d of 4000", got)
	}
	wantUsed(t, m, "a", noon, 4000)
}
