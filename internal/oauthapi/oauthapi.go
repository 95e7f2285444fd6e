// Package oauthapi is the edge of the authorization server: discovery documents, registration, the pages of an approval,
// tokens and the device flow (contract sections 8 and 9).
//
// Its routes take no cookie and no bearer credential; every web page may call them. Errors are those of OAuth, but for
// limits and outages, which answer like everywhere else.
package oauthapi

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/allowance"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/oauth"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/web"
)

// API serves the routes. All fields are set once, before use.
type API struct {
	OAuth   *oauth.Service
	Origins *web.Origins
	// Begins bounds the requests for approval that one address begins, whatever comes of them.
	Begins *allowance.Window
	// Who tells whose browser it is; "" when it is nobody's. It may be nil.
	Who func(*http.Request) relay.PersonID
}

// BeginsPerWindow is how many requests for approval one address may begin within ten minutes.
const BeginsPerWindow = 300

// Register adds the routes.
func (a *API) Register(rt *web.Router) {
	rt.Handle("GET /.well-known/oauth-protected-resource", a.protectedResource)
	rt.Handle("GET /.well-known/oauth-protected-resource/mcp", a.protectedResource)
	rt.Handle("GET /.well-known/oauth-authorization-server", a.serverMetadata)
	rt.Handle("GET /.well-known/openid-configuration", a.serverMetadata)
	rt.Handle("POST /register", a.register)
	rt.Handle("GET /authorize", a.authorize)
	rt.Handle("GET /authorize/wait", a.wait)
	rt.Handle("GET /authorize/status", a.status)
	rt.Handle("POST /authorize/code", a.enter)
	rt.Handle("POST /authorize/deny", a.refuse)
	rt.Handle("POST /token", a.token)
	rt.Handle("POST /revoke", a.revoke)
	rt.Handle("POST /device_authorization", a.deviceAuthorization)
	rt.Handle("GET /activate", a.activate)
	rt.Handle("POST /activate", a.activated)
	rt.Handle("POST /activate/approve", a.enter)
	rt.Handle("POST /activate/deny", a.refuse)
}

// params are the parameters of a request. A value that is empty counts as left out (RFC 6749, section 3.1).
type params struct{ values url.Values }

// repeatable may be sent more than once (RFC 8707, section 2).
const repeatable = "resource"

func readParams(raw string) (params, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return params{}, fault.InvalidRequest("", "the parameters are not properly encoded")
	}
	for name, list := range values {
		if values[name] = slices.DeleteFunc(list, func(v string) bool { return v == "" }); len(values[name]) == 0 {
			delete(values, name)
		}
	}
	return params{values}, nil
}

func (p params) get(name string) string { return p.values.Get(name) }

// repeats reports whether a parameter was sent more than once that may not be.
func (p params) repeats() bool {
	for name, list := range p.values {
		if len(list) > 1 && name != repeatable {
			return true
		}
	}
	return false
}

// maxForm bounds the forms that are posted here.
const maxForm = 16 << 10

// form reads a posted form, of which no parameter may be repeated.
func form(w http.ResponseWriter, r *http.Request) (params, error) {
	base, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if base != "application/x-www-form-urlencoded" {
		return params{}, fault.InvalidRequest("", "send the parameters as application/x-www-form-urlencoded")
	}
	data, err := web.ReadBody(w, r, maxForm)
	if err != nil {
		return params{}, err
	}
	p, err := readParams(string(data))
	if err != nil {
		return p, err
	}
	if p.repeats() {
		return p, fault.InvalidRequest("", "a parameter was sent more than once")
	}
	return p, nil
}

// resourcePath is what tokens are for, behind the origin.
const resourcePath = "/mcp"

// checkResource accepts our own resource only, with or without one slash at its end (RFC 8707).
func checkResource(p params, origin string) error {
	for _, v := range p.values[repeatable] {
		v = strings.TrimSuffix(v, "/")
		if !strings.HasSuffix(v, resourcePath) || !strings.EqualFold(strings.TrimSuffix(v, resourcePath), origin) {
			return fault.New(fault.Invalid, "invalid_target", "resource must be %s%s, the only one that this relay gives tokens for", origin, resourcePath)
		}
	}
	return nil
}

type errorBody struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// answered renders the errors of OAuth itself, with their own body and statuses; every other error goes on to be rendered
// like everywhere else.
func answered(w http.ResponseWriter, r *http.Request, err error) error {
	f := fault.From(err)
	switch {
	case f.Kind == fault.Unauthenticated:
		if _, _, basic := r.BasicAuth(); basic {
			w.Header().Set("WWW-Authenticate", `Basic realm="herald", charset="UTF-8"`)
		}
		return web.WriteJSON(w, http.StatusUnauthorized, errorBody{f.Code, f.Detail})
	case f.Kind == fault.Invalid:
		return web.WriteJSON(w, http.StatusBadRequest, errorBody{f.Code, f.Detail})
	}
	return err
}

// proof reads how a request proves its client: by Basic, or by parameters (RFC 6749, section 2.3.1).
func proof(r *http.Request, p params) (oauth.ClientProof, error) {
	_, secretSent := p.values["client_secret"]
	out := oauth.ClientProof{ID: p.get("client_id"), Secret: p.get("client_secret"), Sent: secretSent}
	id, secret, basic := r.BasicAuth()
	if !basic {
		if r.Header.Get("Authorization") != "" {
			return out, fault.New(fault.Unauthenticated, "invalid_client", "clients prove themselves by Basic or by client_secret")
		}
		return out, nil
	}
	id, err1 := url.QueryUnescape(id)
	secret, err2 := url.QueryUnescape(secret)
	switch {
	case err1 != nil || err2 != nil:
		return out, fault.New(fault.Unauthenticated, "invalid_client", "the client's Basic credentials are not properly encoded")
	case secretSent || out.ID != "" && out.ID != id:
		return out, fault.InvalidRequest("", "prove the client in one way only")
	}
	return oauth.ClientProof{ID: id, Secret: secret, Sent: true}, nil
}

// deviceNumber reads the parameter device: 0 when it is left out. ok is false for what is no number from 1.
func deviceNumber(p params) (n int, ok bool) {
	text := p.get("device")
	if text == "" {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= 1000 && text[0] != '+'
}

// whose reads whose approval is asked for: the browser's own person, else the handle that was typed.
func (a *API) whose(r *http.Request, p params) oauth.Whose {
	if a.Who != nil {
		if person := a.Who(r); person != "" {
			return oauth.Whose{Person: person}
		}
	}
	return oauth.Whose{Handle: strings.ToLower(strings.TrimSpace(p.get("person")))}
}

// mayBegin charges the caller's address.
func (a *API) mayBegin(r *http.Request, now time.Time) error {
	if a.Begins.Allow(a.Origins.Address(r), now) {
		return nil
	}
	return fault.New(fault.Exhausted, "rate_limited", "too many requests for approval came from this address; wait ten minutes").
		WithRetry(10*time.Minute, false)
}

func (a *API) register(w http.ResponseWriter, r *http.Request) error {
	data, err := web.ReadBody(w, r, web.SmallBody)
	if err != nil {
		return err
	}
	c, secret, err := a.OAuth.Register(r.Context(), data, time.Now())
	if err != nil {
		return answered(w, r, err)
	}
	out := registeredBody{
		ClientID: c.ID, IssuedAt: c.CreatedAt.Unix(), Name: c.Name, Redirects: c.Redirects, AuthMethod: c.AuthMethod,
		GrantTypes: oauth.GrantTypes(), ResponseTypes: []string{"code"}, Scope: relay.KnownScopes.String(), Secret: secret,
	}
	if out.Redirects == nil {
		out.Redirects = []string{}
	}
	if secret != "" {
		out.SecretExpiresAt = new(int64)
	}
	return web.WriteJSON(w, http.StatusCreated, out)
}

type registeredBody struct {
	ClientID        relay.ClientID `json:"client_id"`
	IssuedAt        int64          `json:"client_id_issued_at"`
	Name            string         `json:"client_name"`
	Redirects       []string       `json:"redirect_uris"`
	AuthMethod      string         `json:"token_endpoint_auth_method"`
	GrantTypes      []string       `json:"grant_types"`
	ResponseTypes   []string       `json:"response_types"`
	Scope           string         `json:"scope"`
	Secret          string         `json:"client_secret,omitempty"`
	SecretExpiresAt *int64         `json:"client_secret_expires_at,omitempty"`
}

// unserved says that the fault is the relay's own, for now: pages and the device flow answer 502.
func unserved(err error) bool {
	kind := fault.From(err).Kind
	return kind == fault.Unavailable || kind == fault.Internal
}

// codeOf is the code of an error, "" of one that carries none.
func codeOf(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Code
	}
	return ""
}
