package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/herald-relay/herald/internal/egress"
)

var errDialled = errors.New("dialled")

// FuzzNothingPrivateIsDialled gives any URL and any records of its host to a client, and holds every address that is dialled
// against judgements that the guard does not share.
func FuzzNothingPrivateIsDialled(f *testing.F) {
	for _, c := range publicCases {
		var records []byte
		for _, r := range c.zone {
			for _, text := range r.addrs {
				addr := netip.MustParseAddr(text).AsSlice()
				records = append(append(records, byte(len(addr))), addr...)
			}
		}
		f.Add("https://"+c.url, records)
	}
	for _, raws := range malformedURLs {
		for _, raw := range raws {
			f.Add(raw, []byte{4, 127, 0, 0, 1})
		}
	}
	f.Add("http://127.0.0.1:8080/", []byte{4, 127, 0, 0, 1})
	f.Fuzz(func(t *testing.T, raw string, records []byte) {
		answer := addresses(records)
		var lookups int
		resolver := lookup(func(context.Context, string) ([]netip.Addr, error) { lookups++; return answer, nil })
		dial := func(_ context.Context, addr netip.AddrPort) (net.Conn, error) {
			if a := addr.Addr(); secondOpinion.SafeAddr(a) != nil || a.IsPrivate() || a.IsLoopback() || !a.IsGlobalUnicast() || addr.Port() != 443 {
				t.Errorf("%q with %v: dialled %v", raw, answer, addr)
			}
			return nil, errDialled
		}
		g := egress.New(&egress.Options{Resolver: resolver, Dial: dial})
		_, err := g.RoundTrip(&http.Request{Method: http.MethodGet, URL: lenient(raw), Header: http.Header{}})
		if err == nil || lookups > 1 {
			t.Fatalf("%q: %v after %d look-ups, want a failure after at most one", raw, err, lookups)
		}
		checkAccepted(t, g, raw)
	})
}

// addresses reads records, each a byte that is 16 for IPv6 and anything else for IPv4, and then the address.
func addresses(b []byte) (out []netip.Addr) {
	for len(b) > 0 {
		size := 4
		if b[0] == 16 {
			size = 16
		}
		if len(b) <= size {
			break
		}
		addr, _ := netip.AddrFromSlice(b[1 : 1+size])
		out, b = append(out, addr), b[1+size:]
	}
	return out
}

// lenient makes a request's URL of anything, as a careless caller might.
func lenient(raw string) *url.URL {
	if u, err := url.Parse(raw); err == nil {
		return u
	}
	return &url.URL{Scheme: "https", Host: raw, Path: "/"}
}

// checkAccepted holds an accepted URL against the promises of Parse and CheckURL.
func checkAccepted(t *testing.T, g *egress.Guard, raw string) {
	u, err := g.CheckURL(raw)
	if err != nil {
		if !egress.KindOf(err).Refused() {
			t.Errorf("CheckURL(%q): kind %v", raw, egress.KindOf(err))
		}
		return
	}
	text := u.String()
	if again, err := egress.Parse(text); err != nil || again.String() != text {
		t.Errorf("%q becomes %q, and that becomes %v, %v", raw, text, again, err)
	}
	if u.Scheme != "https" || u.User != nil || u.Port() != "" || u.Fragment != "" || u.Path == "" || len(text) > egress.MaxURL {
		t.Errorf("%q accepted as %#v", raw, u)
	}
	std, err := url.Parse(text)
	if err != nil || std.Hostname() != u.Hostname() {
		t.Errorf("net/url reads %q as %v, %v", text, std, err)
	}
}

// FuzzCheckAddr holds the verdict about any address against the second opinion.
func FuzzCheckAddr(f *testing.F) {
	for _, row := range notPublic {
		f.Add(netip.MustParseAddr(row.first).AsSlice())
		f.Add(netip.MustParseAddr(row.last).AsSlice())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		agrees(t, addr)
		if public := egress.CheckAddr(addr) == nil; public != !isListed(addr) && !isISATAP(addr) {
			t.Errorf("%v: public %v, against the table of the tests", addr, public)
		}
		if isISATAP(addr) && egress.CheckAddr(addr) == nil {
			t.Errorf("%v embeds an IPv4 address and passes", addr)
		}
	})
}

func isISATAP(addr netip.Addr) bool {
	b := addr.AsSlice()
	return len(b) == 16 && (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
