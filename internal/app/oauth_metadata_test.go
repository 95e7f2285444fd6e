package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

const wellKnown = "/.well-known/"

func TestTheProtectedResourceSaysWhoProtectsIt(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	for _, path := range []string{"oauth-protected-resource", "oauth-protected-resource/mcp"} {
		a := r.Do("GET", wellKnown+path, "", nil)
		if a.Status != 200 || a.Header.Get("Cache-Control") != "public, max-age=300" || a.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %d %v", path, a.Status, a.Header)
		}
		delete(a.Body, "resource_documentation")
		want := map[string]any{
			"resource": r.URL + "/mcp", "authorization_servers": []any{r.URL}, "scopes_supported": []any{"notify"},
			"bearer_methods_supported": []any{"header"}, "resource_name": "Herald cloud relay",
		}
		if d := cmp.Diff(want, a.Body); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}

func TestTheAuthorizationServerDescribesItself(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	methods := []any{"none", "client_secret_post", "client_secret_basic"}
	want := map[string]any{
		"issuer": r.URL, "authorization_endpoint": r.URL + "/authorize", "token_endpoint": r.URL + "/token",
		"registration_endpoint": r.URL + "/register", "device_authorization_endpoint": r.URL + "/device_authorization",
		"revocation_endpoint": r.URL + "/revoke", "scopes_supported": []any{"notify"}, "response_types_supported": []any{"code"},
		"response_modes_supported":         []any{"query"},
		"grant_types_supported":            []any{"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"},
		"code_challenge_methods_supported": []any{"S256"}, "token_endpoint_auth_methods_supported": methods,
		"revocation_endpoint_auth_methods_supported": methods, "authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported": true,
	}
	for _, path := range []string{"oauth-authorization-server", "openid-configuration"} {
		a := r.Do("GET", wellKnown+path, "", nil)
		if docs, _ := a.Body["service_documentation"].(string); !strings.HasPrefix(docs, "https://") {
			t.Errorf("service_documentation = %q", docs)
		}
		delete(a.Body, "service_documentation")
		if d := cmp.Diff(want, a.Body); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}

func TestMetadataFollowTheHostUnlessAnOriginIsSet(t *testing.T) {
	t.Parallel()
	follows := testkit.New(t, testkit.Options{})
	a := follows.Do("GET", wellKnown+"oauth-authorization-server", "", nil, "Host", "localhost:9999")
	if a.Text("issuer") != "http://localhost:9999" || a.Text("token_endpoint") != "http://localhost:9999/token" {
		t.Errorf("metadata by another name = %s", a.Raw)
	}
	fixed := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.Origin = "https://relay.example" }})
	for _, host := range []string{"localhost:9999", "relay.example"} {
		a := fixed.Do("GET", wellKnown+"oauth-protected-resource", "", nil, "Host", host)
		if a.Text("resource") != "https://relay.example/mcp" {
			t.Errorf("resource asked by %s = %s", host, a.Text("resource"))
		}
	}
}

func TestOtherMethodsOnMetadataAreRefused(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	for _, path := range []string{"oauth-protected-resource", "oauth-authorization-server", "openid-configuration"} {
		a := r.Do("POST", wellKnown+path, "", map[string]any{})
		if a.Status != 405 || a.Code() != "method_not_allowed" || a.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d %s, Allow %q", path, a.Status, a.Raw, a.Header.Get("Allow"))
		}
	}
}

func TestWebPagesMayCallTheOAuthRoutes(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	for path, method := range map[string]string{
		"/register": "POST", "/token": "POST", "/revoke": "POST", "/device_authorization": "POST", "/authorize": "GET",
		wellKnown + "oauth-protected-resource": "GET", wellKnown + "oauth-authorization-server": "GET",
	} {
		a := r.Do("OPTIONS", path, "", nil, "Origin", "https://page.example", "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", "authorization, content-type, mcp-protocol-version")
		allowed := a.Header.Get("Access-Control-Allow-Headers")
		if a.Status != 204 || a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Access-Control-Max-Age") != "86400" ||
			!strings.Contains(a.Header.Get("Access-Control-Allow-Methods"), method) || !strings.HasPrefix(allowed, "authorization, content-type, mcp-protocol-version") {
			t.Errorf("OPTIONS %s: %d %v", path, a.Status, a.Header)
		}
		plain := r.Do(method, path, "", nil, "Origin", "https://page.example")
		if plain.Header.Get("Access-Control-Allow-Origin") != "*" || plain.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s %s: %v", method, path, plain.Header)
		}
	}
}

// Public cases of group H that need no approval, by number.
func TestPublicCasesOfDiscovery(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	t.Run("case 121: the issuer is spelt without a slash, and is the origin that the document was found under", func(t *testing.T) {
		a := r.Do("GET", wellKnown+"oauth-authorization-server", "", nil)
		servers, _ := r.Do("GET", wellKnown+"oauth-protected-resource", "", nil).Body["authorization_servers"].([]any)
		if a.Text("issuer") != r.URL || len(servers) != 1 || servers[0] != r.URL {
			t.Errorf("issuer %q, servers %v, origin %q", a.Text("issuer"), servers, r.URL)
		}
	})
	t.Run("case 126: well-known paths answer 200 or 404 without a token, never 401 or 403", func(t *testing.T) {
		for path, want := range map[string]int{
			"openid-configuration": 200, "oauth-authorization-server": 200, "oauth-protected-resource": 200, "oauth-protected-resource/mcp": 200,
			"oauth-authorization-server/mcp": 404, "openid-configuration/mcp": 404, "oauth-protected-resource/other": 404, "mcp.json": 404,
			"jwks.json": 404,
		} {
			for _, token := range []string{"", "garbage"} {
				if a := r.Do("GET", wellKnown+path, token, nil); a.Status != want {
					t.Errorf("%s with token %q: %d, want %d", path, token, a.Status, want)
				}
			}
		}
	})
	t.Run("case 127: a page of another origin can read the challenge", func(t *testing.T) {
		a := r.Do("POST", "/v1/notify", "", map[string]any{"title": "x"}, "Origin", "https://page.example")
		if a.Status != http.StatusUnauthorized || a.Header.Get("Access-Control-Allow-Origin") != "*" ||
			!strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") || a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%d %v", a.Status, a.Header)
		}
	})
}
