package npm

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/subscriber"
	"github.com/herald-relay/herald/webhook"
)

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// foreignServer is a server of MCP events that signs with the npm package. As a subscriber.Conn it answers the
// methods; its challenges and events go over HTTP.
type foreignServer struct {
	t      *testing.T
	script *script

	mu      sync.Mutex // guards what follows
	url     string
	secrets []string // newest first
	subs    chan struct{}
}

const foreignID = "sub_foreign_1"

// Call answers one method. Subscribing verifies the address first, as servers must.
func (f *foreignServer) Call(_ context.Context, method string, params map[string]any) (json.RawMessage, error) {
	switch method {
	case mcpevents.MethodList:
		return json.RawMessage(`{"events":[{"name":"ticket.opened","delivery":["webhook"],"inputSchema":{},"payloadSchema":{}}]}`), nil
	case mcpevents.MethodSubscribe:
		return f.subscribe(params["delivery"].(map[string]any))
	}
	return json.RawMessage(`{}`), nil
}

func (f *foreignServer) subscribe(delivery map[string]any) (json.RawMessage, error) {
	f.mu.Lock()
	f.url = delivery["url"].(string)
	if secret := delivery["secret"].(string); len(f.secrets) == 0 || f.secrets[0] != secret {
		f.secrets = append([]string{secret}, f.secrets...)
	}
	newest := f.secrets[:1]
	f.mu.Unlock()
	status, body := f.send(sending{ID: "msg_verification_1", Secrets: newest, Body: `{"type":"verification","challenge":"žluť-1"}`})
	if status != http.StatusOK || body != `{"challenge":"žluť-1"}` {
		f.t.Errorf("a challenge was answered %d %s", status, body)
		return nil, &mcpevents.Error{Meaning: mcpevents.CallbackEndpointError, Message: "not verified"}
	}
	f.subs <- struct{}{}
	return json.RawMessage(`{"id":"` + foreignID + `","refreshBefore":null,"cursor":null,"truncated":false}`), nil
}

// sending is one webhook; what is left out is as it should be.
type sending struct {
	ID      string   `json:"id"`
	Secrets []string `json:"secrets"`
	Body    string   `json:"body"`
	Sent    string   `json:"sent,omitempty"` // another body than was signed
	At      int64    `json:"at"`
	Sub     string   `json:"subscription"`
	URL     string   `json:"url"`

	Headers map[string]string `json:"headers,omitempty"`
}

func (f *foreignServer) send(m sending) (status int, body string) {
	f.t.Helper()
	f.mu.Lock()
	m.URL = f.url
	if m.Secrets == nil {
		m.Secrets = f.secrets
	}
	f.mu.Unlock()
	if m.At == 0 {
		m.At = time.Now().Unix()
	}
	if m.Sub == "" {
		m.Sub = foreignID
	}
	var answer struct {
		Status int
		Body   string
	}
	f.script.must("send", m, &answer)
	return answer.Status, answer.Body
}

func event(id, reply string) string {
	data, err := json.Marshal(map[string]string{"reply": reply})
	if err != nil {
		panic(err) // a string encodes
	}
	return fmt.Sprintf(`{"eventId":%q,"name":"ticket.opened","timestamp":%q,"data":%s,"cursor":null}`, id, time.Now().UTC().Format(time.RFC3339), data)
}

// subscribed starts a Subscriber of ours against a foreign server and waits until it is subscribed.
func subscribed(t *testing.T) (f *foreignServer, s *subscriber.Subscriber, got chan subscriber.Event) {
	t.Helper()
	f = &foreignServer{t: t, script: start(t, "standardwebhooks"), subs: make(chan struct{}, 8)}
	got = make(chan subscriber.Event, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	t.Cleanup(receiver.Close)
	s = subscriber.New(&subscriber.Memory{}, func(_ context.Context, e subscriber.Event) error {
		got <- e
		return nil
	}, &subscriber.Options{URL: receiver.URL + "/events"})
	if err := s.Add(t.Context(), subscriber.Want{Key: "tickets", Server: f, Name: "ticket.opened"}); err != nil {
		t.Fatal(err)
	}
	run(t, s.Run)
	f.awaitSubscribe()
	return f, s, got
}

// run has a service work until the test ends, and waits for its end.
func run(t *testing.T, service func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (f *foreignServer) awaitSubscribe() {
	f.t.Helper()
	select {
	case <-f.subs:
	case <-time.After(20 * time.Second):
		f.t.Fatal("nobody subscribed")
	}
}

func TestOurReceiverTakesWhatStandardWebhooksSigned(t *testing.T) {
	t.Parallel()
	f, _, got := subscribed(t)
	for i, reply := range []string{"yes", "žluťoučký kůň", "👍🏽 日本語", "a\u2028b"} {
		id := fmt.Sprintf("evt_%d", i)
		for range 2 { // the second is a repetition, which is acknowledged and not handed on
			if status, body := f.send(sending{ID: id, Body: event(id, reply)}); status != http.StatusNoContent {
				t.Fatalf("event %d was answered %d %s", i, status, body)
			}
		}
		e := <-got
		var data map[string]string
		if err := json.Unmarshal(e.Data, &data); err != nil || data["reply"] != reply || e.ID != id || e.Mode != mcpevents.Webhook {
			t.Errorf("event %d came as %+v, %v", i, e, err)
		}
	}
	if len(got) > 0 {
		t.Errorf("a repetition was handed on: %+v", <-got)
	}
}

func TestOurReceiverRefusesWhatStandardWebhooksDidNotSign(t *testing.T) {
	t.Parallel()
	f, _, got := subscribed(t)
	good := event("evt_1", "yes")
	stranger := []string{webhook.NewSecret().Reveal()}
	for name, c := range map[string]struct {
		sending
		want int
	}{
		"a stranger's secret":       {sending{ID: "evt_1", Body: good, Secrets: stranger}, http.StatusUnauthorized},
		"a body changed on the way": {sending{ID: "evt_1", Body: good, Sent: event("evt_1", "no")}, http.StatusUnauthorized},
		"an id changed on the way":  {sending{ID: "evt_1", Body: good, Headers: map[string]string{"webhook-id": "evt_2"}}, http.StatusUnauthorized},
		"a message from long ago":   {sending{ID: "evt_1", Body: good, At: time.Now().Add(-10 * time.Minute).Unix()}, http.StatusUnauthorized},
		"a message of the future":   {sending{ID: "evt_1", Body: good, At: time.Now().Add(10 * time.Minute).Unix()}, http.StatusUnauthorized},
		"another's challenge":       {sending{ID: "msg_1", Body: `{"type":"verification","challenge":"c"}`, Secrets: stranger}, http.StatusUnauthorized},
		"no time":                   {sending{ID: "evt_1", Body: good, Headers: map[string]string{"webhook-timestamp": "soon"}}, http.StatusBadRequest},
	} {
		if status, body := f.send(c.sending); status != c.want {
			t.Errorf("%s was answered %d %s, want %d", name, status, body, c.want)
		}
	}
	if len(got) > 0 {
		t.Errorf("handed on: %+v", <-got)
	}
}

func TestOurReceiverTakesBothSecretsOfARotation(t *testing.T) {
	t.Parallel()
	f, s, got := subscribed(t)
	if err := s.Rotate(t.Context(), "tickets"); err != nil {
		t.Fatal(err)
	}
	f.awaitSubscribe()
	f.mu.Lock()
	secrets := f.secrets
	f.mu.Unlock()
	if len(secrets) != 2 {
		t.Fatalf("%d secrets, want 2", len(secrets))
	}
	for name, signing := range map[string][]string{"both": secrets, "new": secrets[:1], "old": secrets[1:]} {
		id := "evt_" + name
		if status, body := f.send(sending{ID: id, Body: event(id, name), Secrets: signing}); status != http.StatusNoContent {
			t.Errorf("signed with %s: answered %d %s", name, status, body)
			continue
		}
		if e := <-got; e.ID != id {
			t.Errorf("signed with %s: %+v", name, e)
		}
	}
}
