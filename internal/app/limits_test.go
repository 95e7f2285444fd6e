package app_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/testkit"
)

// untilMidnight is what a refusal says that ends with the UTC day.
func untilMidnight() int {
	return int(relay.CeilSeconds(relay.UntilNextDay(time.Now())).Seconds())
}

// hidden hides how long a body is, so that it is sent in chunks.
func hidden(body string) io.Reader { return io.MultiReader(strings.NewReader(body)) }

// TestANotificationIsJudgedInOrder holds the order of the contract's section 2.2: each row fails one check and every
// later one that a single body can fail.
func TestANotificationIsJudgedInOrder(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.RateLimitPerKey, c.NotificationsPerDay, c.QueueMax = 2, 3, 3 }})
	d := r.Pair("laptop")
	a, b := d.Agent("a"), d.Agent("b")
	for _, id := range []string{"1", "2"} {
		a.Send(map[string]any{"title": "x", "notificationId": id})
	}
	b.Send(map[string]any{"title": "x", "notificationId": "3"})
	// Now a's rate, the day and the queue are used up; of b's rate one is left.

	junk := func(size int) string { return "{" + strings.Repeat("x", size-1) }
	long := padded(t, map[string]any{"exec": "x"}, 40_000) // longer than a body may be, shorter than one with an icon
	tests := []struct {
		name   string
		token  string
		body   any
		status int
		code   string
		fields []string
	}{
		{"the credential", "hrk_x", junk(1 << 20), 401, "unauthorized", nil},
		{"the declared length", a.Token, junk(1 << 20), 413, "too_large", nil},
		{"the real length", a.Token, hidden(junk(1 << 20)), 413, "too_large", nil},
		{"JSON", a.Token, junk(40_000), 400, "invalid_request", nil},
		{"the length without the icon", a.Token, long, 413, "too_large", nil},
		{"the length without the icon, in chunks", a.Token, hidden(long), 413, "too_large", nil},
		{"names of fields", a.Token, `{"title":7,"notificationId":"1","exec":1}`, 400, "forbidden_fields", []string{"exec"}},
		{"values of fields", a.Token, `{"title":7,"notificationId":"1"}`, 400, "invalid_request", []string{"title"}},
		{"the rate of the key", a.Token, `{"title":"x"}`, 429, "rate_limited", nil},
		{"the day", b.Token, `{"title":"x"}`, 429, "daily_cap", nil},
	}
	for _, test := range tests {
		header := []string{"Content-Type", "application/json"}
		wantRefusal(t, r.Do("POST", "/v1/notify", test.token, test.body, header...), test.status, test.code, test.fields...)
		if t.Failed() {
			t.Fatalf("above: %s", test.name)
		}
	}
	for _, token := range []string{a.Token, a.Token} { // a duplicate is judged before the rate, the day and the queue
		if got := r.Do("POST", "/v1/notify", token, `{"title":"x","notificationId":"1"}`); got.Status != 200 || got.Body["duplicate"] != true {
			t.Errorf("a duplicate when everything is used up: %d %s", got.Status, got.Raw)
		}
	}
	if n := pending(d); n != 3 {
		t.Errorf("%v notifications wait, want 3", n)
	}
}

// TestASpentBudgetIsToldBeforeAnythingOfTheBody: only the credential is judged before it.
func TestASpentBudgetIsToldBeforeAnythingOfTheBody(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.RequestsPerDay = 3 }})
	d := r.Pair("laptop")
	agent, gone := d.Agent("a"), d.Agent("b")
	d.Call("DELETE", "/v1/device/keys/"+gone.ID, nil) // the third request of the day
	whole := func(body string) func() any { return func() any { return body } }
	for name, body := range map[string]func() any{
		"a good one": whole(`{"title":"x"}`), "a long one": whole(strings.Repeat("x", 1<<20)),
		"a long one in chunks": func() any { return hidden(strings.Repeat("x", 1<<20)) }, // a reader serves one request
		"no JSON":              whole("x"), "nothing": whole(""), "a forbidden field": whole(`{"exec":1}`),
	} {
		for _, kind := range []string{"application/json", "text/html"} {
			a := agent.Call("POST", "/v1/notify", body(), "Content-Type", kind)
			if a.Code() != "budget_exhausted" {
				t.Errorf("%s as %s:", name, kind)
			}
			wantRefusal(t, a, 503, "budget_exhausted")
		}
	}
	for _, path := range []string{"/v1/receipts/n_1", "/v1/replies/n_1?wait=60", "/v1/status"} {
		wantRefusal(t, agent.Call("GET", path, nil), 503, "budget_exhausted")
	}
	wantRefusal(t, gone.Call("POST", "/v1/notify", `{"title":"x"}`), 401, "unauthorized")
	wantRefusal(t, r.Do("POST", "/v1/notify", d.Token, `{"title":"x"}`), 403, "wrong_credential")
}

func TestTheRequestBudgetOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.RequestsPerDay = 100 }})
		d, other := r.Pair("laptop"), r.Pair("phone")
		agent, second := d.Agent("a"), d.Agent("b") // 2 requests
		for range 3 {
			d.Call("GET", "/v1/device/info", nil) // 5: devices' requests count
		}
		for range 10 {
			d.Call("GET", "/v1/device/usage", nil) // looking at the usage is free
			r.Do("GET", "/health", "", nil)
			r.Do("GET", "/v1/status", "hrk_nobody", nil)
		}
		d.Stream() // free too
		agent.Send(map[string]any{"title": "x", "notificationId": "a"})
		for i := range 93 { // the 99th is the last
			reader := agent
			if i%2 == 0 {
				reader = second
			}
			if a := reader.Call("GET", "/v1/status", nil); a.Status != 200 {
				t.Fatalf("request %d of the day: %d %s", i+7, a.Status, a.Raw)
			}
		}
		if n := used(d, "requests"); n != 99 {
			t.Fatalf("%v requests are counted, want 99", n)
		}
		// Counted before it is tested: the 100th is refused already.
		for _, a := range []testkit.Answer{agent.Call("GET", "/v1/status", nil), second.Call("POST", "/v1/notify", "junk"), agent.Call("GET", "/v1/receipts/a", nil)} {
			wantRefusal(t, a, 503, "budget_exhausted")
			wantRetry(t, a, untilMidnight(), true)
		}
		// Devices never are, and other mailboxes have their own.
		if a := d.Call("GET", "/v1/device/info", nil); a.Status != 200 {
			t.Errorf("a device is refused: %d %s", a.Status, a.Raw)
		}
		other.Agent("c").Send(map[string]any{"title": "x"})

		time.Sleep(relay.UntilNextDay(time.Now()) - time.Millisecond)
		a := agent.Call("GET", "/v1/status", nil)
		wantRefusal(t, a, 503, "budget_exhausted")
		wantRetry(t, a, 1, true)
		time.Sleep(time.Millisecond)
		if a := agent.Call("GET", "/v1/status", nil); a.Status != 200 {
			t.Errorf("the day after: %d %s", a.Status, a.Raw)
		}
	})
}

func TestTheRateOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent, other, stream := d.Agent("a"), d.Agent("b"), d.Stream()
		send := func() testkit.Answer { return agent.Call("POST", "/v1/notify", map[string]any{"title": "x"}) }
		for i := range 60 { // one a second
			if a := send(); a.Status != 202 {
				t.Fatalf("send %d: %d %s", i+1, a.Status, a.Raw)
			}
			stream.Send(testkit.Frame{"type": "ack", "id": stream.Next()["id"]})
			time.Sleep(time.Second)
		}
		refused := func(seconds int) {
			t.Helper()
			a := send()
			wantRefusal(t, a, 429, "rate_limited")
			wantRetry(t, a, seconds, true)
		}
		refused(540) // the first leaves the window ten minutes after it was sent
		time.Sleep(500 * time.Millisecond)
		refused(540) // rounded up
		other.Send(map[string]any{"title": "x"})
		if a := agent.Call("POST", "/v1/notify", "junk"); a.Status != 400 {
			t.Errorf("values are judged after the rate: %d %s", a.Status, a.Raw)
		}

		time.Sleep(539500*time.Millisecond - time.Millisecond)
		refused(1)
		time.Sleep(time.Millisecond)
		if a := send(); a.Status != 202 {
			t.Errorf("when the oldest has left: %d %s", a.Status, a.Raw)
		}
		refused(1) // the second leaves a second later; refused sends never counted
		time.Sleep(time.Second)
		if a := send(); a.Status != 202 {
			t.Errorf("a second later: %d %s", a.Status, a.Raw)
		}
		refused(1)
	})
}

func TestDuplicatesCountTowardNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.RateLimitPerKey, c.NotificationsPerDay, c.QueueMax = 3, 3, 3 }})
		d := r.Pair("laptop")
		agent := d.Agent("a")
		for range 5 {
			agent.Call("POST", "/v1/notify", map[string]any{"title": "x", "notificationId": "same"})
		}
		agent.Send(map[string]any{"title": "x"})
		agent.Send(map[string]any{"title": "x"})
		if n := used(d, "notifications"); n != 3 {
			t.Errorf("%v notifications are counted, want 3", n)
		}
	})
}

func TestTheNotificationsOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.RateLimitPerKey = 1000 }})
		d, other := r.Pair("laptop"), r.Pair("phone")
		agents := []*testkit.Agent{d.Agent("a"), d.Agent("b")}
		time.Sleep(10 * time.Hour)
		stream := d.Stream()
		for i := range 500 { // all keys of the mailbox together
			if a := agents[i%2].Call("POST", "/v1/notify", map[string]any{"title": "x"}); a.Status != 202 {
				t.Fatalf("notification %d: %d %s", i+1, a.Status, a.Raw)
			}
			stream.Send(testkit.Frame{"type": "ack", "id": stream.Next()["id"]})
		}
		for _, agent := range agents {
			a := agent.Call("POST", "/v1/notify", map[string]any{"title": "x"})
			wantRefusal(t, a, 429, "daily_cap")
			wantRetry(t, a, 14*3600, true)
		}
		other.Agent("c").Send(map[string]any{"title": "x"})
		time.Sleep(14*time.Hour - time.Second)
		a := agents[0].Call("POST", "/v1/notify", map[string]any{"title": "x"})
		wantRefusal(t, a, 429, "daily_cap")
		wantRetry(t, a, 1, true)
		time.Sleep(time.Second)
		agents[0].Send(map[string]any{"title": "x"})
		if n := used(d, "notifications"); n != 1 {
			t.Errorf("%v notifications are counted on the new day, want 1", n)
		}
	})
}

func TestTheQueueOfAMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d, other := r.Pair("laptop"), r.Pair("phone")
		agents := []*testkit.Agent{d.Agent("a"), d.Agent("b")}
		send := func(i int) testkit.Answer {
			return agents[i%2].Call("POST", "/v1/notify", map[string]any{"title": "x", "notificationId": fmt.Sprint(i)})
		}
		start := time.Now()
		for i := range 100 {
			if a := send(i); a.Status != 202 {
				t.Fatalf("notification %d: %d %s", i+1, a.Status, a.Raw)
			}
		}
		a := send(100)
		wantRefusal(t, a, 429, "queue_full")
		wantRetry(t, a, 0, false)
		other.Agent("c").Send(map[string]any{"title": "x"})

		// What a device holds waits no longer.
		stream := d.Stream()
		stream.Send(testkit.Frame{"type": "ack", "id": stream.Next()["id"]})
		synctest.Wait()
		if a := send(100); a.Status != 202 {
			t.Errorf("after one was acknowledged: %d %s", a.Status, a.Raw)
		}
		wantRefusal(t, send(101), 429, "queue_full")
		_ = stream.Conn.CloseNow()

		// Nor does what waited for a day. The send itself sweeps: the sweeper comes by every 15 seconds, not at once.
		time.Sleep(24*time.Hour - time.Since(start))
		wantRefusal(t, send(101), 429, "queue_full")
		time.Sleep(time.Millisecond)
		if a := send(101); a.Status != 202 {
			t.Errorf("after the day was over: %d %s", a.Status, a.Raw)
		}
		if a := agents[1].Call("GET", "/v1/receipts/99", nil); a.Status != 404 {
			t.Errorf("a notification of more than a day ago: %d %s", a.Status, a.Raw)
		}
	})
}

// TestSendingMakesRoomInAFullQueue: what waited too long is swept before a full queue is refused.
func TestSendingMakesRoomInAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.QueueMax, c.QueueTTL = 1, time.Hour }})
		agent := r.Pair("laptop").Agent("a")
		time.Sleep(time.Second) // the sweeper comes by every 15 seconds, counted from the start
		old := agent.Send(map[string]any{"title": "old"})
		time.Sleep(time.Hour)
		wantRefusal(t, agent.Call("POST", "/v1/notify", map[string]any{"title": "new"}), 429, "queue_full")
		time.Sleep(time.Millisecond)
		agent.Send(map[string]any{"title": "new"})
		if a := agent.Call("GET", "/v1/receipts/"+old, nil); a.Text("reason") != "expired" || a.Text("suppressedScope") != "all" || a.Body["queued"] != false {
			t.Errorf("the old one: %s, want expired", a.Raw)
		}
	})
}

func TestTheReadsOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent, other := d.Agent("a"), d.Agent("b")
		id := agent.Send(map[string]any{"title": "x"})
		paths := []string{"/v1/receipts/" + id, "/v1/replies/" + id, "/v1/receipts/nothing"}
		for i := range 600 {
			if a := agent.Call("GET", paths[i%3], nil); a.Status == 429 {
				t.Fatalf("read %d: %d %s", i+1, a.Status, a.Raw)
			}
			if i < 10 {
				agent.Call("GET", "/v1/status", nil) // does not count as one
			}
		}
		for _, path := range paths {
			a := agent.Call("GET", path, nil)
			wantRefusal(t, a, 429, "rate_limited")
			wantRetry(t, a, 60, true)
		}
		if a := agent.Call("GET", "/v1/status", nil); a.Status != 200 { // no read of this sort
			t.Errorf("status: %d %s", a.Status, a.Raw)
		}
		agent.Send(map[string]any{"title": "x"})
		wantRefusal(t, other.Call("GET", paths[0], nil), 404, "not_found") // its own allowance
		time.Sleep(10*time.Minute - time.Millisecond)
		wantRefusal(t, agent.Call("GET", paths[0], nil), 429, "rate_limited")
		time.Sleep(time.Millisecond)
		if a := agent.Call("GET", paths[0], nil); a.Status != 200 {
			t.Errorf("after ten minutes: %d %s", a.Status, a.Raw)
		}
	})
}
