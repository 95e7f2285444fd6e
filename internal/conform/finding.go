package conform

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// finding is why a rule fails: what was sent, what was expected, what came. Nothing in it is secret, all of it is bounded.
type finding struct{ sent, want, got string }

func (f *finding) Error() string { return "want " + f.want + ", got " + f.got }

// untestable is why a rule cannot be judged.
type untestable struct{ reason string }

func (u *untestable) Error() string { return u.reason }

func cannot(format string, args ...any) error { return &untestable{fmt.Sprintf(format, args...)} }

func fail(sent, want, format string, args ...any) error {
	return &finding{quote(sent), want, quote(fmt.Sprintf(format, args...))}
}

// but is a finding on an answer.
func (a *answer) but(want string, args ...any) error {
	return fail(a.sent, fmt.Sprintf(want, args...), "%s", a)
}

// owned makes a rule out of a fact: that it could not be had is a failure of the rule that is about it, unless it is for want of
// something on our side.
func owned(err error) error {
	if e, is := errors.AsType[*refused](err); is {
		return e.why
	}
	return err
}

// lean makes what kept a fact from being had a reason not to be able to judge another.
func lean(err error) error {
	if e, is := errors.AsType[*refused](err); is {
		return cannot("%v", e)
	}
	return err
}

// refused is a fact that the server denied. To rules that lean on it, it is a reason not to be testable.
type refused struct {
	what string
	why  error
}

func (r *refused) Error() string { return r.what + ": " + r.why.Error() }

// wantResult checks that an answer is a result that is an object.
func (a *answer) wantResult() error {
	if a.result == nil || a.err != nil || a.status != 200 {
		return a.but("a result with HTTP 200")
	}
	return nil
}

// wantError checks that an answer is an error with one of the codes.
func (a *answer) wantError(codes ...int) error {
	if a.err == nil || !slices.Contains(codes, a.err.Code) {
		return a.but("an error with code %s", either(codes))
	}
	return nil
}

// wantStatus checks the HTTP status too.
func (a *answer) wantStatus(status int, codes ...int) error {
	if err := a.wantError(codes...); err != nil {
		return err
	}
	if a.status != status {
		return a.but("HTTP %d", status)
	}
	return nil
}

func either(codes []int) string {
	var words []string
	for _, c := range codes {
		words = append(words, fmt.Sprint(c))
	}
	return strings.Join(words, " or ")
}

// wantData checks a member of an error's data, a string. An empty want takes any that is not empty.
func (a *answer) wantData(name string, want ...string) error {
	var data object
	var value string
	if a.err != nil {
		_ = json.Unmarshal(a.err.Data, &data) // no object has no members
	}
	_ = json.Unmarshal(data[name], &value) // no string is empty
	if value == "" || (len(want) > 0 && !slices.Contains(want, value)) {
		if len(want) == 0 {
			want = []string{"a word"}
		}
		return a.but("error.data.%s: %s", name, strings.Join(want, " or "))
	}
	return nil
}

// Checks of single members.

func isText(raw json.RawMessage) bool {
	var s string
	return len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
}

func isWord(raw json.RawMessage) bool { return isText(raw) && len(raw) > 2 }

func isBool(raw json.RawMessage) bool { s := string(raw); return s == "true" || s == "false" }

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isObject(raw json.RawMessage) bool {
	var o object
	return len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &o) == nil
}

func isWhole(raw json.RawMessage) bool {
	var n int64
	return json.Unmarshal(raw, &n) == nil && n >= 0 && !isNull(raw)
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // what is no text is ""
	return s
}
