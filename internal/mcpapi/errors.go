package mcpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/web"
)

// Codes of JSON-RPC errors (contract section 4.7). Those of events are package mcpevents' own.
const (
	codeParse       = -32700
	codeRequest     = -32600
	codeMethod      = -32601
	codeParams      = -32602
	codeInternal    = -32603
	codeNoStream    = -32000
	codeMismatch    = -32020
	codeUnsupported = -32022
)

// rpcError is a refusal in the words of JSON-RPC, with the HTTP status that carries it.
type rpcError struct {
	code   int
	status int
	text   string
	data   any
	retry  time.Duration // also sent as Retry-After
	cause  error         // for the log; nil when the client alone is at fault
}

func (e *rpcError) Error() string { return e.text }

func invalidRequest(text string) *rpcError {
	return &rpcError{code: codeRequest, status: http.StatusBadRequest, text: "Invalid request: " + text}
}

func mismatch(text string) *rpcError {
	return &rpcError{code: codeMismatch, status: http.StatusBadRequest, text: "Header mismatch: " + text}
}

func incomplete(member, want string) *rpcError {
	return &rpcError{code: codeParams, status: http.StatusBadRequest, text: "params._meta[" + strconv.Quote(member) + "] must be " + want}
}

func unsupported(requested string) *rpcError {
	return &rpcError{code: codeUnsupported, status: http.StatusBadRequest, text: "Unsupported protocol version",
		data: struct {
			Supported []string `json:"supported"`
			Requested string   `json:"requested"`
		}{versions, shown(requested)}}
}

// noMethod refuses a method that m's kind of client does not have.
func noMethod(m *message) *rpcError {
	e := &rpcError{code: codeMethod, status: http.StatusOK, text: "Method not found: " + shown(m.method)}
	if m.modern {
		e.status = http.StatusNotFound
	}
	return e
}

// limited is a limit that an events call ran into: its own HTTP status around the code of a failure.
func limited(err error) *rpcError {
	f := fault.From(err)
	e := &rpcError{code: codeInternal, status: web.Status(err), text: f.Detail, retry: f.RetryAfter}
	if f.Kind == fault.Internal {
		e.status, e.text, e.cause = http.StatusOK, "the relay could not do this now; try again", err
	}
	return e
}

// maxShown bounds what is repeated of a stranger's word, in characters.
const maxShown = 100

func shown(s string) string {
	for i := range s {
		if i >= maxShown {
			return s[:i] + "…"
		}
	}
	return s
}
