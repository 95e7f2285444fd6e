package payload

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// trim removes white space, line ends and byte order marks from both ends, as JavaScript's trim does.
func trim(s string) string {
	if s == "" || printsASCII(s[0]) && printsASCII(s[len(s)-1]) {
		return s
	}
	return strings.TrimFunc(s, isSpace)
}

func isSpace(c rune) bool { return unicode.IsSpace(c) || c == '\ufeff' }

// printsASCII holds for the characters that need no thought: visible ASCII.
func printsASCII(c byte) bool { return c > ' ' && c <= '~' }

// cleanText checks characters and length of a text already trimmed. With oneLine each run of line breaks and tabs
// becomes a space (public case 104).
func cleanText(s string, limit int, oneLine bool) (clean, problem string) {
	if easy(s) {
		if len(s) > limit {
			return "", tooLong(len(s))
		}
		return s, ""
	}
	chars, breaks := 0, false
	for _, c := range s {
		chars++
		if what := banned(c); what != "" {
			return "", "character " + strconv.Itoa(chars) + " is a " + what + "; remove it"
		}
		breaks = breaks || isBreak(c)
	}
	if oneLine && breaks {
		s = strings.Join(strings.FieldsFunc(s, isBreak), " ")
		chars = utf8.RuneCountInString(s)
	}
	if chars > limit {
		return "", tooLong(chars)
	}
	return s, ""
}

// easy holds for texts of visible ASCII and spaces alone.
func easy(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// isBreak holds for what ends a line or jumps within one.
func isBreak(c rune) bool {
	return c == '\n' || c == '\r' || c == '\t' || c == '\u2028' || c == '\u2029'
}

// banned names the kind of a character that no text may hold: control characters other than line breaks and tabs, and
// the embedding, override and isolate controls that make text read in another order than it is written.
func banned(c rune) string {
	switch {
	case c == '\n' || c == '\r' || c == '\t':
		return ""
	case unicode.IsControl(c):
		return "control character"
	case c >= '\u202a' && c <= '\u202e', c >= '\u2066' && c <= '\u2069':
		return "bidirectional control character"
	default:
		return ""
	}
}
