package app_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

func TestDecisionsThatAreRefused(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d, other := r.Pair("one"), r.Pair("two")
	c := register(t, r, nil)
	rid := c.authorize(t, "device", "1")
	call := func(by *testkit.Device, body any) testkit.Answer { return by.Call("POST", "/v1/device/consent", body) }
	for name, tc := range map[string]struct {
		a      testkit.Answer
		status int
		code   string
	}{
		"not JSON":              {d.Do("POST", "/v1/device/consent", d.Token, []byte("x"), "Content-Type", "application/json"), 400, "invalid_request"},
		"no id":                 {call(d, map[string]any{"decision": "approve"}), 400, "invalid_request"},
		"a malformed id":        {call(d, map[string]any{"id": rid[1:], "decision": "approve"}), 400, "invalid_request"},
		"no decision":           {call(d, map[string]any{"id": rid}), 400, "invalid_request"},
		"an unknown decision":   {call(d, map[string]any{"id": rid, "decision": "maybe"}), 400, "invalid_request"},
		"an unknown id":         {call(d, map[string]any{"id": rid[:71] + flipped(rid), "decision": "approve"}), 404, "not_found"},
		"another mailbox's":     {call(other, map[string]any{"id": rid, "decision": "approve"}), 404, "not_found"},
		"an agent's credential": {d.Do("POST", "/v1/device/consent", d.Agent("a").Token, map[string]any{"id": rid, "decision": "approve"}), 403, "wrong_credential"},
	} {
		if tc.a.Status != tc.status || tc.a.Code() != tc.code {
			t.Errorf("%s: %d %s", name, tc.a.Status, tc.a.Raw)
		}
	}
	for _, decision := range []string{"approve", "deny"} {
		id := register(t, r, nil).authorize(t, "device", "1")
		first := decide(d, id, decision)
		if first.Status != 200 {
			t.Fatalf("%s: %d %s", decision, first.Status, first.Raw)
		}
		for _, again := range []string{"approve", "deny"} {
			a := decide(d, id, again)
			if a.Status != 409 || a.Code() != "already_decided" || a.Text("status") != first.Text("status") || a.Text("message") == "" {
				t.Errorf("%s after %s: %d %s", again, decision, a.Status, a.Raw)
			}
		}
	}
}

func TestRequestsAreListedNewestFirstForADay(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: roomy})
		d := r.Pair("Mac")
		if a := d.Call("GET", "/v1/device/consents", nil); string(a.Raw) != `{"consents":[]}` {
			t.Errorf("nothing yet: %s", a.Raw)
		}
		var made []string
		for range 22 {
			rid := register(t, r, nil).authorize(t)
			decide(d, rid, "deny")
			made = append([]string{rid}, made...)
			time.Sleep(6 * time.Minute)
		}
		var listed []string
		for _, c := range consents(d) {
			listed = append(listed, c["id"].(string))
		}
		if diff := cmp.Diff(made[:20], listed); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		time.Sleep(24 * time.Hour)
		if n := len(consents(d)); n != 0 {
			t.Errorf("after a day %d are listed", n)
		}
	})
}

func TestARequestRunsOutAfterTenMinutes(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		s := d.Stream()
		c := register(t, r, nil)
		rid := c.authorize(t)
		created := nextOf(s, "consent")
		at, _ := time.Parse(time.RFC3339, created.Text("createdAt"))
		until, _ := time.Parse(time.RFC3339, created.Text("expiresAt"))
		if until.Sub(at) != 10*time.Minute {
			t.Errorf("%v to %v", at, until)
		}
		time.Sleep(10*time.Minute + time.Second)
		if n := len(consents(d)); n != 0 {
			t.Errorf("%d are listed", n)
		}
		if f := nextOf(s, "consent_resolved"); f.Text("id") != rid || f.Text("status") != "expired" {
			t.Errorf("frame %v", f)
		}
		if a := decide(d, rid, "approve"); a.Status != 410 || a.Code() != "expired" {
			t.Errorf("decide: %d %s", a.Status, a.Raw)
		}
		if a := r.Do("GET", "/authorize/status?rid="+rid, "", nil); a.Text("status") != "expired" || a.Text("redirect") != "" {
			t.Errorf("status: %s", a.Raw)
		}
		if p := c.browse(t, "POST", "/authorize/code", values(nil, "rid", rid, "code", created.Text("code"))); p.Status != http.StatusGone || p.location != nil {
			t.Errorf("the right code: %d", p.Status)
		}
	})
}

func TestARequestThatNobodyReadsRunsOutByItself(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		s := d.Stream()
		rid := register(t, r, nil).authorize(t)
		nextOf(s, "consent")
		time.Sleep(10*time.Minute + 16*time.Second)
		if f := nextOf(s, "consent_resolved"); f.Text("id") != rid || f.Text("status") != "expired" {
			t.Errorf("frame %v", f)
		}
	})
}

func TestTheSixDigitsApproveFromThePage(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("Mac")
		s := d.Stream()
		c := register(t, r, nil)
		rid := c.authorize(t)
		code := nextOf(s, "consent").Text("code")
		if p := c.browse(t, "POST", "/authorize/code", values(nil, "rid", rid, "code", wrongCode(code))); p.Status != 400 || p.location != nil || !strings.Contains(string(p.Raw), "4 tries are left") {
			t.Errorf("a wrong code: %d %s", p.Status, p.Raw)
		}
		p := c.browse(t, "POST", "/authorize/code", values(nil, "rid", rid, "code", " "+code[:3]+" "+code[3:]+" "))
		if p.Status != 303 || p.location == nil || p.location.Query().Get("state") != "st&ä te" || p.location.Query().Get("iss") != r.URL {
			t.Fatalf("the right code with blanks inside: %d %s", p.Status, p.Raw)
		}
		if held := c.exchange(t, p.location.Query().Get("code")); !works(r, held.access) {
			t.Error("the token does not work")
		}
		if f := nextOf(s, "consent_resolved"); f.Text("status") != "approved" {
			t.Errorf("frame %v", f)
		}
	})
}

func TestTheFifthWrongCodeDenies(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	s := d.Stream()
	c := register(t, r, nil)
	rid := c.authorize(t)
	code := nextOf(s, "consent").Text("code")
	for i := range 5 {
		p := c.browse(t, "POST", "/authorize/code", values(nil, "rid", rid, "code", wrongCode(code)))
		if i < 4 && (p.Status != 400 || p.location != nil) {
			t.Fatalf("wrong code %d: %d", i+1, p.Status)
		}
		if i == 4 && (p.Status != 303 || p.location.Query().Get("error") != "access_denied" || p.location.Query().Get("state") != "st&ä te") {
			t.Fatalf("wrong code 5: %d to %v", p.Status, p.location)
		}
	}
	if f := nextOf(s, "consent_resolved"); f.Text("status") != "denied" {
		t.Errorf("frame %v", f)
	}
	if p := c.browse(t, "POST", "/authorize/code", values(nil, "rid", rid, "code", code)); p.location != nil || p.Status == 303 {
		t.Errorf("the right code afterwards: %d to %v", p.Status, p.location)
	}
	if a := decide(d, rid, "approve"); a.Status != 409 || a.Text("status") != "denied" {
		t.Errorf("the device afterwards: %d %s", a.Status, a.Raw)
	}
	if n := len(d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)); n != 0 {
		t.Errorf("%d keys", n)
	}
}

func TestDenyingOnThePageRedirects(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c := register(t, r, nil)
	rid := c.authorize(t)
	p := c.browse(t, "POST", "/authorize/deny", values(nil, "rid", rid))
	if p.Status != 303 || p.location.Query().Get("error") != "access_denied" || p.location.Query().Get("iss") != r.URL {
		t.Errorf("%d to %v", p.Status, p.location)
	}
	if list := consents(d); list[0]["status"] != "denied" {
		t.Errorf("%v", list)
	}
	approvedBefore := c.authorize(t)
	decide(d, approvedBefore, "approve")
	if p := c.browse(t, "POST", "/authorize/deny", values(nil, "rid", approvedBefore)); p.location != nil || !strings.Contains(string(p.Raw), "Approved") {
		t.Errorf("denying what was approved: %d to %v", p.Status, p.location)
	}
}

func TestForgedRequestIDsAreRefused(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	r.Pair("Mac")
	c := register(t, r, nil)
	rid := c.authorize(t)
	for name, forged := range map[string]string{
		"nothing": "", "too short": rid[1:], "capitals": strings.ToUpper(rid), "unsigned": strings.Repeat("0", 48) + rid[48:],
		"of no request": rid[:71] + flipped(rid), "with a NUL": rid + "\x00",
	} {
		for _, path := range []string{"/authorize/code", "/authorize/deny", "/activate/approve", "/activate/deny"} {
			if p := c.browse(t, "POST", path, values(nil, "rid", forged, "code", "123456")); p.Status != 400 || p.location != nil {
				t.Errorf("%s to %s: %d to %v", name, path, p.Status, p.location)
			}
		}
		if a := c.browse(t, "GET", "/authorize/status", values(nil, "rid", forged)); a.Status != 200 || a.Text("status") != "unknown" {
			t.Errorf("status of %s: %d %s", name, a.Status, a.Raw)
		}
		if p := c.browse(t, "GET", "/authorize/wait", values(nil, "rid", forged)); p.Status != 400 {
			t.Errorf("waiting for %s: %d", name, p.Status)
		}
	}
	if p := c.browse(t, "GET", "/authorize/wait", values(nil, "rid", rid)); p.rid(t) != rid || !strings.Contains(string(p.Raw), "Mac") {
		t.Errorf("the page does not survive a reload: %s", p.Raw)
	}
}

func TestWrongApprovalCodesAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }})
	d := r.Pair("Mac")
	try := func(rid, code, from string) int {
		return r.Do("POST", "/authorize/code", "", []byte(values(nil, "rid", rid, "code", code).Encode()),
			"Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-For", from).Status
	}
	rid := ""
	for i := range 20 {
		if i%4 == 0 { // four wrong ones each, and then the request is denied
			if rid != "" {
				decide(d, rid, "deny")
			}
			rid = register(t, r, nil).authorize(t)
		}
		if got := try(rid, "x", "192.0.2.7"); got != 400 {
			t.Fatalf("wrong code %d: %d", i+1, got)
		}
	}
	if got := try(rid, "x", "192.0.2.7"); got != 429 {
		t.Errorf("wrong code 21: %d", got)
	}
	if a := decide(d, rid, "approve"); a.Status != 200 {
		t.Errorf("the refused try counted: %d %s", a.Status, a.Raw)
	}
}

func TestAskingAgainInABrowser(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	s := d.Stream()
	c := register(t, r, nil)
	first := c.authorize(t)
	f1 := nextOf(s, "consent")
	if again := c.authorize(t); again != first {
		t.Error("a reload made another request")
	}
	f2 := nextOf(s, "consent")
	if f2.Text("id") != first || f2.Text("code") == f1.Text("code") || f2["redelivered"] != nil {
		t.Errorf("after a reload: %v, before: %v", f2, f1)
	}
	second := c.authorize(t, "state", "another")
	if second == first {
		t.Error("another page got the first one's request")
	}
	if f := nextOf(s, "consent_resolved"); f.Text("id") != first || f.Text("status") != "superseded" {
		t.Errorf("frame %v", f)
	}
	if a := decide(d, first, "approve"); a.Status != 409 || a.Text("status") != "superseded" {
		t.Errorf("the superseded one: %d %s", a.Status, a.Raw)
	}
	if p := c.browse(t, "POST", "/authorize/code", values(nil, "rid", first, "code", f2.Text("code"))); p.location != nil || !strings.Contains(string(p.Raw), "Asked again") {
		t.Errorf("the superseded page: %d to %v", p.Status, p.location)
	}
	if a := r.Do("GET", "/authorize/status?rid="+first, "", nil); a.Text("status") != "superseded" {
		t.Errorf("its status: %s", a.Raw)
	}
}

func TestTheClientsRequestsOnOtherMailboxesClose(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		one, two := r.Pair("one"), r.Pair("two")
		s1, s2 := one.Stream(), two.Stream()
		c, bystander := register(t, r, nil), register(t, r, nil)
		stays := bystander.authorize(t, "device", "1")
		nextOf(s1, "consent")
		first := c.authorize(t, "device", "1")
		nextOf(s1, "consent")
		second := c.authorize(t, "device", "2")
		if f := nextOf(s1, "consent_resolved"); f.Text("id") != first || f.Text("status") != "superseded" {
			t.Errorf("beginning elsewhere: %v", f)
		}
		nextOf(s2, "consent")
		if a := decide(two, second, "deny"); a.Text("status") != "denied" {
			t.Errorf("deny: %d %s", a.Status, a.Raw)
		}
		if a := decide(one, stays, "approve"); a.Status != 200 {
			t.Errorf("another client's request: %d %s", a.Status, a.Raw)
		}
	})
}

func TestANewApprovalEndsTheEarlierKeyAndADenialDoesNot(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("Mac")
		c, held := connected(t, d)
		decide(d, c.authorize(t, "state", "x"), "deny")
		if !works(r, held.access) {
			t.Fatal("a denial revoked what works")
		}
		again := c.exchange(t, approved(t, d, c.authorize(t, "state", "y")))
		if works(r, held.access) || !works(r, again.access) {
			t.Error("the earlier token must end, the new one work")
		}
		if a := c.refresh(t, held.refresh); a.Status != 400 || a.Code() != "invalid_grant" {
			t.Errorf("the earlier refresh token: %d %s", a.Status, a.Raw)
		}
		var names []string
		for _, k := range d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any) {
			key := k.(map[string]any)
			names = append(names, fmt.Sprint(key["name"], key["revokedAt"] != nil))
		}
		if diff := cmp.Diff([]string{"test-clienttrue", "test-clientfalse"}, names); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	})
}

func TestConnectorsAreNamedAfterTheirClients(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: roomy})
	d := r.Pair("Mac")
	d.Agent("claude")
	name := func(client string) string {
		rid := register(t, r, map[string]any{"client_name": client}).authorize(t)
		approved(t, d, rid)
		list := d.Call("GET", "/v1/device/connectors", nil).Body["connectors"].([]any)
		return list[len(list)-1].(map[string]any)["name"].(string)
	}
	for _, tc := range [][2]string{
		{"Claude", "claude-2"}, {"CLAUDE", "claude-3"}, {"My  cloud_agent!", "my-cloud-agent"}, {"日本語", "connector"}, {"…", "connector-2"},
		{"-a-", "a"}, {strings.Repeat("x", 23) + " yz", strings.Repeat("x", 23)}, {"Äpfel 12", "pfel-12"},
	} {
		if got := name(tc[0]); got != tc[1] {
			t.Errorf("%q is called %q, want %q", tc[0], got, tc[1])
		}
	}
}

func TestTwentyKeysAreEnough(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c, held := connected(t, d)
	for i := range 19 {
		d.Agent(fmt.Sprintf("k%d", i))
	}
	other := register(t, r, nil)
	rid := other.authorize(t)
	if a := decide(d, rid, "approve"); a.Status != 429 || a.Code() != "too_many_keys" {
		t.Errorf("the 21st: %d %s", a.Status, a.Raw)
	}
	if list := consents(d); list[0]["status"] != "pending" {
		t.Errorf("the request after that: %v", list[0])
	}
	again := c.exchange(t, approved(t, d, c.authorize(t, "state", "again"))) // in place of its own
	if works(r, held.access) || !works(r, again.access) {
		t.Error("a client that was approved before takes its own place")
	}
	keys := d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)
	d.Call("DELETE", "/v1/device/keys/"+keys[1].(map[string]any)["id"].(string), nil)
	if a := decide(d, rid, "approve"); a.Status != 200 {
		t.Errorf("with room again: %d %s", a.Status, a.Raw)
	}
}

func TestAnApprovalThatNobodyCollectsEnds(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		_, held := connected(t, d)
		decide(d, register(t, r, nil).authorize(t), "approve")
		connectors := func() int { return len(d.Call("GET", "/v1/device/connectors", nil).Body["connectors"].([]any)) }
		time.Sleep(5*time.Minute - time.Second)
		if n := connectors(); n != 2 {
			t.Errorf("%d connectors within five minutes", n)
		}
		time.Sleep(5*time.Minute + 2*time.Second)
		if n := connectors(); n != 1 || !works(r, held.access) {
			t.Errorf("%d connectors afterwards", n)
		}
		last := d.Call("GET", "/v1/device/audit", nil).Body["entries"].([]any)[0].(map[string]any)
		if last["action"] != "revoked" || last["by"] != "relay" {
			t.Errorf("written down: %v", last)
		}
	})
}

func TestThreeRequestsMayWait(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		first := register(t, r, nil)
		rid := first.authorize(t)
		for range 2 {
			register(t, r, nil).authorize(t)
		}
		c := register(t, r, nil)
		if p := c.browse(t, "GET", "/authorize", c.asks()); p.Status != 429 || p.location != nil {
			t.Errorf("a fourth: %d", p.Status)
		}
		device := deviceClient(t, r)
		if a := device.beginDevice(t); a.Status != 429 || a.Code() != "slow_down" || a.Header.Get("Retry-After") != "60" {
			t.Errorf("a fourth by the device flow: %d %s %v", a.Status, a.Raw, a.Header)
		}
		if again := first.authorize(t); again != rid {
			t.Error("one of the three may ask again")
		}
		first.authorize(t, "state", "x")
		decide(d, consents(d)[0]["id"].(string), "deny")
		c.authorize(t)
		time.Sleep(10 * time.Minute)
		c.authorize(t)
	})
}

func TestTwelveRequestsMayBeginWithinAnHour(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		c := register(t, r, nil)
		for range 12 {
			decide(d, c.authorize(t), "deny")
			time.Sleep(time.Minute)
		}
		if p := c.browse(t, "GET", "/authorize", c.asks()); p.Status != 429 {
			t.Errorf("the 13th: %d", p.Status)
		}
		time.Sleep(48*time.Minute - time.Second)
		if p := c.browse(t, "GET", "/authorize", c.asks()); p.Status != 429 {
			t.Errorf("a second before the hour: %d", p.Status)
		}
		time.Sleep(2 * time.Second)
		c.authorize(t)
	})
}

func TestOpenRequestsAreShownOnConnecting(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	agent := d.Agent("bot")
	c := register(t, r, nil)
	rid := c.authorize(t)
	agent.Send(map[string]any{"title": "waits"})
	s := d.Stream()
	if f := s.Next(); f.Text("type") != "notify" {
		t.Errorf("notifications come first: %v", f)
	}
	if f := s.Next(); f.Text("type") != "consent" || f.Text("id") != rid || f["redelivered"] != nil {
		t.Errorf("a request that came while nobody was there: %v", f)
	}
	again := d.Stream()
	for tries := 0; ; tries++ { // that it was shown is noted after it was sent, which a quick device outruns
		f := nextOf(again, "consent")
		if f["redelivered"] == true && f.Text("id") == rid {
			break
		}
		if f.Text("id") != rid || tries == 200 {
			t.Fatalf("on the next stream: %v", f)
		}
		again = d.Stream()
	}
	linked := d.Link("phone").Stream()
	if f := nextOf(linked, "consent"); f["redelivered"] != nil {
		t.Errorf("on another device that was not shown it: %v", f)
	}
	c.authorize(t) // fresh codes are news to both
	for _, s := range []*testkit.Stream{again, linked} {
		if f := nextOf(s, "consent"); f.Text("id") != rid || f["redelivered"] != nil {
			t.Errorf("fresh codes: %v", f)
		}
	}
	decide(d, rid, "deny")
	for _, s := range []*testkit.Stream{again, linked} {
		if f := nextOf(s, "consent_resolved"); f.Text("id") != rid || f.Text("status") != "denied" {
			t.Errorf("resolved: %v", f)
		}
	}
}

func TestConnectorsAreListedAndRevoked(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d, stranger := r.Pair("one"), r.Pair("two")
	if a := d.Call("GET", "/v1/device/connectors", nil); string(a.Raw) != `{"connectors":[]}` {
		t.Errorf("none yet: %s", a.Raw)
	}
	static := d.Agent("static")
	c := register(t, r, nil)
	held := c.exchange(t, approved(t, d, c.authorize(t, "device", "1")))
	c.refresh(t, held.refresh)
	list := d.Call("GET", "/v1/device/connectors", nil).Body["connectors"].([]any)
	one := list[0].(map[string]any)
	if len(list) != 1 || one["name"] != "test-client" || one["displayName"] != "Test client" || one["clientId"] != c.id || one["scope"] != "notify" || one["tokens"] != 2.0 {
		t.Errorf("%v", list)
	}
	id := one["id"].(string)
	for name, tc := range map[string]struct {
		by     *testkit.Device
		id     string
		status int
	}{
		"another mailbox's": {stranger, id, 404}, "unknown": {d, "00000000", 404}, "malformed": {d, "x", 404}, "a static key": {d, static.ID, 404},
	} {
		if a := tc.by.Call("DELETE", "/v1/device/connectors/"+tc.id, nil); a.Status != tc.status {
			t.Errorf("%s: %d %s", name, a.Status, a.Raw)
		}
	}
	for range 2 { // repeating it succeeds
		if a := d.Call("DELETE", "/v1/device/connectors/"+id, nil); a.Status != 200 || a.Body["revoked"] != true || a.Text("id") != id {
			t.Errorf("revoke: %d %s", a.Status, a.Raw)
		}
	}
	if works(r, held.access) || c.refresh(t, held.refresh).Status != 400 {
		t.Error("its tokens still work")
	}
	if a := d.Call("GET", "/v1/device/connectors", nil); string(a.Raw) != `{"connectors":[]}` {
		t.Errorf("afterwards: %s", a.Raw)
	}
}

func TestPurgingAConnectorsKeyEndsItsTokens(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("Mac")
		c, held := connected(t, d)
		key := d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)[0].(map[string]any)["id"].(string)
		if a := d.Call("DELETE", "/v1/device/keys/"+key+"?purge=1", nil); a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Raw)
		}
		if works(r, held.access) || c.refresh(t, held.refresh).Code() != "invalid_grant" {
			t.Error("its tokens still work")
		}
	})
}

func TestEveryDecisionIsWrittenDown(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	s := d.Stream()
	c := register(t, r, nil)
	decide(d, c.authorize(t, "state", "1"), "deny")
	superseded := c.authorize(t, "state", "2")
	rid := c.authorize(t, "state", "3")
	code := ""
	for code == "" {
		if f := nextOf(s, "consent"); f.Text("id") == rid {
			code = f.Text("code")
		}
	}
	p := c.browse(t, "POST", "/authorize/code", values(nil, "rid", rid, "code", code))
	held := c.exchange(t, p.location.Query().Get("code"))
	c.post(t, "/revoke", values(nil, "client_id", c.id, "token", held.refresh))

	a := d.Call("GET", "/v1/device/audit", nil)
	var got []string
	var by []any
	for _, e := range a.Body["entries"].([]any) {
		entry := e.(map[string]any)
		got = append(got, entry["action"].(string))
		by = append(by, entry["by"])
		if entry["clientId"] != c.id || entry["clientName"] != "Test client" || entry["deviceId"] != d.Mailbox || entry["at"] == nil {
			t.Errorf("entry %v", entry)
		}
	}
	if diff := cmp.Diff([]string{"revoked", "approved", "superseded", "denied"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if by[0] != "client" || by[1] != "page" || by[2] != "relay" || len(by[3].(string)) != 16 {
		t.Errorf("by %v", by)
	}
	if a := r.Do("GET", "/authorize/status?rid="+superseded, "", nil); a.Text("status") != "superseded" {
		t.Errorf("status: %s", a.Raw)
	}
	if strings.Contains(string(a.Raw), code) || strings.Contains(string(a.Raw), held.access) {
		t.Error("a secret is in the log")
	}
	for i, query := range []string{"", "?purge=1"} { // by the keys' own route, too
		c.exchange(t, approved(t, d, c.authorize(t, "state", "keys"+query)))
		list := d.Call("GET", "/v1/device/connectors", nil).Body["connectors"].([]any)
		d.Call("DELETE", "/v1/device/keys/"+list[0].(map[string]any)["id"].(string)+query, nil)
		entries := d.Call("GET", "/v1/device/audit", nil).Body["entries"].([]any)
		last := entries[0].(map[string]any)
		if len(entries) != 6+2*i || last["action"] != "revoked" || len(last["by"].(string)) != 16 {
			t.Errorf("after DELETE %s: %d entries, last %v", query, len(entries), last)
		}
	}
	first := d.Call("GET", "/v1/device/audit?limit=1", nil).Body["entries"].([]any)
	if len(first) != 1 {
		t.Errorf("limit=1: %v", first)
	}
	for _, bad := range []string{"limit=0", "limit=x", "before=yesterday"} {
		if a := d.Call("GET", "/v1/device/audit?"+bad, nil); a.Status != 400 {
			t.Errorf("%s: %d", bad, a.Status)
		}
	}
}
