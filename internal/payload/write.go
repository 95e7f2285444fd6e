package payload

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// begin writes the name of a field, with whatever must stand before it, and returns the text for the value to be
// appended to.
func (d *draft) begin(name string) []byte {
	if len(d.out) == 0 {
		d.out = append(d.out, '{')
	}
	out := append(comma(d.out), '"')
	return append(append(out, name...), '"', ':')
}

// comma appends one unless out ends where an object has just begun.
func comma(out []byte) []byte {
	if out[len(out)-1] == '{' {
		return out
	}
	return append(out, ',')
}

func (d *draft) writeText(name string, s string) { d.out = appendQuoted(d.begin(name), s) }

func (d *draft) writeFlag(name string, b bool) { d.out = strconv.AppendBool(d.begin(name), b) }

func (d *draft) writeTexts(name string, list []string) {
	out := append(d.begin(name), '[')
	for i, s := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendQuoted(out, s)
	}
	d.out = append(out, ']')
}

func appendQuoted(out []byte, s string) []byte {
	out, _ = jsontext.AppendQuote(out, s) // fails only on text that is not UTF-8, which no tree holds
	return out
}

func finite(n float64) bool { return !math.IsInf(n, 0) && !math.IsNaN(n) }

// appendNumber writes a finite number as JavaScript prints it (ECMA-262, Number::toString).
func appendNumber(out []byte, n float64) []byte {
	size := math.Abs(n)
	if whole := int64(n); size < 1<<53 && float64(whole) == n {
		return strconv.AppendInt(out, whole, 10) // minus zero prints as 0
	}
	if size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(out, n, 'f', -1, 64)
	}
	out = strconv.AppendFloat(out, n, 'e', -1, 64)
	if end := len(out) - 2; out[end] == '0' && !isDigit(out[end-1]) { // Go pads exponents to two digits
		out = append(out[:end], out[end+1])
	}
	return out
}
