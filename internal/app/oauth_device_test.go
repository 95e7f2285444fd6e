package app_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
	"github.com/herald-relay/herald/internal/testkit"
)

// deviceClient is a client of the device flow.
func deviceClient(t testing.TB, r *testkit.Relay) *connector {
	t.Helper()
	a := r.Do("POST", "/register", "", map[string]any{"client_name": "CLI agent", "grant_types": []string{grantDevice, "refresh_token"}})
	if a.Status != 201 {
		t.Fatalf("register: %d %s", a.Status, a.Raw)
	}
	return &connector{Relay: r, id: a.Text("client_id"), http: stay(r.HTTP)}
}

func (c *connector) beginDevice(t testing.TB, pairs ...string) testkit.Answer {
	t.Helper()
	return c.post(t, "/device_authorization", values(url.Values{"client_id": {c.id}}, pairs...))
}

func (c *connector) poll(t testing.TB, code string, pairs ...string) testkit.Answer {
	t.Helper()
	return c.post(t, "/token", values(url.Values{"grant_type": {grantDevice}, "client_id": {c.id}, "device_code": {code}}, pairs...))
}

func TestTheDeviceFlowIsBegun(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("")
	s := d.Stream()
	c := deviceClient(t, r)
	a := c.beginDevice(t, "scope", "notify", "device", "1", "resource", r.URL+"/mcp/")
	if a.Status != 200 || !regexp.MustCompile(`^hrv_`+d.Mailbox+`_[0-9a-f]{64}$`).MatchString(a.Text("device_code")) ||
		!regexp.MustCompile(`^[BCDFGHJKMNPQRTWXZ]{4}-[BCDFGHJKMNPQRTWXZ]{4}$`).MatchString(a.Text("user_code")) {
		t.Fatalf("%d %s", a.Status, a.Raw)
	}
	user := a.Text("user_code")
	delete(a.Body, "device_code")
	want := map[string]any{
		"user_code": user, "verification_uri": r.URL + "/activate", "verification_uri_complete": r.URL + "/activate?user_code=" + user,
		"expires_in": 600.0, "interval": 5.0, "device_name": "Mac 1", "device_count": 1.0, "device_index": 1.0, "device_online": true,
	}
	if diff := cmp.Diff(want, a.Body); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f := nextOf(s, "consent")
	if f.Text("flow") != "device" || f.Text("userCode") != user || f.Text("redirectHost") != "" || f["redirectHost"] == nil || f.Text("clientName") != "CLI agent" {
		t.Errorf("frame = %v", f)
	}
	list := consents(d)
	if len(list) != 1 || list[0]["userCode"] != user || list[0]["code"] != f.Text("code") {
		t.Errorf("listed = %v", list)
	}
	if a := decide(d, f.Text("id"), "approve"); a.Body["redirect"] != nil || a.Text("status") != "approved" {
		t.Errorf("decision = %s", a.Raw)
	}
}

func TestBeginningTheDeviceFlowIsRefused(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	c := deviceClient(t, r)
	if a := c.beginDevice(t); a.Status != 400 || a.Code() != "invalid_request" {
		t.Errorf("nobody paired: %d %s", a.Status, a.Raw)
	}
	r.Pair("Mac")
	for name, tc := range map[string]struct {
		pairs  []string
		status int
		code   string
	}{
		"no client":             {[]string{"client_id", ""}, 401, "invalid_client"},
		"an unknown client":     {[]string{"client_id", "hc_" + strings.Repeat("3", 32)}, 401, "invalid_client"},
		"a secret it has not":   {[]string{"client_secret", "x"}, 401, "invalid_client"},
		"an unknown scope":      {[]string{"scope", "admin"}, 400, "invalid_scope"},
		"another resource":      {[]string{"resource", "https://x.example/mcp"}, 400, "invalid_target"},
		"a device out of range": {[]string{"device", "2"}, 400, "invalid_request"},
		"a device that is text": {[]string{"device", "Mac"}, 400, "invalid_request"},
	} {
		if a := c.beginDevice(t, tc.pairs...); a.Status != tc.status || a.Code() != tc.code || a.Text("error_description") == "" {
			t.Errorf("%s: %d %s", name, a.Status, a.Raw)
		}
	}
}

func TestTheDeviceFlowIsTemporarilyUnavailableWithoutItsStore(t *testing.T) {
	testkit.OnSQLite(t)
	t.Parallel()
	var faulty *storetest.Faulty
	r := testkit.New(t, testkit.Options{Wrap: func(s store.Store) store.Store { faulty = storetest.NewFaulty(s); return faulty }})
	r.Pair("Mac")
	c := deviceClient(t, r)
	faulty.FailNth(1, storetest.NotPersisted)
	if a := c.beginDevice(t); a.Status != 502 || a.Code() != "temporarily_unavailable" {
		t.Errorf("%d %s", a.Status, a.Raw)
	}
}

func TestPollingWaitsSlowsDownAndCollects(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		c, other := deviceClient(t, r), deviceClient(t, r)
		begun := c.beginDevice(t)
		code := begun.Text("device_code")
		wants := func(what, want string, a testkit.Answer) {
			t.Helper()
			if a.Status != 400 || a.Code() != want {
				t.Errorf("%s: %d %s, want %s", what, a.Status, a.Raw, want)
			}
		}
		wants("at once", "slow_down", c.poll(t, code)) // now every ten seconds
		time.Sleep(6 * time.Second)
		wants("after six more", "slow_down", c.poll(t, code)) // now every fifteen
		time.Sleep(10 * time.Second)
		wants("after ten more", "slow_down", c.poll(t, code)) // now every twenty
		time.Sleep(20 * time.Second)
		wants("after twenty more", "authorization_pending", c.poll(t, code))
		wants("another client", "invalid_grant", other.poll(t, code))
		wants("a malformed code", "invalid_grant", c.poll(t, "hrv_x"))
		wants("another resource", "invalid_target", c.poll(t, code, "resource", "https://x.example/mcp"))
		wants("an unknown code", "expired_token", c.poll(t, code[:len(code)-1]+flipped(code)))
		if a := c.poll(t, code, "client_id", ""); a.Status != 401 || a.Code() != "invalid_client" {
			t.Errorf("no client: %d %s", a.Status, a.Raw)
		}
		decide(d, consents(d)[0]["id"].(string), "approve")
		time.Sleep(20 * time.Second)
		first := c.poll(t, code)
		if first.Status != 200 || !works(r, first.Text("access_token")) || first.Text("scope") != "notify" {
			t.Fatalf("%d %s", first.Status, first.Raw)
		}
		second := c.poll(t, code)
		if second.Status != 200 || second.Text("access_token") != first.Text("access_token") || second.Text("refresh_token") != first.Text("refresh_token") {
			t.Errorf("a repeat within five minutes: %d %s", second.Status, second.Raw)
		}
		time.Sleep(5 * time.Minute)
		wants("after five minutes", "expired_token", c.poll(t, code))
	})
}

func TestAPunctualPollIsNeverSlowedDown(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		r.Pair("Mac")
		c := deviceClient(t, r)
		code := c.beginDevice(t).Text("device_code")
		for i := range 118 {
			time.Sleep(5 * time.Second)
			if a := c.poll(t, code); a.Code() != "authorization_pending" {
				t.Fatalf("poll %d: %d %s", i+1, a.Status, a.Raw)
			}
		}
		time.Sleep(15 * time.Second)
		if a := c.poll(t, code); a.Code() != "expired_token" {
			t.Errorf("after ten minutes: %d %s", a.Status, a.Raw)
		}
	})
}

func TestAPollLearnsOfADenialAndOfARevocation(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		c := deviceClient(t, r)
		code := c.beginDevice(t).Text("device_code")
		decide(d, consents(d)[0]["id"].(string), "deny")
		time.Sleep(5 * time.Second)
		if a := c.poll(t, code); a.Status != 400 || a.Code() != "access_denied" {
			t.Errorf("denied: %d %s", a.Status, a.Raw)
		}
		code = c.beginDevice(t).Text("device_code")
		decide(d, consents(d)[0]["id"].(string), "approve")
		key := d.Call("GET", "/v1/device/connectors", nil).Body["connectors"].([]any)[0].(map[string]any)["id"].(string)
		d.Call("DELETE", "/v1/device/keys/"+key, nil)
		time.Sleep(5 * time.Second)
		if a := c.poll(t, code); a.Status != 400 || a.Code() != "invalid_grant" {
			t.Errorf("revoked before it was collected: %d %s", a.Status, a.Raw)
		}
	})
}

func TestTheSameClientTakesItsOpenRequestOver(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		s := d.Stream()
		c := deviceClient(t, r)
		first := c.beginDevice(t)
		f1 := nextOf(s, "consent")
		for range 4 { // one try is left
			if p := c.browse(t, "POST", "/activate/approve", values(nil, "rid", f1.Text("id"), "code", wrongCode(f1.Text("code")))); p.Status != 400 {
				t.Fatalf("wrong code: %d", p.Status)
			}
		}
		second := c.beginDevice(t)
		f2 := nextOf(s, "consent")
		if f2.Text("id") != f1.Text("id") || f2.Text("code") == f1.Text("code") || f2.Text("userCode") == f1.Text("userCode") || f2["redelivered"] != nil {
			t.Errorf("first %v, second %v", f1, f2)
		}
		if second.Text("device_code") == first.Text("device_code") || second.Text("user_code") == first.Text("user_code") {
			t.Error("the codes are not fresh")
		}
		if list := consents(d); len(list) != 1 || list[0]["code"] != f2.Text("code") {
			t.Errorf("listed %v", list)
		}
		time.Sleep(5 * time.Second)
		if a := c.poll(t, first.Text("device_code")); a.Code() != "expired_token" {
			t.Errorf("the old device code: %d %s", a.Status, a.Raw)
		}
		if p := c.browse(t, "POST", "/activate", values(nil, "user_code", first.Text("user_code"))); p.Status != 400 {
			t.Errorf("the old user code: %d", p.Status)
		}
		for range 4 { // the tries began anew
			c.browse(t, "POST", "/activate/approve", values(nil, "rid", f2.Text("id"), "code", wrongCode(f2.Text("code"))))
		}
		if p := c.browse(t, "POST", "/activate/approve", values(nil, "rid", f2.Text("id"), "code", f2.Text("code"))); p.Status != 200 || !strings.Contains(string(p.Raw), "Approved") {
			t.Errorf("the right code: %d %s", p.Status, p.Raw)
		}
		if a := c.poll(t, second.Text("device_code")); a.Status != 200 {
			t.Errorf("the new device code: %d %s", a.Status, a.Raw)
		}
	})
}

// wrongCode is another code of six digits.
func wrongCode(code string) string { return code[:5] + flipped(code) }

func TestActivating(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: roomy})
	d := r.Pair("Mac")
	c := deviceClient(t, r)
	user := c.beginDevice(t).Text("user_code")
	if p := c.browse(t, "GET", "/activate?user_code="+user, nil); p.Status != 200 || !strings.Contains(string(p.Raw), `value="`+user+`"`) {
		t.Errorf("GET /activate with a code: %d %s", p.Status, p.Raw)
	}
	if p := c.browse(t, "GET", `/activate?user_code="><script>`, nil); p.Status != 200 || strings.Contains(string(p.Raw), `"><script>`) {
		t.Errorf("GET /activate with rubbish: %d %s", p.Status, p.Raw)
	}
	for _, typed := range []string{user, strings.ToLower(user), strings.ReplaceAll(user, "-", ""), " " + strings.ReplaceAll(user, "-", " ") + " "} {
		p := c.browse(t, "POST", "/activate", values(nil, "user_code", typed))
		if p.rid(t) != consents(d)[0]["id"] || !strings.Contains(string(p.Raw), user) || !strings.Contains(string(p.Raw), "CLI agent") {
			t.Errorf("POST /activate with %q: %d %s", typed, p.Status, p.Raw)
		}
	}
	rid := consents(d)[0]["id"].(string)
	if p := c.browse(t, "POST", "/activate/approve", values(nil, "rid", rid, "code", user)); p.Status != 400 {
		t.Errorf("the user code as the approval code: %d", p.Status)
	}
	if p := c.browse(t, "POST", "/activate/deny", values(nil, "rid", rid)); p.Status != 200 || !strings.Contains(string(p.Raw), "Denied") {
		t.Errorf("deny: %d %s", p.Status, p.Raw)
	}
	if list := consents(d); list[0]["status"] != "denied" {
		t.Errorf("listed %v", list)
	}
}

func TestGuessingUserCodesIsHopeless(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }})
	r.Pair("Mac")
	c := deviceClient(t, r)
	user := c.beginDevice(t).Text("user_code")
	try := func(code, from string) int {
		a := r.Do("POST", "/activate", "", []byte(values(nil, "user_code", code).Encode()), "Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-For", from)
		return a.Status
	}
	for i := range 10 {
		if got := try("BBBB-BBBB", "192.0.2.1"); got != 400 {
			t.Fatalf("guess %d: %d", i+1, got)
		}
	}
	if got := try(user, "192.0.2.1"); got != http.StatusTooManyRequests {
		t.Errorf("the right code after ten wrong ones: %d", got)
	}
	if got := try(user, "192.0.2.2"); got != 200 {
		t.Errorf("the right code from elsewhere: %d", got)
	}
}
