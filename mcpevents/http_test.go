package mcpevents_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}`

func authenticateTest(r *http.Request) (mcpevents.Caller, error) {
	switch r.Header.Get("Authorization") {
	case "":
		return mcpevents.Caller{}, nil
	case "Bearer good":
		return mcpevents.Caller{Principal: "user_1"}, nil
	}
	return mcpevents.Caller{}, errors.New("no")
}

func newHTTP(t *testing.T) (*world, *httptest.Server) { return newHTTPWith(t, false) }

func newHTTPWith(t *testing.T, detach bool) (*world, *httptest.Server) {
	t.Helper()
	w := newWorld(t, newMemory(), mcpevents.SEP(), func(_ *mcpevents.Family, o *mcpevents.Options) { o.ListChanged = true })
	s := httptest.NewServer(mcpevents.NewHandler(w.srv, authenticateTest, &mcpevents.HandlerOptions{
		Info: mcpevents.Info{Name: "test", Version: "1"}, Detach: detach,
		Methods: map[string]mcpevents.Method{"tools/list": func(context.Context, mcpevents.Caller, json.RawMessage) (any, error) {
			return map[string]any{"tools": []any{}}, nil
		}, "tools/call": func(context.Context, mcpevents.Caller, json.RawMessage) (any, error) {
			return map[string]any{"content": []map[string]string{{"type": "text", "text": "called"}}}, nil
		}},
	}))
	t.Cleanup(s.Close)
	return w, s
}

// TestHTTPConversations checks status and code of each way in which a message can be wrong or right.
func TestHTTPConversations(t *testing.T) {
	_, s := newHTTP(t)
	modern := map[string]string{"MCP-Protocol-Version": "2026-07-28"}
	with := func(more ...string) map[string]string {
		h := map[string]string{"MCP-Protocol-Version": "2026-07-28"}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	for _, c := range []struct {
		name, body string
		header     map[string]string
		status     int
		want       string
	}{
		{"not JSON", `{`, nil, 400, `"code":-32700`},
		{"trailing data", `{} {}`, nil, 400, `"code":-32700`},
		{"a batch", `[]`, nil, 400, `"code":-32600`},
		{"no version of JSON-RPC", `{"id":1,"method":"ping"}`, nil, 400, `"code":-32600`},
		{"a fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, `"code":-32600`},
		{"a repeated method", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"x"}`, nil, 400, `"code":-32600`},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202, ``},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 202, ``},
		{"an old client's ping, a large id echoed", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, nil, 200, `"id":9007199254740993,"result":{}}`},
		{"an old client's initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`, nil, 200, `"protocolVersion":"2025-03-26"`},
		{"an old client's events", `{"jsonrpc":"2.0","id":1,"method":"events/list"}`, nil, 200, `"events":[{`},
		{"an old client's unknown method", `{"jsonrpc":"2.0","id":1,"method":"x"}`, nil, 200, `"code":-32601`},
		{"an old client discovers", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, nil, 200, `"code":-32601`},
		{"an unknown revision", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, map[string]string{"MCP-Protocol-Version": "1900-01-01"}, 400, `"code":-32022`},
		{"an unknown revision before initialize agreed on one", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, map[string]string{"MCP-Protocol-Version": "2025-11-25"}, 200, `"protocolVersion":"2025-06-18"`},
		{"no _meta", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, modern, 400, `"code":-32602`},
		{"no header", `{"jsonrpc":"2.0","id":1,"method":"events/list","params":{` + modernMeta + `}}`, nil, 400, `"code":-32020`},
		{"no Mcp-Method", `{"jsonrpc":"2.0","id":1,"method":"events/list","params":{` + modernMeta + `}}`, modern, 400, `"code":-32020`},
		{"another Mcp-Method", `{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{` + modernMeta + `}}`, with("Mcp-Method", "events/list"), 400, `"code":-32020`},
		{"Mcp-Method in another case", `{"jsonrpc":"2.0","id":1,"method":"events/list","params":{` + modernMeta + `}}`, with("Mcp-Method", "Events/list"), 400, `"code":-32020`},
		{"Mcp-Method with space around", `{"jsonrpc":"2.0","id":1,"method":"events/list","params":{` + modernMeta + `}}`, with("mcp-method", " events/list "), 200, `"resultType":"complete"`},
		{"no capabilities", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, with("Mcp-Method", "ping"), 400, `"code":-32602`},
		{"a modern unknown method", `{"jsonrpc":"2.0","id":1,"method":"x","params":{` + modernMeta + `}}`, with("Mcp-Method", "x"), 404, `"code":-32601`},
		{"a modern initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` + modernMeta + `}}`, with("Mcp-Method", "initialize"), 404, `"code":-32601`},
		{"discover", `{"jsonrpc":"2.0","id":"a","method":"server/discover","params":{` + modernMeta + `}}`, with("Mcp-Method", "server/discover"), 200, `"events":{"listChanged":true},"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}`},
		{"another method", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`, with("Mcp-Method", "tools/list"), 200, `"tools":[]`},
		{"a tool without Mcp-Name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"žluť",` + modernMeta + `}}`, with("Mcp-Method", "tools/call"), 400, `"code":-32020`},
		{"a tool with another's Mcp-Name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"žluť",` + modernMeta + `}}`, with("Mcp-Method", "tools/call", "Mcp-Name", "x"), 400, `"code":-32020`},
		{"a tool with a broken Mcp-Name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"žluť",` + modernMeta + `}}`, with("Mcp-Method", "tools/call", "Mcp-Name", "=?base64?xb5sdcWl"), 400, `"code":-32020`},
		{"a tool with its Mcp-Name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"žluť",` + modernMeta + `}}`, with("Mcp-Method", "tools/call", "Mcp-Name", " =?base64?xb5sdcWl?= "), 200, `"text":"called"`},
		{"a tool call that names none", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + modernMeta + `}}`, with("Mcp-Method", "tools/call"), 200, `"text":"called"`},
		{"a refusal of a stream", `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"nope",` + modernMeta + `}}`, with("Mcp-Method", "events/stream"), 200, `"code":-32023`},
		{"a subscription by nobody", `{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"name":"ticket.opened",` + modernMeta + `}}`, with("Mcp-Method", "events/subscribe"), 200, `"code":-32024`},
		{"a bad credential", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, map[string]string{"Authorization": "Bearer bad"}, 401, `unauthorized`},
		{"too much", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := post(t, s.URL, c.body, c.header)
			if status != c.status || !strings.Contains(body, c.want) {
				t.Errorf("%d %s; want %d with %s", status, body, c.status, c.want)
			}
		})
	}
	resp, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET is %d, Allow %q", resp.StatusCode, resp.Header.Get("Allow"))
	}
}

func request(t *testing.T, url, body string, header map[string]string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func post(t *testing.T, url, body string, header map[string]string) (int, string) {
	t.Helper()
	resp := request(t, url, body, header)
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

func TestStreamOverHTTPIsServerSentEvents(t *testing.T) {
	for _, detach := range []bool{false, true} {
		t.Run(fmt.Sprint("detach ", detach), func(t *testing.T) { testStreamOverHTTP(t, detach) })
	}
}

func testStreamOverHTTP(t *testing.T, detach bool) {
	w, s := newHTTPWith(t, detach)
	w.run()
	resp := request(t, s.URL, `{"jsonrpc":"2.0","id":7,"method":"events/stream","params":{"name":"ticket.opened",`+modernMeta+`}}`,
		map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "events/stream"})
	if ct, xa := resp.Header.Get("Content-Type"), resp.Header.Get("X-Accel-Buffering"); ct != "text/event-stream" || xa != "no" {
		t.Errorf("Content-Type %q, X-Accel-Buffering %q", ct, xa)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func() string {
		for lines.Scan() {
			if text := lines.Text(); text != "" {
				return text
			}
		}
		return ""
	}
	first := next()
	w.emit("e1")
	second := next()
	w.halt()
	last := next()
	for i, c := range [][2]string{{first, NotifyActiveText}, {second, `"eventId":"e1"`}, {last, `"id":7,"result":{"_meta":{`}} {
		if !strings.HasPrefix(c[0], "data: {") || !strings.Contains(c[0], c[1]) {
			t.Errorf("frame %d is %q, want a data frame with %s", i, c[0], c[1])
		}
	}
	if !strings.Contains(last, `"resultType":"complete"`) {
		t.Errorf("final result %q", last)
	}
	if lines.Scan() && lines.Text() != "" {
		t.Errorf("after the result: %q", lines.Text())
	}
}

// TestADetachedStreamIsRefusedAsAnyOther wants what is refused before a stream begins as plain JSON.
func TestADetachedStreamIsRefusedAsAnyOther(t *testing.T) {
	w, s := newHTTPWith(t, true)
	w.run()
	resp := request(t, s.URL, `{"jsonrpc":"2.0","id":7,"method":"events/stream","params":{"name":"none",`+modernMeta+`}}`,
		map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "events/stream"})
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get("Content-Type") != "application/json" || !bytes.Contains(body, []byte(`"error"`)) {
		t.Errorf("%s %s, %v; want an error as JSON", resp.Header.Get("Content-Type"), body, err)
	}
	w.halt()
}

// closings tells when streams end.
type closings struct {
	mcpevents.NopObserver
	closed chan string
}

func (c closings) StreamClosed(eventType string) { c.closed <- eventType }

// TestADetachedStreamEndsWithItsClient hangs up, and wants the server to notice although nothing is sent.
func TestADetachedStreamEndsWithItsClient(t *testing.T) {
	closed := closings{closed: make(chan string, 1)}
	w := newWorld(t, newMemory(), mcpevents.SEP(), func(_ *mcpevents.Family, o *mcpevents.Options) { o.Observer = closed })
	s := httptest.NewServer(mcpevents.NewHandler(w.srv, authenticateTest, &mcpevents.HandlerOptions{Detach: true}))
	defer s.Close()
	w.run()
	resp := request(t, s.URL, `{"jsonrpc":"2.0","id":7,"method":"events/stream","params":{"name":"ticket.opened",`+modernMeta+`}}`,
		map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "events/stream"})
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.Contains(line, NotifyActiveText) {
		t.Fatalf("%q, %v", line, err)
	}
	_ = resp.Body.Close()
	if got := <-closed.closed; got != "ticket.opened" {
		t.Errorf("a stream of %s ended", got)
	}
	w.halt()
}

const NotifyActiveText = `"method":"notifications/events/active"`

func TestListChangedTravelsOnListen(t *testing.T) {
	w, s := newHTTP(t)
	resp := request(t, s.URL, `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"eventsListChanged":true,"toolsListChanged":true},`+modernMeta+`}}`,
		map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"})
	lines := bufio.NewScanner(resp.Body)
	var got []string
	for len(got) < 2 && lines.Scan() {
		if text, isData := strings.CutPrefix(lines.Text(), "data: "); isData {
			got = append(got, text)
			if err := w.srv.Announce(w.Context(), "test", "", mcpevents.Change{Listed: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"},"notifications":{"eventsListChanged":true}}}`,
		`{"jsonrpc":"2.0","method":"notifications/events/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestPipeTellsStreamsApartAndCancels(t *testing.T) {
	w := newWorld(t, newMemory(), mcpevents.SEP(), nil)
	w.run()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- mcpevents.ServePipe(w.Context(), w.srv, in, out, mcpevents.Caller{Principal: "user_1"}, nil)
	}()
	lines := bufio.NewScanner(fromServer)
	say := func(format string, args ...any) {
		if _, err := fmt.Fprintf(toServer, format+"\n", args...); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(want ...string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("the pipe is closed")
		}
		for _, part := range want {
			if !strings.Contains(lines.Text(), part) {
				t.Errorf("heard %s, want %s", lines.Text(), part)
			}
		}
	}
	say(`{"jsonrpc":"2.0","id":7,"method":"events/stream","params":{"name":"ticket.opened",%s}}`, modernMeta)
	hear("events/active", `"io.modelcontextprotocol/subscriptionId":7}`)
	say(`{"jsonrpc":"2.0","id":"7","method":"events/stream","params":{"name":"ticket.opened",%s}}`, modernMeta)
	hear("events/active", `"io.modelcontextprotocol/subscriptionId":"7"}`)
	say(`{"jsonrpc":"2.0","id":7,"method":"events/list","params":{%s}}`, modernMeta)
	hear(`"id":7,"error":{"code":-32600`)
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	say(`{"jsonrpc":"2.0","id":8,"method":"events/poll","params":{"name":"ticket.opened",%s}}`, modernMeta)
	hear(`"id":8,"result":{`, `"events":[]`, `"resultType":"complete"`)
	say(`not JSON`)
	hear(`"id":null,"error":{"code":-32700`)
	w.emit("e1")
	hear(`"eventId":"e1"`, `"io.modelcontextprotocol/subscriptionId":"7"}`)
	_ = toServer.Close()
	if err := <-served; err != nil {
		t.Errorf("ServePipe = %v", err)
	}
	w.halt()
}

func TestAPipeWithoutEventsOffersWhatItsOptionsName(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	opts := &mcpevents.HandlerOptions{
		Info: mcpevents.Info{Name: "x", Version: "1"}, Capabilities: map[string]any{"tools": map[string]any{}},
		Methods: map[string]mcpevents.Method{
			"tools/list": func(context.Context, mcpevents.Caller, json.RawMessage) (any, error) {
				return map[string]any{"tools": []any{}}, nil
			},
			"tools/call": func(context.Context, mcpevents.Caller, json.RawMessage) (any, error) {
				close(began)
				<-finish
				return map[string]any{"content": []any{}}, nil
			},
		},
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- mcpevents.ServePipe(t.Context(), nil, in, out, mcpevents.Caller{}, opts) }()
	lines := bufio.NewScanner(fromServer)
	for _, c := range []struct{ method, params, want string }{
		{"tools/list", "{}", `"result":{"tools":[]}}`},
		{"tools/list", "{" + modernMeta + "}", `"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x","version":"1"}},"cacheScope":"private","resultType":"complete","tools":[],"ttlMs":0}}`},
		{"server/discover", "{" + modernMeta + "}", `"capabilities":{"tools":{}}`},
		{"initialize", `{"protocolVersion":"2025-03-26"}`, `"result":{"capabilities":{"tools":{}},"protocolVersion":"2025-03-26"`},
		{"events/list", "{" + modernMeta + "}", `"error":{"code":-32601`},
		{"events/stream", "{" + modernMeta + "}", `"error":{"code":-32601`},
		{"subscriptions/listen", "{" + modernMeta + "}", `"error":{"code":-32601`},
		{"server/discover", "{}", `"error":{"code":-32601`},
	} {
		if _, err := fmt.Fprintf(toServer, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", c.method, c.params); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), c.want) {
			t.Errorf("%s %s: %s, want %s", c.method, c.params, lines.Text(), c.want)
		}
	}
	fmt.Fprintln(toServer, `{"jsonrpc":"2.0","id":"last","method":"tools/call","params":{}}`)
	<-began
	_ = toServer.Close() // a call under way is still answered
	close(finish)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"id":"last","result":{"content":[]}`) {
		t.Errorf("the call under way: %s", lines.Text())
	}
	if err := <-served; err != nil {
		t.Errorf("ServePipe = %v", err)
	}
}

func TestAPipeGivesUpCallsThatOutliveTheirClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := &mcpevents.HandlerOptions{Methods: map[string]mcpevents.Method{
			"hang": func(ctx context.Context, _ mcpevents.Caller, _ json.RawMessage) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}}
		var out bytes.Buffer
		err := mcpevents.ServePipe(t.Context(), nil, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"hang"}`), &out, mcpevents.Caller{}, opts)
		if err != nil || out.Len() > 0 {
			t.Errorf("ServePipe = %v after %s", err, out.Bytes())
		}
	})
}
