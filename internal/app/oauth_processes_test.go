package app_test

import (
	"testing"

	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/testkit"
)

// TestApprovalsWorkAcrossProcesses asks one process, decides on another, and races both.
func TestApprovalsWorkAcrossProcesses(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	here := testkit.New(t, testkit.Options{Store: pgtest.OpenURL(t, url, nil)})
	there := testkit.New(t, testkit.Options{Store: pgtest.OpenURL(t, url, nil)})
	d := there.Pair("Mac")
	s := d.Stream()
	near := *d
	near.Relay = here
	c := register(t, here, nil)

	rid := c.authorize(t)
	if f := nextOf(s, "consent"); f.Text("id") != rid {
		t.Errorf("frame %v", f)
	}
	code := approved(t, d, rid)
	if f := nextOf(s, "consent_resolved"); f.Text("id") != rid || f.Text("status") != "approved" {
		t.Errorf("frame %v", f)
	}
	held := c.exchange(t, code)
	if !works(here, held.access) || !works(there, held.access) {
		t.Error("the token does not work everywhere")
	}

	for _, pair := range [][2]string{{"approve", "approve"}, {"approve", "deny"}, {"deny", "deny"}} {
		rid := c.authorize(t, "state", pair[0]+pair[1])
		devices, answers := []*testkit.Device{d, &near}, make([]testkit.Answer, 2)
		parallel(2, func(i int) { answers[i] = decide(devices[i], rid, pair[i]) })
		if a, b := answers[0].Status, answers[1].Status; a+b != 200+409 {
			t.Errorf("%v: %s and %s", pair, answers[0].Raw, answers[1].Raw)
		}
	}

	rid = c.authorize(t, "state", "last")
	held = c.exchange(t, approved(t, d, rid))
	made := make([]string, 40)
	relays := []*connector{c, {Relay: there, id: c.id, redirect: c.redirect, http: stay(there.HTTP)}}
	parallel(len(made)+1, func(i int) {
		if i == len(made) {
			relays[1].post(t, "/revoke", values(nil, "client_id", c.id, "token", held.refresh))
			return
		}
		made[i] = relays[i%2].refresh(t, held.refresh).Text("access_token")
	})
	for _, token := range append(made, held.access) {
		if token != "" && (works(here, token) || works(there, token)) {
			t.Error("a token outlived its revocation")
		}
	}
}
