package relay

import (
	"slices"
	"strings"
)

// Scopes are what a connector may do: a sorted set without repeats. The zero value allows nothing.
type Scopes []string

// KnownScopes are the scopes that a connector may be given, sorted.
var KnownScopes = Scopes{ScopeNotify}

// ParseScopes reads a space-separated list, such as a scope parameter (RFC 6749, section 3.3) or Key.Scope.
func ParseScopes(text string) Scopes {
	list := strings.Fields(text)
	slices.Sort(list)
	return slices.Compact(list)
}

// String writes the set as the wire does: separated by single spaces.
func (s Scopes) String() string { return strings.Join(s, " ") }

// Has reports whether the set allows scope.
func (s Scopes) Has(scope string) bool { return slices.Contains(s, scope) }

// Within reports whether every scope of s is in other.
func (s Scopes) Within(other Scopes) bool {
	return !slices.ContainsFunc(s, func(one string) bool { return !other.Has(one) })
}
