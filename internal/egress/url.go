package egress

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// MaxURL is the length of the longest URL that is accepted, in characters, before and after normalisation.
const MaxURL = 2048

const tooLong = "must have at most 2048 characters"

// Parse reads an absolute http or https URL strictly and returns it normalised, without judging whether it may be called.
//
// It refuses, with an [*Error] of kind Malformed: a character that RFC 3986 allows nowhere, credentials, a fragment, port 0,
// more than MaxURL characters, and a host that is neither a DNS name in ASCII, nor an IPv4 address of four decimal
// parts, nor an IPv6 address in brackets.
//
// Normalised means: scheme and host in lower case, the host without a final dot, an IPv6 address in its shortest form,
// no default port, no dot segments, and "/" for an empty path. Path and query are otherwise kept as they were written. The
// String of the result is the same for every such spelling, so it serves as a key.
func Parse(raw string) (*url.URL, error) {
	u, _, err := parse(raw)
	return u, err
}

func parse(raw string) (*url.URL, host, error) {
	if err := checkText(raw); err != nil {
		return nil, host{}, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, host{}, malformed("must be an absolute URL", errors.Unwrap(err)) // without the URL, which may hold secrets
	}
	if err := checkParts(u); err != nil {
		return nil, host{}, err
	}
	h, err := parseHost(u.Hostname())
	if err != nil {
		return nil, host{}, err
	}
	port, err := parsePort(u)
	if err != nil {
		return nil, host{}, err
	}
	u = normalise(u, h.inURL()+port)
	if len(u.String()) > MaxURL {
		return nil, host{}, malformed(tooLong, nil)
	}
	return u, h, nil
}

func malformed(detail string, cause error) *Error {
	return &Error{Kind: Malformed, Detail: detail, Err: cause}
}

// checkText refuses what readers of URLs are known to disagree about, before any of them sees it.
func checkText(raw string) error {
	if len(raw) > MaxURL {
		return malformed(tooLong, nil)
	}
	for i := range len(raw) {
		c := raw[i]
		switch {
		case c == '#':
			return malformed("must not have a fragment", nil)
		case c == '%' && !isEscape(raw[i:]):
			return malformed("must have two hexadecimal digits after each %", nil)
		case !isURLCharacter(c):
			return malformed("must hold only characters that RFC 3986 allows", nil)
		}
	}
	return nil
}

func isEscape(s string) bool { return len(s) > 2 && isHex(s[1]) && isHex(s[2]) }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func isURLCharacter(c byte) bool {
	return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("-._~:/?[]@!$&'()*+,;=%", c) >= 0
}

// checkParts refuses the parts of a URL that a destination never has.
func checkParts(u *url.URL) error {
	switch {
	case !u.IsAbs():
		return malformed("must be an absolute URL", nil)
	case u.Scheme != "https" && u.Scheme != "http":
		return malformed("must use https", nil)
	case u.User != nil:
		return malformed("must not carry a user name or password", nil)
	case u.Opaque != "" || u.Hostname() == "":
		return malformed("must be an absolute URL", nil)
	}
	return nil
}

// parsePort returns the port of u with its colon, or nothing when it is the scheme's own.
func parsePort(u *url.URL) (string, error) {
	text := u.Port()
	if text == "" {
		return "", nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return "", malformed("must have a port from 1 to 65535, or none", nil)
	}
	if port == 443 && u.Scheme == "https" || port == 80 && u.Scheme == "http" {
		return "", nil
	}
	return ":" + strconv.FormatUint(port, 10), nil
}

// normalise returns u with that host and port, and without dot segments in its path.
func normalise(u *url.URL, hostPort string) *url.URL {
	u = u.ResolveReference(u)
	u.Host = hostPort
	if u.Path == "" {
		u.Path = "/"
	}
	return u
}

// CheckURL reads raw as [Parse] does and judges it by everything that needs no look-up: it must use https and the default
// port, name a public host or address, and the host must be on the allowlist. Options can widen each of these. The
// kinds of its [*Error] are Malformed, InnerName, NotPublic and NotListed, judged in this order.
func (g *Guard) CheckURL(raw string) (*url.URL, error) {
	u, h, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if g.isDevReceiver(u.Scheme, h.addr) {
		return u, nil
	}
	if u.Scheme != "https" {
		return nil, malformed("must use https", nil)
	}
	if u.Port() != "" && !g.opts.AnyPort {
		return nil, malformed("must use the default port", nil)
	}
	if err := g.checkHost(h); err != nil {
		return nil, err
	}
	return u, nil
}

// isDevReceiver reports the one thing that development adds: plain http to exactly 127.0.0.1.
func (g *Guard) isDevReceiver(scheme string, addr netip.Addr) bool {
	return g.opts.Dev && scheme == "http" && addr == devAddr
}

var devAddr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
