package app_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/testkit"
)

// agentRoutes are the routes that an agent's credential opens.
var agentRoutes = []struct{ method, path string }{
	{"POST", "/v1/notify"}, {"GET", "/v1/receipts/n_1"}, {"GET", "/v1/replies/n_1"}, {"GET", "/v1/status"},
}

// counting counts the transactions of a store.
type counting struct {
	store.Store
	calls *atomic.Int64
}

func (c counting) View(ctx context.Context, fn func(store.Tx) error) error {
	c.calls.Add(1)
	return c.Store.View(ctx, fn)
}

func (c counting) Update(ctx context.Context, fn func(store.Tx) error) error {
	c.calls.Add(1)
	return c.Store.Update(ctx, fn)
}

// addKey puts a key into the store that no route would make.
func addKey(t *testing.T, st store.Store, mailbox string, kind, scope string) (token string) {
	t.Helper()
	m := relay.MailboxID(mailbox)
	token, id, hash := credential.MintAgentKey(m)
	err := st.Update(t.Context(), func(tx store.Tx) error {
		return tx.Keys().Create(relay.Key{
			ID: id, Mailbox: m, Hash: hash, Name: kind + "-" + scope, Client: "other", Scope: scope, Kind: kind, CreatedAt: time.Now(),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// otherDigit changes the digit of s at i into another one.
func otherDigit(s string, i int) string {
	digit := "0"
	if s[i] == '0' {
		digit = "1"
	}
	return s[:i] + digit + s[i+1:]
}

// TestCredentialsOfAgentsAreJudgedInOrder holds the contract's section 1: shape, signature of the mailbox, kind, secret
// and revocation, scope. Each row fails one check and, where it can, a later one too.
func TestCredentialsOfAgentsAreJudgedInOrder(t *testing.T) {
	t.Parallel()
	var st store.Store
	r := testkit.New(t, testkit.Options{Wrap: func(s store.Store) store.Store { st = s; return s }})
	d := r.Pair("laptop")
	key := d.Agent("bot").Token
	revoked, purged := d.Agent("revoked"), d.Agent("purged")
	d.Call("DELETE", "/v1/device/keys/"+revoked.ID, nil)
	d.Call("DELETE", "/v1/device/keys/"+purged.ID+"?purge=1", nil)
	secret := strings.Repeat("ab", 32)
	forged := otherDigit(d.Mailbox, 47)

	tests := map[string]struct {
		header string
		status int
		code   string
	}{
		"no credential":                         {"", 401, "unauthorized"},
		"no token":                              {"Bearer", 401, "unauthorized"},
		"another scheme":                        {"Basic " + key, 401, "unauthorized"},
		"no scheme":                             {key, 401, "unauthorized"},
		"two tokens":                            {"Bearer " + key + " " + key, 401, "unauthorized"},
		"two tokens with a comma":               {"Bearer " + key + ", Bearer " + key, 401, "unauthorized"},
		"a malformed token":                     {"Bearer hrk_abc", 401, "unauthorized"},
		"a token in capitals":                   {"Bearer " + strings.ToUpper(key), 401, "unauthorized"},
		"a token with a digit too many":         {"Bearer " + key + "0", 401, "unauthorized"},
		"a refresh token":                       {"Bearer hrr_" + d.Mailbox + "_" + secret, 401, "unauthorized"},
		"an authorization code":                 {"Bearer hrc_" + d.Mailbox + "_" + secret, 401, "unauthorized"},
		"a device code":                         {"Bearer hrv_" + d.Mailbox + "_" + secret, 401, "unauthorized"},
		"a malformed device token":              {"Bearer " + d.Token + "0", 401, "unauthorized"},
		"a forged mailbox":                      {"Bearer " + strings.Replace(key, d.Mailbox, forged, 1), 401, "unauthorized"},
		"a forged mailbox of the wrong kind":    {"Bearer " + strings.Replace(d.Token, d.Mailbox, forged, 1), 401, "unauthorized"},
		"a device token":                        {"Bearer " + d.Token, 403, "wrong_credential"},
		"a device token with an unknown secret": {"Bearer hrd_" + d.Mailbox + "_" + secret, 403, "wrong_credential"},
		"an unknown secret":                     {"Bearer " + otherDigit(key, len(key)-1), 401, "unauthorized"},
		"an unknown key of the mailbox":         {"Bearer hrk_" + d.Mailbox + "_00000000_" + secret, 401, "unauthorized"},
		"an unknown access token":               {"Bearer hra_" + d.Mailbox + "_" + secret, 401, "unauthorized"},
		"a revoked key":                         {"Bearer " + revoked.Token, 401, "unauthorized"},
		"a purged key":                          {"Bearer " + purged.Token, 401, "unauthorized"},
		"a key whose row is a connector's":      {"Bearer " + addKey(t, st, d.Mailbox, relay.KindOAuth, "notify"), 401, "unauthorized"},
		"a connector's row without the scope":   {"Bearer " + addKey(t, st, d.Mailbox, relay.KindOAuth, "read"), 401, "unauthorized"},
		"a key without the scope notify":        {"Bearer " + addKey(t, st, d.Mailbox, relay.KindStatic, "read"), 403, "scope"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, route := range agentRoutes {
				wantRefusal(t, r.Do(route.method, route.path, "", map[string]any{"title": "x"}, "Authorization", test.header), test.status, test.code)
			}
		})
	}
}

func TestTheSchemeOfACredentialMayBeWrittenInAnyCase(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	key := r.Pair("laptop").Agent("bot").Token
	for _, header := range []string{"Bearer " + key, "bearer " + key, "BEARER " + key, "beARer  " + key, "Bearer " + key + " "} {
		if a := r.Do("GET", "/v1/status", "", nil, "Authorization", header); a.Status != 200 {
			t.Errorf("Authorization %.12q…: %d %s", header, a.Status, a.Raw)
		}
	}
}

// TestCase142TokensCountInTheHeaderOnly: a token in an address would end up in logs and histories.
func TestCase142TokensCountInTheHeaderOnly(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	key := r.Pair("laptop").Agent("bot").Token
	for _, query := range []string{"?token=", "?access_token=", "?authorization=Bearer%20", "?key="} {
		wantRefusal(t, r.Do("GET", "/v1/status"+query+key, "", nil), 401, "unauthorized")
	}
	wantRefusal(t, r.Do("GET", "/v1/status", "", nil, "Cookie", "token="+key), 401, "unauthorized")
	wantRefusal(t, r.Do("GET", "/v1/status", "", nil, "X-Api-Key", key), 401, "unauthorized")
	form := r.Do("POST", "/v1/notify", "", "access_token="+key, "Content-Type", "application/x-www-form-urlencoded")
	wantRefusal(t, form, 401, "unauthorized")
}

func TestAnAgentsCredentialOpensNoDeviceRoute(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	agent := r.Pair("laptop").Agent("bot")
	access := "hra_" + agent.Token[4:52] + "_" + strings.Repeat("ab", 32)
	for _, route := range []struct{ method, path string }{
		{"GET", "/v1/device/stream"}, {"POST", "/v1/device/receipt"}, {"POST", "/v1/device/reply"}, {"PUT", "/v1/device/reply/r_0/audio"},
		{"GET", "/v1/device/keys"}, {"POST", "/v1/device/keys"}, {"DELETE", "/v1/device/keys/00000000"}, {"GET", "/v1/device/info"},
		{"GET", "/v1/device/usage"}, {"DELETE", "/v1/device"}, {"GET", "/v1/device/nothing"},
	} {
		wantRefusal(t, r.Do(route.method, route.path, agent.Token, nil), 403, "wrong_credential")
		wantRefusal(t, r.Do(route.method, route.path, access, nil), 403, "wrong_credential")
	}
}

func TestForgedMailboxesNeverReachTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		r := testkit.New(t, testkit.Options{Pipes: true, Wrap: func(s store.Store) store.Store { return counting{s, &calls} }})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		synctest.Wait() // the sweeper has made its first round
		before := calls.Load()
		for i := range d.Mailbox {
			forged := strings.Replace(agent.Token, d.Mailbox, otherDigit(d.Mailbox, i), 1)
			wantRefusal(t, r.Do("POST", "/v1/notify", forged, map[string]any{"title": "x"}), 401, "unauthorized")
		}
		if n := calls.Load() - before; n != 0 {
			t.Errorf("%d transactions were made for forged credentials", n)
		}
		agent.Send(map[string]any{"title": "x"})
		if calls.Load() == before {
			t.Error("the store is not watched")
		}
	})
}

func TestAnAgentSeesOnlyWhatItSentItself(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	sender, neighbour, stranger := d.Agent("sender"), d.Agent("neighbour"), r.Pair("phone").Agent("stranger")
	made, own := sender.Send(map[string]any{"title": "x"}), sender.Send(map[string]any{"title": "x", "notificationId": "mine"})
	for _, id := range []string{made, own} {
		for _, path := range []string{"/v1/receipts/", "/v1/replies/"} {
			if a := sender.Call("GET", path+id, nil); a.Status != 200 || a.Text("notificationId") != id {
				t.Errorf("the sender reads %s%s: %d %s", path, id, a.Status, a.Raw)
			}
			wantRefusal(t, neighbour.Call("GET", path+id, nil), 404, "not_found")
			wantRefusal(t, stranger.Call("GET", path+id, nil), 404, "not_found")
		}
	}
	// The same id is another notification for another key.
	if a := neighbour.Call("POST", "/v1/notify", map[string]any{"title": "y", "notificationId": "mine"}); a.Status != 202 {
		t.Errorf("another key sends the same id: %d %s", a.Status, a.Raw)
	}
}

func TestLastUseIsWrittenEveryTenMinutesAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		lastUsed := func() string {
			keys, _ := d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)
			key, _ := keys[0].(map[string]any)
			s, _ := key["lastUsedAt"].(string)
			return s
		}
		if got := lastUsed(); got != "" {
			t.Errorf("a key that was never used was last used %s", got)
		}
		first := time.Now()
		for _, step := range []struct {
			wait time.Duration
			want time.Time
		}{
			{0, first},
			{5 * time.Minute, first},
			{5*time.Minute - time.Millisecond, first},
			{time.Millisecond, first.Add(10 * time.Minute)},
			{time.Minute, first.Add(10 * time.Minute)},
		} {
			time.Sleep(step.wait)
			agent.Call("GET", "/v1/status", nil)
			if got := lastUsed(); got != relay.Timestamp(step.want) {
				t.Errorf("after %s more: last used %s, want %s", step.wait, got, relay.Timestamp(step.want))
			}
		}
		time.Sleep(time.Hour)
		agent.Do("GET", "/v1/status", otherDigit(agent.Token, len(agent.Token)-1), nil)
		if got := lastUsed(); got != relay.Timestamp(first.Add(10*time.Minute)) {
			t.Errorf("a wrong secret counts as use, at %s", got)
		}
	})
}
