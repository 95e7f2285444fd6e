package app_test

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

func TestFiftyExchangesOfOneCodeReturnOneGrant(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("Mac")
		c := register(t, r, nil)
		code := approved(t, d, c.authorize(t))
		got := make([]tokens, 50)
		parallel(len(got), func(i int) {
			a := c.post(t, "/token", c.exchanges(code))
			got[i] = tokens{a.Text("access_token"), a.Text("refresh_token")}
		})
		if len(slices.Compact(got)) != 1 || !works(r, got[0].access) {
			t.Errorf("%v", got)
		}
		one := d.Call("GET", "/v1/device/connectors", nil).Body["connectors"].([]any)[0].(map[string]any)
		if one["tokens"] != 1.0 {
			t.Errorf("%v access tokens were made", one["tokens"])
		}
	})
}

func TestOfTwoDecisionsThatRaceOneCounts(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		o.Config = func(c *config.Config) { c.RegisterPerHour = 1000 }
		r := testkit.New(t, o)
		for _, pair := range [][2]string{{"approve", "approve"}, {"approve", "deny"}} {
			for range 5 {
				d := r.Redeem(invite(t, r), "") // six starts, and twelve requests, an hour are allowed
				c := register(t, r, nil)
				rid := c.authorize(t, "device", place(d))
				answers := make([]testkit.Answer, 2)
				parallel(2, func(i int) { answers[i] = decide(d, rid, pair[i]) })
				first, second := answers[0], answers[1]
				if first.Status != 200 {
					first, second = second, first
				}
				if first.Status != 200 || second.Status != 409 || second.Code() != "already_decided" || second.Text("status") != first.Text("status") {
					t.Errorf("%v: %d %s and %d %s", pair, first.Status, first.Raw, second.Status, second.Raw)
				}
				keys := d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)
				if want := map[bool]int{true: 1}[first.Text("status") == "approved"]; len(keys) != want {
					t.Errorf("%v: %d keys after %s", pair, len(keys), first.Raw)
				}
				d.Call("DELETE", "/v1/device", nil)
			}
		}
	})
}

// place is a device's number in the order of pairing.
func place(d *testkit.Device) string {
	list := d.Call("GET", "/v1/device/devices", nil).Body["devices"].([]any)
	i := slices.IndexFunc(list, func(v any) bool { return v.(map[string]any)["id"] == d.Mailbox })
	return strconv.Itoa(i + 1)
}

func TestApprovalsOfOneClientThatRaceLeaveOneKey(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("Mac")
		c := register(t, r, nil)
		for i := range 5 {
			state := string(rune('a' + i))
			rids := make([]string, 2)
			parallel(2, func(i int) {
				rids[i] = ridOf(c.browse(t, "GET", "/authorize", c.asks("state", state+string(rune('0'+i)))))
			})
			parallel(2, func(i int) { decide(d, rids[i], "approve") })
			active := 0
			for _, k := range d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any) {
				if k.(map[string]any)["revokedAt"] == nil {
					active++
				}
			}
			if active != 1 {
				t.Fatalf("round %d: %d keys work", i, active)
			}
		}
	})
}

// ridOf is the request of a page, "" when it shows none.
func ridOf(p page) string {
	if m := ridField.FindSubmatch(p.Raw); m != nil {
		return string(m[1])
	}
	return ""
}

// TestNoTokenOutlivesItsRevocation races revocations with refreshes: whichever comes first, once the revocation was
// answered no token of the approval works, whenever it was made.
func TestNoTokenOutlivesItsRevocation(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		pairs := 1000
		if testing.Short() {
			pairs = 100
		}
		o.Config = func(c *config.Config) { c.RegisterPerHour, c.MaxDevices = 1000, 1000 }
		r := testkit.New(t, o)
		approvals := 20 // each is revoked at once with fifty refreshes
		var refreshed, refused atomic.Int64
		parallel(approvals, func(i int) { raceRevocation(t, r, i, pairs/approvals, &refreshed, &refused) })
		t.Logf("%d refreshes came before their revocation, %d after", refreshed.Load(), refused.Load())
		if refreshed.Load()+refused.Load() != int64(pairs) {
			t.Errorf("%d refreshes of %d were answered", refreshed.Load()+refused.Load(), pairs)
		}
	})
}

func raceRevocation(t *testing.T, r *testkit.Relay, i, refreshes int, refreshed, refused *atomic.Int64) {
	d := r.Redeem(invite(t, r), "")
	c := register(t, r, nil)
	held := c.exchange(t, approved(t, d, c.authorize(t, "device", place(d))))
	made := make([]string, refreshes)
	keys := d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)
	key := keys[0].(map[string]any)["id"].(string)
	parallel(refreshes+1, func(n int) {
		if n == refreshes/3 {
			revokeSomehow(c, d, held, key, i)
			return
		}
		if n > refreshes/3 {
			n--
		}
		switch a := c.refresh(t, held.refresh); {
		case a.Status == 200:
			refreshed.Add(1)
			made[n] = a.Text("access_token")
		case a.Code() == "invalid_grant":
			refused.Add(1)
		default:
			t.Errorf("refresh: %d %s", a.Status, a.Raw)
		}
	})
	for _, token := range append(made, held.access) {
		if token != "" && works(r, token) {
			t.Errorf("approval %d: a token works after its revocation", i)
		}
	}
}

// revokeSomehow ends an approval in one of the ways there are.
func revokeSomehow(c *connector, d *testkit.Device, held tokens, id string, way int) {
	switch way % 4 {
	case 0:
		c.post(d.T, "/revoke", values(nil, "client_id", c.id, "token", held.refresh))
	case 1:
		d.Call("DELETE", "/v1/device/keys/"+id, nil)
	case 2:
		d.Call("DELETE", "/v1/device/keys/"+id+"?purge=1", nil)
	default:
		d.Call("DELETE", "/v1/device/connectors/"+id, nil)
	}
}

// invite makes a pairing code without the limits of strangers.
func invite(t *testing.T, r *testkit.Relay) string {
	people, err := r.App.Admin().People(t.Context())
	if err != nil || len(people) != 1 {
		t.Fatalf("people: %v %v", people, err)
	}
	i, err := r.App.Admin().Invite(t.Context(), people[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	return i.Code
}
