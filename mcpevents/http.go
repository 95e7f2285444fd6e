package mcpevents

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	maxRequest   = 1 << 20          // bytes of a request body
	writeTimeout = 30 * time.Second // for one frame of a stream: a client that takes longer is gone
)

// Authenticate finds who a request comes from. A Caller without Principal is nobody, which is fine for public events. An
// error is answered with 401.
type Authenticate func(r *http.Request) (Caller, error)

// Handler is the MCP endpoint of a server that has no SDK: JSON-RPC over HTTP, in the revision without sessions and, as
// far as it goes without them, in older ones.
type Handler struct {
	*Endpoint
	authenticate Authenticate
}

// NewHandler returns the endpoint of a server, to be mounted at a path of the application's choice. It checks the body's
// size, form and headers; it does not limit rates, nor look at Origin: wrap it with middleware that does, and exempt
// events/stream from limits on concurrent requests.
func NewHandler(s *Server, authenticate Authenticate, opts *HandlerOptions) *Handler {
	return &Handler{NewEndpoint(s, opts), authenticate}
}

// ServeHTTP answers one message.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		h.write(w, http.StatusMethodNotAllowed, response{JSONRPC: "2.0", ID: json.RawMessage("null"),
			Error: &Wire{Code: -32000, Message: "Method not allowed."}})
		return
	}
	caller, err := h.authenticate(r)
	if err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "body unreadable or larger than 1 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	h.ServeMessage(w, r, body, caller)
}

// ServeMessage answers one message that came over HTTP from a caller: it holds the headers of r to the body, and streams
// where the method does. It is for handlers that serve methods of their own and have read the body already.
func (e *Endpoint) ServeMessage(w http.ResponseWriter, r *http.Request, body []byte, c Caller) {
	m, err := readMessage(body)
	if err == nil {
		err = checkHeaders(r.Header, &m)
	}
	switch {
	case err != nil:
		e.write(w, httpStatus(err, true), e.respond(&m, nil, err))
	case m.id == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.streams():
		e.serveStream(w, r, &m, c)
	default:
		result, err := e.call(r.Context(), &m, c)
		e.write(w, httpStatus(err, m.modern()), e.respond(&m, result, err))
	}
}

// checkHeaders compares the headers of the modern revision with the body. An unknown revision is told before all else,
// except to a client that begins with initialize: the answer tells it which one to go on with, and the AI SDK names the
// newest it knows in the header already.
func checkHeaders(h http.Header, m *message) error {
	version := strings.TrimSpace(h.Get("MCP-Protocol-Version"))
	if version != "" && !slices.Contains(revisions, version) && m.method != "initialize" {
		return unknownRevision(version)
	}
	if version != Revision && m.version == "" {
		return nil
	}
	if m.version == "" {
		return invalid("_meta: %s is required", metaVersion)
	}
	mismatch := func(header, detail string) error {
		return &Error{Meaning: HeaderMismatch, Message: "header " + header + ": " + detail}
	}
	switch method := h.Values("Mcp-Method"); {
	case version != m.version:
		return mismatch("MCP-Protocol-Version", "differs from the body's _meta")
	case len(method) != 1 || strings.TrimSpace(method[0]) != m.method:
		return mismatch("Mcp-Method", "must be the body's method")
	case !m.isNamed(h.Values("Mcp-Name")):
		return mismatch("Mcp-Name", "must be what the body names")
	}
	return m.checkRevision()
}

// naming is the parameter that the header Mcp-Name repeats, for the methods that have one. They are served by Methods.
var naming = map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

// isNamed reports whether the values of Mcp-Name are the one that the body names. A body that names nothing is left to the
// method to refuse.
func (m *message) isNamed(values []string) bool {
	params, err := readMembers(m.params, "params")
	if naming[m.method] == "" || err != nil {
		return true
	}
	name, err := params.text(naming[m.method])
	return err != nil || (len(values) == 1 && headerText(strings.TrimSpace(values[0])) == name)
}

// headerText decodes the form in which a header carries text that is not ASCII. What is malformed stays as it is.
func headerText(value string) string {
	encoded, found := strings.CutPrefix(value, "=?base64?")
	if !found {
		return value
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?="))
	if err != nil || !strings.HasSuffix(encoded, "?=") {
		return value
	}
	return string(text)
}

// httpStatus is the HTTP status of an answer: faults of the message are 400 and an unknown method 404, for modern clients;
// what a method refuses is 200.
func httpStatus(err error, modern bool) int {
	var e *Error
	if err == nil || !errors.As(err, &e) {
		return http.StatusOK
	}
	switch e.Meaning {
	case ParseError, InvalidRequest, HeaderMismatch, UnsupportedVersion:
		return http.StatusBadRequest
	case MethodNotFound:
		if modern {
			return http.StatusNotFound
		}
	case InvalidParams:
		if strings.HasPrefix(e.Message, "_meta") {
			return http.StatusBadRequest
		}
	}
	return http.StatusOK
}

func (e *Endpoint) write(w http.ResponseWriter, status int, r response) {
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(wireJSON(r), '\n')) // whoever left does not want it
}

// serveStream answers with server-sent events, or with plain JSON when the call was refused before anything was sent.
func (e *Endpoint) serveStream(w http.ResponseWriter, r *http.Request, m *message, c Caller) {
	if e.opts.Detach && r.ProtoMajor == 1 && r.ProtoMinor == 1 && e.serveDetached(w, r, m, c) {
		return
	}
	out := &frames{w: w, control: http.NewResponseController(w)}
	result, err := e.stream(r.Context(), m, c, func(n Notification) error { return out.send(wireJSON(n)) })
	e.endStream(w, r, m, out, streamEnd{result, err})
}

// endStream answers a stream that is over, unless it was detached.
func (e *Endpoint) endStream(w http.ResponseWriter, r *http.Request, m *message, out *frames, end streamEnd) {
	switch {
	case end.err != nil && !out.begun && r.Context().Err() == nil:
		e.write(w, httpStatus(end.err, m.modern()), e.respond(m, nil, end.err))
	case end.err == nil && end.result != nil:
		_ = out.send(wireJSON(e.respond(m, end.result, nil))) // a client may have left
	}
}

// frames writes server-sent events: one data line each, never a comment.
type frames struct {
	w       http.ResponseWriter // nil once conn was taken
	control *http.ResponseController
	begun   bool
	detach  func(net.Conn) // told of the connection once it was taken; nil to leave it where it is
	conn    net.Conn       // when it was taken
}

func (f *frames) send(data []byte) error {
	if !f.begun {
		f.begun = true
		head := f.w.Header()
		head.Set("Content-Type", "text/event-stream")
		head.Set("Cache-Control", "no-cache, no-transform")
		head.Set("X-Accel-Buffering", "no")
		if err := f.take(head); err != nil {
			return err
		}
		if f.conn == nil {
			_ = f.control.SetReadDeadline(time.Time{}) // a server without deadlines has none to lift
			f.w.WriteHeader(http.StatusOK)
		}
	}
	frame := slices.Concat([]byte("data: "), data, []byte("\n\n"))
	if f.conn != nil {
		return f.write(chunk(frame))
	}
	_ = f.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // likewise
	if _, err := f.w.Write(frame); err != nil {
		return err
	}
	return f.control.Flush()
}
