package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
)

const (
	revision  = "2026-07-28"
	extension = "io.modelcontextprotocol/events"
	metaKey   = "io.modelcontextprotocol/"
	maxAnswer = 4 << 20 // bytes read of one answer
	maxQuoted = 400     // characters of foreign text in a finding
)

// The numbers of errors by meaning: those of JSON-RPC and of the base protocol.
const (
	codeParse       = -32700
	codeRequest     = -32600
	codeMethod      = -32601
	codeParams      = -32602
	codeHeader      = -32020
	codeRevision    = -32022
	statusNoMeaning = 0
)

// codes are the numbers that differ between dialects (contract a.9).
type codes struct{ notFound, forbidden, exhausted, unsupported, callback int }

func (d Dialect) codes() codes {
	if d == SEP {
		return codes{-32023, -32024, -32025, -32026, -32027}
	}
	return codes{-32011, -32012, -32013, -32014, -32015}
}

// object is a JSON object with members still raw.
type object map[string]json.RawMessage

// params are those of a request.
type params map[string]any

// request is one HTTP request to the server.
type request struct {
	method string
	params params
	id     string            // raw JSON; "" for a notification
	header map[string]string // replaces headers; "" removes one
	body   string            // replaces the whole body
	verb   string            // replaces POST
	legacy bool              // without what the modern revision adds
	anon   bool              // without the credential
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// answer is what came of a request.
type answer struct {
	sent   string // the request, as a finding shows it
	status int
	header http.Header
	raw    []byte
	// message is the JSON-RPC envelope; nil when the body is none.
	message object
	err     *rpcError
	result  object
}

// envelope builds the body of a request.
func (r *run) envelope(q request) []byte {
	if q.body != "" {
		return []byte(q.body)
	}
	p := params{}
	maps.Copy(p, q.params)
	if !q.legacy {
		if _, given := p["_meta"]; !given {
			p["_meta"] = r.meta()
		}
	}
	m := map[string]any{"jsonrpc": "2.0", "method": q.method, "params": p}
	if q.id != "" {
		m["id"] = json.RawMessage(q.id)
	}
	return encode(m)
}

// meta is what every request of the modern revision says of its client; the extension is what chooses the dialect.
func (r *run) meta() map[string]any {
	capabilities := map[string]any{}
	if r.dialect == SEP {
		capabilities["extensions"] = map[string]any{extension: map[string]any{}}
	}
	return map[string]any{metaKey + "protocolVersion": revision, metaKey + "clientCapabilities": capabilities}
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("conform: encode " + err.Error()) // it was built here
	}
	return bytes.TrimSpace(b.Bytes())
}

func (r *run) newRequest(ctx context.Context, q request) (*http.Request, []byte, error) {
	body := r.envelope(q)
	verb := q.verb
	if verb == "" {
		verb = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, verb, r.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("User-Agent", r.o.UserAgent)
	if !q.legacy {
		req.Header.Set("MCP-Protocol-Version", revision)
		req.Header.Set("Mcp-Method", q.method)
	}
	if r.o.Authorize != nil && !q.anon {
		r.o.Authorize(req.Header)
	}
	for name, value := range q.header {
		req.Header.Set(name, value)
		if value == "" {
			req.Header.Del(name)
		}
	}
	return req, body, nil
}

// do makes a request. The error says that there was no answer at all.
func (r *run) do(q request) (*answer, error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.o.Timeout)
	defer cancel()
	req, body, err := r.newRequest(ctx, q)
	if err != nil {
		return nil, err
	}
	resp, err := r.o.HTTP.RoundTrip(req)
	if err != nil {
		return nil, cannot("%s got no answer: %v", quote(r.redact(body)), err)
	}
	defer resp.Body.Close()
	raw, err := readBody(resp, q.method)
	if err != nil {
		return nil, cannot("%s: the answer broke off: %v", quote(r.redact(body)), err)
	}
	return r.read(body, resp, raw), nil
}

// readBody reads an answer. One that begins a stream where none was expected is read up to its first event only.
func readBody(resp *http.Response, method string) ([]byte, error) {
	if isSSE(resp.Header) && method == "events/stream" {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
}

func isSSE(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") }

func (r *run) read(sent []byte, resp *http.Response, raw []byte) *answer {
	a := &answer{sent: quote(r.redact(sent)), status: resp.StatusCode, header: resp.Header, raw: raw}
	text := raw
	if isSSE(resp.Header) {
		text = lastData(raw)
	}
	if json.Unmarshal(text, &a.message) != nil {
		return r.note(a)
	}
	if e, has := a.message["error"]; has {
		var read rpcError
		if json.Unmarshal(e, &read) == nil {
			a.err = &read
		}
	}
	_ = json.Unmarshal(a.message["result"], &a.result) // nil says that it is no object
	return r.note(a)
}

// lastData is the data of the last event of a stream, which holds the response.
func lastData(raw []byte) (data []byte) {
	for line := range bytes.Lines(raw) {
		if rest, found := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); found {
			data = bytes.TrimSpace(rest)
		}
	}
	return data
}

// note keeps what the rules about all answers look at.
func (r *run) note(a *answer) *answer {
	if a.err != nil {
		r.errors = append(r.errors, a)
	}
	for _, secret := range r.secrets {
		if bytes.Contains(a.raw, []byte(strings.TrimPrefix(secret, "whsec_"))) {
			r.leaks = append(r.leaks, a)
		}
	}
	return a
}

// call makes a request of the modern revision with an id of its own.
func (r *run) call(method string, p params) (*answer, error) {
	r.calls++
	return r.do(request{method: method, params: p, id: fmt.Sprint(r.calls)})
}

// redact takes secrets out of what was sent.
func (r *run) redact(text []byte) string {
	s := string(text)
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, "whsec_(hidden)")
	}
	return s
}

// quote shortens foreign text to what a finding may hold.
func quote(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + fmt.Sprintf("… (%d bytes)", len(s))
}

// String is the answer as a finding shows it.
func (a *answer) String() string { return fmt.Sprintf("HTTP %d: %s", a.status, quote(string(a.raw))) }
