package subscriber_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents/subscriber"
	"github.com/herald-relay/herald/webhook"
)

const (
	ownSecret   = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	oldSecret   = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
	foreign     = "whsec_QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8="
	eventBody   = `{"eventId":"e1","name":"ticket.opened","timestamp":"2026-02-19T16:00:00Z","data":{"x":1},"cursor":"c1"}`
	twinBody    = `{"eventId":"e1","name":"ticket.closed","timestamp":"2026-02-19T16:00:00Z","data":{"x":1},"cursor":"c9"}`
	challenging = `{"type":"verification","challenge":"n0nce"}`
)

// nowhere is a server that is never called.
type nowhere struct{}

func (nowhere) Call(context.Context, string, map[string]any) (json.RawMessage, error) {
	return nil, fmt.Errorf("nowhere")
}

// hook is a receiver with a bound subscription sub_1, one that is pending, and a twin bound as sub_2.
type hook struct {
	*testing.T
	sub   *subscriber.Subscriber
	store *subscriber.Memory
	got   []string
	gaps  []string
	err   error
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{T: t, store: &subscriber.Memory{}}
	records := []subscriber.Record{
		{Key: "bound", Name: "ticket.opened", ID: "sub_1", Secrets: []subscriber.Secret{{Text: ownSecret}, {Text: oldSecret, Until: time.Now().Add(time.Hour)}}},
		{Key: "pending", Name: "ticket.opened", Secrets: []subscriber.Secret{{Text: foreign}}},
		{Key: "twin", Name: "ticket.closed", ID: "sub_2", Secrets: []subscriber.Secret{{Text: ownSecret}}},
	}
	h.sub = subscriber.New(h.store, func(_ context.Context, e subscriber.Event) error {
		if h.err != nil {
			return h.err
		}
		h.got = append(h.got, e.Key+" "+e.ID)
		return nil
	}, &subscriber.Options{Gap: func(key string) { h.gaps = append(h.gaps, key) }})
	for _, r := range records {
		r.Arguments = json.RawMessage(`{}`)
		if err := h.store.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := h.sub.Add(t.Context(), subscriber.Want{Key: r.Key, Name: r.Name, Server: nowhere{}}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

type sending struct {
	id, secret, body, method, contentType string
	age                                   time.Duration
	change                                func(http.Header)
}

func (h *hook) send(s sending) *httptest.ResponseRecorder {
	h.Helper()
	if s.method == "" {
		s.method = http.MethodPost
	}
	if s.contentType == "" {
		s.contentType = "application/json; charset=utf-8"
	}
	secret, err := webhook.ParseSecret(s.secret)
	if err != nil {
		h.Fatal(err)
	}
	r := httptest.NewRequest(s.method, "/", strings.NewReader(s.body))
	signed := http.Header{}
	if err := webhook.SetHeaders(signed, "msg_1", time.Now().Add(-s.age), []byte(s.body), secret); err != nil {
		h.Fatal(err)
	}
	for name, values := range signed {
		r.Header.Set(name, values[0])
	}
	r.Header.Set("Content-Type", s.contentType)
	r.Header.Set("x-mcp-SUBSCRIPTION-id", s.id)
	if s.change != nil {
		s.change(r.Header)
	}
	w := httptest.NewRecorder()
	h.sub.ServeHTTP(w, r)
	return w
}

// TestReceiver is contract e.9 with public cases 19, 27 and 41.
func TestReceiver(t *testing.T) {
	long := `{"eventId":"e1","name":"ticket.opened","timestamp":"2026-02-19T16:00:00Z","data":{"x":"` + strings.Repeat("x", 256<<10) + `"}}`
	for _, c := range []struct {
		name   string
		send   sending
		status int
		body   string
		got    []string
	}{
		{"an event", sending{id: "sub_1", secret: ownSecret, body: eventBody}, 204, "", []string{"bound e1"}},
		{"an event signed with the secret before", sending{id: "sub_1", secret: oldSecret, body: eventBody}, 204, "", []string{"bound e1"}},
		{"an event signed with another subscription's secret", sending{id: "sub_1", secret: foreign, body: eventBody}, 401, "", nil},
		{"a challenge for a pending secret", sending{id: "sub_9", secret: foreign, body: challenging}, 200, `{"challenge":"n0nce"}`, nil},
		{"a challenge for a bound one", sending{id: "sub_1", secret: ownSecret, body: challenging}, 200, `{"challenge":"n0nce"}`, nil},
		{"a challenge with an unknown secret", sending{id: "sub_9", secret: "whsec_" + strings.Repeat("A", 32), body: challenging}, 401, "", nil},
		{"an event for an unknown id with a pending secret", sending{id: "sub_9", secret: foreign, body: eventBody}, 503, "", nil},
		{"an event for an unknown id with a bound one's secret", sending{id: "sub_9", secret: ownSecret, body: eventBody}, 401, "", nil},
		{"another name", sending{id: "sub_1", secret: ownSecret, body: twinBody}, 400, "", nil},
		{"a timestamp without a zone", sending{id: "sub_1", secret: ownSecret, body: strings.Replace(eventBody, "00Z", "00", 1)}, 400, "", nil},
		{"an unknown type", sending{id: "sub_1", secret: ownSecret, body: `{"type":"future","x":1}`}, 204, "", nil},
		{"no JSON", sending{id: "sub_1", secret: ownSecret, body: `x`}, 400, "", nil},
		{"299 seconds old", sending{id: "sub_1", secret: ownSecret, body: eventBody, age: 299 * time.Second}, 204, "", []string{"bound e1"}},
		{"302 seconds old", sending{id: "sub_1", secret: ownSecret, body: eventBody, age: 302 * time.Second}, 401, "", nil},
		{"302 seconds ahead", sending{id: "sub_1", secret: ownSecret, body: eventBody, age: -302 * time.Second}, 401, "", nil},
		{"too large", sending{id: "sub_1", secret: ownSecret, body: long}, 413, "", nil},
		{"GET", sending{id: "sub_1", secret: ownSecret, body: eventBody, method: "GET"}, 405, "", nil},
		{"text", sending{id: "sub_1", secret: ownSecret, body: eventBody, contentType: "text/plain"}, 415, "", nil},
		{"no subscription id", sending{secret: ownSecret, body: eventBody}, 400, "", nil},
		{"no signature", sending{id: "sub_1", secret: ownSecret, body: eventBody, change: func(h http.Header) { h.Del("webhook-signature") }}, 400, "", nil},
		{"a list of signatures, one good", sending{id: "sub_1", secret: ownSecret, body: eventBody, change: func(h http.Header) {
			h.Set("webhook-signature", "v1a,x v1,AAA "+h.Get("webhook-signature"))
		}}, 204, "", []string{"bound e1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHook(t)
			w := h.send(c.send)
			if w.Code != c.status || (c.body != "" && w.Body.String() != c.body) {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, c.status, c.body)
			}
			if diff := cmp.Diff(c.got, h.got); diff != "" {
				t.Errorf("handled (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRepetitionsAreTakenAndHandledOnce(t *testing.T) {
	h := newHook(t)
	for _, s := range []sending{{id: "sub_1", secret: ownSecret, body: eventBody}, {id: "sub_1", secret: ownSecret, body: eventBody},
		{id: "sub_2", secret: ownSecret, body: twinBody}} {
		if w := h.send(s); w.Code != 204 {
			t.Errorf("%d for %s", w.Code, s.id)
		}
	}
	if diff := cmp.Diff([]string{"bound e1", "twin e1"}, h.got); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
	if r := h.record("bound"); r.Cursor == nil || *r.Cursor != "c1" {
		t.Errorf("record %+v, want the cursor", r)
	}
}

func (h *hook) record(key string) subscriber.Record {
	h.Helper()
	all, err := h.store.Records(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	for _, r := range all {
		if r.Key == key {
			return r
		}
	}
	h.Fatalf("no record %s", key)
	return subscriber.Record{}
}

func TestAHandlerErrorIs503AndNotRemembered(t *testing.T) {
	h := newHook(t)
	h.err = fmt.Errorf("disk full")
	if w := h.send(sending{id: "sub_1", secret: ownSecret, body: eventBody}); w.Code != 503 {
		t.Errorf("%d, want 503", w.Code)
	}
	h.err = nil
	if w := h.send(sending{id: "sub_1", secret: ownSecret, body: eventBody}); w.Code != 204 || len(h.got) != 1 {
		t.Errorf("%d, handled %v", w.Code, h.got)
	}
}

func TestControlBodies(t *testing.T) {
	h := newHook(t)
	if w := h.send(sending{id: "sub_1", secret: ownSecret, body: `{"type":"gap","cursor":"c7"}`}); w.Code != 204 || len(h.gaps) != 1 {
		t.Errorf("gap: %d, told %v", w.Code, h.gaps)
	}
	if r := h.record("bound"); r.Cursor == nil || *r.Cursor != "c7" {
		t.Errorf("record %+v", r)
	}
	if w := h.send(sending{id: "sub_1", secret: ownSecret, body: `{"type":"terminated","error":{"code":-32012,"message":"Forbidden"}}`}); w.Code != 204 {
		t.Errorf("terminated: %d", w.Code)
	}
	if r := h.record("bound"); r.State != subscriber.Stopped || r.ID != "" {
		t.Errorf("record %+v, want it stopped", r)
	}
	if w := h.send(sending{id: "sub_1", secret: ownSecret, body: eventBody}); w.Code == 204 {
		t.Errorf("an event after the end was taken")
	}
}

func TestABoundChallengeBindsItsID(t *testing.T) {
	h := newHook(t)
	h.send(sending{id: "sub_9", secret: foreign, body: challenging})
	if r := h.record("pending"); r.ID != "sub_9" {
		t.Errorf("record %+v", r)
	}
	if w := h.send(sending{id: "sub_9", secret: foreign, body: eventBody}); w.Code != 204 {
		t.Errorf("%d for an event after the challenge", w.Code)
	}
}

func FuzzReceiver(f *testing.F) {
	f.Add(eventBody)
	f.Add(challenging)
	f.Add(`{"type":"terminated"}`)
	f.Add(`{"type":"gap","cursor":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		h := newHook(t)
		if w := h.send(sending{id: "sub_1", secret: ownSecret, body: body}); w.Code == 410 || w.Code >= 500 || w.Code < 200 {
			t.Errorf("%q is answered %d", body, w.Code)
		}
		if w := newHook(t).send(sending{id: "sub_1", secret: foreign, body: body}); w.Code != 401 && w.Code != 413 {
			t.Errorf("%q with a foreign secret is answered %d", body, w.Code)
		}
	})
}
