package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

// maxBatch bounds the Updates of one commit.
const maxBatch = 512

// writer owns the only connection that writes. Its fields belong to the goroutine of run.
type writer struct {
	c        *native.Conn
	patience time.Duration // of c
	mem      *memory
	queue    chan *update         // closed when no more Updates can come
	restart  chan chan<- struct{} // the log has grown long; what comes is closed once it begins anew
	wrote    chan struct{}        // size one: wakes the checkpointer
	running  sync.WaitGroup
	batch    []*update
	current  *update // whose fn runs
}

func newWriter(c *native.Conn, patience time.Duration, wrote chan struct{}) *writer {
	w := &writer{c: c, patience: patience, mem: newMemory(), queue: make(chan *update, maxBatch), restart: make(chan chan<- struct{}), wrote: wrote}
	w.running.Go(w.run)
	return w
}

// stop ends the goroutine after everything queued has been answered.
func (w *writer) stop() {
	close(w.queue)
	w.running.Wait()
}

// update is one Update on its way through the writer.
type update struct {
	ctx   context.Context
	fn    func(store.Tx) error
	state atomic.Int32
	err   error
	done  chan struct{} // closed once err is final
}

// States of a call. Whoever moves it out of waiting decides: the writer takes it, or its caller leaves.
const (
	waiting = iota
	taken
	left
)

// panicked carries a panic of fn, or its end by runtime.Goexit, from the writer to the caller.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string {
	return fmt.Sprintf("panic in a store transaction: %v\n\n%s", p.value, p.stack)
}

func (w *writer) do(ctx context.Context, fn func(store.Tx) error) error {
	c := &update{ctx: ctx, fn: fn, done: make(chan struct{})}
	select {
	case w.queue <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.state.CompareAndSwap(waiting, left) {
			return context.Cause(ctx)
		}
		<-c.done
	}
	if p, ok := errors.AsType[*panicked](c.err); ok {
		panic(p)
	}
	return c.err
}

// run takes whatever waits, commits it together and answers, until the queue is closed.
func (w *writer) run() {
	ended := false
	defer func() {
		if !ended { // an fn called runtime.Goexit, as a failing test does: others must not hang
			w.abandon()
			w.running.Go(w.run)
		}
	}()
	for {
		select {
		case c, open := <-w.queue:
			if !open {
				ended = true
				return
			}
			w.collect(c)
			w.commit(w.batch)
			w.answer()
		case begun := <-w.restart:
			w.beginLogAnew()
			close(begun)
		}
	}
}

// restartPatience bounds how long writing stands still for Views that still read the old log.
const restartPatience = 20 * time.Millisecond

// beginLogAnew copies the rest of the log, which under steady writing only the writer itself can, and makes the next
// commit write over it. If a View takes too long the checkpointer asks again.
func (w *writer) beginLogAnew() {
	w.c.Patience(restartPatience)
	defer w.c.Patience(w.patience)
	_, _, _ = w.c.Checkpoint(native.Restart) // a failing disk is noticed by commits and by the checkpointer
}

// collect fills the batch with the calls that wait and whose callers still do.
func (w *writer) collect(c *update) {
	w.batch = w.batch[:0]
	for {
		if c.state.CompareAndSwap(waiting, taken) {
			w.batch = append(w.batch, c)
		}
		if len(w.batch) == maxBatch {
			return
		}
		select {
		case next, open := <-w.queue:
			if !open {
				return
			}
			c = next
		default:
			return
		}
	}
}

func (w *writer) answer() {
	for _, c := range w.batch {
		close(c.done)
	}
	clear(w.batch)
	w.batch = w.batch[:0]
}

// abandon answers a batch of which one fn ended the writer's goroutine.
func (w *writer) abandon() {
	w.rollback()
	for _, c := range w.batch {
		c.err = fault.New(fault.Unavailable, "unavailable", "the relay could not store this; try again")
	}
	w.current.err = &panicked{value: "fn ended its goroutine"}
	w.answer()
}

// errNeighbour ends an attempt because an fn failed after it had written.
var errNeighbour = errors.New("an fn failed after it wrote")

// commit runs the calls and gives each its error, by the plainest means that works.
func (w *writer) commit(calls []*update) {
	err := w.attempt(calls, false)
	if err == errNeighbour && len(calls) > 1 {
		err = w.attempt(calls, true)
	}
	if _, broke := err.(*broken); broke && len(calls) > 1 {
		for i := range calls {
			w.commit(calls[i : i+1])
		}
	}
}

// broken ends an attempt because a statement failed in a way that may have ended the transaction.
type broken struct{ error }

// attempt runs the calls in one transaction and commits it. With savepoints, an fn that fails takes only its own writes
// back. Every call has its error afterwards, unless the result asks for another attempt.
func (w *writer) attempt(calls []*update, savepoints bool) error {
	changes := w.c.Changes()
	if err := w.c.Exec("BEGIN IMMEDIATE"); err != nil {
		return w.failAll(calls, "begin", err)
	}
	for _, c := range calls {
		if err := w.step(c, savepoints); err != nil {
			w.rollback()
			return err
		}
	}
	if err := w.mem.flush(w.c); err != nil {
		return w.failAll(calls, "write tallies", err)
	}
	if err := w.c.Exec("COMMIT"); err != nil {
		return w.failAll(calls, "commit", err)
	}
	w.mem.committed()
	if w.c.Changes() != changes {
		w.wake()
	}
	return nil
}

// wake tells the checkpointer that the log has grown.
func (w *writer) wake() {
	select {
	case w.wrote <- struct{}{}:
	default:
	}
}

// failAll rolls back and gives every call the same error.
func (w *writer) failAll(calls []*update, doing string, err error) error {
	w.rollback()
	err = translate(doing, err)
	for _, c := range calls {
		c.err = err
	}
	return err
}

func (w *writer) rollback() {
	if w.c.InTransaction() {
		_ = w.c.Exec("ROLLBACK") // some errors have rolled back already, and nothing else can be done about others
	}
	w.mem.rollback(0)
}

// step runs one call within the transaction. Its error ends the attempt.
func (w *writer) step(c *update, savepoint bool) error {
	if savepoint {
		if err := w.c.Exec("SAVEPOINT call"); err != nil {
			return &broken{err}
		}
	}
	changes, undo := w.c.Changes(), len(w.mem.undo)
	t := &tx{c: w.c, mem: w.mem}
	w.current = c
	c.err = call(c.fn, t)
	switch {
	case t.broken != nil && t.broken != errOver:
		c.err = t.broken
		return &broken{t.broken}
	case c.err != nil && w.c.Changes() != changes && !savepoint:
		return errNeighbour
	case savepoint:
		return w.settle(c.err != nil, undo)
	}
	return nil
}

// settle ends the savepoint of a call, keeping what it wrote or not.
func (w *writer) settle(failed bool, undo int) error {
	err := error(nil)
	if failed {
		err = w.c.Exec("ROLLBACK TO call")
		w.mem.rollback(undo)
	} else {
		err = w.mem.flush(w.c)
	}
	if err == nil {
		err = w.c.Exec("RELEASE call")
	}
	if err != nil {
		return &broken{err}
	}
	return nil
}

// call runs fn and turns a panic into an error.
func call(fn func(store.Tx) error, t *tx) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: debug.Stack()}
		}
		if t.broken == nil {
			t.broken = errOver
		}
	}()
	return fn(t)
}

// isBusy reports whether another program holds the database.
func isBusy(err error) bool {
	e, ok := errors.AsType[*native.Error](err)
	return ok && e.Primary() == sqlite3.SQLITE_BUSY
}
