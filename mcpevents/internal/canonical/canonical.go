// Package canonical reads one JSON value strictly and writes it in the canonical form of RFC 8785, so that two texts of
// the same value become the same bytes.
//
// What makes a value ambiguous is refused rather than resolved: repeated member names, trailing data, invalid UTF-8,
// lone surrogates, numbers beyond a float64, and nesting deeper than MaxDepth.
package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth bounds objects and arrays inside each other.
const MaxDepth = 64

// Errors of Parse. Their texts never quote the input.
var (
	ErrRepeated = errors.New("a member name is repeated")
	ErrDeep     = fmt.Errorf("nested deeper than %d", MaxDepth)
	ErrText     = errors.New("not valid Unicode text")
	ErrTrailing = errors.New("more than one value")
	ErrNumber   = errors.New("a number beyond the range of a double")
	ErrSyntax   = errors.New("not valid JSON")
)

// Parse decodes exactly one value to nil, bool, float64, string, []any or map[string]any.
func Parse(data []byte) (any, error) {
	if !utf8.Valid(data) || loneSurrogate(data) {
		return nil, ErrText
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := value(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, ErrTrailing
	}
	return v, nil
}

// Transform parses data and writes it canonically.
func Transform(data []byte) ([]byte, error) {
	v, err := Parse(data)
	if err != nil {
		return nil, err
	}
	return Append(nil, v), nil
}

func value(dec *json.Decoder, depth int) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, ErrSyntax
	}
	switch t := t.(type) {
	case json.Delim:
		if depth == MaxDepth {
			return nil, ErrDeep
		}
		if t == '{' {
			return object(dec, depth+1)
		}
		return array(dec, depth+1)
	case json.Number:
		f, err := strconv.ParseFloat(t.String(), 64)
		if err != nil || math.IsInf(f, 0) {
			return nil, ErrNumber
		}
		return f, nil
	default:
		return t, nil
	}
}

func object(dec *json.Decoder, depth int) (any, error) {
	m := map[string]any{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, ErrSyntax
		}
		if _, seen := m[name]; seen {
			return nil, ErrRepeated
		}
		if m[name], err = value(dec, depth); err != nil {
			return nil, err
		}
	}
	return m, closing(dec)
}

func array(dec *json.Decoder, depth int) (any, error) {
	a := []any{}
	for dec.More() {
		v, err := value(dec, depth)
		if err != nil {
			return nil, err
		}
		a = append(a, v)
	}
	return a, closing(dec)
}

func closing(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return ErrSyntax
	}
	return nil
}

// loneSurrogate reports a \u escape of half a UTF-16 pair, which the decoder would silently replace.
func loneSurrogate(data []byte) bool {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		r, ok := escape(data[i:])
		if !ok {
			i++ // the escaped character itself
			continue
		}
		i += 5
		if !utf16.IsSurrogate(r) {
			continue
		}
		low, ok := escape(data[i+1:])
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escape reads \uXXXX at the start of b.
func escape(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}

// Append writes a value as Parse returns it to b in canonical form. Other Go types are a mistake and panic.
func Append(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case float64:
		return appendNumber(b, v)
	case string:
		return appendString(b, v)
	case []any:
		return appendArray(b, v)
	case map[string]any:
		return appendObject(b, v)
	}
	panic(fmt.Sprintf("canonical: %T is no parsed JSON value", v))
}

func appendArray(b []byte, a []any) []byte {
	b = append(b, '[')
	for i, v := range a {
		if i > 0 {
			b = append(b, ',')
		}
		b = Append(b, v)
	}
	return append(b, ']')
}

func appendObject(b []byte, m map[string]any) []byte {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, compareUTF16)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		b = Append(b, m[name])
	}
	return append(b, '}')
}

// compareUTF16 orders by UTF-16 code units, as RFC 8785 section 3.2.3 demands; it differs from byte order only beyond
// the basic plane.
func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// appendNumber writes f as ECMAScript does: RFC 8785 section 3.2.2.3.
func appendNumber(b []byte, f float64) []byte {
	if f == 0 {
		return append(b, '0') // and -0
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	// Go pads a one-digit exponent with a zero, ECMAScript does not.
	if n := len(b); n > 3 && b[n-2] == '0' && (b[n-3] == '-' || b[n-3] == '+') {
		b = append(b[:n-2], b[n-1])
	}
	return b
}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= 0x20:
			b = append(b, c)
		default:
			b = appendControl(b, c)
		}
	}
	return append(b, '"')
}

func appendControl(b []byte, c byte) []byte {
	const names = "btn\x00fr" // \b is 8, \t 9, \n 10, \f 12, \r 13
	if c >= 8 && c <= 13 && c != 11 {
		return append(b, '\\', names[c-8])
	}
	return fmt.Appendf(b, `\u%04x`, c)
}
