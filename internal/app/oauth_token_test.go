package app_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/testkit"
)

const grantDevice = "urn:ietf:params:oauth:grant-type:device_code"

// works reports whether a token still opens the agent's door.
func works(r *testkit.Relay, token string) bool {
	r.T.Helper()
	a := r.Do("GET", "/v1/status", token, nil)
	if a.Status != 200 && (a.Status != 401 || a.Code() != "unauthorized") {
		r.T.Errorf("status with a token: %d %s", a.Status, a.Raw)
	}
	return a.Status == 200
}

func (c *connector) refresh(t testing.TB, token string, pairs ...string) testkit.Answer {
	t.Helper()
	return c.post(t, "/token", values(url.Values{"grant_type": {"refresh_token"}, "client_id": {c.id}, "refresh_token": {token}}, pairs...))
}

func TestTokensAreAnsweredAsTheContractSays(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c := register(t, r, nil)
	a := c.post(t, "/token", c.exchanges(approved(t, d, c.authorize(t))))
	if a.Status != 200 || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Fatalf("%d %s %v", a.Status, a.Raw, a.Header)
	}
	for name, shape := range map[string]string{"access_token": `^hra_` + d.Mailbox + `_[0-9a-f]{64}$`, "refresh_token": `^hrr_` + d.Mailbox + `_[0-9a-f]{64}$`} {
		if !regexp.MustCompile(shape).MatchString(a.Text(name)) {
			t.Errorf("%s = %q", name, a.Text(name))
		}
		delete(a.Body, name)
	}
	if diff := cmp.Diff(map[string]any{"token_type": "Bearer", "expires_in": 315360000.0, "scope": "notify"}, a.Body); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExchangesThatAreRefused(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c, other := register(t, r, nil), register(t, r, nil)
	pending := c.authorize(t)
	code := approved(t, d, pending)
	twice := c.exchanges(code)
	twice.Add("code", code)
	for name, tc := range map[string]struct {
		form   url.Values
		status int
		code   string
	}{
		"no grant type":                 {c.exchanges(code, "grant_type", ""), 400, "unsupported_grant_type"},
		"an unknown grant type":         {c.exchanges(code, "grant_type", "password"), 400, "unsupported_grant_type"},
		"client credentials":            {c.exchanges(code, "grant_type", "client_credentials"), 400, "unsupported_grant_type"},
		"no client":                     {c.exchanges(code, "client_id", ""), 401, "invalid_client"},
		"an unknown client":             {c.exchanges(code, "client_id", "hc_"+strings.Repeat("1", 32)), 401, "invalid_client"},
		"a secret of a public client":   {c.exchanges(code, "client_secret", "x"), 401, "invalid_client"},
		"another client":                {other.exchanges(code), 400, "invalid_grant"},
		"no code":                       {c.exchanges(""), 400, "invalid_grant"},
		"a malformed code":              {c.exchanges("hrc_x"), 400, "invalid_grant"},
		"a code of another kind":        {c.exchanges("hrv" + code[3:]), 400, "invalid_grant"},
		"an unknown code":               {c.exchanges(code[:len(code)-1] + flipped(code)), 400, "invalid_grant"},
		"a code of an unsigned mailbox": {c.exchanges("hrc_" + strings.Repeat("0", 48) + code[52:]), 400, "invalid_grant"},
		"no redirect address":           {c.exchanges(code, "redirect_uri", ""), 400, "invalid_grant"},
		"another redirect address":      {c.exchanges(code, "redirect_uri", redirectURI+"/"), 400, "invalid_grant"},
		"no verifier":                   {c.exchanges(code, "code_verifier", ""), 400, "invalid_grant"},
		"a wrong verifier":              {c.exchanges(code, "code_verifier", strings.Repeat("a", 43)), 400, "invalid_grant"},
		"the challenge as the verifier": {c.exchanges(code, "code_verifier", challenge(verifier)), 400, "invalid_grant"},
		"a verifier of 42":              {c.exchanges(code, "code_verifier", verifier[1:]), 400, "invalid_grant"},
		"a verifier of 129":             {c.exchanges(code, "code_verifier", strings.Repeat("a", 129)), 400, "invalid_grant"},
		"another resource":              {c.exchanges(code, "resource", "https://other.example/mcp"), 400, "invalid_target"},
		"a repeated parameter":          {twice, 400, "invalid_request"},
		"the code as a refresh token":   {values(nil, "grant_type", "refresh_token", "client_id", c.id, "refresh_token", code), 400, "invalid_grant"},
		"the code as a device code":     {values(nil, "grant_type", grantDevice, "client_id", c.id, "device_code", code), 400, "invalid_grant"},
		"no refresh token":              {values(nil, "grant_type", "refresh_token", "client_id", c.id), 400, "invalid_grant"},
		"no device code":                {values(nil, "grant_type", grantDevice, "client_id", c.id), 400, "invalid_grant"},
	} {
		a := c.post(t, "/token", tc.form)
		if a.Status != tc.status || a.Code() != tc.code || a.Text("error_description") == "" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s, want %d %s", name, a.Status, a.Raw, tc.status, tc.code)
		}
		if challenged := a.Header.Get("WWW-Authenticate"); challenged != "" {
			t.Errorf("%s: WWW-Authenticate = %q although no Basic was sent", name, challenged)
		}
	}
	if held := c.exchange(t, code); !works(r, held.access) { // none of that harmed the code
		t.Error("the token does not work")
	}
	if a := c.post(t, "/token", c.exchanges(code, "code_verifier", strings.Repeat("b", 43))); a.Status != 400 || a.Code() != "invalid_grant" {
		t.Errorf("a wrong verifier after a good exchange: %d %s", a.Status, a.Raw)
	}
	if held := c.exchange(t, code); !works(r, held.access) {
		t.Error("a wrong verifier harmed the approval")
	}
}

// flipped is another last digit than s ends with.
func flipped(s string) string {
	if s[len(s)-1] == '0' {
		return "1"
	}
	return "0"
}

func TestAnUndecidedOrDeniedRequestGivesNoTokens(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c := register(t, r, nil)
	// The code of a request is derived from its id; nobody but the relay can make it, so the next best guess is the id.
	rid := c.authorize(t)
	guess := "hrc_" + d.Mailbox + "_" + rid[8:]
	if a := c.post(t, "/token", c.exchanges(guess)); a.Code() != "invalid_grant" {
		t.Errorf("%d %s", a.Status, a.Raw)
	}
	if a := decide(d, rid, "deny"); a.Text("status") != "denied" || !strings.Contains(a.Text("redirect"), "error=access_denied") || strings.Contains(a.Text("redirect"), "code=") {
		t.Errorf("%d %s", a.Status, a.Raw)
	}
}

func TestTheFormOfATokenRequestIsHeldTo(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	for name, tc := range map[string]struct{ body, kind string }{
		"JSON":            {`{"grant_type":"refresh_token"}`, "application/json"},
		"no content type": {"grant_type=refresh_token", ""},
		"bad encoding":    {"grant_type=%zz", "application/x-www-form-urlencoded"},
		"a semicolon":     {"a=1;b=2", "application/x-www-form-urlencoded"},
	} {
		for _, path := range []string{"/token", "/revoke", "/device_authorization"} {
			a := r.Do("POST", path, "", []byte(tc.body), "Content-Type", tc.kind)
			if a.Status != 400 || a.Code() != "invalid_request" {
				t.Errorf("%s to %s: %d %s", name, path, a.Status, a.Raw)
			}
		}
	}
	a := r.Do("POST", "/token", "", []byte(strings.Repeat("a", 17<<10)), "Content-Type", "application/x-www-form-urlencoded")
	if a.Status != 413 || a.Code() != "too_large" {
		t.Errorf("17 KB: %d %s", a.Status, a.Raw)
	}
}

func TestConfidentialClientsProveThemselves(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c := register(t, r, map[string]any{"token_endpoint_auth_method": "client_secret_basic"})
	code := approved(t, d, c.authorize(t))
	basic := func(id, secret string, form url.Values) testkit.Answer {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", r.URL+"/token", strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		res, err := r.HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return read(t, res)
	}
	bare := c.exchanges(code, "client_id", "")
	if a := basic(c.id, c.secret, bare); a.Status != 200 {
		t.Errorf("Basic: %d %s", a.Status, a.Raw)
	}
	if a := basic(c.id, c.secret, c.exchanges(code)); a.Status != 200 {
		t.Errorf("Basic with the same client_id: %d %s", a.Status, a.Raw)
	}
	if a := c.post(t, "/token", c.exchanges(code, "client_secret", c.secret)); a.Status != 200 {
		t.Errorf("as a parameter: %d %s", a.Status, a.Raw)
	}
	wrong := c.secret[:63] + flipped(c.secret)
	if a := basic(c.id, wrong, bare); a.Status != 401 || a.Code() != "invalid_client" || !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("Basic with a wrong secret: %d %s %v", a.Status, a.Raw, a.Header)
	}
	for name, form := range map[string]url.Values{"no secret": c.exchanges(code), "a wrong secret": c.exchanges(code, "client_secret", wrong)} {
		if a := c.post(t, "/token", form); a.Status != 401 || a.Code() != "invalid_client" || a.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %d %s", name, a.Status, a.Raw)
		}
	}
	if a := basic(c.id, c.secret, c.exchanges(code, "client_secret", c.secret)); a.Status != 400 || a.Code() != "invalid_request" {
		t.Errorf("both ways at once: %d %s", a.Status, a.Raw)
	}
	if a := basic(c.id, c.secret, c.exchanges(code, "client_id", register(t, r, nil).id)); a.Status != 400 || a.Code() != "invalid_request" {
		t.Errorf("two clients at once: %d %s", a.Status, a.Raw)
	}
	bearer := r.Do("POST", "/token", "x", []byte(bare.Encode()), "Content-Type", "application/x-www-form-urlencoded")
	if bearer.Status != 401 || bearer.Code() != "invalid_client" {
		t.Errorf("a bearer credential: %d %s", bearer.Status, bearer.Raw)
	}
}

func TestARepeatedExchangeReturnsTheSameGrant(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("Mac")
		c := register(t, r, nil)
		code := approved(t, d, c.authorize(t))
		first, second := c.exchange(t, code), c.exchange(t, code)
		if first != second || !works(r, first.access) {
			t.Errorf("first %v, second %v", first, second)
		}
		if a := c.post(t, "/revoke", values(nil, "client_id", c.id, "token", first.access)); a.Status != 200 {
			t.Fatalf("revoke: %d %s", a.Status, a.Raw)
		}
		third := c.exchange(t, code)
		if third.access == first.access || third.refresh != first.refresh || !works(r, third.access) || works(r, first.access) {
			t.Error("a repeat after the token was given back must make a new one, and not bring the old one to life")
		}
		if a := c.post(t, "/revoke", values(nil, "client_id", c.id, "token", first.refresh)); a.Status != 200 {
			t.Fatalf("revoke: %d %s", a.Status, a.Raw)
		}
		if a := c.post(t, "/token", c.exchanges(code)); a.Status != 400 || a.Code() != "invalid_grant" || works(r, third.access) {
			t.Errorf("a repeat after the approval was given back: %d %s", a.Status, a.Raw)
		}
	})
}

func TestACodeIsGoodForFiveMinutes(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		c := register(t, r, nil)
		time.Sleep(9 * time.Minute)
		code := approved(t, d, c.authorize(t))
		time.Sleep(5*time.Minute - time.Second)
		held := c.exchange(t, code)
		time.Sleep(2 * time.Second)
		if a := c.post(t, "/token", c.exchanges(code)); a.Status != 400 || a.Code() != "invalid_grant" {
			t.Errorf("after five minutes: %d %s", a.Status, a.Raw)
		}
		time.Sleep(26 * time.Hour) // the request itself is forgotten by now
		if !works(r, held.access) || c.refresh(t, held.refresh).Status != 200 {
			t.Error("the tokens ran out")
		}
	})
}

func TestARefreshAddsATokenAndNeverRotates(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c, held := connected(t, d)
	other := register(t, r, nil)
	seen := map[string]bool{held.access: true}
	for _, pairs := range [][]string{nil, {"scope", "notify"}, {"resource", r.URL + "/mcp"}} {
		a := c.refresh(t, held.refresh, pairs...)
		if a.Status != 200 || a.Text("refresh_token") != held.refresh || seen[a.Text("access_token")] || a.Text("scope") != "notify" || !works(r, a.Text("access_token")) {
			t.Errorf("refresh %v: %d %s", pairs, a.Status, a.Raw)
		}
		seen[a.Text("access_token")] = true
	}
	if !works(r, held.access) {
		t.Error("a refresh ended the first token")
	}
	for name, tc := range map[string]struct {
		a    testkit.Answer
		code string
	}{
		"a wider scope":     {c.refresh(t, held.refresh, "scope", "notify admin"), "invalid_scope"},
		"another resource":  {c.refresh(t, held.refresh, "resource", "https://x.example/mcp"), "invalid_target"},
		"another client":    {other.refresh(t, held.refresh), "invalid_grant"},
		"an unknown token":  {c.refresh(t, held.refresh[:len(held.refresh)-1]+flipped(held.refresh)), "invalid_grant"},
		"an access token":   {c.refresh(t, held.access), "invalid_grant"},
		"a malformed token": {c.refresh(t, "hrr_"), "invalid_grant"},
	} {
		if tc.a.Status != 400 || tc.a.Code() != tc.code {
			t.Errorf("%s: %d %s", name, tc.a.Status, tc.a.Raw)
		}
	}
}

// case 129: two refreshes at once, or one after the other, never log the person out.
func TestCase129TwoRefreshesAtOnceBothWork(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	c, held := connected(t, r.Pair("Mac"))
	answers := make([]testkit.Answer, 8)
	parallel(len(answers), func(i int) { answers[i] = c.refresh(t, held.refresh) })
	for _, a := range answers {
		if a.Status != 200 || a.Text("refresh_token") != held.refresh || !works(r, a.Text("access_token")) {
			t.Errorf("%d %s", a.Status, a.Raw)
		}
	}
}

func TestTheNewestFiftyAccessTokensWork(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		c, held := connected(t, r.Pair("Mac"))
		list := []string{held.access}
		for range 50 {
			list = append(list, c.refresh(t, held.refresh).Text("access_token"))
		}
		for i, token := range list {
			if works(r, token) != (i > 0) {
				t.Errorf("token %d of 51 works = %v", i+1, i == 0)
			}
		}
	})
}

func TestRevoking(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c, held := connected(t, d)
	second := c.refresh(t, held.refresh).Text("access_token")
	other := register(t, r, nil)
	revoke := func(by *connector, token string, pairs ...string) testkit.Answer {
		return by.post(t, "/revoke", values(url.Values{"client_id": {by.id}, "token": {token}}, pairs...))
	}
	for name, a := range map[string]testkit.Answer{
		"another client's access token":  revoke(other, held.access),
		"another client's refresh token": revoke(other, held.refresh),
		"an unknown token":               revoke(c, "hra_"+d.Mailbox+"_"+strings.Repeat("0", 64)),
		"a malformed token":              revoke(c, "x"),
		"no token":                       revoke(c, ""),
		"with a hint":                    revoke(c, "x", "token_type_hint", "refresh_token"),
	} {
		if a.Status != 200 || string(a.Raw) != "{}" {
			t.Errorf("%s: %d %s", name, a.Status, a.Raw)
		}
	}
	for name, a := range map[string]testkit.Answer{
		"no client":         c.post(t, "/revoke", values(nil, "token", held.access)),
		"an unknown client": revoke(c, held.access, "client_id", "hc_"+strings.Repeat("2", 32)),
	} {
		if a.Status != 401 || a.Code() != "invalid_client" {
			t.Errorf("%s: %d %s", name, a.Status, a.Raw)
		}
	}
	if !works(r, held.access) || !works(r, second) {
		t.Fatal("something was revoked that must not be")
	}
	revoke(c, held.access)
	if works(r, held.access) || !works(r, second) {
		t.Error("an access token must end itself only")
	}
	revoke(c, held.refresh)
	if works(r, second) || c.refresh(t, held.refresh).Code() != "invalid_grant" {
		t.Error("a refresh token must take the approval with it")
	}
	if a := revoke(c, held.refresh); a.Status != 200 {
		t.Errorf("a repeat: %d %s", a.Status, a.Raw)
	}
	keys := d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)
	if key := keys[0].(map[string]any); key["revokedAt"] == nil {
		t.Errorf("the key stays: %v", key)
	}
}

func TestAccessTokensAreTakenAsAgentKeysAre(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c, held := connected(t, d)
	agent := d.Agent("static")
	mine := agent.Send(map[string]any{"title": "of the key"})
	sent := r.Do("POST", "/v1/notify", held.access, map[string]any{"title": "of the connector", "notificationId": "mine"})
	if sent.Status != 202 || sent.Body["duplicate"] != false {
		t.Fatalf("%d %s", sent.Status, sent.Raw)
	}
	again := c.refresh(t, held.refresh).Text("access_token")
	if a := r.Do("POST", "/v1/notify", again, map[string]any{"title": "of the connector", "notificationId": "mine"}); a.Status != 200 || a.Body["duplicate"] != true {
		t.Errorf("the same connector with another token: %d %s", a.Status, a.Raw)
	}
	if a := r.Do("GET", "/v1/receipts/mine", again, nil); a.Status != 200 {
		t.Errorf("its receipt: %d %s", a.Status, a.Raw)
	}
	if a := r.Do("GET", "/v1/receipts/"+mine, held.access, nil); a.Status != 404 {
		t.Errorf("another key's receipt: %d %s", a.Status, a.Raw)
	}
	if a := r.Do("GET", "/v1/device/info", held.access, nil); a.Status != 403 || a.Code() != "wrong_credential" {
		t.Errorf("a device route: %d %s", a.Status, a.Raw)
	}
	for _, token := range []string{held.refresh, "hrc" + held.access[3:], "hrv" + held.access[3:], "hrk_" + d.Mailbox + "_00000000_" + held.access[53:]} {
		if a := r.Do("GET", "/v1/status", token, nil); a.Status != 401 {
			t.Errorf("%.4s as a bearer: %d %s", token, a.Status, a.Raw)
		}
	}
	if a := r.Do("DELETE", "/v1/device", d.Token, nil); a.Status != 200 || works(r, held.access) {
		t.Errorf("after unpairing: %d, works %v", a.Status, works(r, held.access))
	}
}

// case 132: a token without the scope and a token of nobody are told apart.
func TestCase132AWrongScopeIsNoWrongToken(t *testing.T) {
	t.Parallel()
	var kept store.Store
	r := testkit.New(t, testkit.Options{Wrap: func(s store.Store) store.Store { kept = s; return s }})
	d := r.Pair("Mac")
	connected(t, d)
	key := relay.KeyID(d.Call("GET", "/v1/device/connectors", nil).Body["connectors"].([]any)[0].(map[string]any)["id"].(string))
	text, hash := credential.MintSecret(credential.AccessToken, relay.MailboxID(d.Mailbox))
	err := kept.Update(t.Context(), func(tx store.Tx) error { // the wire grants no other scope than notify
		return tx.Grants().AddToken(relay.AccessToken{Mailbox: relay.MailboxID(d.Mailbox), Key: key, Hash: hash, Scopes: relay.Scopes{"other"}, CreatedAt: time.Now()}, 50)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range [][2]string{{"POST", "/v1/notify"}, {"GET", "/v1/status"}, {"GET", "/v1/receipts/x"}, {"GET", "/v1/replies/x"}} {
		if a := r.Do(call[0], call[1], text, nil); a.Status != 403 || a.Code() != "scope" || a.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s %s without the scope: %d %s", call[0], call[1], a.Status, a.Raw)
		}
		if a := r.Do(call[0], call[1], text[:len(text)-1]+flipped(text), nil); a.Status != 401 || a.Code() != "unauthorized" || a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s with garbage: %d %s", call[0], call[1], a.Status, a.Raw)
		}
	}
}
