package relay_test

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/relay"
)

func TestScopesAreASet(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "  ": "", "b a": "a b", "a a  b\ta": "a b", "notify": "notify"} {
		if got := relay.ParseScopes(text).String(); got != want {
			t.Errorf("ParseScopes(%q) = %q, want %q", text, got, want)
		}
	}
	set := relay.ParseScopes("a b")
	if !set.Has("a") || set.Has("") || set.Has("a b") || !relay.ParseScopes("b").Within(set) || relay.ParseScopes("b c").Within(set) || !(relay.Scopes)(nil).Within(nil) {
		t.Error("membership is wrong")
	}
}

func TestClientIDsAreTold(t *testing.T) {
	t.Parallel()
	hex := strings.Repeat("0a", 16)
	for text, ok := range map[string]bool{
		"hc_" + hex: true, "hc_" + hex[1:]: false, "hc_" + hex + "0": false, "hc_" + strings.ToUpper(hex): false, "hc_": false, "": false,
		"https://a.example/c": true, "https://a.example:8443/c.json": true, "https://a.example/c?": false, "https://a.example/..": false,
		"https://a.example/%2E%2e/x": false, "https://a.example": false, "ftp://a.example/c": false, "https://a.example/c#": false,
	} {
		if _, got := relay.ParseClientID(text); got != ok {
			t.Errorf("ParseClientID(%q) = %v, want %v", text, got, ok)
		}
	}
	if id := relay.NewClientID(); id == relay.NewClientID() || !regexp.MustCompile(`^hc_[0-9a-f]{32}$`).MatchString(string(id)) || id.IsDocument() {
		t.Errorf("made %s", id)
	}
}

func TestRedirectHostsAreWhatAPersonIsTold(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"": "", "https://a.example:444/cb": "a.example", "http://127.0.0.1:1/": "127.0.0.1", "http://[::1]:1/": "::1", "cursor://x/y": "cursor:", "com.example:/cb": "com.example:",
	} {
		if got := relay.RedirectHost(uri); got != want {
			t.Errorf("RedirectHost(%q) = %q, want %q", uri, got, want)
		}
	}
}

func TestCodesAreDrawnFromTheirLetters(t *testing.T) {
	t.Parallel()
	seen := map[rune]bool{}
	for range 400 {
		code, user := relay.NewApprovalCode(), relay.NewUserCode()
		if !regexp.MustCompile(`^[0-9]{6}$`).MatchString(code) || !regexp.MustCompile(`^[BCDFGHJKMNPQRTWXZ]{4}-[BCDFGHJKMNPQRTWXZ]{4}$`).MatchString(user) {
			t.Fatalf("%q %q", code, user)
		}
		for _, c := range code + user {
			seen[c] = true
		}
	}
	if len(seen) != 10+17+1 {
		t.Errorf("only %d different characters in 400 codes", len(seen))
	}
}

func TestUserCodesAreReadAsPeopleTypeThem(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"BCDF-GHJK": "BCDF-GHJK", "bcdfghjk": "BCDF-GHJK", " b c d f \u2013 g h j k ": "BCDF-GHJK", "BCDF-GHJ": "", "BCDF-GHJKM": "", "ABCD-EFGH": "", "": "",
		strings.Repeat(" ", 60) + "BCDFGHJK": "", "BCDF_GHJK": "",
	} {
		got, ok := relay.NormalUserCode(typed)
		if got != want || ok != (want != "") {
			t.Errorf("NormalUserCode(%q) = %q, %v", typed, got, ok)
		}
	}
	for typed, want := range map[string]string{"123456": "123456", " 12 34\t56\n": "123456", "123-456": "123456", "\u00a0123456": "123456", "": ""} {
		if got := relay.NormalApprovalCode(typed); got != want {
			t.Errorf("NormalApprovalCode(%q) = %q", typed, got)
		}
	}
}

func TestPollsAreHeldToTheirInterval(t *testing.T) {
	t.Parallel()
	t0 := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	c := relay.Consent{Flow: relay.FlowDevice}
	c.Renew(t0)
	type poll struct {
		after  time.Duration
		inTime bool
	}
	var got []bool
	polls := []poll{{4 * time.Second, false}, {9 * time.Second, false}, {14 * time.Second, false}, {20 * time.Second, true}, {19800 * time.Millisecond, true}, {-time.Hour, true}}
	now, want := t0, []bool{}
	for _, p := range polls {
		now = now.Add(p.after)
		got, want = append(got, c.Poll(now)), append(want, p.inTime)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if c.Interval != 20*time.Second {
		t.Errorf("interval %v", c.Interval)
	}
}

func TestAPendingRequestLapsesByTheClock(t *testing.T) {
	t.Parallel()
	t0 := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	c := relay.Consent{Status: relay.Pending}
	c.Renew(t0)
	last := t0.Add(relay.ConsentLife)
	if !c.Open(last.Add(-time.Millisecond)) || c.Open(last) || c.StatusAt(last) != relay.Lapsed || c.StatusAt(t0) != relay.Pending {
		t.Error("a request must be open for exactly its life")
	}
	c.Status, c.DecidedAt = relay.Approved, last
	if c.StatusAt(last.Add(time.Hour)) != relay.Approved || !c.Collectable(last.Add(relay.CollectWithin-1)) || c.Collectable(last.Add(relay.CollectWithin)) {
		t.Error("an approval must be collectable for exactly five minutes")
	}
}

func FuzzValidRedirect(f *testing.F) {
	for _, s := range []string{"https://a.example/cb", "http://[::1]:1/cb?x", "cursor://a/b", "javascript:alert(1)", "http://localhost", "com.a:/x", "//a", "https://a\\@b"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, registered, asked string) {
		ok := relay.ValidRedirect(registered)
		if ok && (len(registered) > relay.MaxRedirect || strings.ContainsAny(registered, "#\\\r\n \t\x00<>\"")) {
			t.Errorf("accepts %q", registered)
		}
		lower := strings.ToLower(registered)
		for _, scheme := range []string{"javascript:", "data:", "vbscript:", "file:", "blob:", "about:", "ftp:"} {
			if ok && strings.HasPrefix(lower, scheme) {
				t.Errorf("accepts %q", registered)
			}
		}
		c := relay.Client{Redirects: []string{registered}}
		if ok && c.AllowsRedirect(asked) && asked != registered && (!strings.HasPrefix(asked, "http://") || !relay.ValidRedirect(asked)) {
			t.Errorf("%q lets a browser be sent to %q", registered, asked)
		}
		relay.RedirectHost(registered)
	})
}

func FuzzCleanClientName(f *testing.F) {
	for _, s := range []string{"", "A <b>", "\u202eevil", strings.Repeat("ä", 100), "\xff", "a\u2028b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name := relay.CleanClientName(s)
		if name == "" || utf8.RuneCountInString(name) > 60 || strings.ContainsAny(name, "<>") || strings.TrimSpace(name) != name {
			t.Errorf("%q became %q", s, name)
		}
		for _, r := range name {
			if unicode.IsControl(r) || unicode.In(r, unicode.Cf) {
				t.Errorf("%q keeps %U", s, r)
			}
		}
		key := relay.ConnectorName(name, func(string) bool { return false })
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,23}$`).MatchString(key) {
			t.Errorf("%q makes the key %q", name, key)
		}
	})
}

func FuzzParseClientID(f *testing.F) {
	for _, s := range []string{"hc_00", "https://a.example/c", "https://a/%2e%2e/", "https://a@b/c", "https://a/c#"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := relay.ParseClientID(s)
		if ok && string(id) != s {
			t.Errorf("%q became %q", s, id)
		}
		if ok && id.IsDocument() && (strings.ContainsAny(s, "?#@\\ ") && !strings.Contains(s, "/@") && strings.ContainsAny(s, "?#\\ ") || len(s) > relay.MaxRedirect) {
			t.Errorf("accepts %q", s)
		}
	})
}
