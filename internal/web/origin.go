package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/herald-relay/herald/internal/fault"
)

// Origins knows where requests come from and what the relay is called (decision 28).
type Origins struct {
	// Public is the configured origin, such as "https://relay.example.com"; "" follows each request.
	Public string
	// Trusted are the proxies whose forwarding headers are believed.
	Trusted []netip.Prefix
	// LoopbackOnly refuses requests for other than loopback host names: the relay listens on loopback, has no public
	// name and no proxy in front, so such a request was tricked into coming here.
	LoopbackOnly bool
}

// Of returns the origin by which the caller reached the relay.
func (o *Origins) Of(r *http.Request) string {
	if o.Public != "" {
		return o.Public
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if peer, ok := peerOf(r); ok && o.trusted(peer) {
		if p := strings.ToLower(lastOf(r.Header, "X-Forwarded-Proto")); p == "https" || p == "http" {
			scheme = p
		}
		if h := lastOf(r.Header, "X-Forwarded-Host"); validHost(h) {
			host = h
		}
	}
	return scheme + "://" + host
}

// Address names who sent the request, for limits by address: an IPv4 address, or the /64 network of an IPv6 one. Behind
// trusted proxies it is the nearest hop that is none of them.
func (o *Origins) Address(r *http.Request) string {
	peer, ok := peerOf(r)
	if !ok {
		return r.RemoteAddr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && o.trusted(peer); i-- {
		hop, ok := hopOf(strings.TrimSpace(hops[i]))
		if !ok {
			break
		}
		peer = hop
	}
	if peer.Is6() {
		network, err := peer.Prefix(64)
		if err == nil {
			return network.String()
		}
	}
	return peer.String()
}

// Credential is what the Authorization header says. Of two headers, which a proxy and the relay might read differently,
// it makes a list, which is no credential.
func Credential(r *http.Request) string {
	return strings.Join(r.Header.Values("Authorization"), ", ")
}

// CheckHost refuses what LoopbackOnly describes.
func (o *Origins) CheckHost(r *http.Request) error {
	if !o.LoopbackOnly || loopbackName(r.Host) {
		return nil
	}
	return fault.New(fault.Forbidden, "forbidden",
		"this relay answers to loopback names only, because it has no public origin; its operator sets one with --origin")
}

func (o *Origins) trusted(a netip.Addr) bool {
	for _, p := range o.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func peerOf(r *http.Request) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	return ap.Addr().Unmap().WithZone(""), err == nil
}

// hopOf reads an entry of X-Forwarded-For. Some proxies write the port of the connection behind the address.
func hopOf(entry string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(entry)
	if err != nil {
		var ap netip.AddrPort
		ap, err = netip.ParseAddrPort(entry)
		a = ap.Addr()
	}
	return a.Unmap().WithZone(""), err == nil
}

// lastOf returns the value that the nearest proxy added to a list header.
func lastOf(h http.Header, name string) string {
	values := strings.Split(strings.Join(h.Values(name), ","), ",")
	return strings.TrimSpace(values[len(values)-1])
}

func validHost(h string) bool {
	for i := range len(h) {
		c := h[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._:[]", c) >= 0
		if !ok {
			return false
		}
	}
	return h != "" && len(h) <= 255
}

func loopbackName(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil { // no port
		name, port = host, ""
		if inner, found := strings.CutPrefix(host, "["); found && strings.HasSuffix(inner, "]") {
			name = inner[:len(inner)-1]
		}
	}
	if strings.Trim(port, "0123456789") != "" {
		return false
	}
	if strings.TrimSuffix(strings.ToLower(name), ".") == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Unmap().IsLoopback()
}
