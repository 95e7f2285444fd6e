package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Sizes of a secret in bytes, decoded. The limits are those of the Standard Webhooks specification.
const (
	MinSecret = 24
	MaxSecret = 64
	newSecret = 32
)

const (
	prefix   = "whsec_"
	redacted = "whsec_[redacted]"
)

// ErrSecret is returned for text that is no secret. Its message says what is wrong and never repeats the text. The caller
// should refuse the text to whoever gave it.
var ErrSecret = errors.New("webhook: malformed secret")

var errSize = fmt.Errorf("%w: it must encode %d to %d bytes", ErrSecret, MinSecret, MaxSecret)

// Secret is a key that sender and receiver of webhooks share. No way of printing or logging it shows the key; Reveal does.
// The zero Secret is none: it signs and verifies nothing.
type Secret struct {
	// key returns the bytes, which nobody changes. In a function they are out of reach of fmt and of reflection, which would
	// show them inside other values, and of ==, which would take a time that depends on them.
	key func() []byte
}

func secretOf(key []byte) Secret { return Secret{key: func() []byte { return key }} }

// NewSecret makes a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, newSecret)
	_, _ = rand.Read(key) // never fails
	return secretOf(key)
}

// ParseSecret reads "whsec_" and 24 to 64 bytes in base64: the standard alphabet, with all of its padding or none. It
// accepts nothing else, neither white space nor the URL-safe alphabet nor a bare key, and its error is [ErrSecret].
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return Secret{}, fmt.Errorf("%w: it must begin with %s", ErrSecret, prefix)
	}
	if len(encoded) > base64.StdEncoding.EncodedLen(MaxSecret) {
		return Secret{}, errSize
	}
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(encoded, "=") {
		encoding = base64.StdEncoding
	}
	key, err := encoding.DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") { // which the decoder skips
		return Secret{}, fmt.Errorf("%w: after %s it must be standard base64, padded or not", ErrSecret, prefix)
	}
	if len(key) < MinSecret || len(key) > MaxSecret {
		return Secret{}, errSize
	}
	return secretOf(key), nil
}

// Reveal returns the secret as text that [ParseSecret] reads, with padding; nothing for the zero Secret. It is for
// handing the secret to its other owner and for keeping it encrypted.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return prefix + base64.StdEncoding.EncodeToString(s.key())
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.key == nil }

// Equal reports whether both are the same key, in a time that does not depend on what the keys have in common.
func (s Secret) Equal(other Secret) bool {
	if s.IsZero() || other.IsZero() {
		return s.IsZero() && other.IsZero()
	}
	return hmac.Equal(s.key(), other.key())
}

// String returns a placeholder, or nothing for the zero Secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString returns the placeholder for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("webhook.Secret(%q)", s.String()) }

// LogValue returns the placeholder for logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
