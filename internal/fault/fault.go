// Package fault is the one error language of the program: a typed error with a small kind, a stable wire code and a
// sentence that the caller may read.
//
// Services and pure rules build faults where the meaning is known; only the edges render them, once per protocol.
// Whatever reaches an edge without being a *fault.Error is internal: opaque outside, complete in the log.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the coarse meaning of an error. Each edge maps kinds to its own statuses in one table.
type Kind uint8

// The kinds. Internal is the zero value, so an unfinished Error never leaks a friendlier meaning than it has.
const (
	Internal         Kind = iota // a mistake of ours, or of the machine
	Invalid                      // the request is malformed or breaks a rule
	Unauthenticated              // no credential, or one that proves nothing
	Forbidden                    // proven, but not allowed
	NotFound                     // nothing there that the caller may see
	MethodNotAllowed             // the path exists, not with this method
	Conflict                     // clashes with what is there
	Gone                         // was there, is over
	TooLarge                     // beyond a size limit
	Unsupported                  // a media type that is not accepted
	UpgradeRequired              // the route speaks another protocol
	Exhausted                    // an allowance is used up
	Unavailable                  // cannot be served now, may be later
)

var kindNames = [...]string{"internal", "invalid", "unauthenticated", "forbidden", "not_found", "method_not_allowed",
	"conflict", "gone", "too_large", "unsupported", "upgrade_required", "exhausted", "unavailable"}

// String returns the kind's name as written in logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Error is the only error the edges know how to render.
type Error struct {
	Kind   Kind
	Code   string   // stable wire code, such as "daily_cap"
	Detail string   // safe for the caller to read; names the field and the fix
	Fields []string // offending inputs, if any
	// RetryAfter is how long waiting would take to help; zero when it would not. RetryHeader says that the answer
	// carries it as a Retry-After header too (contract section 10 lists which do).
	RetryAfter  time.Duration
	RetryHeader bool
	Err         error // private cause, for the log, never for the wire
}

// Error describes the fault for logs. Edges never send it.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Detail, e.Err)
	}
	return e.Code + ": " + e.Detail
}

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.Err }

// Because returns a copy of e with a private cause.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.Err = cause
	return &c
}

// WithFields returns a copy of e that names the offending inputs.
func (e *Error) WithFields(fields ...string) *Error {
	c := *e
	c.Fields = fields
	return &c
}

// WithRetry returns a copy of e that tells how long to wait; header says whether a Retry-After header carries it too.
func (e *Error) WithRetry(after time.Duration, header bool) *Error {
	c := *e
	c.RetryAfter, c.RetryHeader = after, header
	return &c
}

// New makes a fault of any kind. detail may hold fmt verbs for args.
func New(kind Kind, code, detail string, args ...any) *Error {
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}
	return &Error{Kind: kind, Code: code, Detail: detail}
}

// InvalidRequest is the everyday refusal of a malformed input: kind Invalid, code "invalid_request".
func InvalidRequest(field, detail string, args ...any) *Error {
	e := New(Invalid, "invalid_request", detail, args...)
	if field != "" {
		e.Fields = []string{field}
	}
	return e
}

// NotFoundf is kind NotFound with code "not_found".
func NotFoundf(detail string, args ...any) *Error { return New(NotFound, "not_found", detail, args...) }

// Unauthorized is kind Unauthenticated with code "unauthorized".
func Unauthorized(detail string, args ...any) *Error {
	return New(Unauthenticated, "unauthorized", detail, args...)
}

// Is reports whether err is a fault of that kind.
func Is(err error, kind Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == kind
}

// From returns err as a fault. Anything unclassified becomes an opaque internal one that keeps err as its cause.
func From(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return New(Internal, "internal", "the relay could not handle the request; try again later").Because(err)
}
