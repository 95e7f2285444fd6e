package egress

import (
	"errors"
	"fmt"
	"strings"
)

// Allowlist is a set of the only hosts that may be called. The nil Allowlist restricts nothing.
type Allowlist map[string]struct{}

// ParseAllowlist reads entries such as those of EVENT_CALLBACK_HOSTS: public host names and public IP addresses, matched
// whole and without wildcards. White space around an entry, case and one final dot do not matter; blank entries are
// skipped, and without any other the list is nil. The error joins one sentence per entry that is not a public host.
func ParseAllowlist(entries []string) (Allowlist, error) {
	var list Allowlist
	var problems []error
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		h, err := parsePublicHost(entry)
		if err != nil {
			problems = append(problems, fmt.Errorf("%q is not a public host: %w", entry, err))
			continue
		}
		if list == nil {
			list = Allowlist{}
		}
		list[h.name] = struct{}{}
	}
	return list, errors.Join(problems...)
}

func parsePublicHost(text string) (host, error) {
	h, err := parseHost(text)
	if err != nil {
		return host{}, err
	}
	return h, h.check(CheckAddr)
}

// check returns nil when the list has the host, or restricts nothing.
func (l Allowlist) check(h host) error {
	if _, ok := l[h.name]; ok || l == nil {
		return nil
	}
	return &Error{Kind: NotListed, Host: h.name, Detail: "names a host that may not be called"}
}
