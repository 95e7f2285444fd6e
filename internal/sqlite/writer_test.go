package sqlite

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

var errNo = errors.New("no")

// busy holds the writer inside an Update until the returned function is called.
func busy(t *testing.T, s *Store) (release func()) {
	t.Helper()
	inside, free := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.Update(context.Background(), func(store.Tx) error {
			close(inside)
			<-free
			return nil
		})
	}()
	<-inside
	return func() {
		close(free)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// queued waits until n Updates wait for the writer.
func queued(s *Store, n int) {
	for len(s.writer.queue) < n {
		runtime.Gosched()
	}
}

// together queues all updates while the writer is busy, so that they share a batch, and returns their errors.
func together(t *testing.T, s *Store, updates ...func(store.Tx) error) []error {
	t.Helper()
	release := busy(t, s)
	errs := make([]error, len(updates))
	var wg sync.WaitGroup
	for i, fn := range updates {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					errs[i] = v.(error)
				}
			}()
			errs[i] = s.Update(context.Background(), fn)
		})
		queued(s, i+1)
	}
	release()
	wg.Wait()
	return errs
}

func (h home) sending(at time.Time, after func() error) func(store.Tx) error {
	n := h.note(at)
	return func(tx store.Tx) error {
		if err := tx.Notifications().Insert(&n, at.Add(-24*time.Hour)); err != nil {
			return err
		}
		return after()
	}
}

func TestABatchIsOneCommit(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	fine := func() error { return nil }
	commits := watch(t, h.Store)
	before := commits()
	errs := together(t, h.Store, h.sending(t0, fine), h.sending(t0, fine), h.sending(t0, fine), h.sending(t0, fine))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got := commits() - before; got != 1 {
		t.Errorf("%d commits for one batch", got)
	}
	if got := h.countWaiting(t); got != 4 {
		t.Errorf("waiting = %d, want 4", got)
	}
}

// watch returns a function that counts commits, as another connection sees them.
func watch(t *testing.T, s *Store) func() int64 {
	t.Helper()
	c, err := openConn(s.path, time.Second, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return func() (n int64) {
		if _, err := c.Prepare("PRAGMA data_version").Row(func(s *native.Stmt) { n = s.ColInt(0) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

func TestAPanicReachesItsCallerAndNobodyElse(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	fine := func() error { return nil }
	errs := together(t, h.Store, h.sending(t0, fine), h.sending(t0, func() error { panic("oh dear") }), h.sending(t0, fine))
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("neighbours: %v, %v", errs[0], errs[2])
	}
	if errs[1] == nil || !strings.Contains(errs[1].Error(), "oh dear") || !strings.Contains(errs[1].Error(), "writer_test.go") {
		t.Errorf("panic = %v, want its value and its stack", errs[1])
	}
	if got := h.countWaiting(t); got != 2 {
		t.Errorf("waiting = %d, want 2", got)
	}
}

func TestAnFnThatEndsItsGoroutineHangsNobody(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	fine := func() error { return nil }
	errs := together(t, h.Store, h.sending(t0, fine), h.sending(t0, func() error { runtime.Goexit(); return nil }), h.sending(t0, fine))
	if !fault.Is(errs[0], fault.Unavailable) || !fault.Is(errs[2], fault.Unavailable) {
		t.Errorf("neighbours: %v, %v, want unavailable", errs[0], errs[2])
	}
	if errs[1] == nil || !strings.Contains(errs[1].Error(), "ended its goroutine") {
		t.Errorf("error = %v", errs[1])
	}
	if got := h.countWaiting(t); got != 0 {
		t.Errorf("waiting = %d, want 0", got)
	}
	h.mustSend(t, h.note(t0))
}

func TestFailuresBeforeAndAfterWritingTakeNothingFromTheirNeighbours(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	fine, fail := func() error { return nil }, func() error { return errNo }
	errs := together(t, h.Store,
		func(store.Tx) error { return errNo }, h.sending(t0, fine), h.sending(t0, fail), h.sending(t0, fine),
		func(store.Tx) error { return errNo }, h.sending(t0, fail))
	for i, want := range []error{errNo, nil, errNo, nil, errNo, errNo} {
		if errs[i] != want {
			t.Errorf("Update %d = %v, want %v", i, errs[i], want)
		}
	}
	if got := h.countWaiting(t); got != 2 {
		t.Errorf("waiting = %d, want 2", got)
	}
}

func TestAnErrorIsNotAnsweredBeforeTheCommitItDependsOn(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	n := h.note(t0)
	runs := 0
	errs := together(t, h.Store,
		func(tx store.Tx) error { // writes, and fails when it runs alone behind its savepoint
			if err := tx.Notifications().Insert(&n, t0); err != nil {
				return err
			}
			if runs++; runs > 1 {
				return errNo
			}
			return nil
		},
		func(tx store.Tx) error { // fails only because of the neighbour's write
			if _, err := tx.Notifications().Get(h.box, n.ID); err == nil {
				return errors.New("seen what was never committed")
			}
			return nil
		},
		h.sending(t0, func() error { return errNo })) // makes the batch run again
	if errs[0] != errNo || errs[1] != nil || errs[2] != errNo {
		t.Errorf("errors = %v", errs)
	}
}

func TestACallerWhoLeavesBeforeItsTurnChangesNothing(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	release := busy(t, h.Store)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	ran := false
	go func() {
		done <- h.Update(ctx, func(store.Tx) error { ran = true; return nil })
	}()
	queued(h.Store, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Update = %v, want context.Canceled at once", err)
	}
	release()
	h.mustSend(t, h.note(t0)) // the queue goes on
	if ran {
		t.Error("fn ran although its caller had left")
	}
}

func TestCloseAnswersWhatIsQueued(t *testing.T) {
	s, err := Open(t.Context(), newPath(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := settle(t, s)
	release := busy(t, s)
	sent := make(chan error, 1)
	go func() {
		_, err := h.send(context.Background(), h.note(t0))
		sent <- err
	}()
	queued(s, 1)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for !isClosed(s) {
		runtime.Gosched()
	}
	if err := s.Update(context.Background(), func(store.Tx) error { return nil }); err != errClosed {
		t.Errorf("Update while closing = %v", err)
	}
	release()
	if err := errors.Join(<-sent, <-closed); err != nil {
		t.Error(err)
	}
}

func isClosed(s *Store) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func TestATransactionEndsWithItsFn(t *testing.T) {
	s := open(t, newPath(t))
	var kept []store.Tx
	keep := func(tx store.Tx) error { kept = append(kept, tx); return nil }
	mustUpdate(t, s, keep)
	if err := s.View(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	for _, tx := range kept {
		if _, err := tx.People().List(); err != errOver {
			t.Errorf("People after the end = %v, want errOver", err)
		}
	}
}

func TestAViewMayNotWrite(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	kept := h.mustSend(t, h.note(t0))
	n := h.note(t0)
	for name, write := range map[string]func(tx store.Tx) error{
		"insert":  func(tx store.Tx) error { return tx.Notifications().Insert(&n, t0) },
		"save":    func(tx store.Tx) error { return tx.Notifications().Save(kept) },
		"expire":  func(tx store.Tx) error { _, err := tx.Notifications().Expire("", t0.Add(1), 1); return err },
		"forget":  func(tx store.Tx) error { _, err := tx.Notifications().Forget(t0.Add(1), 1); return err },
		"purge":   func(tx store.Tx) error { return tx.Keys().Purge(h.box, h.key) },
		"remove":  func(tx store.Tx) error { return tx.Mailboxes().Delete(h.box) },
		"state":   func(tx store.Tx) error { return tx.Mailboxes().SetState(h.box, relay.State{}) },
		"swallow": func(tx store.Tx) error { _ = tx.Mailboxes().Delete(h.box); return nil },
	} {
		if err := h.View(t.Context(), write); !errors.Is(err, errReadOnly) {
			t.Errorf("%s = %v, want errReadOnly", name, err)
		}
	}
}

func TestTheStoreWorksInABubble(t *testing.T) {
	path := newPath(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := settle(t, s)
		for range 24 {
			h.mustSend(t, h.note(time.Now()))
			time.Sleep(time.Hour) // returns only when every goroutine of the store rests
		}
		if got := h.countWaiting(t); got != 24 {
			t.Errorf("waiting = %d, want 24", got)
		}
		if err := s.log.trouble(); err != nil {
			t.Error(err)
		}
		if logged, copied := s.log.copy(); copied != logged {
			t.Errorf("after a rest the log holds %d pages, %d copied", logged, copied)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheLogStaysBoundedUnderSteadyWriting(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	const limit, size = 1024, 128 << 10
	const sends = 8 * limit / 32 // a payload is 32 pages: the log would hold eight times its bound
	h.log.mu.Lock()
	h.log.limit = limit
	h.log.mu.Unlock()
	var next, longest atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for next.Add(1) <= sends {
				n := h.note(t0)
				n.Payload = make([]byte, size)
				if _, err := h.send(t.Context(), n); err != nil {
					t.Error(err)
					return
				}
				logged, _ := h.log.copy()
				longest.Store(max(longest.Load(), int64(logged)))
			}
		})
	}
	wg.Wait()
	if got := longest.Load(); got > 2*limit {
		t.Errorf("the log grew to %d pages; it should begin anew at %d", got, limit)
	}
	if err := h.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestALongViewHoldsUpNoWriter(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	err := h.View(t.Context(), func(tx store.Tx) error {
		if _, err := tx.People().List(); err != nil { // takes the snapshot
			return err
		}
		h.writer.restart <- make(chan struct{})
		begin := time.Now()
		h.mustSend(t, h.note(t0))
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("an Update took %v beside a long View", took)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
