package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/fault"
)

// The exit statuses, as docs/cli.md lists them.
const (
	statusDone        = 0
	statusFailed      = 1
	statusUsage       = 2
	statusTimedOut    = 3
	statusSuppressed  = 4
	statusInterrupted = 130
)

// outcome is an error that chooses its exit status.
type outcome struct {
	status int
	text   string // for a person, "" for nothing
	code   string // for programs
	hint   string
}

func (o *outcome) Error() string { return o.text }

// failed is an outcome of status 1 with a hint.
func failed(hint, text string, args ...any) error {
	return &outcome{status: statusFailed, text: fmt.Sprintf(text, args...), hint: hint}
}

// failure is an error as it is shown: a sentence, a code, what to do.
type failure struct {
	Message string `json:"message"`
	Code    string `json:"error"` // the relay's, or one of ours
	// Number and Data are those of an MCP server's error.
	Number int            `json:"code,omitzero"`
	Data   jsontext.Value `json:"data,omitzero"`
	Fields []string       `json:"fields,omitzero"`
	Hint   string         `json:"hint,omitzero"`
	// RetryAfterSeconds is how long waiting would take to help.
	RetryAfterSeconds float64 `json:"retryAfterSeconds,omitzero"`
}

// report prints an error and returns the exit status.
func (w *World) report(ctx context.Context, k *kong.Context, err error) int {
	if err == nil {
		return statusDone
	}
	status := statusFailed
	var o *outcome
	if errors.As(err, &o) {
		status = o.status
	} else if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return statusInterrupted
	}
	f := describe(err)
	switch {
	case f.Message == "":
	case wantsJSON(k):
		data, err := json.Marshal(f)
		if err == nil {
			w.say("%s", screen.JSON(data))
		}
	default:
		w.say("%s", f)
	}
	return status
}

// wantsJSON reports whether the command that ran has --json set.
func wantsJSON(k *kong.Context) bool {
	node := k.Selected()
	if node == nil {
		return false
	}
	target := reflect.Indirect(node.Target)
	if target.Kind() != reflect.Struct {
		return false
	}
	field := target.FieldByName("JSON")
	return field.IsValid() && field.Kind() == reflect.Bool && field.Bool()
}

// String is how a person reads it.
func (f failure) String() string {
	head, list, _ := strings.Cut(f.Message, ":\n")
	text := "herald: " + head
	if f.Code != "" {
		text += " (" + f.Code
		if f.Number != 0 {
			text += fmt.Sprintf(" %d", f.Number)
		}
		text += ")"
	}
	if f.Data != nil {
		text += "\n  " + string(f.Data)
	}
	if list != "" {
		text += ":\n" + list
	}
	if f.Hint != "" {
		text += "\n  " + f.Hint
	}
	return text
}

// describe turns any error into what is shown. Texts of others are made safe here.
func describe(err error) failure {
	if o, ok := errors.AsType[*outcome](err); ok {
		return failure{Message: o.text, Code: o.code, Hint: o.hint}
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		f := failure{Message: screen.Line(e.Message), Code: screen.Line(e.Code), Hint: advice[e.Code], RetryAfterSeconds: e.RetryAfter.Seconds()}
		for _, name := range e.Fields {
			f.Fields = append(f.Fields, screen.Line(name))
		}
		if e.RetryAfter > 0 {
			f.Hint = "try again in " + inWords(e.RetryAfter)
		}
		return f
	}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return refusal(e)
	}
	if e, ok := errors.AsType[*badConfig](err); ok {
		return failure{Message: screen.Block(e.Error()), Code: "invalid_configuration"}
	}
	if f, ok := describeEvents(err); ok {
		return f
	}
	f := failure{Message: screen.Line(err.Error())}
	var lost *client.Unreachable
	switch {
	case errors.As(err, &lost):
		f.Code, f.Hint = "unreachable", "is the relay running, and is this its address? herald doctor looks closer"
	case errors.Is(err, client.ErrPlain):
		f.Hint = "use https, or --insecure where you trust the network"
	case errors.Is(err, client.ErrReplaced):
		f.Code, f.Hint = "replaced", "herald listen runs with the same profile elsewhere; link another device with: herald link create"
	case errors.Is(err, client.ErrUnpaired):
		f.Code, f.Hint = "unpaired", "pair again with: herald pair LINK --replace"
	case errors.Is(err, profile.ErrNone):
		f.Code, f.Hint = "not_paired", "pair it with: herald pair LINK (herald serve and herald person link print links)"
	case errors.Is(err, fs.ErrPermission):
		f.Hint = "check who owns the file and its directory"
	}
	return f
}

// refusal shows a fault of a relay's operator, who is not told what holds for its devices and agents.
func refusal(e *fault.Error) failure {
	f := failure{Message: screen.Line(e.Detail), Code: e.Code, Fields: e.Fields, Hint: advice[e.Code]}
	if e.Code == "name_taken" {
		f.Hint = "choose another name; herald person list shows the people, and herald person link NAME pairs another device of one"
	}
	return f
}

// advice says what to do about a relay's refusals, where its own sentence does not.
var advice = map[string]string{
	"unauthorized":         "the key or token was revoked, or belongs to another relay: make a key with herald key create, or pair again with herald pair",
	"wrong_credential":     "agents use a key from herald key create; a device uses the profile that herald pair wrote",
	"bad_code":             "codes work once and for ten minutes: get a new one with herald person link, or herald link create",
	"device_limit":         "see the devices with herald device list and remove one, or raise MAX_DEVICES of the relay",
	"name_taken":           "choose another name; a key gives its name back when herald key revoke ends it",
	"too_many_keys":        "revoke a key that is not used any more: herald key list, herald key revoke",
	"queue_full":           "nobody takes the notifications: connect a device with herald listen",
	"not_removable":        "unpair it on the device itself: herald device unpair",
	"not_found":            "",
	"misconfigured":        "the relay's operator finds the cause with herald doctor",
	"database_unreachable": "start PostgreSQL, or correct HERALD_DATABASE; herald doctor looks closer",
	"budget_exhausted":     "the day's requests of this mailbox are used up; wait for replies with herald await rather than ask often",
	"upgrade_required":     "a proxy on the way drops the Upgrade header; let it pass WebSockets",
	"scope_not_allowed":    "leave the scope out",
}

// inWords writes a wait as a person would say it.
func inWords(d time.Duration) string {
	switch {
	case d < time.Second:
		return "a moment"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Round(time.Second).Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Round(time.Minute).Minutes()))
	}
	return fmt.Sprintf("%d hours", int(d.Round(time.Hour).Hours()))
}
