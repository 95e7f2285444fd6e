package payload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/strictjson"
)

// form is the rule of one kind of text. check gets it trimmed and not empty, and returns it as it is to be stored, or
// what is wrong with it as the end of a sentence: "it has 201 characters".
type form struct {
	need  string
	check func(s string) (clean, problem string)
}

// The forms that more than one place uses, or that need a name.
var (
	status         = pattern("1 to 32 letters, digits, - and _", 32, lowerCase, isWordOrDash)
	notificationID = pattern("1 to 128 letters, digits and . _ : -", 128, nil, isIDByte)
	sound          = form{"1 to 40 letters, digits, spaces and . _ -, starting with a letter or digit", checkSound}
	voice          = pattern("1 to 40 letters, digits and _", 40, nil, isWord)
	lang           = form{"a language code such as en-us: 2 or 3 letters, then if wanted - and 2 to 8 letters or digits", checkLang}
	spokenText     = lines(2000)
	durationText   = line(40)
	speed          = span{"a number from 0.5 to 2", 0.5, 2}
	timeout        = span{"a number from 1 to 3600", 1, 3600}
)

const needFlag = "true or false"

// text is the row of a field whose value is a string.
func text(name string, f form, use string) rule {
	return rule{name: name, types: []string{"string"}, need: f.need, use: use, read: func(d *draft, r *rule, v *strictjson.Value) {
		if s := d.text(name, f, v); s != "" {
			d.keep(r, s)
		}
	}}
}

// text reads a string by its form, with "" for absent: empty after trimming, or refused.
func (d *draft) text(name string, f form, v *strictjson.Value) string {
	if v.Kind != strictjson.String {
		d.refuse(name, f.need, "it is "+v.Kind.Article())
		return ""
	}
	s := trim(v.Str)
	if s == "" {
		return ""
	}
	s, problem := f.check(s)
	if problem != "" {
		d.refuse(name, f.need, problem)
		return ""
	}
	return s
}

// keep writes a text field, and remembers those that mean something to the relay.
func (d *draft) keep(r *rule, s string) {
	switch r.at {
	case fieldTitle:
		d.title = s
	case fieldNotificationID:
		d.agentID = s
	case fieldPresentation:
		d.speech.on = d.speech.on || s != "banner"
	}
	d.writeText(r.name, s)
}

// line is text without line breaks: each run of them, or of tabs, becomes one space.
func line(limit int) form {
	return form{fmt.Sprintf("text of at most %d characters", limit), func(s string) (string, string) {
		return cleanText(s, limit, true)
	}}
}

// lines is text that may have line breaks and tabs.
func lines(limit int) form {
	return form{fmt.Sprintf("text of at most %d characters", limit), func(s string) (string, string) {
		return cleanText(s, limit, false)
	}}
}

func choice(words ...string) form {
	need := strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	return form{need, func(s string) (string, string) {
		if slices.Contains(words, s) {
			return s, ""
		}
		return "", "it is something else"
	}}
}

// pattern is text of at most limit bytes that all satisfy allowed, passed through store if there is one.
func pattern(need string, limit int, store func(string) string, allowed func(byte) bool) form {
	return form{need, func(s string) (string, string) {
		if problem := matches(s, limit, allowed); problem != "" {
			return "", problem
		}
		if store != nil {
			s = store(s)
		}
		return s, ""
	}}
}

func matches(s string, limit int, allowed func(byte) bool) (problem string) {
	for i := range len(s) {
		if !allowed(s[i]) {
			return otherCharacter(s, i)
		}
	}
	if len(s) > limit {
		return tooLong(len(s))
	}
	return ""
}

// IsID reports whether s has the form of a notificationId that an agent may choose.
func IsID(s string) bool { return s != "" && matches(s, 128, isIDByte) == "" }

func otherCharacter(s string, at int) string {
	return "character " + strconv.Itoa(utf8.RuneCountInString(s[:at])+1) + " is another"
}

func tooLong(chars int) string { return "it has " + strconv.Itoa(chars) + " characters" }

func lowerCase(s string) string { return strings.ToLower(s) }

func isLetter(c byte) bool     { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool      { return c >= '0' && c <= '9' }
func isAlnum(c byte) bool      { return isLetter(c) || isDigit(c) }
func isWord(c byte) bool       { return isAlnum(c) || c == '_' }
func isWordOrDash(c byte) bool { return isWord(c) || c == '-' }
func isIDByte(c byte) bool     { return isWordOrDash(c) || c == '.' || c == ':' }
func isSoundByte(c byte) bool  { return isWordOrDash(c) || c == '.' || c == ' ' }

func checkSound(s string) (string, string) {
	if !isAlnum(s[0]) {
		return "", otherCharacter(s, 0)
	}
	return s, matches(s, 40, isSoundByte)
}

// checkLang holds a code to the shape that its form describes.
func checkLang(s string) (string, string) {
	const problem = "it is something else"
	primary, region, regional := strings.Cut(s, "-")
	if len(primary) < 2 || matches(primary, 3, isLetter) != "" {
		return "", problem
	}
	if regional && (len(region) < 2 || matches(region, 8, isAlnum) != "") {
		return "", problem
	}
	return s, ""
}

// span is the rule of a number: from low to high, both included.
type span struct {
	need      string
	low, high float64
}

// number reads a number by its span, with 0, which no span holds, for refused.
func (d *draft) number(name string, s span, v *strictjson.Value) float64 {
	switch {
	case v.Kind != strictjson.Number:
		d.refuse(name, s.need, "it is "+v.Kind.Article())
	case v.Num < s.low:
		d.refuse(name, s.need, "it is less")
	case v.Num > s.high:
		d.refuse(name, s.need, "it is more")
	default:
		return v.Num
	}
	return 0
}

func readTimeout(d *draft, r *rule, v *strictjson.Value) {
	if n := d.number(r.name, timeout, v); n != 0 {
		d.out = appendNumber(d.begin(r.name), n)
	}
}

// flag is the row of a field whose value is a boolean.
func flag(name, use string) rule {
	return rule{name: name, types: []string{"boolean"}, need: needFlag, use: use, read: func(d *draft, r *rule, v *strictjson.Value) {
		if b, ok := d.flag(r, v); ok {
			d.writeFlag(name, b)
		}
	}}
}

func (d *draft) flag(r *rule, v *strictjson.Value) (b, ok bool) {
	if v.Kind != strictjson.Bool {
		d.refuse(r.name, needFlag, "it is "+v.Kind.Article())
		return false, false
	}
	return v.Bool, true
}

func readExpectReply(d *draft, r *rule, v *strictjson.Value) {
	d.expectReply, _ = d.flag(r, v)
}

// readDuration keeps a text, or a number as JavaScript prints it.
func readDuration(d *draft, r *rule, v *strictjson.Value) {
	switch v.Kind {
	case strictjson.String:
		if s := d.text(r.name, form{r.need, durationText.check}, v); s != "" {
			d.writeText(r.name, s)
		}
	case strictjson.Number:
		if !finite(v.Num) {
			d.refuse(r.name, r.need, "the number is too large")
			return
		}
		d.out = append(appendNumber(append(d.begin(r.name), '"'), v.Num), '"')
	default:
		d.refuse(r.name, r.need, "it is "+v.Kind.Article())
	}
}
