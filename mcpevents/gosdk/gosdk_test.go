package gosdk_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/eventstest"
	"github.com/herald-relay/herald/mcpevents/gosdk"
	"github.com/herald-relay/herald/mcpevents/memdriver"
	"github.com/herald-relay/herald/mcpevents/subscriber"
)

var us = &mcp.Implementation{Name: "tickets", Version: "1"}

type greeting struct {
	Name string `json:"name"`
}

// newServers makes an SDK server with one tool, and events beside it.
func newServers(t *testing.T) (*mcp.Server, *mcpevents.Server, *eventstest.Net) {
	t.Helper()
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened"})
	if err != nil {
		t.Fatal(err)
	}
	net := eventstest.NewNet()
	events, err := mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "f", Catalog: catalog}}, &mcpevents.Options{Egress: net})
	if err != nil {
		t.Fatal(err)
	}
	sdk := mcp.NewServer(us, nil)
	mcp.AddTool(sdk, &mcp.Tool{Name: "greet", Description: "greets"}, func(_ context.Context, _ *mcp.CallToolRequest, in greeting) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Name}}}, nil, nil
	})
	gosdk.Announce(sdk, events)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- events.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return sdk, events, net
}

func overHTTP(t *testing.T) (url string, events *mcpevents.Server, net *eventstest.Net) {
	sdk, events, net := newServers(t)
	base := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	s := httptest.NewServer(gosdk.NewHandler(events, base, func(*http.Request) (mcpevents.Caller, error) {
		return mcpevents.Caller{Principal: "p"}, nil
	}, nil))
	t.Cleanup(s.Close)
	return s.URL, events, net
}

// inbox collects events.
type inbox struct {
	mu  sync.Mutex
	ids []string
	got chan struct{}
}

func newInbox() *inbox { return &inbox{got: make(chan struct{}, 100)} }

func (b *inbox) handle(_ context.Context, e subscriber.Event) error {
	b.mu.Lock()
	b.ids = append(b.ids, e.ID)
	b.mu.Unlock()
	b.got <- struct{}{}
	return nil
}

func (b *inbox) await(t *testing.T) string {
	t.Helper()
	select {
	case <-b.got:
	case <-time.After(20 * time.Second):
		t.Fatal("no event came")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids[len(b.ids)-1]
}

// follow runs a subscriber over a connection until the test ends, and emits once it is active.
func follow(t *testing.T, events *mcpevents.Server, c subscriber.Conn, opts *subscriber.Options, net *eventstest.Net) {
	t.Helper()
	box := newInbox()
	sub := subscriber.New(&subscriber.Memory{}, box.handle, opts)
	net.Handle("agent.example.com", sub)
	if err := sub.Add(t.Context(), subscriber.Want{Key: "k", Server: c, Name: "ticket.opened"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- sub.Run(ctx) }()
	defer func() {
		stop()
		<-ran
	}()
	for sub.Records()[0].State != subscriber.Active {
		if t.Context().Err() != nil {
			t.Fatal("never active")
		}
		<-time.After(5 * time.Millisecond)
	}
	if _, err := events.Emit(t.Context(), mcpevents.Emission{ID: "e1", Name: "ticket.opened", Data: struct{}{}}); err != nil {
		t.Fatal(err)
	}
	if id := box.await(t); id != "e1" {
		t.Errorf("event %s", id)
	}
}

func TestOurClientOverHTTPInEveryMode(t *testing.T) {
	for _, mode := range []mcpevents.Mode{mcpevents.Webhook, mcpevents.Push, mcpevents.Poll} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			url, events, net := overHTTP(t)
			follow(t, events, subscriber.Dial(url, nil), &subscriber.Options{URL: "https://agent.example.com/", Modes: []mcpevents.Mode{mode}, PollFloor: 10 * time.Millisecond}, net)
		})
	}
}

func TestTheSDKsClientOverHTTP(t *testing.T) {
	url, events, net := overHTTP(t)
	client := mcp.NewClient(us, nil)
	if err := gosdk.Register(client); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet", Arguments: greeting{"Zoë"}})
	if err != nil || r.Content[0].(*mcp.TextContent).Text != "hello Zoë" {
		t.Errorf("the tool beside events: %+v, %v", r, err)
	}
	follow(t, events, gosdk.Conn{Session: session}, &subscriber.Options{URL: "https://agent.example.com/", Modes: []mcpevents.Mode{mcpevents.Webhook}}, net)
	_, err = gosdk.Conn{Session: session}.Call(t.Context(), "events/poll", map[string]any{"name": "nope"})
	if e := mcpevents.ErrorOf(err, mcpevents.DialectSketch); e.Code != -32011 || e.Data["kind"] != "event" {
		t.Errorf("error %+v (%v)", e, err)
	}
}

func TestCapabilitiesInBothRevisions(t *testing.T) {
	url, _, _ := overHTTP(t)
	for name, body := range map[string]string{
		"initialize":      `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		"server/discover": `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}}}`,
	} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if name == "server/discover" {
			req.Header.Set("MCP-Protocol-Version", "2026-07-28")
			req.Header.Set("Mcp-Method", name)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Result struct {
				Capabilities map[string]json.RawMessage
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&answer)
		_ = resp.Body.Close()
		c := answer.Result.Capabilities
		if err != nil || string(c["events"]) != "{}" || !strings.Contains(string(c["extensions"]), mcpevents.Extension) || c["tools"] == nil {
			t.Errorf("%s: capabilities %s, %v", name, c, err)
		}
	}
}

// TestStreamOverAPipe follows a stream on the SDK's own pipe, beside a tool call, and cancels it.
func TestStreamOverAPipe(t *testing.T) {
	sdk, events, _ := newServers(t)
	clientSide, serverSide := mcp.NewInMemoryTransports()
	session, err := sdk.Connect(t.Context(), &gosdk.Transport{Transport: serverSide, Events: events, Caller: mcpevents.Caller{Principal: "p"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientSide.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		t.Helper()
		m, err := jsonrpc.DecodeMessage([]byte(text))
		if err == nil {
			err = c.Write(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hear := func(want string) {
		t.Helper()
		m, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := jsonrpc.EncodeMessage(m)
		if !strings.Contains(string(raw), want) {
			t.Errorf("heard %s, want %s", raw, want)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	hear(`"events":{}`)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":7,"method":"events/stream","params":{"name":"ticket.opened"}}`)
	hear("notifications/events/active")
	say(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"greet","arguments":{"name":"x"}}}`)
	hear("hello x")
	if _, err := events.Emit(t.Context(), mcpevents.Emission{ID: "e1", Name: "ticket.opened", Data: struct{}{}}); err != nil {
		t.Fatal(err)
	}
	hear(`"eventId":"e1"`)
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	say(`{"jsonrpc":"2.0","id":9,"method":"events/list"}`)
	hear(`"id":9`)
	_ = c.Close()
	_ = session.Close()
}
