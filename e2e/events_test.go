package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
	"github.com/herald-relay/herald/mcpevents/eventstest"
)

const hookSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// newHook is an agent's address on this machine, which relays in development may call.
func newHook(t *testing.T) (*eventstest.Receiver, string) {
	t.Helper()
	hook := eventstest.NewReceiver(hookSecret)
	server := httptest.NewServer(hook)
	t.Cleanup(server.Close)
	return hook, server.URL + "/hook"
}

func subscribe(a *testkit.Agent, url string) {
	a.T.Helper()
	got := a.Call("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"name":"notification.reply","delivery":{"mode":"webhook","url":%q,"secret":%q},
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, url, hookSecret),
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "events/subscribe")
	if got.Status != 200 || got.Body["result"] == nil {
		a.T.Fatalf("subscribe: %d %s", got.Status, got.Raw)
	}
}

// told returns the events that arrived, by the agent's id of the notification. One notification has one event, however often
// it was sent, and each came signed.
func told(t *testing.T, hook *eventstest.Receiver) map[string]string {
	t.Helper()
	events := map[string]string{}
	for _, d := range hook.Deliveries() {
		var body struct {
			Data struct{ NotificationID string }
		}
		if err := json.Unmarshal(d.Body, &body); err != nil || len(d.Secrets) != 1 {
			t.Errorf("delivery %s: %v, signed by %v", d.Body, err, d.Secrets)
		}
		if first := events[body.Data.NotificationID]; first != "" && first != d.Event {
			t.Errorf("the reply to %s is the events %s and %s", body.Data.NotificationID, first, d.Event)
		}
		events[body.Data.NotificationID] = d.Event
	}
	return events
}

// An acknowledged reply is told, whenever the process was killed: the event is in the transaction that stored the reply.
func TestEveryAcknowledgedReplyIsToldThoughProcessesAreKilled(t *testing.T) {
	t.Parallel()
	const rounds = 8
	dir, env := t.TempDir(), append([]string{"HERALD_DEV=true"}, plenty...)
	hook, url := newHook(t)
	known := &book{}
	first := serve(t, dir, env...)
	device, key := first.pair("phone")
	subscribe(&testkit.Agent{Relay: first.relay(), Token: key}, url)
	for round := range rounds {
		s := first
		if round > 0 {
			s = serve(t, dir, env...)
		}
		stop := s.load(known, device, key, fmt.Sprintf("round-%d", round))
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
		s.kill()
		stop()
	}
	last := serve(t, dir, env...)
	var missing []string
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(250 * time.Millisecond) { // a lease of a killed process has to run out
		events := told(t, hook)
		missing = nil
		for _, f := range known.some(1 << 20) {
			if f.reply != "" && events[f.id] == "" {
				missing = append(missing, f.id)
			}
		}
		if len(missing) == 0 && len(events) > 0 || time.Now().After(deadline) {
			t.Logf("%d replies told in %d deliveries", len(events), len(hook.Deliveries()))
			break
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d acknowledged replies were never told, such as %s\n%s", len(missing), missing[0], last.text())
	}
	last.stop(10 * time.Second)
}

// Subscribed at one process, answered at the other.
func TestAReplyAtOneProcessIsToldByEither(t *testing.T) {
	t.Parallel()
	a, b := cluster(t, append([]string{"HERALD_DEV=true"}, plenty...)...)
	hook, url := newHook(t)
	laptop := a.relay().Pair("laptop")
	agent := laptop.Agent("bot")
	subscribe(agent, url)
	there := deviceAt(b, laptop)
	stream := there.Stream()
	const replies = 5
	for range replies {
		agent.Send(map[string]any{"title": "Ship it?", "expectReply": true})
		f := stream.Next()
		if got := there.Call("POST", "/v1/device/reply", map[string]any{"id": f.Text("id"), "text": "yes"}); got.Status != 200 {
			t.Fatalf("reply: %d %s", got.Status, got.Raw)
		}
	}
	for deadline := time.Now().Add(60 * time.Second); len(told(t, hook)) < replies; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d replies were told", len(told(t, hook)), replies)
		}
	}
	cursor := ""
	for _, d := range hook.Deliveries() {
		if d.Cursor < cursor {
			t.Errorf("cursor %s came after %s", d.Cursor, cursor)
		}
		cursor = d.Cursor
	}
	list, _ := there.Call("GET", "/v1/device/events", nil).Body["subscriptions"].([]any)
	if len(list) != 1 {
		t.Errorf("the other process lists %v", list)
	}
}
