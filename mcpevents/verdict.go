package mcpevents

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/herald-relay/herald/internal/egress"
)

// Verdict is what the outcome of an attempt means for its delivery.
type Verdict string

// The verdicts.
const (
	Done  Verdict = "delivered" // the destination has it
	Again Verdict = "again"     // try again, as the schedule allows
	Drop  Verdict = "drop"      // give this event up; the subscription lives
	End   Verdict = "end"       // give this event up and end the subscription
)

// Category is the kind of a failed attempt or verification. It is all that a client learns of an endpoint.
type Category string

// The categories, words of the extension's deliveryStatus.lastError.
const (
	ConnectionRefused Category = "connection_refused" // no connection, no such name, an address that is not allowed
	TimedOut          Category = "timeout"
	TLSFailed         Category = "tls_error"
	Status4xx         Category = "http_4xx" // and redirects, which are never followed
	Status5xx         Category = "http_5xx"
	ChallengeFailed   Category = "challenge_failed"
)

// Outcome is what came of one request: an HTTP status, or an error that prevented one.
type Outcome struct {
	Status     int
	Err        error
	RetryAfter time.Duration
	Elapsed    time.Duration
}

// Verdicts says how answers are treated that the texts differ about. A 2xx is always Done; 408, 429, 5xx, timeouts and
// connection errors are always Again.
type Verdicts struct {
	// Gone treats 410. Zero is Drop, as the extension has it; many products End.
	Gone Verdict
	// TooLarge treats 413. Zero is Drop.
	TooLarge Verdict
	// TooEarly treats 425. Zero is Again.
	TooEarly Verdict
	// Refused treats every other 4xx. Zero is Again.
	Refused Verdict
	// Redirect treats 3xx, which is never followed. Zero is Again.
	Redirect Verdict
}

func (v Verdicts) withDefaults() Verdicts {
	orElse(&v.Gone, Drop)
	orElse(&v.TooLarge, Drop)
	orElse(&v.TooEarly, Again)
	orElse(&v.Refused, Again)
	orElse(&v.Redirect, Again)
	return v
}

// Judge returns the verdict on an outcome. It is total: every status has one, and only a 2xx is Done.
func (v Verdicts) Judge(o Outcome) Verdict {
	s := o.Status
	switch {
	case o.Err != nil:
		return Again
	case s >= 200 && s < 300:
		return Done
	case s == 410:
		return v.Gone
	case s == 413:
		return v.TooLarge
	case s == 425:
		return v.TooEarly
	case s == 408 || s == 429:
		return Again
	case s >= 400 && s < 500:
		return v.Refused
	case s >= 300 && s < 400:
		return v.Redirect
	}
	return Again
}

// Category returns the kind of failure of o, "" for a 2xx. A 410 or 413 that only drops its event is no failure of the
// destination: it answered as the text asks it to.
func (v Verdicts) Category(o Outcome) Category {
	switch s := o.Status; {
	case o.Err != nil:
		return categoryOf(o.Err)
	case s >= 200 && s < 300:
		return ""
	case (s == 410 && v.Gone == Drop) || (s == 413 && v.TooLarge == Drop):
		return ""
	case s >= 500 || s < 300:
		return Status5xx
	}
	return Status4xx
}

// categoryOf classifies why there was no answer.
func categoryOf(err error) Category {
	switch egress.KindOf(err) {
	case egress.Timeout:
		return TimedOut
	case egress.TLS:
		return TLSFailed
	}
	if isTLS(err) {
		return TLSFailed
	}
	return ConnectionRefused
}

// isTLS recognises what crypto/tls says of a failed handshake, for clients other than the guard's.
func isTLS(err error) bool {
	var (
		record tls.RecordHeaderError
		alert  tls.AlertError
		verify *tls.CertificateVerificationError
		op     *net.OpError
	)
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &verify) ||
		errors.As(err, &op) && op.Op == "remote error" // a peer's alert
}
