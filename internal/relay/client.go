package relay

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ClientID names software that asks to become a connector: "hc_" and 32 lower-case hex digits when it registered here,
// the https address of its own metadata document otherwise.
type ClientID string

const clientPrefix = "hc_"

// NewClientID makes the id of a client that registers.
func NewClientID() ClientID { return ClientID(clientPrefix + RandomHex(16)) }

// ParseClientID accepts the shape of a registered client's id, and an https address as the id of a client that
// describes itself there. Whether the address serves a document is for others to find out.
func ParseClientID(s string) (ClientID, bool) {
	if hex, found := strings.CutPrefix(s, clientPrefix); found {
		return ClientID(s), len(hex) == 32 && IsHex(hex)
	}
	return ClientID(s), isDocumentAddress(s)
}

// isDocumentAddress holds an id to the draft's rules: https, a host, a path, no credentials, fragment, query or dot
// segments, and nothing that two readers could read differently.
func isDocumentAddress(s string) bool {
	u, err := url.Parse(s)
	if err != nil || len(s) > MaxRedirect || !plainASCII(s) || u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.Path == "" || u.Path == "/" || u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#") || u.String() != s {
		return false
	}
	return !slices.ContainsFunc(strings.Split(u.EscapedPath(), "/"), isDots)
}

func isDots(segment string) bool {
	plain, err := url.PathUnescape(segment)
	return err != nil || plain == "." || plain == ".."
}

// IsDocument reports whether the client describes itself in a document at its id.
func (id ClientID) IsDocument() bool { return strings.HasPrefix(string(id), "https://") }

// How a client proves itself (RFC 7591, section 2).
const (
	AuthNone  = "none"
	AuthPost  = "client_secret_post"
	AuthBasic = "client_secret_basic"
)

// Client is software that may ask a person for approval.
type Client struct {
	ID         ClientID
	Name       string   // cleaned, never empty; what it calls itself proves nothing
	Redirects  []string // where a browser may be sent; none for clients of the device flow only
	AuthMethod string
	SecretHash Hash // zero for public clients
	CreatedAt  time.Time
	// FreshUntil is when a document has to be read again; zero for registered clients.
	FreshUntil time.Time
}

// Public reports whether the client has no secret.
func (c Client) Public() bool { return c.AuthMethod == AuthNone }

// Limits of what a client says of itself (contract section 8).
const (
	MaxRedirects   = 10
	MaxRedirect    = 500
	maxClientName  = 60
	NamelessClient = "An app"
)

// CleanClientName is the name as it is stored and shown: without control and formatting characters and angle brackets, at
// most 60 characters, never empty. Strangers name clients, and a person reads the names.
func CleanClientName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '<' || r == '>' || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar {
			return -1
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, name)
	clean = strings.TrimSpace(FirstChars(strings.TrimSpace(clean), maxClientName))
	if clean == "" {
		return NamelessClient
	}
	return clean
}

// ConnectorName is the name of a connector's key: the client's in lower case, other characters folded to single
// dashes, at most 24; a name that taken reports gets -2, -3 and so on (contract section 8).
func ConnectorName(client string, taken func(string) bool) string {
	folded := strings.FieldsFunc(strings.ToLower(client), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	base := strings.Join(folded, "-")
	base = strings.Trim(base[:min(len(base), 24)], "-")
	if base == "" {
		base = "connector"
	}
	name := base
	for n := 2; taken(name); n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}

// refusedSchemes never receive a browser: they run code, read files or reach other programs with a payload.
var refusedSchemes = []string{"javascript", "data", "vbscript", "file", "blob", "about", "ftp", "filesystem", "view-source",
	"jar", "intent", "mailto", "tel", "sms", "ws", "wss"}

// ValidRedirect holds one redirect address to the contract's section 8: https with a host, http on loopback, or a
// private-use scheme; no fragment, no credentials, at most 500 characters of plain ASCII.
func ValidRedirect(s string) bool {
	u, err := url.Parse(s)
	if err != nil || s == "" || len(s) > MaxRedirect || !plainASCII(s) || strings.Contains(s, "#") || u.User != nil {
		return false
	}
	switch u.Scheme {
	case "":
		return false
	case "https":
		return u.Hostname() != ""
	case "http":
		return loopbackHost(u.Hostname())
	}
	return !slices.Contains(refusedSchemes, u.Scheme)
}

// plainASCII refuses white space, controls, backslashes and whatever browsers would rewrite.
func plainASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\\\"<>^`{|}", c) >= 0 {
			return false
		}
	}
	return true
}

func loopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Zone() == "" && (a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a == netip.IPv6Loopback())
}

// AllowsRedirect reports whether a browser may be sent to asked: it equals a registered address, or differs from a
// registered loopback address in its port only (RFC 8252, section 7.3; decision 18).
func (c Client) AllowsRedirect(asked string) bool {
	return slices.ContainsFunc(c.Redirects, func(known string) bool { return sameRedirect(known, asked) })
}

func sameRedirect(known, asked string) bool {
	if known == asked {
		return true
	}
	k, err := url.Parse(known)
	if err != nil || k.Scheme != "http" || !loopbackHost(k.Hostname()) || !ValidRedirect(asked) {
		return false
	}
	a, err := url.Parse(asked)
	if err != nil || a.Scheme != "http" || a.Hostname() != k.Hostname() {
		return false
	}
	return afterAuthority(known) == afterAuthority(asked)
}

// afterAuthority is everything behind host and port, to be compared as it stands.
func afterAuthority(s string) string {
	_, rest, _ := strings.Cut(s, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return rest[i:]
	}
	return ""
}

// RedirectHost is what a person is told of a redirect address: its host, or its scheme when it has none.
func RedirectHost(redirect string) string {
	u, err := url.Parse(redirect)
	switch {
	case err != nil || redirect == "":
		return ""
	case u.Scheme != "https" && u.Scheme != "http":
		return u.Scheme + ":"
	}
	return u.Hostname()
}
