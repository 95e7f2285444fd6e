package oauth

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

func FuzzDescribe(f *testing.F) {
	for _, s := range []string{
		`{"redirect_uris":["https://a.example/cb"],"client_name":"x"}`, `{"redirect_uris":"x"}`, `{"grant_types":["` + GrantDevice + `"]}`, `[]`, ``,
		`{"token_endpoint_auth_method":"client_secret_basic","response_types":["code"],"redirect_uris":["cursor://a"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := describe(data)
		if err != nil {
			if code := fault.From(err).Code; code != "invalid_client_metadata" && code != "invalid_redirect_uri" {
				t.Errorf("%q is refused as %s", data, code)
			}
			return
		}
		if c.Name == "" || len(c.Redirects) > relay.MaxRedirects {
			t.Errorf("%q became %+v", data, c)
		}
		for _, uri := range c.Redirects {
			if !relay.ValidRedirect(uri) {
				t.Errorf("%q keeps %q", data, uri)
			}
		}
	})
}

func FuzzDocumented(f *testing.F) {
	const id = "https://a.example/c"
	f.Add([]byte(`{"client_id":"https://a.example/c","redirect_uris":["https://a.example/cb"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := documented(data, id)
		if err == nil && (c.ID != id || !c.Public() || !strings.Contains(string(data), "client_id")) {
			t.Errorf("%q became %+v", data, c)
		}
		if err != nil && !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%q is refused by %v", data, err)
		}
	})
}

func TestFreshnessIsBounded(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": time.Hour, "max-age=600": 10 * time.Minute, `max-age="600"`: 10 * time.Minute, "max-age=0": freshAtLeast, "max-age=-1": freshAtLeast,
		"public, MAX-AGE=7200": 2 * time.Hour, "max-age=4294967296": freshAtLeast, "max-age=2000000000": freshAtMost, "no-cache, max-age=600": freshAtLeast, "private": time.Hour,
	} {
		if got := freshFor(http.Header{"Cache-Control": {header}}); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

func TestVerifiersAndChallengesAreHeldToTheirShape(t *testing.T) {
	t.Parallel()
	const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" // RFC 7636, appendix B
	if !ValidChallenge(challenge) || !proves(verifier, challenge) || proves(verifier+"x", challenge) || proves("", challenge) {
		t.Error("the RFC's own example is judged wrongly")
	}
	for _, s := range []string{"", challenge[1:], challenge + "A", challenge[:42] + "=", challenge[:42] + "+", challenge[:42] + "N"} {
		if ValidChallenge(s) {
			t.Errorf("challenge %q is taken", s)
		}
	}
	for s, ok := range map[string]bool{strings.Repeat("a", 43): true, strings.Repeat("~", 128): true, strings.Repeat("a", 42): false, strings.Repeat("a", 129): false, strings.Repeat("a", 42) + " ": false} {
		if validVerifier(s) != ok {
			t.Errorf("verifier %q: %v", s, !ok)
		}
	}
}

func TestRedirectsKeepWhatWasRegistered(t *testing.T) {
	t.Parallel()
	for _, tc := range [][2]string{
		{"https://a.example/cb", "https://a.example/cb?code=x+y&state=%26"},
		{"https://a.example/cb?q=1", "https://a.example/cb?q=1&code=x+y&state=%26"},
		{"com.example:/cb", "com.example:/cb?code=x+y&state=%26"},
	} {
		if got := RedirectTo(tc[0], "code", "x y", "empty", "", "state", "&"); got != tc[1] {
			t.Errorf("RedirectTo(%q) = %q, want %q", tc[0], got, tc[1])
		}
	}
}
