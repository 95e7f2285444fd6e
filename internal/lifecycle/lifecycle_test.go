package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diary notes what happens, in order.
type diary struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// worker notes its start and stop, and takes a time for each.
type worker struct {
	name         string
	diary        *diary
	start, stop  time.Duration
	ready        chan struct{}
	failAfter    time.Duration // zero: never
	failOnStop   error
	returnsEarly bool
}

var errBroken = errors.New("broken")

func (w *worker) Ready() <-chan struct{} { return w.ready }

func (w *worker) Run(ctx context.Context) error {
	time.Sleep(w.start)
	w.diary.note("start " + w.name)
	close(w.ready)
	if w.returnsEarly {
		return nil
	}
	var fail <-chan time.Time
	if w.failAfter > 0 {
		fail = time.After(w.failAfter)
	}
	select {
	case <-fail:
		return errBroken
	case <-ctx.Done():
	}
	time.Sleep(w.stop)
	w.diary.note("stop " + w.name)
	return w.failOnStop
}

type setup struct {
	group  *Group
	diary  *diary
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newSetup(t *testing.T, workers ...*worker) *setup {
	t.Helper()
	s := &setup{group: &Group{Grace: 10 * time.Second}, diary: &diary{}}
	s.ctx, s.cancel = context.WithCancelCause(t.Context())
	for _, w := range workers {
		w.diary, w.ready = s.diary, make(chan struct{})
		s.group.Add(w.name, w)
	}
	s.group.OnReady = func() { s.diary.note("ready") }
	return s
}

var errSignal = errors.New("interrupt")

func TestStartsInOrderAndStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t,
			&worker{name: "store", start: 3 * time.Second},
			&worker{name: "idle", returnsEarly: true},
			&worker{name: "loops", start: time.Second, stop: 2 * time.Second},
			&worker{name: "http", stop: 3 * time.Second})
		time.AfterFunc(time.Minute, func() { s.cancel(errSignal) })
		begin := time.Now()
		if err := s.group.Run(s.ctx); err != nil {
			t.Errorf("Run = %v, want nil after a deliberate stop", err)
		}
		want := []string{"start store", "start idle", "start loops", "start http", "ready", "stop http", "stop loops", "stop store"}
		if diff := cmp.Diff(want, s.diary.read()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if took := time.Since(begin); took != time.Minute+5*time.Second {
			t.Errorf("took %v, want the minute and the two stops after each other", took)
		}
	})
}

func TestTheFirstFailureStopsAllAndIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newSetup(t,
			&worker{name: "store", failOnStop: errors.New("not closed")},
			&worker{name: "loops", failAfter: time.Hour},
			&worker{name: "http", failAfter: 2 * time.Hour})
		s.group.Log = slog.New(slog.NewTextHandler(&log, nil))
		err := s.group.Run(s.ctx)
		if !errors.Is(err, errBroken) || err.Error() != "loops: broken" {
			t.Errorf("Run = %v, want loops: broken", err)
		}
		if got := s.diary.read(); !slices.Contains(got, "stop http") || !slices.Contains(got, "stop store") {
			t.Errorf("diary = %q, want everybody stopped", got)
		}
		if !strings.Contains(log.String(), "not closed") || strings.Count(log.String(), "broken") != 1 {
			t.Errorf("log = %s, want the cause once and the later failure", &log)
		}
	})
}

func TestAServiceThatFailsAtTheStartKeepsTheOthersFromStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, &worker{name: "store"}, &worker{name: "http"})
		s.group.members[0].service = &stubborn{fail: errBroken}
		if err := s.group.Run(s.ctx); !errors.Is(err, errBroken) {
			t.Errorf("Run = %v", err)
		}
		if got := s.diary.read(); len(got) != 0 {
			t.Errorf("diary = %q, want nothing started", got)
		}
	})
}

func TestAStopDuringTheStartEndsWhatHadStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, &worker{name: "store"}, &worker{name: "slow", start: time.Minute}, &worker{name: "http"})
		time.AfterFunc(time.Second, func() { s.cancel(errSignal) })
		s.group.Grace = 2 * time.Minute
		if err := s.group.Run(s.ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
		want := []string{"start store", "start slow", "stop slow", "stop store"}
		if diff := cmp.Diff(want, s.diary.read()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// stubborn ignores its context until free is closed.
type stubborn struct {
	fail error
	free chan struct{}
}

func (s *stubborn) Ready() <-chan struct{} { return nil }

func (s *stubborn) Run(context.Context) error {
	if s.free != nil {
		<-s.free
	}
	return s.fail
}

func TestTheGracePeriodIsSharedAndThenCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		s := newSetup(t, &worker{name: "store"})
		s.group.Add("stuck", Func((&stubborn{free: free}).Run))
		time.AfterFunc(time.Second, func() { s.cancel(errSignal) })
		begin := time.Now()
		err := s.group.Run(s.ctx)
		if err == nil || !strings.Contains(err.Error(), "stuck: did not stop") {
			t.Errorf("Run = %v, want the stuck service named", err)
		}
		if took := time.Since(begin); took != time.Second+s.group.Grace+Abandon {
			t.Errorf("took %v, want the grace period and the last wait", took)
		}
		if got := s.diary.read(); !slices.Contains(got, "stop store") {
			t.Errorf("diary = %q, want the store closed all the same", got)
		}
	})
}

func TestDrainLastsAsLongAsTheGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		type key struct{}
		s.group.Add("drains", Func(func(ctx context.Context) error {
			<-ctx.Done()
			begin := time.Now()
			if !errors.Is(context.Cause(ctx), errSignal) {
				t.Errorf("cause = %v, want the signal inside", context.Cause(ctx))
			}
			drain, cancel := Drain(ctx)
			defer cancel()
			if drain.Value(key{}) != 7 {
				t.Error("the drain context lost the values")
			}
			<-drain.Done()
			if took := time.Since(begin); took != 10*time.Second {
				t.Errorf("the drain context lasted %v, want 10s", took)
			}
			return nil
		}))
		time.AfterFunc(time.Second, func() { s.cancel(errSignal) })
		if err := s.group.Run(context.WithValue(s.ctx, key{}, 7)); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestDrainOfAnotherCauseIsOverAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	drain, end := Drain(ctx)
	defer end()
	if drain.Err() == nil {
		t.Error("the drain context is alive")
	}
}

func TestRunTwiceIsRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := &Group{}
	if err := g.Run(ctx); err != nil {
		t.Errorf("first Run = %v", err)
	}
	if err := g.Run(ctx); err == nil {
		t.Error("second Run = nil")
	}
}

type closeCounter struct{ n int }

func (c *closeCounter) Close() error { c.n++; return nil }

func TestCloserClosesOnceAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &closeCounter{}
	done := make(chan error)
	go func() { done <- Closer(c).Run(ctx) }()
	cancel()
	if err := <-done; err != nil || c.n != 1 {
		t.Errorf("Run = %v, closed %d times", err, c.n)
	}
}
