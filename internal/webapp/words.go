package webapp

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/herald-relay/herald/internal/relay"
)

const (
	maxClaim = 60 // characters of a name that are shown
	maxMarks = 2  // marks above and below one letter
)

// claim makes a client's name fit to be quoted: nothing invisible, nothing that changes the direction of other text, no
// quotation marks that could seem to end the quotation, no towers of marks.
func claim(name string) string {
	seen := strings.Map(func(r rune) rune {
		switch {
		case blank(r):
			return ' '
		case unseen(r):
			return -1
		case strings.ContainsRune("“”„‟«»＂", r):
			return '\''
		}
		return r
	}, name)
	var b strings.Builder
	before, marks, shown := ' ', 0, 0
	for _, r := range strings.Join(strings.Fields(seen), " ") {
		if unicode.In(r, unicode.Mn, unicode.Me) {
			if marks++; marks > maxMarks || before == ' ' {
				continue // a tower, or a mark that would stand on the quotation mark
			}
		} else if before, marks = r, 0; shown == maxClaim {
			b.WriteRune('…')
			break
		} else {
			shown++
		}
		b.WriteRune(r)
	}
	if clean := strings.TrimSpace(b.String()); clean != "" {
		return clean
	}
	return relay.NamelessClient
}

// blank is white space, and what is drawn as such.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Z, r) || r == '\u2800' }

func unseen(r rune) bool {
	return unicode.In(r, unicode.C, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == unicode.ReplacementChar
}

// lookalikes are letters that are drawn like one of our name, once upper case and decorations are gone. L stands among the
// I, for these two look alike already.
var lookalikes = func() map[rune]rune {
	m := map[rune]rune{}
	for letter, others := range map[rune]string{
		'h': "һнհηʜꮋɦћ", 'e': "3еєεҽꭼᴇɛ€", 'r': "гʀꭱɾяꮁ", 'a': "4@аαɑᴀꭺλ∀", 'i': "l1|!іӏıιʟǀןا", 'd': "ԁժɗđᴅðꮄ",
	} {
		for _, r := range others {
			m[r] = letter
		}
	}
	return m
}()

// posing reports whether a name could be read as ours.
func posing(name string) bool {
	plain := strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		if like, ok := lookalikes[r]; ok {
			return like
		}
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, norm.NFKD.String(claim(name)))
	return strings.Contains(plain, "heraid")
}

// destination is where a browser goes, as a person is told.
type destination struct{ Name, Note string }

func toDestination(origin string) destination {
	name := strings.ToLower(origin)
	switch {
	case strings.HasSuffix(name, ":"):
		return destination{name, "An app on this device that opens such links."}
	case name == "localhost" || name == "127.0.0.1" || name == "::1":
		return destination{name, "A program on this very computer."}
	case strings.Contains("."+name, ".xn--"):
		return destination{name, "The name has letters beyond a to z. It is written here as browsers address it."}
	}
	return destination{name, "This is certain. If you do not know the place, deny."}
}

// allows says what a scope lets a client do.
func allows(scope string) []string {
	if scope == relay.ScopeNotify {
		return []string{"send you notifications", "read your answers to them"}
	}
	return []string{scope}
}

// remaining says how long there is to decide. The script counts on from there.
func remaining(seconds int) string {
	switch minutes := (seconds + 59) / 60; {
	case seconds < 60:
		return "Less than a minute left"
	case minutes == 1:
		return "1 minute left"
	default:
		return fmt.Sprintf("%d minutes left", minutes)
	}
}
