package egress

import (
	"net/netip"
	"strings"
)

const (
	maxName  = 253 // characters of a host name (RFC 1035, section 2.3.4, in text form)
	maxLabel = 63
)

// innerSuffixes are the names that stay inside a machine or a network (contract, relay.md 5.4).
var innerSuffixes = [...]string{"localhost", "local", "internal", "home.arpa"}

// host is a host of a URL in its one spelling: a lower-case name without a final dot, or an address.
type host struct {
	name string     // the name, or the address as text
	addr netip.Addr // valid when the host is an address literal
}

// parseHost reads a host as it stands in a URL, an IPv6 address without its brackets. It accepts a name, or exactly one of
// the spellings that netip accepts for an address: any other way to write an IPv4 address is an error, since two readers
// could disagree about it.
func parseHost(text string) (host, error) {
	text = strings.TrimSuffix(strings.ToLower(text), ".")
	if addr, err := netip.ParseAddr(text); err == nil {
		return host{addr.String(), addr}, nil
	}
	if !isName(text) {
		return host{}, malformed("must name a host: a DNS name in ASCII, a dotted IPv4 address or an IPv6 address", nil)
	}
	return host{name: text}, nil
}

// isName accepts labels of letters, digits, hyphens and underscores, of which the last is not a number. Underscores are in
// use although host names proper have none.
func isName(text string) bool {
	if len(text) > maxName {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(text, ".") {
		if !isLabel(label) {
			return false
		}
		last = label
	}
	return !isNumber(last)
}

func isLabel(label string) bool {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if c != '-' && c != '_' && !isDigit(c) && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// isNumber tells the last labels that make readers of the WHATWG school take the host for an IPv4 address.
func isNumber(label string) bool {
	if digits, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isInner reports a name that no public server can have.
func (h host) isInner() bool {
	for _, suffix := range innerSuffixes {
		if h.name == suffix || strings.HasSuffix(h.name, "."+suffix) {
			return true
		}
	}
	return !strings.Contains(h.name, ".")
}

// check returns nil for a public name or address, as far as syntax can tell.
func (h host) check(checkAddr func(netip.Addr) error) error {
	if h.addr.IsValid() {
		return checkAddr(h.addr)
	}
	if h.isInner() {
		return &Error{Kind: InnerName, Host: h.name, Detail: "must name a public host"}
	}
	return nil
}

// inURL returns the host as it is written in a URL.
func (h host) inURL() string {
	if h.addr.Is6() {
		return "[" + h.name + "]"
	}
	return h.name
}
