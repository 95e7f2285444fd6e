package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

// Store is an open database. It implements store.Store.
type Store struct {
	path    string
	schema  int64
	lock    *os.File
	writer  *writer
	readers chan *native.Conn // those at rest
	log     *checkpointer

	mu     sync.Mutex // guards closed, and calls against Wait
	closed bool
	calls  sync.WaitGroup // Views and Updates under way
}

var _ store.Store = (*Store)(nil)

// enter begins a call; leave ends it.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.calls.Add(1)
	return nil
}

func (s *Store) leave() { s.calls.Done() }

// Update hands fn to the writer and returns when it is committed. A caller whose ctx ends before fn's turn leaves, and
// fn does not run; later, the outcome is awaited: a commit takes milliseconds.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.writer.do(ctx, fn)
}

// View runs fn in a read transaction on the goroutine of its caller.
func (s *Store) View(ctx context.Context, fn func(store.Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	select {
	case c := <-s.readers:
		defer func() { s.readers <- c }()
		return view(c, fn)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func view(c *native.Conn, fn func(store.Tx) error) error {
	if err := c.Exec("BEGIN"); err != nil {
		return translate("begin", err)
	}
	t := &tx{c: c}
	defer func() {
		t.broken = errOver
		_ = c.Exec("ROLLBACK") // nothing was written
	}()
	if err := fn(t); err != nil {
		return err
	}
	return t.broken
}

// Bus returns nil: one process owns the database.
func (s *Store) Bus() store.Bus { return nil }

// Ready reads a row, and reports when the log could not be copied into the database lately.
func (s *Store) Ready(ctx context.Context) error {
	err := s.View(ctx, func(tx store.Tx) error {
		_, err := tx.People().ByName("")
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
	if err == nil {
		err = s.log.trouble()
	}
	return err
}

// Describe names the engine and the schema: "sqlite 3.54.1, schema 1".
func (s *Store) Describe() string {
	version, _ := native.Version()
	return fmt.Sprintf("sqlite %s, schema %d", version, s.schema)
}

// Close waits for running calls, copies the log into the database and lets other programs have it.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	s.log.stop()
	s.writer.stop()
	errs := []error{s.log.c.Close()}
	for range cap(s.readers) {
		errs = append(errs, (<-s.readers).Close())
	}
	return errors.Join(append(errs, s.writer.c.Close(), s.lock.Close())...)
}

// checkpointer copies the log into the database while nobody waits for it.
type checkpointer struct {
	mu      sync.Mutex // guards c and limit
	c       *native.Conn
	limit   int                    // maxLog
	wake    chan struct{}          // size one: something was written
	restart chan<- chan<- struct{} // to the writer: begin the log anew, then close this
	ended   chan struct{}
	running sync.WaitGroup
	failure atomic.Pointer[error] // of the last run
}

const (
	// checkpointEvery is how long writes gather before they are copied.
	checkpointEvery = 100 * time.Millisecond
	// maxLog is how many pages the log may hold before the writer is asked to begin it anew: 32 MiB. Writing over the
	// old log is cheaper than growing the file, so it is cut only when one huge transaction blew it up (see openConn).
	maxLog = 8192
)

func newCheckpointer(c *native.Conn) *checkpointer {
	return &checkpointer{c: c, limit: maxLog, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (k *checkpointer) start(restart chan<- chan<- struct{}) {
	k.restart = restart
	k.running.Go(k.run)
}

func (k *checkpointer) stop() {
	close(k.ended)
	k.running.Wait()
}

// run sleeps until something is written: an idle store has no timer.
func (k *checkpointer) run() {
	timer := time.NewTimer(checkpointEvery)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-k.wake:
		case <-k.ended:
			return
		}
		timer.Reset(checkpointEvery)
		select {
		case <-timer.C:
		case <-k.ended:
			return
		}
		k.copy()
	}
}

// copy brings what the log holds into the database, and returns how many pages those are and how many were copied.
func (k *checkpointer) copy() (logged, copied int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	logged, copied, err := k.c.Checkpoint(native.Passive)
	if isBusy(err) {
		err = nil // another checkpoint is under way
	}
	k.failure.Store(&err)
	if logged > k.limit {
		begun := make(chan struct{})
		k.restart <- begun
		<-begun // the next copy would be in the way
	}
	return logged, copied
}

// trouble returns why the last copy failed.
func (k *checkpointer) trouble() error {
	if p := k.failure.Load(); p != nil && *p != nil {
		return translate("copy the log", *p)
	}
	return nil
}
