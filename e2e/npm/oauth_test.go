package npm

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tokens is what a connector gets.
type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Type    string `json:"token_type"`
	Scope   string `json:"scope"`
}

// decide answers the only request for approval that waits, as the person at the device. It returns where a browser goes
// then, "" when there is none.
func (r *relay) decide(decision string) (redirect string) {
	r.t.Helper()
	list, _ := r.must("GET", "/v1/device/consents", r.device, nil)["consents"].([]any)
	for _, entry := range list {
		if c, _ := entry.(map[string]any); c["status"] == "pending" {
			redirect, _ = r.must("POST", "/v1/device/consent", r.device, map[string]any{"id": c["id"], "decision": decision})["redirect"].(string)
			return redirect
		}
	}
	r.t.Fatalf("nobody asks for approval: %v", list)
	return ""
}

// works reports whether a token opens the relay.
func (r *relay) works(token string) bool {
	_, err := r.call(r.t.Context(), "GET", "/v1/status", token, nil)
	return err == nil
}

const (
	deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
	callback    = "http://127.0.0.1:4711/callback"
)

// register has the connector find the relay and register there.
func register(t *testing.T, s *script, r *relay) {
	t.Helper()
	var got struct {
		ID     string
		Server struct {
			Issuer string   `json:"issuer"`
			PKCE   []string `json:"code_challenge_methods_supported"`
		}
	}
	s.must("register", map[string]any{"issuer": r.url, "metadata": map[string]any{"client_name": "openid-client", "redirect_uris": []string{callback},
		"grant_types": []string{"authorization_code", "refresh_token", deviceGrant}, "token_endpoint_auth_method": "none"}}, &got)
	if !strings.HasPrefix(got.ID, "hc_") || got.Server.Issuer != r.url || len(got.Server.PKCE) != 1 {
		t.Errorf("registered as %+v", got)
	}
}

// checkTokens uses, refreshes and revokes what a flow brought.
func checkTokens(t *testing.T, s *script, r *relay, first tokens) {
	t.Helper()
	if !strings.EqualFold(first.Type, "bearer") || first.Scope != "notify" || !r.works(first.Access) {
		t.Fatalf("tokens %+v do not work", first)
	}
	var second tokens
	s.must("refresh", map[string]string{"token": first.Refresh}, &second)
	if second.Access == first.Access || !r.works(second.Access) || !r.works(first.Access) {
		t.Errorf("refreshed: %+v", second)
	}
	s.must("revoke", map[string]string{"token": second.Access}, nil)
	if r.works(second.Access) || !r.works(first.Access) {
		t.Errorf("revoking one access token ended not it alone")
	}
	s.must("revoke", map[string]string{"token": first.Refresh}, nil)
	if r.works(first.Access) {
		t.Error("an access token outlived its approval")
	}
	if err := s.try("refresh", map[string]string{"token": first.Refresh}, nil); err == nil {
		t.Error("a revoked refresh token refreshed")
	}
}

func TestOpenIDClientIsApprovedWithoutABrowser(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	s := start(t, "openid-client")
	register(t, s, r)
	var asked struct {
		UserCode string `json:"user_code"`
		Expires  int    `json:"expires_in"`
	}
	s.must("device", map[string]string{"scope": "notify", "resource": r.mcp()}, &asked)
	if len(asked.UserCode) != 9 || asked.Expires != 600 {
		t.Errorf("asked: %+v", asked)
	}
	r.decide("approve")
	var got tokens
	s.must("poll", map[string]int{"within": 30_000}, &got)
	checkTokens(t, s, r, got)
}

func TestOpenIDClientIsDenied(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	s := start(t, "openid-client")
	register(t, s, r)
	s.must("device", map[string]string{"scope": "notify"}, nil)
	r.decide("deny")
	var refusal *scriptError
	if err := s.try("poll", map[string]int{"within": 30_000}, nil); !errors.As(err, &refusal) || refusal.Code != "access_denied" {
		t.Errorf("a denied request: %v", err)
	}
}

func TestOpenIDClientIsApprovedInABrowser(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	s := start(t, "openid-client")
	register(t, s, r)
	var address string
	s.must("authorize", map[string]string{"redirect_uri": callback, "scope": "notify", "resource": r.mcp()}, &address)
	browse(t, address)
	back := r.decide("approve")
	if !strings.HasPrefix(back, callback+"?") {
		t.Fatalf("the browser is sent to %q", back)
	}
	forged, err := url.Parse(back)
	if err != nil {
		t.Fatal(err)
	}
	query := forged.Query()
	query.Set("iss", "https://evil.example")
	forged.RawQuery = query.Encode()
	if err := s.try("exchange", map[string]string{"url": forged.String()}, nil); err == nil {
		t.Error("the client took an answer of another issuer")
	}
	var got tokens
	s.must("exchange", map[string]string{"url": back, "resource": r.mcp()}, &got)
	checkTokens(t, s, r, got)
}

// browse opens a page, as the person's browser does, and expects one that waits.
func browse(t *testing.T, address string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	for deadline := time.Now().Add(5 * time.Second); errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(deadline); res, err = client.Do(req) {
		<-time.After(20 * time.Millisecond) // a client that is still opening the port that it awaits the browser at
	}
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %.500s %v", address, res.StatusCode, page, err)
	}
}

// TestTheConformanceSuiteOnTheAuthorizationServer runs both of the suite's scenarios: it reads the metadata, and has a
// browser sent through an approval.
func TestTheConformanceSuiteOnTheAuthorizationServer(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	id, _ := r.must("POST", "/register", "", map[string]any{"client_name": "conformance", "redirect_uris": []string{callback}})["client_id"].(string)
	out := t.TempDir()
	cmd := suite(t, "authorization", "--url", r.url, "--client-id", id, "--resource", r.mcp(), "--spec-version", "2026-07-28", "-p", freePort(t), "-o", out)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		if address := lines.Text(); strings.HasPrefix(address, r.url+"/authorize?") {
			browse(t, address)
			browse(t, r.decide("approve"))
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the suite ended with %v", err)
	}
	expected := map[string]map[string]string{"authorization-server-metadata-endpoint": nil, "authorization-code-grant": nil}
	for name := range expected {
		results, _ := filepath.Glob(filepath.Join(out, "*"+name+"*", "checks.json"))
		if len(results) != 1 {
			t.Errorf("%s: no results", name)
			continue
		}
		judge(t, results[0], expected[name])
	}
}

// freePort is one that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
