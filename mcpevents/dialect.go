package mcpevents

import "encoding/json"

// Extension is the extension's name in clients' and servers' capability maps.
const Extension = "io.modelcontextprotocol/events"

// Dialect is a named set of wire choices. Two are alive, and a server speaks both: see DialectOf.
type Dialect string

// The dialects.
const (
	// DialectSketch is what ChatGPT, the AI SDK and most servers of 2026 speak: capability at the top level, error codes
	// -32011 to -32015, unsubscribing what is not there succeeds.
	DialectSketch Dialect = "sketch"
	// DialectSEP is SEP-3415: capability in the extensions map, error codes -32023 to -32027, unsubscribing what is not there is
	// NotFound, control bodies are understood. Its numbers were provisional when this was written.
	DialectSEP Dialect = "sep"
)

// DialectOf chooses the dialect of one request from its client capabilities, the value of
// params._meta["io.modelcontextprotocol/clientCapabilities"]: DialectSEP for a client that lists the extension, else DialectSketch.
func DialectOf(clientCapabilities json.RawMessage) Dialect {
	var c struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if json.Unmarshal(clientCapabilities, &c) == nil && c.Extensions[Extension] != nil {
		return DialectSEP
	}
	return DialectSketch
}

// Meaning is what an error means. The number it has on the wire depends on the dialect; see Code.
type Meaning uint8

// The meanings. Internal is the zero value, so that an unfinished Error says no more than it should.
const (
	Internal              Meaning = iota // a mistake or a trouble of the server
	InvalidParams                        // a parameter is malformed or breaks a rule
	NotFound                             // no such event type, or no such subscription
	Forbidden                            // nobody is proven, or this is not theirs to do
	ResourceExhausted                    // a quota is used up
	Unsupported                          // the mode is not offered, or the schema changed
	CallbackEndpointError                // the address did not verify or cannot be reached
	MethodNotFound                       // no such method
	InvalidRequest                       // no JSON-RPC request
	ParseError                           // not JSON
	HeaderMismatch                       // an HTTP header differs from the body
	UnsupportedVersion                   // a protocol revision the server does not speak
)

// codes has a row for each meaning, in order: the number in Sketch and in SEP, and the name. The first seven are the
// extension's (contract a.9), the rest are JSON-RPC's and the base protocol's and equal in both.
var codes = [...]struct {
	sketch, sep int
	name        string
}{
	{-32603, -32603, "Internal"},
	{-32602, -32602, "InvalidParams"},
	{-32011, -32023, "NotFound"},
	{-32012, -32024, "Forbidden"},
	{-32013, -32025, "ResourceExhausted"},
	{-32014, -32026, "Unsupported"},
	{-32015, -32027, "CallbackEndpointError"},
	{-32601, -32601, "MethodNotFound"},
	{-32600, -32600, "InvalidRequest"},
	{-32700, -32700, "ParseError"},
	{-32020, -32020, "HeaderMismatch"},
	{-32022, -32022, "UnsupportedVersion"},
}

// Code returns the JSON-RPC error code of m in dialect d.
func (m Meaning) Code(d Dialect) int {
	if int(m) >= len(codes) {
		m = Internal
	}
	if d == DialectSEP {
		return codes[m].sep
	}
	return codes[m].sketch
}

// String returns the meaning's name, as in the extension's table of errors.
func (m Meaning) String() string {
	if int(m) >= len(codes) {
		m = Internal
	}
	return codes[m].name
}

// MeaningOf reads a code from a peer of either dialect. A code that neither defines is Internal.
func MeaningOf(code int) Meaning {
	for m, c := range codes {
		if code == c.sketch || code == c.sep {
			return Meaning(m)
		}
	}
	return Internal
}
