package mcpevents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/herald-relay/herald/mcpevents/internal/canonical"
)

// SchemaKind says what a schema describes, and so which changes of it are additive.
type SchemaKind string

// The kinds, named as on the wire.
const (
	// InputSchema describes arguments: those accepted before must stay accepted.
	InputSchema SchemaKind = "inputSchema"
	// PayloadSchema describes data: what readers relied on must stay true.
	PayloadSchema SchemaKind = "payloadSchema"
)

// Breaks lists why next is not an additive change of old, as sentences with a JSON pointer; nil when it is one. It
// understands type, properties, required, enum, const, additionalProperties and items, and compares every other keyword
// for equality: a change that it does not understand counts as a break, except in title, description, $comment, default
// and examples.
func Breaks(kind SchemaKind, old, next json.RawMessage) []string {
	was, err := canonical.Parse(old)
	if err != nil {
		return []string{"the old schema is not JSON"}
	}
	is, err := canonical.Parse(next)
	if err != nil {
		return []string{"the new schema is not JSON"}
	}
	e := evolution{kind: kind}
	e.schema("", was, is)
	return e.breaks
}

type evolution struct {
	kind   SchemaKind
	breaks []string
}

func (e *evolution) found(at, format string, args ...any) {
	if at == "" {
		at = "/"
	}
	e.breaks = append(e.breaks, at+": "+fmt.Sprintf(format, args...))
}

// prose are keywords that change no meaning.
var prose = map[string]bool{"title": true, "description": true, "$comment": true, "default": true, "examples": true,
	"deprecated": true, "$schema": true}

func (e *evolution) schema(at string, old, next any) {
	was, ok1 := old.(map[string]any)
	is, ok2 := next.(map[string]any)
	if !ok1 || !ok2 {
		if !same(old, next) {
			e.found(at, "the schema changed")
		}
		return
	}
	e.properties(at, was, is)
	e.required(at, names(was["required"]), names(is["required"]))
	e.values(at, was, is)
	if was["items"] != nil && is["items"] != nil {
		e.schema(at+"/items", was["items"], is["items"])
	}
	handled := map[string]bool{"properties": true, "required": true, "enum": true, "items": was["items"] != nil && is["items"] != nil}
	for _, keyword := range union(was, is) {
		if !prose[keyword] && !handled[keyword] && !e.loosened(keyword, was, is) && !same(was[keyword], is[keyword]) {
			e.found(at, "%s changed", keyword)
		}
	}
}

// loosened reports a change of additionalProperties that accepts more arguments than before.
func (e *evolution) loosened(keyword string, was, is map[string]any) bool {
	return keyword == "additionalProperties" && e.kind == InputSchema && was[keyword] == false &&
		(is[keyword] == nil || is[keyword] == true)
}

func (e *evolution) properties(at string, was, is map[string]any) {
	old, _ := was["properties"].(map[string]any)
	next, _ := is["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, there := next[name]; !there {
			e.found(at+"/properties/"+escapePointer(name), "removed")
			continue
		}
		e.schema(at+"/properties/"+escapePointer(name), old[name], next[name])
	}
}

// required: arguments must not become required, payload members must not stop being.
func (e *evolution) required(at string, old, next []string) {
	gone, added := old, next
	if e.kind == InputSchema {
		gone, added = next, old
	}
	for _, name := range gone {
		if !slices.Contains(added, name) {
			word := "no longer required"
			if e.kind == InputSchema {
				word = "became required"
			}
			e.found(at, "%q %s", name, word)
		}
	}
}

// values: no value of an enum may go.
func (e *evolution) values(at string, was, is map[string]any) {
	old, hadOld := was["enum"].([]any)
	next, hasNext := is["enum"].([]any)
	if hadOld && !hasNext && e.kind == InputSchema {
		return
	}
	if hadOld != hasNext {
		e.found(at, "enum changed")
		return
	}
	for _, v := range old {
		if !slices.ContainsFunc(next, func(w any) bool { return same(v, w) }) {
			e.found(at, "an enum value was removed")
		}
	}
}

func same(a, b any) bool { return bytes.Equal(canonical.Append(nil, a), canonical.Append(nil, b)) }

func names(v any) []string {
	var found []string
	list, _ := v.([]any)
	for _, item := range list {
		if name, ok := item.(string); ok {
			found = append(found, name)
		}
	}
	return found
}

func union(a, b map[string]any) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
