package mcpapi

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Whatever arrives, it is refused in the words of JSON-RPC or read as one request whose id is a piece of the body.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"herald_status","arguments":{}}}`), "2026-07-28", "tools/call", "herald_status")
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a\u0000","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`), "2026-07-28", "ping", "")
	f.Add([]byte(`{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`), "2025-11-25", "", "=?base64?eA==?=")
	f.Add([]byte(`[{}]`), "", "", "")
	f.Add([]byte("{\"id\":1,\"method\":\"\xff\"}"), "x", "y", "z")
	f.Fuzz(func(t *testing.T, body []byte, version, method, name string) {
		m, err := readMessage(body)
		if err == nil && m != nil {
			err = m.checkVersion(http.Header{"Mcp-Protocol-Version": {version}, "Mcp-Method": {method}, "Mcp-Name": {name}})
		}
		if err != nil {
			if _, is := err.(*rpcError); !is {
				t.Errorf("%q is refused as %v", body, err)
			}
			return
		}
		if m == nil {
			return
		}
		if m.id != nil && (!bytes.Contains(body, m.id) || !m.id.IsValid()) {
			t.Errorf("%q has the id %q", body, m.id)
		}
		var result struct {
			ResultType string `json:"resultType"`
		}
		if err := json.Unmarshal(completed(m, nil), &result, jsontext.AllowDuplicateNames(false)); err != nil || (result.ResultType != "") != m.modern {
			t.Errorf("result %s: %v", completed(m, nil), err)
		}
	})
}
