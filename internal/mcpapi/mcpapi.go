package mcpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/herald-relay/herald/internal/agentapi"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/strictjson"
	"github.com/herald-relay/herald/internal/web"
	"github.com/herald-relay/herald/mcpevents"
)

// API serves the endpoint. All fields are set once, before use.
type API struct {
	Auth    *credential.Authenticator
	Agents  *agentapi.API // does what tools do, and counts what requests cost
	Origins *web.Origins
	MaxBody int // of a notification, icon apart
	// Events answers the methods of events.
	Events *mcpevents.Server
	// Caller is who a principal is to Events.
	Caller func(credential.Principal) mcpevents.Caller
	// Stopping ends when the relay begins to stop: open streams then end, and their clients come back to another process.
	Stopping context.Context

	events   *mcpevents.Endpoint
	discover []byte // members of the result of server/discover
}

// envelope is how much larger than the notification in it a request may be.
const envelope = 16 << 10

// Register adds the route.
func (a *API) Register(rt *web.Router) {
	a.events = mcpevents.NewEndpoint(a.Events, &mcpevents.HandlerOptions{
		Info: mcpevents.Info{Name: "herald-relay", Title: "Herald cloud relay", Version: "1.1.0"}, ModernOnly: true,
	})
	a.discover = discovery(a.Events)
	rt.Handle("POST /mcp", a.serve)
	rt.Handle("POST /mcp/{$}", a.serve)
	rt.Fallback("/mcp", a.otherMethod)
}

// known refuses a credential whose shape or signature is wrong, which costs no look into the store.
func (a *API) known(w http.ResponseWriter, r *http.Request) error {
	return challenge(w, a.Origins.Of(r), web.Credential(r) != "", a.Auth.Shape(web.Credential(r)))
}

// challenge tells whoever is not known where to sign in (RFC 9728, section 5.1). sent says that a credential came.
func challenge(w http.ResponseWriter, origin string, sent bool, err error) error {
	if fault.Is(err, fault.Unauthenticated) {
		header := "Bearer "
		if sent {
			header += `error="invalid_token", `
		}
		w.Header().Set("WWW-Authenticate", header+`resource_metadata="`+origin+`/.well-known/oauth-protected-resource"`)
	}
	return err
}

// otherMethod answers whatever is no POST.
func (a *API) otherMethod(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path != "/mcp" && r.URL.Path != "/mcp/" {
		return fault.NotFoundf("there is nothing at this path; the MCP endpoint is /mcp")
	}
	if err := a.known(w, r); err != nil {
		return err
	}
	w.Header().Set("Allow", http.MethodPost)
	if r.Method != http.MethodGet && r.Method != http.MethodDelete {
		http.Error(w, "this path takes POST", http.StatusMethodNotAllowed)
		return nil
	}
	writeError(w, nil, &rpcError{code: codeNoStream, status: http.StatusMethodNotAllowed,
		text: "Method not allowed: this server keeps no session and opens no stream; POST every message"})
	return nil
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) error {
	if err := a.known(w, r); err != nil {
		return err
	}
	if err := web.RequireJSON(r); err != nil {
		return err
	}
	body, err := web.ReadBody(w, r, payload.Ceiling(a.MaxBody)+envelope)
	if err != nil {
		return err
	}
	m, err := readMessage(body)
	if err != nil {
		return a.refuse(w, m, err)
	}
	if m == nil {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	now, origin := time.Now(), a.Origins.Of(r)
	p, err := a.Auth.Agent(r.Context(), web.Credential(r), now)
	if err != nil {
		return challenge(w, origin, true, err)
	}
	spent := a.Agents.Charge(r.Context(), p, now)
	if err := m.checkVersion(r.Header); err != nil {
		return a.refuse(w, m, err)
	}
	if m.id == nil {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	c := &call{API: a, m: m, p: p, origin: origin, now: now, spent: spent, body: body}
	return a.refuse(w, m, c.dispatch(w, r))
}

// refuse renders an error in the words of JSON-RPC. Credentials have none, and what is nobody's fault but ours is the
// router's to log.
func (a *API) refuse(w http.ResponseWriter, m *message, err error) error {
	refusal, is := errors.AsType[*rpcError](err)
	if !is {
		return err
	}
	writeError(w, m, refusal)
	return refusal.cause
}

// call is one request that was admitted.
type call struct {
	*API
	m      *message
	p      credential.Principal
	origin string
	now    time.Time
	spent  error // the mailbox's budget of requests is; what is answered here does not mind
	body   []byte
}

func (c *call) dispatch(w http.ResponseWriter, r *http.Request) error {
	switch {
	case c.m.method == "ping":
		writeResult(w, c.m, nil)
	case c.m.method == "tools/list":
		writeResult(w, c.m, toolList(c.m.modern))
	case c.m.method == "tools/call":
		return c.tool(w, r)
	case c.m.method == "initialize" && !c.m.modern:
		writeResult(w, c.m, initialized(c.m.params))
	case c.m.method == "server/discover" && c.m.modern:
		writeResult(w, c.m, c.discover)
	case c.m.modern && slices.Contains(mcpevents.Methods(), c.m.method):
		return c.event(w, r)
	default:
		return noMethod(c.m)
	}
	return nil
}

// tool calls a tool. What its route would refuse is a result that says so, but for credentials.
func (c *call) tool(w http.ResponseWriter, r *http.Request) error {
	name, _ := c.m.params.Text("name")
	run := toolCalls[name]
	if run == nil {
		return &rpcError{code: codeParams, status: http.StatusOK, text: "Unknown tool: " + shown(name)}
	}
	arguments, found := c.m.params.Typed("arguments", strictjson.Object)
	if found == strictjson.WrongType {
		return &rpcError{code: codeParams, status: http.StatusOK, text: "params.arguments must be an object"}
	}
	arguments.Kind = strictjson.Object
	return run(c, w, r, arguments)
}
