package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Error is what a method of the extension answers instead of a result. Everything in it but Err may be shown to the
// client; nothing in it quotes what an endpoint said.
type Error struct {
	Meaning Meaning
	Message string
	// Data is the error's data member; nil for none.
	Data map[string]any
	// Code is the number that a peer sent; zero in an error of this side, whose number Meaning and dialect give.
	Code int
	// Err is the private cause, for the log.
	Err error
}

// Error describes the error for logs.
func (e *Error) Error() string {
	s := "mcpevents: " + e.Meaning.String() + ": " + e.Message
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.Err }

// Wire is a JSON-RPC error object.
type Wire struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

// Err returns the error that a peer sent, by meaning whatever its dialect.
func (w *Wire) Err() *Error {
	return &Error{Meaning: MeaningOf(w.Code), Message: w.Message, Data: w.Data, Code: w.Code}
}

// ErrorOf renders any error for a client that speaks d. An error that is not an *Error becomes Internal and says
// nothing of its cause.
func ErrorOf(err error, d Dialect) Wire {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Meaning: Internal, Message: "internal error"}
	}
	return Wire{Code: e.Meaning.Code(d), Message: e.Message, Data: e.Data}
}

func invalid(format string, args ...any) *Error {
	return &Error{Meaning: InvalidParams, Message: fmt.Sprintf(format, args...)}
}

func internal(doing string, err error) error {
	return &Error{Meaning: Internal, Message: "the server could not do this now; try again", Err: fmt.Errorf("%s: %w", doing, err)}
}

// with sets one member of e.Data.
func (e *Error) with(name string, value any) *Error {
	if e.Data == nil {
		e.Data = map[string]any{}
	}
	e.Data[name] = value
	return e
}

// Problem names a ground for refusing a request, so that a policy can say how it is refused.
type Problem string

// The problems, in the order in which a subscribe call looks for them.
const (
	NoPrincipal     Problem = "no_principal"      // Forbidden
	UnknownEvent    Problem = "unknown_event"     // NotFound {kind: event}
	BadArguments    Problem = "invalid_arguments" // InvalidParams
	WrongMode       Problem = "delivery_mode"     // Unsupported {feature: deliveryMode}
	BadURL          Problem = "url_malformed"     // InvalidParams
	RefusedURL      Problem = "url_rejected"      // InvalidParams: an address that deliveries may not go to
	UnlistedHost    Problem = "host_not_allowed"  // InvalidParams {reason: host_not_allowed, host}: not on the allowlist
	BadSecret       Problem = "secret_invalid"    // InvalidParams
	BadTTL          Problem = "invalid_ttl"       // InvalidParams
	NotPermitted    Problem = "not_permitted"     // Forbidden
	TooMany         Problem = "subscriptions"     // ResourceExhausted {limit: subscriptions}
	TooManyProbes   Problem = "verifications"     // ResourceExhausted {limit: verifications}
	NotVerified     Problem = "not_verified"      // CallbackEndpointError {reason: category}
	NotSubscribed   Problem = "not_subscribed"    // NotFound {kind: subscription}
	TooManyStreams  Problem = "streams"           // ResourceExhausted {limit: streams}
	MalformedParams Problem = "malformed"         // InvalidParams: not the shape the method takes
)

// meanings is the extension's own table. A policy's Refusals replace rows of it in dialect Sketch.
var meanings = map[Problem]Meaning{
	NoPrincipal: Forbidden, UnknownEvent: NotFound, BadArguments: InvalidParams, WrongMode: Unsupported,
	BadURL: InvalidParams, RefusedURL: InvalidParams, UnlistedHost: InvalidParams, BadSecret: InvalidParams, BadTTL: InvalidParams,
	NotPermitted: Forbidden, TooMany: ResourceExhausted, TooManyProbes: ResourceExhausted,
	NotVerified: CallbackEndpointError, NotSubscribed: NotFound, TooManyStreams: ResourceExhausted,
	MalformedParams: InvalidParams,
}

// Refusal says how a policy refuses on a ground.
type Refusal struct {
	// Meaning replaces the extension's own in dialect Sketch; the zero value, Internal, replaces nothing.
	Meaning Meaning
	// Reason is sent as data.reason in both dialects; "" adds none.
	Reason string
}

// refuse builds the error for a problem under a policy and in a dialect.
func (p *Policy) refuse(d Dialect, ground Problem, format string, args ...any) *Error {
	r := p.Refusals[ground]
	e := &Error{Meaning: meanings[ground], Message: fmt.Sprintf(format, args...)}
	if r.Meaning != Internal && d != DialectSEP {
		e.Meaning = r.Meaning
	}
	if r.Reason != "" {
		e.with("reason", r.Reason)
	}
	return e
}

// wireJSON encodes what the library itself built, which cannot fail.
func wireJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("mcpevents: encode " + err.Error())
	}
	return b
}
