package app_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
	"github.com/herald-relay/herald/mcpevents/eventstest"
)

// One wish at two addresses is two subscriptions: both are called, and the person sees both and can end either.
func TestCase061TheSameWishTwiceIsShownToThePerson(t *testing.T) {
	inHooked(t, func(t *testing.T, h *hooked) {
		second := eventstest.NewReceiver(hookSecret)
		h.net.Handle("other.example.com", second)
		first, _ := h.subscribe(h.agent, hookURL, "")
		h.subscribe(h.agent, "https://other.example.com/hooks", "")
		list := h.listed()
		if len(list) != 2 || list[0].(map[string]any)["host"] == list[1].(map[string]any)["host"] {
			t.Fatalf("the person sees %v", list)
		}
		h.answered(h.agent, map[string]any{})
		synctest.Wait()
		if a, b := len(h.hook.Deliveries()), len(second.Deliveries()); a != 1 || b != 1 {
			t.Errorf("%d and %d deliveries, want one each", a, b)
		}
		h.device.Call("DELETE", "/v1/device/events/subscriptions/"+first, nil)
		h.answered(h.agent, map[string]any{})
		synctest.Wait()
		if a, b := len(h.hook.Deliveries()), len(second.Deliveries()); a != 1 || b != 2 {
			t.Errorf("%d and %d deliveries after the first was ended, want 1 and 2", a, b)
		}
	})
}

// An event that its agent took while it waited, and then lost, is still there: to poll, and as a receipt.
func TestCase062AnEventTakenDuringAWaitCanStillBeRead(t *testing.T) {
	inHooked(t, func(t *testing.T, h *hooked) {
		h.subscribe(h.agent, hookURL, "")
		s := h.device.Stream()
		agentID, id := devNotified(h.agent, s)
		var wg sync.WaitGroup
		wg.Go(func() {
			result, _ := callTool(h.agent, "wait_for_reply", `{"notificationId":"`+agentID+`"}`)
			if structured(t, result)["text"] != "yes" {
				t.Errorf("the wait ended with %v", result)
			}
		})
		time.Sleep(5 * time.Second)
		h.device.Call("POST", "/v1/device/reply", map[string]any{"id": id, "text": "yes"})
		wg.Wait()
		synctest.Wait()
		if n := len(h.hook.Deliveries()); n != 1 {
			t.Errorf("%d deliveries", n)
		}
		poll := h.agent.Call("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"events/poll","params":{"name":"notification.reply","cursor":"0",
			"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}}}`,
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "events/poll")
		if !strings.Contains(string(poll.Raw), agentID) {
			t.Errorf("poll: %s", poll.Raw)
		}
		receipt, _ := callTool(h.agent, "get_receipt", `{"notificationId":"`+agentID+`"}`)
		if structured(t, receipt)["text"] != "yes" {
			t.Errorf("receipt: %v", receipt)
		}
	})
}

// There is no answer without a person: what agents may send is never taken for one.
func TestCase069NoAgentAnswersItself(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	a := d.Agent("bot")
	agentID, id := devQueued(d, a)
	for _, path := range []string{"/v1/device/reply", "/v1/device/receipt"} {
		devRefused(t, a.Call("POST", path, map[string]any{"id": id, "kind": "replied", "text": "yes"}), 403, "wrong_credential")
	}
	a.Send(map[string]any{"title": "Re: Ship it?", "body": "yes", "group": agentID})
	a.Call("POST", "/v1/notify", map[string]any{"title": "yes", "notificationId": agentID})
	if got := devReceipt(a, agentID); got.Body["replied"] != false {
		t.Errorf("an agent answered itself: %s", got.Raw)
	}
}

// Two hundred updates of one item are one notification: those of the same id after the first are silent.
func TestCase072UpdatesOfOneItemAreShownOnce(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	a := d.Agent("bot")
	s := d.Stream()
	for i := range 200 {
		got := a.Call("POST", "/v1/notify", map[string]any{"title": "Building", "notificationId": "build-1"})
		if got.Body["duplicate"] != (i > 0) {
			t.Fatalf("update %d: %s", i, got.Raw)
		}
	}
	if f := s.Next(); f.Text("notificationId") != "build-1" {
		t.Errorf("frame %v", f)
	}
	devSettle(s) // and nothing else
}
