package egress_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/herald-relay/herald/internal/egress"
)

// publicCase is one call by a client of an unconfigured guard. want is the kind of its error; a call that succeeds, or fails after
// it connected, has dialled exactly the addresses in dials. "https://" may be left out of url.
type publicCase struct {
	name  string
	url   string
	zone  []reply // about the host name of the URL
	want  egress.Kind
	dials []string
}

var publicCases = []publicCase{
	{name: "case 001", url: "[::ffff:127.0.0.1]/h", want: egress.NotPublic},
	{name: "case 002 hexadecimal", url: "[::ffff:7f00:1]/h", want: egress.NotPublic},
	{name: "case 002 failed look-up", url: "gone.example/h", zone: []reply{{rcode: dnsmessage.RCodeNameError}}, want: egress.Unreachable},
	{name: "case 004 NAT64", url: "[64:ff9b::a9fe:a9fe]/", want: egress.NotPublic},
	{name: "case 004 local NAT64", url: "[64:ff9b:1::a9fe:a9fe]/", want: egress.NotPublic},
	{name: "case 004 6to4", url: "[2002:7f00:1::1]/", want: egress.NotPublic},
	{name: "case 004 Teredo", url: "[2001:0:4136:e378:8000:63bf:80ff:fffe]/", want: egress.NotPublic},
	{name: "case 004 translated", url: "[::ffff:0:7f00:1]/", want: egress.NotPublic},
	{name: "case 004 ISATAP", url: "[::5efe:7f00:1]/", want: egress.NotPublic},
	{name: "case 004 ISATAP, public prefix", url: "[2606:4700:1:2:0:5efe:7f00:1]/", want: egress.NotPublic},
	{name: "case 004 ISATAP, unique", url: "[2606:4700:1:2:200:5efe:7f00:1]/", want: egress.NotPublic},
	{name: "case 004 compatible", url: "[::7f00:1]/", want: egress.NotPublic},
	{name: "case 004 NAT64 of a public address", url: "[64:ff9b::808:808]/", want: egress.NotPublic},
	{name: "case 004 NAT64 record", url: "v6.example/", zone: answer("64:ff9b::a9fe:a9fe"), want: egress.NotPublic},
	{name: "case 004 local NAT64 record", url: "v6.example/", zone: answer("64:ff9b:1::a9fe:a9fe"), want: egress.NotPublic},
	{name: "case 004 6to4 record", url: "v6.example/", zone: answer("2002:7f00:1::1"), want: egress.NotPublic},
	{name: "case 004 Teredo record", url: "v6.example/", zone: answer("2001:0:4136:e378:8000:63bf:80ff:fffe"), want: egress.NotPublic},
	{name: "case 004 translated record", url: "v6.example/", zone: answer("::ffff:0:7f00:1"), want: egress.NotPublic},
	{name: "case 004 ISATAP record", url: "v6.example/", zone: answer("2606:4700:1:2:0:5efe:7f00:1"), want: egress.NotPublic},
	{name: "case 004 compatible record", url: "v6.example/", zone: answer("::7f00:1"), want: egress.NotPublic},
	{name: "case 004 mapped record", url: "v6.example/", zone: answer("::ffff:127.0.0.1"), want: egress.NotPublic},
	{name: "case 006 first", url: "100.64.0.1/", want: egress.NotPublic},
	{name: "case 006 last", url: "100.127.255.254/", want: egress.NotPublic},
	{name: "case 006 neighbour", url: "100.128.0.1/", want: egress.TLS, dials: []string{"100.128.0.1"}}, // is not the receiver
	{name: "case 007 one number", url: "2130706433/", want: egress.Malformed},
	{name: "case 007 hexadecimal", url: "0x7f000001/", want: egress.Malformed},
	{name: "case 007 octal", url: "0177.0.0.1/", want: egress.Malformed},
	{name: "case 007 two parts", url: "127.1/", want: egress.Malformed},
	{name: "case 007 zero", url: "0/", want: egress.Malformed},
	{name: "case 007 hexadecimal last part", url: "example.0x7f/", want: egress.Malformed},
	{name: "case 011 metadata", url: "cloud.example/", zone: answer("169.254.169.254"), want: egress.NotPublic},
	{name: "case 011 metadata, IPv6", url: "cloud.example/", zone: answer("fd00:ec2::254"), want: egress.NotPublic},
	{name: "case 016 password", url: "user:pa%40ss@example.com/h", want: egress.Malformed},
	{name: "case 016 host as user", url: "example.com@127.0.0.1/", want: egress.Malformed},
	{name: "case 016 host as fragment", url: "127.0.0.1#@example.com/", want: egress.Malformed},
	{name: "case 017 bracketed name", url: "[example.com]/", want: egress.Malformed},
	{name: "case 017 port 0", url: "example.com:0/", want: egress.Malformed},
	{name: "case 017 canary's port", url: "127.0.0.1:{canary}/", want: egress.Malformed},
	{name: "case 144 single label", url: "relay/", want: egress.InnerName},
	{name: "case 144 local", url: "x.local/", want: egress.InnerName},
	{name: "case 144 internal", url: "x.internal/", want: egress.InnerName},
	{name: "case 144 home", url: "x.home.arpa/", want: egress.InnerName},
	{name: "case 144 localhost", url: "LOCALHOST./", want: egress.InnerName},
	{name: "case 144 final dot", url: "example.com./", zone: answer(public4), dials: []string{public4}},

	{name: "plain", url: "example.com/", zone: answer(public4), dials: []string{public4}},
	{name: "plain IPv6", url: "example.com/", zone: answer(public6), dials: []string{public6}},
	{name: "literal", url: public4 + "/", dials: []string{public4}},
	{name: "literal IPv6", url: "[" + public6 + "]/", dials: []string{public6}},
	{name: "public, then private", url: "example.com/", zone: answer(public4, "10.0.0.1"), want: egress.NotPublic},
	{name: "private, then public", url: "example.com/", zone: answer("10.0.0.1", public4), want: egress.NotPublic},
	{name: "public IPv4, private IPv6", url: "example.com/", zone: answer(public4, "fd00::1"), want: egress.NotPublic},
	{name: "public IPv4, mapped public IPv6", url: "example.com/", zone: answer(public4, "::ffff:"+public4), want: egress.NotPublic},
	{name: "the private one is the 50th", url: "example.com/", zone: answer(append(many(49), "10.0.0.1")...), want: egress.NotPublic},
	{name: "no records", url: "example.com/", zone: []reply{{}}, want: egress.Unreachable},
	{name: "server failure", url: "example.com/", zone: []reply{{rcode: dnsmessage.RCodeServerFailure}}, want: egress.Unreachable},
	{name: "alias of a public name", url: "example.com/", zone: []reply{{cnames: []string{"a.example", "b.example"}, addrs: []string{public4}}}, dials: []string{public4}},
	{name: "alias of a private name", url: "example.com/", zone: []reply{{cnames: []string{"a.example", "b.internal"}, addrs: []string{"10.0.0.1"}}}, want: egress.NotPublic},
	{name: "alias of localhost", url: "example.com/", zone: []reply{{cnames: []string{"localhost"}, addrs: []string{"127.0.0.1"}}}, want: egress.NotPublic},
	{name: "alias of nothing", url: "example.com/", zone: []reply{{cnames: []string{"a.example"}}}, want: egress.Unreachable},
	{name: "alias of itself", url: "example.com/", zone: []reply{{cnames: []string{"example.com"}}}, want: egress.Unreachable},
}

// answer is a zone that always says the same.
func answer(addrs ...string) []reply { return []reply{{addrs: addrs}} }

// many returns n different public addresses.
func many(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("93.184.215.%d", i+100))
	}
	return out
}

func TestPublicCases(t *testing.T) {
	for _, c := range publicCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name, _, _ := strings.Cut(c.url, "/")
			w := newWorld(t, map[string][]reply{strings.TrimSuffix(name, "."): c.zone}, nil)
			_, canaryPort, _ := strings.Cut(w.canary.Addr().String(), ":")
			url := "https://" + strings.ReplaceAll(c.url, "{canary}", canaryPort)

			_, err := w.Guard(t, egress.Options{}).CheckURL(url)
			if kind := egress.KindOf(err); kind != c.want && c.zone == nil && c.dials == nil {
				t.Errorf("CheckURL(%q) = %v, want kind %v without any look-up", url, err, c.want)
			}
			err = call(t, w, url)
			if kind := egress.KindOf(err); kind != c.want {
				t.Errorf("POST %s: %v (kind %v), want kind %v", url, err, kind, c.want)
			}
			if diff := cmp.Diff(c.dials, w.Dialled()); diff != "" {
				t.Errorf("dialled (-want +got):\n%s", diff)
			}
			if len(c.dials) == 0 {
				w.WantUntouched(t)
			}
		})
	}
}

// call posts to url, even to one that http.NewRequest would not take.
func call(t *testing.T, w *world, url string) error {
	g := w.Guard(t, egress.Options{})
	u, err := g.CheckURL(url)
	if egress.KindOf(err) == egress.Malformed {
		return err // nothing that could be put into a request
	}
	target := url
	if err == nil {
		target = u.String()
	}
	status, err := post(t.Context(), g.Client(), target)
	if err == nil && status != http.StatusNoContent {
		t.Errorf("POST %s: status %d", url, status)
	}
	return err
}
