package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/subscriber"
)

// TestGuideServesAPollAndAStream is a client of the guide's server.
func TestGuideServesAPollAndAStream(t *testing.T) {
	handler, _, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	defer s.Close()
	c := subscriber.Dial(s.URL+"/mcp", nil)
	var page struct {
		Events []struct{ Data json.RawMessage }
		Cursor string
	}
	poll := func(params map[string]any) {
		t.Helper()
		raw, err := c.Call(t.Context(), mcpevents.MethodPoll, params)
		if err != nil || json.Unmarshal(raw, &page) != nil {
			t.Fatalf("poll: %s, %v", raw, err)
		}
	}
	poll(map[string]any{"name": "ticket.opened"})
	resp, err := http.Post(s.URL+"/tickets/T-1", "", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("open a ticket: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	start := page.Cursor
	poll(map[string]any{"name": "ticket.opened", "cursor": start})
	if len(page.Events) != 1 || string(page.Events[0].Data) != `{"id":"T-1"}` {
		t.Errorf("polled %s", page.Events)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	_ = c.Stream(ctx, mcpevents.MethodStream, map[string]any{"name": "ticket.opened", "cursor": start}, func(method string, params json.RawMessage) error {
		got = append(got, method)
		if method == mcpevents.NotifyEvent {
			cancel()
		}
		return nil
	})
	if strings.Join(got, " ") != mcpevents.NotifyActive+" "+mcpevents.NotifyEvent {
		t.Errorf("streamed %v", got)
	}
}

// TestGuideShowsThisCode keeps the guide true: its listing is this program, from main on.
func TestGuideShowsThisCode(t *testing.T) {
	code, err := os.ReadFile("tickets.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../../docs/add-events.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), string(code[strings.Index(string(code), "package main"):])) {
		t.Error("docs/add-events.md does not show tickets.go as it is")
	}
}
