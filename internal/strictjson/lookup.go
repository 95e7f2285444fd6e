package strictjson

import (
	"math"

	"github.com/herald-relay/herald/internal/fault"
)

// Found tells what a lookup by name and type met.
type Found uint8

// The outcomes of a lookup. Absent is the zero value and covers a member that is null.
const (
	Absent Found = iota
	Present
	WrongType
)

// Member returns the value of the first member with exactly that name, null included. Repeats are for RefuseUnknown
// and RefuseRepeats to refuse beforehand.
func (v Value) Member(name string) (Value, bool) {
	for i := range v.Members {
		if v.Members[i].Name == name {
			return v.Members[i].Value, true
		}
	}
	return Value{}, false
}

// Typed looks up a member of the given kind. The value is zero unless the outcome is Present.
func (v Value) Typed(name string, kind Kind) (Value, Found) {
	m, ok := v.Member(name)
	switch {
	case !ok || m.Kind == Null:
		return Value{}, Absent
	case m.Kind != kind:
		return Value{}, WrongType
	default:
		return m, Present
	}
}

// Text looks up a string member. It is returned as sent, untrimmed.
func (v Value) Text(name string) (string, Found) {
	m, found := v.Typed(name, String)
	return m.Str, found
}

// Number looks up a number member. One beyond the range of a float64 is WrongType.
func (v Value) Number(name string) (float64, Found) {
	m, found := v.Typed(name, Number)
	if math.IsInf(m.Num, 0) {
		return 0, WrongType
	}
	return m.Num, found
}

// Flag looks up a boolean member.
func (v Value) Flag(name string) (bool, Found) {
	m, found := v.Typed(name, Bool)
	return m.Bool, found
}

// OptionalText is Text for edges that refuse a wrong type: the string, empty when absent, or invalid_request naming it.
func (v Value) OptionalText(name string) (string, error) {
	s, found := v.Text(name)
	return s, found.orRefuse(name, String)
}

// OptionalNumber is Number for edges that refuse a wrong type: the number or nil when absent, or invalid_request.
func (v Value) OptionalNumber(name string) (*float64, error) {
	n, found := v.Number(name)
	if found != Present {
		return nil, found.orRefuse(name, Number)
	}
	return &n, nil
}

// OptionalFlag is Flag for edges that refuse a wrong type: the boolean, false when absent, or invalid_request.
func (v Value) OptionalFlag(name string) (bool, error) {
	b, found := v.Flag(name)
	return b, found.orRefuse(name, Bool)
}

func (f Found) orRefuse(name string, want Kind) error {
	if f != WrongType {
		return nil
	}
	return fault.InvalidRequest(name, "%s must be %s", name, want.Article())
}
