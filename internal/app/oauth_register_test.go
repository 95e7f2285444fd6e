package app_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

// roomy takes the registrations of a whole table.
func roomy(c *config.Config) { c.RegisterPerHour = 10_000 }

func TestARegistrationIsAnsweredWhole(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: roomy})
	a := r.Do("POST", "/register", "", map[string]any{
		"client_name": "  My\u0000 <i>agent</i>\u202e ", "redirect_uris": []string{"https://a.example/cb", "cursor://anysphere/cb"},
		"application_type": "native", "logo_uri": "https://a.example/logo.png", "scope": "openid offline_access",
	})
	if a.Status != 201 || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Fatalf("%d %s %v", a.Status, a.Raw, a.Header)
	}
	if !regexp.MustCompile(`^hc_[0-9a-f]{32}$`).MatchString(a.Text("client_id")) || a.Body["client_id_issued_at"].(float64) < 1.7e9 {
		t.Errorf("id %q at %v", a.Text("client_id"), a.Body["client_id_issued_at"])
	}
	delete(a.Body, "client_id")
	delete(a.Body, "client_id_issued_at")
	want := map[string]any{
		"client_name": "My iagent/i", "redirect_uris": []any{"https://a.example/cb", "cursor://anysphere/cb"},
		"token_endpoint_auth_method": "none", "response_types": []any{"code"}, "scope": "notify",
		"grant_types": []any{"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"},
	}
	if d := cmp.Diff(want, a.Body); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestConfidentialClientsGetASecretOnce(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: roomy})
	for _, method := range []string{"client_secret_post", "client_secret_basic"} {
		a := r.Do("POST", "/register", "", map[string]any{"redirect_uris": []string{"https://a.example/"}, "token_endpoint_auth_method": method})
		if a.Status != 201 || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(a.Text("client_secret")) || a.Body["client_secret_expires_at"] != 0.0 ||
			a.Text("token_endpoint_auth_method") != method || a.Text("client_name") != "An app" {
			t.Errorf("%s: %d %s", method, a.Status, a.Raw)
		}
	}
}

func TestRegistrationsThatAreTaken(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: roomy})
	device := "urn:ietf:params:oauth:grant-type:device_code"
	for name, body := range map[string]string{
		"no name":                             `{"redirect_uris":["https://a.example/cb"]}`,
		"a name that is null":                 `{"client_name":null,"redirect_uris":["https://a.example/cb"]}`,
		"http on localhost":                   `{"redirect_uris":["http://localhost/cb"]}`,
		"http on localhost with a port":       `{"redirect_uris":["http://localhost:33418/"]}`,
		"http on 127.0.0.1":                   `{"redirect_uris":["http://127.0.0.1:1/cb"]}`,
		"http on ::1":                         `{"redirect_uris":["http://[::1]:1/cb"]}`,
		"a private-use scheme":                `{"redirect_uris":["com.example.app:/oauth"]}`,
		"a private-use scheme without a dot":  `{"redirect_uris":["vscode://a.b/cb?x=1"]}`,
		"ten addresses":                       `{"redirect_uris":[` + strings.TrimSuffix(strings.Repeat(`"https://a.example/cb",`, 10), ",") + `]}`,
		"an address of 500":                   `{"redirect_uris":["https://a.example/` + strings.Repeat("x", 500-18) + `"]}`,
		"the device flow without addresses":   `{"grant_types":["` + device + `"]}`,
		"device and refresh without":          `{"grant_types":["` + device + `","refresh_token"],"response_types":[]}`,
		"code and refresh":                    `{"grant_types":["authorization_code","refresh_token"],"redirect_uris":["https://a.example/"],"response_types":["code"]}`,
		"empty grant types are the default":   `{"grant_types":[],"redirect_uris":["https://a.example/"]}`,
		"unknown members":                     `{"redirect_uris":["https://a.example/"],"x":{"y":[1]},"jwks_uri":"https://a.example/k"}`,
		"case 119: ChatGPT's own callback":    `{"redirect_uris":["https://chatgpt.com/connector/oauth/AbC123_-"]}`,
		"case 119: ChatGPT's shared callback": `{"redirect_uris":["https://chatgpt.com/connector_platform_oauth_redirect"]}`,
		"Claude's callback":                   `{"redirect_uris":["https://claude.ai/api/mcp/auth_callback"]}`,
	} {
		for _, kind := range []string{"application/json", "text/plain", ""} { // decision 31
			a := r.Do("POST", "/register", "", []byte(body), "Content-Type", kind)
			if a.Status != 201 {
				t.Errorf("%s as %q: %d %s", name, kind, a.Status, a.Raw)
			}
		}
	}
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: roomy})
	uri := func(s string) string { return `{"redirect_uris":["https://good.example/","` + s + `"]}` }
	const metadata, redirect = "invalid_client_metadata", "invalid_redirect_uri"
	for name, c := range map[string]struct{ body, code string }{
		"not JSON":                          {`redirect_uris=x`, metadata},
		"nothing":                           {``, metadata},
		"an array":                          {`[]`, metadata},
		"trailing data":                     {`{"redirect_uris":["https://a.example/"]} x`, metadata},
		"a repeated member":                 {`{"redirect_uris":["https://a.example/"],"redirect_uris":["https://b.example/"]}`, metadata},
		"a member in another case":          {`{"Redirect_uris":["https://a.example/"]}`, metadata},
		"invalid UTF-8":                     {"{\"client_name\":\"\xff\",\"redirect_uris\":[\"https://a.example/\"]}", metadata},
		"a name that is a number":           {`{"client_name":1,"redirect_uris":["https://a.example/"]}`, metadata},
		"an unknown grant type":             {`{"grant_types":["implicit"],"redirect_uris":["https://a.example/"]}`, metadata},
		"grant types as a string":           {`{"grant_types":"authorization_code","redirect_uris":["https://a.example/"]}`, metadata},
		"an unknown response type":          {`{"response_types":["token"],"redirect_uris":["https://a.example/"]}`, metadata},
		"code and an unknown response type": {`{"response_types":["code","token"],"redirect_uris":["https://a.example/"]}`, metadata},
		"no response type":                  {`{"response_types":[],"redirect_uris":["https://a.example/"]}`, metadata},
		"an unknown auth method":            {`{"token_endpoint_auth_method":"private_key_jwt","redirect_uris":["https://a.example/"]}`, metadata},
		"an auth method that is a number":   {`{"token_endpoint_auth_method":1,"redirect_uris":["https://a.example/"]}`, metadata},
		"no addresses":                      {`{}`, redirect},
		"no addresses, refresh only":        {`{"grant_types":["refresh_token"]}`, redirect},
		"no addresses, code and device":     {`{"grant_types":["authorization_code","urn:ietf:params:oauth:grant-type:device_code"]}`, redirect},
		"addresses that are null":           {`{"redirect_uris":null}`, redirect},
		"case 36: addresses as a string":    {`{"redirect_uris":"https://a.example/"}`, redirect},
		"an empty array":                    {`{"redirect_uris":[]}`, redirect},
		"an empty array, device flow":       {`{"redirect_uris":[],"grant_types":["urn:ietf:params:oauth:grant-type:device_code"]}`, redirect},
		"an address that is a number":       {`{"redirect_uris":[1]}`, redirect},
		"eleven addresses":                  {`{"redirect_uris":[` + strings.TrimSuffix(strings.Repeat(`"https://a.example/cb",`, 11), ",") + `]}`, redirect},
		"an address of 501":                 {uri("https://a.example/" + strings.Repeat("x", 501-18)), redirect},
		"an empty address":                  {uri(""), redirect},
		"no scheme":                         {uri("//a.example/cb"), redirect},
		"a path":                            {uri("/cb"), redirect},
		"http elsewhere":                    {uri("http://a.example/cb"), redirect},
		"http on a name like localhost":     {uri("http://localhost.evil.example/cb"), redirect},
		"http on 127.0.0.2":                 {uri("http://127.0.0.2/cb"), redirect},
		"http on a zone":                    {uri("http://[::1%25lo]/cb"), redirect},
		"https without a host":              {uri("https:///cb"), redirect},
		"a fragment":                        {uri("https://a.example/cb#x"), redirect},
		"an empty fragment":                 {uri("https://a.example/cb#"), redirect},
		"credentials":                       {uri("https://u:p@a.example/cb"), redirect},
		"a name as credentials":             {uri("https://u@a.example/cb"), redirect},
		"white space":                       {uri("https://a.example/c b"), redirect},
		"white space before":                {uri(" javascript:alert(1)"), redirect},
		"a line break":                      {uri(`https://a.example/\r\nx`), redirect},
		"a backslash":                       {uri(`https://a.example\\@evil.example/`), redirect},
		"a letter beyond ASCII":             {uri("https://a.example/ü"), redirect},
		"javascript":                        {uri("javascript:alert(1)"), redirect},
		"JavaScript in capitals":            {uri("JAVASCRIPT:alert(1)"), redirect},
		"data":                              {uri("data:text/html,x"), redirect},
		"vbscript":                          {uri("vbscript:x"), redirect},
		"file":                              {uri("file:///etc/passwd"), redirect},
		"blob":                              {uri("blob:https://a.example/x"), redirect},
		"about":                             {uri("about:blank"), redirect},
		"ftp":                               {uri("ftp://a.example/"), redirect},
		"mailto":                            {uri("mailto:a@a.example"), redirect},
	} {
		a := r.Do("POST", "/register", "", []byte(c.body))
		if a.Status != 400 || a.Code() != c.code || a.Text("error_description") == "" || a.Text("client_id") != "" {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Raw, c.code)
		}
	}
}

func TestAClientsNameIsCleaned(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: roomy})
	for name, want := range map[string]string{
		"":                       "An app",
		"  \t ":                  "An app",
		"<>":                     "An app",
		"a\u0000b\u001bc\u007f":  "abc",
		"a\u202eb\u200bc\ufeffd": "abcd",
		"tab\there":              "tabhere",
		"<script>x</script>":     "scriptx/script",
		strings.Repeat("ä", 61):  strings.Repeat("ä", 60),
		"line\u2028break":        "linebreak",
	} {
		a := r.Do("POST", "/register", "", map[string]any{"client_name": name, "redirect_uris": []string{"https://a.example/"}})
		if a.Text("client_name") != want {
			t.Errorf("%q became %q, want %q", name, a.Text("client_name"), want)
		}
	}
}

func TestABodyOfARegistrationIsBounded(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Do("POST", "/register", "", []byte(`{"x":"`+strings.Repeat("y", 64<<10)+`"}`))
	if a.Status != 413 || a.Code() != "too_large" {
		t.Errorf("%d %s", a.Status, a.Raw)
	}
}

func TestRegistrationsAreLimitedForTheWholeRelay(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	body := map[string]any{"redirect_uris": []string{"https://a.example/"}}
	r.Do("POST", "/register", "", map[string]any{}) // refused ones do not count
	for i := range 30 {
		if a := r.Do("POST", "/register", "", body); a.Status != 201 {
			t.Fatalf("registration %d: %d %s", i+1, a.Status, a.Raw)
		}
	}
	a := r.Do("POST", "/register", "", body)
	if a.Status != 429 || a.Code() != "rate_limited" || a.Text("message") == "" || a.Body["retryAfterSeconds"] != 3600.0 || a.Header.Get("Retry-After") != "" {
		t.Errorf("registration 31: %d %s %v", a.Status, a.Raw, a.Header)
	}
}

func TestTheSettingForRegistrationsSteers(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.RegisterPerHour = 2 }})
	for i, want := range []int{201, 201, 429} {
		if a := r.Do("POST", "/register", "", map[string]any{"redirect_uris": []string{"https://a.example/"}}); a.Status != want {
			t.Errorf("registration %d: %d, want %d", i+1, a.Status, want)
		}
	}
}

func TestTheNewestClientsAreKept(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: roomy})
	d := r.Pair("Mac")
	holder, held := connected(t, d)
	first := register(t, r, nil)
	for i := range 200 {
		register(t, r, map[string]any{"client_name": fmt.Sprint(i)})
	}
	if p := first.browse(t, "GET", "/authorize", first.asks()); p.Status != 400 || p.location != nil {
		t.Errorf("the oldest of 202 clients: %d", p.Status)
	}
	a := holder.post(t, "/token", values(nil, "grant_type", "refresh_token", "client_id", holder.id, "refresh_token", held.refresh))
	if a.Status != 200 {
		t.Errorf("an older one that holds an approval: %d %s", a.Status, a.Raw)
	}
}
