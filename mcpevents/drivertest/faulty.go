package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/eventstest"
)

// Failure says how an Update of a Faulty store fails.
type Failure int

// The failures. The second is the one that matters: an answer that was lost.
const (
	NotPersisted Failure = iota + 1 // nothing was committed
	Persisted                       // it was committed, and the caller sees a failure
)

// String names the failure.
func (f Failure) String() string {
	return [...]string{"no failure", "failed and not persisted", "failed yet persisted"}[f]
}

// ErrInjected is what a failing Update of a Faulty store returns.
var ErrInjected = errors.New("drivertest: the store cannot be reached")

// Faulty is a store whose Updates fail on demand.
type Faulty struct {
	driver.Driver

	mu    sync.Mutex // guards what follows
	seen  int
	fails func(nth int) Failure
}

// NewFaulty wraps a store. Nothing fails until FailWhen.
func NewFaulty(d driver.Driver) *Faulty { return &Faulty{Driver: d} }

// FailWhen decides the fate of each Update from now by its number, from 1; nil fails none.
func (f *Faulty) FailWhen(fails func(nth int) Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen, f.fails = 0, fails
}

// FailNth makes the nth Update from now fail in that way.
func (f *Faulty) FailNth(nth int, how Failure) {
	f.FailWhen(func(n int) Failure {
		if n == nth {
			return how
		}
		return 0
	})
}

// Updates returns how many Updates began since the last order.
func (f *Faulty) Updates() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func (f *Faulty) next() Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	if f.fails == nil {
		return 0
	}
	return f.fails(f.seen)
}

// Update runs fn on the wrapped store, or fails as ordered. An error of fn's own comes first.
func (f *Faulty) Update(ctx context.Context, fn func(driver.Tx) error) error {
	how := f.next()
	err := f.Driver.Update(ctx, func(tx driver.Tx) error {
		if err := fn(tx); err != nil || how != NotPersisted {
			return err
		}
		return ErrInjected
	})
	if err == nil && how == Persisted {
		return ErrInjected
	}
	return err
}

// flowWrites bounds how many writes of a flow are failed, one run for each and for both failures.
const flowWrites = 25

// most is a bound for long and short runs: a life over a network takes half a second.
func most(n int) int {
	if testing.Short() {
		return min(n, 6)
	}
	return n
}

const flowEvents = 5

// pollEvery spares a database over a network the looks that find nothing: a life lasts a quarter of an hour.
const pollEvery = 20 * time.Second

// testFaults lets a server subscribe, emit, deliver, retry and end, once for each write and each failure.
func testFaults(t *testing.T, open Open) {
	for name, p := range map[string]mcpevents.Policy{"strict order": mcpevents.Relay(), "free order": mcpevents.SEP()} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			synctest.Test(t, func(t *testing.T) { writes = newFlow(t, open, p).live(0, 0) })
			for n := 1; n <= min(writes, most(flowWrites)); n++ {
				for _, how := range []Failure{NotPersisted, Persisted} {
					t.Run(fmt.Sprintf("write %d %s", n, how), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { newFlow(t, open, p).live(n, how) })
					})
				}
			}
		})
	}
}

// flow is one life of a server, whose caller repeats what failed.
type flow struct {
	*testing.T
	db       *Faulty
	srv      *mcpevents.Server
	receiver *eventstest.Receiver
	policy   mcpevents.Policy
}

const (
	flowSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	flowURL    = "https://agent.example.com/"
)

func newFlow(t *testing.T, open Open, p mcpevents.Policy) *flow {
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "e"})
	if err != nil {
		t.Fatal(err)
	}
	net := eventstest.NewNet()
	f := &flow{T: t, db: NewFaulty(open(t)), receiver: eventstest.NewReceiver(flowSecret), policy: p}
	net.Handle("agent.example.com", f.receiver)
	f.srv, err = mcpevents.New(f.db, []mcpevents.Family{{Name: "f", Policy: p, Catalog: catalog}},
		&mcpevents.Options{Egress: net, Engine: mcpevents.Engine{PollEvery: pollEvery}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// live returns how many writes the flow made.
func (f *flow) live(nth int, how Failure) int {
	f.db.FailNth(nth, how)
	ctx, stop := context.WithCancel(f.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- f.srv.Run(ctx) }()
	f.receiver.Script(eventstest.Statuses(500, 503, 200)...)
	id := f.subscribe()
	for i := range flowEvents {
		f.emit(fmt.Sprint("e", i))
	}
	time.Sleep(10 * time.Minute)
	f.emit("last")
	time.Sleep(5 * time.Minute)
	stop()
	if err := <-stopped; err != nil {
		f.Errorf("Run = %v", err)
	}
	f.check(id)
	return f.db.Updates()
}

func (f *flow) insist(what string, try func() error) {
	f.Helper()
	err := try()
	for range 5 {
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
		err = try()
	}
	f.Fatalf("%s: %v", what, err)
}

func (f *flow) subscribe() (id string) {
	params := fmt.Sprintf(`{"name":"e","delivery":{"url":%q,"secret":%q}}`, flowURL, flowSecret)
	f.insist("subscribe", func() error {
		_, err := f.srv.Call(f.Context(), mcpevents.Request{Method: mcpevents.MethodSubscribe, Params: []byte(params),
			Dialect: mcpevents.DialectSEP, Caller: mcpevents.Caller{Principal: "p"}})
		return err
	})
	subs, err := f.srv.Subscriptions(f.Context(), mcpevents.SubscriptionFilter{})
	if err != nil || len(subs) != 1 {
		f.Fatalf("subscriptions %v, %v; want one", subs, err)
	}
	return subs[0].ID
}

func (f *flow) emit(id string) {
	f.insist("emit", func() error {
		_, err := f.srv.Emit(f.Context(), mcpevents.Emission{ID: id, Name: "e", Data: struct{}{}})
		return err
	})
}

// check states what holds whatever failed: every event arrived, in order where that was promised, signed, and nothing
// but attempts was repeated.
func (f *flow) check(id string) {
	got := f.receiver.Events()
	if len(got) != flowEvents+1 {
		f.Errorf("%d different events arrived, want %d: %v", len(got), flowEvents+1, got)
	}
	log, err := f.srv.Deliveries(f.Context(), id, 0, 99)
	if err != nil || len(log) != flowEvents+1 {
		f.Fatalf("%d deliveries, %v; want %d", len(log), err, flowEvents+1)
	}
	for _, d := range log {
		if d.State != driver.Delivered {
			f.Errorf("delivery %d is %s (%s)", d.Sequence, d.State, d.Reason)
		}
	}
	newest := ""
	for _, d := range f.receiver.Deliveries() {
		if len(d.Secrets) != 1 {
			f.Errorf("event %s came unsigned", d.Event)
		}
		if f.policy.Order.Strict && d.Cursor < newest {
			f.Errorf("event %s at cursor %s came after cursor %s", d.Event, d.Cursor, newest)
		}
		newest = d.Cursor
	}
}
