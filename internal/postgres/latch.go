package postgres

import (
	"context"
	"sync"
	"time"
)

// latches are locks by name within this process, given in the order of asking. The zero value is ready.
type latches struct {
	mu   sync.Mutex // guards byName and every count; never held while waiting
	name map[string]*latch
}

type latch struct {
	held  chan struct{} // full while somebody holds it
	users int           // holder and those who wait
}

func (l *latches) get(name string) *latch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.name == nil {
		l.name = map[string]*latch{}
	}
	t := l.name[name]
	if t == nil {
		t = &latch{held: make(chan struct{}, 1)}
		l.name[name] = t
	}
	t.users++
	return t
}

func (l *latches) drop(name string, t *latch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(l.name, name)
	}
}

// lock waits for the name, but no longer than waitWithin or until ctx ends.
func (l *latches) lock(ctx context.Context, name string) error {
	t := l.get(name)
	select {
	case t.held <- struct{}{}:
		return nil
	default:
	}
	patience := time.NewTimer(waitWithin)
	defer patience.Stop()
	select {
	case t.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.drop(name, t)
		return context.Cause(ctx)
	case <-patience.C:
		l.drop(name, t)
		return unavailable(errQueue)
	}
}

// tryLock takes the name only when nobody holds it.
func (l *latches) tryLock(name string) bool {
	t := l.get(name)
	select {
	case t.held <- struct{}{}:
		return true
	default:
		l.drop(name, t)
		return false
	}
}

// unlock gives the name up. The caller must hold it.
func (l *latches) unlock(name string) {
	l.mu.Lock()
	t := l.name[name]
	l.mu.Unlock()
	<-t.held
	l.drop(name, t)
}
