package receive

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/webhook"
)

var (
	firstSecret  = mustSecret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	secondSecret = mustSecret("whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=")
)

func mustSecret(text string) webhook.Secret {
	s, err := webhook.ParseSecret(text)
	if err != nil {
		panic(err)
	}
	return s
}

const (
	eventBody     = `{"eventId":"evt_1","name":"ticket.opened","timestamp":"2026-11-30T12:00:00Z","data":{"id":"7"},"cursor":"c1"}`
	challengeBody = `{"type":"verification","challenge":"n0nce"}`
)

// signed is a delivery as a server sends it.
func signed(t *testing.T, id, body string, at time.Time, secrets ...webhook.Secret) *http.Request {
	t.Helper()
	q := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	q.Header.Set("Content-Type", "application/json; charset=utf-8")
	q.Header.Set(subscription, "sub_1")
	if err := webhook.SetHeaders(q.Header, id, at, []byte(body), secrets...); err != nil {
		t.Fatal(err)
	}
	for name, values := range q.Header { // as a server reads them
		delete(q.Header, name)
		q.Header[http.CanonicalHeaderKey(name)] = values
	}
	return q
}

// take hands requests to a receiver and returns what it told and answered.
func take(r *Receiver, told *[]Arrival, requests ...*http.Request) (arrivals []Arrival, answers []*httptest.ResponseRecorder) {
	r.opts.Tell = func(a Arrival) { *told = append(*told, a) }
	for _, q := range requests {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		answers = append(answers, w)
	}
	return *told, answers
}

func TestOnlyWhatVerifiesIsAnsweredByTheScript(t *testing.T) {
	now := time.Now()
	edit := func(fn func(*http.Request)) *http.Request {
		q := signed(t, "evt_1", eventBody, now, firstSecret)
		fn(q)
		return q
	}
	for _, c := range []struct {
		name    string
		q       *http.Request
		verdict Verdict
		status  int
	}{
		{"good", signed(t, "evt_1", eventBody, now, firstSecret), Verified, 599},
		{"signed with the other secret", signed(t, "evt_1", eventBody, now, secondSecret), Verified, 599},
		{"signed with both", signed(t, "evt_1", eventBody, now, webhook.NewSecret(), secondSecret), Verified, 599},
		{"signed with another secret", signed(t, "evt_1", eventBody, now, webhook.NewSecret()), BadSignature, 401},
		{"too old", signed(t, "evt_1", eventBody, now.Add(-10*time.Minute), firstSecret), Stale, 401},
		{"from the future", signed(t, "evt_1", eventBody, now.Add(10*time.Minute), firstSecret), Stale, 401},
		{"another id than signed", edit(func(q *http.Request) { q.Header.Set("Webhook-Id", "evt_2") }), BadSignature, 401},
		{"no id", edit(func(q *http.Request) { q.Header.Del("Webhook-Id") }), BadHeaders, 400},
		{"no signature", edit(func(q *http.Request) { q.Header.Del("Webhook-Signature") }), BadHeaders, 400},
		{"no timestamp", edit(func(q *http.Request) { q.Header.Del("Webhook-Timestamp") }), BadHeaders, 400},
		{"no subscription", edit(func(q *http.Request) { q.Header.Del(subscription) }), BadHeaders, 400},
		{"a boundless subscription", edit(func(q *http.Request) { q.Header.Set(subscription, strings.Repeat("s", 257)) }), BadHeaders, 400},
		{"another subscription", edit(func(q *http.Request) { q.Header.Set(subscription, "sub_2") }), Unknown, 503},
		{"GET", edit(func(q *http.Request) { q.Method = http.MethodGet }), NotPost, 405},
		{"another content type", edit(func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") }), NotJSON, 415},
		{"no JSON", signed(t, "evt_1", "{", now, firstSecret), NotJSON, 400},
		{"as large as may be", signed(t, "evt_1", padded(maxBody), now, firstSecret), Verified, 599},
		{"larger", signed(t, "evt_1", padded(maxBody+1), now, firstSecret), TooLarge, 413},
	} {
		script, err := ParseScript("599*,challenge:598*")
		if err != nil {
			t.Fatal(err)
		}
		r := New(Options{Secrets: []webhook.Secret{firstSecret, secondSecret}, Subscriptions: []string{"sub_1"}, Script: script})
		told, answers := take(r, new([]Arrival), c.q)
		if len(told) != 1 || told[0].Verdict != c.verdict || answers[0].Code != c.status || told[0].Status != c.status {
			t.Errorf("%s: told %+v, answered %d, want %s and %d", c.name, told, answers[0].Code, c.verdict, c.status)
		}
		if c.verdict == NotPost && answers[0].Header().Get("Allow") != "POST" {
			t.Errorf("%s: no Allow", c.name)
		}
	}
}

func padded(size int) string {
	head, tail := eventBody[:len(eventBody)-1]+`,"_meta":{"pad":"`, `"}}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

func TestAttemptsAreCountedAndFaultsNoted(t *testing.T) {
	now := time.Now()
	other := strings.Replace(eventBody, `"7"`, `"8"`, 1)
	elsewhere := signed(t, "evt_1", eventBody, now, firstSecret)
	elsewhere.Header.Set(subscription, "sub_2")
	r := New(Options{Secrets: []webhook.Secret{firstSecret}})
	told, _ := take(r, new([]Arrival),
		signed(t, "evt_1", eventBody, now, firstSecret),
		signed(t, "evt_1", eventBody, now.Add(time.Minute), firstSecret),
		elsewhere,
		signed(t, "evt_1", other, now, firstSecret),
		signed(t, "msg_1", eventBody, now, firstSecret),
		signed(t, "evt_2", `{"data":[],"timestamp":"2026-11-30T12:00:00"}`, now, firstSecret),
		signed(t, "msg_2", `{"type":"verification"}`, now, firstSecret),
		signed(t, "msg_3", `{"type":"gap","cursor":"c9"}`, now, firstSecret),
	)
	type row struct {
		Kind    string
		Attempt int
		Notes   []string
	}
	var have []row
	for _, a := range told {
		have = append(have, row{a.Kind, a.Attempt, a.Notes})
	}
	want := []row{
		{KindEvent, 1, nil},
		{KindEvent, 2, nil},
		{KindEvent, 1, nil},
		{KindEvent, 3, []string{"the body differs from that of the attempt before"}},
		{KindEvent, 1, []string{"webhook-id is not the eventId, which ChatGPT and the AI SDK insist on"}},
		{KindEvent, 1, []string{"eventId is missing", "name is missing", "timestamp is no date and time with a zone", "data is no object"}},
		{KindVerification, 1, []string{"the challenge is missing"}},
		{"gap", 1, nil},
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
}

// TestWhatIsShown is the golden form of both outputs.
func TestWhatIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		script, err := ParseScript("503*2,drop")
		if err != nil {
			t.Fatal(err)
		}
		r := New(Options{Secrets: []webhook.Secret{secondSecret, firstSecret}, Script: script})
		evil := `{"eventId":"e\u001b[2J","name":"n\u202e","timestamp":"2026-11-30T12:00:00Z","data":{"s":"\u009b31m"}}`
		stranger := signed(t, "evt_1", "{\x1b", now, webhook.NewSecret())
		stranger.Header.Set("Webhook-Id", "e\x1b[2J")
		told := new([]Arrival)
		take(r, told, signed(t, "msg_verification_1", challengeBody, now, firstSecret), signed(t, "evt_1", eventBody, now, firstSecret),
			signed(t, "evt_2", evil, now, secondSecret), stranger)
		func() {
			defer func() {
				if recover() != http.ErrAbortHandler {
					t.Error("the connection did not break")
				}
			}()
			take(r, told, signed(t, "evt_1", eventBody, now, firstSecret))
		}()
		var text, lines bytes.Buffer
		for _, a := range *told {
			line, err := a.JSON()
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(line)
			a.At = time.Date(2000, 1, 1, 0, 0, 0, 0, time.Local)
			text.WriteString(a.Text(screen.NewStyle(false)))
		}
		golden(t, "arrivals.txt", text.Bytes())
		golden(t, "arrivals.jsonl", lines.Bytes())
		for _, secret := range []webhook.Secret{firstSecret, secondSecret} {
			if strings.Contains(text.String()+lines.String(), strings.TrimPrefix(secret.Reveal(), "whsec_")[:10]) {
				t.Error("a secret is shown")
			}
		}
		if i := strings.IndexFunc(text.String()+lines.String(), func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x202e }); i >= 0 {
			t.Errorf("a control character at %d reaches the terminal", i)
		}
	})
}

// golden compares with a file of testdata, and writes it when HERALD_GOLDEN is set.
func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("HERALD_GOLDEN") != "" {
		if err := os.WriteFile(path, have, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(have)); diff != "" {
		t.Errorf("%s (-want +have):\n%s", name, diff)
	}
}

func TestArrivalsAreKeptAsTheyCame(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "in")
	for range 2 { // a second run goes on after the first
		f, err := NewFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		r := New(Options{Secrets: []webhook.Secret{firstSecret}})
		told, _ := take(r, new([]Arrival), signed(t, "/etc/evt", eventBody, time.Now(), firstSecret))
		if err := f.Save(told[0]); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if diff := cmp.Diff([]string{"000001.body", "000001.json", "000002.body", "000002.json"}, names); diff != "" {
		t.Fatalf("(-want +have):\n%s", diff)
	}
	body, err := os.ReadFile(filepath.Join(dir, "000002.body"))
	if err != nil || string(body) != eventBody {
		t.Errorf("body %q, %v", body, err)
	}
	about, err := os.ReadFile(filepath.Join(dir, "000002.json"))
	var shown Shown
	if err != nil || json.Unmarshal(about, &shown) != nil || shown.ID != "/etc/evt" || shown.Headers.Get("Webhook-Signature") == "" || shown.Body != nil {
		t.Errorf("about it: %s, %v", about, err)
	}
	// Verified again from the files alone.
	if _, err := webhook.Verify(shown.Headers, body, time.Now(), firstSecret); err != nil {
		t.Errorf("what was kept does not verify: %v", err)
	}
}
