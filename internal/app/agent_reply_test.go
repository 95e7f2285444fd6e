package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

// asked is a notification that waits for its answer, with the relay's id of it.
type asked struct {
	*testkit.Agent
	device *testkit.Device
	id     string // the agent's
	relay  string // the relay's
}

// ask sends a question that a device has taken.
func ask(d *testkit.Device, agent *testkit.Agent) asked {
	d.T.Helper()
	s := d.Stream()
	defer s.Conn.CloseNow()
	id := agent.Send(map[string]any{"title": "Ship it?", "expectReply": true})
	f := s.Next()
	s.Send(testkit.Frame{"type": "ack", "id": f["id"]})
	s.Text("ping")
	if _, data, err := s.Conn.Read(d.T.Context()); err != nil || string(data) != "pong" {
		d.T.Fatalf("the stream answers %q: %v", data, err)
	}
	return asked{agent, d, id, f.Text("id")}
}

// report has the device tell something of the notification.
func (q asked) report(fields map[string]any) {
	q.T.Helper()
	fields["id"] = q.relay
	if a := q.device.Call("POST", "/v1/device/receipt", fields); a.Status != 200 {
		q.T.Errorf("report: %d %s", a.Status, a.Raw)
	}
}

// wait reads the reply and tells how long that took.
func (q asked) wait(query string) (testkit.Answer, time.Duration) {
	q.T.Helper()
	start := time.Now()
	a := q.Call("GET", "/v1/replies/"+q.id+query, nil)
	return a, time.Since(start)
}

// TestAWaitEndsWhenItShould holds the contract's section 2.5.
func TestAWaitEndsWhenItShould(t *testing.T) {
	t.Parallel()
	suppressed := func(scope string) map[string]any {
		return map[string]any{"kind": "suppressed", "reason": "quiet-hours", "scope": scope}
	}
	displayed := map[string]any{"kind": "displayed"}
	replied := map[string]any{"kind": "replied", "text": "yes"}
	tests := map[string]struct {
		before []map[string]any // reported before the wait
		during []map[string]any // one each second of it
		query  string
		took   time.Duration
		want   map[string]any // beside notificationId, replied: false and suppressed: false
	}{
		"no wait":                         {took: 0},
		"a wait of 0":                     {query: "?wait=0", took: 0},
		"a wait that is junk":             {query: "?wait=soon", took: 0},
		"a negative wait":                 {query: "?wait=-5", took: 0},
		"a wait of seconds":               {query: "?wait=30", took: 30 * time.Second, want: map[string]any{"timedOut": true}},
		"a wait of part of a second":      {query: "?wait=0.5", took: 500 * time.Millisecond, want: map[string]any{"timedOut": true}},
		"case 84: a wait past a minute":   {query: "?wait=300", took: time.Minute, want: map[string]any{"timedOut": true}},
		"a wait of a minute":              {query: "?wait=60", took: time.Minute, want: map[string]any{"timedOut": true}},
		"a reply while waiting":           {during: []map[string]any{replied}, query: "?wait=30", took: time.Second, want: map[string]any{"replied": true, "repliedAt": true, "reply": "yes", "text": "yes"}},
		"a reply after other reports":     {during: []map[string]any{displayed, {"kind": "spoken"}, displayed, replied}, query: "?wait=30", took: 4 * time.Second, want: map[string]any{"replied": true, "repliedAt": true, "reply": "yes", "text": "yes"}},
		"a reply long after the start":    {during: append(make([]map[string]any, 49), replied), query: "?wait=60", took: 50 * time.Second, want: map[string]any{"replied": true, "repliedAt": true, "reply": "yes", "text": "yes"}},
		"a reply before":                  {before: []map[string]any{replied}, query: "?wait=30", took: 0, want: map[string]any{"replied": true, "repliedAt": true, "reply": "yes", "text": "yes"}},
		"suppressed whole, while waiting": {during: []map[string]any{suppressed("all")}, query: "?wait=30", took: time.Second, want: map[string]any{"suppressed": true, "reason": "quiet-hours"}},
		"suppressed whole, before":        {before: []map[string]any{suppressed("all")}, query: "?wait=30", took: 0, want: map[string]any{"suppressed": true, "reason": "quiet-hours"}},
		"suppressed in speech, while waiting": {
			during: []map[string]any{suppressed("speech")}, query: "?wait=30", took: 30 * time.Second,
			want: map[string]any{"suppressed": true, "reason": "quiet-hours", "timedOut": true},
		},
		"suppressed in speech, before, then answered": {
			before: []map[string]any{suppressed("speech")}, during: []map[string]any{displayed, replied}, query: "?wait=30", took: 2 * time.Second,
			want: map[string]any{"suppressed": true, "reason": "quiet-hours", "replied": true, "repliedAt": true, "reply": "yes", "text": "yes"},
		},
		"suppressed in speech, then whole": {
			during: []map[string]any{suppressed("speech"), suppressed("all")}, query: "?wait=30", took: 2 * time.Second,
			want: map[string]any{"suppressed": true, "reason": "quiet-hours"},
		},
		"displayed only": {during: []map[string]any{displayed}, query: "?wait=30", took: 30 * time.Second, want: map[string]any{"timedOut": true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := testkit.New(t, testkit.Options{Pipes: true}).Pair("laptop")
				q := ask(d, d.Agent("bot"))
				for _, fields := range test.before {
					q.report(fields)
				}
				var reports sync.WaitGroup
				reports.Go(func() {
					for _, fields := range test.during {
						if time.Sleep(time.Second); fields != nil {
							q.report(fields)
						}
					}
				})
				a, took := q.wait(test.query)
				if took != test.took {
					t.Errorf("it took %s, want %s", took, test.took)
				}
				want := map[string]any{"notificationId": q.id, "replied": false, "suppressed": false}
				maps.Copy(want, test.want)
				if want["repliedAt"] == true {
					want["repliedAt"] = q.Call("GET", "/v1/receipts/"+q.id, nil).Text("repliedAt")
				}
				wantBody(t, a, 200, want)
				reports.Wait()
				seconds := float64((took + time.Second - 1) / time.Second)
				if got := used(d, "pollSeconds"); got != seconds {
					t.Errorf("%v seconds were charged for %s", got, took)
				}
			})
		})
	}
}

func TestTheSecondsOfWaitingADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.PollSecondsPerDay = 10 }})
		d, other := r.Pair("laptop"), r.Pair("phone")
		q, second, stranger := ask(d, d.Agent("a")), ask(d, d.Agent("b")), ask(other, other.Agent("c"))
		for _, step := range []struct {
			q        asked
			query    string
			took     time.Duration
			timedOut bool
			charged  float64
		}{
			{q, "?wait=4", 4 * time.Second, true, 4},
			{second, "?wait=0.1", 100 * time.Millisecond, true, 5}, // rounded up, and shared by all keys
			{q, "", 0, false, 5},
			{q, "?wait=30", 30 * time.Second, true, 35}, // begun while some was left
			{q, "?wait=30", 0, false, 35},               // spent: acts as 0, and no time ran out
			{second, "?wait=1", 0, false, 35},
		} {
			a, took := step.q.wait(step.query)
			want := map[string]any{"notificationId": step.q.id, "replied": false, "suppressed": false}
			if step.timedOut {
				want["timedOut"] = true
			}
			wantBody(t, a, 200, want)
			if charged := used(d, "pollSeconds"); took != step.took || charged != step.charged {
				t.Errorf("%s took %s and brought the day to %v, want %s and %v", step.query, took, charged, step.took, step.charged)
			}
		}
		if _, took := stranger.wait("?wait=1"); took != time.Second {
			t.Errorf("another mailbox waited %s, want its own second", took)
		}
		time.Sleep(23 * time.Hour)
		q = ask(d, q.Agent)
		time.Sleep(time.Hour) // past midnight
		if a, took := q.wait("?wait=2"); took != 2*time.Second || a.Body["timedOut"] != true {
			t.Errorf("on the next day it took %s: %s", took, a.Raw)
		}
	})
}

// TestAnAgentThatLeavesFreesItsWait: what was waited is charged, the rest is not, and nothing stays behind. In a bubble
// anything that stayed would fail the test.
func TestAnAgentThatLeavesFreesItsWait(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, 20 * time.Second} { // on the server's connection, and off it
		synctest.Test(t, func(t *testing.T) {
			r := testkit.New(t, testkit.Options{Pipes: true})
			d := r.Pair("laptop")
			q := ask(d, d.Agent("bot"))
			ctx, leave := context.WithTimeout(t.Context(), after)
			defer leave()
			if a, err := r.Try(ctx, "GET", "/v1/replies/"+q.id+"?wait=60", q.Token, nil); err == nil {
				t.Errorf("answered %s", a.Raw)
			}
			synctest.Wait()
			if seconds := used(d, "pollSeconds"); seconds != after.Seconds() {
				t.Errorf("%v seconds were charged to an agent that left after %s", seconds, after)
			}
		})
	}
}

func TestAWaitIsAnsweredWhenTheRelayStops(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := testkit.New(t, testkit.Options{Pipes: true})
			d := r.Pair("laptop")
			q := ask(d, d.Agent("bot"))
			var stop sync.WaitGroup
			stop.Go(func() {
				time.Sleep(after)
				r.Stop()
			})
			start := time.Now()
			a, err := r.Try(t.Context(), "GET", "/v1/replies/"+q.id+"?wait=60", q.Token, nil)
			if err != nil || a.Status != 200 || a.Body["timedOut"] != true {
				t.Errorf("%d %s, %v; want an answer as if the time were up", a.Status, a.Raw, err)
			}
			if took := time.Since(start); took != after {
				t.Errorf("answered after %s, want when the relay stopped", took)
			}
			stop.Wait()
		})
	}
}

// TestWhoeverWaitsForOneReplyGetsIt: any number of waits, of which some are on and some off the server's connections.
func TestWhoeverWaitsForOneReplyGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		q := ask(d, d.Agent("bot"))
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				a, err := r.Try(t.Context(), "GET", "/v1/replies/"+q.id+"?wait=60", q.Token, nil)
				if err != nil || a.Text("reply") != "yes" {
					t.Errorf("wait %d: %s, %v", i, a.Raw, err)
				}
			})
		}
		time.Sleep(12 * time.Second)
		start := time.Now()
		q.report(map[string]any{"kind": "replied", "text": "yes"})
		all.Wait()
		if late := time.Since(start); late > 0 {
			t.Errorf("the last one heard of the reply %s late", late)
		}
	})
}

// TestHEADIsAnsweredWithoutABody also when it waits.
func TestHEADIsAnsweredWithoutABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		q := ask(d, d.Agent("bot"))
		conn, err := r.HTTP.Transport.(*http.Transport).DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HEAD /v1/replies/%s?wait=10 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", q.id, q.Token)
		raw, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		if head, body, _ := strings.Cut(string(raw), "\r\n\r\n"); !strings.HasPrefix(head, "HTTP/1.1 200") || body != "" {
			t.Errorf("the answer to HEAD is %q", raw)
		}
	})
}

// TestAbortedWaitsLeaveNothingBehind is the same over real sockets, where goroutines and connections can be counted. It
// runs alone.
func TestAbortedWaitsLeaveNothingBehind(t *testing.T) {
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	q := ask(d, d.Agent("bot"))
	r.HTTP.CloseIdleConnections()
	before := runtime.NumGoroutine()
	var conns []net.Conn
	for range 200 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /v1/replies/%s?wait=60 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n", q.id, q.Token)
		conns = append(conns, conn)
	}
	until(t, "200 waits are parked", func() bool { return runtime.NumGoroutine() >= before+200 })
	for i, conn := range conns[:199] {
		if i%2 == 0 { // without a word, as when a laptop is closed and its network says so
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
		_ = conn.Close()
	}
	q.report(map[string]any{"kind": "displayed"})
	until(t, "all but one are gone", func() bool { return runtime.NumGoroutine() <= before+10 })
	q.report(map[string]any{"kind": "replied", "text": "yes"})
	res, err := http.ReadResponse(bufio.NewReader(conns[199]), nil)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("the wait that stayed: %v, %v", res, err)
	}
}

// until looks every few milliseconds whether something has become true, for five seconds at most.
func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Second); !true(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within five seconds: %s", what)
		}
	}
}
