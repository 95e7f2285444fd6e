package webapp

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/relay"
)

func TestNamesAreMadeFitToBeQuoted(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Claude":                             "Claude",
		"  Chat \t\u00a0\u3000GPT \n":        "Chat GPT",
		"\u202eevil\u202c\u2066x\u2069":      "evilx",
		"a\u200bb\u200dc\u00add\ufeff":       "abcd",
		"\u115f\u3164\uffa0\u2800\U000e0041": "An app",
		"":                                   "An app",
		"“x” says „y‟ and «z» ＂":             "'x' says 'y' and 'z' '",
		"e\u0301\u0323\u0324\u0325x":         "e\u0301\u0323x",
		"\u0301x":                            "x",
		strings.Repeat("ab", 40):             strings.Repeat("ab", 30) + "…",
		"👩\u200d💻 dev\ufe0f":                 "👩💻 dev",
		"\xff\xfe":                           "An app",
	} {
		if got := claim(in); got != want {
			t.Errorf("%q is quoted as %q, want %q", in, got, want)
		}
	}
}

func TestNamesThatPlayOnOursAreFound(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Herald", "HERALD", "the herald app", "Hérald", "H3R4LD", "He raId", "ℋerald", "ｈｅｒａｌｄ", "Неrаld", "ΗΕRΑLD", "hera|d", "һerald", "ʜᴇʀᴀʟᴅ", "H-e-r-a-l-d", "He\u200brald"} {
		if !posing(name) {
			t.Errorf("%q passes for another name", name)
		}
	}
	for _, name := range []string{"", "Claude", "ChatGPT", "Geraldine", "Heral", "The Gerald", "ハロルド", "Harold", "Hera & Lid Ltd"} {
		if posing(name) {
			t.Errorf("%q is taken for ours", name)
		}
	}
}

func TestDestinationsAreExplained(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]string{
		"chatgpt.com": "certain", "ChatGPT.COM": "certain", "localhost": "this very computer", "127.0.0.1": "this very computer", "::1": "this very computer",
		"cursor:": "An app on this device", "xn--hrald-bsa.example": "beyond a to z", "a.xn--p1ai": "beyond a to z", "localhost.evil.example": "certain",
	} {
		if got := toDestination(origin); !strings.Contains(got.Note, want) || got.Name != strings.ToLower(origin) {
			t.Errorf("%s: %+v", origin, got)
		}
	}
}

func TestTheTimeLeftIsTold(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]string{600: "10 minutes left", 541: "10 minutes left", 540: "9 minutes left", 61: "2 minutes left", 60: "1 minute left", 59: "Less than a minute left", 0: "Less than a minute left"} {
		if got := remaining(seconds); got != want {
			t.Errorf("%d seconds: %s, want %s", seconds, got, want)
		}
	}
}

func TestScopesAreSpelledOut(t *testing.T) {
	t.Parallel()
	if got := allows(relay.ScopeNotify); len(got) != 2 {
		t.Errorf("notify allows %v", got)
	}
	if got := allows("ledger"); len(got) != 1 || got[0] != "ledger" {
		t.Errorf("a scope without words of its own is shown as %v", got)
	}
}

func FuzzClaim(f *testing.F) {
	for _, seed := range []string{"Claude", "\u202e“x”", "e\u0301\u0301\u0301", "\xff", strings.Repeat("W", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := claim(name)
		if got == "" || !utf8.ValidString(got) || utf8.RuneCountInString(got) > maxClaim*(1+maxMarks)+1 || !strings.HasSuffix(got, "…") && claim(got) != got {
			t.Errorf("%q is quoted as %q", name, got)
		}
		for _, r := range got {
			if unseen(r) || strings.ContainsRune("“”", r) {
				t.Errorf("%q is quoted as %q, with %U", name, got, r)
			}
		}
		posing(name)
	})
}
