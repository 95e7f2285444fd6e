// Package lifecycle runs the services of a process: it starts them in order, stops them in reverse, and tells why.
//
// A service is a Run(ctx) that works until ctx ends, then finishes what it must and returns nil. When the context
// given to Group.Run ends, or when a service fails, the services are stopped one after the other, the last started first:
// the context of one ends, its Run is waited for, then it is the next one's turn. All of them share one grace period.
// When that is over, the remaining contexts end together, and a service that still does not return within Abandon is named in
// the error and left behind, so that a stuck one cannot keep the process from ending.
//
// The first failure is the one cause: it ends the others' contexts and is what Group.Run returns.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Abandon is how long after the grace period services may still take to return.
const Abandon = 2 * time.Second

// Service works until ctx ends and returns nil then. Returning nil earlier means that it has nothing left to do.
type Service interface {
	Run(ctx context.Context) error
}

// Readier is a Service that takes a while to be of use. The services after it start once Ready is closed.
type Readier interface {
	Service
	Ready() <-chan struct{}
}

// Func makes a Service of a function.
type Func func(ctx context.Context) error

// Run calls f.
func (f Func) Run(ctx context.Context) error { return f(ctx) }

// Closer makes a Service of something that only has to be closed at the end.
func Closer(c io.Closer) Service {
	return Func(func(ctx context.Context) error {
		<-ctx.Done()
		return c.Close()
	})
}

// Stop is the cause with which the context of a service ends.
type Stop struct {
	Why   error     // the cause of it all: a signal, a failed service
	Until time.Time // when the grace period ends
}

// Error tells the cause.
func (s *Stop) Error() string { return "stopping: " + s.Why.Error() }

// Unwrap returns the cause.
func (s *Stop) Unwrap() error { return s.Why }

// Drain returns a context for what a service must still finish after its own ended. It keeps the values of ctx and ends with the
// grace period; at once when ctx did not end by a Stop.
func Drain(ctx context.Context) (context.Context, context.CancelFunc) {
	var until time.Time
	if stop, ok := errors.AsType[*Stop](context.Cause(ctx)); ok {
		until = stop.Until
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

// Group is the services of one process. Fill it, then call Run once.
type Group struct {
	Grace time.Duration
	Log   *slog.Logger // nil is silent
	// OnReady is called once every service has started; it must not block. It may be nil.
	OnReady func()

	members []*member
	ran     bool
}

type member struct {
	name    string
	service Service
	end     context.CancelCauseFunc
	done    chan struct{} // closed after err was set
	err     error
}

// Add puts a service behind those that were added before. The name appears in logs and errors.
func (g *Group) Add(name string, s Service) {
	g.members = append(g.members, &member{name: name, service: s, done: make(chan struct{})})
}

// Run starts the services and returns once all have returned, or were abandoned. It returns nil when ctx ended and every
// service stopped cleanly, else what failed first.
func (g *Group) Run(ctx context.Context) error {
	if g.ran {
		return errors.New("lifecycle: Run was called before")
	}
	g.ran = true
	if g.Log == nil {
		g.Log = slog.New(slog.DiscardHandler)
	}
	failed := make(chan *member, len(g.members)) // one slot each: a failing service never waits to say so
	started, culprit := g.start(ctx, failed)
	if culprit == nil && ctx.Err() == nil {
		if g.OnReady != nil {
			g.OnReady()
		}
		culprit = wait(ctx, failed)
	}
	why := context.Cause(ctx)
	if culprit != nil {
		why = culprit.failure()
	}
	g.Log.Info("stopping", "cause", why, "grace", g.Grace)
	g.stop(g.members[:started], why)
	return g.verdict(g.members[:started], culprit)
}

// start starts members in order, until one fails or ctx ends.
func (g *Group) start(ctx context.Context, failed chan *member) (started int, culprit *member) {
	base := context.WithoutCancel(ctx) // each member ends in its turn, not all at once with ctx
	for i, m := range g.members {
		if ctx.Err() != nil {
			return i, nil
		}
		run, end := context.WithCancelCause(base)
		m.end = end
		go m.run(run, failed)
		if r, ok := m.service.(Readier); ok {
			select {
			case <-r.Ready():
			case <-m.done:
			case <-ctx.Done():
			}
		}
		select {
		case f := <-failed:
			return i + 1, f
		default:
		}
	}
	return len(g.members), nil
}

func (m *member) run(ctx context.Context, failed chan *member) {
	defer close(m.done)
	if m.err = m.service.Run(ctx); m.err != nil {
		failed <- m
	}
}

func (m *member) failure() error { return fmt.Errorf("%s: %w", m.name, m.err) }

func wait(ctx context.Context, failed chan *member) (culprit *member) {
	select {
	case <-ctx.Done():
		return nil
	case m := <-failed:
		return m
	}
}

func (g *Group) stop(members []*member, why error) {
	cause := &Stop{Why: why, Until: time.Now().Add(g.Grace)}
	grace := time.NewTimer(g.Grace)
	defer grace.Stop()
	for i := len(members) - 1; i >= 0; i-- {
		members[i].end(cause)
		select {
		case <-members[i].done:
		case <-grace.C:
			cutOff(members[:i+1], cause)
			return
		}
	}
}

// cutOff ends everybody who is left and waits a last, short time.
func cutOff(members []*member, cause *Stop) {
	for _, m := range members {
		m.end(cause)
	}
	last := time.NewTimer(Abandon)
	defer last.Stop()
	for _, m := range members {
		select {
		case <-m.done:
		case <-last.C:
			return
		}
	}
}

// verdict picks the one error to return and logs the others.
func (g *Group) verdict(members []*member, culprit *member) (first error) {
	if culprit != nil {
		first = culprit.failure()
	}
	for _, m := range members {
		if err := m.outcome(); err == nil || m == culprit {
			continue
		} else if first == nil {
			first = err
		} else {
			g.Log.Error("service did not stop cleanly", "service", m.name, "err", err)
		}
	}
	return first
}

// outcome is what became of the service: nil, its failure, or that it is still running.
func (m *member) outcome() error {
	select {
	case <-m.done:
		if m.err != nil {
			return m.failure()
		}
		return nil
	default:
		return fmt.Errorf("%s: did not stop within its grace period", m.name)
	}
}
