package egress_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/egress"
)

func TestParseNormalises(t *testing.T) {
	for raw, want := range map[string]string{
		"https://example.com":                        "https://example.com/",
		"HTTPS://EXAMPLE.com./":                      "https://example.com/",
		"https://example.com:443/":                   "https://example.com/",
		"https://example.com:0443/":                  "https://example.com/",
		"https://example.com:/":                      "https://example.com/",
		"https://example.com:8443":                   "https://example.com:8443/",
		"http://example.com:80/":                     "http://example.com/",
		"http://example.com:443/":                    "http://example.com:443/",
		"https://example.com?q":                      "https://example.com/?q",
		"https://example.com/?":                      "https://example.com/?",
		"https://example.com/A/b?C=d":                "https://example.com/A/b?C=d",
		"https://example.com/a/./b/../c":             "https://example.com/a/c",
		"https://example.com/../../x":                "https://example.com/x",
		"https://example.com//a//b/":                 "https://example.com//a//b/",
		"https://example.com/%7Ea/%2F%2e?x=%2f%7e":   "https://example.com/%7Ea/%2F%2e?x=%2f%7e",
		"https://example.com/?f[a]=b&c='d'":          "https://example.com/?f[a]=b&c='d'",
		"https://1.1.1.1.":                           "https://1.1.1.1/",
		"https://[2606:4700:0:0:0::1111]:443/x":      "https://[2606:4700::1111]/x",
		"https://[2606:4700::AbCd]":                  "https://[2606:4700::abcd]/",
		"https://127.0.0.1/":                         "https://127.0.0.1/", // Parse does not judge
		"https://localhost/x":                        "https://localhost/x",
		"https://my_app.example.com/":                "https://my_app.example.com/",
		"https://xn--bcher-kva.example/":             "https://xn--bcher-kva.example/",
		"https://a.b-c.3d/":                          "https://a.b-c.3d/",
		"https://" + strings.Repeat("a.", 126) + "b": "https://" + strings.Repeat("a.", 126) + "b/",
	} {
		u, err := egress.Parse(raw)
		if err != nil || u.String() != want {
			t.Errorf("Parse(%q) = %v, %v, want %s", raw, u, err, want)
			continue
		}
		if again, err := egress.Parse(u.String()); err != nil || again.String() != want {
			t.Errorf("Parse(%q) of its own result = %v, %v", want, again, err)
		}
	}
}

// malformedURLs are no URLs that may be called, by a word of the detail that says why.
var malformedURLs = map[string][]string{
	"absolute": {"", "/", "example.com", "//example.com/", "https:example.com", "https:/example.com", "https://", "https:///x", "https://:443/",
		"https://[::1", "https://[example.com]/", "https://[1.1.1.1]/", "https://[]/", "https://[1.1.1.1]x/", "https://example.com:port/", "https://example.com:-1/",
		"https://2606:4700::1111/", "https://::1/", "https://1::2:443/", "https://%65xample.com/", "1https://example.com/"},
	"https":    {"ftp://example.com/", "javascript:alert(1)", "data:text/plain,x", "ws://example.com/", "httpss://example.com/"},
	"user":     {"https://u@example.com/", "https://u:p@example.com/", "https://@example.com/", "https://:@example.com/", "https://user:pa%40ss@example.com/h", "https://a@b@example.com/", "https://example.com%2f@x/"},
	"fragment": {"https://example.com/#", "https://example.com/#x", "https://127.0.0.1#@example.com/"},
	"digits":   {"https://example.com/%", "https://example.com/%4", "https://example.com/%zz", "https://example.com/?%g0", "https://%"},
	"3986": {" https://example.com/", "https://a b/", "https://example.com/ ", "https://example.com/\n", "https://exa\tmple.com/", "https://example.com\\@127.0.0.1/", "https://example.com/\x00",
		"https://bücher.example/", "https://127。0。0。1/", "https://１２７.0.0.1/", "https://example.com/ü", "https://example.com/?a b", "https://example.com/<x>", "https://example.com/\x7f",
		"https://example.com/\"", "https://example.com/a|b", "https://example.com/\xff"},
	"port":       {"https://example.com:0/", "https://example.com:65536/", "https://example.com:65979/", "https://example.com:99999999999999999999/"},
	"characters": {"https://example.com/" + strings.Repeat("a", 2029), "https://example.com?" + strings.Repeat("a", 2028)}, // 2049, and 2049 with its slash
	"name a host": {"https://2130706433/", "https://0x7f000001/", "https://0X7F000001/", "https://0177.0.0.1/", "https://127.1/", "https://127.0.1/", "https://0/", "https://1.1.1.256/",
		"https://1.1.1.1.1/", "https://01.1.1.1/", "https://0x1.1.1.1/", "https://example.0x7f/", "https://example.0x/", "https://example.1/", "https://./", "https://../", "https://example..com/", "https://.example.com/",
		"https://example.com../", "https://-a.example.com/", "https://a-.example.com/", "https://*.example.com/", "https://exam!ple.com/", "https://exa,mple.com/",
		"https://" + strings.Repeat("a", 64) + ".com/", "https://" + strings.Repeat("a.", 126) + "bc/"},
}

func TestParseRefuses(t *testing.T) {
	for word, raws := range malformedURLs {
		for _, raw := range raws {
			u, err := egress.Parse(raw)
			e, ok := errors.AsType[*egress.Error](err)
			if !ok || e.Kind != egress.Malformed || !strings.Contains(e.Detail, word) {
				t.Errorf("Parse(%q) = %v, %v; want it malformed, with %q in the detail", raw, u, err, word)
			}
		}
	}
}

// The SSRF table of contract/mcp-events.md, e.6, without its names (they are in TestPublicCases) and records.
func TestCheckURLRefusesTheTableOfTheContract(t *testing.T) {
	g := egress.New(nil)
	for _, host := range []string{"0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1",
		"255.255.255.255", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[100::1]", "[2001:db8::1]",
		"[3fff::1]", "[5f00::1]", "[fc00::1]", "[fd00::1]", "[fe80::1]", "[fe80::1%25eth0]", "[ff02::1]", "[2606:4700::1111%25eth0]", "localhost", "a.localhost",
		"router", "x.local", "x.internal", "x.home.arpa", "home.arpa", "local", "X.LOCAL.", "u:p@h.example"} {
		if u, err := g.CheckURL("https://" + host + "/"); !egress.KindOf(err).Refused() {
			t.Errorf("host %s: %v, %v, want a refusal", host, u, err)
		}
	}
	for _, host := range []string{"172.32.0.1", "100.128.0.1", "1.1.1.1", "[2606:4700::1111]", "notlocal.example", "local.example", "home.arpa.example", "xlocalhost.example"} {
		if _, err := g.CheckURL("https://" + host + "/"); err != nil {
			t.Errorf("host %s: %v, want it accepted", host, err)
		}
	}
}

func TestCheckURLJudgesInOrder(t *testing.T) {
	hosts, err := egress.ParseAllowlist([]string{"example.com"})
	if err != nil {
		t.Fatal(err)
	}
	strict, anyPort := egress.New(&egress.Options{Allowlist: hosts}), egress.New(&egress.Options{AnyPort: true})
	for _, c := range []struct {
		guard  *egress.Guard
		raw    string
		kind   egress.Kind
		detail string
	}{
		{strict, "http://10.0.0.1:8080/", egress.Malformed, "must use https"},
		{strict, "https://10.0.0.1:8080/", egress.Malformed, "must use the default port"},
		{strict, "https://10.0.0.1/", egress.NotPublic, "must name a public host"},
		{strict, "https://relay/", egress.InnerName, "must name a public host"},
		{strict, "https://sub.example.com/", egress.NotListed, "names a host that may not be called"},
		{strict, "https://EXAMPLE.com./", egress.None, ""},
		{anyPort, "https://example.com:8443/", egress.None, ""},
		{anyPort, "http://example.com:8443/", egress.Malformed, "must use https"},
		{anyPort, "https://127.0.0.1:8443/", egress.NotPublic, "must name a public host"},
	} {
		u, err := c.guard.CheckURL(c.raw)
		if kind := egress.KindOf(err); kind != c.kind || (u == nil) != (err != nil) {
			t.Errorf("CheckURL(%q) = %v, %v, want kind %v", c.raw, u, err, c.kind)
		}
		if e, ok := errors.AsType[*egress.Error](err); ok && e.Detail != c.detail {
			t.Errorf("CheckURL(%q): detail %q, want %q", c.raw, e.Detail, c.detail)
		}
	}
}

func TestErrorsNameTheHostAndNoMoreOfTheURL(t *testing.T) {
	for _, raw := range []string{"https://localhost/sesame?key=sesame", "https://u:sesame@example.com/", "https://example.com:x/sesame", "https://[sesame/", "gopher://example.com/sesame", "https://10.0.0.1/sesame"} {
		_, err := egress.New(nil).CheckURL(raw)
		if err == nil || strings.Contains(strings.ReplaceAll(err.Error(), "[sesame", ""), "sesame") {
			t.Errorf("CheckURL(%q): %v", raw, err)
		}
		if _, ok := errors.AsType[*url.Error](err); ok {
			t.Errorf("CheckURL(%q): %v holds net/url's error, whose text is the URL", raw, err)
		}
	}
}
