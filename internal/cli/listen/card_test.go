package listen

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/cli/voice"
	"github.com/herald-relay/herald/internal/client"
)

var noon = time.Date(2026, 10, 5, 12, 0, 0, 0, time.Local)

func notified(p client.Notification) *client.Notified {
	return &client.Notified{ID: "r_1", CreatedAt: noon, Key: client.Sender{Name: "build-bot", Client: "claude"}, Payload: p}
}

func TestCard(t *testing.T) {
	n := notified(client.Notification{
		Title: "Deploy to production?", Subtitle: "release 2.1", Project: "shop", Task: "deploy", Status: "done", Duration: "3 min",
		Body: "All 214 tests pass and the migration takes about two minutes.\n\nSay no to wait for Monday.",
		Tags: []string{"ci", "prod"}, Link: "https://ci.example/1", ImageURL: "https://ci.example/1.png", Priority: "urgent",
	})
	want := `#3  12:00  build-bot (claude)  shop / deploy  URGENT
  ┃ Deploy to production?
  ┃ release 2.1
  ┃ All 214 tests pass and the migration
  ┃ takes about two minutes.
  ┃ 
  ┃ Say no to wait for Monday.
  ┃ done · 3 min · ci, prod · picture
  ┃ https://ci.example/1.png
  ┃ https://ci.example/1
  ┃ type your answer
`
	if diff := cmp.Diff(want, card(n, "#3", "type your answer", 42, screen.Style{}, noon)); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}
	small := card(notified(client.Notification{Title: "T"}), "#1", "", 80, screen.Style{}, noon.AddDate(0, 0, 1))
	if small != "#1  2026-10-05 12:00  build-bot (claude)\n  ┃ T\n" {
		t.Errorf("small card = %q", small)
	}
}

// hostile fills every text of a notification with s, as a relay that checks nothing would let an agent do.
func hostile(s string) *client.Notified {
	n := notified(client.Notification{
		Title: s, Body: s, Subtitle: s, Status: s, Project: s, Session: s, Task: s, Tool: s, Duration: s, Link: s, Tags: []string{s},
		Priority: s, ImageURL: s,
	})
	n.Key.Name, n.Key.Client = s, s
	return n
}

func checkSafe(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q is no UTF-8", text)
	}
	for _, r := range text {
		if r < 0x20 && r != '\n' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			t.Errorf("the card holds %U: %q", r, text)
		}
	}
}

func TestACardIsSafeFromAgents(t *testing.T) {
	text := card(hostile("a\x1b[2J\x1b]0;owned\x07\u009b31m\u202eevil\r\nb\x9b"), "#1", "", 80, screen.Style{}, noon)
	checkSafe(t, text)
	if strings.Count(text, "\n") > 20 {
		t.Errorf("a one-line field broke the card:\n%s", text)
	}
}

func FuzzCard(f *testing.F) {
	f.Add("plain", 80)
	f.Add("\x1b[31m\u202e\n\r\t", 5)
	f.Add("完成 👩‍👩‍👧‍👦", 12)
	f.Fuzz(func(t *testing.T, s string, columns int) {
		checkSafe(t, card(hostile(s), "#1", "hint", columns%300, screen.Style{}, noon))
	})
}

func TestUtterance(t *testing.T) {
	yes := voice.Utterance{Text: "T.\nB"}
	for _, c := range []struct {
		name string
		n    client.Notification
		want voice.Utterance
		ok   bool
	}{
		{"nothing asks for speech", client.Notification{}, voice.Utterance{}, false},
		{"speak is true", client.Notification{Speak: &client.Speak{}}, yes, true},
		{"presentation is voice", client.Notification{Presentation: "voice"}, yes, true},
		{"presentation is both", client.Notification{Presentation: "both"}, yes, true},
		{"presentation is banner", client.Notification{Presentation: "banner"}, voice.Utterance{}, false},
		{"a voice is named", client.Notification{Voice: "af_heart"}, yes, true},
		{"a speed is named", client.Notification{Speed: 2}, voice.Utterance{Text: "T.\nB", Speed: 2}, true},
		{"false beats all", client.Notification{Speak: &client.Speak{Off: true}, Presentation: "both", Speed: 2}, voice.Utterance{}, false},
		{"text, language and speed of its own", client.Notification{Speak: &client.Speak{Text: "x", Lang: "de", Speed: 1.5}, Speed: 2},
			voice.Utterance{Text: "x", Lang: "de", Speed: 1.5}, true},
	} {
		c.n.Title, c.n.Body = "T", "B"
		if got, ok := utterance(&c.n); ok != c.ok || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestHandle(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	night, day := at("2026-10-05T02:00:00Z"), at("2026-10-05T12:00:00Z")
	h := hours(t, "23:00-06:00")
	show := handling{show: true}
	heldAll := handling{reason: reasonQuiet, scope: "all"}
	for _, c := range []struct {
		name     string
		w        Wishes
		priority string
		speaks   bool
		now      time.Time
		want     handling
	}{
		{"by day", Wishes{Hours: h}, "", true, day, handling{show: true, speak: true}},
		{"by night", Wishes{Hours: h}, "high", true, night, heldAll},
		{"urgent by night, not allowed", Wishes{Hours: h}, "urgent", false, night, heldAll},
		{"urgent by night, allowed", Wishes{Hours: h, UrgentRings: true}, "urgent", true, night, handling{show: true, speak: true}},
		{"speech held back", Wishes{Hours: h, QuietSpeech: true}, "", true, night, handling{show: true, reason: reasonQuiet, scope: "speech"}},
		{"no speech to hold back", Wishes{Hours: h, QuietSpeech: true}, "", false, night, show},
		{"muted beats urgent", Wishes{Muted: true, UrgentRings: true}, "urgent", true, day, handling{reason: reasonMuted, scope: "all"}},
	} {
		if got := c.w.handle(c.priority, c.speaks, c.now); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
