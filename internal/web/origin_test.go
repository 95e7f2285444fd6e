package web_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/web"
)

// from makes a request that arrived from peer for host, with pairs of header names and values.
func from(peer, host string, header ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr, r.Host = peer, host
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}

// TestTheOriginFollowsTheRequest holds decision 28.
func TestTheOriginFollowsTheRequest(t *testing.T) {
	t.Parallel()
	const proxy, stranger = "10.0.0.9:40000", "192.0.2.7:40000"
	tests := map[string]struct {
		public string
		r      *http.Request
		want   string
	}{
		"the Host it was sent to":                {r: from(stranger, "relay.example:8787"), want: "http://relay.example:8787"},
		"a configured origin always wins":        {public: "https://relay.example", r: from(proxy, "other.example", "X-Forwarded-Host", "third.example"), want: "https://relay.example"},
		"a trusted proxy's host and scheme":      {r: from(proxy, "inner:80", "X-Forwarded-Host", "relay.example", "X-Forwarded-Proto", "https"), want: "https://relay.example"},
		"a trusted proxy over IPv6":              {r: from("[fd00::1]:4000", "inner:80", "X-Forwarded-Proto", "https"), want: "https://inner:80"},
		"a trusted proxy in mapped form":         {r: from("[::ffff:10.0.0.9]:4000", "inner", "X-Forwarded-Proto", "https"), want: "https://inner"},
		"a stranger's forwarding headers":        {r: from(stranger, "relay.example", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https"), want: "http://relay.example"},
		"what the nearest proxy added, in one":   {r: from(proxy, "inner", "X-Forwarded-Host", "evil.example, relay.example", "X-Forwarded-Proto", "http, https"), want: "https://relay.example"},
		"what the nearest proxy added, in two":   {r: from(proxy, "inner", "X-Forwarded-Host", "evil.example", "X-Forwarded-Host", "relay.example"), want: "http://relay.example"},
		"a scheme that is none of ours":          {r: from(proxy, "inner", "X-Forwarded-Proto", "javascript"), want: "http://inner"},
		"a forwarded host that is no host":       {r: from(proxy, "inner", "X-Forwarded-Host", `x" onload="`), want: "http://inner"},
		"a forwarded host with a path":           {r: from(proxy, "inner", "X-Forwarded-Host", "relay.example/evil"), want: "http://inner"},
		"a forwarded host with a user":           {r: from(proxy, "inner", "X-Forwarded-Host", "user@relay.example"), want: "http://inner"},
		"an empty forwarded host":                {r: from(proxy, "inner", "X-Forwarded-Host", ""), want: "http://inner"},
		"a forwarded host of excessive length":   {r: from(proxy, "inner", "X-Forwarded-Host", strings.Repeat("a", 256)), want: "http://inner"},
		"a forwarded IPv6 literal with a port":   {r: from(proxy, "inner", "X-Forwarded-Host", "[2001:db8::1]:8443"), want: "http://[2001:db8::1]:8443"},
		"a peer without an address":              {r: from("@", "relay.example", "X-Forwarded-Host", "evil.example"), want: "http://relay.example"},
		"the RFC 7239 header, which is not read": {r: from(proxy, "inner", "Forwarded", "host=evil.example;proto=https"), want: "http://inner"},
	}
	for name, test := range tests {
		o := &web.Origins{Public: test.public, Trusted: proxies}
		if got := o.Of(test.r); got != test.want {
			t.Errorf("%s: origin = %s, want %s", name, got, test.want)
		}
	}
	secure := from(stranger, "relay.example")
	secure.TLS = &tls.ConnectionState{}
	if got := (&web.Origins{}).Of(secure); got != "https://relay.example" {
		t.Errorf("over TLS the origin is %s", got)
	}
}

func TestTheAddressIsTheNearestHopNobodyVouchesFor(t *testing.T) {
	t.Parallel()
	const proxy = "10.0.0.9:40000"
	tests := map[string]struct {
		r    *http.Request
		want string
	}{
		"a direct peer":                        {from("192.0.2.7:40000", ""), "192.0.2.7"},
		"a direct peer that claims another":    {from("192.0.2.7:40000", "", "X-Forwarded-For", "198.51.100.1"), "192.0.2.7"},
		"an IPv6 peer counts as its network":   {from("[2001:db8:1:2:3:4:5:6]:40000", ""), "2001:db8:1:2::/64"},
		"a zone does not make another":         {from("[fe80::1%eth0]:40000", ""), "fe80::/64"},
		"a mapped IPv4 peer":                   {from("[::ffff:192.0.2.7]:40000", ""), "192.0.2.7"},
		"behind a proxy":                       {from(proxy, "", "X-Forwarded-For", "198.51.100.1"), "198.51.100.1"},
		"behind two proxies":                   {from(proxy, "", "X-Forwarded-For", "198.51.100.1, 10.1.1.1"), "198.51.100.1"},
		"what the client made up stays behind": {from(proxy, "", "X-Forwarded-For", "203.0.113.5, 198.51.100.1, 10.1.1.1"), "198.51.100.1"},
		"headers in two lines":                 {from(proxy, "", "X-Forwarded-For", "203.0.113.5", "X-Forwarded-For", "198.51.100.1"), "198.51.100.1"},
		"an IPv6 client behind a proxy":        {from(proxy, "", "X-Forwarded-For", "2001:db8:1:2::9"), "2001:db8:1:2::/64"},
		"a port behind the address":            {from(proxy, "", "X-Forwarded-For", "203.0.113.5, 198.51.100.1:40001"), "198.51.100.1"},
		"a port behind an IPv6 address":        {from(proxy, "", "X-Forwarded-For", "[2001:db8:1:2::9]:40001"), "2001:db8:1:2::/64"},
		"junk ends the search at the proxy":    {from(proxy, "", "X-Forwarded-For", "198.51.100.1, unknown"), "10.0.0.9"},
		"an empty header":                      {from(proxy, "", "X-Forwarded-For", ""), "10.0.0.9"},
		"no header":                            {from(proxy, ""), "10.0.0.9"},
		"nothing but proxies":                  {from(proxy, "", "X-Forwarded-For", "10.2.2.2, 10.1.1.1"), "10.2.2.2"},
		"a peer without an address":            {from("@", "", "X-Forwarded-For", "198.51.100.1"), "@"},
	}
	for name, test := range tests {
		o := &web.Origins{Trusted: proxies}
		if got := o.Address(test.r); got != test.want {
			t.Errorf("%s: address = %s, want %s", name, got, test.want)
		}
	}
}

// TestALoopbackRelayAnswersLoopbackNamesOnly holds decision 28 and public case 137: rebinding a name to 127.0.0.1 leads
// nowhere.
func TestALoopbackRelayAnswersLoopbackNamesOnly(t *testing.T) {
	t.Parallel()
	o := &web.Origins{LoopbackOnly: true}
	for _, host := range []string{
		"localhost", "localhost:8787", "LOCALHOST", "localhost.", "localhost.:80", "127.0.0.1", "127.0.0.1:1", "127.9.9.9", "[::1]", "[::1]:8787",
		"[::ffff:127.0.0.1]:80", "::1",
	} {
		if err := o.CheckHost(from("127.0.0.1:4", host)); err != nil {
			t.Errorf("Host %q is refused: %v", host, err)
		}
	}
	for _, host := range []string{
		"", "evil.test", "evil.test:8787", "localhost.evil.test", "127.0.0.1.evil.test", "localhost:8787.evil.test", "0.0.0.0", "0.0.0.0:8787", "192.168.1.2",
		"[::]", "[fe80::1]", "[::1].evil.test", "evil.test:127.0.0.1", "127.1", "2130706433", "localhost ", "localhost@evil.test", ":8787", "..", "[::1", "127.0.0.1]",
	} {
		err := o.CheckHost(from("127.0.0.1:4", host))
		if !fault.Is(err, fault.Forbidden) || fault.From(err).Code != "forbidden" {
			t.Errorf("Host %q: err = %v, want forbidden", host, err)
		}
		if (&web.Origins{}).CheckHost(from("127.0.0.1:4", host)) != nil {
			t.Errorf("Host %q is refused by a relay that answers every name", host)
		}
	}
}

// FuzzOrigin holds that whatever a proxy forwards, the origin stays a scheme and a host that nothing can be smuggled in.
func FuzzOrigin(f *testing.F) {
	f.Add("relay.example", "https")
	f.Add("a, b", "http,https")
	f.Add(`x"><script>`, "javascript:")
	f.Add("[2001:db8::1]:8443", "HTTPS")
	f.Add("a\r\nb", "")
	f.Fuzz(func(t *testing.T, host, proto string) {
		o := &web.Origins{Trusted: proxies}
		got := o.Of(from("10.0.0.9:4", "inner.example", "X-Forwarded-Host", host, "X-Forwarded-Proto", proto))
		scheme, rest, _ := strings.Cut(got, "://")
		if scheme != "http" && scheme != "https" || rest == "" || strings.ContainsAny(rest, "/\\@?#\"'<> \t\r\n,") {
			t.Errorf("X-Forwarded-Host %q, X-Forwarded-Proto %q: origin %q", host, proto, got)
		}
		if u, err := url.Parse(got); err == nil && (u.Path != "" || u.User != nil || u.RawQuery != "") {
			t.Errorf("X-Forwarded-Host %q: origin %q is more than an origin", host, got)
		}
	})
}

// FuzzAddress holds that an address is one the network or a trusted proxy gave, in one spelling.
func FuzzAddress(f *testing.F) {
	f.Add("10.0.0.9:4", "198.51.100.1, 10.1.1.1")
	f.Add("192.0.2.7:4", "198.51.100.1")
	f.Add("[fe80::1%eth0]:4", "::1")
	f.Add("10.0.0.9:4", "fe80::1%eth0, ::ffff:10.0.0.1")
	f.Add("@", ",,,")
	f.Fuzz(func(t *testing.T, peer, forwarded string) {
		o := &web.Origins{Trusted: proxies}
		got := o.Address(from(peer, "", "X-Forwarded-For", forwarded))
		if got == peer {
			return // no address at all: a unix socket
		}
		a, err := netip.ParseAddr(got)
		if p, perr := netip.ParsePrefix(got); perr == nil {
			if a, err = p.Addr(), nil; p.Bits() != 64 || p != p.Masked() {
				t.Errorf("peer %q, forwarded %q: %q is no /64 network", peer, forwarded, got)
			}
		}
		if err != nil || a.Zone() != "" || a.Is4In6() {
			t.Errorf("peer %q, forwarded %q: address %q", peer, forwarded, got)
		}
	})
}

// FuzzLoopbackName holds that only names that lead to this machine pass.
func FuzzLoopbackName(f *testing.F) {
	for _, host := range []string{"localhost:1", "[::1]", "127.0.0.1.evil.test", "evil.test", "localhost.:8", "::1", "[[::1]]", "[::1", "127.0.0.1]"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if (&web.Origins{LoopbackOnly: true}).CheckHost(from("127.0.0.1:4", host)) != nil {
			return
		}
		u := url.URL{Host: host}
		name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		a, err := netip.ParseAddr(strings.Trim(name, "[]"))
		bare, bareErr := netip.ParseAddr(host) // an IPv6 literal that somebody forgot to bracket
		if name != "localhost" && (err != nil || !a.Unmap().IsLoopback()) && (bareErr != nil || !bare.Unmap().IsLoopback()) {
			t.Errorf("Host %q passes as loopback", host)
		}
	})
}
