package app_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
)

// spoken is a question answered by voice.
func spoken(d *testkit.Device, agent *testkit.Agent) asked {
	d.T.Helper()
	q := ask(d, agent)
	if a := d.Call("PUT", "/v1/device/reply/"+q.relay+"/audio", []byte(clip), "Content-Type", "audio/mp4"); a.Status != 200 {
		d.T.Fatalf("upload: %d %s", a.Status, a.Raw)
	}
	q.report(map[string]any{"kind": "replied", "transcript": "yes"})
	return q
}

func TestALinkToAClipIsItsOwnCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		q := spoken(d, d.Agent("bot"))
		link := func() string {
			full := q.Call("GET", "/v1/receipts/"+q.id, nil).Text("audioUrl")
			path, found := strings.CutPrefix(full, r.URL)
			if !found {
				t.Fatalf("the link is %q", full)
			}
			return path
		}
		first := link()
		fetch := func(path string, when string) {
			t.Helper()
			a := r.Do("GET", path, "", nil)
			if a.Status != 200 || string(a.Raw) != clip {
				t.Errorf("%s: %d %q", when, a.Status, a.Raw)
			}
			for name, want := range map[string]string{
				"Content-Type": "audio/mp4", "Cache-Control": "private, no-store", "Content-Length": "17", "X-Content-Type-Options": "nosniff",
			} {
				if got := a.Header.Get(name); got != want {
					t.Errorf("%s: %s = %q, want %q", when, name, got, want)
				}
			}
		}
		fetch(first, "at once")
		fetch(first, "a second time")
		if a := r.Do("GET", first, "hrk_junk", nil); a.Status != 200 {
			t.Errorf("with a credential that nobody asked for: %d %s", a.Status, a.Raw)
		}
		if a := r.Do("HEAD", first, "", nil); a.Status != 200 || len(a.Raw) != 0 || a.Header.Get("Content-Length") != "17" {
			t.Errorf("HEAD: %d %v", a.Status, a.Header)
		}
		wantRefusal(t, r.Do("POST", first, "", nil), 405, "method_not_allowed")

		time.Sleep(30 * time.Minute)
		second := link() // a new one on each read
		time.Sleep(30 * time.Minute)
		fetch(first, "3600 seconds after its read")
		time.Sleep(time.Second)
		wantRefusal(t, r.Do("GET", first, "", nil), 410, "expired")
		fetch(second, "the later one")
		time.Sleep(30 * time.Minute)
		wantRefusal(t, r.Do("GET", second, "", nil), 410, "expired")

		// The clip outlives the notification, for a week.
		week := clipLink(d.Mailbox, q.relay, time.Now().Add(30*24*time.Hour))
		time.Sleep(7*24*time.Hour - 2*time.Hour)
		fetch(week, "almost a week later")
		time.Sleep(time.Hour)
		wantRefusal(t, r.Do("GET", week, "", nil), 404, "not_found")
	})
}

// TestLinksToClipsAreJudgedInOrder holds the contract's section 2.8: shape, expiry, signature, file.
func TestLinksToClipsAreJudgedInOrder(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	q, mute := spoken(d, d.Agent("bot")), ask(d, d.Agent("other"))
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour) // far enough for the slowest machine
	good, old := clipLink(d.Mailbox, q.relay, future), clipLink(d.Mailbox, q.relay, past)
	path, query, _ := strings.Cut(good, "?")
	exp, sig, _ := strings.Cut(query, "&")
	swapped := strings.Replace(clipLink(d.Mailbox, mute.relay, future), mute.relay, q.relay, 1)
	tests := map[string]struct {
		path   string
		status int
		code   string
	}{
		"a good link":                            {good, 200, ""},
		"another file name":                      {strings.Replace(old, ".m4a", ".mp4", 1), 404, "not_found"},
		"no file name":                           {strings.Replace(old, ".m4a", "", 1), 404, "not_found"},
		"an id too short":                        {strings.Replace(old, q.relay, q.relay[:25], 1), 404, "not_found"},
		"an id in capitals":                      {strings.Replace(old, q.relay, strings.ToUpper(q.relay), 1), 404, "not_found"},
		"the agent's id":                         {strings.Replace(old, q.relay, "n_"+q.relay[2:], 1), 404, "not_found"},
		"a mailbox too short":                    {strings.Replace(old, d.Mailbox, d.Mailbox[1:], 1), 404, "not_found"},
		"a mailbox with a way out":               {"/v1/audio/..%2f" + d.Mailbox + "/" + q.relay + ".m4a?" + query, 404, "not_found"},
		"a file with a way out":                  {"/v1/audio/" + d.Mailbox + "/..%2f..%2fherald.db?" + query, 404, "not_found"},
		"a path too long":                        {strings.Replace(good, "/v1/audio/", "/v1/audio/x/", 1), 404, "not_found"},
		"expired":                                {old, 410, "expired"},
		"expired, with a bad signature":          {old + "0", 410, "expired"},
		"no expiry":                              {path + "?" + sig, 410, "expired"},
		"an empty expiry":                        {path + "?exp=&" + sig, 410, "expired"},
		"an expiry of junk":                      {path + "?exp=tomorrow&" + sig, 410, "expired"},
		"an expiry beyond every number":          {path + "?exp=99999999999999999999&" + sig, 410, "expired"},
		"a negative expiry":                      {path + "?exp=-1&" + sig, 410, "expired"},
		"nothing to judge":                       {path, 410, "expired"},
		"a bad signature":                        {good[:len(good)-1] + otherHex(good), 403, "forbidden"},
		"a cut signature":                        {good[:len(good)-1], 403, "forbidden"},
		"a signature in capitals":                {path + "?" + exp + "&sig=" + strings.ToUpper(strings.TrimPrefix(sig, "sig=")), 403, "forbidden"},
		"no signature":                           {path + "?" + exp, 403, "forbidden"},
		"a longer life than was signed":          {path + "?" + exp + "0&" + sig, 403, "forbidden"},
		"the same expiry in another spelling":    {path + "?exp=%2b" + strings.TrimPrefix(exp, "exp=") + "&" + sig, 403, "forbidden"},
		"another notification's signature":       {swapped, 403, "forbidden"},
		"another mailbox's signature":            {strings.Replace(good, d.Mailbox, r.Pair("phone").Mailbox, 1), 403, "forbidden"},
		"a notification without a clip":          {clipLink(d.Mailbox, mute.relay, future), 404, "not_found"},
		"a notification that never was":          {clipLink(d.Mailbox, "r_0123456789abcdef01234567", future), 404, "not_found"},
		"the first of two signatures counts":     {path + "?" + exp + "&sig=0&" + sig, 403, "forbidden"},
		"members of the query that nobody knows": {good + "&x=1", 200, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := r.Do("GET", test.path, "", nil)
			if test.status != 200 {
				wantRefusal(t, a, test.status, test.code)
			} else if a.Status != 200 || string(a.Raw) != clip {
				t.Errorf("answer = %d %q", a.Status, a.Raw)
			}
		})
	}
}

// otherHex is a digit that s does not end with.
func otherHex(s string) string {
	if s[len(s)-1] == '0' {
		return "1"
	}
	return "0"
}
