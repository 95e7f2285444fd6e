package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/postgres"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// twoProcesses opens one database twice.
func twoProcesses(t *testing.T) (a, b *postgres.Store, url string) {
	t.Helper()
	url = pgtest.URL(t)
	return pgtest.OpenURL(t, url, nil), pgtest.OpenURL(t, url, nil), url
}

func TestTwoProcessesOneAgentID(t *testing.T) {
	t.Parallel()
	a, b, _ := twoProcesses(t)
	k := newKey(t, a)
	stored := 0
	for i, err := range together(50, func(i int) error {
		return insert(t.Context(), []*postgres.Store{a, b}[i%2], noteOf(k, "the same"))
	}) {
		switch {
		case err == nil:
			stored++
		case !fault.Is(err, fault.Conflict):
			t.Errorf("insert %d = %v, want a conflict", i, err)
		}
	}
	if n := len(waitingOf(t, b, k.Mailbox)); stored != 1 || n != 1 {
		t.Errorf("%d inserts succeeded and %d notifications are there, want 1 and 1", stored, n)
	}
}

func TestTwoProcessesNumberWithoutGaps(t *testing.T) {
	t.Parallel()
	a, b, _ := twoProcesses(t)
	keys := newKeys(t, a, 5)
	for _, err := range together(300, func(i int) error {
		return insert(t.Context(), []*postgres.Store{a, b}[i%2], noteOf(keys[i%len(keys)], ""))
	}) {
		must(t, err)
	}
	for _, k := range keys {
		list := waitingOf(t, a, k.Mailbox)
		if len(list) != 60 {
			t.Errorf("%d notifications, want 60", len(list))
		}
		for i, w := range list {
			if w.Seq != int64(i+1) {
				t.Fatalf("place %d holds Seq %d", i, w.Seq)
			}
		}
	}
}

// Seq is handed out in the order of commits: whoever has seen n never finds a smaller one appear later.
func TestSeqFollowsTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	a, b, _ := twoProcesses(t)
	k := newKey(t, a)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for seen := int64(0); ; {
			for _, w := range waitingOf(t, b, k.Mailbox) {
				if w.Seq > seen+1 {
					t.Errorf("Seq %d appeared before %d", w.Seq, seen+1)
				}
				seen = max(seen, w.Seq)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for _, err := range together(100, func(i int) error { return insert(t.Context(), []*postgres.Store{a, b}[i%2], noteOf(k, "")) }) {
		must(t, err)
	}
	close(stop)
	wg.Wait()
}

// A limit judged in one process counts what the other has just admitted.
func TestTwoProcessesKeepOneLimit(t *testing.T) {
	t.Parallel()
	a, b, _ := twoProcesses(t)
	k := newKey(t, a)
	limits := relay.AdmissionLimits{PerKey: 10, PerDay: 100, Queue: 100}
	admitted := 0
	for _, err := range together(60, func(i int) error {
		n := noteOf(k, "")
		return []*postgres.Store{a, b}[i%2].Update(t.Context(), func(tx store.Tx) error {
			adm, err := tx.Notifications().Admission(k.Mailbox, k.ID, limits.PerKey, benchDay)
			if err == nil {
				err = limits.AdmitRate(adm, benchDay)
			}
			if err != nil {
				return err
			}
			return tx.Notifications().Insert(&n, benchDay)
		})
	}) {
		if err == nil {
			admitted++
		} else if !fault.Is(err, fault.Exhausted) {
			t.Error(err)
		}
	}
	if admitted != limits.PerKey {
		t.Errorf("%d were admitted, want %d", admitted, limits.PerKey)
	}
}

// Sweeps of several processes share the work and count every notification once.
func TestTwoProcessesSweepOnce(t *testing.T) {
	t.Parallel()
	a, b, _ := twoProcesses(t)
	keys := newKeys(t, a, 20)
	for _, err := range together(200, func(i int) error { return insert(t.Context(), a, noteOf(keys[i%len(keys)], "")) }) {
		must(t, err)
	}
	var mu sync.Mutex
	expired := map[relay.NotificationID]int{}
	sweep := func(i int) error {
		return []*postgres.Store{a, b}[i%2].Update(t.Context(), func(tx store.Tx) error {
			list, err := tx.Notifications().Expire("", benchDay.Add(time.Hour), 30)
			mu.Lock()
			defer mu.Unlock()
			for _, e := range list {
				expired[e.ID]++
			}
			return err
		})
	}
	for round := 0; len(expired) < 200 && round < 50; round++ {
		for _, err := range together(6, sweep) {
			must(t, err)
		}
	}
	for id, n := range expired {
		if n != 1 {
			t.Errorf("%s expired %d times", id, n)
		}
	}
	if len(expired) != 200 {
		t.Errorf("%d expired, want 200", len(expired))
	}
}

// ear gathers hints until it was asked for them.
type ear struct {
	t     *testing.T
	hints chan relay.Hint
}

// listen starts listening and returns once hints of from arrive.
func listen(t *testing.T, s, from *postgres.Store) *ear {
	t.Helper()
	e := &ear{t: t, hints: make(chan relay.Hint, 100_000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Bus().Listen(ctx, func(h relay.Hint) { e.hints <- h }) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	e.ready(from)
	return e
}

// ready publishes until something arrives, and then until all of it has.
func (e *ear) ready(from *postgres.Store) {
	e.t.Helper()
	for i := range 500 {
		mark := relay.Hint{Kind: relay.HintReceipt, Mailbox: relay.MailboxID(fmt.Sprint("ready", i))}
		from.Bus().Publish(mark)
		for deadline := time.After(100 * time.Millisecond); ; {
			select {
			case h := <-e.hints:
				if h == mark {
					return
				}
				continue
			case <-deadline:
			}
			break
		}
	}
	e.t.Fatal("no hint arrives")
}

// next waits for one hint.
func (e *ear) next() relay.Hint {
	e.t.Helper()
	select {
	case h := <-e.hints:
		return h
	case <-time.After(10 * time.Second):
		e.t.Fatal("no hint arrives")
		return relay.Hint{}
	}
}

var someHint = relay.Hint{Kind: relay.HintReplaced, Mailbox: relay.MailboxID("0123456789abcdef0123456789abcdef0123456789abcdef"),
	Notification: "r_0123456789abcdef01234567", Device: "0123456789abcdef", Stream: "s-1"}

func TestHintsReachOtherProcesses(t *testing.T) {
	t.Parallel()
	a, b, _ := twoProcesses(t)
	inB, inA := listen(t, b, a), listen(t, a, b)
	a.Bus().Publish(someHint)
	if d := cmp.Diff(someHint, inB.next()); d != "" {
		t.Errorf("hint (-sent +got):\n%s", d)
	}
	b.Bus().Publish(relay.Hint{Kind: relay.HintQueued, Mailbox: "m"})
	if h := inA.next(); h.Kind != relay.HintQueued {
		t.Errorf("hint = %+v: a process hears itself", h)
	}
}

// A burst arrives whole as long as it fits into the queue, in a few messages.
func TestABurstOfHints(t *testing.T) {
	t.Parallel()
	a, b, _ := twoProcesses(t)
	in := listen(t, b, a)
	const n = 2000
	hints := make([]relay.Hint, n)
	for i := range hints {
		hints[i] = someHint
		hints[i].Stream = fmt.Sprint(i)
	}
	a.Bus().Publish(hints...)
	for i := range n {
		if h := in.next(); h.Stream != fmt.Sprint(i) {
			t.Fatalf("hint %d is %q: lost or out of order", i, h.Stream)
		}
	}
}

// More than fits is dropped without blocking the publisher.
func TestPublishNeverBlocks(t *testing.T) {
	t.Parallel()
	s := pgtest.Open(t)
	many := make([]relay.Hint, 200_000)
	for i := range many {
		many[i] = someHint
	}
	began := time.Now()
	s.Bus().Publish(many...)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Publish took %v", took)
	}
}

func TestTheListenerComesBack(t *testing.T) {
	t.Parallel()
	a, b, url := twoProcesses(t)
	in := listen(t, b, a)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for range 3 {
		var killed int
		must(t, conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE '%listener'`).Scan(&killed))
		if killed == 0 {
			t.Fatal("nobody listens")
		}
		in.ready(a)
	}
}

func TestListenEnds(t *testing.T) {
	t.Parallel()
	s := pgtest.OpenURL(t, pgtest.URL(t), nil)
	done := make(chan error, 1)
	go func() { done <- s.Bus().Listen(t.Context(), func(relay.Hint) {}) }()
	must(t, insert(t.Context(), s, noteOf(newKey(t, s), "")))
	must(t, s.Close())
	select {
	case err := <-done:
		if err != nil && !fault.Is(err, fault.Unavailable) { // it may not have begun before Close
			t.Errorf("Listen = %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Listen outlives its store")
	}
}
