package doctor

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
	"github.com/herald-relay/herald/mcpevents"
)

const hook = "https://agent.example.com/hook"

// leadsTo is a proxy to an address of this machine.
func leadsTo(address string) http.Handler {
	return httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
}

func TestTheRelayIsAskedToCallBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		way   func(address string) http.Handler // nil when nothing leads here
		state State
		seen  string
	}{
		{"it leads here", leadsTo, Pass, "the relay called back"},
		{"nothing leads here", nil, Fail, "no call came"},
		{"it leads elsewhere", func(string) http.Handler { return http.NotFoundHandler() }, Fail, "no call came"},
		{"the body is changed on the way", func(address string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(body)+" ")), int64(len(body)+1)
				leadsTo(address).ServeHTTP(w, r)
			})
		}, Fail, "does not verify"},
		{"the answer is replaced", func(address string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				leadsTo(address).ServeHTTP(httptest.NewRecorder(), r)
				brokenPage(w, http.StatusBadGateway)
			})
		}, Fail, "came and was answered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.standIn(t)
			front := httptest.NewServer(h.proxy)
			defer front.Close()
			r := h.examine(t, front, func(target *Target) {
				target.Callback, target.CallbackListen = hook, "127.0.0.1:0"
				target.opened = func(address string) {
					if c.way != nil {
						h.net.Handle("agent.example.com", c.way(address))
					}
				}
			})
			f := r.Findings[len(r.Findings)-3] // before the device's
			if f.Check != "webhooks" || f.State != c.state || !strings.Contains(f.Seen, c.seen) {
				t.Errorf("got %+v\n%s", f, show(r))
			}
			if subs, err := h.events.Subscriptions(t.Context(), mcpevents.SubscriptionFilter{Live: true}); err != nil || len(subs) != 0 {
				t.Errorf("subscriptions after the check: %v, %v", subs, err)
			}
		})
	}
}

func TestACallbackNeedsItsPort(t *testing.T) {
	h := newHouse(t)
	front := httptest.NewServer(h.proxy)
	defer front.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := h.examine(t, front, func(target *Target) { target.Callback = "http://" + taken.Addr().String() + "/hook" })
	if !r.failed("webhooks") {
		t.Errorf("a port that is taken:\n%s", show(r))
	}
}

// TestARelayForDevelopmentCallsBack has the relay's own endpoint do it.
func TestARelayForDevelopmentCallsBack(t *testing.T) {
	testkit.OnSQLite(t)
	dev := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.Dev = true }})
	d := dev.Pair("desk")
	r := &Report{}
	Outside(t.Context(), r, Target{Address: dev.URL, AgentToken: d.Agent("bot").Token, Callback: "http://127.0.0.1:0/hook", Transport: &http.Transport{}})
	if got := failures(t, r); len(got) > 0 || !strings.Contains(show(r), "pass webhooks: the relay called back") {
		t.Errorf("failed: %v\n%s", got, show(r))
	}
	if list := d.Call("GET", "/v1/device/events", nil); string(list.Raw) != `{"restrictedTo":[],"subscriptions":[]}` {
		t.Errorf("after the check: %s", list.Raw)
	}
}
