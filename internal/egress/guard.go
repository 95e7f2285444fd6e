package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// What bounds the making of a connection. A call as a whole is bounded by Options.Timeout.
const (
	connectTimeout   = 8 * time.Second // to resolve a name, a lost packet included, and to connect to its addresses
	handshakeTimeout = 5 * time.Second // for TLS
	maxDials         = 3               // addresses of a name that are tried; all are checked
)

// Resolver finds all addresses of a name; [*net.Resolver] is one. It is asked for network "ip" and for the absolute form
// of the name, which ends in a dot.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options configure a [Guard]. The zero value is the rule that production follows.
type Options struct {
	// Allowlist, unless nil, restricts calls to its hosts.
	Allowlist Allowlist

	// AnyPort accepts ports other than 443.
	AnyPort bool

	// NAT64 accepts addresses of the well-known prefix 64:ff9b::/96 that embed a public IPv4 address. A machine that has
	// IPv6 only, and reaches the rest through DNS64 and NAT64, needs it; elsewhere it must stay off, since a gateway may
	// translate what this machine must not reach.
	NAT64 bool

	// Dev accepts URLs that begin with http://127.0.0.1, on any port and past the allowlist. It is for a developer's own
	// machine, and adds nothing else: no other loopback address, no name that resolves to one, no https.
	Dev bool

	// Timeout bounds a call from its first look-up to the end of the response body. 10 seconds when zero.
	Timeout time.Duration

	// ConnsPerHost is how many connections one host may occupy; further calls to it wait for one. 64 when zero.
	ConnsPerHost int

	// IdleConns is how many idle connections are kept in all, each of about 33 KB. 2,000 when zero.
	IdleConns int

	// Resolver resolves names. [net.DefaultResolver] when nil.
	Resolver Resolver

	// Dial connects to an address that has passed all checks. A plain TCP dialler when nil. Tests use it to stand in for
	// the Internet; it is never given an address that was refused.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)

	// RootCAs are the authorities that a host's certificate may come from. The system's when nil.
	RootCAs *x509.CertPool
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Timeout == 0 {
		out.Timeout = 10 * time.Second
	}
	if out.ConnsPerHost == 0 {
		out.ConnsPerHost = 64
	}
	if out.IdleConns == 0 {
		out.IdleConns = 2000
	}
	if out.Resolver == nil {
		out.Resolver = net.DefaultResolver
	}
	if out.Dial == nil {
		out.Dial = dialTCP
	}
	return out
}

func dialTCP(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}

// Guard makes calls that reach public addresses only. It is an [http.RoundTripper] with its own pool of connections, so
// one Guard serves each purpose for the life of the program. It is safe for concurrent use.
type Guard struct {
	opts      Options
	tls       *tls.Config
	transport *http.Transport
}

// New returns a Guard. Nil options are the zero Options.
func New(opts *Options) *Guard {
	g := &Guard{opts: opts.withDefaults()}
	g.tls = &tls.Config{RootCAs: g.opts.RootCAs, NextProtos: []string{"http/1.1"}}
	g.transport = g.newTransport()
	return g
}

// checkAddr is CheckAddr with the exception that Options.NAT64 makes.
func (g *Guard) checkAddr(addr netip.Addr) error {
	if g.opts.NAT64 && nat64.Contains(addr) {
		return CheckAddr(embedded4(addr))
	}
	return CheckAddr(addr)
}

func (g *Guard) checkHost(h host) error {
	if err := h.check(g.checkAddr); err != nil {
		return err
	}
	return g.opts.Allowlist.check(h)
}
