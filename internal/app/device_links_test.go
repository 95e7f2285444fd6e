package app_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
)

func TestTheOwnerLinksMoreDevices(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	owner := r.Pair("laptop")
	started := owner.Call("POST", "/v1/device/links", `{"deviceName":"phone"}`)
	devOK(t, started, 201, `{"code":"<code>","expiresInSeconds":600}`)
	paired := r.Do("POST", "/v1/pair", "", map[string]any{"code": started.Text("code")})
	devOK(t, paired, 200, `{"deviceId":"`+owner.Mailbox+`","deviceToken":"hrd_`+owner.Mailbox+`_<hex64>"}`)
	phone := &testkit.Device{Relay: r, Mailbox: owner.Mailbox, Token: paired.Text("deviceToken")}
	phone.Stream()
	const offline, online = `"online":false,"lastSeenAt":null`, `"online":true,"lastSeenAt":"<time>"`
	devOK(t, owner.Call("GET", "/v1/device/links", nil), 200, `{"links":[`+
		`{"id":"<hex16>","name":"laptop","owner":true,`+offline+`,"createdAt":"<time>","thisDevice":true},`+
		`{"id":"<hex16>","name":"phone","owner":false,`+online+`,"createdAt":"<time>","thisDevice":false}]}`)
	devOK(t, phone.Call("GET", "/v1/device/links", nil), 200, `{"links":[`+
		`{"id":"<hex16>","name":"laptop","owner":true,`+offline+`,"createdAt":"<time>","thisDevice":false},`+
		`{"id":"<hex16>","name":"phone","owner":false,`+online+`,"createdAt":"<time>","thisDevice":true}]}`)
	// Whatever of the mailbox is not ownership, a linked device may do.
	agent := phone.Agent("bot")
	devOK(t, owner.Call("DELETE", "/v1/device/keys/"+agent.ID, nil), 200, `{"revoked":true,"id":"`+agent.ID+`"}`)
}

func TestALinkCodeIsLikeAPairingCode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		owner := r.Pair("laptop")
		pair := func(body map[string]any) testkit.Answer { return r.Do("POST", "/v1/pair", "", body) }
		code := func(body any) string { return owner.Call("POST", "/v1/device/links", body).Text("code") }
		used := code(nil)
		if a := pair(map[string]any{"code": strings.ToLower(strings.ReplaceAll(used, "-", ""))}); a.Status != 200 {
			t.Errorf("without case and dash: %d %s", a.Status, a.Raw)
		}
		devRefused(t, pair(map[string]any{"code": used}), 403, "bad_code")
		late := code(nil)
		time.Sleep(10 * time.Minute)
		devRefused(t, pair(map[string]any{"code": late}), 403, "bad_code")
		for _, body := range []any{`not JSON`, `{"deviceName":7}`, `[]`, nil} { // as if there were no body
			if a := pair(map[string]any{"code": code(body), "deviceName": strings.Repeat("n", 61)}); a.Status != 200 {
				t.Errorf("body %v: %d %s", body, a.Status, a.Raw)
			}
			if got := owner.Call("GET", "/v1/device/links", nil); !strings.Contains(string(got.Raw), `"name":"`+strings.Repeat("n", 60)+`"`) {
				t.Errorf("links = %s, want the name cut to 60", got.Raw)
			}
		}
		devRefused(t, owner.Call("POST", "/v1/device/links", `{"deviceName":"a","deviceName":"b"}`), 400, "invalid_request", `"fields":["deviceName"]`)
	})
}

func TestLinkingIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	owner := r.Pair("laptop")
	phone, tablet := owner.Link("phone"), owner.Link("tablet")
	devRefused(t, phone.Call("POST", "/v1/device/links", nil), 403, "forbidden")
	devRefused(t, phone.Call("DELETE", "/v1/device/links/"+linkID(tablet), nil), 403, "forbidden")
	devRefused(t, phone.Call("DELETE", "/v1/device/links/"+linkID(phone), nil), 403, "forbidden")
	devRefused(t, phone.Call("DELETE", "/v1/device/links/0123456789abcdef", nil), 403, "forbidden")
	devRefused(t, owner.Call("DELETE", "/v1/device/links/"+linkID(owner), nil), 400, "invalid_request", `"fields":["linkId"]`)
	devRefused(t, owner.Call("DELETE", "/v1/device/links/0123456789abcdef", nil), 404, "not_found")
	stranger := r.Pair("stranger")
	devRefused(t, stranger.Call("DELETE", "/v1/device/links/"+linkID(tablet), nil), 404, "not_found")

	id := linkID(tablet)
	tablets, phones := tablet.Stream(), phone.Stream()
	devOK(t, owner.Call("DELETE", "/v1/device/links/"+id, nil), 200, `{"unlinked":true,"id":"`+id+`"}`)
	wantClosed(t, tablets, unpaired)
	devRefused(t, tablet.Call("GET", "/v1/device/info", nil), 401, "unauthorized")
	devSettle(phones)
	devRefused(t, owner.Call("DELETE", "/v1/device/links/"+id, nil), 404, "not_found")
}

func TestUnpairingOneLinkedDeviceLeavesTheMailbox(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	m := newShared(r)
	tablet := m.owner.Link("tablet")
	id := m.agent.Send(map[string]any{"title": "kept"})
	devOK(t, m.phone.Call("DELETE", "/v1/device", nil), 200, `{"unpaired":true}`)
	devRefused(t, m.phone.Call("GET", "/v1/device/info", nil), 401, "unauthorized")
	for _, d := range []*testkit.Device{m.owner, tablet} {
		s := d.Stream()
		if f := s.Next(); f.Text("notificationId") != id {
			t.Errorf("frame = %v, want %s", f, id)
		}
	}
	devReceipt(m.agent, id)
	if got := strings.Count(string(m.owner.Call("GET", "/v1/device/links", nil).Raw), `"id"`); got != 2 {
		t.Errorf("%d devices are linked, want 2", got)
	}
}

func TestADeviceLinkedUnderTheNameOfAnotherTakesItsPlace(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	owner := r.Pair("laptop")
	first, tablet, nameless := owner.Link("phone"), owner.Link("tablet"), owner.Link("")
	s := first.Stream()
	second := owner.Link("phone")
	wantClosed(t, s, unpaired)
	devRefused(t, first.Call("GET", "/v1/device/info", nil), 401, "unauthorized")
	owner.Link("")       // nameless ones never take a place (decision 36)
	owner.Link("laptop") // nor does a link take the owner's
	for _, d := range []*testkit.Device{owner, second, tablet, nameless} {
		if a := d.Call("GET", "/v1/device/info", nil); a.Status != 200 {
			t.Errorf("info: %d %s", a.Status, a.Raw)
		}
	}
}

func TestLinksAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		owner := r.Pair("laptop")
		for i := range 9 { // ten devices, the owner included
			owner.Link(fmt.Sprint("device ", i))
		}
		devRefused(t, owner.Call("POST", "/v1/device/links", `{"deviceName":"one more"}`), 403, "device_limit")
		replacement := owner.Link("device 3") // under a name that is there it is no eleventh
		replacement.Call("DELETE", "/v1/device", nil)

		// Two codes for the last place: the second finds it taken, and stays good for when there is room again.
		codes := []string{owner.Call("POST", "/v1/device/links", nil).Text("code"), owner.Call("POST", "/v1/device/links", nil).Text("code")}
		last := r.Redeem(codes[0], "")
		a := r.Do("POST", "/v1/pair", "", map[string]any{"code": codes[1]})
		devRefused(t, a, 403, "device_limit")
		last.Call("DELETE", "/v1/device", nil)
		r.Redeem(codes[1], "").Call("DELETE", "/v1/device", nil)

		for range 20 - 9 - 1 - 2 {
			owner.Call("POST", "/v1/device/links", nil)
		}
		a = owner.Call("POST", "/v1/device/links", nil)
		devRefused(t, a, 429, "rate_limited", `"retryAfterSeconds":3600`)
		devRetryAfter(t, a, "")
		r.Pair("another").Link("phone") // another mailbox counts for itself
		time.Sleep(time.Hour)
		owner.Link("an hour later")
	})
}

// Linking does not use up what pairing is allowed.
func TestLinkCodesAreNoWaitingPairingCodes(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	owner := r.Pair("laptop")
	for range 6 {
		if a := owner.Call("POST", "/v1/device/links", nil); a.Status != 201 {
			t.Errorf("link: %d %s", a.Status, a.Raw)
		}
	}
	r.Pair("other")
}
