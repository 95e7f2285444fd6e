package app_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/herald-relay/herald/internal/testkit"
)

// person is a browser and a device: it opens the page, approves on the device, and comes back with what the client is told.
func person(t *testing.T, d *testkit.Device, c *connector) auth.AuthorizationCodeFetcher {
	return func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
		path, found := strings.CutPrefix(args.URL, d.URL)
		if !found {
			return nil, errors.New("the client sends the browser elsewhere: " + args.URL)
		}
		rid := c.browse(t, "GET", path, nil).rid(t)
		decide(d, rid, "approve")
		back, err := url.Parse(d.Do("GET", "/authorize/status?rid="+rid, "", nil).Text("redirect"))
		if err != nil {
			return nil, err
		}
		q := back.Query()
		return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
	}
}

// TestTheOfficialSDKsClientIsConnected runs the OAuth client of the official Go SDK: from a refusal over both metadata
// documents, registration or a metadata document, PKCE, the approval and iss to a token that works and is refreshed.
func TestTheOfficialSDKsClientIsConnected(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	s.put(documentID, documentOf(documentID))
	for name, config := range map[string]auth.AuthorizationCodeHandlerConfig{
		"by registration": {
			DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
				ClientName: "Go SDK", RedirectURIs: []string{"http://127.0.0.1:33418/callback"}, GrantTypes: []string{"authorization_code", "refresh_token"},
			}},
			RedirectURL: "http://127.0.0.1:33418/callback",
		},
		"by a metadata document": {
			ClientIDMetadataDocumentConfig: &auth.ClientIDMetadataDocumentConfig{URL: documentID}, RedirectURL: redirectURI,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testkit.New(t, testkit.Options{Documents: s.client()})
			d := r.Pair("Mac")
			config.AuthorizationCodeFetcher = person(t, d, &connector{Relay: r, http: stay(r.HTTP)})
			config.Client = r.HTTP
			h, err := auth.NewAuthorizationCodeHandler(&config)
			if err != nil {
				t.Fatal(err)
			}
			refused, err := r.HTTP.Get(r.URL + "/v1/status")
			if err != nil || refused.StatusCode != http.StatusUnauthorized {
				t.Fatalf("%v %v", refused, err)
			}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", r.URL+"/mcp", nil)
			if err := h.Authorize(t.Context(), req, refused); err != nil {
				t.Fatal(err)
			}
			source, err := h.TokenSource(t.Context())
			if err != nil || source == nil {
				t.Fatalf("%v %v", source, err)
			}
			token, err := source.Token()
			if err != nil || token.Type() != "Bearer" || !works(r, token.AccessToken) || !strings.HasPrefix(token.RefreshToken, "hrr_") {
				t.Errorf("%v %v", token, err)
			}
		})
	}
}
