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

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/fault"
)

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
	if len(data) > math.MaxInt32 {
		return Value{}, refuse("the JSON is longer than 2 GiB")
	}
	r := readers.Get().(*reader)
	defer r.release()
	r.src, r.text = *bytes.NewBuffer(data), string(data)
	var v Value
	if err := r.value(0, &v); err != nil {
		return Value{}, r.explain(err)
	}
	if err := onlySpace(data, int(r.dec.InputOffset())); err != nil {
		return Value{}, err
	}
	return v, nil
}

// ParseObject is Parse for input that must be an object; any other value is invalid_request.
func ParseObject(data []byte) (Value, error) {
	v, err := Parse(data)
	if err != nil {
		return Value{}, err
	}
	if v.Kind != Object {
		return Value{}, refuse("the JSON must be an object, in braces; this is %s", v.Kind.article())
	}
	return v, nil
}

func (k Kind) article() string {
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

func onlySpace(data []byte, from int) error {
	for i := from; i < len(data); i++ {
		if c := data[i]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return refuse("the JSON value is followed by more data at byte %d; send exactly one value", i)
		}
	}
	return nil
}

// reader walks one input. members and items are stacks shared by all open objects and arrays, so that each closed one
// costs a single allocation of its exact size.
type reader struct {
	dec     jsontext.Decoder // always freshly reset to read from src
	src     bytes.Buffer
	text    string // the input, copied once
	values  int
	members []Member
	items   []Value
}

var readers = sync.Pool{New: func() any {
	r := new(reader)
	r.reset()
	return r
}}

func (r *reader) reset() { r.dec.Reset(&r.src, jsontext.AllowDuplicateNames(true)) }

// release drops every reference to the input before r waits for its next one.
func (r *reader) release() {
	clear(r.members)
	clear(r.items)
	r.src, r.text, r.values, r.members, r.items = bytes.Buffer{}, "", 0, r.members[:0], r.items[:0]
	r.reset()
	if cap(r.members) <= MaxMembers && cap(r.items) <= MaxMembers {
		readers.Put(r)
	}
}

// value reads one value into v, which is zero and stays the caller's: filling it in place spares copies.
func (r *reader) value(depth int, v *Value) (err error) {
	if r.values++; r.values > MaxValues {
		return refuse("the JSON holds more than %d values", MaxValues)
	}
	switch r.dec.PeekKind() {
	case '"':
		v.Kind = String
		v.Str, v.Size, err = r.quoted()
		return err
	case '0':
		return r.number(v)
	case '{':
		return r.object(depth+1, v)
	case '[':
		return r.array(depth+1, v)
	default:
		return r.literal(v)
	}
}

func (r *reader) quoted() (s string, size int32, err error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return "", 0, err
	}
	end := int(r.dec.InputOffset())
	s, size = r.text[end-len(raw)+1:end-1], int32(len(raw))
	if strings.IndexByte(s, '\\') < 0 {
		return s, size, nil
	}
	plain, err := jsontext.AppendUnquote(nil, raw)
	return string(plain), size, err
}

func (r *reader) number(v *Value) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	end := int(r.dec.InputOffset())
	v.Kind, v.Str, v.Size = Number, r.text[end-len(raw):end], int32(len(raw))
	v.Num, err = strconv.ParseFloat(v.Str, 64)
	if errors.Is(err, strconv.ErrRange) { // Num is infinite then, as documented
		return nil
	}
	return err
}

func (r *reader) literal(v *Value) error {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case 'n':
		v.Size = 4
	case 't':
		v.Kind, v.Bool, v.Size = Bool, true, 4
	default:
		v.Kind, v.Size = Bool, 5
	}
	return nil
}

// enter consumes the opening bracket and returns where it stood.
func (r *reader) enter(depth int) (start int64, err error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return 0, err
	}
	start = r.dec.InputOffset() - 1
	if depth > MaxDepth {
		return 0, refuse("the JSON nests deeper than %d levels at byte %d", MaxDepth, start)
	}
	return start, nil
}

// leave consumes the closing bracket, or meets the error that stands in its place.
func (r *reader) leave(start int64) (size int32, err error) {
	_, err = r.dec.ReadToken()
	return int32(r.dec.InputOffset() - start), err
}

func (r *reader) object(depth int, v *Value) error {
	start, err := r.enter(depth)
	if err != nil {
		return err
	}
	base := len(r.members)
	var m Member // outside the loop, so that it stays off the heap
	for r.dec.PeekKind() == '"' {
		if len(r.members)-base == MaxMembers {
			return refuse("an object of the JSON has more than %d members at byte %d", MaxMembers, r.dec.InputOffset())
		}
		m = Member{}
		if m.Name, _, err = r.quoted(); err != nil {
			return err
		}
		if err := r.value(depth, &m.Value); err != nil {
			return err
		}
		r.members = append(r.members, m)
	}
	v.Kind, v.Members = Object, take(&r.members, base)
	v.Size, err = r.leave(start)
	return err
}

func (r *reader) array(depth int, v *Value) error {
	start, err := r.enter(depth)
	if err != nil {
		return err
	}
	base := len(r.items)
	var item Value // outside the loop, so that it stays off the heap
	for k := r.dec.PeekKind(); k != ']' && k != 0; k = r.dec.PeekKind() {
		item = Value{}
		if err := r.value(depth, &item); err != nil {
			return err
		}
		r.items = append(r.items, item)
	}
	v.Kind, v.Items = Array, take(&r.items, base)
	v.Size, err = r.leave(start)
	return err
}

// take moves everything above base from the stack into a slice of its own.
func take[T any](stack *[]T, base int) []T {
	top := (*stack)[base:]
	if len(top) == 0 {
		return nil
	}
	own := slices.Clone(top)
	clear(top) // the stack must not keep the input alive
	*stack = (*stack)[:base]
	return own
}

// explain turns the tokenizer's complaint into a sentence. Its own text is dropped: it quotes the input.
func (r *reader) explain(err error) error {
	if own, ok := errors.AsType[*fault.Error](err); ok {
		return own
	}
	if errors.Is(err, io.EOF) {
		return refuse("there is no JSON here; send one JSON value")
	}
	at := r.dec.InputOffset()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = syntax.ByteOffset
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse("the JSON ends too early, at byte %d", at)
	case notUnicode(r.text, at):
		return refuse("the JSON holds text that is not valid Unicode at byte %d; send it as UTF-8", at)
	default:
		return refuse("the JSON is malformed at byte %d", at)
	}
}

// notUnicode reports whether a broken UTF-8 sequence or a lone surrogate escape is what stands at that offset.
func notUnicode(text string, at int64) bool {
	if at < 0 || at >= int64(len(text)) {
		return false
	}
	first, size := utf8.DecodeRuneInString(text[at:])
	return first == utf8.RuneError && size == 1 || strings.HasPrefix(text[at:], `\u`)
}
