package app_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/testkit"
)

// TestStatusTellsThreeThings holds the contract's section 2.6: these members and no other, and the 11-minute rule.
func TestStatusTellsThreeThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		quiet := map[string]any{"active": false}
		status := func(online bool, seen time.Time) {
			t.Helper()
			synctest.Wait()
			want := map[string]any{"online": online, "quietHours": quiet}
			if !seen.IsZero() {
				want["lastSeenAt"] = relay.Timestamp(seen)
			}
			wantBody(t, agent.Call("GET", "/v1/status", nil), 200, want)
		}
		status(false, time.Time{}) // never seen: without the date

		time.Sleep(time.Hour)
		opened := time.Now()
		s := d.Stream()
		status(true, opened)
		time.Sleep(11*time.Minute - time.Millisecond)
		status(true, opened)
		time.Sleep(time.Millisecond)
		status(false, opened)
		ping(s)
		status(true, time.Now())

		for range 10 { // a ping every five minutes is plenty
			time.Sleep(5 * time.Minute)
			ping(s)
			time.Sleep(5 * time.Minute)
			status(true, time.Now().Add(-5*time.Minute))
		}
		s.Send(testkit.Frame{"type": "of a newer app"}) // any message is a sign of life
		status(true, time.Now())

		s.Send(testkit.Frame{"type": "status", "quietActive": true, "quietUntil": "07:00", "muted": true})
		quiet = map[string]any{"active": true, "until": "07:00"} // muted is nobody's business
		status(true, time.Now())
		s.Send(testkit.Frame{"type": "hello", "quietActive": false})
		quiet = map[string]any{"active": false}
		status(true, time.Now())

		heard := time.Now()
		time.Sleep(time.Minute)
		_ = s.Conn.CloseNow()
		status(false, heard)
	})
}

// ping gives a sign of life and takes the answer.
func ping(s *testkit.Stream) {
	s.T.Helper()
	s.Text("ping")
	if _, data, err := s.Conn.Read(s.T.Context()); err != nil || string(data) != "pong" {
		s.T.Fatalf("ping is answered %q: %v", data, err)
	}
}

func TestHealthAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in a bubble nothing else asks the store meanwhile
		var calls atomic.Int64
		r := testkit.New(t, testkit.Options{Pipes: true, Wrap: func(s store.Store) store.Store { return counting{s, &calls} }})
		synctest.Wait()
		before := calls.Load()
		want := map[string]any{"ok": true, "service": "herald-relay"}
		for _, call := range []struct{ method, path, token string }{
			{"GET", "/health", ""}, {"GET", "/healthz", ""}, {"GET", "/health", "hrk_junk"}, {"POST", "/", ""}, {"PUT", "/", ""}, {"DELETE", "/", "junk"},
		} {
			wantBody(t, r.Do(call.method, call.path, call.token, nil), 200, want)
		}
		if a := r.Do("HEAD", "/health", "", nil); a.Status != 200 || len(a.Raw) != 0 {
			t.Errorf("HEAD /health: %d %s", a.Status, a.Raw)
		}
		if n := calls.Load() - before; n != 0 {
			t.Errorf("health asked the store %d times", n)
		}
		wantRefusal(t, r.Do("POST", "/health", "", nil), 405, "method_not_allowed")
	})
}

func TestHealthTellsTheBundleAndDevelopment(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.BundleHash, c.Dev = "abc123", true }})
	wantBody(t, r.Do("GET", "/health", "", nil), 200, map[string]any{"ok": true, "service": "herald-relay", "bundle": "abc123", "dev": true})
}

func TestTheFrontPageIsAPage(t *testing.T) {
	t.Parallel()
	a := testkit.New(t, testkit.Options{}).Do("GET", "/", "", nil)
	if a.Status != 200 || a.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(strings.ToLower(string(a.Raw)), "<!doctype html>") {
		t.Errorf("GET /: %d %s %.100s", a.Status, a.Header.Get("Content-Type"), a.Raw)
	}
	want := http.Header{"X-Content-Type-Options": {"nosniff"}, "Referrer-Policy": {"no-referrer"}}
	got := http.Header{}
	for name := range want {
		got[name] = a.Header.Values(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if policy := a.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("content policy = %q", policy)
	}
}
