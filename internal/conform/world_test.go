package conform_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/conform"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/eventstest"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

const (
	serverHost   = "mcp.example.com"
	receiverHost = "check.example.net"
)

// ways out and in of a check, where a mutant can change what passes.
type ways struct {
	server  func(http.Handler) http.Handler           // of the server
	outward func(http.RoundTripper) http.RoundTripper // of what it sends
	// catalog and emit replace what the server has and does when an event is asked for.
	emit func(e mcpevents.Emission) mcpevents.Emission
	// end replaces what ends subscriptions.
	end func(ctx context.Context, event string) error
}

// presets are the library's policies, as they are: a day of retries takes no time in a bubble.
var presets = map[string]func() mcpevents.Policy{"sep": mcpevents.SEP, "relay": mcpevents.Relay, "ledger": mcpevents.Ledger}

// check runs all rules against a server of the library in a bubble, on a net in memory.
func check(t *testing.T, policy mcpevents.Policy, dialect conform.Dialect, w ways, more func(*conform.Options)) *conform.Report {
	t.Helper()
	var report *conform.Report
	synctest.Test(t, func(t *testing.T) {
		report = checkHere(t, policy, dialect, w, more)
	})
	return report
}

func checkHere(t *testing.T, policy mcpevents.Policy, dialect conform.Dialect, w ways, more func(*conform.Options)) *conform.Report {
	net := eventstest.NewNet()
	catalog := tickets(t)
	srv, err := mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "tickets", Policy: policy, Catalog: catalog}},
		&mcpevents.Options{Egress: &outward{net, through(w.outward, net)}, ListChanged: true,
			Engine: mcpevents.Engine{PollEvery: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- srv.Run(ctx) }()
	defer func() { cancel(); <-ran }()
	var handler http.Handler = mcpevents.NewHandler(srv, whoIsIt, nil)
	if w.server != nil {
		handler = w.server(handler)
	}
	receiver := &conform.Receiver{URL: "https://" + receiverHost}
	net.Handle(serverHost, handler)
	net.Handle(receiverHost, receiver)
	var count atomic.Int64
	o := conform.Options{
		URL: "https://" + serverHost + "/mcp", HTTP: net, Receiver: receiver, Closed: "https://closed.example.net/hook",
		Authorize: func(h http.Header) { h.Set("Authorization", "Bearer good") },
		Dialects:  []conform.Dialect{dialect}, Event: "ticket.opened", Arguments: json.RawMessage(`{"team":"a","urgent":true}`),
		Wait: 10 * time.Minute, Limit: 1000 * time.Hour,
		Trigger: func(ctx context.Context, name string) error {
			e := mcpevents.Emission{Name: name, ID: fmt.Sprintf("t_%d", count.Add(1)), Subject: "a", Data: json.RawMessage(`{"ticket":"T-1"}`)}
			if w.emit != nil {
				e = w.emit(e)
			}
			_, err := srv.Emit(ctx, e)
			return err
		},
		End: func(ctx context.Context, name string) error {
			change, err := catalog.Replace(mcpevents.EventType{Name: "ticket.closed", Delivery: []mcpevents.Mode{mcpevents.Webhook}})
			if err != nil {
				return err
			}
			return srv.Announce(ctx, "tickets", "", change)
		},
	}
	if w.end != nil {
		o.End = w.end
	}
	if more != nil {
		more(&o)
	}
	report, err := conform.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// outward is the server's way out: judged by the net, and changed by a mutant.
type outward struct {
	*eventstest.Net
	http.RoundTripper
}

func (o *outward) RoundTrip(r *http.Request) (*http.Response, error) {
	return o.RoundTripper.RoundTrip(r)
}

func through(change func(http.RoundTripper) http.RoundTripper, way http.RoundTripper) http.RoundTripper {
	if change == nil {
		return way
	}
	return change(way)
}

func tickets(t *testing.T) *mcpevents.Catalog {
	t.Helper()
	c, err := mcpevents.NewCatalog(
		mcpevents.EventType{Name: "ticket.opened", Description: "A ticket was opened.", SubjectArgument: "team",
			InputSchema:   json.RawMessage(`{"type":"object","properties":{"team":{"type":"string"},"urgent":{"type":"boolean"}}}`),
			PayloadSchema: json.RawMessage(`{"type":"object","required":["ticket"],"properties":{"ticket":{"type":"string"}}}`)},
		mcpevents.EventType{Name: "ticket.closed", Description: "A ticket was closed.", Delivery: []mcpevents.Mode{mcpevents.Webhook},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"team":{"type":"string"},"urgent":{"type":"boolean"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func whoIsIt(r *http.Request) (mcpevents.Caller, error) {
	switch r.Header.Get("Authorization") {
	case "":
		return mcpevents.Caller{}, nil
	case "Bearer good":
		return mcpevents.Caller{Principal: "somebody"}, nil
	}
	return mcpevents.Caller{}, errors.New("a wrong token")
}
