package npm

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/memdriver"
	"github.com/herald-relay/herald/webhook"
)

// tickets is a server built with the library alone, and an agent built with the AI SDK.
type tickets struct {
	*script
	t      *testing.T
	url    string
	events *mcpevents.Server
}

const (
	ticketsToken = "tickets-token"
	alice        = "alice"
)

var errUnauthorized = errors.New("no such token")

func newTickets(t *testing.T, policy mcpevents.Policy) *tickets {
	t.Helper()
	s := start(t, "ai-sdk")
	out := &outside{cert: newCertificate(t)}
	s.must("listen", out.cert, &out.port)
	catalog, err := mcpevents.NewCatalog(
		mcpevents.EventType{Name: "ticket.opened", Description: "A ticket was opened.",
			InputSchema:   json.RawMessage(`{"type":"object","properties":{"queue":{"type":"string"}},"additionalProperties":false}`),
			PayloadSchema: json.RawMessage(`{"type":"object","required":["id"]}`), Filter: mcpevents.Equal("queue", "queue")},
		mcpevents.EventType{Name: "ticket.closed", Description: "A ticket was closed."})
	if err != nil {
		t.Fatal(err)
	}
	events, err := mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "tickets", Policy: policy, Catalog: catalog}},
		&mcpevents.Options{Egress: out.guard()})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := httptest.NewServer(mcpevents.NewHandler(events, func(r *http.Request) (mcpevents.Caller, error) {
		if r.Header.Get("Authorization") != "Bearer "+ticketsToken {
			return mcpevents.Caller{}, errUnauthorized
		}
		return mcpevents.Caller{Principal: alice}, nil
	}, &mcpevents.HandlerOptions{Info: mcpevents.Info{Name: "tickets", Version: "1.0.0"}, Instructions: "Watch tickets.",
		Capabilities: map[string]any{"tools": map[string]any{}}, Methods: map[string]mcpevents.Method{"tools/list": listTools, "tools/call": countTickets}}))
	t.Cleanup(endpoint.Close)
	run(t, events.Run)
	return &tickets{script: s, t: t, url: endpoint.URL, events: events}
}

// The server's only tool, beside its events.
func listTools(context.Context, mcpevents.Caller, json.RawMessage) (any, error) {
	tool := map[string]any{"name": "count_tickets", "description": "Counts open tickets.", "inputSchema": map[string]string{"type": "object"}}
	return map[string]any{"tools": []any{tool}, "ttlMs": 60_000, "cacheScope": "public"}, nil
}

func countTickets(_ context.Context, _ mcpevents.Caller, params json.RawMessage) (any, error) {
	var call struct{ Name string }
	if err := json.Unmarshal(params, &call); err != nil || call.Name != "count_tickets" {
		return nil, &mcpevents.Error{Meaning: mcpevents.InvalidParams, Message: "there is no such tool"}
	}
	return map[string]any{"content": []map[string]string{{"type": "text", "text": "1"}}}, nil
}

func (k *tickets) connect(discover bool) {
	k.t.Helper()
	var hello struct {
		Capabilities map[string]any
		ServerInfo   mcpevents.Info
		Instructions string
	}
	k.must("connect", map[string]any{"url": k.url, "discover": discover, "headers": bearer(ticketsToken)}, &hello)
	if hello.Capabilities["events"] == nil || hello.ServerInfo.Name != "tickets" || hello.Instructions != "Watch tickets." {
		k.t.Errorf("the client read %+v", hello)
	}
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// subscription is what the SDK made of an answer to events/subscribe.
type subscription struct {
	ID            string  `json:"id"`
	RefreshBefore *string `json:"refreshBefore"`
	Cursor        *string `json:"cursor"`
	Truncated     bool    `json:"truncated"`
}

func (s subscription) until(t *testing.T) time.Time {
	t.Helper()
	if s.RefreshBefore == nil {
		t.Fatal("the grant has no end")
	}
	end, err := time.Parse(time.RFC3339, *s.RefreshBefore)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func subscribing(name string, arguments map[string]any) map[string]any {
	return map[string]any{"name": name, "arguments": arguments,
		"delivery": map[string]any{"mode": "webhook", "url": "https://" + agentHost + "/hooks?of=alice"}}
}

func (k *tickets) subscribe(name string, arguments map[string]any) (s subscription) {
	k.t.Helper()
	k.must("subscribe", subscribing(name, arguments), &s)
	return s
}

// emit has something happen, and returns its id and how many it was queued for.
func (k *tickets) emit(name string, data map[string]any) (id string, queued int) {
	k.t.Helper()
	done, err := k.events.Emit(k.t.Context(), mcpevents.Emission{Name: name, Data: data})
	if err != nil {
		k.t.Fatal(err)
	}
	return done.Event.ID, done.Queued
}

// arrival is what the SDK's receiver gave to the application.
type arrival struct {
	Kind         string
	Subscription struct{ ID, Name string }
	Event        struct {
		EventID   string `json:"eventId"`
		Name      string
		Timestamp string
		Data      map[string]any
	}
	Termination struct{ Error struct{ Code int } }
}

func (k *tickets) next() (a arrival) {
	k.t.Helper()
	k.must("next", nil, &a)
	return a
}

// policies are the three presets, retrying soon.
func policies() map[string]mcpevents.Policy {
	all := map[string]mcpevents.Policy{"sep": mcpevents.SEP(), "relay": mcpevents.Relay(), "ledger": mcpevents.Ledger()}
	for name, p := range all {
		p.Schedule = mcpevents.Schedule{Base: 50 * time.Millisecond, Factor: 1, Max: time.Second, Attempts: 10}
		all[name] = p
	}
	return all
}

func TestTheAISDKFollowsEventsOfTheLibrary(t *testing.T) {
	t.Parallel()
	for name, policy := range policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTickets(t, policy)
			k.connect(true)
			var listed struct {
				Events []struct {
					Name, Description string
					Delivery          []string
				}
			}
			k.must("list", nil, &listed)
			if len(listed.Events) != 2 {
				t.Fatalf("listed %+v", listed)
			}
			first := k.subscribe("ticket.opened", map[string]any{"queue": "urgent"})
			k.emit("ticket.opened", map[string]any{"id": "T-0", "queue": "later"}) // concerns nobody
			data := map[string]any{"id": "T-1", "queue": "urgent", "title": "Kůň 👍🏽"}
			id, _ := k.emit("ticket.opened", data)
			k.expect(first.ID, "ticket.opened", id, data)

			k.must("fail", map[string]int{"times": 2}, nil)
			data["id"] = "T-2"
			id, _ = k.emit("ticket.opened", data)
			k.expect(first.ID, "ticket.opened", id, data)
			var answers []int
			k.must("answers", nil, &answers)
			if diff := cmp.Diff([]int{200, 204, 503, 503, 204}, answers); diff != "" {
				t.Errorf("the receiver answered otherwise (-want +got):\n%s", diff)
			}
			k.refreshAndLeave(first)
		})
	}
}

// expect takes the next arrival and compares it with what was emitted. Under PerSubscription the id on the wire is
// another one.
func (k *tickets) expect(subscription, name, id string, data map[string]any) {
	k.t.Helper()
	a := k.next()
	if a.Kind != "event" || a.Subscription.ID != subscription || a.Event.Name != name {
		k.t.Fatalf("got %+v, want %s for %s", a, name, subscription)
	}
	if a.Event.EventID != id && !strings.HasSuffix(a.Event.EventID, "_"+strings.TrimPrefix(subscription, "sub_")) {
		k.t.Errorf("event id %q, want %q", a.Event.EventID, id)
	}
	if diff := cmp.Diff(data, a.Event.Data); diff != "" {
		k.t.Errorf("data (-emitted +received):\n%s", diff)
	}
}

// refreshAndLeave renews a subscription with another secret, and then ends it.
func (k *tickets) refreshAndLeave(first subscription) {
	k.t.Helper()
	k.must("rotate", map[string]string{"id": first.ID, "secret": webhook.NewSecret().Reveal()}, nil)
	var renewed subscription
	k.must("refresh", map[string]string{"id": first.ID}, &renewed)
	if renewed.ID != first.ID || renewed.until(k.t).Before(first.until(k.t)) || renewed.Truncated {
		k.t.Errorf("%+v was renewed as %+v", first, renewed)
	}
	data := map[string]any{"id": "T-3", "queue": "urgent"}
	id, _ := k.emit("ticket.opened", data)
	k.expect(first.ID, "ticket.opened", id, data)

	k.must("unsubscribe", map[string]string{"id": first.ID}, nil)
	if _, queued := k.emit("ticket.opened", data); queued != 0 {
		k.t.Errorf("an event after unsubscribing was queued for %d", queued)
	}
	live, err := k.events.Subscriptions(k.t.Context(), mcpevents.SubscriptionFilter{Live: true})
	if err != nil || len(live) != 0 {
		k.t.Errorf("still live: %+v, %v", live, err)
	}
	var waiting int
	if k.must("waiting", nil, &waiting); waiting != 0 {
		k.t.Errorf("%d more arrived", waiting)
	}
}

func TestTheAISDKFollowsEventsAfterInitialize(t *testing.T) {
	t.Parallel()
	k := newTickets(t, policies()["sep"])
	k.connect(false)
	s := k.subscribe("ticket.closed", map[string]any{})
	data := map[string]any{"id": "T-1"}
	id, _ := k.emit("ticket.closed", data)
	k.expect(s.ID, "ticket.closed", id, data)
	k.must("unsubscribe", map[string]string{"id": s.ID}, nil)
}

func TestTheAISDKIsToldThatASubscriptionIsOver(t *testing.T) {
	t.Parallel()
	policy := policies()["sep"]
	policy.Control = mcpevents.ControlAll
	k := newTickets(t, policy)
	k.connect(true)
	s := k.subscribe("ticket.opened", map[string]any{})
	if err := k.events.Revoke(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	a := k.next()
	if a.Kind != "terminated" || a.Subscription.ID != s.ID || mcpevents.MeaningOf(a.Termination.Error.Code) != mcpevents.Forbidden {
		t.Errorf("got %+v, want terminated as forbidden", a)
	}
	var kept []json.RawMessage
	if k.must("kept", nil, &kept); len(kept) != 0 {
		t.Errorf("the SDK keeps %s", kept)
	}
}

func TestTheAISDKIsToldOfAGap(t *testing.T) {
	t.Parallel()
	policy := policies()["sep"]
	policy.Control, policy.Quotas.Waiting = mcpevents.ControlAll, 1
	policy.Schedule.Attempts = 1000
	k := newTickets(t, policy)
	k.connect(true)
	s := k.subscribe("ticket.closed", map[string]any{})
	k.must("fail", map[string]int{"times": 1_000_000}, nil)
	var last string
	for _, id := range []string{"T-1", "T-2", "T-3"} {
		last, _ = k.emit("ticket.closed", map[string]any{"id": id})
	}
	k.must("fail", map[string]int{"times": 0}, nil)   // the destination is back, and is told after it took something
	for gap, event := false, false; !gap || !event; { // next fails when one of them does not come
		a := k.next()
		gap = gap || a.Kind == "gap" && a.Subscription.ID == s.ID
		event = event || a.Kind == "event" && a.Event.EventID == last
	}
}

func TestTheAISDKReadsOurRefusals(t *testing.T) {
	t.Parallel()
	k := newTickets(t, policies()["sep"])
	err := k.try("connect", map[string]any{"url": k.url, "headers": bearer("another")}, nil)
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("connecting without a credential: %v", err)
	}
	k.connect(true)
	elsewhere := func(url string) map[string]any {
		p := subscribing("ticket.closed", nil)
		p["delivery"].(map[string]any)["url"] = url
		return p
	}
	for name, c := range map[string]struct {
		params map[string]any
		want   mcpevents.Meaning
	}{
		"unknown arguments":   {subscribing("ticket.opened", map[string]any{"colour": "red"}), mcpevents.InvalidParams},
		"an inner address":    {elsewhere("https://10.0.0.1/hook"), mcpevents.InvalidParams},
		"a name nobody knows": {elsewhere("https://nobody.example.com/hook"), mcpevents.CallbackEndpointError},
		"another port":        {elsewhere("https://" + agentHost + ":8443/hook"), mcpevents.InvalidParams},
	} {
		var refusal *scriptError
		err := k.try("subscribe", c.params, nil)
		if !errors.As(err, &refusal) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if code, ok := refusal.Code.(float64); !ok || int(code) != c.want.Code(mcpevents.DialectSketch) {
			t.Errorf("%s: %v, want %s", name, refusal, c.want)
		}
	}
}
