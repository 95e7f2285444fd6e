package npm

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tool is what a client reads of one.
type tool struct {
	Name, Title, Description  string
	InputSchema, OutputSchema map[string]any
	Annotations               map[string]any
}

// result is what a client reads of a call.
type result struct {
	Content           []struct{ Type, Text string }
	StructuredContent map[string]any
	IsError           bool
}

// check compares both forms of a result, and returns its members.
func (r result) check(t *testing.T, isError bool) map[string]any {
	t.Helper()
	var text map[string]any
	if len(r.Content) != 1 || r.Content[0].Type != "text" || json.Unmarshal([]byte(r.Content[0].Text), &text) != nil || r.IsError != isError {
		t.Fatalf("result %+v", r)
	}
	if diff := cmp.Diff(text, r.StructuredContent); diff != "" {
		t.Errorf("the text differs from the structured content (-text +structured):\n%s", diff)
	}
	return text
}

// official is one way to use an official client.
type official struct {
	name, script string
	mode         any // of negotiation
	era, version string
}

var officials = []official{
	{"client 2.x, stateless", "mcp-client", map[string]string{"pin": "2026-07-28"}, "modern", "2026-07-28"},
	{"client 2.x, as it finds", "mcp-client", "auto", "modern", "2026-07-28"},
	{"client 2.x, session-less", "mcp-client", "legacy", "legacy", "2025-06-18"},
	{"sdk 1.x", "mcp-sdk", nil, "legacy", "2025-06-18"},
}

func TestTheOfficialClientsUseTheLibrary(t *testing.T) {
	t.Parallel()
	k := newTickets(t, policies()["sep"])
	for _, o := range officials {
		t.Run(o.name, func(t *testing.T) {
			s := start(t, o.script)
			var hello struct{ Era, Version, Instructions string }
			s.must("connect", map[string]any{"url": k.url, "headers": bearer(ticketsToken), "mode": o.mode}, &hello)
			if hello.Era != o.era || hello.Version != o.version || hello.Instructions != "Watch tickets." {
				t.Errorf("connected as %+v", hello)
			}
			var list []tool
			if s.must("tools", nil, &list); len(list) != 1 || list[0].Name != "count_tickets" {
				t.Errorf("tools: %+v", list)
			}
			var counted result
			s.must("call", map[string]any{"name": "count_tickets", "args": map[string]any{}}, &counted)
			if len(counted.Content) != 1 || counted.Content[0].Text != "1" {
				t.Errorf("counted: %+v", counted)
			}
			var page struct {
				Events []struct{ EventID string }
				Cursor string
			}
			s.must("request", map[string]any{"method": "events/poll", "params": map[string]any{"name": "ticket.closed", "cursor": nil}}, &page)
			id, _ := k.emit("ticket.closed", map[string]any{"id": o.name})
			s.must("request", map[string]any{"method": "events/poll", "params": map[string]any{"name": "ticket.closed", "cursor": page.Cursor}}, &page)
			if len(page.Events) != 1 || page.Events[0].EventID != id {
				t.Errorf("polled %+v, want %s", page, id)
			}
			var troubles []string
			if s.must("troubles", nil, &troubles); len(troubles) > 0 {
				t.Errorf("the client reports %q", troubles)
			}
			s.must("close", nil, nil)
		})
	}
}
