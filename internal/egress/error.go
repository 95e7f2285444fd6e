package egress

import (
	"context"
	"errors"
	"net"
	"os"
)

// Kind says why a call was not made or did not succeed. The kinds up to NotListed are refusals: nothing was dialled.
type Kind uint8

// The kinds. None is what KindOf returns for a nil error.
const (
	None        Kind = iota
	Malformed        // not a URL that may be called: its syntax, scheme, credentials, fragment, port or length
	InnerName        // a host name that cannot be public: a single label, or one that stays inside a network
	NotPublic        // an address, literal or resolved, that is not globally reachable
	NotListed        // a host that is missing from the allowlist
	Unreachable      // the name does not resolve, or the connection could not be made or broke
	Timeout          // the same, because it took too long
	TLS              // connected, but the peer did not prove to be the host
)

var kindNames = [...]string{"none", "malformed", "inner_name", "not_public", "not_listed", "unreachable", "timeout", "tls"}

// String returns the kind's name as written in logs and metrics.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Refused reports whether the guard said no. Trying again is of no use unless the host's addresses change.
func (k Kind) Refused() bool { return k >= Malformed && k <= NotListed }

// Error is every failure that the guard itself finds.
type Error struct {
	Kind   Kind
	Host   string // normalised, without port; empty when the URL did not yield one
	Detail string // safe for whoever gave the URL: continues a sentence that begins with the URL's name
	Err    error  // private cause, for logs: it may tell what a name resolves to
}

// Error describes the failure for logs. It names the host, never the path or query of a URL, which may hold secrets.
func (e *Error) Error() string {
	text := "egress: "
	if e.Host != "" {
		text += e.Host + ": "
	}
	text += e.Kind.String() + ": URL " + e.Detail
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the failure is one of time; the errors of [http.Client] pass it on.
func (e *Error) Timeout() bool { return e.Kind == Timeout }

// KindOf classes any error that a client or dialler of a Guard returned: the kind of the [*Error] in its chain, else
// Timeout for what ran out of time, else Unreachable.
//
// The text of an error from [http.Client] holds the whole URL. Log its kind, or the *Error inside it, instead.
func KindOf(err error) Kind {
	if err == nil {
		return None
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if isTimeout(err) {
		return Timeout
	}
	return Unreachable
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// failed is an Error of kind, or of kind Timeout when the cause is one of time.
func failed(kind Kind, host, detail string, cause error) *Error {
	if isTimeout(cause) {
		kind = Timeout
	}
	return &Error{Kind: kind, Host: host, Detail: detail, Err: cause}
}
