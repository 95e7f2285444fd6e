package subscriber_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/eventstest"
	"github.com/herald-relay/herald/mcpevents/memdriver"
	"github.com/herald-relay/herald/mcpevents/subscriber"
)

// scene is a server and an agent on one net.
type scene struct {
	*testing.T
	net     *eventstest.Net
	srv     *mcpevents.Server
	catalog *mcpevents.Catalog
	store   *subscriber.Memory
	sub     *subscriber.Subscriber

	mu      sync.Mutex // guards what follows
	got     []string
	gaps    int
	stopped []string
	fail    func(id string) bool
}

func play(t *testing.T, p mcpevents.Policy, fn func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened"}, mcpevents.EventType{Name: "a"}, mcpevents.EventType{Name: "z"})
		if err != nil {
			t.Fatal(err)
		}
		s := &scene{T: t, net: eventstest.NewNet(), catalog: catalog, store: &subscriber.Memory{}}
		opts := &mcpevents.Options{Egress: s.net, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Engine: mcpevents.Engine{PollEvery: 10 * time.Second}}
		if s.srv, err = mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "f", Policy: p, Catalog: catalog}}, opts); err != nil {
			t.Fatal(err)
		}
		s.connect()
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.srv.Run(ctx) }()
		fn(s)
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// connect puts the MCP endpoint on the net.
func (s *scene) connect() {
	s.net.Handle("mcp.example.com", mcpevents.NewHandler(s.srv, func(r *http.Request) (mcpevents.Caller, error) {
		return mcpevents.Caller{Principal: r.Header.Get("Authorization")}, nil
	}, nil))
}

func (s *scene) dial(d mcpevents.Dialect) subscriber.Conn {
	return subscriber.Dial("https://mcp.example.com/mcp", &subscriber.ClientOptions{HTTP: &http.Client{Transport: s.net}, Dialect: d,
		Authorize: func(_ context.Context, h http.Header) error {
			h.Set("Authorization", "agent_1")
			return nil
		}})
}

// agent makes a subscriber over the scene's store, which may use these modes.
func (s *scene) agent(modes ...mcpevents.Mode) *subscriber.Subscriber {
	s.sub = subscriber.New(s.store, s.handle, &subscriber.Options{URL: "https://agent.example.com/events", Modes: modes,
		Log: slog.New(slog.NewTextHandler(s.Output(), nil)),
		Gap: func(string) { s.mu.Lock(); s.gaps++; s.mu.Unlock() },
		Stopped: func(r subscriber.Record) {
			s.mu.Lock()
			s.stopped = append(s.stopped, r.Reason)
			s.mu.Unlock()
		}})
	s.net.Handle("agent.example.com", s.sub)
	return s.sub
}

func (s *scene) handle(_ context.Context, e subscriber.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil && s.fail(e.ID) {
		return errors.New("not now")
	}
	s.got = append(s.got, e.ID)
	return nil
}

func (s *scene) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *scene) add(d mcpevents.Dialect) {
	s.Helper()
	if err := s.sub.Add(s.Context(), subscriber.Want{Key: "k", Server: s.dial(d), Name: "ticket.opened"}); err != nil {
		s.Fatal(err)
	}
}

// run runs the agent; the returned function stops it and waits.
func (s *scene) run() (halt func()) {
	ctx, stop := context.WithCancel(s.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.sub.Run(ctx) }()
	synctest.Wait()
	return func() {
		stop()
		if err := <-ran; err != nil {
			s.Error(err)
		}
	}
}

func (s *scene) emit(ids ...string) {
	s.Helper()
	for _, id := range ids {
		if _, err := s.srv.Emit(s.Context(), mcpevents.Emission{ID: id, Name: "ticket.opened", Data: struct{}{}}); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *scene) want(ids ...string) {
	s.Helper()
	if diff := cmp.Diff(ids, s.events()); diff != "" {
		s.Errorf("events handled (-want +got):\n%s", diff)
	}
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var modes = []mcpevents.Mode{mcpevents.Webhook, mcpevents.Push, mcpevents.Poll}

func TestEachModeInEachDialect(t *testing.T) {
	for _, d := range []mcpevents.Dialect{mcpevents.DialectSketch, mcpevents.DialectSEP} {
		for _, mode := range modes {
			t.Run(fmt.Sprint(d, " ", mode), func(t *testing.T) {
				play(t, mcpevents.SEP(), func(s *scene) {
					s.agent(mode)
					s.add(d)
					halt := s.run()
					after(2 * time.Second)
					s.emit("e1", "e2")
					after(10 * time.Second)
					s.emit("e3")
					after(10 * time.Second)
					if got := s.events(); mode != mcpevents.Webhook || len(got) != 3 {
						s.want("e1", "e2", "e3") // webhooks promise no order
					}
					if r := s.sub.Records()[0]; r.State != subscriber.Active || r.Mode != mode || r.Cursor == nil {
						t.Errorf("record %+v", r)
					}
					halt()
				})
			})
		}
	}
}

func TestRefreshesKeepAWebhookAliveForDays(t *testing.T) {
	play(t, mcpevents.SEP(), func(s *scene) {
		s.agent()
		s.add(mcpevents.DialectSEP)
		halt := s.run()
		for i := range 10 {
			after(17 * time.Hour)
			s.emit(fmt.Sprint("e", i))
		}
		after(time.Minute)
		if n := len(s.events()); n != 10 {
			t.Errorf("%d events of 10", n)
		}
		halt()
	})
}

func TestTheFirstModeThatBothCanDo(t *testing.T) {
	for _, c := range []struct {
		offered []mcpevents.Mode
		want    mcpevents.Mode
	}{
		{modes, mcpevents.Webhook},
		{[]mcpevents.Mode{mcpevents.Poll, mcpevents.Push}, mcpevents.Push},
		{[]mcpevents.Mode{mcpevents.Poll}, mcpevents.Poll},
	} {
		play(t, mcpevents.SEP(), func(s *scene) {
			if _, err := s.catalog.Replace(mcpevents.EventType{Name: "ticket.opened", Delivery: c.offered}); err != nil {
				t.Fatal(err)
			}
			s.agent()
			s.add(mcpevents.DialectSEP)
			halt := s.run()
			after(time.Second)
			s.emit("e1")
			after(10 * time.Second)
			s.want("e1")
			if got := s.sub.Records()[0].Mode; got != c.want {
				t.Errorf("mode %s, want %s", got, c.want)
			}
			halt()
		})
	}
}

func TestNoModeIsFinal(t *testing.T) {
	play(t, mcpevents.SEP(), func(s *scene) {
		if _, err := s.catalog.Replace(mcpevents.EventType{Name: "ticket.opened", Delivery: []mcpevents.Mode{mcpevents.Poll}}); err != nil {
			t.Fatal(err)
		}
		s.agent(mcpevents.Webhook)
		s.add(mcpevents.DialectSEP)
		halt := s.run()
		after(time.Second)
		if r := s.sub.Records()[0]; r.State != subscriber.Stopped || len(s.stopped) != 1 {
			t.Errorf("record %+v, told %v", r, s.stopped)
		}
		halt()
	})
}

// TestChangingModesLosesNothing goes through all modes over one store, with events before, between and after.
func TestChangingModesLosesNothing(t *testing.T) {
	for _, order := range [][]mcpevents.Mode{
		{mcpevents.Webhook, mcpevents.Push, mcpevents.Poll, mcpevents.Webhook},
		{mcpevents.Poll, mcpevents.Webhook, mcpevents.Push, mcpevents.Webhook},
	} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			play(t, mcpevents.SEP(), func(s *scene) {
				var want []string
				for i, mode := range order {
					s.agent(mode)
					s.add(mcpevents.DialectSEP)
					halt := s.run()
					after(7 * time.Second)
					for k := range 3 {
						id := fmt.Sprintf("e%d-%d", i, k)
						want = append(want, id)
						s.emit(id)
					}
					after(7 * time.Second)
					halt()
					id := fmt.Sprintf("between%d", i)
					want = append(want, id)
					s.net.Handle("agent.example.com", nil)
					s.emit(id)
					after(time.Minute)
				}
				s.agent(mcpevents.Poll)
				s.add(mcpevents.DialectSEP)
				halt := s.run()
				after(time.Minute)
				halt()
				got := s.events()
				slices.Sort(got)
				slices.Sort(want)
				if diff := cmp.Diff(want, got); diff != "" || s.gaps != 0 {
					t.Errorf("%d gaps, events (-want +got):\n%s", s.gaps, diff)
				}
			})
		})
	}
}

func TestAServerThatIsAwayIsComeBackTo(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			play(t, mcpevents.SEP(), func(s *scene) {
				s.agent(mode)
				s.add(mcpevents.DialectSEP)
				halt := s.run()
				after(10 * time.Second)
				s.emit("e1")
				after(10 * time.Second)
				s.net.Handle("mcp.example.com", nil)
				after(10 * time.Minute)
				s.emit("e2")
				s.connect()
				after(10 * time.Minute)
				s.want("e1", "e2")
				halt()
			})
		})
	}
}

func TestALapsedWebhookGoesOnFromItsCursor(t *testing.T) {
	p := mcpevents.SEP()
	p.Lifetime.Default = time.Hour
	play(t, p, func(s *scene) {
		s.agent(mcpevents.Webhook)
		s.add(mcpevents.DialectSEP)
		halt := s.run()
		s.emit("e1")
		after(time.Minute)
		halt()
		after(3 * time.Hour)
		s.emit("e2")
		s.agent(mcpevents.Webhook)
		s.add(mcpevents.DialectSEP)
		halt = s.run()
		after(time.Minute)
		s.want("e1", "e2")
		halt()
	})
}

func TestAHandlerThatFailsGetsTheEventAgain(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			play(t, mcpevents.SEP(), func(s *scene) {
				left := 2
				s.fail = func(string) bool { left--; return left >= 0 }
				s.agent(mode)
				s.add(mcpevents.DialectSEP)
				halt := s.run()
				after(10 * time.Second)
				s.emit("e1")
				after(5 * time.Minute)
				s.want("e1")
				halt()
			})
		})
	}
}

func TestRevokedIsStopped(t *testing.T) {
	for _, mode := range []mcpevents.Mode{mcpevents.Push} {
		play(t, mcpevents.SEP(), func(s *scene) {
			s.agent(mode)
			s.add(mcpevents.DialectSEP)
			halt := s.run()
			after(time.Second)
			if err := s.srv.Revoke(t.Context(), "agent_1"); err != nil {
				t.Fatal(err)
			}
			after(time.Hour)
			if r := s.sub.Records()[0]; r.State != subscriber.Stopped || !strings.HasPrefix(r.Reason, "Forbidden") {
				t.Errorf("record %+v", r)
			}
			halt()
		})
	}
}

func TestTerminatedWebhookStopsOrBeginsAgain(t *testing.T) {
	play(t, mcpevents.SEP(), func(s *scene) {
		s.agent(mcpevents.Webhook)
		s.add(mcpevents.DialectSEP)
		halt := s.run()
		after(time.Second)
		change, err := s.catalog.Replace(mcpevents.EventType{Name: "ticket.opened", PayloadSchema: json.RawMessage(`{"type":"object","properties":{"x":{}},"maxProperties":9}`)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.srv.Announce(s.Context(), "f", "", change); err != nil {
			t.Fatal(err)
		}
		after(10 * time.Second)
		s.emit("e1")
		after(time.Second)
		s.want("e1")
		subs, err := s.srv.Subscriptions(s.Context(), mcpevents.SubscriptionFilter{Live: true})
		if err != nil || len(subs) != 1 {
			t.Fatalf("%v, %v", subs, err)
		}
		if err := s.srv.End(s.Context(), subs[0].ID, "withdrawn"); err != nil {
			t.Fatal(err)
		}
		after(time.Hour)
		if r := s.sub.Records()[0]; r.State != subscriber.Stopped {
			t.Errorf("record %+v", r)
		}
		halt()
	})
}

func TestRotation(t *testing.T) {
	play(t, mcpevents.SEP(), func(s *scene) {
		s.agent(mcpevents.Webhook)
		s.add(mcpevents.DialectSEP)
		halt := s.run()
		after(time.Second)
		before := s.sub.Records()[0].Secrets[0].Text
		if err := s.sub.Rotate(s.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		s.emit("e1")
		after(time.Second)
		s.emit("e2")
		after(time.Second)
		s.want("e1", "e2")
		if r := s.sub.Records()[0]; r.Secrets[0].Text == before || r.Secrets[1].Text != before || r.Secrets[1].Until.IsZero() {
			t.Errorf("secrets %v", r.Secrets)
		}
		after(30 * time.Hour)
		s.emit("e3")
		after(time.Second)
		s.want("e1", "e2", "e3")
		halt()
	})
}

func TestRemoveUnsubscribes(t *testing.T) {
	play(t, mcpevents.SEP(), func(s *scene) {
		s.agent(mcpevents.Webhook)
		s.add(mcpevents.DialectSEP)
		halt := s.run()
		after(time.Second)
		if err := s.sub.Remove(s.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		subs, err := s.srv.Subscriptions(s.Context(), mcpevents.SubscriptionFilter{Live: true})
		if err != nil || len(subs) != 0 || len(s.sub.Records()) != 0 {
			t.Errorf("left: %v, %v, %v", subs, err, s.sub.Records())
		}
		halt()
	})
}

func TestAServerWithoutEventsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := eventstest.NewNet()
		net.Handle("mcp.example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":{}}}}`)
		}))
		c := subscriber.Dial("https://mcp.example.com/mcp", &subscriber.ClientOptions{HTTP: &http.Client{Transport: net}})
		if _, err := c.Call(t.Context(), "events/list", nil); !errors.Is(err, subscriber.ErrNoEvents) {
			t.Errorf("error %v, want ErrNoEvents", err)
		}
	})
}

// TestAnOlderServer answers plain text to what it does not know and begins with initialize.
func TestAnOlderServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := eventstest.NewNet()
		net.Handle("mcp.example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var q struct {
				ID     json.RawMessage
				Method string
				Params map[string]any
			}
			_ = json.NewDecoder(r.Body).Decode(&q)
			if q.Params["_meta"] != nil {
				http.Error(w, "unsupported protocol version", http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"capabilities":{"events":{}},"method":%q}}`, q.ID, q.Method)
		}))
		c := subscriber.Dial("https://mcp.example.com/mcp", &subscriber.ClientOptions{HTTP: &http.Client{Transport: net}})
		if raw, err := c.Call(t.Context(), "events/list", nil); err != nil || !strings.Contains(string(raw), "events/list") {
			t.Errorf("%s, %v", raw, err)
		}
	})
}
