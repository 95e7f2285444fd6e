package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
	"github.com/herald-relay/herald/internal/testkit"
)

// placeholders stand in templates for what differs from run to run.
var placeholders = strings.NewReplacer(
	`<time>`, `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`,
	`<r>`, `r_[0-9a-f]{24}`, `<n>`, `n_[0-9a-f]{24}`,
	`<hex8>`, `[0-9a-f]{8}`, `<hex16>`, `[0-9a-f]{16}`, `<hex48>`, `[0-9a-f]{48}`, `<hex64>`, `[0-9a-f]{64}`,
	`<code>`, `[A-HJKMNP-Z2-9]{4}-[A-HJKMNP-Z2-9]{4}`,
	`<int>`, `[0-9]+`, `<rest>`, `.*`,
)

// devMatch holds bytes of the wire against a template, letter for letter but for its placeholders.
func devMatch(t testing.TB, what string, got []byte, template string) {
	t.Helper()
	pattern := "^" + placeholders.Replace(regexp.QuoteMeta(template)) + "$"
	if !regexp.MustCompile(pattern).Match(got) {
		t.Errorf("%s is\n  %s\nwant\n  %s", what, got, template)
	}
}

// devOK expects success with a body like the template.
func devOK(t testing.TB, a testkit.Answer, status int, template string) {
	t.Helper()
	if a.Status != status {
		t.Fatalf("status = %d, want %d: %s", a.Status, status, a.Raw)
	}
	if got := a.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		t.Errorf("content-type = %q", got)
	}
	if got := a.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("cache-control = %q, want no-store", got)
	}
	devMatch(t, "body", a.Raw, template)
}

// devRefused expects the plain error body: a code, a message, and only the optional members that are named, such as
// `"fields":["name"]` or `"retryAfterSeconds":600`.
func devRefused(t testing.TB, a testkit.Answer, status int, code string, more ...string) {
	t.Helper()
	if a.Status != status || a.Code() != code {
		t.Errorf("answer = %d %s, want %d %s", a.Status, a.Raw, status, code)
		return
	}
	if a.Text("message") == "" {
		t.Errorf("%s says nothing to people: %s", code, a.Raw)
	}
	if a.Header.Get("Content-Type") != "application/json; charset=utf-8" || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers of the refusal = %v", a.Header)
	}
	delete(a.Body, "error")
	delete(a.Body, "message")
	want := map[string]any{}
	if err := json.Unmarshal([]byte("{"+strings.Join(more, ",")+"}"), &want); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(a.Body), fmt.Sprint(want); got != want {
		t.Errorf("beside code and message the body holds %s, want %s", got, want)
	}
}

// devRetryAfter checks a Retry-After header; "" means that there must be none.
func devRetryAfter(t testing.TB, a testkit.Answer, want string) {
	t.Helper()
	if got := a.Header.Get("Retry-After"); got != want {
		t.Errorf("Retry-After = %q, want %q", got, want)
	}
}

// devRaw returns the next message of a stream as it came.
func devRaw(s *testkit.Stream) string {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), 10*time.Second)
	defer cancel()
	kind, data, err := s.Conn.Read(ctx)
	if err != nil {
		s.T.Fatalf("next message: %v", err)
	}
	if kind != websocket.MessageText {
		s.T.Errorf("message %q is not text", data)
	}
	return string(data)
}

// devSettle returns when everything said on the stream so far was handled. The relay must have nothing to say.
func devSettle(s *testkit.Stream) {
	s.T.Helper()
	s.Text("ping")
	if got := devRaw(s); got != "pong" {
		s.T.Errorf("next message = %s, want pong alone", got)
	}
}

// devNotified sends a notification and takes its frame from the stream. It returns both ids.
func devNotified(a *testkit.Agent, s *testkit.Stream) (agentID, id string) {
	s.T.Helper()
	agentID = a.Send(map[string]any{"title": "Ship it?", "expectReply": true})
	f := s.Next()
	if f.Text("type") != "notify" || f.Text("notificationId") != agentID {
		s.T.Fatalf("frame = %v, want notify of %s", f, agentID)
	}
	return agentID, f.Text("id")
}

// devQueued sends a notification that no stream takes and finds the relay's id by a stream of its own. The stream is
// closed again, the notification still waits.
func devQueued(d *testkit.Device, a *testkit.Agent) (agentID, id string) {
	d.T.Helper()
	s := d.Stream()
	defer s.Conn.CloseNow()
	return devNotified(a, s)
}

// devReceipt reads a receipt as its agent does.
func devReceipt(a *testkit.Agent, agentID string) testkit.Answer {
	a.T.Helper()
	got := a.Call("GET", "/v1/receipts/"+agentID, nil)
	if got.Status != http.StatusOK {
		a.T.Fatalf("receipt: %d %s", got.Status, got.Raw)
	}
	return got
}

// wrapFaulty is a testkit wrapper that hands out the store whose writes fail on demand.
func wrapFaulty(into **storetest.Faulty) func(store.Store) store.Store {
	return func(s store.Store) store.Store {
		*into = storetest.NewFaulty(s)
		return *into
	}
}

// broken is a store whose writes all fail while it is down.
type broken struct {
	store.Store
	down atomic.Bool
}

func (b *broken) wrap(s store.Store) store.Store {
	b.Store = s
	return b
}

// Update fails while the store is down.
func (b *broken) Update(ctx context.Context, fn func(store.Tx) error) error {
	if b.down.Load() {
		return storetest.ErrInjected
	}
	return b.Store.Update(ctx, fn)
}

// devUsage reads one number of the usage.
func devUsage(d *testkit.Device, name string) int {
	d.T.Helper()
	n, ok := d.Call("GET", "/v1/device/usage", nil).Body[name].(float64)
	if !ok {
		d.T.Fatalf("usage has no number %s", name)
	}
	return int(n)
}
