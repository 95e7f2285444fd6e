// Package strictjson decodes JSON from strangers into a small tree and refuses everything ambiguous about it.
//
// The tokenizer is jsontext; this package adds what a trust boundary needs: exactly one value, UTF-8 only, bounded
// nesting and bounded counts, and an object's members kept in order and unmerged, so that the caller can refuse
// repeated, case-variant and unknown keys by name (contract decisions 21 and 30) instead of letting the last one win.
//
// Every refusal is a fault with a sentence the sender may read. No sentence and no cause quotes a value of the input;
// member names are quoted, cut and cleaned (see ShownName).
//
// Strings of a tree are pieces of one copy of the input. What outlives the request by much should be cloned.
package strictjson

import "github.com/herald-relay/herald/internal/fault"

// The bounds of what Parse accepts. The size of the input is for the caller to bound before reading it.
const (
	MaxDepth   = 64     // objects and arrays inside each other
	MaxMembers = 1000   // members of one object
	MaxValues  = 10_000 // values of all kinds in the whole input
)

// Kind is the JSON type of a Value.
type Kind uint8

// The kinds. Null is the zero value.
const (
	Null Kind = iota
	Bool
	String
	Number
	Array
	Object
)

var kindNames = [...]string{"null", "boolean", "string", "number", "array", "object"}

// String returns the name of the JSON type.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Value is one JSON value. Only the fields of its Kind are set.
type Value struct {
	Kind Kind
	Bool bool
	// Size is how many bytes of the input the value took, from its first to its last character.
	Size int32
	// Str is the text of a string, escapes resolved, or the literal of a number as it was written.
	Str string
	// Num is the nearest float64; it is infinite when the literal is beyond the range of one.
	Num     float64
	Items   []Value
	Members []Member
}

// Member is one name and value of an object, in the order sent. Names may repeat until the caller refuses that.
type Member struct {
	Name  string
	Value Value
}

// Parse decodes exactly one JSON value, which white space may surround. Malformed, truncated or trailing data, bytes
// or escapes that are not Unicode text, and anything beyond the bounds are invalid_request with the byte offset.
func Parse(data []byte) (Value, error) {
	r := readers.Get().(*reader)
	defer r.release()
	return r.parse(data)
}

// ParseObject is Parse for input that must be an object; any other value is invalid_request.
func ParseObject(data []byte) (Value, error) {
	r := readers.Get().(*reader)
	defer r.release()
	return r.parseObject(data)
}

// WithObject is ParseObject for callers that need the tree only for a moment: it calls use with the object and returns
// its error. Items and members are valid until use returns, and reused afterwards; strings may be kept.
func WithObject(data []byte, use func(Value) error) error {
	r := readers.Get().(*reader)
	defer r.release()
	r.lend = true
	v, err := r.parseObject(data)
	if err != nil {
		return err
	}
	return use(v)
}

// Article returns the name of the JSON type as a sentence needs it: "a string", "an object", "null".
func (k Kind) Article() string {
	switch k {
	case Null:
		return "null"
	case Array, Object:
		return "an " + k.String()
	default:
		return "a " + k.String()
	}
}

func refuse(detail string, args ...any) error { return fault.InvalidRequest("", detail, args...) }

// onlySpace refuses data that has more than white space from that offset on.
func onlySpace(data []byte, from int) error {
	for i := from; i < len(data); i++ {
		if c := data[i]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return refuse("the JSON value is followed by more data at byte %d; send exactly one value", i)
		}
	}
	return nil
}
