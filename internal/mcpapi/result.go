package mcpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// server names the relay to its clients: fixed by the contract, section 4.4.
var server = jsontext.Value(`{"name":"herald-relay","title":"Herald cloud relay","version":"1.1.0"}`)

// completed closes the members of a result: what every result of a stateless client carries comes first and last.
func completed(m *message, members []byte) []byte {
	if !m.modern {
		return append(append([]byte("{"), members...), '}')
	}
	out := append([]byte(`{"resultType":"complete"`), comma(members)...)
	out = append(out, members...)
	out = append(out, `,"_meta":{"io.modelcontextprotocol/serverInfo":`...)
	return append(append(out, server...), "}}"...)
}

func comma(members []byte) string {
	if len(members) == 0 {
		return ""
	}
	return ","
}

// writeResult answers m with the members of its result.
func writeResult(w http.ResponseWriter, m *message, members []byte) {
	body := make([]byte, 0, len(members)+256)
	body = append(body, `{"jsonrpc":"2.0","id":`...)
	body = append(body, m.id...)
	body = append(body, `,"result":`...)
	body = append(body, completed(m, members)...)
	write(w, http.StatusOK, append(body, '}'))
}

// writeError answers m, which may be nil, with a refusal.
func writeError(w http.ResponseWriter, m *message, e *rpcError) {
	id := jsontext.Value("null")
	if m != nil && m.id != nil {
		id = m.id
	}
	type body struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}
	data, err := json.Marshal(struct {
		JSONRPC string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id"`
		Error   body           `json:"error"`
	}{"2.0", id, body{e.code, e.text, e.data}}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("mcpapi: an error cannot be written: " + err.Error())
	}
	if e.retry > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(e.retry/time.Second), 10))
	}
	write(w, e.status, data)
}

func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a failure means that the reader is gone
}

var (
	contentType = []string{"application/json; charset=utf-8"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
)
