package app_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
	"github.com/herald-relay/herald/internal/testkit"
)

// persist repeats a step whose answer was lost, as everybody does who got no answer.
func persist(t *testing.T, what string, step func() (status int)) {
	t.Helper()
	status := 0
	for range 3 {
		if status = step(); status < 500 {
			return
		}
	}
	t.Errorf("%s: still %d", what, status)
}

// TestAnApprovalSurvivesEveryLostWrite fails each write of an approval once, before it happened and after it did. With
// every step repeated, the end is the same: one connector, whose tokens work until they are given back.
func TestAnApprovalSurvivesEveryLostWrite(t *testing.T) {
	testkit.OnSQLite(t)
	t.Parallel()
	var faulty *storetest.Faulty
	r := testkit.New(t, testkit.Options{
		Config: func(c *config.Config) { c.RegisterPerHour, c.MaxDevices = 1000, 1000 },
		Wrap:   func(s store.Store) store.Store { faulty = storetest.NewFaulty(s); return faulty },
	})
	writes := 0
	for n := 0; n <= writes; n++ { // the first round counts the writes
		for _, how := range []storetest.Failure{storetest.NotPersisted, storetest.Persisted} {
			d := r.Redeem(invite(t, r), fmt.Sprint("Mac ", n, how))
			faulty.FailNth(n, how)
			approveThroughFaults(t, d)
			writes = max(writes, faulty.Updates())
			faulty.FailNth(0, how)
			if a := d.Call("DELETE", "/v1/device", nil); a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Raw)
			}
		}
	}
	if writes < 6 {
		t.Errorf("only %d writes were seen", writes)
	}
}

func approveThroughFaults(t *testing.T, d *testkit.Device) {
	t.Helper()
	c := &connector{Relay: d.Relay, redirect: redirectURI, http: stay(d.HTTP)}
	persist(t, "register", func() int {
		a := d.Do("POST", "/register", "", map[string]any{"redirect_uris": []string{redirectURI}})
		c.id = a.Text("client_id")
		return a.Status
	})
	rid := ""
	persist(t, "authorize", func() int {
		p := c.browse(t, "GET", "/authorize", c.asks("device", place(d)))
		rid = ridOf(p)
		return p.Status
	})
	persist(t, "approve", func() int { return decide(d, rid, "approve").Status })
	back, err := url.Parse(d.Do("GET", "/authorize/status?rid="+rid, "", nil).Text("redirect"))
	if err != nil {
		t.Fatal(err)
	}
	var held tokens
	persist(t, "exchange", func() int {
		a := c.post(t, "/token", c.exchanges(back.Query().Get("code")))
		held = tokens{a.Text("access_token"), a.Text("refresh_token")}
		return a.Status
	})
	fresh := ""
	persist(t, "refresh", func() int {
		a := c.refresh(t, held.refresh)
		fresh = a.Text("access_token")
		return a.Status
	})
	list := d.Call("GET", "/v1/device/connectors", nil).Body["connectors"].([]any)
	if len(list) != 1 || !works(d.Relay, held.access) || !works(d.Relay, fresh) {
		t.Errorf("%d connectors, tokens work: %v %v", len(list), works(d.Relay, held.access), works(d.Relay, fresh))
	}
	persist(t, "revoke", func() int { return c.post(t, "/revoke", values(nil, "client_id", c.id, "token", held.refresh)).Status })
	if works(d.Relay, held.access) || works(d.Relay, fresh) {
		t.Error("a token outlived its revocation")
	}
	actions := map[string]int{}
	for _, e := range d.Call("GET", "/v1/device/audit?limit=2", nil).Body["entries"].([]any) {
		actions[e.(map[string]any)["action"].(string)]++
	}
	if actions["revoked"] != 1 || actions["approved"] != 1 {
		t.Errorf("written down: %v", actions)
	}
}

func TestARestartForgetsNoApproval(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		o.Dir = t.TempDir()
		r := testkit.New(t, o)
		d := r.Pair("Mac")
		c, held := connected(t, d)
		code := approved(t, d, c.authorize(t, "state", "second"))
		waits := c.authorize(t, "state", "third")
		device := deviceClient(t, r)
		begun := device.beginDevice(t)
		s := d.Stream()
		nextOf(s, "consent")
		nextOf(s, "consent")
		r.Stop()

		again := testkit.New(t, o)
		d.Relay, c.Relay, device.Relay = again, again, again
		c.http, device.http = stay(again.HTTP), stay(again.HTTP)
		if works(again, held.access) {
			t.Error("a token that a new approval ended works again")
		}
		fresh := c.post(t, "/token", c.exchanges(code))
		if fresh.Status != 200 || !works(again, fresh.Text("access_token")) {
			t.Errorf("the code from before: %d %s", fresh.Status, fresh.Raw)
		}
		s = d.Stream()
		for range 2 {
			if f := nextOf(s, "consent"); f["redelivered"] != true {
				t.Errorf("frame %v", f)
			}
		}
		if a := decide(d, waits, "deny"); a.Status != 200 {
			t.Errorf("deciding what waited: %d %s", a.Status, a.Raw)
		}
		if a := device.beginDevice(t); a.Status != 200 || a.Text("user_code") == begun.Text("user_code") {
			t.Errorf("taking over from before: %d %s", a.Status, a.Raw)
		}
	})
}
