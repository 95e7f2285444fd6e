package app_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

// TestIDsLiveForADayHoweverShortTheQueueIs: QUEUE_TTL_HOURS decides when an undelivered notification expires, not how long
// its sender may read what became of it.
func TestIDsLiveForADayHoweverShortTheQueueIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.QueueTTL = time.Hour }})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		q := ask(d, agent) // this one a device holds
		agent.Send(map[string]any{"title": "x", "notificationId": "a"})
		time.Sleep(time.Hour + time.Minute)
		if a := agent.Call("GET", "/v1/receipts/a", nil); a.Text("reason") != "expired" || a.Body["queued"] != false {
			t.Errorf("after an hour: %s, want expired", a.Raw)
		}
		if a := agent.Call("GET", "/v1/receipts/"+q.id, nil); a.Body["suppressed"] != false {
			t.Errorf("a notification that a device holds: %s", a.Raw)
		}
		time.Sleep(23*time.Hour - time.Minute)
		q.report(map[string]any{"kind": "replied", "text": "late"})
		if a := agent.Call("GET", "/v1/replies/"+q.id, nil); a.Text("reply") != "late" {
			t.Errorf("after a day: %d %s", a.Status, a.Raw)
		}
		if a := agent.Call("POST", "/v1/notify", map[string]any{"title": "x", "notificationId": "a"}); a.Status != 200 {
			t.Errorf("a repeat after a day: %d %s", a.Status, a.Raw)
		}
		time.Sleep(time.Millisecond)
		wantRefusal(t, agent.Call("GET", "/v1/receipts/a", nil), 404, "not_found")
	})
}

// TestALongQueueOutlivesIDs: with a queue of two days, an id is free again after one, and both notifications arrive.
func TestALongQueueOutlivesIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.QueueTTL = 48 * time.Hour }})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		send := func(title string) testkit.Answer {
			return agent.Call("POST", "/v1/notify", map[string]any{"title": title, "notificationId": "a"})
		}
		send("one")
		time.Sleep(24*time.Hour + time.Millisecond)
		if a := send("two"); a.Status != 202 {
			t.Fatalf("the id after a day: %d %s", a.Status, a.Raw)
		}
		time.Sleep(23 * time.Hour)
		s := d.Stream()
		for _, want := range []string{"one", "two"} {
			f := s.Next()
			if f["payload"].(map[string]any)["title"] != want {
				t.Errorf("frame = %v, want %s", f, want)
			}
			s.Send(testkit.Frame{"type": "receipt", "id": f["id"], "kind": "replied", "text": want})
		}
		synctest.Wait()
		if a := agent.Call("GET", "/v1/replies/a", nil); a.Text("reply") != "two" {
			t.Errorf("the id names %s, want the younger one", a.Raw)
		}
	})
}

// TestCase139UnpairingWhileAgentsAreBusy: whatever an agent was doing, it is told that its credential is worth nothing any
// more, and never that something broke.
func TestCase139UnpairingWhileAgentsAreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) { c.RateLimitPerKey, c.QueueMax = 1e6, 1e5 }})
		d := r.Pair("laptop")
		q, busy := ask(d, d.Agent("patient")), d.Agent("busy")
		start := time.Now()
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { // begun before, ended by the unpairing
				time.Sleep(time.Duration(i) * time.Second)
				a, err := r.Try(t.Context(), "GET", "/v1/replies/"+q.id+"?wait=60", q.Token, nil)
				if took := time.Since(start); err != nil || a.Status != 401 || took != 12*time.Second {
					t.Errorf("a wait: %d %s, %v, after %s; want 401 as soon as the mailbox is gone", a.Status, a.Raw, err, took)
				}
			})
			all.Go(func() {
				for last := 0; last != http.StatusUnauthorized; time.Sleep(time.Duration(i+1) * 200 * time.Millisecond) {
					for _, call := range []struct{ method, path string }{{"POST", "/v1/notify"}, {"GET", "/v1/receipts/" + q.id}, {"GET", "/v1/status"}} {
						a, err := r.Try(t.Context(), call.method, call.path, busy.Token, map[string]any{"title": "x"})
						if last = a.Status; err != nil || last >= 402 && last != 404 && last != 429 {
							t.Errorf("%s: %d %s, %v", call.path, a.Status, a.Raw, err)
						}
					}
				}
			})
		}
		time.Sleep(12 * time.Second)
		if a := d.Call("DELETE", "/v1/device", nil); a.Status != 200 {
			t.Errorf("unpair: %d %s", a.Status, a.Raw)
		}
		all.Wait()
		wantRefusal(t, d.Call("GET", "/v1/device/info", nil), 401, "unauthorized")
	})
}

// TestCase086ABurstWithReadersMeetsNoLock: five hundred sends at once, while fifty others read, are all accepted, and come to
// the device once and in order.
func TestCase086ABurstWithReadersMeetsNoLock(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) {
		c.RateLimitPerKey, c.NotificationsPerDay, c.QueueMax, c.RequestsPerDay = 1e6, 1e6, 1e5, 1e6
	}})
	d := r.Pair("laptop")
	agent, s := d.Agent("bot"), d.Stream()
	agent.Send(map[string]any{"title": "x", "notificationId": "first"})
	const senders, each = 20, 25
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for i := range 50 {
		readers.Go(func() {
			for path := []string{"/v1/receipts/first", "/v1/status"}[i%2]; ; {
				select {
				case <-done:
					return
				default:
				}
				a, err := r.Try(t.Context(), "GET", path, agent.Token, nil)
				if err != nil || a.Status != 200 && a.Status != 429 {
					t.Errorf("read: %d %s, %v", a.Status, a.Raw, err)
					return
				}
			}
		})
	}
	for i := range senders {
		writers.Go(func() {
			for k := range each {
				a, err := r.Try(t.Context(), "POST", "/v1/notify", agent.Token, map[string]any{"title": "x", "notificationId": fmt.Sprint(i, ":", k)})
				if err != nil || a.Status != 202 {
					t.Errorf("send: %d %s, %v", a.Status, a.Raw, err)
				}
			}
		})
	}
	last, seen := map[int]int{}, 0
	for seen < senders*each && !t.Failed() {
		var i, k int
		if id := s.Next().Text("notificationId"); id != "first" {
			if _, err := fmt.Sscanf(id, "%d:%d", &i, &k); err != nil || k != last[i] {
				t.Errorf("sender %d: got %s, want number %d", i, id, last[i])
			}
			last[i]++
			seen++
		}
	}
	writers.Wait()
	close(done)
	readers.Wait()
}
