package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/herald-relay/herald/webhook"
)

func FuzzParseSecret(f *testing.F) {
	for _, text := range goodSecrets {
		f.Add(text)
	}
	for _, text := range badSecrets {
		f.Add(text[:min(len(text), 200)])
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := webhook.ParseSecret(text)
		if err != nil {
			if !errors.Is(err, webhook.ErrSecret) || !s.IsZero() {
				t.Errorf("%q: %v with %q", text, err, s.Reveal())
			}
			return
		}
		bare := strings.TrimRight(strings.TrimPrefix(text, "whsec_"), "=")
		key, err := base64.RawStdEncoding.DecodeString(bare)
		if err != nil || len(key) < 24 || len(key) > 64 || len(bare) != base64.RawStdEncoding.EncodedLen(len(key)) {
			t.Errorf("accepted %q, which encodes %d bytes: %v", text, len(key), err)
		}
		if want := "whsec_" + base64.StdEncoding.EncodeToString(key); s.Reveal() != want {
			t.Errorf("%q reveals %q, want %q", text, s.Reveal(), want)
		}
	})
}

// FuzzVerify accepts nothing but what the key signs, as computed here, and accepts that wherever it stands.
func FuzzVerify(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.id, strconv.FormatInt(v.at, 10), v.want, []byte(v.body))
	}
	for _, list := range []string{"v1a,x " + good, "v1,AAA,  v1,AAA", strings.Repeat("v1,A ", 40), literalKey, "v1", " "} {
		f.Add("evt_789", "1771516800", list, []byte(body1))
	}
	for _, timestamp := range []string{"", "-1", "NaN", "+1771516800", "17715168e2", "99999999999999999999"} {
		f.Add("evt.789", timestamp, good, []byte(body1))
	}
	s, now := secret(f, text1), time.Unix(at1, 0)
	f.Fuzz(func(t *testing.T, id, timestamp, list string, body []byte) {
		mac := hmac.New(sha256.New, []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"))
		mac.Write([]byte(id + "." + timestamp + "." + string(body)))
		right := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))

		verified, err := webhook.Verify(headers(id, timestamp, list), body, now, s)
		if err == nil {
			seconds, numErr := strconv.ParseInt(timestamp, 10, 64)
			if !strings.Contains(list, right) || numErr != nil || seconds < at1-300 || seconds > at1+300 || id == "" {
				t.Errorf("accepted id %q, timestamp %q, signatures %q", id, timestamp, list)
			}
			if verified.ID != id || verified.At.Unix() != seconds {
				t.Errorf("id %q, timestamp %q verified as %+v", id, timestamp, verified)
			}
		}
		_, err = webhook.Verify(headers(id, timestamp, right+" "+list), body, now, s)
		if errors.Is(err, webhook.ErrSignature) {
			t.Errorf("the right signature of id %q, timestamp %q, is refused before %q", id, timestamp, list)
		}
		checkSigned(t, id, body, now, s)
	})
}

// checkSigned has Verify take whatever Sign signs.
func checkSigned(t *testing.T, id string, body []byte, now time.Time, s webhook.Secret) {
	h := http.Header{}
	if webhook.SetHeaders(h, id, now, body, s) != nil {
		return
	}
	if _, err := webhook.Verify(h, body, now, s); err != nil {
		t.Errorf("signed id %q, refused: %v", id, err)
	}
}

// FuzzParseRetryAfter accepts no date that the more lenient net/http does not know.
func FuzzParseRetryAfter(f *testing.F) {
	for _, value := range badRetryAfters {
		f.Add(value, now.Unix())
	}
	for _, value := range []string{"7", "86400", "2147483649", "Mon, 30 Nov 2026 12:01:40 GMT", "Monday, 30-Nov-26 12:01:40 GMT", "Tue Dec  1 12:00:00 2026", "Sunday, 06-Nov-94 08:49:37 GMT"} {
		f.Add(value, now.Unix())
	}
	f.Fuzz(func(t *testing.T, value string, seconds int64) {
		now := time.Unix(seconds%(200*365*86400), 0).AddDate(30, 0, 0) // 1800 to 2200
		wait, ok := webhook.ParseRetryAfter(value, now)
		if wait < 0 || wait > webhook.MaxRetryAfter || !ok && wait != 0 {
			t.Fatalf("%q: %v, %v", value, wait, ok)
		}
		if _, err := strconv.ParseUint(value, 10, 64); err == nil && !ok {
			t.Errorf("%q, whole seconds, is ignored", value)
		}
		if !ok || strings.Trim(value, "0123456789") == "" {
			return
		}
		date, err := http.ParseTime(value)
		if err != nil {
			t.Fatalf("%q accepted: %v, but %v", value, wait, err)
		}
		if want := min(max(date.Sub(now), 0), webhook.MaxRetryAfter); want != wait && !strings.Contains(value, "-") {
			t.Errorf("%q at %v: %v, want %v", value, now, wait, want)
		}
	})
}
