package mcpevents

import (
	"bytes"
	"encoding/json"
	"math"
	"time"
)

// members are the members of an object of parameters, each still raw. Names are exact, and a repeated one is refused:
// the standard decoder would take the last, and match names whatever their case.
type members map[string]json.RawMessage

func readMembers(raw json.RawMessage, what string) (members, error) {
	m := members{}
	if len(raw) == 0 {
		return m, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, invalid("%s: not an object", what)
	}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || dec.Decode(&value) != nil {
			return nil, invalid("%s: not valid JSON", what)
		}
		if _, repeated := m[name]; repeated {
			return nil, invalid("%s: %q is repeated", what, shown(name))
		}
		m[name] = value
	}
	return m, nil
}

func (m members) has(name string) bool { return len(m[name]) > 0 && string(m[name]) != "null" }

// text returns a member that must be a non-empty string.
func (m members) text(name string) (string, error) {
	var s string
	if !m.has(name) || json.Unmarshal(m[name], &s) != nil || s == "" {
		return "", invalid("%s: a non-empty string is required", name)
	}
	return s, nil
}

// object returns a raw member, {} when it is absent or null.
func (m members) object(name string) json.RawMessage {
	if !m.has(name) {
		return json.RawMessage(`{}`)
	}
	return m[name]
}

// cursor returns the member "cursor"; absent is the same as null. Under lenient, what is no string is the same too.
func (m members) cursor(lenient bool) (Cursor, error) {
	if !m.has("cursor") {
		return Cursor{}, nil
	}
	var s string
	if json.Unmarshal(m["cursor"], &s) != nil || len(s) > 256 {
		if lenient {
			return Cursor{}, nil
		}
		return Cursor{}, invalid("cursor: a string of at most 256 characters, or null")
	}
	return Cursor{Text: s, Set: true}, nil
}

// number returns a member that must be a whole number, not negative. ok is false when it is absent or null.
func (m members) number(name string) (n int64, ok bool, err error) {
	if !m.has(name) {
		return 0, false, nil
	}
	var f float64
	if json.Unmarshal(m[name], &f) != nil || f < 0 || f != math.Trunc(f) {
		return 0, false, invalid("%s: a whole number, not negative", name)
	}
	return int64(min(f, 1e15)), true, nil
}

// span returns a member in milliseconds.
func (m members) span(name string) (d time.Duration, ok bool, err error) {
	n, ok, err := m.number(name)
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond, ok, err
}
