package app_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

func TestTheWholeLoopWorksOnBothStores(t *testing.T) {
	t.Parallel()
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("laptop")
		agent := d.Agent("build-bot")
		id := agent.Send(map[string]any{"title": "Ship it?", "expectReply": true, "notificationId": "deploy-7"})
		waiting := agent.Call("GET", "/v1/receipts/"+id, nil)
		if waiting.Body["queued"] != true || waiting.Body["displayed"] != false {
			t.Errorf("before any device came: %s", waiting.Raw)
		}
		stream := d.Stream()
		frame := stream.Next()
		answered := make(chan testkit.Answer, 1)
		go func() {
			a, err := r.Try(t.Context(), "GET", "/v1/replies/"+id+"?wait=30", agent.Token, nil)
			if err != nil {
				t.Error(err)
			}
			answered <- a
		}()
		for _, report := range []testkit.Frame{
			{"type": "ack"}, {"type": "receipt", "kind": "displayed"}, {"type": "receipt", "kind": "spoken"},
			{"type": "receipt", "kind": "suppressed", "reason": "quiet-hours", "scope": "speech"},
			{"type": "receipt", "kind": "replied", "text": "Ship it.", "transcript": "ship it", "durationSeconds": 1.5},
			{"type": "receipt", "kind": "replied", "text": "Too late."},
		} {
			report["id"] = frame["id"]
			stream.Send(report)
		}
		if reply := <-answered; reply.Body["replied"] != true || reply.Text("reply") != "Ship it." {
			t.Errorf("reply = %d %s", reply.Status, reply.Raw)
		}
		got := agent.Call("GET", "/v1/receipts/"+id, nil).Body
		for name := range got {
			if name == "receivedAt" || name == "displayedAt" || name == "spokenAt" || name == "repliedAt" || name == "transcriptNote" {
				delete(got, name)
			}
		}
		want := map[string]any{
			"notificationId": id, "received": true, "queued": false, "displayed": true, "spoken": true, "replied": true,
			"reply": "Ship it.", "text": "Ship it.", "transcript": "ship it", "durationSeconds": 1.5, "expectReply": true,
			"suppressed": true, "suppressedScope": "speech", "reason": "quiet-hours",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("receipt (-want +got):\n%s", diff)
		}
	})
}

// TestARestartForgetsNothing stops a relay with work under way and starts another on the same data.
func TestARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		o.Dir = t.TempDir()
		r := testkit.New(t, o)
		d := r.Pair("laptop")
		phone := d.Link("phone")
		agent, revoked := d.Agent("bot"), d.Agent("old")
		var sent []string
		for i := range 9 {
			sent = append(sent, agent.Send(map[string]any{"title": "t", "notificationId": fmt.Sprint("n-", i), "expectReply": true}))
		}
		first := d.Stream()
		d.Call("POST", "/v1/device/reply", map[string]any{"id": first.Next()["id"], "text": "yes"})
		d.Call("DELETE", "/v1/device/keys/"+revoked.ID, nil)
		usage := d.Call("GET", "/v1/device/usage", nil).Body
		r.Stop()

		again := testkit.New(t, o)
		d.Relay, phone.Relay, agent.Relay, revoked.Relay = again, again, again, again
		for _, device := range []*testkit.Device{d, phone} {
			stream := device.Stream()
			for _, id := range sent[1:] {
				if f := stream.Next(); f.Text("notificationId") != id {
					t.Fatalf("frame = %v, want the waiting %s", f, id)
				}
			}
		}
		if a := agent.Call("GET", "/v1/receipts/n-0", nil); a.Text("reply") != "yes" {
			t.Errorf("the reply is gone: %d %s", a.Status, a.Raw)
		}
		if a := agent.Call("POST", "/v1/notify", map[string]any{"title": "t", "notificationId": "n-3"}); a.Status != http.StatusOK || a.Body["duplicate"] != true {
			t.Errorf("an id from before the restart was taken again: %d %s", a.Status, a.Raw)
		}
		if a := revoked.Call("GET", "/v1/status", nil); a.Status != http.StatusUnauthorized {
			t.Errorf("a revoked key works again: %d", a.Status)
		}
		after := d.Call("GET", "/v1/device/usage", nil).Body
		for _, name := range []string{"notifications", "queued", "storageBytes", "requests"} {
			if before, now := usage[name].(float64), after[name].(float64); now < before || now > before+10 {
				t.Errorf("%s = %v after the restart, %v before", name, now, before)
			}
		}
	})
}

// TestFiftyParallelSends holds decision 38.
func TestFiftyParallelSends(t *testing.T) {
	t.Parallel()
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		o.Config = func(c *config.Config) { c.RateLimitPerKey = 1000 }
		r := testkit.New(t, o)
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		var fresh, repeated atomic.Int32
		var sends sync.WaitGroup
		for i := range 50 {
			send := func(id string, count func(a testkit.Answer)) {
				a, err := r.Try(t.Context(), "POST", "/v1/notify", agent.Token, map[string]any{"title": "t", "notificationId": id})
				if err != nil {
					t.Error(err)
				}
				count(a)
			}
			sends.Go(func() {
				send("the-same", func(a testkit.Answer) {
					switch {
					case a.Status == http.StatusAccepted && a.Body["duplicate"] == false:
						fresh.Add(1)
					case a.Status == http.StatusOK && a.Body["duplicate"] == true:
						repeated.Add(1)
					default:
						t.Errorf("the same id: %d %s", a.Status, a.Raw)
					}
				})
			})
			sends.Go(func() {
				send(fmt.Sprint("other-", i), func(a testkit.Answer) {
					if a.Status != http.StatusAccepted {
						t.Errorf("another id: %d %s", a.Status, a.Raw)
					}
				})
			})
		}
		sends.Wait()
		if fresh.Load() != 1 || repeated.Load() != 49 {
			t.Errorf("%d of the same id were accepted and %d repeated, want 1 and 49", fresh.Load(), repeated.Load())
		}
		if n := devUsage(d, "queued"); n != 51 {
			t.Errorf("%d notifications wait, want 51", n)
		}
	})
}

func TestTheStoresOwnLimitsHold(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limit func(*config.Config)
		code  string
	}{
		"per key and ten minutes": {func(c *config.Config) { c.RateLimitPerKey = 7 }, "rate_limited"},
		"per day":                 {func(c *config.Config) { c.NotificationsPerDay = 7 }, "daily_cap"},
		"waiting":                 {func(c *config.Config) { c.QueueMax = 7 }, "queue_full"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Stores(t, func(t *testing.T, o testkit.Options) {
				o.Config = test.limit
				r := testkit.New(t, o)
				agent := r.Pair("laptop").Agent("bot")
				var accepted atomic.Int32
				var sends sync.WaitGroup
				for range 30 {
					sends.Go(func() {
						a, err := r.Try(t.Context(), "POST", "/v1/notify", agent.Token, map[string]any{"title": "t"})
						switch {
						case err != nil:
							t.Error(err)
						case a.Status == http.StatusAccepted:
							accepted.Add(1)
						case a.Status != http.StatusTooManyRequests || a.Code() != test.code:
							t.Errorf("refused with %d %s, want %s", a.Status, a.Raw, test.code)
						}
					})
				}
				sends.Wait()
				if accepted.Load() != 7 {
					t.Errorf("%d of 30 parallel sends were accepted, want 7", accepted.Load())
				}
			})
		})
	}
}

func TestWhatIsRemovedIsGoneOnBothStores(t *testing.T) {
	t.Parallel()
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("laptop")
		phone := d.Link("phone")
		agent, purged := d.Agent("bot"), d.Agent("purged")
		kept := agent.Send(map[string]any{"title": "kept"})
		gone := purged.Send(map[string]any{"title": "gone"})
		if a := d.Call("DELETE", "/v1/device/keys/"+purged.ID+"?purge=1", nil); a.Body["purged"] != true {
			t.Fatalf("purge: %d %s", a.Status, a.Raw)
		}
		stream, linked := d.Stream(), phone.Stream()
		for _, s := range []*testkit.Stream{stream, linked} {
			if f := s.Next(); f.Text("notificationId") != kept {
				t.Errorf("frame = %v, want %s and nothing of %s", f, kept, gone)
			}
		}
		phone.Call("DELETE", "/v1/device", nil)
		if code := linked.Closed(); code != websocket.StatusCode(4001) {
			t.Errorf("the unlinked device's stream closed with %d, want 4001", code)
		}
		if a := phone.Call("GET", "/v1/device/info", nil); a.Status != http.StatusUnauthorized {
			t.Errorf("the unlinked device is known: %d", a.Status)
		}
		if a := agent.Call("GET", "/v1/receipts/"+kept, nil); a.Status != http.StatusOK {
			t.Errorf("unlinking one device took the mailbox along: %d", a.Status)
		}
		d.Call("DELETE", "/v1/device", nil)
		if code := stream.Closed(); code != websocket.StatusCode(4001) {
			t.Errorf("the unpaired device's stream closed with %d, want 4001", code)
		}
		for what, a := range map[string]testkit.Answer{
			"device": d.Call("GET", "/v1/device/info", nil), "key": agent.Call("GET", "/v1/receipts/"+kept, nil),
		} {
			if a.Status != http.StatusUnauthorized {
				t.Errorf("the %s of an unpaired mailbox answered %d", what, a.Status)
			}
		}
	})
}

// TestAParkedWaitIsWokenByItsCauseOnly parks waits for two notifications and answers one.
func TestAParkedWaitIsWokenByItsCauseOnly(t *testing.T) {
	t.Parallel()
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		stream := d.Stream()
		ask := func() (id string, frame testkit.Frame) {
			id = agent.Send(map[string]any{"title": "t", "expectReply": true})
			return id, stream.Next()
		}
		one, _ := ask()
		two, frame := ask()
		outcome := map[string]testkit.Answer{}
		var mu sync.Mutex // guards outcome
		var waits sync.WaitGroup
		for _, id := range []string{one, two} {
			waits.Go(func() {
				a, err := r.Try(t.Context(), "GET", "/v1/replies/"+id+"?wait=3", agent.Token, nil)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				outcome[id] = a
			})
		}
		begin := time.Now()
		stream.Send(testkit.Frame{"type": "receipt", "id": frame["id"], "kind": "replied", "text": "yes"})
		waits.Wait()
		if a := outcome[two]; a.Body["replied"] != true || a.Body["timedOut"] != nil {
			t.Errorf("the answered one: %s", a.Raw)
		}
		if a := outcome[one]; a.Body["replied"] != false || a.Body["timedOut"] != true || time.Since(begin) < 2*time.Second {
			t.Errorf("the other one ended after %s: %s", time.Since(begin), a.Raw)
		}
	})
}
