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

// reader walks one input. members and items are stacks shared by all open objects and arrays: what is in one that
// closes moves to memory of its own, or to what is lent to WithObject.
type reader struct {
	dec     jsontext.Decoder // always freshly reset to read from src
	src     bytes.Buffer
	text    string // the input, copied once
	values  int
	members []Member
	items   []Value

	lend        bool
	lentMembers []Member
	lentItems   []Value
}

var readers = sync.Pool{New: func() any {
	r := new(reader)
	r.reset()
	return r
}}

func (r *reader) reset() { r.dec.Reset(&r.src, jsontext.AllowDuplicateNames(true)) }

// maxKept is how many members or items the memory of a reader that waits for its next input may have room for.
const maxKept = 256

// release drops every reference to the input and returns r to the pool.
func (r *reader) release() {
	if cap(r.members)+cap(r.lentMembers) > maxKept || cap(r.items)+cap(r.lentItems) > maxKept {
		return
	}
	r.src, r.text, r.values, r.lend = bytes.Buffer{}, "", 0, false
	r.members, r.lentMembers = emptied(r.members), emptied(r.lentMembers)
	r.items, r.lentItems = emptied(r.items), emptied(r.lentItems)
	r.reset()
	readers.Put(r)
}

func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}

func (r *reader) parseObject(data []byte) (Value, error) {
	v, err := r.parse(data)
	if err != nil {
		return Value{}, err
	}
	if v.Kind != Object {
		return Value{}, refuse("the JSON must be an object, in braces; this is %s", v.Kind.Article())
	}
	return v, nil
}

func (r *reader) parse(data []byte) (v Value, err error) {
	if len(data) > math.MaxInt32 {
		return Value{}, refuse("the JSON is longer than 2 GiB")
	}
	r.src, r.text = *bytes.NewBuffer(data), string(data)
	kind, token, err := r.next()
	if err == nil {
		err = r.value(kind, token, 0, &v)
	}
	if err != nil {
		return Value{}, r.explain(err)
	}
	if err := onlySpace(data, int(r.dec.InputOffset())); err != nil {
		return Value{}, err
	}
	return v, nil
}

// next reads one token. For strings and numbers token is the raw text, quotes included: it starts after the white
// space and the delimiter that follow the previous token.
func (r *reader) next() (kind jsontext.Kind, token string, err error) {
	start := int(r.dec.InputOffset())
	t, err := r.dec.ReadToken()
	if err != nil {
		return 0, "", err
	}
	kind = t.Kind()
	if kind != '"' && kind != '0' {
		return kind, "", nil
	}
	for start < len(r.text) && between(r.text[start]) {
		start++
	}
	return kind, r.text[start:r.dec.InputOffset()], nil
}

// between holds for the bytes that may stand between two tokens.
func between(c byte) bool {
	return c == ',' || c == ':' || c == ' ' || c == '\n' || c == '\t' || c == '\r'
}

// value makes v, which is zero and stays the caller's, of the token just read and, for an object or array, of all
// tokens up to its end.
func (r *reader) value(kind jsontext.Kind, token string, depth int, v *Value) (err error) {
	if r.values++; r.values > MaxValues {
		return refuse("the JSON holds more than %d values", MaxValues)
	}
	v.Size = int32(len(token))
	switch kind {
	case '"':
		v.Kind = String
		v.Str, err = unquote(token)
		return err
	case '0':
		v.Kind, v.Str = Number, token
		v.Num, err = parseNumber(token)
		return err
	case '{':
		return r.object(depth+1, v)
	case '[':
		return r.array(depth+1, v)
	case 't':
		v.Kind, v.Bool, v.Size = Bool, true, 4
	case 'f':
		v.Kind, v.Size = Bool, 5
	case 'n':
		v.Size = 4
	}
	return nil
}

func unquote(token string) (string, error) {
	inner := token[1 : len(token)-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	plain, err := jsontext.AppendUnquote(nil, token)
	return string(plain), err
}

// parseNumber returns infinity for what is beyond float64, as Value.Num documents.
func parseNumber(token string) (float64, error) {
	n, err := strconv.ParseFloat(token, 64)
	if errors.Is(err, strconv.ErrRange) {
		return n, nil
	}
	return n, err
}

// enter returns where the opening bracket just read stood.
func (r *reader) enter(depth int) (start int64, err error) {
	start = r.dec.InputOffset() - 1
	if depth > MaxDepth {
		return 0, refuse("the JSON nests deeper than %d levels at byte %d", MaxDepth, start)
	}
	return start, nil
}

func (r *reader) object(depth int, v *Value) error {
	start, err := r.enter(depth)
	if err != nil {
		return err
	}
	base := len(r.members)
	var m Member // outside the loop, so that it stays off the heap
	for {
		kind, token, err := r.next()
		if err != nil {
			return err
		}
		if kind == '}' {
			break
		}
		if len(r.members)-base == MaxMembers {
			return refuse("an object of the JSON has more than %d members at byte %d", MaxMembers, r.dec.InputOffset())
		}
		if err := r.member(token, depth, &m); err != nil {
			return err
		}
		r.members = append(r.members, m)
	}
	v.Kind, v.Members = Object, take(&r.members, base, &r.lentMembers, r.lend, depth)
	v.Size = int32(r.dec.InputOffset() - start)
	return nil
}

// member reads the value that belongs to the quoted name and sets m to both.
func (r *reader) member(name string, depth int, m *Member) (err error) {
	*m = Member{}
	if m.Name, err = unquote(name); err != nil {
		return err
	}
	kind, token, err := r.next()
	if err != nil {
		return err
	}
	return r.value(kind, token, depth, &m.Value)
}

func (r *reader) array(depth int, v *Value) error {
	start, err := r.enter(depth)
	if err != nil {
		return err
	}
	base := len(r.items)
	var item Value // outside the loop, so that it stays off the heap
	for {
		kind, token, err := r.next()
		if err != nil {
			return err
		}
		if kind == ']' {
			break
		}
		item = Value{}
		if err := r.value(kind, token, depth, &item); err != nil {
			return err
		}
		r.items = append(r.items, item)
	}
	v.Kind, v.Items = Array, take(&r.items, base, &r.lentItems, r.lend, depth)
	v.Size = int32(r.dec.InputOffset() - start)
	return nil
}

// take moves everything above base from the stack into a slice of its own, or to the end of lent. What is lent of the
// outermost value may stay on the stack: nothing comes after it.
func take[T any](stack *[]T, base int, lent *[]T, lend bool, depth int) []T {
	top := (*stack)[base:]
	if len(top) == 0 {
		return nil
	}
	if lend && depth == 1 {
		return top
	}
	var own []T
	if lend {
		start := len(*lent)
		*lent = append(*lent, top...) // growing moves to new memory; slices taken before keep the old
		own = (*lent)[start:len(*lent):len(*lent)]
	} else {
		own = slices.Clone(top)
	}
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
