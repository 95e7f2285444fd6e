package app_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
	"github.com/herald-relay/herald/internal/testkit"
)

func TestTheApprovalPageIsLockedDownAndTellsWhoAsks(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	r.Pair("Studio")
	c := register(t, r, map[string]any{"client_name": `"><img src=x> & Co`})
	p := c.browse(t, "GET", "/authorize", c.asks())
	p.rid(t)
	if got := p.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("Content-Type = %s", got)
	}
	policy := regexp.MustCompile(`^default-src 'none'; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'; connect-src 'self'; ` +
		`form-action 'self' https://client\.example; base-uri 'none'; frame-ancestors 'none'$`)
	if got := p.Header.Get("Content-Security-Policy"); !policy.MatchString(got) {
		t.Errorf("policy = %s", got)
	}
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := p.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	text := string(p.Raw)
	if !strings.Contains(text, "&#34;&gt;img src=x &amp; Co") && !strings.Contains(text, "&#34;img src=x &amp; Co") {
		t.Errorf("the client's name is not escaped: %s", text)
	}
	if strings.Contains(text, "<img") || !strings.Contains(text, "client.example") {
		t.Errorf("page = %s", text)
	}
	if regexp.MustCompile(`\b[0-9]{6}\b`).MatchString(regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|value="[0-9a-f]{72}"`).ReplaceAllString(text, "")) {
		t.Errorf("the page shows six digits, which only devices may: %s", text)
	}
}

func TestWhatIsWrongBeforeTheClientIsProvenIsShownAndNeverSentOn(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	r.Pair("Mac")
	c := register(t, r, map[string]any{"redirect_uris": []string{redirectURI, "https://client.example/other?x=1"}})
	for name, ask := range map[string]url.Values{
		"no client":                    c.asks("client_id", ""),
		"an unknown client":            c.asks("client_id", "hc_"+strings.Repeat("0", 32)),
		"a malformed client":           c.asks("client_id", "nobody"),
		"two clients":                  {"client_id": {c.id, c.id}, "redirect_uri": {redirectURI}, "response_type": {"code"}},
		"no redirect address":          c.asks("redirect_uri", ""),
		"another path":                 c.asks("redirect_uri", redirectURI+"/"),
		"a longer path":                c.asks("redirect_uri", redirectURI+"x"),
		"a query":                      c.asks("redirect_uri", redirectURI+"?x=1"),
		"a registered query left out":  c.asks("redirect_uri", "https://client.example/other"),
		"another host":                 c.asks("redirect_uri", "https://client.example.evil/callback"),
		"another case of the host":     c.asks("redirect_uri", "https://CLIENT.example/callback"),
		"another port":                 c.asks("redirect_uri", "https://client.example:444/callback"),
		"credentials before the host":  c.asks("redirect_uri", "https://x@client.example/callback"),
		"two addresses, one of them":   {"client_id": {c.id}, "redirect_uri": {redirectURI, "https://evil.example/"}, "response_type": {"code"}},
		"a device that is no number":   c.asks("device", "x"),
		"device zero":                  c.asks("device", "0"),
		"a device that is not there":   c.asks("device", "2"),
		"a very long device":           c.asks("device", strings.Repeat("9", 40)),
		"a negative device":            c.asks("device", "-1"),
		"an encoded NUL in the client": c.asks("client_id", c.id+"\x00"),
	} {
		p := c.browse(t, "GET", "/authorize", ask)
		if p.Status != 400 || p.location != nil || !strings.Contains(p.Header.Get("Content-Type"), "text/html") ||
			!strings.Contains(p.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %d to %v: %.200s", name, p.Status, p.location, p.Raw)
		}
	}
	if p := c.browse(t, "GET", "/authorize?client_id=%zz", nil); p.Status != 400 || p.location != nil {
		t.Errorf("broken encoding: %d", p.Status)
	}
}

func TestWhatIsWrongAfterwardsIsSentBackToTheClient(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c := register(t, r, nil)
	twice := c.asks()
	twice.Add("scope", "notify")
	twice.Add("scope", "notify")
	twoResources := c.asks()
	twoResources.Add("resource", "https://other.example/mcp")
	for name, tc := range map[string]struct {
		ask  url.Values
		code string
	}{
		"no response type":           {c.asks("response_type", ""), "unsupported_response_type"},
		"response type token":        {c.asks("response_type", "token"), "unsupported_response_type"},
		"response type code id":      {c.asks("response_type", "code id_token"), "unsupported_response_type"},
		"no challenge":               {c.asks("code_challenge", ""), "invalid_request"},
		"no challenge method":        {c.asks("code_challenge_method", ""), "invalid_request"},
		"challenge method plain":     {c.asks("code_challenge_method", "plain"), "invalid_request"},
		"a challenge of 42":          {c.asks("code_challenge", challenge(verifier)[1:]), "invalid_request"},
		"a challenge of 44":          {c.asks("code_challenge", challenge(verifier)+"A"), "invalid_request"},
		"a challenge with a plus":    {c.asks("code_challenge", "+"+challenge(verifier)[1:]), "invalid_request"},
		"response mode fragment":     {c.asks("response_mode", "fragment"), "invalid_request"},
		"a state that is too long":   {c.asks("state", strings.Repeat("s", 2049)), "invalid_request"},
		"a state with a NUL":         {c.asks("state", "a\x00b"), "invalid_request"},
		"a state of no text":         {c.asks("state", "a\xffb"), "invalid_request"},
		"a repeated parameter":       {twice, "invalid_request"},
		"another host's resource":    {c.asks("resource", "https://other.example/mcp"), "invalid_target"},
		"the origin as the resource": {c.asks("resource", r.URL), "invalid_target"},
		"two slashes at its end":     {c.asks("resource", r.URL+"/mcp//"), "invalid_target"},
		"one of two resources":       {twoResources, "invalid_target"},
		"an unknown scope":           {c.asks("scope", "notify admin"), "invalid_scope"},
	} {
		p := c.browse(t, "GET", "/authorize", tc.ask)
		if p.Status != 302 || p.location == nil {
			t.Errorf("%s: %d %.200s", name, p.Status, p.Raw)
			continue
		}
		q := p.location.Query()
		p.location.RawQuery = ""
		wantState := tc.ask.Get("state")
		if len(wantState) > 2048 || strings.Contains(wantState, "\x00") || !utf8.ValidString(wantState) {
			wantState = ""
		}
		if p.location.String() != redirectURI || q.Get("error") != tc.code || q.Get("state") != wantState || q.Get("iss") != r.URL || q.Get("error_description") == "" || q.Has("code") {
			t.Errorf("%s: sent to %s with %v", name, p.location, q)
		}
	}
	if n := len(consents(d)); n != 0 {
		t.Errorf("%d requests were begun", n)
	}
}

func TestAskingThatIsTaken(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c := register(t, r, nil)
	for name, ask := range map[string]url.Values{
		"without state":                          c.asks("state", ""),
		"without resource":                       c.asks("resource", ""),
		"case 122: a slash behind the resource":  c.asks("resource", r.URL+"/mcp/"),
		"case 122: no slash behind the resource": c.asks("resource", r.URL+"/mcp"),
		"with a scope":                           c.asks("scope", "notify"),
		"with a repeated scope":                  c.asks("scope", "notify  notify"),
		"with response mode query":               c.asks("response_mode", "query"),
		"with device 1":                          c.asks("device", "1"),
		"with parameters that mean nothing":      c.asks("prompt", "consent", "nonce", "x"),
		"with an empty parameter, which is absent": {"client_id": {c.id}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "scope": {""},
			"code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"}},
	} {
		p := c.browse(t, "GET", "/authorize", ask)
		rid := p.rid(t)
		if a := decide(d, rid, "deny"); a.Status != 200 {
			t.Errorf("%s: deny: %d %s", name, a.Status, a.Raw)
		}
	}
}

// Public cases of group H about redirect addresses (decision 18).
func TestLoopbackAddressesTakeAnyPort(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: roomy})
	r.Pair("Mac")
	for name, tc := range map[string]struct {
		registered, asked string
		ok                bool
	}{
		"case 116: localhost with another port":               {"http://localhost:1/cb", "http://localhost:51234/cb", true},
		"case 116: localhost without a port":                  {"http://localhost/cb", "http://localhost:51234/cb", true},
		"case 116: 127.0.0.1 registered, localhost used":      {"http://127.0.0.1:1/cb", "http://localhost:1/cb", false},
		"case 116: localhost registered, 127.0.0.1 used":      {"http://localhost:1/cb", "http://127.0.0.1:1/cb", false},
		"case 117: 127.0.0.1 with another port and a slash":   {"http://127.0.0.1:33418/", "http://127.0.0.1:50000/", true},
		"case 117: with a slash registered, without one used": {"http://127.0.0.1:33418/", "http://127.0.0.1:33418", false},
		"case 117: without a slash registered, with one used": {"http://127.0.0.1:33418", "http://127.0.0.1:33418/", false},
		"::1 with another port":                               {"http://[::1]:1/cb", "http://[::1]:2/cb", true},
		"::1 registered, 127.0.0.1 used":                      {"http://[::1]:1/cb", "http://127.0.0.1:1/cb", false},
		"another path":                                        {"http://localhost:1/cb", "http://localhost:1/cb2", false},
		"another query":                                       {"http://localhost:1/cb?a=1", "http://localhost:2/cb?a=2", false},
		"the same query":                                      {"http://localhost:1/cb?a=1", "http://localhost:2/cb?a=1", true},
		"https instead":                                       {"http://localhost:1/cb", "https://localhost:1/cb", false},
		"a port that is no number":                            {"http://localhost:1/cb", "http://localhost:x/cb", false},
		"credentials slipped in":                              {"http://localhost:1/cb", "http://x@localhost:1/cb", false},
		"an https address takes no other port":                {"https://localhost:1/cb", "https://localhost:2/cb", false},
		"case 119: exact match afterwards":                    {"https://chatgpt.com/connector/oauth/AbC", "https://chatgpt.com/connector/oauth/abc", false},
		"case 119: the registered callback":                   {"https://chatgpt.com/connector/oauth/AbC", "https://chatgpt.com/connector/oauth/AbC", true},
	} {
		c := register(t, r, map[string]any{"redirect_uris": []string{tc.registered}})
		p := c.browse(t, "GET", "/authorize", c.asks("redirect_uri", tc.asked))
		if ok := p.Status == 200 || p.Status == 429; ok != tc.ok || p.location != nil { // twelve an hour, and this is a long table
			t.Errorf("%s: %d %.300s", name, p.Status, p.Raw)
		}
	}
}

func TestWithNobodyPairedThePageSaysSo(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	c := register(t, r, nil)
	p := c.browse(t, "GET", "/authorize", c.asks())
	if p.Status != 200 || ridField.Match(p.Raw) || !strings.Contains(string(p.Raw), "No device is paired") {
		t.Errorf("%d %s", p.Status, p.Raw)
	}
}

func TestThePageAnswers502WhileTheStoreDoesNot(t *testing.T) {
	testkit.OnSQLite(t)
	t.Parallel()
	var faulty *storetest.Faulty
	r := testkit.New(t, testkit.Options{Wrap: func(s store.Store) store.Store { faulty = storetest.NewFaulty(s); return faulty }})
	r.Pair("Mac")
	c := register(t, r, nil)
	faulty.FailNth(1, storetest.NotPersisted)
	if p := c.browse(t, "GET", "/authorize", c.asks()); p.Status != 502 {
		t.Errorf("%d %s", p.Status, p.Raw)
	}
	c.authorize(t) // and again once it does
}

func TestTheRequestGoesToTheMailboxThatSeesItBest(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.MaxDevices = 3 }})
	first, second, third := r.Pair("one"), r.Pair("two"), r.Pair("three")
	where := func(pairs ...string) string {
		c := register(t, r, nil)
		return c.authorize(t, pairs...)[:48]
	}
	for i, d := range []*testkit.Device{first, second, third} {
		if got := where("device", string(rune('1'+i))); got != d.Mailbox {
			t.Errorf("device=%d went elsewhere", i+1)
		}
	}
	second.Call("GET", "/v1/device/info", nil)
	s := second.Stream()
	if got := where(); got != second.Mailbox {
		t.Error("did not go to the one that is connected")
	}
	if f := nextOf(s, "consent"); f.Text("clientName") != "Test client" {
		t.Errorf("frame %v", f)
	}
}

func TestLookingAtThePageInAdvanceAsksNobody(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	c := register(t, r, nil)
	path := "/authorize?" + c.asks().Encode()
	if a := r.Do("HEAD", path, "", nil); a.Status != 405 {
		t.Errorf("HEAD: %d", a.Status)
	}
	if a := r.Do("GET", path, "", nil, "Sec-Purpose", "prefetch;prerender"); a.Status != 405 {
		t.Errorf("prefetch: %d", a.Status)
	}
	if n := len(consents(d)); n != 0 {
		t.Errorf("%d requests were begun", n)
	}
}
