package postgres

import (
	"context"
	"runtime"
	"time"
)

// firstLeaders is how many leaders of a line serve it as a rule. Large groups are cheap groups, so the others only help
// when callers have lost patience: when the first are held up by a slow statement or by another process's lock.
const firstLeaders = 2

// line is where callers wait for a leader. Both channels are without room: who waits can still go away.
type line struct {
	kind
	first chan *step // to the first leaders
	help  chan *step // to the others
}

func newLine(k kind) *line { return &line{kind: k, first: make(chan *step), help: make(chan *step)} }

// join hands a step to a leader, or gives up when ctx ends or after waitWithin.
func (l *line) join(ctx context.Context, st *step) error {
	select {
	case l.first <- st:
		return nil
	default:
	}
	patience := time.NewTimer(l.patience)
	defer patience.Stop()
	select {
	case l.first <- st:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience.C:
	}
	patience.Reset(waitWithin)
	select {
	case l.first <- st:
		return nil
	case l.help <- st:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience.C:
		return unavailable(errQueue)
	}
}

// gather takes everybody who waits, up to the limit of a group, and those who are about to: the members of a group that
// has just ended come back all at once.
func (l *line) gather(first *step) []*step {
	steps := []*step{first}
	runtime.Gosched()
	for len(steps) < l.limit {
		select {
		case st := <-l.first:
			steps = append(steps, st)
		case st := <-l.help:
			steps = append(steps, st)
		default:
			return steps
		}
	}
	return steps
}

// serve leads one group of the line after the other, until the store closes.
func (s *Store) serve(l *line, helper bool) {
	first := l.first
	if helper {
		first = nil // blocks for ever
	}
	for {
		select {
		case st := <-first:
			s.lead(l.gather(st), l.kind)
		case st := <-l.help:
			s.lead(l.gather(st), l.kind)
		case <-s.stop:
			return
		}
	}
}
