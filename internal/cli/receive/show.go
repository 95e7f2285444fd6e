package receive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/cli/screen"
)

// maxStranger bounds what is shown of a body that nobody vouches for.
const maxStranger = 1 << 10

// Text is an arrival as a person reads it: what it is, its body, how it is answered.
func (a Arrival) Text(style screen.Style) string {
	var b strings.Builder
	head := style.Green("verified")
	if a.Verdict != Verified {
		head = style.Red("refused")
	}
	fmt.Fprintf(&b, "%s  %s  %s\n", a.At.Local().Format("15:04:05.000"), head, a.headline(style))
	if a.Verdict != Verified {
		fmt.Fprintf(&b, "  %s (%s)\n", screen.Line(a.Reason), a.Verdict)
	}
	if a.Verdict == Verified {
		fmt.Fprintf(&b, "  subscription %s, attempt %d, secret %d\n", screen.Line(a.Subscription), a.Attempt, a.Secret)
	}
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "  %s %s\n", style.Yellow("note:"), note)
	}
	for line := range strings.Lines(a.pretty()) {
		b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
	}
	fmt.Fprintf(&b, "  %s\n\n", style.Dim(a.answered()))
	return b.String()
}

// headline names an arrival.
func (a Arrival) headline(style screen.Style) string {
	var parts []string
	for _, part := range []string{a.Name, a.EventID} {
		if part != "" {
			parts = append(parts, style.Bold(screen.Line(part)))
		}
	}
	if a.Kind != KindEvent && a.Kind != "" {
		parts = append([]string{style.Bold(screen.Line(a.Kind))}, parts...)
	}
	if a.ID != "" && a.ID != a.EventID {
		parts = append(parts, "webhook-id "+screen.Line(shorten(a.ID, maxHeader)))
	}
	if parts == nil {
		return "a request"
	}
	return strings.Join(parts, "  ")
}

// pretty is the body, indented when it is JSON and safe for a terminal in any case.
func (a Arrival) pretty() string {
	if len(a.Body) == 0 {
		return ""
	}
	var out bytes.Buffer
	if a.Verdict == Verified && json.Indent(&out, a.Body, "", "  ") == nil {
		return screen.Block(string(screen.JSON(out.Bytes())))
	}
	text := screen.Block(shorten(string(a.Body), maxStranger))
	if len(a.Body) > maxStranger {
		text += fmt.Sprintf("\n(%d bytes)", len(a.Body))
	}
	return text
}

func (a Arrival) answered() string {
	switch {
	case a.Verdict != Verified, a.Answer == strconv.Itoa(a.Status):
		return fmt.Sprintf("answered %d", a.Status)
	case a.Status == 0:
		return "not answered: " + screen.Line(a.Answer)
	}
	return fmt.Sprintf("answered %d: %s", a.Status, screen.Line(a.Answer))
}

// shorten cuts text to so many bytes, at a character.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Shown is an arrival as a program reads it.
type Shown struct {
	N            int             `json:"n"`
	At           time.Time       `json:"at"`
	Verdict      Verdict         `json:"verdict"`
	Reason       string          `json:"reason,omitempty"`
	Kind         string          `json:"kind,omitempty"`
	ID           string          `json:"id,omitempty"`
	Subscription string          `json:"subscription,omitempty"`
	EventID      string          `json:"eventId,omitempty"`
	Name         string          `json:"name,omitempty"`
	Cursor       *string         `json:"cursor"`
	Attempt      int             `json:"attempt,omitempty"`
	Secret       int             `json:"secret,omitempty"`
	Notes        []string        `json:"notes,omitempty"`
	Answer       string          `json:"answer"`
	Status       int             `json:"status"`
	Body         json.RawMessage `json:"body,omitempty"`
	// Text is a body that is no JSON.
	Text string `json:"text,omitempty"`
	// Headers are shown in files only.
	Headers http.Header `json:"headers,omitempty"`
}

// JSON is an arrival as one line for programs.
func (a Arrival) JSON() ([]byte, error) { return a.json(nil) }

func (a Arrival) json(headers http.Header) ([]byte, error) {
	s := Shown{N: a.N, At: a.At.UTC().Round(time.Millisecond), Verdict: a.Verdict, Reason: a.Reason, Kind: a.Kind, ID: a.ID, Subscription: a.Subscription,
		EventID: a.EventID, Name: a.Name, Cursor: a.Cursor, Attempt: a.Attempt, Secret: a.Secret, Notes: a.Notes, Answer: a.Answer, Status: a.Status, Headers: headers}
	switch {
	case a.Body == nil:
	case json.Valid(a.Body):
		s.Body = a.Body
	default:
		s.Text = string(a.Body)
	}
	line, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode an arrival: %w", err)
	}
	return append(screen.JSON(line), '\n'), nil
}
