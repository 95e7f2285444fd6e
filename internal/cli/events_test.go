package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

// eventServer serves event types of the library's over real HTTP, to whoever shows the token "good" or none.
func eventServer(t *testing.T, policy mcpevents.Policy, types ...mcpevents.EventType) (address string, events *mcpevents.Server) {
	t.Helper()
	catalog, err := mcpevents.NewCatalog(types...)
	if err != nil {
		t.Fatal(err)
	}
	events, err = mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "f", Policy: policy, Catalog: catalog}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := mcpevents.NewHandler(events, func(r *http.Request) (mcpevents.Caller, error) {
		switch r.Header.Get("Authorization") {
		case "":
			return mcpevents.Caller{}, nil
		case "Bearer good":
			return mcpevents.Caller{Principal: "somebody"}, nil
		}
		return mcpevents.Caller{}, io.EOF
	}, nil)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, events
}

var ticketOpened = mcpevents.EventType{
	Name: "ticket.opened", Description: "A ticket was opened.\x1b[31m Read it by its id.",
	InputSchema: json.RawMessage(`{"type":"object","required":["team"],"properties":{"team":{"type":"string","description":"whose"},"severity":{"enum":["P1","P2"]},"any":true}}`),
}

func TestEventsListShowsWhatAServerHas(t *testing.T) {
	alone(t)
	address, _ := eventServer(t, mcpevents.SEP(), ticketOpened, mcpevents.EventType{Name: "ticket.closed", Delivery: []mcpevents.Mode{mcpevents.Poll}})
	status, out, errs := run(t, "events", "list", address)
	want := `ticket.closed  poll

ticket.opened  webhook, poll, push
  A ticket was opened.�[31m Read it by its id.
  --arg any=
  --arg severity=P1|P2
  --arg team=STRING  (required)  whose
`
	if diff := cmp.Diff(want, out); diff != "" || status != 0 {
		t.Errorf("status %d (-want +have):\n%s\n%s", status, diff, errs)
	}
	if want := "mcpevents 0 speaks revision 2026-07-28 and announces events as sketch and sep do\n"; errs != want {
		t.Errorf("beside it: %q, want %q", errs, want)
	}
	status, out, errs = run(t, "events", "list", address, "--json")
	var list listing
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != 0 || errs != "" || len(list.Events) != 2 || list.Events[1].Name != "ticket.opened" {
		t.Errorf("status %d, %v: %s %s", status, err, out, errs)
	}
	if strings.ContainsRune(out, '\x1b') {
		t.Errorf("an escape reached the terminal: %q", out)
	}
}

func TestEventsFailuresNameTheirCauseAndTheFix(t *testing.T) {
	alone(t)
	good, _ := eventServer(t, mcpevents.SEP(), ticketOpened)
	answers := func(status int, header, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if name, value, found := strings.Cut(header, ": "); found {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	refuses := func(code int, data string) string {
		return answers(200, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"no \u001b[1mway","data":%s}}`, code, data))
	}
	for _, c := range []struct {
		name, address string
		args          []string
		want          string
	}{
		{"a code of the older table", refuses(-32012, "null"), nil, "herald: no �[1mway (Forbidden -32012)\n  give a token"},
		{"a code of the newer table", refuses(-32024, "null"), nil, "herald: no �[1mway (Forbidden -32024)\n  give a token"},
		{"data", refuses(-32025, `{"limit":"subscriptions","max":5}`), nil, "(ResourceExhausted -32025)\n  {\"limit\":\"subscriptions\",\"max\":5}\n  end what"},
		{"a reason of a callback", refuses(-32015, `{"reason":"challenge_failed"}`), nil, "has it the same secret?"},
		{"an unknown code", refuses(-31999, "null"), nil, "(Internal -31999)"},
		{"wrong token", good, []string{"--token", "bad"}, "the server wants to know who asks (http_401)\n  give a token"},
		{"redirect", answers(307, "Location: https://other.example/mcp", ""), nil, "redirects are not followed; it points to https://other.example/mcp"},
		{"no endpoint", answers(200, "", "<html>"), nil, "the address answers 200 OK, and no JSON-RPC"},
		{"busy", answers(429, "Retry-After: 7", ""), nil, "try again later; it says Retry-After: 7"},
		{"no events", answers(200, "", `{"jsonrpc":"2.0","id":1,"result":{"capabilities":{}}}`), nil, "the server announces no events (no_events)"},
		{"nobody there", "http://127.0.0.1:1/mcp", nil, "127.0.0.1:1 cannot be reached: "},
	} {
		status, out, errs := run(t, append([]string{"events", "list", c.address}, c.args...)...)
		if status != statusFailed || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%s: status %d, %q, want %q in it", c.name, status, errs, c.want)
		}
	}
	for address, want := range map[string]string{
		"mcp.example.com/mcp":         "no http or https URL",
		"ftp://mcp.example.com":       "no http or https URL",
		"https://u:p@mcp.example.com": "name and password",
		"https://mcp.example.com/#x":  "fragment",
		"http://mcp.example.com/mcp":  "plain http",
		"http://127.0.0.1.nip.io/mcp": "plain http",
	} {
		status, _, errs := run(t, "events", "list", address)
		if status != statusUsage || !strings.Contains(errs, want) || strings.Contains(errs, "u:p") {
			t.Errorf("%s: status %d, %q, want %q in it", address, status, errs, want)
		}
	}
}

// TestATokenGoesWhereItBelongs never shows this machine's own credentials to another server than its relay.
func TestATokenGoesWhereItBelongs(t *testing.T) {
	alone(t)
	w, _, _ := world("")
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	device := filepath.Join(dir, "profile.json")
	if err := profile.Save(device, profile.Profile{Relay: "https://relay.example", DeviceID: "d", Token: "hrd_device"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, address string
		flags         endpointFlags
		env           map[string]string
		want          string
	}{
		{"none", "https://mcp.example/mcp", endpointFlags{}, nil, ""},
		{"given", "https://mcp.example/mcp", endpointFlags{Token: "t", TokenFile: file}, map[string]string{"HERALD_TOKEN": "env"}, "Bearer t"},
		{"from a file", "https://mcp.example/mcp", endpointFlags{TokenFile: file}, map[string]string{"HERALD_TOKEN": "env"}, "Bearer from-file"},
		{"from the environment", "https://mcp.example/mcp", endpointFlags{}, map[string]string{"HERALD_TOKEN": "env"}, "Bearer env"},
		{"the profile's relay", "https://Relay.example:443/mcp", endpointFlags{}, nil, "Bearer hrd_device"},
		{"the profile's relay, with a key", "https://relay.example/mcp", endpointFlags{}, map[string]string{"HERALD_KEY": "hrk_key"}, "Bearer hrk_key"},
		{"another port", "https://relay.example:8443/mcp", endpointFlags{}, map[string]string{"HERALD_KEY": "hrk_key"}, ""},
		{"another scheme", "http://relay.example/mcp", endpointFlags{}, nil, ""},
		{"another host", "https://relay.example.evil.example/mcp", endpointFlags{}, map[string]string{"HERALD_KEY": "hrk_key"}, ""},
		{"a header instead", "https://relay.example/mcp", endpointFlags{Header: map[string]string{"authorization": "Basic x"}}, nil, "Basic x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			c.flags.Profile = device
			address, err := url.Parse(c.address)
			if err != nil {
				t.Fatal(err)
			}
			head, err := c.flags.headers(w, address)
			if err != nil || head.Get("Authorization") != c.want {
				t.Errorf("Authorization %q, %v, want %q", head.Get("Authorization"), err, c.want)
			}
		})
	}
	address, _ := url.Parse("https://mcp.example/mcp")
	for name, f := range map[string]endpointFlags{
		"two words":       {Token: "a b"},
		"no header":       {Header: map[string]string{"a b": "c"}},
		"a line too many": {Header: map[string]string{"A": "b\r\nC: d"}},
		"two credentials": {Token: "t", Header: map[string]string{"authorization": "Basic x"}},
	} {
		if head, err := f.headers(w, address); err == nil {
			t.Errorf("%s: accepted as %v", name, head)
		}
	}
}
