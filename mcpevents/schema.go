package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/herald-relay/herald/mcpevents/internal/canonical"
)

// resolve compiles a schema. It must stand alone, and must not lead back to itself without going into the value: a
// validator that follows such a reference never ends.
func resolve(schema json.RawMessage) (*jsonschema.Resolved, error) {
	root, err := canonical.Parse(schema)
	if err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	w := walk{root: root, anchors: map[string][]string{}, state: map[string]visit{}}
	if err := w.collect("", root, true); err != nil {
		return nil, err
	}
	for at := range w.state {
		if err := w.follow(at); err != nil {
			return nil, err
		}
	}
	return resolved, nil
}

// PayloadError says why data is no payload of an event type. Its text may quote the data.
type PayloadError struct {
	// Pointer names the value that does not fit, as precisely as is known: a JSON pointer (RFC 6901), "" for the whole.
	Pointer string
	Err     error
}

func (e *PayloadError) Error() string {
	if e.Pointer == "" {
		return e.Err.Error()
	}
	return e.Pointer + ": " + e.Err.Error()
}

func (e *PayloadError) Unwrap() error { return e.Err }

// locate turns the validator's account, in which every step names a place of the schema, into a place of the value. Behind
// a step that may stand for several values, such as items, it goes no further.
func locate(err error) *PayloadError {
	text, pointer, place := err.Error(), "", ""
	known := true
	for {
		rest, is := strings.CutPrefix(text, "validating ")
		step, tail, found := strings.Cut(rest, ": ")
		if !is || !found || (step != "root" && !strings.HasPrefix(step, "/")) {
			break
		}
		name, is := strings.CutPrefix(step, place+"/properties/")
		if step != "root" {
			known = known && is && !strings.Contains(name, "/")
			if known {
				pointer += "/" + name
			}
			place = step
		}
		text = tail
	}
	return &PayloadError{Pointer: pointer, Err: errors.New(text)}
}

// walk looks for references that lead back to where they stand. Places are JSON pointers into the root.
type walk struct {
	root    any
	anchors map[string][]string // places by $anchor and $dynamicAnchor
	state   map[string]visit    // of every place that holds an object
}

type visit uint8

const (
	unseen visit = iota
	open         // on the way that is followed at present
	done
)

// collect notes every object below at. Some are no schemas, such as the value of properties: nothing refers to those.
func (w *walk) collect(at string, v any, top bool) error {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if err := w.collect(at+"/"+strconv.Itoa(i), e, false); err != nil {
				return err
			}
		}
	case map[string]any:
		if _, is := v["$id"].(string); is && !top {
			return fmt.Errorf("%s: $id stands at the root only", at)
		}
		w.state[at] = unseen
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if name, is := v[key].(string); is {
				w.anchors[name] = append(w.anchors[name], at)
			}
		}
		for name, e := range v {
			if err := w.collect(at+"/"+escapePointer(name), e, false); err != nil {
				return err
			}
		}
	}
	return nil
}

var errEndless = errors.New("refers to itself without going into the value")

// follow goes from a place to all that judge the same value.
func (w *walk) follow(at string) error {
	switch w.state[at] {
	case open:
		return fmt.Errorf("%s: the schema %w", orRoot(at), errEndless)
	case done:
		return nil
	}
	s, is := lookup(w.root, at).(map[string]any)
	if !is {
		return nil
	}
	w.state[at] = open
	for _, next := range w.same(at, s) {
		if err := w.follow(next); err != nil {
			return err
		}
	}
	w.state[at] = done
	return nil
}

// same lists the places whose schemas judge the very value that the one at at judges.
func (w *walk) same(at string, s map[string]any) (places []string) {
	for _, key := range []string{"$ref", "$dynamicRef"} {
		if ref, is := s[key].(string); is {
			_, fragment, _ := strings.Cut(ref, "#")
			if plain, err := url.PathUnescape(fragment); err == nil {
				fragment = plain
			}
			if fragment == "" || fragment[0] == '/' {
				places = append(places, fragment)
			} else {
				places = append(places, w.anchors[fragment]...)
			}
		}
	}
	for _, key := range []string{"not", "if", "then", "else"} {
		if _, is := s[key].(map[string]any); is {
			places = append(places, at+"/"+key)
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		for i := range list {
			places = append(places, at+"/"+key+"/"+strconv.Itoa(i))
		}
	}
	dependent, _ := s["dependentSchemas"].(map[string]any)
	for name := range dependent {
		places = append(places, at+"/dependentSchemas/"+escapePointer(name))
	}
	return places
}

// lookup finds what a JSON pointer names (RFC 6901), nil when there is nothing.
func lookup(v any, pointer string) any {
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			return v
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

func escapePointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func orRoot(pointer string) string {
	if pointer == "" {
		return "/"
	}
	return pointer
}
