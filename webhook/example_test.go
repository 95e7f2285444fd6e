package webhook_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/herald-relay/herald/webhook"
)

// A sender and a receiver that share a secret.
func Example() {
	secret := webhook.NewSecret()

	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 256<<10))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		message, err := webhook.Verify(r.Header, body, time.Now(), secret)
		if err != nil {
			http.Error(w, "not verified", http.StatusUnauthorized)
			return
		}
		fmt.Println("received", message.ID, string(body)) // once it is stored, or seen to be stored already, say 204
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()

	body := `{"eventId":"evt_1"}`
	req, err := http.NewRequest(http.MethodPost, receiver.URL, strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if err := webhook.SetHeaders(req.Header, "evt_1", time.Now(), []byte(body), secret); err != nil {
		fmt.Println(err)
		return
	}
	resp, err := receiver.Client().Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// received evt_1 {"eventId":"evt_1"}
	// 204 No Content
}

// A secret does not show itself. Hand it over, or keep it, with Reveal.
func ExampleNewSecret() {
	secret := webhook.NewSecret()
	fmt.Println("secret:", secret)
	fmt.Println(len(secret.Reveal()), "characters, beginning with", secret.Reveal()[:6])
	// Output:
	// secret: whsec_[redacted]
	// 50 characters, beginning with whsec_
}

func ExampleParseSecret() {
	for _, text := range []string{"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "whsec_c2hvcnQ=", "c2hvcnQ="} {
		_, err := webhook.ParseSecret(text)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// webhook: malformed secret: it must encode 24 to 64 bytes
	// webhook: malformed secret: it must begin with whsec_
}

func ExampleSign() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	signature, err := webhook.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), secret)
	fmt.Println(signature, err)
	// Output: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= <nil>
}

// During a rotation the sender signs with both secrets, and a receiver that knows one of them is content.
func ExampleSetHeaders_rotation() {
	oldSecret, newSecret := webhook.NewSecret(), webhook.NewSecret()
	now, body := time.Now(), []byte(`{}`)

	header := http.Header{}
	if err := webhook.SetHeaders(header, "evt_1", now, body, newSecret, oldSecret); err != nil {
		fmt.Println(err)
		return
	}
	for _, secret := range []webhook.Secret{oldSecret, newSecret, webhook.NewSecret()} {
		_, err := webhook.Verify(header, body, now, secret)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// webhook: no signature matches
}

// The error says what to answer.
func ExampleVerify() {
	secret := webhook.NewSecret()
	body := []byte(`{}`)
	header := http.Header{}
	if err := webhook.SetHeaders(header, "evt_1", time.Now().Add(-time.Hour), body, secret); err != nil {
		fmt.Println(err)
		return
	}
	_, err := webhook.Verify(header, body, time.Now(), secret)
	switch {
	case errors.Is(err, webhook.ErrHeader):
		fmt.Println(http.StatusBadRequest)
	case errors.Is(err, webhook.ErrTimestamp), errors.Is(err, webhook.ErrSignature):
		fmt.Println(http.StatusUnauthorized, err)
	}
	// Output: 401 webhook: timestamp out of tolerance: it is 3600 seconds old
}

// A sender waits as long as it is asked to if that is longer than it would have waited anyway.
func ExampleParseRetryAfter() {
	now := time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)
	for _, value := range []string{"120", "Mon, 30 Nov 2026 12:05:00 GMT", "soon", ""} {
		wait := time.Minute
		if asked, ok := webhook.ParseRetryAfter(value, now); ok {
			wait = max(wait, asked)
		}
		fmt.Println(wait)
	}
	// Output:
	// 2m0s
	// 5m0s
	// 1m0s
	// 1m0s
}
