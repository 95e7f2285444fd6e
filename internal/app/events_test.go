package app_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
	"github.com/herald-relay/herald/mcpevents/eventstest"
)

const (
	hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	hookURL    = "https://agent.example.com/hooks/herald"
)

// hooked is a relay whose agents receive on a net in memory.
type hooked struct {
	*testkit.Relay
	net    *eventstest.Net
	hook   *eventstest.Receiver
	device *testkit.Device
	agent  *testkit.Agent
}

func newHooked(t *testing.T, o testkit.Options) *hooked {
	t.Helper()
	h := &hooked{net: eventstest.NewNet(), hook: eventstest.NewReceiver(hookSecret)}
	h.net.Handle("agent.example.com", h.hook)
	if o.Agents == nil {
		o.Agents = h.net
	}
	h.Relay = testkit.New(t, o)
	h.device = h.Pair("Mac")
	h.agent = h.device.Agent("chatgpt")
	return h
}

// inHooked runs a test in a bubble.
func inHooked(t *testing.T, run func(t *testing.T, h *hooked)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { run(t, newHooked(t, testkit.Options{Pipes: true})) })
}

func wish(url, more string) string {
	return `"name":"notification.reply","arguments":{},"delivery":{"mode":"webhook","url":"` + url + `","secret":"` + hookSecret + `"}` + more
}

// subscribe subscribes an agent and returns the subscription's id and cursor.
func (h *hooked) subscribe(a *testkit.Agent, url, more string) (id, cursor string) {
	h.T.Helper()
	got := modern(a, "events/subscribe", wish(url, more))
	result, _ := got.Body["result"].(map[string]any)
	if got.Status != http.StatusOK || result == nil {
		h.T.Fatalf("subscribe: %d %s", got.Status, got.Raw)
	}
	id, _ = result["id"].(string)
	cursor, _ = result["cursor"].(string)
	return id, cursor
}

// answered sends a notification of a and has the person answer it. It returns both ids.
func (h *hooked) answered(a *testkit.Agent, fields map[string]any) (agentID, id string) {
	h.T.Helper()
	s := h.device.Stream()
	defer s.Conn.CloseNow()
	fields["title"] = "Ship it?"
	agentID = a.Send(fields)
	for id == "" {
		if f := s.Next(); f.Text("type") == "notify" && f.Text("notificationId") == agentID {
			id = f.Text("id")
		}
	}
	if got := h.device.Call("POST", "/v1/device/reply", map[string]any{"id": id, "text": "yes"}); got.Status != http.StatusOK {
		h.T.Fatalf("reply: %d %s", got.Status, got.Raw)
	}
	return agentID, id
}

func (h *hooked) listed() []any {
	h.T.Helper()
	got := h.device.Call("GET", "/v1/device/events", nil)
	list, _ := got.Body["subscriptions"].([]any)
	if got.Status != http.StatusOK || list == nil {
		h.T.Fatalf("events: %d %s", got.Status, got.Raw)
	}
	return list
}

func TestReplyEventsAreDescribedAsDocumented(t *testing.T) {
	t.Parallel()
	h := newHooked(t, testkit.Options{})
	got := modern(h.agent, "server/discover", "")
	result, _ := got.Body["result"].(map[string]any)
	capabilities, _ := result["capabilities"].(map[string]any)
	if fmt.Sprint(capabilities["events"]) != "map[]" || fmt.Sprint(capabilities["tools"]) != "map[]" || fmt.Sprint(capabilities["extensions"]) != "map[io.modelcontextprotocol/events:map[]]" {
		t.Errorf("capabilities %s", got.Raw)
	}
	devOK(t, modern(h.agent, "events/list", ""), 200, `<rest>"events":[{"name":"notification.reply","description":"The user answered (typed or recorded) a notification you sent with expectReply. Call get_receipt or wait_for_reply with data.notificationId to read the answer. The payload holds ids only, never the text. A subscription lasts until you unsubscribe or the user revokes this connector in Herald.","delivery":["webhook"],`+
		`"inputSchema":{"type":"object","additionalProperties":false,"properties":{}},"payloadSchema":{"type":"object","additionalProperties":false,"required":["notificationId","id","kind"],"properties":{`+
		`"notificationId":{"type":"string","description":"The id you sent (or the relay's id when you sent none)."},"id":{"type":"string","description":"The relay's own id for the notification."},"kind":{"type":"string","enum":["text","voice"]}}}}]<rest>`)
}

func TestAReplyIsToldToWhoeverAsked(t *testing.T) {
	inHooked(t, func(t *testing.T, h *hooked) {
		id, cursor := h.subscribe(h.agent, hookURL, `,"cursor":null`)
		if !strings.HasPrefix(id, "sub_") || len(id) != 24 || cursor != "0" {
			t.Errorf("subscribed %s at %q", id, cursor)
		}
		challenge := h.hook.Verifications()
		if len(challenge) != 1 || !strings.HasPrefix(challenge[0].ID, "ver_") || challenge[0].Subscription != id {
			t.Fatalf("challenges %+v", challenge)
		}
		asked := time.Now()
		agentID, note := h.answered(h.agent, map[string]any{"notificationId": "build-214"})
		synctest.Wait()
		got := h.hook.Deliveries()
		if len(got) != 1 {
			t.Fatalf("%d deliveries", len(got))
		}
		devMatch(t, "body", got[0].Body, `{"eventId":"evt_1_`+id[4:]+`","name":"notification.reply","timestamp":"<time>","data":{"notificationId":"`+agentID+`","id":"`+note+`","kind":"text"},"cursor":"1"}`)
		if got[0].ID != "evt_1_"+id[4:] || got[0].Subscription != id || len(got[0].Secrets) != 1 || got[0].At.Before(asked) {
			t.Errorf("delivery %+v", got[0])
		}
		h.device.Call("POST", "/v1/device/reply", map[string]any{"id": note, "text": "again"})
		other := h.device.Agent("other")
		h.answered(other, map[string]any{})
		synctest.Wait()
		if n := len(h.hook.Deliveries()); n != 1 {
			t.Errorf("%d deliveries after a second answer and one to another agent, want 1", n)
		}
		devOK(t, h.device.Call("GET", "/v1/device/events", nil), 200, `{"restrictedTo":[],"subscriptions":[{"id":"`+id+`","event":"notification.reply","host":"agent.example.com","key":{"id":"`+h.agent.ID+`","name":"chatgpt"},"createdAt":"<time>","pending":0}]}`)
	})
}

func TestAVoiceReplyIsAnEventOfItsKind(t *testing.T) {
	inHooked(t, func(t *testing.T, h *hooked) {
		h.subscribe(h.agent, hookURL, "")
		s := h.device.Stream()
		_, id := devNotified(h.agent, s)
		s.Send(map[string]any{"type": "receipt", "id": id, "kind": "replied", "transcript": "ship it"})
		devSettle(s)
		synctest.Wait()
		if got := h.hook.Deliveries(); len(got) != 1 || !strings.Contains(string(got[0].Body), `"kind":"voice"`) {
			t.Errorf("deliveries %+v", got)
		}
	})
}

func TestSubscribingAgainKeepsTheIDAndTakesTheNewSecret(t *testing.T) {
	inHooked(t, func(t *testing.T, h *hooked) {
		id, _ := h.subscribe(h.agent, hookURL, "")
		const next = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
		both := eventstest.NewReceiver(hookSecret, next)
		h.net.Handle("agent.example.com", both)
		got := modern(h.agent, "events/subscribe", strings.Replace(wish(hookURL, `,"ttlMs":60000`), hookSecret, next, 1))
		result, _ := got.Body["result"].(map[string]any)
		if result["id"] != id || len(both.Verifications()) != 0 {
			t.Errorf("again: %s, %d challenges", got.Raw, len(both.Verifications()))
		}
		h.answered(h.agent, map[string]any{})
		synctest.Wait()
		if d := both.Deliveries(); len(d) != 1 || len(d[0].Secrets) != 1 || d[0].Secrets[0] != 1 || strings.Contains(d[0].Signature, " ") {
			t.Errorf("deliveries %+v", d)
		}
	})
}

// The table of the contract's 5.7, and the schedule behind it.
func TestWhatAnAddressAnswersDecides(t *testing.T) {
	inHooked(t, func(t *testing.T, h *hooked) {
		h.subscribe(h.agent, hookURL, "")
		h.hook.Script(eventstest.Step{Status: 503}, eventstest.Step{Status: 429, Header: map[string]string{"Retry-After": "600"}}, eventstest.Step{Status: 404})
		h.answered(h.agent, map[string]any{})
		h.answered(h.agent, map[string]any{}) // waits behind the first
		time.Sleep(time.Hour)
		got := h.hook.Deliveries()
		if len(got) != 4 || got[0].Event != got[2].Event || got[3].Event == got[0].Event {
			t.Fatalf("deliveries %+v", got)
		}
		if first, second := got[1].At.Sub(got[0].At).Round(time.Second), got[2].At.Sub(got[1].At).Round(time.Second); first != time.Minute || second != 10*time.Minute {
			t.Errorf("waits of %s and %s, want 1m and 10m", first, second)
		}
		if got[0].Timestamp == got[1].Timestamp || got[0].Signature == got[1].Signature {
			t.Error("an attempt repeats the timestamp or the signature of an earlier one")
		}
		h.hook.Script(eventstest.Step{Status: 410})
		h.answered(h.agent, map[string]any{})
		synctest.Wait()
		if list := h.listed(); len(list) != 0 {
			t.Errorf("after 410 there is still %v", list)
		}
	})
}

func TestAnEventIsTriedEightTimes(t *testing.T) {
	inHooked(t, func(t *testing.T, h *hooked) {
		h.subscribe(h.agent, hookURL, "")
		h.hook.Always(eventstest.Step{Status: 500})
		h.answered(h.agent, map[string]any{})
		synctest.Wait()
		entry, _ := h.listed()[0].(map[string]any)
		if entry["pending"] != float64(1) || entry["lastError"] == nil {
			t.Errorf("while it waits: %v", entry)
		}
		time.Sleep(25 * time.Hour)
		got := h.hook.Deliveries()
		if len(got) != 8 || got[7].At.Sub(got[0].At).Round(time.Minute) != 123*time.Minute {
			t.Errorf("%d attempts, the last after %s", len(got), got[len(got)-1].At.Sub(got[0].At))
		}
		if entry, _ := h.listed()[0].(map[string]any); entry["pending"] != float64(0) {
			t.Errorf("afterwards: %v", entry)
		}
	})
}

// Whatever ends a key ends its subscriptions in that moment, between two attempts too.
func TestSubscriptionsEndWithTheirKey(t *testing.T) {
	ends := map[string]func(h *hooked) testkit.Answer{
		"the person ends it": func(h *hooked) testkit.Answer {
			id := h.listed()[0].(map[string]any)["id"].(string)
			return h.device.Call("DELETE", "/v1/device/events/subscriptions/"+id, nil)
		},
		"unsubscribed": func(h *hooked) testkit.Answer {
			return modern(h.agent, "events/unsubscribe", `"name":"notification.reply","delivery":{"url":"`+hookURL+`"}`)
		},
		"the key is revoked": func(h *hooked) testkit.Answer { return h.device.Call("DELETE", "/v1/device/keys/"+h.agent.ID, nil) },
		"the key is purged": func(h *hooked) testkit.Answer {
			return h.device.Call("DELETE", "/v1/device/keys/"+h.agent.ID+"?purge=1", nil)
		},
		"the mailbox is unpaired": func(h *hooked) testkit.Answer { return h.device.Call("DELETE", "/v1/device", nil) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inHooked(t, func(t *testing.T, h *hooked) {
				h.subscribe(h.agent, hookURL, "")
				h.hook.Always(eventstest.Step{Status: 503})
				h.answered(h.agent, map[string]any{})
				synctest.Wait()
				if got := end(h); got.Status != http.StatusOK {
					t.Fatalf("%d %s", got.Status, got.Raw)
				}
				time.Sleep(25 * time.Hour)
				if n := len(h.hook.Deliveries()); n != 1 {
					t.Errorf("%d attempts, want only the one before the end", n)
				}
				if name == "the person ends it" || name == "unsubscribed" || name == "the key is revoked" || name == "the key is purged" {
					if list := h.listed(); len(list) != 0 {
						t.Errorf("still listed: %v", list)
					}
				}
			})
		})
	}
}

// A connector's subscriptions end with its approval: when its client is approved anew, and when the client gives its token back.
func TestAConnectorsSubscriptionsEndWithItsApproval(t *testing.T) {
	t.Parallel()
	h := newHooked(t, testkit.Options{})
	c := register(t, h.Relay, nil)
	connect := func() tokens {
		t.Helper()
		held := c.exchange(t, approved(t, h.device, c.authorize(t)))
		h.subscribe(&testkit.Agent{Relay: h.Relay, Token: held.access}, hookURL, "")
		return held
	}
	connect()
	first := h.listed()
	held := connect()
	if list := h.listed(); len(list) != 1 || fmt.Sprint(list) == fmt.Sprint(first) {
		t.Errorf("after a new approval there are %v, before %v", list, first)
	}
	c.post(t, "/revoke", values(nil, "client_id", c.id, "token", held.refresh))
	if list := h.listed(); len(list) != 0 {
		t.Errorf("after the revocation there are %v", list)
	}
}

func TestTheDeviceEndsSubscriptionsAsDocumented(t *testing.T) {
	t.Parallel()
	h := newHooked(t, testkit.Options{})
	id, _ := h.subscribe(h.agent, hookURL, "")
	other := h.Pair("Other")
	devOK(t, other.Call("DELETE", "/v1/device/events/subscriptions/"+id, nil), 200, `{"removed":true,"id":"`+id+`"}`) // not theirs: nothing happens
	if len(h.listed()) != 1 {
		t.Error("another mailbox ended it")
	}
	for range 2 {
		devOK(t, h.device.Call("DELETE", "/v1/device/events/subscriptions/"+id, nil), 200, `{"removed":true,"id":"`+id+`"}`)
	}
	for _, bad := range []string{"sub_x", "x", id + "0", strings.ToUpper(id), "sub_" + strings.Repeat("g", 20)} {
		devRefused(t, h.device.Call("DELETE", "/v1/device/events/subscriptions/"+bad, nil), 404, "not_found")
	}
	devOK(t, h.device.Call("GET", "/v1/device/events", nil), 200, `{"restrictedTo":[],"subscriptions":[]}`)
}

// The causes of a refusal in the contract's order (5.3), and those of a challenge that fails.
func TestSubscriptionsAreRefusedWithTheirCause(t *testing.T) {
	t.Parallel()
	h := newHooked(t, testkit.Options{})
	swap := func(old, next string) string { return strings.Replace(wish(hookURL, ""), old, next, 1) }
	for name, params := range map[string]string{
		"an unknown event":            swap(`"notification.reply"`, `"notification.other"`),
		"arguments":                   swap(`"arguments":{}`, `"arguments":{"x":1}`),
		"another mode":                swap(`"webhook"`, `"poll"`),
		"no URL":                      swap(hookURL, ``),
		"plain http":                  swap(`https://`, `http://`),
		"credentials":                 swap(`https://`, `https://user:pass@`),
		"a port":                      swap(`example.com/`, `example.com:8443/`),
		"an inner name":               swap(`agent.example.com`, `agent.internal`),
		"a private address":           swap(`agent.example.com`, `10.0.0.1`),
		"a mapped loopback address":   swap(`agent.example.com`, `[::ffff:127.0.0.1]`),
		"a secret without its prefix": swap(hookSecret, `MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`),
		"a short secret":              swap(hookSecret, `whsec_AAAA`),
		"a ttl of none":               wish(hookURL, `,"ttlMs":0`),
		"a ttl that is text":          wish(hookURL, `,"ttlMs":"60"`),
	} {
		wantRPC(t, name, modern(h.agent, "events/subscribe", params), 200, -32602)
	}
	for name, tt := range map[string]struct {
		step   eventstest.Step
		reason string
	}{
		"an error":     {eventstest.Step{Status: 500}, "bad_status"},
		"a redirect":   {eventstest.Step{Status: 302, Header: map[string]string{"Location": hookURL}}, "bad_status"},
		"another echo": {eventstest.Step{Status: 200, Body: `{"challenge":"x"}`}, "challenge_mismatch"},
		"no JSON":      {eventstest.Step{Status: 200, Body: `ok`}, "challenge_mismatch"},
		"an end":       {eventstest.Step{Abort: true}, "unreachable"},
	} {
		h.hook.Challenges(func(string) eventstest.Step { return tt.step })
		got := modern(h.agent, "events/subscribe", wish(hookURL, ""))
		wantRPC(t, name, got, 200, -32015)
		if !strings.Contains(string(got.Raw), `"reason":"`+tt.reason+`"`) {
			t.Errorf("%s: %s, want %s", name, got.Raw, tt.reason)
		}
	}
	if list := h.listed(); len(list) != 0 {
		t.Errorf("a refused subscription is listed: %v", list)
	}
	h.hook.Challenges(nil)
	for i := range 5 {
		h.subscribe(h.agent, fmt.Sprint(hookURL, i), "")
	}
	wantRPC(t, "a sixth", modern(h.agent, "events/subscribe", wish(hookURL, "")), 200, -32602)
	h.subscribe(h.agent, hookURL+"0", "") // one that is there is renewed
	h.subscribe(h.device.Agent("second"), hookURL, "")
}

func TestOnlyListedHostsMayBeCalled(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.EventCallbackHosts = []string{"hooks.example.com"} }})
	d := r.Pair("Mac")
	got := modern(d.Agent("bot"), "events/subscribe", wish(hookURL, ""))
	wantRPC(t, "another host", got, 200, -32602)
	if !strings.Contains(string(got.Raw), `"reason":"host_not_allowed"`) || !strings.Contains(string(got.Raw), `"host":"agent.example.com"`) {
		t.Errorf("refusal %s", got.Raw)
	}
	devOK(t, d.Call("GET", "/v1/device/events", nil), 200, `{"restrictedTo":["hooks.example.com"],"subscriptions":[]}`)
	devOK(t, modern(d.Agent("other"), "events/unsubscribe", `"name":"notification.reply","delivery":{"url":"`+hookURL+`"}`), 200, `{"jsonrpc":"2.0","id":1,"result":{<rest>}}`)
}

// Replay by cursor: at most a hundred at once, and never past what was not sent (5.8).
func TestACursorReplaysWhatCameAfterIt(t *testing.T) {
	inHooked(t, func(t *testing.T, h *hooked) {
		for range 3 {
			h.answered(h.agent, map[string]any{})
		}
		if _, cursor := h.subscribe(h.agent, hookURL, ""); cursor != "3" {
			t.Errorf("without a cursor the subscription begins at %q", cursor)
		}
		synctest.Wait()
		if n := len(h.hook.Deliveries()); n != 0 {
			t.Errorf("%d replayed without a cursor", n)
		}
		_, cursor := h.subscribe(h.agent, hookURL+"/2", `,"cursor":"1"`)
		synctest.Wait()
		got := h.hook.Deliveries()
		if len(got) != 2 || got[0].Cursor != "2" || got[1].Cursor != "3" || cursor != "1" {
			t.Errorf("from 1: cursor %q, deliveries %+v", cursor, got)
		}
		for _, junk := range []string{`"x"`, `"1234567890123456"`, `7`} {
			h.subscribe(h.agent, hookURL+"/2", `,"cursor":`+junk)
		}
		synctest.Wait()
		if n := len(h.hook.Deliveries()); n != 2 {
			t.Errorf("%d deliveries after junk cursors", n)
		}
	})
}

// A stream that is open when its key is revoked ends then, not at its next sign of life.
func TestAnOpenEventStreamEndsWithItsKey(t *testing.T) {
	t.Parallel()
	h := newHooked(t, testkit.Options{})
	body := `{"jsonrpc":"2.0","id":7,"method":"events/stream","params":{"name":"notification.reply","cursor":null,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + h.agent.Token, "Content-Type": "application/json",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "events/stream"} {
		req.Header.Set(name, value)
	}
	res, err := h.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
			if strings.Contains(lines.Text(), "heartbeat") {
				t.Errorf("a sign of life came before %s", want)
			}
		}
		t.Fatalf("the stream ended before %s: %v", want, lines.Err())
	}
	next("notifications/events/active")
	agentID, _ := h.answered(h.agent, map[string]any{})
	next(agentID)
	h.device.Call("DELETE", "/v1/device/keys/"+h.agent.ID, nil)
	next("notifications/events/terminated")
	next(`"id":7`)
	if lines.Scan() && lines.Text() != "" {
		t.Errorf("after its end the stream says %s", lines.Text())
	}
}

func TestASEPClientPollsAndStreams(t *testing.T) {
	t.Parallel()
	h := newHooked(t, testkit.Options{})
	sep := func(method, params string) testkit.Answer {
		return h.agent.Call("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}}}`,
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method)
	}
	if got := sep("events/list", ""); !strings.Contains(string(got.Raw), `"delivery":["webhook","poll","push"]`) {
		t.Errorf("events/list: %s", got.Raw)
	}
	first := sep("events/poll", `"name":"notification.reply","cursor":null,`)
	result, _ := first.Body["result"].(map[string]any)
	agentID, _ := h.answered(h.agent, map[string]any{})
	got := sep("events/poll", `"name":"notification.reply","cursor":"`+fmt.Sprint(result["cursor"])+`",`)
	if !strings.Contains(string(got.Raw), agentID) {
		t.Errorf("poll: %s after %s", got.Raw, first.Raw)
	}
	h.device.Call("DELETE", "/v1/device/keys/"+h.agent.ID, nil)
	if got := sep("events/poll", `"name":"notification.reply","cursor":null,`); got.Status != http.StatusUnauthorized {
		t.Errorf("poll with a revoked key: %d %s", got.Status, got.Raw)
	}
}
