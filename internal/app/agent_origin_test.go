package app_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

// TestLinksFollowTheHostOfTheRequest holds decision 28 where it shows so far: in the links to clips.
func TestLinksFollowTheHostOfTheRequest(t *testing.T) {
	t.Parallel()
	proxied := func(c *config.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
	tests := map[string]struct {
		config func(*config.Config)
		header []string
		want   string
	}{
		"a loopback relay":                   {header: []string{"Host", "localhost:9999"}, want: "http://localhost:9999"},
		"a loopback relay by number":         {header: []string{"Host", "[::1]:1"}, want: "http://[::1]:1"},
		"a stranger's forwarding headers":    {header: []string{"Host", "localhost", "X-Forwarded-Host", "evil.test", "X-Forwarded-Proto", "https"}, want: "http://localhost"},
		"behind a trusted proxy":             {config: proxied, header: []string{"Host", "inner", "X-Forwarded-Host", "relay.example", "X-Forwarded-Proto", "https"}, want: "https://relay.example"},
		"behind a proxy that keeps the host": {config: proxied, header: []string{"Host", "relay.example", "X-Forwarded-Proto", "https"}, want: "https://relay.example"},
		"a configured origin": {
			config: func(c *config.Config) { c.Origin = "https://relay.example" }, header: []string{"Host", "other.example"}, want: "https://relay.example",
		},
		"a configured origin behind a proxy": {
			config: func(c *config.Config) {
				proxied(c)
				c.Origin = "https://relay.example"
			},
			header: []string{"X-Forwarded-Host", "other.example"}, want: "https://relay.example",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testkit.New(t, testkit.Options{Config: test.config})
			d := r.Pair("laptop")
			q := spoken(d, d.Agent("bot"))
			for _, path := range []string{"/v1/receipts/", "/v1/replies/"} {
				a := q.Call("GET", path+q.id, nil, test.header...)
				link, found := strings.CutPrefix(a.Text("audioUrl"), test.want+"/v1/audio/")
				if !found {
					t.Errorf("%s: link = %q, want it on %s", path, a.Text("audioUrl"), test.want)
				}
				// Links and tokens work on every host that the relay answers to.
				if got := r.Do("GET", "/v1/audio/"+link, "", nil); got.Status != 200 {
					t.Errorf("%s: the link leads to %d %s", path, got.Status, got.Raw)
				}
			}
		})
	}
}

// TestCase137ALoopbackRelayAnswersLoopbackNamesOnly: a page that had its own name lead to 127.0.0.1 gets nothing.
func TestCase137ALoopbackRelayAnswersLoopbackNamesOnly(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	agent := r.Pair("laptop").Agent("bot")
	for _, route := range []struct{ method, path string }{
		{"GET", "/health"}, {"GET", "/"}, {"GET", "/v1/status"}, {"POST", "/v1/notify"}, {"POST", "/v1/pair/start"}, {"GET", "/v1/device/stream"},
		{"OPTIONS", "/v1/notify"}, {"GET", "/nothing"}, {"GET", "/../x"},
	} {
		for _, host := range []string{"evil.test", "evil.test:8787", "localhost.evil.test", "127.0.0.1.nip.io", "192.168.1.5"} {
			wantRefusal(t, r.Do(route.method, route.path, agent.Token, nil, "Host", host), 403, "forbidden")
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:1", "127.0.0.1:8787", "127.8.8.8", "[::1]", "localhost."} {
		if a := agent.Call("GET", "/v1/status", nil, "Host", host); a.Status != 200 {
			t.Errorf("Host %s: %d %s", host, a.Status, a.Raw)
		}
	}
	open := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.Origin = "https://relay.example" }})
	if a := open.Do("GET", "/health", "", nil, "Host", "anything.example"); a.Status != 200 {
		t.Errorf("a relay with a public origin refuses a Host: %d %s", a.Status, a.Raw)
	}
}

// TestPagesOfOtherOriginsMayUseACredentialTheyHold holds decision 29 on agents' routes.
func TestPagesOfOtherOriginsMayUseACredentialTheyHold(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	agent := r.Pair("laptop").Agent("bot")
	const origin = "https://evil.test"
	for _, route := range agentRoutes {
		ask := r.Do("OPTIONS", route.path, "", nil, "Origin", origin, "Access-Control-Request-Method", route.method, "Access-Control-Request-Headers", "authorization,content-type")
		if ask.Status != 204 || ask.Header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(ask.Header.Get("Access-Control-Allow-Methods"), route.method) ||
			!strings.HasPrefix(ask.Header.Get("Access-Control-Allow-Headers"), "authorization, content-type, mcp-protocol-version") || ask.Header.Get("Access-Control-Max-Age") != "86400" {
			t.Errorf("preflight of %s: %d %v", route.path, ask.Status, ask.Header)
		}
		for _, token := range []string{agent.Token, ""} {
			a := r.Do(route.method, route.path, token, map[string]any{"title": "x"}, "Origin", origin)
			if (a.Status == 401) != (token == "") || a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s with token %v: %d %v", route.path, token != "", a.Status, a.Header)
			}
		}
	}
	// A cookie is no credential here, so a page cannot borrow one.
	wantRefusal(t, r.Do("GET", "/v1/status", "", nil, "Origin", origin, "Cookie", "herald="+agent.Token), 401, "unauthorized")
}

// TestUncleanPathsAreNeverARedirect holds decision 38.
func TestUncleanPathsAreNeverARedirect(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	agent := r.Pair("laptop").Agent("bot")
	client := &http.Client{Transport: r.HTTP.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{
		"/v1/../v1/status", "/v1/./status", "//v1/status", "/v1//status", "/v1/status/", "/v1/status/.", "/v1/receipts/..", "/v1/receipts/../status",
		"/..", "/../../etc/passwd", "/v1/%2e%2e/status", "/v1/receipts/..%2f..%2fstatus", "/internal", "/internal/", "/internal/mailbox/x", "/v1/internal/status",
		"/v1/events/subscribe", "/v1/events/unsubscribe", "/health/", "/HEALTH",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			req, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+agent.Token)
			res, err := client.Do(req)
			if err != nil {
				t.Errorf("%s %s: %v", method, path, err)
				continue
			}
			res.Body.Close()
			if !slices.Contains([]int{401, 404, 405}, res.StatusCode) {
				t.Errorf("%s %s: %d %s", method, path, res.StatusCode, res.Header.Get("Location"))
			}
		}
	}
}

// safeBuffer is a buffer that many may write to.
type safeBuffer struct {
	mu  sync.Mutex // guards the rest
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestCase142NothingSecretIsLogged has agents and devices do everything, right and wrong, and reads the log of all levels.
func TestCase142NothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	log := new(safeBuffer)
	r := testkit.New(t, testkit.Options{Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	d := r.Pair("words-of-the-person")
	agent := d.Agent("bot")
	const words = "words-of-the-person"
	q := spoken(d, agent)
	link := clipLink(d.Mailbox, q.relay, time.Now().Add(time.Hour))
	_, sig, _ := strings.Cut(link, "sig=")
	for _, token := range []string{agent.Token, d.Token, otherDigit(agent.Token, len(agent.Token)-1), agent.Token + "0"} {
		for _, route := range []struct{ method, path string }{
			{"POST", "/v1/notify"}, {"GET", "/v1/receipts/" + words}, {"GET", "/v1/replies/" + words + "?wait=0&token=" + token}, {"GET", "/v1/status?token=" + token},
			{"GET", "/v1/device/info?token=" + token}, {"POST", "/v1/device/reply"}, {"POST", "/v1/device/status"}, {"GET", "/" + words}, {"PUT", "/v1/notify?" + token},
			{"GET", "/v1/device/stream"}, {"POST", "/v1/pair"}, {"DELETE", "/v1/device/keys/" + words},
		} {
			for _, body := range []any{
				map[string]any{"title": words, "body": words, "notificationId": words}, `{"title":"` + words, `{"` + words + `":1}`, "\xff" + words,
				map[string]any{"id": q.relay, "text": words, "quietUntil": words, "code": words, "deviceName": words},
			} {
				r.Do(route.method, route.path, token, body, "User-Agent", words, "X-Pairing-Secret", words, "Cookie", words+"="+token)
			}
		}
	}
	r.Do("GET", link, "", nil)
	r.Do("GET", link+"0", "", nil)
	d.Call("DELETE", "/v1/device", nil)
	r.Stop()
	text := log.String()
	if strings.Count(text, `"msg":"request"`) < 200 {
		t.Fatalf("the log does not tell of the requests:\n%s", text)
	}
	for what, secret := range map[string]string{
		"words": words, "an agent key": agent.Token[62:], "a device token": d.Token[53:], "a signature": sig, "the relay's secret": testkit.Secret,
		"text of a notification": "Ship it?", "a transcript": `"yes"`,
	} {
		if at := strings.Index(strings.ToLower(text), strings.ToLower(secret)); at >= 0 {
			t.Errorf("the log holds %s: …%s…", what, text[max(0, at-200):min(len(text), at+100)])
		}
	}
}
