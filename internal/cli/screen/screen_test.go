package screen

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Public cases 102 and 104 among them: titles in any script, line breaks, forged header lines.
func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                             "plain",
		"a\nb":                              "a b",
		"a\r\nX-Evil: 1":                    "a X-Evil: 1",
		" a\n\n\tb ":                        "a b",
		"完成":                                "完成",
		"Grüße 👩‍👩‍👧‍👦":                     "Grüße 👩‍👩‍👧‍👦",
		"red \x1b[31malert\x1b[0m":          "red �[31malert�[0m",
		"title \x1b]0;pwned\x07":            "title �]0;pwned�",
		"c1 \u009b31m":                      "c1 �31m",
		"raw c1 \x9b31m":                    "raw c1 �31m",
		"back\x08\x08space":                 "back��space",
		"bell\x07 nul\x00 del\x7f":          "bell� nul� del�",
		"user\u202egnp.exe":                 "usergnp.exe",
		"a\u2066b\u2069c\u200ed\u061ce":     "abcde",
		"zero\u200bwidth\ufeff":             "zerowidth",
		"tag\U000e0041\U000e007f":           "tag",
		"e" + strings.Repeat("\u0301", 100): "e" + strings.Repeat("\u0301", maxMarks),
		"a\u2028b\u2029c\u0085d":            "a b c d",
		"\ud7ff\xed\xa0\x80":                "\ud7ff���",
		"fill\u3164er":                      "filler",
		"":                                  "",
	} {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestBlock(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\n\nc":      "a\nb\n\nc",
		"a\r\nb\rc":      "a\nb\nc",
		"a\tb":           "a    b",
		"a\vb\fc\u2028d": "a\nb\nc\nd",
		"\x1b[2Ja":       "�[2Ja",
	} {
		if got := Block(in); got != want {
			t.Errorf("Block(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestJSONKeepsTheValueAndCommandsNothing(t *testing.T) {
	in := "{\"a\":\"\u009b31m \u202e \x7f \u2028 \U000e0041 é 👩‍👩‍👧‍👦 \\u001b\"}"
	out := JSON([]byte(in))
	if unsafe := strings.IndexFunc(string(out), func(r rune) bool { return control(r) || invisible(r) }); unsafe >= 0 {
		t.Errorf("JSON = %q, unsafe at %d", out, unsafe)
	}
	if !strings.Contains(string(out), "é 👩‍👩‍👧‍👦") {
		t.Errorf("JSON = %s, escaped more than needed", out)
	}
	var a, b map[string]string
	if err := json.Unmarshal([]byte(in), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &b); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%s is another value than %s (%v)", out, in, err)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in      string
		columns int
		want    []string
	}{
		{"short", 20, []string{"short"}},
		{"", 20, []string{""}},
		{"one two three four", 10, []string{"one two", "three four"}},
		{"exactly10c x", 10, []string{"exactly10c", "x"}},
		{"averyveryverylongword", 10, []string{"averyveryv", "erylongwor", "d"}},
		{"a averyveryverylongword", 10, []string{"a", "averyveryv", "erylongwor", "d"}},
		{"keeps\n\nbreaks  ", 10, []string{"keeps", "", "breaks"}},
		{"完成完成完成", 10, []string{"完成完成完", "成"}},
		{"tiny columns", 1, []string{"tiny", "columns"}},
		{"    indented", 20, []string{"    indented"}},
	} {
		if diff := cmp.Diff(c.want, Wrap(c.in, c.columns)); diff != "" {
			t.Errorf("Wrap(%q, %d) (-want +got):\n%s", c.in, c.columns, diff)
		}
	}
}

func TestStyle(t *testing.T) {
	if got := NewStyle(true).Red("a\n\nb"); got != "\x1b[31ma\x1b[0m\n\n\x1b[31mb\x1b[0m" {
		t.Errorf("Red = %q", got)
	}
	if got := NewStyle(false).Bold("a"); got != "a" {
		t.Errorf("Bold = %q without colours", got)
	}
}

func FuzzSafe(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[31m", "\u009b", "\u202e", "a\r\nb", "\xff\xfe", "e\u0301\u0301", "完成 abc", "👩‍👩‍👧‍👦", "\U000e0041"} {
		f.Add(s, 12)
	}
	f.Fuzz(func(t *testing.T, s string, columns int) {
		line, block := Line(s), Block(s)
		for _, out := range []string{line, block} {
			if !utf8.ValidString(out) {
				t.Errorf("%q is no UTF-8", out)
			}
			for _, r := range out {
				if r != '\n' && control(r) || invisible(r) || r == 0x2028 || r == 0x2029 {
					t.Errorf("%q holds %U", out, r)
				}
			}
		}
		if strings.Contains(line, "\n") || Line(line) != line || Block(block) != block {
			t.Errorf("not settled: %q, %q", line, block)
		}
		for _, w := range Wrap(block, columns%200) {
			if Width(w) > max(columns%200, 10) {
				t.Errorf("%q is %d columns wide", w, Width(w))
			}
		}
		if quoted, err := json.Marshal(s); err == nil {
			var a, b string
			if json.Unmarshal(quoted, &a) != nil || json.Unmarshal(JSON(quoted), &b) != nil || a != b {
				t.Errorf("JSON changed %q", s)
			}
		}
		if !slices.Equal(Wrap(block, 40), Wrap(block, 40)) {
			t.Error("wrapping is not repeatable")
		}
	})
}
