package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxID is the length of the longest message id, in characters.
const MaxID = 256

// version is that of signatures with shared secrets; those of other versions are for other kinds of keys.
const version = "v1,"

// ErrMessage is returned for what cannot be signed: an id that is not 1 to MaxID visible ASCII characters without a full
// stop, an attempt before 1970, no secret. It is a mistake of the sender's program.
var ErrMessage = errors.New("webhook: message cannot be signed")

// Sign returns the value of the webhook-signature header for one attempt, made at the time at, to send body as the message
// id: a signature with each of the secrets, in their order, with a space between.
//
// An id has no full stop, because a full stop is what ends it in the signed text. The signature holds for whole seconds:
// the webhook-timestamp header must be at.Unix().
func Sign(id string, at time.Time, body []byte, secrets ...Secret) (string, error) {
	if err := checkMessage(id, at, secrets); err != nil {
		return "", err
	}
	signatures := make([]string, len(secrets))
	for i, s := range secrets {
		signatures[i] = s.sign(id, strconv.FormatInt(at.Unix(), 10), body)
	}
	return strings.Join(signatures, " "), nil
}

// SetHeaders signs an attempt as [Sign] does and sets the three headers of its request in h, with their names in lower case
// (see [HeaderID]), in place of any that h has. A failure changes none.
func SetHeaders(h http.Header, id string, at time.Time, body []byte, secrets ...Secret) error {
	signature, err := Sign(id, at, body, secrets...)
	if err != nil {
		return err
	}
	set(h, HeaderID, id)
	set(h, HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	set(h, HeaderSignature, signature)
	return nil
}

// set does not canonicalise name.
func set(h http.Header, name, value string) {
	h.Del(name)
	h[name] = []string{value}
}

func checkMessage(id string, at time.Time, secrets []Secret) error {
	if !isID(id) || strings.Contains(id, ".") {
		return fmt.Errorf("%w: the id must be 1 to %d visible ASCII characters without a full stop", ErrMessage, MaxID)
	}
	if at.Unix() < 0 {
		return fmt.Errorf("%w: the time of the attempt is before 1970", ErrMessage)
	}
	if len(secrets) == 0 {
		return fmt.Errorf("%w: no secret", ErrMessage)
	}
	for _, s := range secrets {
		if s.IsZero() {
			return fmt.Errorf("%w: a secret is zero", ErrMessage)
		}
	}
	return nil
}

func isID(id string) bool {
	return id != "" && len(id) <= MaxID && strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// sign returns one signature with its version.
func (s Secret) sign(id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, s.key())
	_, _ = mac.Write([]byte(id + "." + timestamp + ".")) // a hash never fails
	_, _ = mac.Write(body)
	return version + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
