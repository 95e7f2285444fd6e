package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/webhook"
)

// ErrNoMode says that an event type offers no mode that this side can use.
var ErrNoMode = errors.New("subscriber: the event offers no delivery mode that can be used here")

// Options are what a Subscriber can do without.
type Options struct {
	// URL is the public https address at which the Subscriber is served. Empty: webhooks are not used.
	URL string
	// Modes are those that may be used, the preferred first. Empty is webhook, push, poll. Webhook needs URL, push a
	// Conn that streams.
	Modes []mcpevents.Mode
	// Gap is told that events were lost to a subscription; read the state of things by other means. Nil tells nobody.
	Gap func(key string)
	// Lost is told that a subscription broke, by what, and in how long it begins again; zero is never. Nil tells nobody.
	Lost func(key string, err error, again time.Duration)
	// Stopped is told that a subscription is over for good. Nil tells nobody.
	Stopped func(r Record)
	// Overlap is how long the secret before is accepted after Rotate. Zero is 25 h: servers sign with both for a day.
	Overlap time.Duration
	// PollFloor is the shortest wait between polls, whatever the server says. Zero is 1 s.
	PollFloor time.Duration
	// Silence is how long a stream may be silent before it counts as dead. Zero is 65 s: twice the longest interval
	// between heartbeats, and some.
	Silence time.Duration
	// Received says when a webhook arrived, for receivers behind a proxy that holds messages back. Nil is now.
	Received func(r ReceivedRequest) time.Time
	// Log gets one line per change of a subscription. Nil is silent.
	Log *slog.Logger
}

// Want is a subscription that the application wishes to have.
type Want struct {
	// Key is the application's name for it, unique in its Subscriber.
	Key string
	// Server is the way to the server.
	Server Conn
	// Name and Arguments are the event type's and what to narrow it to; nil is {}.
	Name      string
	Arguments json.RawMessage
	// Mode forces one mode; "" chooses.
	Mode mcpevents.Mode
	// Cursor is where to begin when nothing is stored; nil is now.
	Cursor *string
	// MaxAge is how old an event may be that is replayed; zero is any age that the server keeps.
	MaxAge time.Duration
}

// Subscriber keeps subscriptions alive. It is safe for concurrent use, and an http.Handler for webhooks: serve it before
// Run, because servers verify the address while they are being subscribed to.
type Subscriber struct {
	store  Store
	handle func(context.Context, Event) error
	opts   Options
	log    *slog.Logger

	mu      sync.Mutex // guards what follows
	entries map[string]*entry
	running context.Context // of Run; nil while it does not run
	loops   sync.WaitGroup
}

// entry is one subscription.
type entry struct {
	want Want
	// prod wakes its loop: the secret changed, or it was terminated.
	prod   chan struct{}
	cancel context.CancelFunc
	// asking is set while a subscribe call is made: its challenge may come for an id that is new.
	asking atomic.Bool

	one sync.Mutex // lets one event through at a time; taken before mu
	mu  sync.Mutex // guards rec and writing it to the store
	rec Record
}

// New makes a Subscriber that hands events to handle, and knows what its store remembers. handle must have an event durable
// when it returns nil; an error has the event come again.
func New(store Store, handle func(context.Context, Event) error, opts *Options) *Subscriber {
	s := &Subscriber{store: store, handle: handle, entries: map[string]*entry{}}
	if opts != nil {
		s.opts = *opts
	}
	if len(s.opts.Modes) == 0 {
		s.opts.Modes = []mcpevents.Mode{mcpevents.Webhook, mcpevents.Push, mcpevents.Poll}
	}
	fill(&s.opts.Overlap, 25*time.Hour)
	fill(&s.opts.PollFloor, time.Second)
	fill(&s.opts.Silence, 65*time.Second)
	if s.log = s.opts.Log; s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

func fill(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Add takes up a subscription, going on from what the store knows under its key, and stores it. It returns before anything
// is sent: Run does the rest.
func (s *Subscriber) Add(ctx context.Context, w Want) error {
	if w.Key == "" || w.Name == "" || w.Server == nil {
		return errors.New("subscriber: a Want needs Key, Name and Server")
	}
	if len(w.Arguments) == 0 {
		w.Arguments = json.RawMessage(`{}`)
	}
	rec, err := s.recordFor(ctx, w)
	if err != nil {
		return err
	}
	if err := s.store.Put(ctx, rec); err != nil {
		return fmt.Errorf("subscriber: store %s: %w", w.Key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[w.Key] != nil {
		return fmt.Errorf("subscriber: %s is there already", w.Key)
	}
	e := &entry{want: w, prod: make(chan struct{}, 1), rec: rec}
	s.entries[w.Key] = e
	if s.running != nil {
		s.startLocked(e)
	}
	return nil
}

// recordFor finds what is stored of a wish, or begins anew when it is another wish than before.
func (s *Subscriber) recordFor(ctx context.Context, w Want) (Record, error) {
	all, err := s.store.Records(ctx)
	if err != nil {
		return Record{}, fmt.Errorf("subscriber: read records: %w", err)
	}
	i := slices.IndexFunc(all, func(r Record) bool { return r.Key == w.Key })
	if i >= 0 && all[i].Name == w.Name && string(all[i].Arguments) == string(w.Arguments) {
		rec := all[i]
		rec.State, rec.Reason = Pending, ""
		return rec, nil
	}
	return Record{Key: w.Key, Name: w.Name, Arguments: w.Arguments, State: Pending, Cursor: w.Cursor,
		Secrets: []Secret{{Text: webhook.NewSecret().Reveal()}}}, nil
}

// Run keeps the subscriptions alive until ctx ends. It does not unsubscribe: webhooks wait at the server for the next run.
func (s *Subscriber) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.running != nil {
		s.mu.Unlock()
		return errors.New("subscriber: it runs already")
	}
	s.running = ctx
	for _, e := range s.entries {
		s.startLocked(e)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.loops.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = nil
	return nil
}

func (s *Subscriber) startLocked(e *entry) {
	ctx, cancel := context.WithCancel(s.running)
	e.cancel = cancel
	s.loops.Go(func() {
		defer cancel()
		s.keep(ctx, e)
	})
}

// Remove ends a subscription: at the server too when it is a webhook, which may fail; then it stays stored, its loop goes
// on, and the error says why.
func (s *Subscriber) Remove(ctx context.Context, key string) error {
	s.mu.Lock()
	e := s.entries[key]
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	rec := e.record()
	if rec.Mode == mcpevents.Webhook && rec.ID != "" && rec.State != Stopped {
		err := s.unsubscribe(ctx, e)
		var refusal *mcpevents.Error
		if err != nil && !(errors.As(err, &refusal) && refusal.Meaning == mcpevents.NotFound) {
			return fmt.Errorf("subscriber: unsubscribe %s: %w", key, err)
		}
	}
	s.mu.Lock()
	delete(s.entries, key)
	if e.cancel != nil {
		e.cancel()
	}
	s.mu.Unlock()
	return s.store.Remove(ctx, key)
}

// Rotate gives a subscription a new secret. The server gets it by a refresh at once; the old one is accepted meanwhile.
func (s *Subscriber) Rotate(ctx context.Context, key string) error {
	s.mu.Lock()
	e := s.entries[key]
	s.mu.Unlock()
	if e == nil {
		return fmt.Errorf("subscriber: there is no %s", key)
	}
	now := time.Now()
	err := s.change(ctx, e, func(r *Record) {
		r.Secrets = slices.DeleteFunc(slices.Clone(r.Secrets), func(x Secret) bool { return !x.Until.IsZero() && !x.Until.After(now) })
		r.Secrets[0].Until = now.Add(s.opts.Overlap)
		r.Secrets = append([]Secret{{Text: webhook.NewSecret().Reveal()}}, r.Secrets...)
	})
	e.wake()
	return err
}

// Records returns how all subscriptions stand, sorted by key.
func (s *Subscriber) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Record
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		all = append(all, s.entries[key].record())
	}
	return all
}

func (e *entry) record() Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec
}

func (e *entry) wake() {
	select {
	case e.prod <- struct{}{}:
	default: // it is awake
	}
}

// change changes a record, first in the store.
func (s *Subscriber) change(ctx context.Context, e *entry, fn func(*Record)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := e.rec
	fn(&next)
	if err := s.store.Put(ctx, next); err != nil {
		return fmt.Errorf("subscriber: store %s: %w", e.rec.Key, err)
	}
	e.rec = next
	return nil
}

// accept hands an event to the application, unless it was before, and notes it with the position after it.
func (s *Subscriber) accept(ctx context.Context, e *entry, event Event, cursor *string) error {
	e.one.Lock()
	defer e.one.Unlock()
	event.Key = e.want.Key
	seen, err := s.store.Seen(ctx, event.Key, event.ID)
	if err != nil {
		return fmt.Errorf("subscriber: look for event: %w", err)
	}
	if !seen {
		if err := s.handle(ctx, event); err != nil {
			return fmt.Errorf("subscriber: handle event: %w", err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := s.store.Received(ctx, event.Key, event.ID, cursor); err != nil {
		return fmt.Errorf("subscriber: note event: %w", err)
	}
	if cursor != nil {
		e.rec.Cursor = cursor
	}
	return nil
}

// moved stores a position; nil moves nothing (contract b.1: on null the client persists nothing).
func (s *Subscriber) moved(ctx context.Context, e *entry, cursor *string) error {
	if cursor == nil {
		return nil
	}
	return s.change(ctx, e, func(r *Record) { r.Cursor = cursor })
}

func (s *Subscriber) gap(key string) {
	s.log.Warn("events were lost", "subscription", key)
	if s.opts.Gap != nil {
		s.opts.Gap(key)
	}
}

func (s *Subscriber) stop(ctx context.Context, e *entry, reason string) {
	err := s.change(ctx, e, func(r *Record) { r.State, r.Reason = Stopped, reason })
	s.log.Warn("subscription stopped", "subscription", e.want.Key, "event_type", e.want.Name, "reason", reason, "err", err)
	if s.opts.Stopped != nil {
		s.opts.Stopped(e.record())
	}
}
