package mcpevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/herald-relay/herald/mcpevents/internal/canonical"
)

// Filter decides whether an event concerns a subscription, from the subscription's arguments and the event's payload. It
// must be pure and quick: it runs for every subscription of the type inside the transaction that emits.
type Filter func(arguments, data map[string]any) bool

// Equal makes a filter: when the argument was given, the payload's member of that name must be the same JSON value.
func Equal(argument, member string) Filter {
	return func(arguments, data map[string]any) bool {
		want, given := arguments[argument]
		have, there := data[member]
		return !given || (there && bytes.Equal(canonical.Append(nil, want), canonical.Append(nil, have)))
	}
}

// All makes a filter of several that must all agree.
func All(filters ...Filter) Filter {
	return func(arguments, data map[string]any) bool {
		for _, f := range filters {
			if !f(arguments, data) {
				return false
			}
		}
		return true
	}
}

// EventType is a kind of event that a server offers. While its name lives it may only change additively: clients renew
// subscriptions with their old arguments and read payloads with their old expectations.
type EventType struct {
	// Name is what clients subscribe to: 1 to 128 characters.
	Name string
	// Description tells an agent when to subscribe and what to do on an event.
	Description string
	// Delivery are the modes offered. Empty is all three.
	Delivery []Mode
	// InputSchema is the JSON Schema (2020-12) of arguments. Empty takes no arguments.
	InputSchema json.RawMessage
	// PayloadSchema is the JSON Schema (2020-12) of data. Empty is any object.
	PayloadSchema json.RawMessage
	// Meta is the descriptor's _meta, an object; nil for none.
	Meta json.RawMessage
	// Filter chooses by arguments. Nil matches every event of the type.
	Filter Filter
	// SubjectArgument names an argument, a string, that restricts to events with that Subject. Stores can index it, so
	// it is cheaper than a Filter. Empty for none.
	SubjectArgument string
	// NoReplay says that past events cannot be read: cursors are null in every mode. Such a type cannot be polled.
	NoReplay bool

	input, payload *jsonschema.Resolved
	descriptor     descriptor
}

// descriptor is an event type as events/list shows it.
type descriptor struct {
	Name          string          `json:"name"`
	Description   string          `json:"description,omitempty"`
	Delivery      []Mode          `json:"delivery"`
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
	Meta          json.RawMessage `json:"_meta,omitempty"`
}

// Schemas of a type that gives none.
var (
	noArguments = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`)
	anyObject   = json.RawMessage(`{"type":"object"}`)
)

// Catalog is all event types of one family. It may be changed while the server runs.
type Catalog struct {
	mu    sync.RWMutex // guards types
	types map[string]*EventType
}

// NewCatalog checks the types and compiles their schemas. The error names every type that is wrong.
func NewCatalog(types ...EventType) (*Catalog, error) {
	m, err := compile(types)
	if err != nil {
		return nil, err
	}
	return &Catalog{types: m}, nil
}

func compile(types []EventType) (map[string]*EventType, error) {
	m := map[string]*EventType{}
	var problems []error
	for _, t := range types {
		if err := t.compile(); err != nil {
			problems = append(problems, fmt.Errorf("event type %q: %w", t.Name, err))
		}
		if m[t.Name] != nil {
			problems = append(problems, fmt.Errorf("event type %q: named twice", t.Name))
		}
		m[t.Name] = &t
	}
	return m, errors.Join(problems...)
}

func (t *EventType) compile() (err error) {
	if t.Name == "" || len(t.Name) > 128 {
		return errors.New("a name has 1 to 128 characters")
	}
	if len(t.Delivery) == 0 {
		t.Delivery = []Mode{Webhook, Poll, Push}
		if t.NoReplay {
			t.Delivery = []Mode{Webhook, Push}
		}
	}
	for _, m := range t.Delivery {
		if m != Poll && m != Push && m != Webhook {
			return fmt.Errorf("%q is no delivery mode", m)
		}
	}
	if t.NoReplay && slices.Contains(t.Delivery, Poll) {
		return errors.New("a type without replay cannot be polled")
	}
	t.descriptor = descriptor{t.Name, t.Description, t.Delivery, orSchema(t.InputSchema, noArguments),
		orSchema(t.PayloadSchema, anyObject), t.Meta}
	if t.input, err = resolve(t.descriptor.InputSchema); err != nil {
		return fmt.Errorf("inputSchema: %w", err)
	}
	if t.payload, err = resolve(t.descriptor.PayloadSchema); err != nil {
		return fmt.Errorf("payloadSchema: %w", err)
	}
	return nil
}

func orSchema(s, fallback json.RawMessage) json.RawMessage {
	if len(s) == 0 {
		return fallback
	}
	return s
}

// Lookup returns the type with that name, or nil.
func (c *Catalog) Lookup(name string) *EventType {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.types[name]
}

// Types returns all types, sorted by name: the order that events/list shows.
func (c *Catalog) Types() []*EventType {
	c.mu.RLock()
	defer c.mu.RUnlock()
	types := make([]*EventType, 0, len(c.types))
	for _, name := range slices.Sorted(maps.Keys(c.types)) {
		types = append(types, c.types[name])
	}
	return types
}

// Change is the difference between two states of a catalog.
type Change struct {
	// Listed says that events/list shows something else than before.
	Listed bool
	// Removed are names that are gone.
	Removed []string
	// Broken are names whose schemas changed in a way that is not additive, with the schema's name.
	Broken map[string]string
}

// Replace puts other types in place of all and returns what changed; Server.Announce tells clients. On an error the
// catalog stays as it was.
func (c *Catalog) Replace(types ...EventType) (Change, error) {
	next, err := compile(types)
	if err != nil {
		return Change{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	change := compare(c.types, next)
	c.types = next
	return change, nil
}

func compare(old, next map[string]*EventType) Change {
	change := Change{Listed: len(next) != len(old), Broken: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		was, is := old[name], next[name]
		if is == nil {
			change.Listed, change.Removed = true, append(change.Removed, name)
			continue
		}
		if !bytes.Equal(wireJSON(was.descriptor), wireJSON(is.descriptor)) {
			change.Listed = true
		}
		if len(Breaks(InputSchema, was.descriptor.InputSchema, is.descriptor.InputSchema)) > 0 {
			change.Broken[name] = string(InputSchema)
		} else if len(Breaks(PayloadSchema, was.descriptor.PayloadSchema, is.descriptor.PayloadSchema)) > 0 {
			change.Broken[name] = string(PayloadSchema)
		}
	}
	return change
}

// checkArguments parses arguments strictly and checks them against the type's input schema.
func (t *EventType) checkArguments(raw json.RawMessage) (map[string]any, error) {
	v, err := canonical.Parse(raw)
	if err != nil {
		return nil, err
	}
	arguments, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("not an object")
	}
	if err := t.input.Validate(v); err != nil {
		return nil, err
	}
	return arguments, nil
}

// Check reports whether data could be emitted as this type, which must come from a Catalog: nil, or a *PayloadError.
func (t *EventType) Check(data json.RawMessage) error {
	_, err := t.checkPayload(data)
	return err
}

// checkPayload parses a payload strictly and checks it against the type's payload schema.
func (t *EventType) checkPayload(raw []byte) (map[string]any, error) {
	v, err := canonical.Parse(raw)
	if err != nil {
		return nil, &PayloadError{Err: err}
	}
	data, ok := v.(map[string]any)
	if !ok {
		return nil, &PayloadError{Err: errors.New("not an object")}
	}
	if err := t.payload.Validate(v); err != nil {
		return nil, locate(err)
	}
	return data, nil
}

// wants reports whether an event concerns somebody with those arguments.
func (t *EventType) wants(arguments, data map[string]any, subject string) bool {
	if want := t.subjectOf(arguments); want != "" && want != subject {
		return false
	}
	return t.Filter == nil || t.Filter(arguments, data)
}

// subjectOf returns the one subject that arguments narrow to, "" for any.
func (t *EventType) subjectOf(arguments map[string]any) string {
	if t.SubjectArgument == "" {
		return ""
	}
	subject, _ := arguments[t.SubjectArgument].(string)
	return subject
}

func (t *EventType) offers(m Mode) bool { return slices.Contains(t.Delivery, m) }
