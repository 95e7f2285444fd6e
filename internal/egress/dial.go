package egress

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// DialContext connects to a host, in the manner of [net.Dialer.DialContext], by the same rules as the rest of the Guard:
// network must be "tcp", and address a host and port that CheckURL would accept. It resolves the host at most once,
// refuses it if any of its addresses is not public, and connects to the addresses that it checked, one after the other.
// It gives up after 8 seconds. Every error is an [*Error].
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	h, port, err := g.checkTarget(network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	addrs, err := g.resolve(ctx, h)
	if err != nil {
		return nil, err
	}
	return g.connect(ctx, h, addrs, port)
}

func (g *Guard) checkTarget(network, address string) (host, uint16, error) {
	name, service, err := net.SplitHostPort(address)
	port, portErr := strconv.ParseUint(service, 10, 16)
	if network != "tcp" || err != nil || portErr != nil || port == 0 {
		return host{}, 0, malformed("must lead to a TCP host and port", err)
	}
	h, err := parseHost(name)
	if err != nil {
		return host{}, 0, err
	}
	if g.isDevReceiver("http", h.addr) {
		return h, uint16(port), nil
	}
	if port != 443 && !g.opts.AnyPort {
		return host{}, 0, malformed("must use the default port", nil)
	}
	return h, uint16(port), g.checkHost(h)
}

// resolve returns all addresses of h, if all of them are public.
func (g *Guard) resolve(ctx context.Context, h host) ([]netip.Addr, error) {
	if h.addr.IsValid() {
		return []netip.Addr{h.addr}, nil // checked with the host
	}
	addrs, err := g.opts.Resolver.LookupNetIP(ctx, "ip", h.name+".")
	if err != nil || len(addrs) == 0 {
		return nil, failed(Unreachable, h.name, "names a host that does not resolve", err)
	}
	for _, addr := range addrs {
		if err := g.checkAddr(addr); err != nil {
			return nil, &Error{Kind: NotPublic, Host: h.name, Detail: "must name a public host", Err: err}
		}
	}
	return addrs, nil
}

// connect tries a few of addrs in order, giving each its share of the time that is left, and reports the first failure.
func (g *Guard) connect(ctx context.Context, h host, addrs []netip.Addr, port uint16) (net.Conn, error) {
	addrs = addrs[:min(len(addrs), maxDials)]
	var first error
	for i, addr := range addrs {
		conn, err := g.dialShare(ctx, netip.AddrPortFrom(addr, port), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, failed(Unreachable, h.name, "names a host that could not be reached", first)
}

func (g *Guard) dialShare(ctx context.Context, addr netip.AddrPort, shares int) (net.Conn, error) {
	deadline, _ := ctx.Deadline() // DialContext has set one
	ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares))
	defer cancel()
	return g.opts.Dial(ctx, addr)
}
