package app_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/herald-relay/herald/internal/testkit"
)

const mcpServer = `{"name":"herald-relay","title":"Herald cloud relay","version":"1.1.0"}`

// modernMeta is what a stateless client says of itself in every request.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// mcpClosing ends the result of every answer to a stateless client.
const mcpClosing = `"_meta":{"io.modelcontextprotocol/serverInfo":` + mcpServer + `}`

// plain posts a message as a session-less client does.
func plain(a *testkit.Agent, body string, header ...string) testkit.Answer {
	a.T.Helper()
	return a.Call("POST", "/mcp", body, header...)
}

// modern calls a method as a stateless client does. params holds members, without the braces.
func modern(a *testkit.Agent, method, params string, header ...string) testkit.Answer {
	a.T.Helper()
	if params != "" {
		params += ","
	}
	header = append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}, header...)
	return a.Call("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+modernMeta+`}}`, header...)
}

// callTool calls a tool as a session-less client does, and returns the result.
func callTool(a *testkit.Agent, name, arguments string) (result map[string]any, answer testkit.Answer) {
	a.T.Helper()
	answer = plain(a, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`)
	if answer.Status != 200 {
		a.T.Fatalf("tool %s: %d %s", name, answer.Status, answer.Raw)
	}
	result, _ = answer.Body["result"].(map[string]any)
	return result, answer
}

// wantRPC expects a JSON-RPC error.
func wantRPC(t *testing.T, what string, a testkit.Answer, status, code int) {
	t.Helper()
	failure, _ := a.Body["error"].(map[string]any)
	if a.Status != status || failure["code"] != float64(code) {
		t.Errorf("%s: answer = %d %s, want %d with %d", what, a.Status, a.Raw, status, code)
		return
	}
	if text, _ := failure["message"].(string); text == "" {
		t.Errorf("%s: %d says nothing to people", what, code)
	}
	wantJSONHeaders(t, a)
}

// toolTexts returns the structured result and its text, which must be the same JSON.
func structured(t *testing.T, result map[string]any) map[string]any {
	t.Helper()
	var text map[string]any
	content, _ := result["content"].([]any)
	if len(content) != 1 {
		t.Fatalf("content = %v", result["content"])
	}
	first, _ := content[0].(map[string]any)
	said, _ := first["text"].(string)
	if err := json.Unmarshal([]byte(said), &text); err != nil || first["type"] != "text" {
		t.Fatalf("content = %v: %v", first, err)
	}
	both, _ := result["structuredContent"].(map[string]any)
	if fmt.Sprint(both) != fmt.Sprint(text) {
		t.Errorf("structuredContent %v and text %v differ", both, text)
	}
	return both
}
