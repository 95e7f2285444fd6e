package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

func TestMCPAnswersASessionlessClientAsDocumented(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	devOK(t, plain(a, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	devOK(t, plain(a, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"my-agent","version":"1.0.0"}}}`), 200,
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":false}},"serverInfo":`+mcpServer+`,"instructions":"<rest>"}}`)
	devOK(t, plain(a, `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"herald_status","arguments":{}}}`), 200,
		`{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"{\"online\":false,\"quietHours\":{\"active\":false}}"}],"structuredContent":{"online":false,"quietHours":{"active":false}}}}`)
	list := plain(a, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	devOK(t, list, 200, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"send_notification","title":"Send a notification to the user's Mac",<rest>,`+
		`{"name":"get_receipt","title":"Get delivery receipts",<rest>,{"name":"wait_for_reply","title":"Wait for the user's reply",<rest>,`+
		`{"name":"herald_status","title":"Is the user's Mac reachable",<rest>]}}`)
	refused := plain(a, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"send_notification","arguments":{"title":"x","command":"rm"}}}`)
	devOK(t, refused, 200, `{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"{\"error\":\"forbidden_fields\",\"message\":\"<rest>\",\"fields\":[\"command\"]}"}],`+
		`"structuredContent":{"error":"forbidden_fields","message":"<rest>","fields":["command"]},"isError":true}}`)
	for asked, want := range map[string]string{
		`"2025-03-26"`: "2025-03-26", `"2024-11-05"`: "2024-11-05", `"2026-07-28"`: "2025-06-18", `"2025-11-25"`: "2025-06-18", `"1900-01-01"`: "2025-06-18", `7`: "2025-06-18", `null`: "2025-06-18",
	} {
		got := plain(a, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":`+asked+`}}`)
		if result, _ := got.Body["result"].(map[string]any); result["protocolVersion"] != want {
			t.Errorf("initialize with %s: %s, want %s", asked, got.Raw, want)
		}
	}
}

func TestMCPAnswersAStatelessClientAsDocumented(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	devOK(t, modern(a, "ping", ""), 200, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",`+mcpClosing+`}}`)
	devOK(t, modern(a, "server/discover", ""), 200, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",`+
		`"supportedVersions":["2026-07-28","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{<rest>"tools":{}},"serverInfo":`+mcpServer+`,"instructions":"<rest>","ttlMs":3600000,"cacheScope":"public",`+mcpClosing+`}}`)
	devOK(t, modern(a, "tools/list", ""), 200, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[<rest>],"ttlMs":3600000,"cacheScope":"public",`+mcpClosing+`}}`)
	devOK(t, modern(a, "tools/call", `"name":"herald_status","arguments":{}`, "Mcp-Name", "herald_status"), 200,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"<rest>"}],"structuredContent":{"online":false,"quietHours":{"active":false}},`+mcpClosing+`}}`)
	devOK(t, plain(a, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "MCP-Protocol-Version", "1900-01-01"), 400,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28","2025-06-18","2025-03-26","2024-11-05"],"requested":"1900-01-01"}}}`)
}

// Each row of the contract's sections 4.2 and 4.7; public case 59 is among them.
func TestMCPRefusesWhatItMust(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.RequestsPerDay = 1e6 }})
	a := r.Pair("Mac").Agent("bot")
	modernHeader := []string{"MCP-Protocol-Version", "2026-07-28"}
	body := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + `}}`
	}
	full := func(method string) string { return body(method, modernMeta) }
	const (
		onlyVersion = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
		oldVersion  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-06-18","io.modelcontextprotocol/clientCapabilities":{}}`
		statusCall  = `"name":"herald_status",` + modernMeta
	)
	tests := []struct {
		name   string
		body   string
		header []string
		status int
		code   int
	}{
		{"no JSON", `{"jsonrpc":`, nil, 400, -32700},
		{"nothing", ``, nil, 400, -32700},
		{"trailing data", `{"jsonrpc":"2.0","id":1,"method":"ping"} x`, nil, 400, -32700},
		{"bytes that are no text", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xff\"}", nil, 400, -32700},
		{"a deep body", strings.Repeat(`[`, 10_000) + strings.Repeat(`]`, 10_000), nil, 400, -32700},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, nil, 400, -32600},
		{"an empty batch", `[]`, nil, 400, -32600},
		{"a number", `7`, nil, 400, -32600},
		{"no version of JSON-RPC", `{"id":1,"method":"ping"}`, nil, 400, -32600},
		{"another version of JSON-RPC", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, nil, 400, -32600},
		{"a method that is a number", `{"jsonrpc":"2.0","id":1,"method":7}`, nil, 400, -32600},
		{"an id that is null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, -32600},
		{"an id that is a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, -32600},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, 400, -32600},
		{"a repeated key", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, nil, 400, -32600},
		{"a key in capitals", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/list"}`, nil, 400, -32600},
		{"a repeated key of params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"herald_status","name":"get_receipt"}}`, nil, 400, -32600},
		{"params that are a list", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, nil, 400, -32602},
		{"an unknown version before all else", full("nothing"), []string{"MCP-Protocol-Version", "1900-01-01"}, 400, -32022},
		{"a header without _meta", body("ping", ""), append(modernHeader, "Mcp-Method", "ping"), 400, -32602},
		{"no capabilities", body("ping", onlyVersion), append(modernHeader, "Mcp-Method", "ping"), 400, -32602},
		{"_meta without the header", full("ping"), []string{"Mcp-Method", "ping"}, 400, -32020},
		{"_meta of another version", body("ping", oldVersion), append(modernHeader, "Mcp-Method", "ping"), 400, -32020},
		{"an old version in both", body("ping", oldVersion), []string{"MCP-Protocol-Version", "2025-06-18", "Mcp-Method", "ping"}, 400, -32022},
		{"case 59: another method in the header", full("events/subscribe"), append(modernHeader, "Mcp-Method", "events/list"), 400, -32020},
		{"case 59: the method in capitals", full("ping"), append(modernHeader, "Mcp-Method", "Ping"), 400, -32020},
		{"case 59: no method in the header", full("ping"), modernHeader, 400, -32020},
		{"no name in the header", body("tools/call", statusCall), append(modernHeader, "Mcp-Method", "tools/call"), 400, -32020},
		{"another name in the header", body("tools/call", statusCall), append(modernHeader, "Mcp-Method", "tools/call", "Mcp-Name", "get_receipt"), 400, -32020},
		{"a name in broken base64", body("tools/call", statusCall), append(modernHeader, "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?aGVy*?="), 400, -32020},
		{"a method nobody has", full("nothing"), append(modernHeader, "Mcp-Method", "nothing"), 404, -32601},
		{"a method of the other kind", full("initialize"), append(modernHeader, "Mcp-Method", "initialize"), 404, -32601},
		{"a method nobody has, session-less", body("nothing", ""), nil, 200, -32601},
		{"discover, session-less", body("server/discover", ""), nil, 200, -32601},
		{"events, session-less", body("events/list", ""), nil, 200, -32601},
		{"an unknown tool", body("tools/call", `"name":"no_such_tool"`), nil, 200, -32602},
		{"no tool", body("tools/call", ``), nil, 200, -32602},
		{"arguments that are a list", body("tools/call", `"name":"herald_status","arguments":[]`), nil, 200, -32602},
	}
	for _, tt := range tests {
		wantRPC(t, tt.name, plain(a, tt.body, tt.header...), tt.status, tt.code)
	}
	if got := plain(a, body("tools/call", `"name":"no_such_tool"`)); !strings.Contains(string(got.Raw), "no_such_tool") {
		t.Errorf("the refusal does not name the tool: %s", got.Raw)
	}
	long := plain(a, body("tools/call", `"name":"`+strings.Repeat("x", 5000)+`"`))
	if len(long.Raw) > 1000 {
		t.Errorf("a long name comes back in %d bytes", len(long.Raw))
	}
}

func TestMCPEchoesIDsByteForByte(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	for _, id := range []string{`9007199254740993`, `-1`, `0`, `""`, `"a\u0062\/ü"`, `123456789012345678901234567890`} {
		devOK(t, plain(a, `{"jsonrpc":"2.0","method":"ping","id": `+id+` }`), 200, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
	}
	refused := plain(a, `{"jsonrpc":"2.0","method":"nothing","id":9007199254740993}`)
	if !strings.Contains(string(refused.Raw), `"id":9007199254740993,`) {
		t.Errorf("the id of a refusal: %s", refused.Raw)
	}
}

func TestMCPTakesHeadersAsTheyMayBeWritten(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	for _, name := range []string{"herald_status", "  herald_status\t", "=?base64?aGVyYWxkX3N0YXR1cw==?="} {
		got := modern(a, "tools/call", `"name":"herald_status"`, "Mcp-Name", name)
		if got.Status != 200 || got.Body["result"] == nil {
			t.Errorf("Mcp-Name %q: %d %s", name, got.Status, got.Raw)
		}
	}
	// A client that names the revision it hopes for in the header of initialize is told which one it gets.
	got := plain(a, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, "MCP-Protocol-Version", "2025-11-25")
	if got.Status != 200 || !strings.Contains(string(got.Raw), `"protocolVersion":"2025-06-18"`) {
		t.Errorf("initialize of a newer client: %d %s", got.Status, got.Raw)
	}
	for _, old := range []string{"2025-06-18", "2025-03-26", "2024-11-05"} {
		devOK(t, plain(a, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "MCP-Protocol-Version", old), 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
}

func TestMCPIsSilentToNotificationsAndResponses(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{}`,
	} {
		if got := plain(a, body); got.Status != 202 || len(got.Raw) != 0 {
			t.Errorf("%s: %d %q", body, got.Status, got.Raw)
		}
	}
}

func TestMCPTellsStrangersWhereToSignIn(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	a := d.Agent("bot")
	metadata := `resource_metadata="` + r.URL + `/.well-known/oauth-protected-resource"`
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	none := r.Do("POST", "/mcp", "", ping)
	if none.Status != 401 || none.Header.Get("WWW-Authenticate") != "Bearer "+metadata || none.Code() != "unauthorized" {
		t.Errorf("without a credential: %d %s %q", none.Status, none.Raw, none.Header.Get("WWW-Authenticate"))
	}
	for name, token := range map[string]string{"no token of ours": "x", "a forged one": "hrk_" + strings.Repeat("0", 48) + "_00000000_" + strings.Repeat("0", 64),
		"a wrong secret": a.Token[:len(a.Token)-4] + "0000"} {
		got := r.Do("POST", "/mcp", token, ping, "MCP-Protocol-Version", "1900-01-01") // the credential comes first
		if got.Status != 401 || got.Header.Get("WWW-Authenticate") != `Bearer error="invalid_token", `+metadata {
			t.Errorf("%s: %d %s %q", name, got.Status, got.Raw, got.Header.Get("WWW-Authenticate"))
		}
	}
	device := r.Do("POST", "/mcp", d.Token, ping)
	if device.Status != 403 || device.Code() != "wrong_credential" || device.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("a device token: %d %s", device.Status, device.Raw)
	}
	d.Call("DELETE", "/v1/device/keys/"+a.ID, nil)
	if got := plain(a, ping); got.Status != 401 {
		t.Errorf("a revoked key: %d %s", got.Status, got.Raw)
	}
	if got := r.Do("GET", "/mcp", "", nil); got.Status != 401 || got.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("GET without a credential: %d", got.Status)
	}
}

// Public cases 124 and 131: clients that know one spelling only, and one that sends GET where its token should be refreshed.
// Without a good token that is a challenge, with one it is 405.
func TestMCPTakesPostAtItsTwoPaths(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	for _, path := range []string{"/mcp/", "/mcp?x=1", "/mcp/?y"} {
		devOK(t, a.Call("POST", path, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
	if got := r.Do("GET", "/mcp", "hra_"+strings.Repeat("0", 113), nil); got.Status != 401 || got.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("GET with a bad token: %d %s", got.Status, got.Raw)
	}
	for _, method := range []string{"GET", "DELETE"} {
		got := a.Call(method, "/mcp", nil)
		wantRPC(t, method, got, 405, -32000)
		if got.Header.Get("Allow") != "POST" || !strings.Contains(string(got.Raw), `"id":null`) {
			t.Errorf("%s: Allow %q, %s", method, got.Header.Get("Allow"), got.Raw)
		}
	}
	for _, method := range []string{"PUT", "PATCH", "HEAD"} {
		if got := a.Call(method, "/mcp/", nil); got.Status != 405 || got.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %d", method, got.Status)
		}
	}
	if got := a.Call("POST", "/mcp/other", `{}`); got.Status != 404 {
		t.Errorf("below the path: %d %s", got.Status, got.Raw)
	}
	wantRefusal(t, a.Call("POST", "/mcp", []byte(`{}`), "Content-Type", "text/plain"), 415, "unsupported_media_type")
	wantRefusal(t, a.Call("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping","x":"`+strings.Repeat("x", 500_000)+`"}`), 413, "too_large")
}

func TestMCPIsOpenToPagesOfAnyOrigin(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	pre := r.Do("OPTIONS", "/mcp", "", nil, "Origin", "https://inspector.example", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization, content-type, mcp-protocol-version, mcp-method, mcp-name")
	if pre.Status != 204 || pre.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: %d %v", pre.Status, pre.Header)
	}
	for _, name := range []string{"authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"} {
		if !strings.Contains(pre.Header.Get("Access-Control-Allow-Headers"), name) {
			t.Errorf("a page may not send %s: %q", name, pre.Header.Get("Access-Control-Allow-Headers"))
		}
	}
	got := plain(a, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Origin", "https://inspector.example")
	if got.Status != 200 || got.Header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(got.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
		t.Errorf("a page's call: %d %v", got.Status, got.Header)
	}
	if got := plain(a, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Host", "rebound.example"); got.Status != 403 {
		t.Errorf("a name that was rebound to loopback: %d %s", got.Status, got.Raw)
	}
}

// What 4.6 says each request costs, read from the device's usage.
func TestMCPRequestsCostOneEach(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	a := d.Agent("bot")
	used := func() float64 { return d.Call("GET", "/v1/device/usage", nil).Body["requests"].(float64) }
	id := a.Send(map[string]any{"title": "x"})
	for name, call := range map[string]func() testkit.Answer{
		"ping":              func() testkit.Answer { return plain(a, `{"jsonrpc":"2.0","id":1,"method":"ping"}`) },
		"tools/list":        func() testkit.Answer { return modern(a, "tools/list", "") },
		"an unknown method": func() testkit.Answer { return modern(a, "nothing", "") },
		"an unknown tool":   func() testkit.Answer { _, got := callTool(a, "nothing", `{}`); return got },
		"a missing id":      func() testkit.Answer { _, got := callTool(a, "get_receipt", `{}`); return got },
		"a tool":            func() testkit.Answer { _, got := callTool(a, "get_receipt", `{"notificationId":"`+id+`"}`); return got },
		"a notification":    func() testkit.Answer { return plain(a, `{"jsonrpc":"2.0","method":"notifications/initialized"}`) },
	} {
		before := used()
		call()
		if got := used() - before; got != 1 {
			t.Errorf("%s cost %v requests, want 1", name, got)
		}
	}
	before := used()
	plain(a, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	r.Do("POST", "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if got := used() - before; got != 0 {
		t.Errorf("what reaches nobody cost %v requests", got)
	}
}

func TestMCPOutlivesASpentBudget(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.RequestsPerDay = 3 }})
	a := r.Pair("Mac").Agent("bot")
	for range 3 {
		plain(a, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	}
	devOK(t, plain(a, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	result, _ := callTool(a, "herald_status", `{}`)
	if body := structured(t, result); result["isError"] != true || body["error"] != "budget_exhausted" {
		t.Errorf("a tool beyond the budget: %v", result)
	}
	if got := modern(a, "tools/call", `"name":"nothing"`, "Mcp-Name", "nothing"); got.Status != http.StatusOK {
		t.Errorf("an unknown tool beyond the budget: %d %s", got.Status, got.Raw)
	}
}
