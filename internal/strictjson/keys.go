package strictjson

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/fault"
)

// Bounds of what a refusal repeats of the sender's own member names.
const (
	MaxNamesShown = 64 // names in one refusal
	MaxNameChars  = 64 // characters of one name
)

// CodeForbiddenFields is the wire code for members that a request must not have (contract section 11).
const CodeForbiddenFields = "forbidden_fields"

// Unknown lists the members of v that are neither in known nor a case variant of a name in it: in the order sent, each
// once, as ShownName writes it with prefix before it. A nil result means none.
func (v Value) Unknown(prefix string, known []string) (names []string) {
	for i := range v.Members {
		name := v.Members[i].Name
		if slices.Contains(known, name) || variantOf(name, known) != "" {
			continue
		}
		if shown := prefix + ShownName(name); !slices.Contains(names, shown) {
			names = append(names, shown)
		}
	}
	return names
}

// Forbidden is the refusal of members that are not accepted: kind Invalid, code forbidden_fields, Fields naming the
// first MaxNamesShown of them.
func Forbidden(names []string) *fault.Error {
	shown, more := names, ""
	if len(shown) > MaxNamesShown {
		shown, more = shown[:MaxNamesShown], " and more"
	}
	return fault.New(fault.Invalid, CodeForbiddenFields, "these fields are not accepted: %s%s; leave them out",
		strings.Join(shown, ", "), more).WithFields(shown...)
}

// RefuseUnknown holds v to the members in known (decision 30). Unknown ones are refused together as forbidden_fields;
// only when there are none does it judge as RefuseRepeats does. v must be an object.
func (v Value) RefuseUnknown(known []string) error {
	if names := v.Unknown("", known); names != nil {
		return Forbidden(names)
	}
	return v.RefuseRepeats(known)
}

// RefuseRepeats is for routes that tolerate unknown members: invalid_request for a name that differs from one in known
// only in case, for a name sent twice, and for two names of v that differ only in case (decision 21). It looks at the
// members of v itself, not at those of objects inside it.
func (v Value) RefuseRepeats(known []string) error { return v.RefuseRepeatsAt("", known) }

// RefuseRepeatsAt is RefuseRepeats for an object inside another; prefix, such as "speak.", goes before the names in
// the refusal.
func (v Value) RefuseRepeatsAt(prefix string, known []string) error {
	for i := range v.Members {
		name := v.Members[i].Name
		if slices.Contains(known, name) {
			continue
		}
		if right := variantOf(name, known); right != "" {
			return refuseName(prefix, name, "the field %[1]s is not accepted; write it as %[2]s", prefix+right)
		}
	}
	a, b, found := firstRepeat(v.Members)
	switch {
	case !found:
		return nil
	case a == b:
		return refuseName(prefix, b, "the field %[1]s is sent more than once; send it once", "")
	default:
		return refuseName(prefix, b, "the fields %[2]s and %[1]s differ only in case; send one of them", prefix+ShownName(a))
	}
}

// RefuseRepeatsDeep applies RefuseRepeats to v and to every object inside it, with no names known. The refusal names
// the member by its path, such as "params.name". An array adds nothing to the path.
func (v Value) RefuseRepeatsDeep() error { return v.refuseRepeatsDeep("") }

func (v Value) refuseRepeatsDeep(prefix string) error {
	if err := v.RefuseRepeatsAt(prefix, nil); err != nil {
		return err
	}
	for i := range v.Items {
		if err := v.Items[i].refuseRepeatsDeep(prefix); err != nil {
			return err
		}
	}
	for i := range v.Members {
		m := &v.Members[i]
		if len(m.Value.Members) == 0 && len(m.Value.Items) == 0 {
			continue
		}
		if err := m.Value.refuseRepeatsDeep(longer(prefix, m.Name)); err != nil {
			return err
		}
	}
	return nil
}

// longer extends a path by one name. A path that has become too long to help stays as it is.
func longer(prefix, name string) string {
	if len(prefix) > 4*MaxNameChars {
		return prefix
	}
	return prefix + ShownName(name) + "."
}

func refuseName(prefix, name, format, other string) error {
	shown := prefix + ShownName(name)
	return fault.InvalidRequest(shown, format, shown, other)
}

// variantOf returns the known name that equals name but for case, or nothing.
func variantOf(name string, known []string) string {
	for _, k := range known {
		if strings.EqualFold(name, k) {
			return k
		}
	}
	return ""
}

// pairwiseMax is the number of members up to which comparing each with each is cheaper than a map.
const pairwiseMax = 24

// firstRepeat finds the first member whose name equals an earlier one's but for case.
func firstRepeat(members []Member) (earlier, name string, found bool) {
	if len(members) > pairwiseMax {
		return firstRepeatMapped(members)
	}
	for i := range members {
		for j := range i {
			if strings.EqualFold(members[i].Name, members[j].Name) {
				return members[j].Name, members[i].Name, true
			}
		}
	}
	return "", "", false
}

func firstRepeatMapped(members []Member) (earlier, name string, found bool) {
	seen := make(map[string]string, len(members))
	for i := range members {
		name := members[i].Name
		folded := strings.Map(foldRune, name)
		if earlier, found := seen[folded]; found {
			return earlier, name, true
		}
		seen[folded] = name
	}
	return "", "", false
}

// foldRune picks the smallest of the characters that strings.EqualFold holds equal to c.
func foldRune(c rune) rune {
	smallest := c
	for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	return smallest
}

// ShownName is a member name as refusals repeat it: at most MaxNameChars characters, with U+FFFD in place of control,
// formatting (bidirectional ones among them) and other characters that do not print.
func ShownName(name string) string {
	if plainName(name) {
		return name
	}
	var b strings.Builder
	n := 0
	for _, c := range name {
		if n++; n > MaxNameChars {
			b.WriteString("…")
			break
		}
		if !unicode.IsPrint(c) {
			c = utf8.RuneError
		}
		b.WriteRune(c)
	}
	return b.String()
}

func plainName(name string) bool {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return false
		}
	}
	return len(name) <= MaxNameChars
}
