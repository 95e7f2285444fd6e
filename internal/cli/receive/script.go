package receive

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/herald-relay/herald/mcpevents/eventstest"
)

// Bounds of a script.
const (
	maxScript  = 16 << 10 // bytes
	maxRepeat  = 100_000
	maxSlow    = time.Hour
	forTheRest = -1 // repeats
)

// Script says how arrivals are answered: challenges and deliveries have a queue each. The zero Script answers everything
// rightly, and so does any once its steps are used up.
type Script struct {
	challenges, deliveries []step
}

// step is one answer, given times over.
type step struct {
	times int // or forTheRest
	answer
}

// kind is what an answer is at heart.
type kind int

const (
	right     kind = iota // the echo of a challenge, 204 to a delivery
	wrongEcho             // another value than the challenge's
	status                // that status and nothing else
	redirect              // 302 to somewhere
	drop                  // the connection breaks
	hang                  // no answer, until the sender leaves
)

// answer is one way to answer.
type answer struct {
	kind   kind
	status int
	// retry is the value of Retry-After, "" for none; retryDate is an instant that far ahead instead.
	retry     string
	retryDate time.Duration
	location  string
	slow      time.Duration // before anything is sent
	drip      time.Duration // before each byte of the body
	text      string        // as the script has it
}

// ParseScript reads steps with commas between them. The grammar is in docs/events-tools.md.
func ParseScript(text string) (Script, error) {
	var s Script
	if len(text) > maxScript {
		return s, fmt.Errorf("the script has more than %d bytes", maxScript)
	}
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	pieces, err := splitQuoted(text)
	if err != nil {
		return s, err
	}
	for i, piece := range pieces {
		if err := s.add(strings.TrimSpace(piece)); err != nil {
			return Script{}, fmt.Errorf("step %d of the script, %q: %w", i+1, strings.TrimSpace(piece), err)
		}
	}
	return s, nil
}

// splitQuoted splits at commas that stand outside double quotes.
func splitQuoted(text string) ([]string, error) {
	var pieces []string
	quoted, from := false, 0
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			pieces = append(pieces, text[from:i])
			from = i + 1
		}
	}
	if quoted {
		return nil, errors.New("a double quote of the script is never closed")
	}
	return append(pieces, text[from:]), nil
}

// add reads one step into the queue that it is for.
func (s *Script) add(text string) error {
	body, forChallenge := strings.CutPrefix(text, "challenge:")
	body, times, err := cutRepeat(body)
	if err != nil {
		return err
	}
	a, err := parseAnswer(body)
	if err != nil {
		return err
	}
	a.text = body
	queue := &s.deliveries
	if forChallenge || a.echoes() {
		queue = &s.challenges
	}
	if n := len(*queue); n > 0 && (*queue)[n-1].times == forTheRest {
		return fmt.Errorf("the step before, %s*, is for all the rest", (*queue)[n-1].text)
	}
	*queue = append(*queue, step{times, a})
	return nil
}

// echoes reports an answer that only a challenge can get.
func (a answer) echoes() bool {
	return a.kind == wrongEcho || a.text == "echo" || strings.HasSuffix(a.text, "+echo")
}

// cutRepeat takes "*3", or "*" for all the rest, off the end.
func cutRepeat(text string) (body string, times int, err error) {
	at := strings.LastIndexByte(text, '*')
	if at < 0 || strings.Contains(text[at:], `"`) {
		return text, 1, nil
	}
	if text[at:] == "*" {
		return text[:at], forTheRest, nil
	}
	times, err = strconv.Atoi(text[at+1:])
	if err != nil || times < 1 || times > maxRepeat || text[at+1] == '+' {
		return "", 0, fmt.Errorf("after * stands how often, 1 to %d, or nothing for all the rest", maxRepeat)
	}
	return text[:at], times, nil
}

const known = "ok, echo, wrong-echo, a status such as 503 or 429=7, redirect=URL, slow=10s, drip=1s, drop, hang"

func parseAnswer(text string) (answer, error) {
	name, value, valued := strings.Cut(text, "=")
	if name == "slow" || name == "drip" {
		return parseDelayed(name, value)
	}
	if name == "redirect" {
		return parseRedirect(value)
	}
	if code, err := strconv.Atoi(name); err == nil && name == strconv.Itoa(code) {
		return parseStatus(code, value, valued)
	}
	simple := map[string]kind{"ok": right, "echo": right, "wrong-echo": wrongEcho, "drop": drop, "hang": hang}
	k, there := simple[text]
	switch {
	case text == "":
		return answer{}, errors.New("it is empty; known are " + known)
	case !there:
		return answer{}, errors.New("that is no answer; known are " + known)
	}
	return answer{kind: k}, nil
}

// parseDelayed reads "slow=10s", perhaps with "+" and what is answered then.
func parseDelayed(name, value string) (answer, error) {
	length, rest, more := strings.Cut(value, "+")
	d, err := time.ParseDuration(length)
	if err != nil || d <= 0 || d > maxSlow {
		return answer{}, fmt.Errorf("%s takes a time up to %s, such as %s=10s", name, "1h", name)
	}
	a := answer{}
	if more {
		if a, err = parseAnswer(rest); err != nil {
			return a, err
		}
	}
	if a.kind == drop || a.kind == hang {
		return a, fmt.Errorf("%s cannot be with drop or hang", name)
	}
	field := &a.slow
	if name == "drip" {
		field = &a.drip
	}
	if *field != 0 {
		return a, fmt.Errorf("%s stands twice", name)
	}
	*field = d
	return a, nil
}

func parseRedirect(value string) (answer, error) {
	target := unquote(value)
	u, err := url.Parse(target)
	if err != nil || target == "" || !printable(target) {
		return answer{}, errors.New("redirect takes an address, such as redirect=https://example.com/; one with a comma or * stands in double quotes")
	}
	return answer{kind: redirect, status: http.StatusFound, location: u.String()}, nil
}

// parseStatus reads "503" or "429=7": a status, and a Retry-After in seconds, as "date+7s", or as any text in quotes.
func parseStatus(code int, retry string, valued bool) (answer, error) {
	a := answer{kind: status, status: code}
	if code < 200 || code > 599 {
		return a, errors.New("a status is 200 to 599")
	}
	if !valued {
		return a, nil
	}
	if ahead, found := strings.CutPrefix(retry, "date+"); found {
		d, err := time.ParseDuration(ahead)
		if err != nil || d <= 0 || d > 366*24*time.Hour {
			return a, fmt.Errorf("after date+ stands a time, such as %d=date+30s", code)
		}
		a.retryDate = d
		return a, nil
	}
	a.retry = unquote(retry)
	if digits := strings.Trim(retry, "0123456789") == ""; retry == "" || !digits && a.retry == retry || !printable(a.retry) {
		return a, fmt.Errorf("after %d= stands a Retry-After: seconds as in %d=7, a date as in %d=date+30s, or any text in double quotes", code, code, code)
	}
	return a, nil
}

func unquote(text string) string {
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}

// printable reports whether text may stand in a header.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' })
}

// String writes a script so that ParseScript reads the same.
func (s Script) String() string {
	var all []string
	for _, q := range s.challenges {
		text := q.text
		if !q.echoes() {
			text = "challenge:" + text
		}
		all = append(all, text+q.repeats())
	}
	for _, q := range s.deliveries {
		all = append(all, q.text+q.repeats())
	}
	return strings.Join(all, ",")
}

func (s step) repeats() string {
	switch s.times {
	case forTheRest:
		return "*"
	case 1:
		return ""
	}
	return "*" + strconv.Itoa(s.times)
}

// next takes the next answer to a challenge or a delivery.
func (s *Script) next(challenge bool) answer {
	queue := &s.deliveries
	if challenge {
		queue = &s.challenges
	}
	if len(*queue) == 0 {
		return answer{text: "ok"}
	}
	first := &(*queue)[0]
	a := first.answer
	if first.times == forTheRest {
		return a
	}
	if first.times--; first.times == 0 {
		*queue = (*queue)[1:]
	}
	return a
}

// clone is a script that can be used up by itself.
func (s Script) clone() Script {
	return Script{slices.Clone(s.challenges), slices.Clone(s.deliveries)}
}

// Longest is the longest wait before an answer.
func (s Script) Longest() (d time.Duration) {
	for _, q := range slices.Concat(s.challenges, s.deliveries) {
		d = max(d, q.slow)
	}
	return d
}

// step makes the answer to an arrival; challenge is nil for a delivery.
func (a answer) step(challenge *string, now time.Time) eventstest.Step {
	s := eventstest.Step{Status: a.status, After: a.slow, Drip: a.drip, Hang: a.kind == hang, Abort: a.kind == drop}
	switch {
	case a.kind == right && challenge != nil:
		s = with(s, eventstest.Echo(*challenge))
	case a.kind == wrongEcho && challenge != nil:
		s = with(s, eventstest.Echo("not-"+*challenge))
	case a.location != "":
		s.Header = map[string]string{"Location": a.location}
	case a.retry != "":
		s.Header = map[string]string{"Retry-After": a.retry}
	case a.retryDate > 0:
		s.Header = map[string]string{"Retry-After": now.Add(a.retryDate).UTC().Format(http.TimeFormat)}
	}
	if s.Status == 0 && a.drip > 0 {
		s.Status = http.StatusOK // 204 has no body to drip
	}
	if s.Status == 0 {
		s.Status = http.StatusNoContent
	}
	if a.drip > 0 && s.Body == "" && s.Status != http.StatusNoContent && s.Status != http.StatusNotModified {
		s.Body = http.StatusText(s.Status) + "\n"
	}
	return s
}

// with takes over what an echo answers.
func with(s, echo eventstest.Step) eventstest.Step {
	s.Status, s.Header, s.Body = echo.Status, echo.Header, echo.Body
	return s
}
