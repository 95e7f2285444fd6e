package screen

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Width is how many columns safe text takes on a terminal.
func Width(s string) (columns int) {
	for _, r := range s {
		columns += runeWidth(r)
	}
	return columns
}

func runeWidth(r rune) int {
	switch {
	case unicode.Is(unicode.M, r), r == 0x200c, r == 0x200d:
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Wrap breaks safe text into lines of at most columns, between words where it can. Line breaks in s stay; blanks at the
// end of a line go. Fewer than ten columns count as ten.
func Wrap(s string, columns int) []string {
	columns = max(columns, 10)
	var lines []string
	for paragraph := range strings.SplitSeq(s, "\n") {
		lines = append(lines, wrapParagraph(strings.TrimRight(paragraph, " "), columns)...)
	}
	return lines
}

func wrapParagraph(s string, columns int) (lines []string) {
	start, used := 0, 0    // of the current line: its first byte, its columns
	gap, afterGap := -1, 0 // of the last blank in it: where, and the columns up to its end
	for i, r := range s {
		w := runeWidth(r)
		for used+w > columns && r != ' ' {
			cut, next, rest := i, i, 0
			if gap >= 0 {
				cut, next, rest = gap, gap+1, used-afterGap
			}
			lines = append(lines, strings.TrimRight(s[start:cut], " "))
			start, used, gap = next, rest, -1
		}
		used += w
		if r == ' ' {
			gap, afterGap = i, used
		}
	}
	return append(lines, s[start:])
}
