package conform

import (
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

const maxPages = 50 // of events/list

// eventType is a descriptor of events/list.
type eventType struct {
	Name     string
	Delivery []string
	raw      object
	broken   bool // not a descriptor at all
}

// catalog is what events/list shows.
type catalog struct {
	first *answer
	pages []*answer
	types []eventType
	// loop says that a page cursor came twice, or that the pages did not end.
	loop *answer
}

// list gets all pages of events/list.
func (r *run) list() (*catalog, error) {
	return once(r, "list", func() (*catalog, error) {
		c := &catalog{}
		p := params{}
		var seen []string
		for {
			a, err := r.call("events/list", p)
			if err != nil {
				return nil, err
			}
			if c.first == nil {
				c.first = a
			}
			var events []json.RawMessage
			if err := a.wantResult(); err != nil || json.Unmarshal(a.result["events"], &events) != nil || events == nil {
				return nil, &refused{"events/list did not answer with events", a.but("a result with the array events")}
			}
			c.pages = append(c.pages, a)
			for _, raw := range events {
				c.types = append(c.types, readType(raw))
			}
			next := text(a.result["nextCursor"])
			if next == "" {
				return c, nil
			}
			if slices.Contains(seen, next) || len(c.pages) == maxPages {
				c.loop = a
				return c, nil
			}
			seen, p = append(seen, next), params{"cursor": next}
		}
	})
}

func readType(raw json.RawMessage) eventType {
	var e eventType
	if json.Unmarshal(raw, &e.raw) != nil || e.raw == nil {
		return eventType{broken: true}
	}
	e.Name = text(e.raw["name"])
	_ = json.Unmarshal(e.raw["delivery"], &e.Delivery) // what is no list of words has no modes
	return e
}

func (e *eventType) offers(mode string) bool { return slices.Contains(e.Delivery, mode) }

// target is the event type to use: the one that was named, else one of those with the most modes that takes the arguments.
func (r *run) target() (*eventType, error) {
	return once(r, "target", func() (*eventType, error) {
		c, err := r.list()
		if err != nil {
			return nil, lean(err)
		}
		var best *eventType
		for i := range c.types {
			e := &c.types[i]
			switch {
			case r.o.Event != "" && e.Name == r.o.Event:
				return e, nil
			case r.o.Event == "" && r.takes(e) && (best == nil || len(e.Delivery) > len(best.Delivery)):
				best = e
			}
		}
		switch {
		case r.o.Event != "":
			return nil, cannot("events/list does not show an event type %q", r.o.Event)
		case best == nil:
			return nil, cannot("no event type takes the arguments %s; name one with its arguments", quote(string(r.o.Arguments)))
		}
		return best, nil
	})
}

func (r *run) takes(e *eventType) bool {
	s := schema(e.raw["inputSchema"])
	return e.Name != "" && (s == nil || valid(s, r.o.Arguments))
}

// offering is the target, if it offers a mode.
func (r *run) offering(mode string) (*eventType, error) {
	e, err := r.target()
	if err != nil {
		return nil, err
	}
	if !e.offers(mode) {
		return nil, cannot("event type %s does not offer %s in this dialect", quote(e.Name), mode)
	}
	return e, nil
}

// schema compiles a schema; nil when it is none.
func schema(raw json.RawMessage) *jsonschema.Resolved {
	var s jsonschema.Schema
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil
	}
	return resolved
}

func valid(s *jsonschema.Resolved, raw json.RawMessage) bool {
	var v any
	return json.Unmarshal(raw, &v) == nil && s.Validate(v) == nil
}

// misfit returns arguments that an input schema refuses; nil when it refuses nothing that can be made up here.
func misfit(raw json.RawMessage) map[string]any {
	s := schema(raw)
	if s == nil {
		return nil
	}
	var parts struct{ Properties map[string]json.RawMessage }
	_ = json.Unmarshal(raw, &parts) // true and false are schemas too
	candidates := []map[string]any{{"herald_check_unknown": true}}
	for name := range parts.Properties {
		for _, value := range []any{map[string]any{"x": 1}, 1.5, "herald_check", []any{}} {
			candidates = append(candidates, map[string]any{name: value})
		}
	}
	for _, c := range candidates {
		if !valid(s, encode(c)) {
			return c
		}
	}
	return nil
}
