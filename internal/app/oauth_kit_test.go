package app_test

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/herald-relay/herald/internal/testkit"
)

// connector is software that asks for approval.
type connector struct {
	*testkit.Relay
	id, secret string
	redirect   string
	http       *http.Client
}

const (
	verifier    = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // RFC 7636, appendix B
	redirectURI = "https://client.example/callback"
)

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// register makes a public client; metadata overrides what it says of itself.
func register(t testing.TB, r *testkit.Relay, metadata map[string]any) *connector {
	t.Helper()
	body := map[string]any{"client_name": "Test client", "redirect_uris": []string{redirectURI}}
	maps.Copy(body, metadata)
	a := r.Do("POST", "/register", "", body)
	if a.Status != http.StatusCreated {
		t.Fatalf("register: %d %s", a.Status, a.Raw)
	}
	c := &connector{Relay: r, id: a.Text("client_id"), secret: a.Text("client_secret"), redirect: redirectURI}
	if list, _ := a.Body["redirect_uris"].([]any); len(list) > 0 {
		c.redirect, _ = list[0].(string)
	}
	c.http = stay(r.HTTP)
	return c
}

// stay is a client that follows no redirect.
func stay(h *http.Client) *http.Client {
	return &http.Client{Transport: h.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// values makes parameters of names and values; an empty value removes the name.
func values(base url.Values, pairs ...string) url.Values {
	out := url.Values{}
	for name, list := range base {
		out[name] = append([]string(nil), list...)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		out.Del(pairs[i])
		if pairs[i+1] != "" {
			out.Set(pairs[i], pairs[i+1])
		}
	}
	return out
}

// asks are the parameters of a good authorization request.
func (c *connector) asks(pairs ...string) url.Values {
	return values(url.Values{
		"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {c.redirect}, "state": {"st&ä te"},
		"code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"}, "resource": {c.URL + "/mcp"},
	}, pairs...)
}

// page is what a browser got.
type page struct {
	testkit.Answer
	location *url.URL
}

var ridField = regexp.MustCompile(`<input type="hidden" name="rid" value="([0-9a-f]{72})">`)

func (p page) rid(t testing.TB) string {
	t.Helper()
	m := ridField.FindSubmatch(p.Raw)
	if p.Status != http.StatusOK || m == nil {
		t.Fatalf("no page of a request: %d %s", p.Status, p.Raw)
	}
	return string(m[1])
}

// browse gets or posts as a browser does, without following.
func (c *connector) browse(t testing.TB, method, path string, form url.Values) page {
	t.Helper()
	target := c.URL + path
	var body *strings.Reader = strings.NewReader("")
	if method == http.MethodGet && form != nil {
		target += "?" + form.Encode()
	} else if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	p := page{Answer: read(t, res)}
	if to := res.Header.Get("Location"); to != "" {
		if p.location, err = url.Parse(to); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// authorize begins an approval and returns the request's id.
func (c *connector) authorize(t testing.TB, pairs ...string) string {
	t.Helper()
	return c.browse(t, "GET", "/authorize", c.asks(pairs...)).rid(t)
}

// post posts a form to an endpoint that answers in JSON.
func (c *connector) post(t testing.TB, path string, form url.Values) testkit.Answer {
	t.Helper()
	return c.browse(t, "POST", path, form).Answer
}

// exchanges are the parameters of a good exchange.
func (c *connector) exchanges(code string, pairs ...string) url.Values {
	return values(url.Values{
		"grant_type": {"authorization_code"}, "client_id": {c.id}, "code": {code}, "redirect_uri": {c.redirect}, "code_verifier": {verifier},
		"resource": {c.URL + "/mcp"},
	}, pairs...)
}

// tokens are what a connector holds.
type tokens struct{ access, refresh string }

func (c *connector) exchange(t testing.TB, code string) tokens {
	t.Helper()
	a := c.post(t, "/token", c.exchanges(code))
	if a.Status != http.StatusOK {
		t.Fatalf("exchange: %d %s", a.Status, a.Raw)
	}
	return tokens{a.Text("access_token"), a.Text("refresh_token")}
}

// decide presses Approve or Deny on a device, and returns the answer.
func decide(d *testkit.Device, rid, decision string) testkit.Answer {
	d.T.Helper()
	return d.Call("POST", "/v1/device/consent", map[string]any{"id": rid, "decision": decision})
}

// approved approves and returns the authorization code.
func approved(t testing.TB, d *testkit.Device, rid string) string {
	t.Helper()
	a := decide(d, rid, "approve")
	if a.Status != http.StatusOK || a.Text("status") != "approved" {
		t.Fatalf("approve: %d %s", a.Status, a.Raw)
	}
	u, err := url.Parse(a.Text("redirect"))
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("code")
}

// connected is the whole browser flow.
func connected(t testing.TB, d *testkit.Device) (*connector, tokens) {
	t.Helper()
	c := register(t, d.Relay, nil)
	return c, c.exchange(t, approved(t, d, c.authorize(t)))
}

// consents lists the requests of a device's mailbox.
func consents(d *testkit.Device) (list []map[string]any) {
	d.T.Helper()
	items, _ := d.Call("GET", "/v1/device/consents", nil).Body["consents"].([]any)
	for _, item := range items {
		list = append(list, item.(map[string]any))
	}
	return list
}

// consentFrame returns the next frame of that type, past all others.
func nextOf(s *testkit.Stream, kind string) testkit.Frame {
	s.T.Helper()
	for {
		if f := s.Next(); f.Text("type") == kind {
			return f
		}
	}
}

// parallel runs fn for 0 to n-1 at once and waits for all.
func parallel(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}
