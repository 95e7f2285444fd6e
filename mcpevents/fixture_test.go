package mcpevents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/eventstest"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

const (
	secret1 = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	secret2 = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
	secret3 = "whsec_QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8="
	hookURL = "https://agent.example.com/hooks"
)

// world is a server with one family "test", its destinations, and a caller.
type world struct {
	*testing.T
	srv    *mcpevents.Server
	net    *eventstest.Net
	db     driver.Driver
	stop   context.CancelFunc
	done   chan struct{}
	caller mcpevents.Caller
}

// bubble runs fn in a synctest bubble on a running server.
func bubble(t *testing.T, p mcpevents.Policy, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memdriver.New(), p, nil)
		w.run()
		fn(w)
		w.halt()
	})
}

func ticketCatalog(t *testing.T) *mcpevents.Catalog {
	t.Helper()
	c, err := mcpevents.NewCatalog(mcpevents.EventType{
		Name:          "ticket.opened",
		Description:   "A ticket was opened.",
		InputSchema:   json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"severity":{"type":"string","enum":["P1","P2"]}}}`),
		PayloadSchema: json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"severity":{"type":"string"}}}`),
		Filter:        mcpevents.Equal("severity", "severity"),
	}, mcpevents.EventType{
		Name: "ticket.closed", SubjectArgument: "subject",
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"subject":{"type":"string"}}}`),
	}, mcpevents.EventType{
		Name: "tick", NoReplay: true,
	}, mcpevents.EventType{
		Name: "hook.only", Delivery: []mcpevents.Mode{mcpevents.Webhook},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newWorld(t *testing.T, db driver.Driver, p mcpevents.Policy, change func(*mcpevents.Family, *mcpevents.Options)) *world {
	t.Helper()
	w := &world{T: t, net: eventstest.NewNet(), db: db, caller: mcpevents.Caller{Principal: "user_1"}}
	f := mcpevents.Family{Name: "test", Policy: p, Catalog: ticketCatalog(t)}
	opts := mcpevents.Options{Egress: w.net, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&f, &opts)
	}
	var err error
	if w.srv, err = mcpevents.New(db, []mcpevents.Family{f}, &opts); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) run() {
	ctx, stop := context.WithCancel(w.Context())
	w.stop, w.done = stop, make(chan struct{})
	go func() {
		defer close(w.done)
		if err := w.srv.Run(ctx); err != nil {
			w.Errorf("Run = %v", err)
		}
	}()
}

func (w *world) halt() {
	w.stop()
	<-w.done
}

// receiver puts a receiver that knows secrets 1 to 3 on agent.example.com.
func (w *world) receiver() *eventstest.Receiver {
	r := eventstest.NewReceiver(secret1, secret2, secret3)
	w.net.Handle("agent.example.com", r)
	return r
}

func (w *world) call(d mcpevents.Dialect, method, params string, args ...any) (map[string]any, error) {
	w.Helper()
	return w.callAs(w.caller, d, method, params, args...)
}

func (w *world) callAs(c mcpevents.Caller, d mcpevents.Dialect, method, params string, args ...any) (map[string]any, error) {
	w.Helper()
	raw, err := w.srv.Call(w.Context(), mcpevents.Request{Method: method, Params: json.RawMessage(fmt.Sprintf(params, args...)), Dialect: d, Caller: c})
	if err != nil {
		return nil, err
	}
	var result map[string]any
	if err := json.Unmarshal(raw, &result); err != nil {
		w.Fatalf("result %s: %v", raw, err)
	}
	return result, nil
}

// must fails the test when a call did not succeed.
func (w *world) must(result map[string]any, err error) map[string]any {
	w.Helper()
	if err != nil {
		w.Fatalf("call failed: %v", err)
	}
	return result
}

// subscribe subscribes to ticket.opened with secret 1; more are extra members of the parameters.
func (w *world) subscribe(more ...string) map[string]any {
	w.Helper()
	return w.must(w.trySubscribe(more...))
}

func (w *world) trySubscribe(more ...string) (map[string]any, error) {
	w.Helper()
	extra := ""
	if len(more) > 0 {
		extra = "," + strings.Join(more, ",")
	}
	return w.call(mcpevents.DialectSketch, "events/subscribe",
		`{"name":"ticket.opened","delivery":{"mode":"webhook","url":%q,"secret":%q}%s}`, hookURL, secret1, extra)
}

func (w *world) emit(id string, more ...func(*mcpevents.Emission)) mcpevents.Emitted {
	w.Helper()
	e := mcpevents.Emission{ID: id, Name: "ticket.opened", Data: map[string]any{"id": id, "severity": "P1"}}
	for _, f := range more {
		f(&e)
	}
	done, err := w.srv.Emit(w.Context(), e)
	if err != nil {
		w.Fatalf("emit %s: %v", id, err)
	}
	return done
}

// after lets virtual time pass and everything come to rest.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantError checks an error's code in a dialect, and members of its data.
func wantError(t *testing.T, err error, d mcpevents.Dialect, code int, data map[string]any) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want code %d", code)
	}
	e := mcpevents.ErrorOf(err, d)
	if e.Code != code {
		t.Errorf("error %+v (%v), want code %d", e, err, code)
	}
	for name, want := range data {
		if got := e.Data[name]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("error data %v, want %s = %v", e.Data, name, want)
		}
	}
}
