package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Revision is the protocol revision without sessions, which events were made for.
const Revision = "2026-07-28"

// revisions are those that a Handler serves, in the order it reports them.
var revisions = []string{Revision, "2025-06-18", "2025-03-26", "2024-11-05"}

const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
)

// Info names a server to its clients.
type Info struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// Method serves a method that is not of the extension. The result is encoded as JSON and must be an object; the error is
// for ErrorOf.
type Method func(ctx context.Context, c Caller, params json.RawMessage) (result any, err error)

// HandlerOptions say what else a server without an SDK offers. The zero value offers events only.
type HandlerOptions struct {
	Info Info
	// Instructions tell an agent what the server is for.
	Instructions string
	// Capabilities are announced beside events, such as "tools": {}.
	Capabilities map[string]any
	// Methods are served beside those of the extension, such as "tools/list".
	Methods map[string]Method
	// ModernOnly refuses events to clients of older revisions, which begin with initialize.
	ModernOnly bool
	// Detach takes an open events/stream call of HTTP/1.1 off the HTTP server, which halves what it costs to wait. What is
	// wrapped around the handler then sees the call end at once, and its ResponseWriter is not written to but must let the
	// connection be hijacked. Server.Run, not http.Server.Shutdown, ends such streams and waits for them.
	Detach bool
}

// message is one JSON-RPC message, read strictly.
type message struct {
	id     json.RawMessage // nil for a notification
	method string
	params json.RawMessage
	// version and capabilities are what params._meta says; version is "" for a client of an older revision.
	version      string
	capabilities json.RawMessage
	hasMeta      bool
}

func (m *message) modern() bool { return m.version != "" }

// readMessage parses a message. The error's id is the message's when it could be read.
func readMessage(raw []byte) (message, error) {
	var m message
	trimmed := bytes.TrimSpace(raw)
	if !json.Valid(trimmed) {
		return m, &Error{Meaning: ParseError, Message: "the body is not JSON"}
	}
	parts, err := readMembers(trimmed, "the message")
	if err != nil {
		return m, &Error{Meaning: InvalidRequest, Message: "the body is not one JSON-RPC request"}
	}
	m.id = parts["id"]
	method, err := parts.text("method")
	if string(parts["jsonrpc"]) != `"2.0"` || !validID(m.id) {
		return m, &Error{Meaning: InvalidRequest, Message: "a request has jsonrpc \"2.0\", a method and an id that is a string or a whole number"}
	}
	if err != nil {
		m.id = nil // a response, which nobody here waits for
		return m, nil
	}
	m.method, m.params = method, parts["params"]
	return m, m.readMeta()
}

func validID(id json.RawMessage) bool {
	if len(id) == 0 || id[0] == '"' {
		return true
	}
	digits := strings.TrimPrefix(string(id), "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

func (m *message) readMeta() error {
	params, err := readMembers(m.params, "params")
	if err != nil || !params.has("_meta") {
		return err
	}
	meta, err := readMembers(params["_meta"], "_meta")
	if err != nil {
		return err
	}
	m.hasMeta, m.capabilities = true, meta[metaCapabilities]
	if meta.has(metaVersion) {
		m.version, err = meta.text(metaVersion)
	}
	return err
}

// checkRevision checks what a request of the modern revision must say of itself.
func (m *message) checkRevision() error {
	switch {
	case !m.modern():
		return nil
	case m.version != Revision:
		return unknownRevision(m.version)
	case len(m.capabilities) == 0 || m.capabilities[0] != '{':
		return invalid("_meta: %s must be an object", metaCapabilities)
	}
	return nil
}

func unknownRevision(requested string) *Error {
	e := &Error{Meaning: UnsupportedVersion, Message: "this protocol revision is not supported"}
	return e.with("supported", revisions).with("requested", shown(requested))
}

// Endpoint answers JSON-RPC messages, whatever carries them. Handler and ServePipe are made of it; use it for a transport
// of your own.
type Endpoint struct {
	*Server
	opts HandlerOptions
}

// NewEndpoint returns the endpoint of a server. Nil options offer events only. A nil server has no events: nothing but what
// the options name is offered or announced.
func NewEndpoint(s *Server, opts *HandlerOptions) *Endpoint {
	e := &Endpoint{Server: s}
	if opts != nil {
		e.opts = *opts
	}
	orElse(&e.opts.Info.Name, "mcpevents")
	orElse(&e.opts.Info.Version, "0")
	return e
}

func (m *message) request(c Caller) Request {
	return Request{Method: m.method, ID: m.id, Params: m.params, Dialect: DialectOf(m.capabilities), Caller: c}
}

// call answers every method but those that stream.
func (e *Endpoint) call(ctx context.Context, m *message, c Caller) (json.RawMessage, error) {
	if err := e.mayCall(m); err != nil {
		return nil, err
	}
	switch m.method {
	case "server/discover":
		return wireJSON(e.discover()), nil
	case "initialize":
		return wireJSON(e.initialize(m.params)), nil
	case "ping":
		return json.RawMessage(`{}`), nil
	}
	if serve := e.opts.Methods[m.method]; serve != nil {
		result, err := serve(ctx, c, m.params)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(result)
		if err != nil {
			return nil, internal("encode the result of "+m.method, err)
		}
		return raw, nil
	}
	if e.Server == nil {
		return nil, noMethod(m.method)
	}
	return e.Call(ctx, m.request(c))
}

func noMethod(name string) *Error {
	return &Error{Meaning: MethodNotFound, Message: fmt.Sprintf("there is no method %q in this revision", shown(name))}
}

// mayCall tells the methods of the two kinds of client apart.
func (e *Endpoint) mayCall(m *message) error {
	modernOnly := m.method == "server/discover" || m.method == "subscriptions/listen" ||
		(e.opts.ModernOnly && slices.Contains(Methods(), m.method))
	if (modernOnly && !m.modern()) || (m.method == "initialize" && m.modern()) || (e.Server == nil && m.streams()) {
		return noMethod(m.method)
	}
	return nil
}

func (e *Endpoint) capabilities() map[string]any {
	all := map[string]any{}
	maps.Copy(all, e.opts.Capabilities)
	if e.Server != nil {
		e.Capabilities(all)
	}
	return all
}

func (e *Endpoint) discover() map[string]any {
	result := map[string]any{"supportedVersions": revisions, "capabilities": e.capabilities(), "serverInfo": e.opts.Info,
		"ttlMs": 3_600_000, "cacheScope": "public"}
	if e.opts.Instructions != "" {
		result["instructions"] = e.opts.Instructions
	}
	return result
}

func (e *Endpoint) initialize(params json.RawMessage) map[string]any {
	version := revisions[1]
	if m, err := readMembers(params, "params"); err == nil {
		if asked, err := m.text("protocolVersion"); err == nil && slices.Contains(revisions[1:], asked) {
			version = asked
		}
	}
	result := map[string]any{"protocolVersion": version, "capabilities": e.capabilities(), "serverInfo": e.opts.Info}
	if e.opts.Instructions != "" {
		result["instructions"] = e.opts.Instructions
	}
	return result
}

// cacheable are the methods whose results the modern revision wants to say how long they hold. A Method that does not say
// so is taken for one whose results do not.
var cacheable = map[string]bool{"tools/list": true, "prompts/list": true, "resources/list": true,
	"resources/templates/list": true, "resources/read": true}

// complete adds to a result what the modern revision wants of every one.
func (e *Endpoint) complete(m *message, result json.RawMessage) json.RawMessage {
	if !m.modern() {
		return result
	}
	all, err := readMembers(result, "result")
	if err != nil {
		return result // not an object: a Method's mistake, which the client reports best
	}
	all["resultType"] = json.RawMessage(`"complete"`)
	if cacheable[m.method] && !all.has("ttlMs") {
		all["ttlMs"], all["cacheScope"] = json.RawMessage("0"), json.RawMessage(`"private"`)
	}
	meta, _ := readMembers(all.object("_meta"), "_meta")
	if _, there := meta[metaServerInfo]; !there && meta != nil {
		meta[metaServerInfo] = wireJSON(e.opts.Info)
		all["_meta"] = wireJSON(meta)
	}
	return wireJSON(all)
}

// response is a JSON-RPC response.
type response struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Wire           `json:"error,omitempty"`
}

func (e *Endpoint) respond(m *message, result json.RawMessage, err error) response {
	r := response{JSONRPC: "2.0", ID: m.id}
	if len(r.ID) == 0 {
		r.ID = json.RawMessage("null")
	}
	if err != nil {
		wire := ErrorOf(err, DialectOf(m.capabilities))
		if wire.Code == Internal.Code(DialectSketch) && e.Server != nil {
			e.log.Error("request failed", "method", shown(m.method), "err", err)
		}
		r.Error = &wire
		return r
	}
	r.Result = e.complete(m, result)
	return r
}

// Answer serves one message from a caller. send is called, never concurrently, for each notification that belongs to it.
// It returns the response to send, or nil for a message that gets none: a notification, or a call that ended with ctx.
func (e *Endpoint) Answer(ctx context.Context, raw []byte, c Caller, send func(notification []byte) error) (response []byte) {
	m, err := readMessage(raw)
	if err == nil && m.id != nil {
		err = m.checkRevision()
	}
	switch {
	case err != nil:
		return wireJSON(e.respond(&m, nil, err))
	case m.id == nil:
		return nil
	}
	return e.answer(ctx, &m, c, send)
}

func (e *Endpoint) answer(ctx context.Context, m *message, c Caller, send func([]byte) error) []byte {
	var result json.RawMessage
	var err error
	if m.streams() {
		result, err = e.stream(ctx, m, c, func(n Notification) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return send(wireJSON(n))
		})
	} else {
		result, err = e.call(ctx, m, c)
	}
	if ctx.Err() != nil {
		return nil
	}
	return wireJSON(e.respond(m, result, err))
}

// streams reports whether a method is answered by a stream of messages.
func (m *message) streams() bool {
	return m.method == MethodStream || m.method == "subscriptions/listen"
}

// stream answers a method that streams. Until it has sent something, an error is the whole answer.
func (e *Endpoint) stream(ctx context.Context, m *message, c Caller, send func(Notification) error) (json.RawMessage, error) {
	if err := e.mayCall(m); err != nil {
		return nil, err
	}
	if m.method == MethodStream {
		return e.Stream(ctx, m.request(c), send)
	}
	return nil, e.listen(ctx, m, send)
}

// listen serves subscriptions/listen for the one thing this library has to tell on it.
func (e *Endpoint) listen(ctx context.Context, m *message, send func(Notification) error) error {
	params, err := readMembers(m.params, "params")
	if err != nil {
		return err
	}
	wanted, err := readMembers(params.object("notifications"), "notifications")
	if err != nil {
		return err
	}
	told := e.Server.opts.ListChanged && string(wanted["eventsListChanged"]) == "true"
	accepted := map[string]any{}
	if told {
		accepted["eventsListChanged"] = true
	}
	meta := map[string]json.RawMessage{subscriptionMeta: m.id}
	notify := func(method string, params map[string]any) error {
		params["_meta"] = meta
		return send(Notification{JSONRPC: "2.0", Method: method, Params: wireJSON(params)})
	}
	changes, stop := e.ListChanges()
	defer stop()
	if err := notify("notifications/subscriptions/acknowledged", map[string]any{"notifications": accepted}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changes:
			if !told {
				continue
			}
			if err := notify(NotifyListChanged, map[string]any{}); err != nil {
				return err
			}
		}
	}
}
