package pairing

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCodesHaveTheirShape(t *testing.T) {
	t.Parallel()
	counts := map[byte]int{}
	const rounds = 5000
	for range rounds {
		code := newCode()
		if len(code) != 9 || code[4] != '-' {
			t.Fatalf("code = %q, want XXXX-XXXX", code)
		}
		for i := range len(code) {
			if i != 4 {
				counts[code[i]]++
			}
		}
	}
	if len(counts) != len(alphabet) {
		t.Errorf("%d characters are used, want %d", len(counts), len(alphabet))
	}
	// 40,000 draws of 31: each comes 1290 times, give or take 36. Seven of those is no accident.
	for c, n := range counts {
		if strings.IndexByte("ILO01", c) >= 0 || strings.IndexByte(alphabet, c) < 0 {
			t.Errorf("%q is in a code", c)
		}
		if n < 1290-250 || n > 1290+250 {
			t.Errorf("%q came %d times of %d", c, n, 8*rounds)
		}
	}
}

func TestCodesAreComparedWithoutCaseDashAndBlanks(t *testing.T) {
	t.Parallel()
	for _, spelling := range []string{"ABCD-2345", "abcd-2345", "ABCD2345", " ab cd 23 45 ", "--A-B-C-D-2-3-4-5--", "\tabcd2345\t"} {
		if got := normalise(spelling); got != "ABCD2345" {
			t.Errorf("%q becomes %q", spelling, got)
		}
	}
	for _, other := range []string{"ABCD_2345", "ABCD\n2345", "ＡBCD2345", "ABCD–2345"} { // an en dash, a full-width A
		if got := normalise(other); got == "ABCD2345" {
			t.Errorf("%q counts as the code", other)
		}
	}
}

func TestDeviceNamesAreCleaned(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"laptop": "laptop", "  Ada’s MacBook \n": "Ada’s MacBook", "": "", " \t\r\n ": "",
		"a\x00b\x1fc\x7fd": "a b c d", strings.Repeat("é", 61): strings.Repeat("é", 60),
		strings.Repeat("x", 59) + " y": strings.Repeat("x", 59), // the cut leaves no blank at the end
		"👩‍👩‍👧‍👦":                      "👩‍👩‍👧‍👦", "完成": "完成",
		"\u202eevil\u2066": "evil", "a\u009bm": "a m", // an override, and what terminals take for an escape
	} {
		if got := CleanName(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func FuzzCleanName(f *testing.F) {
	for _, seed := range []string{"laptop", " a\x00b ", strings.Repeat("é ", 40), "\u202eevil", "\u0085"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := CleanName(name)
		switch {
		case utf8.RuneCountInString(got) > maxDeviceNameChars:
			t.Errorf("%q has more than %d characters", got, maxDeviceNameChars)
		case got != strings.TrimSpace(got):
			t.Errorf("%q has blanks around it", got)
		case strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e }):
			t.Errorf("%q holds control characters", got)
		case CleanName(got) != got:
			t.Errorf("%q is cleaned again to %q", got, CleanName(got))
		case utf8.ValidString(name) && !utf8.ValidString(got):
			t.Errorf("%q is cut inside a character", got)
		}
	})
}

func TestPeoplesNames(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"a": true, "ada-1": true, "7": true, strings.Repeat("a", 32): true,
		"": false, "-a": false, "Ada": false, "a b": false, "a_b": false, "é": false, strings.Repeat("a", 33): false, "a\n": false,
	} {
		if handle.MatchString(name) != good {
			t.Errorf("%q: accepted = %v, want %v", name, !good, good)
		}
	}
	if !handle.MatchString(FirstPerson) {
		t.Errorf("the first person's own name %q is not allowed", FirstPerson)
	}
}
