package strictjson

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical writes a JSON value so that two texts of one value become the same bytes: members sorted, no white space,
// strings and fractions in one spelling (RFC 8785), but whole numbers with all their digits. What is no JSON stays as it is.
func Canonical(data []byte) []byte {
	v := jsontext.Value(slices.Clone(data))
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return data
	}
	return v
}
