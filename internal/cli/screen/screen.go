// Package screen makes text of strangers fit for a terminal: harmless, measured and wrapped.
//
// Agents write titles and bodies, relays write error messages, people name devices. None of them may move the cursor,
// recolour, rename or reorder what a person sees on their own screen, so whatever did not come from this program passes
// through Line or Block first. Text for programs (JSON) passes through JSON, which changes no value.
package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks bounds the combining marks on one character; more of them climb over neighbouring lines.
const maxMarks = 8

// Line makes s safe and one line long: line breaks and tabs become single blanks.
func Line(s string) string {
	return strings.TrimSpace(clean(s, func(b *strings.Builder, r rune) {
		if text := b.String(); text != "" && text[len(text)-1] != ' ' {
			b.WriteByte(' ')
		}
	}))
}

// Block makes s safe and keeps its line breaks; a tab becomes four blanks.
func Block(s string) string {
	return clean(s, func(b *strings.Builder, r rune) {
		if r == '\t' {
			b.WriteString("    ")
		} else {
			b.WriteByte('\n')
		}
	})
}

// clean drops what only reorders or hides, shows U+FFFD for what could command a terminal, and hands line breaks (each of
// CR LF, CR, LF, NEL, VT, FF and the Unicode separators once) and tabs to blank.
func clean(s string, blank func(*strings.Builder, rune)) string {
	var b strings.Builder
	b.Grow(len(s))
	marks, last := 0, rune(0)
	for _, r := range s { // a byte that is no UTF-8 comes as U+FFFD
		switch {
		case r == '\n' && last == '\r':
		case breaks(r):
			blank(&b, '\n')
		case r == '\t':
			blank(&b, r)
		case r == ' ':
			b.WriteByte(' ')
		case control(r):
			b.WriteRune(utf8.RuneError)
		case invisible(r):
		case unicode.Is(unicode.M, r):
			if marks++; marks <= maxMarks {
				b.WriteRune(r)
			}
			last = r
			continue
		default:
			b.WriteRune(r)
		}
		marks, last = 0, r
	}
	return b.String()
}

// breaks reports whether r ends a line somewhere.
func breaks(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

// control reports whether a terminal could take r for a command: the C0 and C1 sets and DEL.
func control(r rune) bool { return r < 0x20 || r >= 0x7f && r <= 0x9f }

// invisible reports whether r reorders, joins or hides text without being seen: the format characters, bidirectional
// controls and tags among them. The two joiners stay, since emoji and several scripts are written with them.
func invisible(r rune) bool {
	switch r {
	case 0x200c, 0x200d:
		return false
	case 0x115f, 0x1160, 0x3164, 0xffa0: // Hangul fillers: letters that show nothing
		return true
	}
	return unicode.Is(unicode.Cf, r)
}

// JSON writes every character of a JSON text that Line would replace or drop as an escape. The value stays the same:
// such characters stand only inside strings.
func JSON(text []byte) []byte {
	s := string(text)
	if strings.IndexFunc(s, unsafeInJSON) < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(s) + 32)
	for _, r := range s {
		switch {
		case !unsafeInJSON(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}

func unsafeInJSON(r rune) bool {
	return r == 0x2028 || r == 0x2029 || r >= 0x7f && control(r) || invisible(r)
}
