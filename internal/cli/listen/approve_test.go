package listen

import (
	"context"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
)

// app is software that asks for approval by the device flow.
type app struct {
	s  *scene
	id string
}

func (s *scene) app(name string) *app {
	s.t.Helper()
	a := s.relay.Do("POST", "/register", "", map[string]any{"client_name": name, "grant_types": []string{"urn:ietf:params:oauth:grant-type:device_code"}})
	if a.Status != 201 {
		s.t.Fatalf("register: %d %s", a.Status, a.Raw)
	}
	return &app{s, a.Text("client_id")}
}

// asks begins the device flow and returns the user code.
func (a *app) asks() string {
	a.s.t.Helper()
	got := a.s.relay.Do("POST", "/device_authorization", "", []byte(url.Values{"client_id": {a.id}}.Encode()), "Content-Type", "application/x-www-form-urlencoded")
	if got.Status != 200 {
		a.s.t.Fatalf("ask: %d %s", got.Status, got.Raw)
	}
	a.s.settle()
	return got.Text("user_code")
}

func (s *scene) consent(i int) map[string]any {
	s.t.Helper()
	list := s.device.Call("GET", "/v1/device/consents", nil).Body["consents"].([]any)
	return list[i].(map[string]any)
}

// typist is a listener that is typed at.
type typist struct {
	*scene
	l   *Listener
	ctx context.Context
}

func typing(t *testing.T) *typist {
	t.Helper()
	s := listening(t, nil)
	s.stop()
	s.out = &screenful{}
	ctx, cancel := context.WithCancel(t.Context())
	l := New(Options{Device: s.client().Device(s.device.Token), Out: s.out, Err: s.out}, nil)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	s.settle()
	return &typist{s, l, ctx}
}

func (p *typist) enters(line string) {
	p.t.Helper()
	if !p.l.command(p.ctx, line) {
		p.t.Errorf("%q is no command", line)
	}
	p.settle()
}

func TestRequestsForApprovalAreShownAndDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := typing(t)
		claude, other := p.app("Claude \x1b[31m<x>"), p.app("Other")
		code := claude.asks()
		p.shows("approval 1", "calls itself “Claude [31mx”", code, p.consent(0)["code"].(string))
		p.hides("\x1b[31m")
		other.asks()
		p.shows("approval 2", "“Other”")
		p.enters("/deny 2")
		p.shows("approval 2: denied")
		p.enters("/approve 1")
		p.shows("approval 1: approved")
		if got := p.consent(1)["status"]; got != "approved" {
			t.Errorf("status %v", got)
		}
		if n := strings.Count(p.out.String(), "approval 1: approved"); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

func TestALateDecisionReachesWhatWasSeenOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := typing(t)
		claude := p.app("Claude")
		claude.asks()
		fresh := claude.asks() // the same request, with fresh codes
		p.shows("approval 2", fresh)
		p.enters("/approve 1")
		p.enters("/approve")
		p.enters("/approve x")
		p.shows("approval 1 does not wait", "say which request")
		if got := p.consent(0)["status"]; got != "pending" {
			t.Errorf("status %v", got)
		}
		time.Sleep(11 * time.Minute)
		p.settle()
		p.shows("approval 2: expired")
		p.enters("/approve 2")
		p.shows("approval 2 does not wait")
	})
}

func TestADecisionMadeElsewhereIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := typing(t)
		p.app("Claude").asks()
		p.device.Call("POST", "/v1/device/consent", map[string]any{"id": p.consent(0)["id"], "decision": "approve"})
		p.settle()
		p.shows("approval 1: approved")
	})
}

func TestRequestsAreDecidedByJSONLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, func(o *Options) { o.JSON = true })
		s.app("Claude").asks()
		id := s.consent(0)["id"].(string)
		s.shows(`"type":"consent"`, id)
		io.WriteString(s.in, `{"id":"`+id+`","decision":"maybe"}`+"\n")
		s.settle()
		s.shows("decision must be approve or deny")
		io.WriteString(s.in, `{"id":"`+id+`","decision":"deny"}`+"\n")
		s.settle()
		s.shows(`{"herald":"denied","id":"`+id+`"}`, `"type":"consent_resolved"`)
	})
}

func TestARequestOfABrowserSaysWhereItGoes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	q := client.Consent{ID: strings.Repeat("a", 64) + "ddeeff00", ClientName: "X", RedirectHost: "client.example", Code: "123456", CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute)}
	for decides, hint := range map[bool]string{true: "type /approve 3 or /deny 3", false: "herald connectors approve ddeeff00"} {
		text := requestCard(q, 3, decides, 80, screen.NewStyle(false), now)
		for _, want := range []string{"approval 3", "client.example", "123456", hint} {
			if !strings.Contains(text, want) {
				t.Errorf("lacks %q:\n%s", want, text)
			}
		}
	}
}
