package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/eventstest"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

// house is a real relay with a paired device and an agent, behind a proxy that does nothing wrong.
type house struct {
	*testkit.Relay
	device *testkit.Device
	agent  *testkit.Agent
	proxy  http.Handler
	net    *eventstest.Net // where the relay calls out to
	events *mcpevents.Server
}

func newHouse(t *testing.T) *house { return newPublicHouse(t, "") }

// newPublicHouse is a house whose relay knows its public address.
func newPublicHouse(t *testing.T, origin string) *house {
	t.Helper()
	testkit.OnSQLite(t) // what is looked at is the wire
	public := func(c *config.Config) { c.Origin = origin }
	h := &house{Relay: testkit.New(t, testkit.Options{Config: public}), net: eventstest.NewNet()}
	h.device = h.Pair("desk")
	h.agent = h.device.Agent("bot")
	to, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
	h.proxy = proxy
	return h
}

// standIn puts an endpoint in the place of the relay's that calls out to the net of the house, where the relay's would only
// reach public addresses.
func (h *house) standIn(t *testing.T) {
	t.Helper()
	h.proxy = h.withEndpoint(t, h.proxy)
}

// withEndpoint puts an MCP endpoint beside a relay.
func (h *house) withEndpoint(t *testing.T, relay http.Handler) http.Handler {
	t.Helper()
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "notification.reply", Description: "The person replied."})
	if err != nil {
		t.Fatal(err)
	}
	events, err := mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "replies", Catalog: catalog, Policy: mcpevents.Relay()}}, &mcpevents.Options{Egress: h.net})
	if err != nil {
		t.Fatal(err)
	}
	h.events = events
	authenticate := func(r *http.Request) (mcpevents.Caller, error) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		answer, err := h.Try(r.Context(), "GET", "/v1/status", token, nil)
		if err != nil || answer.Status != http.StatusOK {
			return mcpevents.Caller{}, errors.New("no")
		}
		return mcpevents.Caller{Principal: "p", Ledger: "l", Value: json.RawMessage(answer.Raw)}, nil
	}
	endpoint := mcpevents.NewHandler(events, authenticate, &mcpevents.HandlerOptions{
		Info: mcpevents.Info{Name: "herald-relay", Version: "1.1.0"},
		Methods: map[string]mcpevents.Method{
			"tools/list": func(context.Context, mcpevents.Caller, json.RawMessage) (any, error) {
				return map[string]any{"tools": []any{map[string]any{"name": "herald_status"}}}, nil
			},
			"tools/call": func(_ context.Context, c mcpevents.Caller, _ json.RawMessage) (any, error) {
				return map[string]any{"content": []any{}, "structuredContent": c.Value}, nil
			},
		},
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.TrimSuffix(r.URL.Path, "/") != "/mcp" {
			relay.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("Origin") != "" {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Allow-Headers", "authorization, content-type, mcp-protocol-version, mcp-method, mcp-name")
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if _, err := authenticate(r); err != nil {
			challenge := `resource_metadata="` + scheme(r) + r.Host + `/.well-known/oauth-protected-resource"`
			if r.Header.Get("Authorization") != "" {
				challenge = `error="invalid_token", ` + challenge
			}
			w.Header().Set("WWW-Authenticate", "Bearer "+challenge)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		endpoint.ServeHTTP(w, r)
	})
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https://"
	}
	return "http://"
}

// examine looks at the house through a server in front of it.
func (h *house) examine(t *testing.T, front *httptest.Server, adjust func(*Target)) *Report {
	t.Helper()
	target := Target{Address: front.URL, Public: true, AgentToken: h.agent.Token, DeviceToken: h.device.Token, UserAgent: "herald/test",
		Transport: &http.Transport{}}
	if adjust != nil {
		adjust(&target)
	}
	r := &Report{}
	Outside(t.Context(), r, target)
	return r
}
