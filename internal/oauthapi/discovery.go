package oauthapi

import (
	"net/http"

	"github.com/herald-relay/herald/internal/oauth"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/web"
)

// documentation is where a developer reads how this authorization server works.
const documentation = "https://github.com/herald-relay/herald/blob/main/docs/wire/oauth.md"

// resourceBody is the protected resource's metadata (RFC 9728).
type resourceBody struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	Bearer   []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
	Docs     string   `json:"resource_documentation"`
}

func (a *API) protectedResource(w http.ResponseWriter, r *http.Request) error {
	origin := a.Origins.Of(r)
	cacheable(w)
	return web.WriteJSON(w, http.StatusOK, resourceBody{
		Resource: origin + resourcePath, Servers: []string{origin}, Scopes: relay.KnownScopes, Bearer: []string{"header"},
		Name: "Herald cloud relay", Docs: documentation,
	})
}

// serverBody is the authorization server's metadata (RFC 8414), also found where OpenID clients look.
type serverBody struct {
	Issuer            string   `json:"issuer"`
	Authorize         string   `json:"authorization_endpoint"`
	Token             string   `json:"token_endpoint"`
	Register          string   `json:"registration_endpoint"`
	Device            string   `json:"device_authorization_endpoint"`
	Revoke            string   `json:"revocation_endpoint"`
	Scopes            []string `json:"scopes_supported"`
	ResponseTypes     []string `json:"response_types_supported"`
	ResponseModes     []string `json:"response_modes_supported"`
	GrantTypes        []string `json:"grant_types_supported"`
	Challenges        []string `json:"code_challenge_methods_supported"`
	TokenAuth         []string `json:"token_endpoint_auth_methods_supported"`
	RevokeAuth        []string `json:"revocation_endpoint_auth_methods_supported"`
	IssuerInResponses bool     `json:"authorization_response_iss_parameter_supported"`
	Documents         bool     `json:"client_id_metadata_document_supported,omitzero"`
	Docs              string   `json:"service_documentation"`
}

func (a *API) serverMetadata(w http.ResponseWriter, r *http.Request) error {
	origin := a.Origins.Of(r)
	cacheable(w)
	return web.WriteJSON(w, http.StatusOK, serverBody{
		Issuer: origin, Authorize: origin + "/authorize", Token: origin + "/token", Register: origin + "/register",
		Device: origin + "/device_authorization", Revoke: origin + "/revoke", Scopes: relay.KnownScopes,
		ResponseTypes: []string{"code"}, ResponseModes: []string{"query"}, GrantTypes: oauth.GrantTypes(),
		Challenges: []string{"S256"}, TokenAuth: oauth.AuthMethods(), RevokeAuth: oauth.AuthMethods(), IssuerInResponses: true,
		Documents: a.OAuth.Documents != nil, Docs: documentation,
	})
}

// cacheable lets documents be kept for five minutes. What they name may depend on the host that was asked.
func cacheable(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("Vary", "Host, X-Forwarded-Host, X-Forwarded-Proto")
}
