package app_test

import (
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
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

// TestNoTokenOutlivesItsRevocation races a thousand revocations, each with a refresh of its approval: whichever comes first,
// once the revocation was answered no token of the approval works, whenever it was made.
func TestNoTokenOutlivesItsRevocation(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		mailboxes := 100                                               // of ten approvals each: twelve may be asked for within an hour
		if testing.Short() || os.Getenv(testkit.StoreVariable) != "" { // the ordinary run has them all, on both stores
			mailboxes = 10
		}
		o.Config = func(c *config.Config) {
			c.RegisterPerHour, c.MaxDevices, c.TrustedProxies = 10000, 1000, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}
		r := testkit.New(t, o)
		var pairs []*racing
		for n := range mailboxes {
			d := r.Redeem(invite(t, r), "")
			at, made := place(d), make([]*racing, 10)
			for i := range made {
				c := register(t, r, nil)
				c.http.Transport = from{c.http.Transport, "192.0.2." + strconv.Itoa(n)} // no address may begin so many
				made[i] = &racing{connector: c, device: d, held: c.exchange(t, approved(t, d, c.authorize(t, "device", at))), way: len(pairs) + i}
			}
			for i, k := range d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any) {
				made[i].key = k.(map[string]any)["id"].(string)
			}
			pairs = append(pairs, made...)
		}
		counts := map[bool]int{}
		for wave := range slices.Chunk(pairs, 250) { // one connection each, and files are limited
			parallel(2*len(wave), func(i int) {
				if i%2 == 0 {
					wave[i/2].revoke()
				} else {
					wave[i/2].try(t)
				}
			})
		}
		for _, p := range pairs {
			counts[p.made != ""]++
			p.check(t)
		}
		t.Logf("%d refreshes came before their revocation, %d after", counts[true], counts[false])
	})
}

// from makes requests seem to come from an address behind a trusted proxy.
type from struct {
	http.RoundTripper
	address string
}

func (f from) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Forwarded-For", f.address)
	return f.RoundTripper.RoundTrip(req)
}

// racing is an approval that is revoked and refreshed at once.
type racing struct {
	*connector
	device *testkit.Device
	held   tokens
	key    string
	way    int    // how it is revoked
	made   string // the access token of the refresh, "" when it came too late
}

// revoke ends the approval in one of the ways there are.
func (p *racing) revoke() {
	var a testkit.Answer
	switch p.way % 4 {
	case 0:
		a = p.post(p.device.T, "/revoke", values(nil, "client_id", p.id, "token", p.held.refresh))
	case 1:
		a = p.device.Call("DELETE", "/v1/device/keys/"+p.key, nil)
	case 2:
		a = p.device.Call("DELETE", "/v1/device/keys/"+p.key+"?purge=1", nil)
	default:
		a = p.device.Call("DELETE", "/v1/device/connectors/"+p.key, nil)
	}
	if a.Status != 200 {
		p.device.T.Errorf("approval %d: revoke: %d %s", p.way, a.Status, a.Raw)
	}
}

// try refreshes: with one of two outcomes.
func (p *racing) try(t *testing.T) {
	switch a := p.refresh(t, p.held.refresh); {
	case a.Status == 200:
		p.made = a.Text("access_token")
	case a.Code() != "invalid_grant":
		t.Errorf("approval %d: refresh: %d %s", p.way, a.Status, a.Raw)
	}
}

func (p *racing) check(t *testing.T) {
	t.Helper()
	if works(p.Relay, p.held.access) || p.made != "" && works(p.Relay, p.made) {
		t.Errorf("approval %d: a token works after its revocation", p.way)
	}
	if a := p.refresh(t, p.held.refresh); a.Code() != "invalid_grant" {
		t.Errorf("approval %d: a refresh after the revocation: %d %s", p.way, a.Status, a.Raw)
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
