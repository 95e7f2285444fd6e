package webhook

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// Tolerance is how far the timestamp of a message may be from now, either way.
	Tolerance = 5 * time.Minute

	// MaxSignatures is how many signatures of a message are looked at, those of unknown versions included.
	MaxSignatures = 32

	maxTimestamp = 12 // digits: some 30,000 years
)

// Why a message does not verify. Each is in the chain of an error whose text says more, and is safe to log.
var (
	// ErrHeader: a header is missing, repeated or malformed. Answer 400; the sender does not speak this protocol.
	ErrHeader = errors.New("webhook: malformed header")

	// ErrTimestamp: the message is older or newer than Tolerance allows. Answer 401; a sender who makes another attempt
	// makes it with a timestamp of its own. Many of these mean that a clock is wrong.
	ErrTimestamp = errors.New("webhook: timestamp out of tolerance")

	// ErrSignature: no signature is one of this message with one of the secrets. Answer 401, or 503 if a secret may be about
	// to arrive, since some senders take 401 for a final word. Do not tell a stranger which secrets were tried.
	ErrSignature = errors.New("webhook: no signature matches")
)

// Verified is what the headers of a verified message say.
type Verified struct {
	ID     string    // of the message; the same on every attempt
	At     time.Time // of the attempt, in whole seconds
	Secret int       // index of the secret that matched, among those given to Verify
}

// Verify reports whether body came, just now, from somebody who knows one of the secrets. h are the headers of the request
// and body its exact bytes. now is the time when it arrived: behind a proxy that holds messages back, the time when the
// proxy received it.
//
// The message verifies if any of its v1 signatures matches any of the secrets; signatures of other versions do not count.
// They may be separated by white space, by a comma and white space, or by standing in several header lines. The time that a
// comparison takes does not depend on how much of a signature is right. The body is hashed at most once for each secret,
// and only if the timestamp is good.
//
// The id may contain a full stop, which [Sign] refuses but other senders sign. Their signed text can be split in other
// places too, but never so that both the body that was sent and the one that is received are JSON objects. A receiver of
// other bodies should refuse such ids.
//
// The error is one of [ErrHeader], [ErrTimestamp] and [ErrSignature].
func Verify(h http.Header, body []byte, now time.Time, secrets ...Secret) (Verified, error) {
	id, timestamp, err := readHeaders(h)
	if err != nil {
		return Verified{}, err
	}
	at, err := parseTimestamp(timestamp, now)
	if err != nil {
		return Verified{}, err
	}
	signatures := parseSignatures(values(h, HeaderSignature))
	for i, s := range secrets {
		if !s.IsZero() && contains(signatures, s.sign(id, timestamp, body)) {
			return Verified{ID: id, At: at, Secret: i}, nil
		}
	}
	return Verified{}, ErrSignature
}

// values returns the lines of a header, whether its name is canonical, as in a request that arrived, or lower case, as
// SetHeaders has it.
func values(h http.Header, name string) []string {
	return slices.Concat(h.Values(name), h[name])
}

func readHeaders(h http.Header) (id, timestamp string, err error) {
	if id, err = single(h, HeaderID); err != nil {
		return "", "", err
	}
	if timestamp, err = single(h, HeaderTimestamp); err != nil {
		return "", "", err
	}
	if len(values(h, HeaderSignature)) == 0 {
		return "", "", fmt.Errorf("%w: %s is missing", ErrHeader, HeaderSignature)
	}
	if !isID(id) {
		return "", "", fmt.Errorf("%w: %s must be 1 to %d visible ASCII characters", ErrHeader, HeaderID, MaxID)
	}
	return id, timestamp, nil
}

// single returns the only line of a header that must not be repeated, since two readers could take different ones.
func single(h http.Header, name string) (string, error) {
	lines := values(h, name)
	if len(lines) != 1 {
		return "", fmt.Errorf("%w: %s must be there once, not %d times", ErrHeader, name, len(lines))
	}
	return lines[0], nil
}

// parseTimestamp reads Unix seconds, in digits only and without leading zeros, and compares them with now.
func parseTimestamp(text string, now time.Time) (time.Time, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || len(text) > maxTimestamp || strconv.FormatInt(seconds, 10) != text || seconds < 0 {
		return time.Time{}, fmt.Errorf("%w: %s must be Unix seconds", ErrHeader, HeaderTimestamp)
	}
	age := now.Unix() - seconds
	if limit := int64(Tolerance / time.Second); age > limit || age < -limit {
		return time.Time{}, fmt.Errorf("%w: it is %d seconds old", ErrTimestamp, age)
	}
	return time.Unix(seconds, 0), nil
}

// parseSignatures returns the first MaxSignatures signatures, of any version.
func parseSignatures(lines []string) (out []string) {
	for _, line := range lines {
		for entry := range strings.FieldsSeq(line) {
			if len(out) == MaxSignatures {
				return out
			}
			out = append(out, strings.Trim(entry, ",")) // commas are left from lists that were joined with ", "
		}
	}
	return out
}

// contains compares want with all of signatures, in a time that depends on their number only.
func contains(signatures []string, want string) bool {
	found := 0
	for _, s := range signatures {
		found |= subtle.ConstantTimeCompare([]byte(s), []byte(want))
	}
	return found == 1
}
