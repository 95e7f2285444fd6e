package mcpevents

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// hub tells those who wait for a ledger that it grew. It is a hint: whoever is told reads the store.
type hub struct {
	mu      sync.Mutex // guards what follows
	ledgers map[string]*topicWait
	streams map[*stream]struct{}
	byWho   map[string]int // open streams by principal
	closed  bool

	detached sync.WaitGroup // streams off the HTTP server; grows only while closed is false
}

// topicWait is what waits for one ledger.
type topicWait struct {
	waiting int
	grew    chan struct{} // closed and replaced when the ledger grew
	seen    int64         // its newest sequence when that was last looked up
}

func newHub() *hub {
	return &hub{ledgers: map[string]*topicWait{}, streams: map[*stream]struct{}{}, byWho: map[string]int{}}
}

// join begins to wait for a ledger; leave ends it. Between them the ledger is looked at now and then.
func (h *hub) join(ledger string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.ledgers[ledger]
	if w == nil {
		w = &topicWait{grew: make(chan struct{})}
		h.ledgers[ledger] = w
	}
	w.waiting++
}

func (h *hub) leave(ledger string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.ledgers[ledger]
	if w.waiting--; w.waiting == 0 {
		delete(h.ledgers, ledger)
	}
}

// next returns a channel that is closed when the ledger grows after this call. Take it before reading the store.
func (h *hub) next(ledger string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ledgers[ledger].grew
}

// tell wakes all who wait for a ledger.
func (h *hub) tell(ledger string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tellLocked(ledger)
}

func (h *hub) tellLocked(ledger string) {
	if w := h.ledgers[ledger]; w != nil {
		close(w.grew)
		w.grew = make(chan struct{})
	}
}

// look compares each ledger that is waited for with the store, for what other processes appended.
func (h *hub) look(ctx context.Context, db driver.Driver) error {
	h.mu.Lock()
	names := slices.Collect(maps.Keys(h.ledgers))
	h.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	newest := make(map[string]int64, len(names))
	err := db.View(ctx, func(tx driver.Tx) error {
		for _, name := range names {
			head, err := tx.Events().Head(name)
			if err != nil {
				return err
			}
			newest[name] = head.Newest
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, n := range newest {
		if w := h.ledgers[name]; w != nil && w.seen != n {
			w.seen = n
			h.tellLocked(name)
		}
	}
	return nil
}

// watch looks every interval until ctx ends.
func (h *hub) watch(ctx context.Context, db driver.Driver, every time.Duration, failed func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := h.look(ctx, db); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
	}
}

var (
	errStreams  = errors.New("too many streams")
	errStopping = errors.New("the server is stopping")
)

// add registers an open stream, unless its principal has max of them or the server is stopping.
func (h *hub) add(s *stream, max int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	who := s.caller.Principal
	switch {
	case h.closed:
		return errStopping
	case max >= 0 && h.byWho[who] >= max:
		return errStreams
	}
	h.byWho[who]++
	h.streams[s] = struct{}{}
	return nil
}

func (h *hub) drop(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
	if h.byWho[s.caller.Principal]--; h.byWho[s.caller.Principal] <= 0 {
		delete(h.byWho, s.caller.Principal)
	}
}

// end gives every stream that picks chooses a reason to end; nil closes it without one.
func (h *hub) end(picks func(*stream) *ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		if e := picks(s); e != nil {
			select {
			case s.end <- *e:
			default: // it is ending already
			}
		}
	}
}

// open lets streams begin again after close.
func (h *hub) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = false
}

// close ends all streams and lets no new one begin.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end(func(*stream) *ending { return &ending{} })
}

// spawn runs fn on a goroutine that wait waits for, unless the hub is closed.
func (h *hub) spawn(fn func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.detached.Go(fn)
	return true
}

// wait returns when every stream off the HTTP server has ended. Call it after close.
func (h *hub) wait() { h.detached.Wait() }
