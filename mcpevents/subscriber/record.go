package subscriber

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/webhook"
)

// Event is one occurrence as the application gets it.
type Event struct {
	// Key names the subscription, as the application did.
	Key string
	// ID identifies the event within it.
	ID   string
	Name string
	Time time.Time
	Data json.RawMessage
	Meta json.RawMessage
	// Mode is how it came.
	Mode mcpevents.Mode
}

// State is how a subscription stands.
type State string

// The states.
const (
	Pending State = "pending" // not subscribed yet, or not again yet
	Active  State = "active"
	Stopped State = "stopped" // over: the server refuses it for good
)

// Secret is a signing secret and when it stops being accepted; zero for the current one.
type Secret struct {
	Text  string
	Until time.Time
}

// Record is what is kept of a subscription. It holds secrets: keep it accordingly.
type Record struct {
	// Key is the application's name for it.
	Key       string
	Name      string
	Arguments json.RawMessage
	// Mode is the one in use; "" before the first.
	Mode  mcpevents.Mode
	State State
	// ID is the server's; "" until it is known.
	ID string
	// Secrets are newest first; the first signs new subscriptions.
	Secrets []Secret
	// Cursor is the last position; nil for none.
	Cursor *string
	// RefreshBefore is the end of the grant; zero for none.
	RefreshBefore time.Time
	// Reason says why it is stopped or pending, for people.
	Reason string
}

// secrets returns those that a message at now may be signed with.
func (r *Record) secrets(now time.Time) []webhook.Secret {
	var all []webhook.Secret
	for _, s := range r.Secrets {
		if !s.Until.IsZero() && !s.Until.After(now) {
			continue
		}
		if parsed, err := webhook.ParseSecret(s.Text); err == nil {
			all = append(all, parsed)
		}
	}
	return all
}

// Store keeps records and what was received. Its methods may be called concurrently; what they wrote must survive a crash
// when they return.
type Store interface {
	// Records returns all records.
	Records(ctx context.Context) ([]Record, error)
	// Put stores a record, new or known by Key.
	Put(ctx context.Context, r Record) error
	// Remove forgets a record and what was received for it. Absent is no error.
	Remove(ctx context.Context, key string) error
	// Seen reports whether Received was called for that subscription and event.
	Seen(ctx context.Context, key, event string) (bool, error)
	// Received notes that an event was handled, and the position after it unless cursor is nil, in one step. It must
	// remember for at least as long as a server may repeat: a few days.
	Received(ctx context.Context, key, event string, cursor *string) error
}

// Memory is a Store that forgets with the process: for tests and for agents that start anew each time. It remembers the
// last 10,000 events of each subscription. The zero Memory is ready.
type Memory struct {
	mu      sync.Mutex // guards what follows
	records map[string]Record
	seen    map[string]map[string]bool
	order   map[string][]string
}

const memorySeen = 10_000

// Records returns all records.
func (m *Memory) Records(context.Context) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Record
	for _, r := range m.records {
		all = append(all, r)
	}
	return all, nil
}

// Put stores a record.
func (m *Memory) Put(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records, m.seen, m.order = map[string]Record{}, map[string]map[string]bool{}, map[string][]string{}
	}
	m.records[r.Key] = r
	return nil
}

// Remove forgets a record.
func (m *Memory) Remove(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, key)
	delete(m.seen, key)
	delete(m.order, key)
	return nil
}

// Seen reports whether an event was received.
func (m *Memory) Seen(_ context.Context, key, event string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[key][event], nil
}

// Received notes an event and a position.
func (m *Memory) Received(_ context.Context, key, event string, cursor *string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.records[key]
	if !known {
		return nil
	}
	if cursor != nil {
		r.Cursor = cursor
		m.records[key] = r
	}
	if m.seen[key] == nil {
		m.seen[key] = map[string]bool{}
	}
	m.seen[key][event] = true
	m.order[key] = append(m.order[key], event)
	if n := len(m.order[key]) - memorySeen; n > 0 {
		delete(m.seen[key], m.order[key][0])
		m.order[key] = m.order[key][1:]
	}
	return nil
}
