package egress_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/egress"
)

// An outage of the world itself must show, or no test of refusals means anything.
func TestCanarySingsWhenReached(t *testing.T) {
	w := newWorld(t, map[string][]reply{"example.com": answer("9.9.9.9")}, nil)
	_, err := post(t.Context(), w.Guard(t, egress.Options{}).Client(), "https://example.com/")
	if egress.KindOf(err) != egress.TLS || w.sung.Load() != 1 {
		t.Errorf("err %v, canary reached %d times; want a TLS failure and 1", err, w.sung.Load())
	}
}

// case 009: the second answer is private, and nobody asks for it within one call.
func TestCase009RebindingFindsNoSecondLookup(t *testing.T) {
	script := map[string][]reply{"example.com": {{addrs: []string{public4}}, {addrs: []string{"127.0.0.1"}}}}
	w := newWorld(t, script, nil)
	client := w.Guard(t, egress.Options{}).Client()

	if status, err := post(t.Context(), client, "https://example.com/"); status != http.StatusNoContent {
		t.Fatalf("first call: status %d, %v", status, err)
	}
	if n := w.Asked("example.com"); n != 1 {
		t.Errorf("the first call looked the name up %d times, want once", n)
	}
	client.CloseIdleConnections()
	if _, err := post(t.Context(), client, "https://example.com/"); egress.KindOf(err) != egress.NotPublic {
		t.Errorf("second call: %v, want a refusal", err)
	}
	if diff := cmp.Diff([]string{public4}, w.Dialled()); diff != "" || w.sung.Load() != 0 {
		t.Errorf("canary reached %d times, dialled (-want +got):\n%s", w.sung.Load(), diff)
	}
}

// case 012: a redirect is an answer like any other, wherever it points.
func TestCase012RedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"http://127.0.0.1:{canary}/", "https://inner.example/", "https://example.com/again", "/again"} {
			var w *world
			w = newWorld(t, map[string][]reply{"example.com": answer(public4), "inner.example": answer("10.0.0.1")},
				func(rw http.ResponseWriter, _ *http.Request) {
					_, port, _ := strings.Cut(w.canary.Addr().String(), ":")
					rw.Header().Set("Location", strings.ReplaceAll(location, "{canary}", port))
					rw.WriteHeader(status)
				})
			got, err := post(t.Context(), w.Guard(t, egress.Options{}).Client(), "https://example.com/")
			if err != nil || got != status {
				t.Errorf("%d to %s: status %d, %v", status, location, got, err)
			}
			if w.requests.Load() != 1 || w.sung.Load() != 0 || len(w.Dialled()) != 1 {
				t.Errorf("%d to %s: %d requests, canary reached %d times, dialled %v", status, location, w.requests.Load(), w.sung.Load(), w.Dialled())
			}
		}
	}
}

// case 014: what a first call leads to is called by the same rules, whatever the method.
func TestCase014SecondaryCallsAreGuarded(t *testing.T) {
	w := newWorld(t, map[string][]reply{"logo.example": answer("192.168.0.1")}, nil)
	client := w.Guard(t, egress.Options{}).Client()
	for _, target := range []string{"https://logo.example/logo.png", "https://127.0.0.1/.well-known/mcp-webhook-receiver.json",
		"http://example.com/token", "https://metadata.internal/client.json", "ftp://example.com/", "file:///etc/passwd"} {
		resp, err := client.Get(target)
		if !egress.KindOf(err).Refused() {
			t.Errorf("GET %s: %v, %v, want a refusal", target, resp, err)
		}
	}
	w.WantUntouched(t)
}

func TestProxyVariablesAreIgnored(t *testing.T) {
	w := newWorld(t, map[string][]reply{"example.com": answer(public4)}, nil)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://"+w.canary.Addr().String())
	}
	target := &url.URL{Scheme: "https", Host: "example.com"}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target}); proxy == nil {
		t.Fatalf("the variables have no effect on anybody: %v", err)
	}
	if _, err := post(t.Context(), w.Guard(t, egress.Options{}).Client(), target.String()); err != nil {
		t.Error(err)
	}
	if w.sung.Load() != 0 || w.requests.Load() != 1 {
		t.Errorf("proxy reached %d times, receiver %d times; want 0 and 1", w.sung.Load(), w.requests.Load())
	}
}

func TestTLSIsDoneWithTheOriginalHost(t *testing.T) {
	w := newWorld(t, map[string][]reply{"hooks.example": answer(public4), "imposter.example": answer(public4)}, nil)
	var mu sync.Mutex
	var asked []string
	w.receiver.TLS.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, hello.ServerName)
		return nil, nil
	}
	client := w.Guard(t, egress.Options{}).Client()
	if _, err := post(t.Context(), client, "https://Hooks.Example./x"); err != nil {
		t.Errorf("right certificate: %v", err)
	}
	if _, err := post(t.Context(), client, "https://imposter.example/x"); egress.KindOf(err) != egress.TLS {
		t.Errorf("wrong certificate: %v, want kind tls", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"hooks.example", "imposter.example"}, asked); diff != "" {
		t.Errorf("server names asked for (-want +got):\n%s", diff)
	}
}

func TestRequestArrivesPlain(t *testing.T) {
	got := make(chan *http.Request, 1)
	w := newWorld(t, map[string][]reply{"example.com": answer(public4)}, func(_ http.ResponseWriter, r *http.Request) { got <- r })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://EXAMPLE.com.:443/a/../b?q=%2f", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "elsewhere.example"
	resp, err := w.Guard(t, egress.Options{}).Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	r := <-got
	if r.Host != "example.com" || r.RequestURI != "/b?q=%2f" || r.Proto != "HTTP/1.1" || r.Header.Get("Accept-Encoding") != "" {
		t.Errorf("host %q, target %q, %s, accepts %q", r.Host, r.RequestURI, r.Proto, r.Header.Get("Accept-Encoding"))
	}
	if req.URL.String() != "https://EXAMPLE.com.:443/a/../b?q=%2f" || req.Host != "elsewhere.example" {
		t.Error("the caller's request was changed")
	}
}

func TestConnectionsAreKeptAndCapped(t *testing.T) {
	release := make(chan struct{})
	w := newWorld(t, map[string][]reply{"example.com": answer(public4)}, func(http.ResponseWriter, *http.Request) { <-release })
	client := w.Guard(t, egress.Options{ConnsPerHost: 2}).Client()
	var calls sync.WaitGroup
	for range 6 {
		calls.Go(func() {
			if _, err := post(t.Context(), client, "https://example.com/"); err != nil {
				t.Error(err)
			}
		})
	}
	for range 6 {
		release <- struct{}{}
	}
	calls.Wait()
	if n := len(w.Dialled()); n > 2 {
		t.Errorf("6 calls used %d connections, want at most 2", n)
	}
}

func TestLongResponseHeadersAreRefused(t *testing.T) {
	w := newWorld(t, map[string][]reply{"example.com": answer(public4)}, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X", strings.Repeat("x", len(r.URL.Path)*1024))
	})
	client := w.Guard(t, egress.Options{}).Client()
	if _, err := post(t.Context(), client, "https://example.com/"+strings.Repeat("p", 20)); err != nil {
		t.Errorf("20 KiB: %v", err)
	}
	if _, err := post(t.Context(), client, "https://example.com/"+strings.Repeat("p", 40)); egress.KindOf(err) != egress.Unreachable {
		t.Errorf("40 KiB: %v, want a failure", err)
	}
}

type closeWatcher struct {
	io.Reader
	closed bool
}

func (c *closeWatcher) Close() error { c.closed = true; return nil }

func TestRefusalClosesTheRequestBody(t *testing.T) {
	body := &closeWatcher{Reader: strings.NewReader("{}")}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://localhost/", body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := egress.New(nil).RoundTrip(req); egress.KindOf(err) != egress.InnerName || !body.closed {
		t.Errorf("err %v, body closed %v", err, body.closed)
	}
}

func TestAllowlistIsAskedBeforeTheNetwork(t *testing.T) {
	hosts, err := egress.ParseAllowlist([]string{"Hooks.Example.", public6})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, map[string][]reply{"hooks.example": answer(public4)}, nil)
	client := w.Guard(t, egress.Options{Allowlist: hosts}).Client()
	for _, url := range []string{"https://example.com/", "https://sub.hooks.example/", "https://" + public4 + "/"} {
		if _, err := post(t.Context(), client, url); egress.KindOf(err) != egress.NotListed {
			t.Errorf("POST %s: %v, want kind not_listed", url, err)
		}
	}
	w.WantUntouched(t)
	for _, url := range []string{"https://hooks.example/", "https://[" + public6 + "]/"} {
		if _, err := post(t.Context(), client, url); err != nil {
			t.Errorf("POST %s: %v", url, err)
		}
	}
}

func TestDevAddsPlainLoopbackAndNothingElse(t *testing.T) {
	script := map[string][]reply{"loop.example": answer("127.0.0.1")}
	list, err := egress.ParseAllowlist([]string{"example.com"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, script, nil)
	dev := w.Guard(t, egress.Options{Dev: true, Allowlist: list})
	for _, url := range []string{"http://127.0.0.1", "http://127.0.0.1:80/", "http://127.0.0.1:8080/x", "http://127.0.0.1./"} {
		if _, err := dev.CheckURL(url); err != nil {
			t.Errorf("CheckURL(%q) = %v", url, err)
		}
		if _, err := w.Guard(t, egress.Options{}).CheckURL(url); !egress.KindOf(err).Refused() {
			t.Errorf("without Dev, CheckURL(%q) = %v, want a refusal", url, err)
		}
	}
	for _, url := range []string{"https://127.0.0.1/", "https://127.0.0.1:8080/", "http://127.0.0.2/", "http://localhost/", "http://[::1]/",
		"http://[::ffff:127.0.0.1]/", "http://127.1/", "http://10.0.0.1/", "http://example.com/", "http://u@127.0.0.1/", "https://loop.example/", "http://loop.example/"} {
		if _, err := post(t.Context(), dev.Client(), url); !egress.KindOf(err).Refused() {
			t.Errorf("POST %s: %v, want a refusal", url, err)
		}
	}
	w.WantUntouched(t)
	if _, err := post(t.Context(), dev.Client(), "http://127.0.0.1:8080/"); err == nil || w.sung.Load() == 0 {
		t.Errorf("err %v, canary reached %d times; want the call to arrive there", err, w.sung.Load())
	}
}

// Without any stand-in: the dialler that production uses reaches the canary where it may, and only there.
func TestDefaultDialler(t *testing.T) {
	w := newWorld(t, nil, nil)
	address := w.canary.Addr().String()
	for _, url := range []string{"https://" + address + "/", "http://" + address + "/", "https://[::ffff:127.0.0.1]" + strings.TrimPrefix(address, "127.0.0.1") + "/"} {
		if _, err := post(t.Context(), egress.New(&egress.Options{AnyPort: true}).Client(), url); !egress.KindOf(err).Refused() {
			t.Errorf("POST %s: %v, want a refusal", url, err)
		}
	}
	w.WantUntouched(t)
	if _, err := post(t.Context(), egress.New(&egress.Options{Dev: true}).Client(), "http://"+address+"/"); err == nil || w.sung.Load() == 0 {
		t.Errorf("err %v, canary reached %d times; want the call to arrive there", err, w.sung.Load())
	}
}

func TestNAT64IsASwitch(t *testing.T) {
	script := map[string][]reply{"v4.example": answer("64:ff9b::808:808"), "inner.example": answer("64:ff9b::a00:1"), "local.example": answer("64:ff9b:1::808:808")}
	for name, want := range map[string]egress.Kind{"v4.example": egress.TLS, "inner.example": egress.NotPublic, "local.example": egress.NotPublic} {
		w := newWorld(t, script, nil)
		if _, err := post(t.Context(), w.Guard(t, egress.Options{NAT64: true}).Client(), "https://"+name+"/"); egress.KindOf(err) != want {
			t.Errorf("with the switch, %s: %v, want kind %v", name, err, want)
		}
		if want.Refused() {
			w.WantUntouched(t)
		}
	}
}

func TestDialContextStandsAlone(t *testing.T) {
	w := newWorld(t, map[string][]reply{"example.com": answer(public4), "inner.example": answer("10.0.0.1")}, nil)
	g, anyPort := w.Guard(t, egress.Options{}), w.Guard(t, egress.Options{AnyPort: true})
	for _, c := range []struct {
		guard            *egress.Guard
		network, address string
		want             egress.Kind
	}{
		{g, "udp", "example.com:443", egress.Malformed},
		{g, "tcp", "example.com", egress.Malformed},
		{g, "tcp", "example.com:https", egress.Malformed},
		{g, "tcp", "example.com:0", egress.Malformed},
		{g, "tcp", "example.com:65979", egress.Malformed}, // 443 modulo 65,536
		{g, "tcp", "example.com:8443", egress.Malformed},
		{g, "tcp", "127.0.0.1:443", egress.NotPublic},
		{g, "tcp", "2130706433:443", egress.Malformed},
		{g, "tcp", "localhost:443", egress.InnerName},
		{anyPort, "tcp", w.canary.Addr().String(), egress.NotPublic},
		{anyPort, "tcp", "[::1]:25", egress.NotPublic},
		{anyPort, "tcp", "inner.example:25", egress.NotPublic},
	} {
		if _, err := c.guard.DialContext(t.Context(), c.network, c.address); egress.KindOf(err) != c.want {
			t.Errorf("DialContext(%q, %q) = %v, want kind %v", c.network, c.address, err, c.want)
		}
	}
	w.WantUntouched(t)
	conn, err := anyPort.DialContext(context.Background(), "tcp", "EXAMPLE.com.:8443")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if diff := cmp.Diff([]netip.AddrPort{netip.MustParseAddrPort(public4 + ":8443")}, w.dialled, cmp.Comparer(equalAddrPorts)); diff != "" {
		t.Errorf("dialled (-want +got):\n%s", diff)
	}
}

func equalAddrPorts(a, b netip.AddrPort) bool { return a == b }
