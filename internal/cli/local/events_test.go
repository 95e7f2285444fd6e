package local

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
	"github.com/herald-relay/herald/webhook"
)

// echo answers challenges.
func echo(w http.ResponseWriter, r *http.Request) {
	var d struct {
		Challenge string `json:"challenge"`
	}
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d) // the relay tells
}

func TestSubscriptionsOfARealRelayAreReadAndEnded(t *testing.T) {
	testkit.OnSQLite(t) // what is looked at is the wire
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.Dev = true }})
	d := r.Pair("desk")
	agent := d.Agent("bot")
	receiver := httptest.NewServer(http.HandlerFunc(echo))
	defer receiver.Close()
	subscribed := agent.Call("POST", "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "events/subscribe", "params": map[string]any{
		"name":     "notification.reply",
		"delivery": map[string]any{"mode": "webhook", "url": receiver.URL + "/secret-path", "secret": webhook.NewSecret().Reveal()},
		"_meta":    map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{}},
	}}, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "events/subscribe")
	result, _ := subscribed.Body["result"].(map[string]any)
	id, _ := result["id"].(string)
	if id == "" {
		t.Fatalf("subscribe: %d %s", subscribed.Status, subscribed.Raw)
	}

	l := at(r.URL, d.Token)
	h := l.Handler(token)
	want := string(d.Call("GET", "/v1/device/events", nil).Raw)
	if w := ask(t, h, "GET", "/v1/relay/events"); w.Body.String() != want || !strings.Contains(want, `"id":"`+id+`"`) || strings.Contains(want, "secret") {
		t.Errorf("events: %s\nthe relay says %s", w.Body, want)
	}
	s := session(t, l, "")
	listed := call(t, s, "relay_events", nil).fields["subscriptions"].([]any)
	if one := listed[0].(map[string]any); len(listed) != 1 || one["id"] != id || one["host"] != "127.0.0.1" {
		t.Errorf("relay_events: %v", listed)
	}
	for range 2 { // what is gone counts as ended
		if w := ask(t, h, "DELETE", "/v1/relay/events/subscriptions/"+id); w.Code != 200 || w.Body.String() != `{"removed":true,"id":"`+id+`"}` {
			t.Errorf("end: %d %s", w.Code, w.Body)
		}
	}
	if got := call(t, s, "relay_events", nil).fields["subscriptions"].([]any); len(got) != 0 {
		t.Errorf("after the end: %v", got)
	}
}
