package mcpapi

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/strictjson"
)

// Modern is the protocol revision of stateless clients.
const Modern = "2026-07-28"

// versions are the revisions served, in the order in which they are reported.
var versions = []string{Modern, "2025-06-18", "2025-03-26", "2024-11-05"}

const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
)

// message is one JSON-RPC request or notification.
type message struct {
	id     jsontext.Value // as it came; nil in a notification
	method string
	params strictjson.Value
	modern bool
}

// readMessage reads a body strictly. It returns nil for a message without a method: a client's response, which nobody
// waits for. The message comes back with an error too, as far as it was read, for its id.
func readMessage(body []byte) (*message, error) {
	v, err := strictjson.Parse(body)
	if err != nil {
		return &message{}, &rpcError{code: codeParse, status: http.StatusBadRequest, text: "Parse error: " + fault.From(err).Detail}
	}
	switch {
	case v.Kind == strictjson.Array:
		return &message{}, invalidRequest("send one request at a time; a batch is not accepted")
	case v.Kind != strictjson.Object:
		return &message{}, invalidRequest("a request is an object; this is " + v.Kind.Article())
	}
	if err := repeats(v); err != nil {
		return &message{}, invalidRequest(fault.From(err).Detail)
	}
	if method, there := v.Member("method"); !there || method.Kind == strictjson.Null {
		return nil, nil
	}
	m := &message{}
	if m.id, err = readID(body, v); err != nil {
		return m, err
	}
	if version, _ := v.Text("jsonrpc"); version != "2.0" {
		return m, invalidRequest(`jsonrpc must be "2.0"`)
	}
	var found strictjson.Found
	if m.method, found = v.Text("method"); found != strictjson.Present {
		return m, invalidRequest("method must be a string")
	}
	params, there := v.Member("params")
	if there && params.Kind != strictjson.Object && params.Kind != strictjson.Null {
		return m, &rpcError{code: codeParams, status: http.StatusBadRequest, text: "params must be an object"}
	}
	m.params = params
	return m, nil
}

// repeats refuses ambiguous names where this package decides by them. What a tool is given is held to its own rules.
func repeats(v strictjson.Value) error {
	if err := v.RefuseRepeats([]string{"jsonrpc", "id", "method", "params"}); err != nil {
		return err
	}
	params, _ := v.Typed("params", strictjson.Object)
	if err := params.RefuseRepeatsAt("params.", []string{"name", "arguments", "_meta"}); err != nil {
		return err
	}
	meta, _ := params.Typed("_meta", strictjson.Object)
	return meta.RefuseRepeatsAt("params._meta.", nil)
}

// readID returns the id's own bytes: a number beyond 2^53 must come back digit by digit.
func readID(body []byte, v strictjson.Value) (jsontext.Value, error) {
	id, there := v.Member("id")
	if !there {
		return nil, nil
	}
	if id.Kind != strictjson.String && (id.Kind != strictjson.Number || strings.ContainsAny(id.Str, ".eE")) {
		return nil, invalidRequest("id must be a string or a whole number")
	}
	var raw struct {
		ID jsontext.Value `json:"id"`
	}
	if err := json.Unmarshal(body, &raw, jsontext.AllowDuplicateNames(true)); err != nil { // names of arguments are judged elsewhere
		return nil, err
	}
	return raw.ID, nil
}

// meta is the message's _meta object, empty when there is none.
func (m *message) meta() strictjson.Value {
	meta, _ := m.params.Typed("_meta", strictjson.Object)
	return meta
}

// checkVersion decides which kind of client sent m, and holds a stateless one's headers to the body (contract 4.2, steps 6
// and 7; decision 34).
func (m *message) checkVersion(h http.Header) error {
	header, single := only(h, "Mcp-Protocol-Version")
	if !single {
		return mismatch("MCP-Protocol-Version is sent more than once")
	}
	if header != "" && !slices.Contains(versions, header) && !m.negotiates(header) {
		return unsupported(header)
	}
	stated, found := m.meta().Text(metaVersion)
	if header != Modern && found == strictjson.Absent {
		return nil
	}
	m.modern = true
	if found != strictjson.Present {
		return incomplete(metaVersion, "the protocol version, "+Modern)
	}
	if _, found := m.meta().Typed(metaCapabilities, strictjson.Object); found != strictjson.Present {
		return incomplete(metaCapabilities, "an object, empty when there is nothing to say")
	}
	if stated != header {
		return mismatch("MCP-Protocol-Version differs from " + metaVersion + " in _meta")
	}
	if stated != Modern {
		return unsupported(stated)
	}
	return m.checkNames(h)
}

// negotiates reports whether m is the initialize of a client that names the revision it hopes for in the header already:
// the answer tells it another.
func (m *message) negotiates(header string) bool {
	wanted, _ := m.params.Text("protocolVersion")
	return m.method == "initialize" && wanted == header
}

func (m *message) checkNames(h http.Header) error {
	if method, single := only(h, "Mcp-Method"); !single || method != m.method {
		return mismatch("Mcp-Method must be sent once and be the body's method")
	}
	if m.method != "tools/call" {
		return nil
	}
	name, _ := m.params.Text("name")
	if sent, single := only(h, "Mcp-Name"); !single || !names(sent, name) {
		return mismatch("Mcp-Name must be sent once and be the body's params.name, or =?base64?…?= of it")
	}
	return nil
}

// only returns the value of a header without white space around it, and whether it came at most once.
func only(h http.Header, name string) (string, bool) {
	values := h[name]
	if len(values) == 0 {
		return "", true
	}
	return strings.Trim(values[0], " \t"), len(values) == 1
}

// names reports whether a header's value stands for name: as it is, or encoded where it is not plain ASCII.
func names(value, name string) bool {
	encoded, is := strings.CutPrefix(value, "=?base64?")
	if !is {
		return value == name
	}
	encoded, is = strings.CutSuffix(encoded, "?=")
	text, err := base64.StdEncoding.DecodeString(encoded)
	return is && err == nil && string(text) == name
}
