package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// failures lists the checks that failed, and complains of findings without a fix.
func failures(t *testing.T, r *Report) []string {
	t.Helper()
	list := []string{}
	for _, f := range r.Findings {
		if (f.State == Fail || f.State == Warn) != (f.Fix != "") {
			t.Errorf("%s: %s with the fix %q", f.Check, f.State, f.Fix)
		}
		if f.State == Fail {
			list = append(list, f.Check)
		}
	}
	return list
}

func show(r *Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(string(f.State) + " " + f.Check + ": " + f.Seen + "\n")
	}
	return b.String()
}

func TestARelayPasses(t *testing.T) {
	h := newHouse(t)
	front := httptest.NewServer(h.proxy)
	defer front.Close()
	r := h.examine(t, front, nil)
	var got []string
	for _, f := range r.Findings {
		if f.State != Pass {
			got = append(got, string(f.State)+" "+f.Check)
		}
	}
	if diff := cmp.Diff([]string{"note tls", "note webhooks"}, got); diff != "" {
		t.Errorf("what did not pass (-want +got):\n%s%s", diff, show(r))
	}
	if len(r.Findings) < 20 {
		t.Errorf("only %d findings:\n%s", len(r.Findings), show(r))
	}
	for _, token := range []string{h.agent.Token, h.device.Token} {
		if strings.Contains(show(r), token) {
			t.Error("a token is shown")
		}
	}
	if info := h.device.Call("GET", "/v1/device/info", nil); info.Body["pending"] != 0.0 {
		t.Errorf("the examination left something behind: %s", info.Raw)
	}
}

func TestARelayPassesWithoutTokens(t *testing.T) {
	h := newHouse(t)
	r := &Report{}
	Outside(t.Context(), r, Target{Address: h.URL, Transport: &http.Transport{}})
	if got := failures(t, r); len(got) > 0 {
		t.Errorf("failed: %v\n%s", got, show(r))
	}
}

// brokenPage is what proxies put in place of an answer.
func brokenPage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	io.WriteString(w, "<html><body>oops</body></html>")
}

// changed lets a function change the head of each answer.
type changed struct {
	http.ResponseWriter
	change func(h http.Header, status int)
	page   bool // replace the bodies of refusals
	done   bool
	muted  bool
}

func (c *changed) WriteHeader(status int) {
	c.done = true
	c.change(c.Header(), status)
	if c.muted = c.page && status >= 400; c.muted {
		c.Header().Del("Content-Length")
		brokenPage(c.ResponseWriter, status)
		return
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *changed) Write(p []byte) (int, error) {
	if !c.done {
		c.WriteHeader(http.StatusOK)
	}
	if c.muted {
		return len(p), nil
	}
	return c.ResponseWriter.Write(p)
}

func (c *changed) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// head changes the head of every answer.
func head(change func(http.Header, int)) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&changed{ResponseWriter: w, change: change}, r)
	}
}

// held keeps an answer until it is whole, as proxies that buffer do.
type held struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (h *held) WriteHeader(status int)      { h.status = status }
func (h *held) Write(p []byte) (int, error) { return h.body.Write(p) }
func (h *held) Flush()                      {}

func upgrades(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// proxies are what stands in front of relays in the world, each with one mistake.
var proxies = []struct {
	name string
	do   func(w http.ResponseWriter, r *http.Request, next http.Handler)
	want string
}{
	{"strips Authorization", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del("Authorization")
		next.ServeHTTP(w, r)
	}, "authorization"},
	{"buffers answers", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if upgrades(r) {
			next.ServeHTTP(w, r)
			return
		}
		whole := &held{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(whole, r)
		w.WriteHeader(whole.status)
		_, _ = w.Write(whole.body.Bytes())
	}, "streams"},
	{"rewrites Host", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Host = "localhost:8787"
		next.ServeHTTP(w, r)
	}, "origin"},
	{"drops the well-known paths", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			brokenPage(w, http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, r)
	}, "discovery"},
	{"wants a login for what it does not know", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "openid-configuration") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}, "discovery"},
	{"shows its own page for what it does not know", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") && !slices.Contains(documents, r.URL.Path) {
			brokenPage(w, http.StatusOK)
			return
		}
		next.ServeHTTP(w, r)
	}, "discovery"},
	{"redirects the slash", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if path, found := strings.CutSuffix(r.URL.Path, "/"); found && path != "" {
			http.Redirect(w, r, path, http.StatusMovedPermanently)
			return
		}
		next.ServeHTTP(w, r)
	}, "trailing slash"},
	{"adds wildcard CORS", head(func(h http.Header, _ int) { h.Add("Access-Control-Allow-Origin", "*") }), "cors"},
	{"answers preflights itself", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	}, "cors"},
	{"has its clock ten minutes behind", head(func(h http.Header, _ int) {
		h.Set("Date", time.Now().Add(-10*time.Minute).UTC().Format(http.TimeFormat))
	}), "clock"},
	{"swallows WWW-Authenticate", head(func(h http.Header, _ int) { h.Del("WWW-Authenticate") }), "challenge"},
	{"stops what looks like a bot", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/mcp") {
			brokenPage(w, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}, "challenge"},
	{"limits bodies", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.ContentLength > 64<<10 {
			brokenPage(w, http.StatusRequestEntityTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	}, "body size"},
	{"puts its pages in place of refusals", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&changed{ResponseWriter: w, change: func(http.Header, int) {}, page: true}, r)
	}, "error pages"},
	{"compresses unasked", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != documents[2] {
			next.ServeHTTP(w, r)
			return
		}
		whole := &held{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(whole, r)
		w.Header().Del("Content-Length")
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(whole.status)
		z := gzip.NewWriter(w)
		_, _ = z.Write(whole.body.Bytes())
		_ = z.Close()
	}, "compression"},
	{"drops Upgrade", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del("Upgrade")
		r.Header.Del("Connection")
		next.ServeHTTP(w, r)
	}, "stream"},
	{"drops headers it does not know", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del("Mcp-Method")
		next.ServeHTTP(w, r)
	}, "mcp without sessions"},
	{"registers nobody", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/register" {
			brokenPage(w, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}, "registration"},
	{"is a page of something else", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		io.WriteString(w, "<html>welcome to nginx</html>")
	}, "relay"},
}

func TestEachMistakeOfAProxyIsOneFailure(t *testing.T) {
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.do(w, r, h.proxy) }))
			defer front.Close()
			r := h.examine(t, front, func(target *Target) {
				if p.want == "streams" {
					target.Patience = time.Second // the frame never comes
				}
			})
			if got := failures(t, r); !slices.Equal(got, []string{p.want}) {
				t.Errorf("failed: %v, want %s alone\n%s", got, p.want, show(r))
			}
		})
	}
}

// old makes a server say that it speaks HTTP/1.0.
type old struct{ net.Listener }

type oldConn struct{ net.Conn }

func (o old) Accept() (net.Conn, error) {
	c, err := o.Listener.Accept()
	return oldConn{c}, err
}

func (c oldConn) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("HTTP/1.1 ")) {
		p = append([]byte("HTTP/1.0 "), p[len("HTTP/1.0 "):]...)
	}
	return c.Conn.Write(p)
}

func TestOldHTTPIsOneFailure(t *testing.T) {
	h := newHouse(t)
	front := httptest.NewUnstartedServer(h.proxy)
	front.Listener = old{front.Listener}
	front.Start()
	defer front.Close()
	r := h.examine(t, front, nil)
	if got := failures(t, r); !slices.Equal(got, []string{"http"}) {
		t.Errorf("failed: %v\n%s", got, show(r))
	}
}

func TestACertificateThatNobodyKnowsIsSaid(t *testing.T) {
	h := newHouse(t)
	front := httptest.NewUnstartedServer(h.proxy)
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.StartTLS()
	defer front.Close()
	if r := h.examine(t, front, nil); !slices.Equal(failures(t, r), []string{"tls"}) {
		t.Errorf("an unknown authority:\n%s", show(r))
	}
	known := front.Client().Transport.(*http.Transport).Clone()
	r := h.examine(t, front, func(target *Target) { target.Transport = known })
	for _, f := range r.Findings {
		if f.Check == "tls" && (f.State != Pass || !strings.Contains(f.Seen, "TLS 1.3")) {
			t.Errorf("a known one: %+v", f)
		}
	}
}

func TestHandshakesThatFailAreSaid(t *testing.T) {
	ancient := httptest.NewUnstartedServer(nil)
	ancient.Config.ErrorLog = log.New(io.Discard, "", 0)
	ancient.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	ancient.StartTLS()
	defer ancient.Close()
	plain := httptest.NewServer(nil)
	defer plain.Close()
	for _, address := range []string{ancient.URL, strings.Replace(plain.URL, "http:", "https:", 1)} {
		r := &Report{}
		Outside(t.Context(), r, Target{Address: address, Transport: &http.Transport{}})
		if got := failures(t, r); !slices.Equal(got, []string{"tls"}) {
			t.Errorf("%s: %s", address, show(r))
		}
	}
}

func TestAnExaminationEndsWithItsContext(t *testing.T) {
	h := newHouse(t)
	ctx, cancel := context.WithCancel(t.Context())
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.proxy.ServeHTTP(w, r)
		cancel() // once the first question is answered
	}))
	defer front.Close()
	r := &Report{}
	Outside(ctx, r, Target{Address: front.URL, Transport: &http.Transport{}})
	if last := r.Findings[len(r.Findings)-1]; len(r.Findings) > 4 || last.Check != "examination" && last.Check != "relay" {
		t.Errorf("findings:\n%s", show(r))
	}
}

func TestCertificatesThatEndSoonAreSaid(t *testing.T) {
	for days, want := range map[int]State{1: Fail, 5: Warn, 13: Warn, 30: Pass} {
		x := &outside{Report: &Report{}, health: answer{tls: stateUntil(time.Now().Add(time.Duration(days)*24*time.Hour + time.Hour))}}
		x.certificate(t.Context())
		if got := x.Findings[0].State; got != want {
			t.Errorf("%d days: %s, want %s", days, got, want)
		}
	}
}

func TestAddressesThatNobodyAnswers(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for address, want := range map[string]string{
		gone.URL: "relay", "ftp://relay.example": "address", "http://relay.example": "address", "https://relay.example/mcp": "address", "": "address",
	} {
		r := &Report{}
		Outside(t.Context(), r, Target{Address: address})
		if got := failures(t, r); !slices.Equal(got, []string{want}) {
			t.Errorf("%q: %v", address, got)
		}
	}
}

func TestProxiesAreRecognisedAndAdviceIsTheirs(t *testing.T) {
	a := advice{general: "do", nginx: "N", caddy: "C", cloudflare: "F"}
	for server, want := range map[string]string{
		"nginx/1.27": "do; nginx: N", "Caddy": "do; Caddy: C", "cloudflare": "do; Cloudflare: F", "Apache": "do; nginx: N; Caddy: C; Cloudflare: F",
	} {
		x := &outside{proxy: proxyOf(http.Header{"Server": {server}})}
		if got := x.fix(a); got != want {
			t.Errorf("%s: %s", server, got)
		}
	}
}

func stateUntil(end time.Time) *tls.ConnectionState {
	return &tls.ConnectionState{Version: 0x0304, PeerCertificates: []*x509.Certificate{{NotAfter: end}}}
}
