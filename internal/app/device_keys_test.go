package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/testkit"
)

func makeKey(d *testkit.Device, body string) testkit.Answer {
	d.T.Helper()
	return d.Call("POST", "/v1/device/keys", body)
}

func TestAKeyIsShownOnceAndListedWithoutItsSecret(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	devOK(t, d.Call("GET", "/v1/device/keys", nil), 200, `{"keys":[]}`)
	made := makeKey(d, `{"name":"build-bot","client":"claude"}`)
	devOK(t, made, 201, `{"id":"<hex8>","name":"build-bot","client":"claude","scope":"notify","kind":"static",`+
		`"key":"hrk_`+d.Mailbox+`_`+made.Text("id")+`_<hex64>","createdAt":"<time>"}`)
	agent := &testkit.Agent{Relay: r, ID: made.Text("id"), Token: made.Text("key")}
	entry := `{"id":"` + agent.ID + `","name":"build-bot","client":"claude","scope":"notify","kind":"static","createdAt":"<time>"`
	devOK(t, d.Call("GET", "/v1/device/keys", nil), 200, `{"keys":[`+entry+`}]}`)
	agent.Send(map[string]any{"title": "x"})
	devOK(t, d.Call("GET", "/v1/device/keys", nil), 200, `{"keys":[`+entry+`,"lastUsedAt":"<time>"}]}`)
	devOK(t, d.Call("DELETE", "/v1/device/keys/"+agent.ID, nil), 200, `{"revoked":true,"id":"`+agent.ID+`"}`)
	devOK(t, d.Call("GET", "/v1/device/keys", nil), 200, `{"keys":[`+entry+`,"lastUsedAt":"<time>","revokedAt":"<time>"}]}`)
}

func TestKeysAreListedOldestFirstRevokedIncluded(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	var ids []string
	for i := range 5 {
		made := makeKey(d, fmt.Sprintf(`{"name":"key-%d"}`, 9-i))
		ids = append(ids, made.Text("id"))
	}
	d.Call("DELETE", "/v1/device/keys/"+ids[1], nil)
	list, _ := d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)
	for i, entry := range list {
		e, _ := entry.(map[string]any)
		if e["id"] != ids[i] || (e["revokedAt"] != nil) != (i == 1) {
			t.Errorf("place %d holds %v, want %s", i, e, ids[i])
		}
	}
	if len(list) != len(ids) {
		t.Errorf("%d keys are listed, want %d", len(list), len(ids))
	}
}

func TestWhatAKeyMayBeCalled(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	longest := strings.Repeat("a", 32)
	for _, test := range []struct{ name, body, want, client string }{
		{"a digit first", `{"name":"7"}`, "7", "other"},
		{"dashes", `{"name":"a-b--c-"}`, "a-b--c-", "other"},
		{"32 characters", `{"name":"` + longest + `"}`, longest, "other"},
		{"trimmed and lower-cased", `{"name":"  Build-Bot\n","client":"codex"}`, "build-bot", "codex"},
		{"client other", `{"name":"x","client":"other"}`, "x", "other"},
		{"client null", `{"name":"y","client":null}`, "y", "other"},
		{"scope notify", `{"name":"z","scope":"notify"}`, "z", "other"},
		{"scope null", `{"name":"w","scope":null}`, "w", "other"},
	} {
		made := makeKey(d, test.body)
		if made.Status != 201 || made.Text("name") != test.want || made.Text("client") != test.client {
			t.Errorf("%s: %d %s", test.name, made.Status, made.Raw)
		}
	}
	name, client := `"fields":["name"]`, `"fields":["client"]`
	for _, test := range []struct{ what, body, code, more string }{
		{"not JSON", `build-bot`, "invalid_request", ""},
		{"no body", ``, "invalid_request", ""},
		{"an array", `["build-bot"]`, "invalid_request", ""},
		{"the name twice", `{"name":"a","name":"b"}`, "invalid_request", name},
		{"the name in other case", `{"Name":"a"}`, "invalid_request", `"fields":["Name"]`},
		{"no name", `{}`, "invalid_request", name},
		{"an empty name", `{"name":" "}`, "invalid_request", name},
		{"a number", `{"name":7}`, "invalid_request", name},
		{"33 characters", `{"name":"` + longest + `a"}`, "invalid_request", name},
		{"a dash first", `{"name":"-a"}`, "invalid_request", name},
		{"an underscore", `{"name":"a_b"}`, "invalid_request", name},
		{"a blank inside", `{"name":"a b"}`, "invalid_request", name},
		{"a line break inside", `{"name":"a\nb"}`, "invalid_request", name},
		{"letters beyond ASCII", `{"name":"grüße"}`, "invalid_request", name},
		{"a letter whose lower case is ASCII", `{"name":"\u212a"}`, "", ""}, // the Kelvin sign is a k
		{"another client", `{"name":"a","client":"gpt"}`, "invalid_request", client},
		{"a client in capitals", `{"name":"a","client":"Claude"}`, "invalid_request", client},
		{"a client that is no string", `{"name":"a","client":["claude"]}`, "invalid_request", client},
		{"another scope", `{"name":"a","scope":"admin"}`, "scope_not_allowed", ""},
		{"two scopes", `{"name":"a","scope":"notify admin"}`, "scope_not_allowed", ""},
		{"scopes in a list", `{"name":"a","scope":["notify"]}`, "scope_not_allowed", ""},
		{"an empty scope", `{"name":"a","scope":""}`, "scope_not_allowed", ""},
		{"other fields", `{"name":"a","kind":"oauth","key":"hrk_x"}`, "forbidden_fields", `"fields":["kind","key"]`},
		// Each is wrong in two ways; the first in the order of section 6.6 is told.
		{"JSON before fields", `{"kind":"oauth"} x`, "invalid_request", ""},
		{"fields before scope", `{"name":"a","scope":"admin","ttl":1}`, "forbidden_fields", `"fields":["ttl"]`},
		{"scope before name", `{"name":"-","scope":"admin"}`, "scope_not_allowed", ""},
		{"scope before a name of the wrong type", `{"name":7,"scope":"admin"}`, "scope_not_allowed", ""},
		{"name before client", `{"name":"-","client":"gpt"}`, "invalid_request", name},
		{"client before taken", `{"name":"build-bot","client":"gpt"}`, "invalid_request", client},
	} {
		t.Run(test.what, func(t *testing.T) {
			a := makeKey(d, test.body)
			switch {
			case test.code == "":
				if a.Status != 201 || a.Text("name") != "k" {
					t.Errorf("answer = %d %s", a.Status, a.Raw)
				}
			case test.more == "":
				devRefused(t, a, 400, test.code)
			default:
				devRefused(t, a, 400, test.code, test.more)
			}
		})
	}
	devRefused(t, d.Call("POST", "/v1/device/keys", `{"name":"a"}`, "Content-Type", "text/plain"), 415, "unsupported_media_type")
}

func TestANameIsTakenByActiveKeysOfTheMailboxAlone(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d, other := r.Pair("laptop"), r.Pair("other")
	first := makeKey(d, `{"name":"bot"}`)
	devRefused(t, makeKey(d, `{"name":" BOT "}`), 409, "name_taken")
	if got := makeKey(other, `{"name":"bot"}`); got.Status != 201 {
		t.Errorf("another mailbox's key of that name: %d %s", got.Status, got.Raw)
	}
	d.Call("DELETE", "/v1/device/keys/"+first.Text("id"), nil)
	second := makeKey(d, `{"name":"bot"}`)
	if second.Status != 201 || second.Text("id") == first.Text("id") {
		t.Errorf("after the revocation: %d %s", second.Status, second.Raw)
	}
	devRefused(t, makeKey(d, `{"name":"bot"}`), 409, "name_taken")
}

func TestAMailboxHasTwentyActiveKeys(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	phone := d.Link("phone")
	var ids []string
	for i := range 20 {
		made := makeKey([]*testkit.Device{d, phone}[i%2], fmt.Sprintf(`{"name":"key-%d"}`, i))
		if made.Status != 201 {
			t.Fatalf("key %d: %d %s", i, made.Status, made.Raw)
		}
		ids = append(ids, made.Text("id"))
	}
	a := makeKey(d, `{"name":"one-more"}`)
	devRefused(t, a, 429, "too_many_keys")
	devRetryAfter(t, a, "")
	devRefused(t, makeKey(phone, `{"name":"key-3"}`), 409, "name_taken") // taken comes before too many
	if got := d.Call("GET", "/v1/device/info", nil).Body["keys"]; got != 20.0 {
		t.Errorf("keys = %v, want 20", got)
	}
	d.Call("DELETE", "/v1/device/keys/"+ids[7], nil)
	if got := d.Call("GET", "/v1/device/info", nil).Body["keys"]; got != 19.0 {
		t.Errorf("keys = %v, want the active 19", got)
	}
	if a := makeKey(d, `{"name":"one-more"}`); a.Status != 201 {
		t.Errorf("after a revocation: %d %s", a.Status, a.Raw)
	}
	devRefused(t, makeKey(d, `{"name":"key-7"}`), 429, "too_many_keys")
}

// Twenty requests at once make no twenty-first key.
func TestKeysThatAreMadeAtOnceKeepTheLimit(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	statuses := make(chan int)
	const tries = 40
	for i := range tries {
		go func() {
			a, err := r.Try(t.Context(), "POST", "/v1/device/keys", d.Token, map[string]any{"name": fmt.Sprint("key-", i)})
			if err != nil {
				t.Error(err)
			}
			statuses <- a.Status
		}()
	}
	counts := map[int]int{}
	for range tries {
		counts[<-statuses]++
	}
	if counts[201] != 20 || counts[429] != 20 {
		t.Errorf("answers = %v, want 20 keys and 20 refusals", counts)
	}
}

func TestARevokedKeyDiesAtOnceAndStaysListed(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent, other := d.Agent("bot"), d.Agent("other")
	agentID := agent.Send(map[string]any{"title": "sent before"})
	devOK(t, d.Call("DELETE", "/v1/device/keys/"+agent.ID, nil), 200, `{"revoked":true,"id":"`+agent.ID+`"}`)
	for _, route := range []string{"POST /v1/notify", "GET /v1/receipts/" + agentID, "GET /v1/replies/" + agentID, "GET /v1/status"} {
		method, path, _ := strings.Cut(route, " ")
		devRefused(t, agent.Call(method, path, map[string]any{"title": "x"}), 401, "unauthorized")
	}
	other.Send(map[string]any{"title": "the other works"})

	// What it had sent is still delivered, under its name.
	s := d.Stream()
	devMatch(t, "frame", []byte(devRaw(s)), `{"type":"notify","id":"<r>","notificationId":"`+agentID+`","createdAt":"<time>",`+
		`"key":{"id":"`+agent.ID+`","name":"bot","client":"other"},"payload":{"title":"sent before","expectReply":false}}`)

	before := d.Call("GET", "/v1/device/keys", nil)
	devOK(t, d.Call("DELETE", "/v1/device/keys/"+agent.ID, nil), 200, `{"revoked":true,"id":"`+agent.ID+`"}`)
	if after := d.Call("GET", "/v1/device/keys", nil); string(after.Raw) != string(before.Raw) {
		t.Errorf("revoking again changed the list:\n%s\n%s", before.Raw, after.Raw)
	}
	devRefused(t, d.Call("DELETE", "/v1/device/keys/00000000", nil), 404, "not_found")
	stranger := r.Pair("stranger")
	devRefused(t, stranger.Call("DELETE", "/v1/device/keys/"+other.ID, nil), 404, "not_found")
	other.Send(map[string]any{"title": "still works"})
}

// A wait that began before the revocation must neither go on nor tell the answer.
func TestARevokedKeysWaitEndsAtOnce(t *testing.T) {
	t.Parallel()
	ends := map[string]func(d *testkit.Device, agent *testkit.Agent){
		"revoked":  func(d *testkit.Device, a *testkit.Agent) { d.Call("DELETE", "/v1/device/keys/"+a.ID, nil) },
		"purged":   func(d *testkit.Device, a *testkit.Agent) { d.Call("DELETE", "/v1/device/keys/"+a.ID+"?purge=1", nil) },
		"unpaired": func(d *testkit.Device, _ *testkit.Agent) { d.Call("DELETE", "/v1/device", nil) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := testkit.New(t, testkit.Options{Pipes: true})
				d := r.Pair("laptop")
				agent, other := d.Agent("bot"), d.Agent("other")
				agentID, otherID := agent.Send(map[string]any{"title": "x"}), other.Send(map[string]any{"title": "y"})
				start := time.Now()
				wait := func(a *testkit.Agent, id string, into chan<- testkit.Answer) {
					answer, err := r.Try(t.Context(), "GET", "/v1/replies/"+id+"?wait=50", a.Token, nil)
					if err != nil {
						t.Error(err)
					}
					into <- answer
				}
				ended, others := make(chan testkit.Answer, 1), make(chan testkit.Answer, 1)
				go wait(agent, agentID, ended)
				go wait(other, otherID, others)
				time.Sleep(7 * time.Second)
				end(d, agent)
				devRefused(t, <-ended, 401, "unauthorized")
				if waited := time.Since(start); waited != 7*time.Second {
					t.Errorf("the wait ended after %s, want at once", waited)
				}
				if got := <-others; name != "unpaired" && got.Body["timedOut"] != true {
					t.Errorf("another key's wait ended with %d %s", got.Status, got.Raw)
				}
			})
		})
	}
}

func TestPurgingAKeyRemovesItWithAllItSent(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent, other := d.Agent("bot"), d.Agent("other")
	for range 3 {
		agent.Send(map[string]any{"title": "purged"})
	}
	kept := other.Send(map[string]any{"title": "kept"})
	devOK(t, d.Call("DELETE", "/v1/device/keys/"+agent.ID+"?purge=1", nil), 200, `{"revoked":true,"id":"`+agent.ID+`","purged":true}`)
	devOK(t, d.Call("GET", "/v1/device/keys", nil), 200,
		`{"keys":[{"id":"`+other.ID+`","name":"other","client":"other","scope":"notify","kind":"static","createdAt":"<time>","lastUsedAt":"<time>"}]}`)
	devRefused(t, agent.Call("GET", "/v1/status", nil), 401, "unauthorized")
	s := d.Stream()
	if f := s.Next(); f.Text("notificationId") != kept {
		t.Errorf("frame = %v, want %s", f, kept)
	}
	devSettle(s)
	if got := d.Call("GET", "/v1/device/info", nil); got.Body["pending"] != 1.0 || got.Body["keys"] != 1.0 {
		t.Errorf("info = %s", got.Raw)
	}
	devRefused(t, d.Call("DELETE", "/v1/device/keys/"+agent.ID+"?purge=1", nil), 404, "not_found")

	// A revoked key can be purged later. Only purge=1 means it.
	d.Call("DELETE", "/v1/device/keys/"+other.ID+"?purge=true", nil)
	if got := d.Call("GET", "/v1/device/keys", nil); !strings.Contains(string(got.Raw), other.ID) {
		t.Errorf("keys = %s, want the revoked one", got.Raw)
	}
	devOK(t, d.Call("DELETE", "/v1/device/keys/"+other.ID+"?purge=1", nil), 200, `{"revoked":true,"id":"`+other.ID+`","purged":true}`)
	devOK(t, d.Call("GET", "/v1/device/keys", nil), 200, `{"keys":[]}`)
}

// beforeUpdate runs something once, just before a request's next Update that it is armed for; the relay's own
// housekeeping passes.
type beforeUpdate struct {
	store.Store
	armed atomic.Pointer[func()]
}

func (b *beforeUpdate) Update(ctx context.Context, fn func(store.Tx) error) error {
	if ctx.Value(http.ServerContextKey) != nil {
		if do := b.armed.Swap(nil); do != nil {
			(*do)()
		}
	}
	return b.Store.Update(ctx, fn)
}

// A key can be purged after its request was proven and before it is carried out: it queues nothing any more.
func TestAKeyThatIsPurgedMeanwhileQueuesNothing(t *testing.T) {
	t.Parallel()
	var gate *beforeUpdate
	r := testkit.New(t, testkit.Options{Wrap: func(s store.Store) store.Store {
		gate = &beforeUpdate{Store: s}
		return gate
	}})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	agent.Call("GET", "/v1/status", nil) // its lastUsedAt is fresh: the next Update is the notification's
	purge := func() {
		m, _ := relay.ParseMailboxID(d.Mailbox)
		k, _ := relay.ParseKeyID(agent.ID)
		if err := gate.Store.Update(t.Context(), func(tx store.Tx) error { return tx.Keys().Purge(m, k) }); err != nil {
			t.Error(err)
		}
	}
	gate.armed.Store(&purge)
	devRefused(t, agent.Call("POST", "/v1/notify", map[string]any{"title": "late"}), 401, "unauthorized")
	if n := pending(d); n != 0 {
		t.Errorf("%v notifications wait, want none", n)
	}
}

// Nothing outlives its key today. Should something do, from a database of other times, its sender is unknown.
func TestANotificationWhoseKeyIsGoneHasAnUnknownSender(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := testkit.New(t, testkit.Options{Dir: dir})
	d := r.Pair("laptop")
	r.Stop()
	m, _ := relay.ParseMailboxID(d.Mailbox)
	n := relay.Notification{
		ID: relay.NewNotificationID(time.Now()), Mailbox: m, Key: "0a1b2c3d", AgentID: "late",
		CreatedAt: time.Now(), Payload: []byte(`{"title":"late","expectReply":false}`),
	}
	inStore(t, dir, func(tx store.Tx) error { return tx.Notifications().Insert(&n, n.CreatedAt.Add(-time.Hour)) })
	d.Relay = testkit.New(t, testkit.Options{Dir: dir})
	devMatch(t, "frame", []byte(devRaw(d.Stream())), `{"type":"notify","id":"`+string(n.ID)+`","notificationId":"late","createdAt":"<time>",`+
		`"key":{"id":"0a1b2c3d","name":"unknown","client":"other"},"payload":{"title":"late","expectReply":false}}`)
}

func TestLastUsedAtIsRewrittenEveryTenMinutesAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		lastUsed := func() string {
			list, _ := d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)
			entry, _ := list[0].(map[string]any)
			at, _ := entry["lastUsedAt"].(string)
			return at
		}
		if got := lastUsed(); got != "" {
			t.Errorf("lastUsedAt = %q of a key that was never used", got)
		}
		time.Sleep(time.Minute)
		first := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
		for _, wait := range []time.Duration{0, 5 * time.Minute, 5*time.Minute - time.Millisecond} {
			time.Sleep(wait)
			agent.Call("GET", "/v1/status", nil)
			if got := lastUsed(); got != first {
				t.Errorf("lastUsedAt = %s, want %s for ten minutes", got, first)
			}
		}
		time.Sleep(time.Millisecond)
		agent.Call("GET", "/v1/status", nil)
		if got, want := lastUsed(), time.Now().UTC().Format("2006-01-02T15:04:05.000Z"); got != want {
			t.Errorf("lastUsedAt = %s after ten minutes, want it rewritten to %s", got, want)
		}
	})
}
