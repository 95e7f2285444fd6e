package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Error is an answer of a relay that refuses (contract section 1, plain error body).
type Error struct {
	Status int // HTTP status
	// Code is the stable wire code, such as "daily_cap"; "" when the answer was no relay's, as from a proxy.
	Code    string
	Message string   // a sentence, to be shown to a person
	Fields  []string // offending inputs, if any
	// RetryAfter is how long waiting would take to help; zero when the relay does not say.
	RetryAfter time.Duration
}

// Error is the sentence and the code.
func (e *Error) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Message + " (" + e.Code + ")"
}

// Code returns the wire code of err, or "" when it is no refusal of a relay.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// readError makes sense of an answer outside 2xx.
func readError(resp *http.Response, body []byte) *Error {
	e := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	var wire struct {
		Error             string   `json:"error"`
		Message           string   `json:"message"`
		Description       string   `json:"error_description"`
		Fields            []string `json:"fields"`
		RetryAfterSeconds float64  `json:"retryAfterSeconds"`
	}
	if json.Unmarshal(body, &wire) != nil || wire.Error == "" {
		e.Message = foreign(resp)
		return e
	}
	e.Code, e.Message, e.Fields = wire.Error, wire.Message, wire.Fields
	if e.Message == "" {
		e.Message = wire.Description
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the relay refused with status %d", resp.StatusCode)
	}
	if s := seconds(wire.RetryAfterSeconds); s > 0 {
		e.RetryAfter = s
	}
	return e
}

// foreign describes an answer that is no relay's.
func foreign(resp *http.Response) string {
	host := resp.Request.URL.Host
	if to, err := resp.Location(); err == nil {
		return fmt.Sprintf("%s sends requests on to %s://%s; give that address if it is the relay's", host, to.Scheme, to.Host)
	}
	return fmt.Sprintf("%s answered %d %s, which is no relay's answer", host, resp.StatusCode, http.StatusText(resp.StatusCode))
}

// longestHint bounds what a server may ask to wait; daily limits end within a day.
const longestHint = 48 * time.Hour

func seconds(s float64) time.Duration {
	if !(s > 0) { // NaN included
		return 0
	}
	return time.Duration(min(s, longestHint.Seconds()) * float64(time.Second))
}

// retryAfter reads the header: whole seconds or an HTTP date. Anything else is ignored.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if n, err := strconv.ParseUint(header, 10, 32); err == nil {
		return seconds(float64(n))
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), longestHint)
	}
	return 0
}

// maxAttempts is how often one call is sent at most.
const maxAttempts = 3

// retryDelay judges whether a failed call is sent again, and after how long. A refusal that names a time was not
// carried out, so it may always be repeated; a lost answer only when the call is repeatable.
func retryDelay(err error, attempt int, repeatable bool, maxWait time.Duration) (time.Duration, bool) {
	if attempt+1 >= maxAttempts || maxWait < 0 {
		return 0, false
	}
	e, refused := errors.AsType[*Error](err)
	switch {
	case refused && e.RetryAfter > 0:
		return e.RetryAfter, e.RetryAfter <= maxWait
	case refused && !passing(e.Status), !refused && !isUnreachable(err), !repeatable:
		return 0, false
	}
	return jittered(500*time.Millisecond<<attempt, rand.Float64()), true
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*Unreachable](err)
	return ok
}

// passing reports whether a status speaks of the moment rather than of the request.
func passing(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// jittered spreads d over its upper four fifths; random is in [0,1).
func jittered(d time.Duration, random float64) time.Duration {
	return d/5 + time.Duration(float64(d-d/5)*random)
}
