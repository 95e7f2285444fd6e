package npm

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/webhook"
)

// bodies are what signatures must hold for: above all, text whose bytes, characters and UTF-16 units differ in number.
var bodies = map[string]string{
	"an event":         `{"eventId":"evt_1","name":"ticket.opened","timestamp":"2026-12-01T07:00:00.000Z","data":{"id":"T-1"},"cursor":null}`,
	"other scripts":    `{"reply":"žluťoučký kůň, 日本語, العربية, ไทย"}`,
	"emoji":            `{"reply":"👍🏽 👩‍👩‍👧‍👦 🇨🇭"}`,
	"escapes":          `{"reply":"\u00e9\ud83d\ude00\\\"\/\n\u2028"}`,
	"line separators":  "{\"reply\":\"a\u2028b\u2029c\u0085d\"}",
	"composed or not":  "{\"reply\":\"\u00e9 e\u0301\"}",
	"a byte order":     "{\"reply\":\"\ufeffx\"}",
	"full stops":       `{"reply":"evt_1.1771516800.{}"}`,
	"spaces":           " {\n\t\"reply\" : \"x\"\r\n} ",
	"an empty object":  `{}`,
	"almost too large": `{"reply":"` + strings.Repeat("ä", 120<<10) + `"}`,
}

// message is one that was signed, as the script takes it.
type message struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// sign signs as our senders do.
func sign(t *testing.T, id string, at time.Time, body string, secrets ...webhook.Secret) message {
	t.Helper()
	h := http.Header{}
	if err := webhook.SetHeaders(h, id, at, []byte(body), secrets...); err != nil {
		t.Fatal(err)
	}
	m := message{Secret: secrets[0].Reveal(), Body: body, Headers: map[string]string{}}
	for name, values := range h {
		m.Headers[name] = values[0]
	}
	return m
}

func secretOf(t *testing.T, size int) webhook.Secret {
	t.Helper()
	// Each size has its own padding in base64.
	s, err := webhook.ParseSecret("whsec_" + base64Of(strings.Repeat("k", size-1)+"\xff"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStandardWebhooksVerifiesOurSignatures(t *testing.T) {
	t.Parallel()
	s := start(t, "standardwebhooks")
	for name, body := range bodies {
		for _, size := range []int{24, 25, 32, 64} {
			var parsed, want any
			s.must("verify", sign(t, "msg_"+strings.ReplaceAll(name, " ", "-"), time.Now(), body, secretOf(t, size)), &parsed)
			if err := json.Unmarshal([]byte(body), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, parsed); diff != "" {
				t.Errorf("%s: read otherwise (-sent +read):\n%.500s", name, diff)
			}
		}
	}
}

func TestStandardWebhooksVerifiesBothSecretsOfARotation(t *testing.T) {
	t.Parallel()
	s := start(t, "standardwebhooks")
	now, before, stranger := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	m := sign(t, "evt_1", time.Now(), bodies["emoji"], now, before)
	for name, c := range map[string]struct {
		secret webhook.Secret
		good   bool
	}{"the new one": {now, true}, "the one before": {before, true}, "a stranger's": {stranger, false}} {
		m.Secret = c.secret.Reveal()
		if err := s.try("verify", m, nil); (err == nil) != c.good {
			t.Errorf("verified with %s: %v", name, err)
		}
	}
}

func TestStandardWebhooksRefusesWhatWasTamperedWith(t *testing.T) {
	t.Parallel()
	s := start(t, "standardwebhooks")
	secret := webhook.NewSecret()
	fresh := func() message { return sign(t, "evt_1", time.Now(), bodies["other scripts"], secret) }
	for name, change := range map[string]func(m *message){
		"nothing":       func(*message) {},
		"the body":      func(m *message) { m.Body = strings.Replace(m.Body, "kůň", "kun", 1) },
		"the id":        func(m *message) { m.Headers["webhook-id"] = "evt_2" },
		"the time":      func(m *message) { *m = later(*m) },
		"the version":   func(m *message) { m.Headers["webhook-signature"] = "v2" + m.Headers["webhook-signature"][2:] },
		"the signature": func(m *message) { m.Headers["webhook-signature"] = "v1,AAAA" + m.Headers["webhook-signature"][7:] },
		"its age":       func(m *message) { *m = sign(t, "evt_1", time.Now().Add(-6*time.Minute), m.Body, secret) },
		"its clock":     func(m *message) { *m = sign(t, "evt_1", time.Now().Add(6*time.Minute), m.Body, secret) },
	} {
		m := fresh()
		change(&m)
		if err := s.try("verify", m, nil); (err == nil) != (name == "nothing") {
			t.Errorf("%s changed: %v", name, err)
		}
	}
}

// later is a message with another, also acceptable time.
func later(m message) message {
	m.Headers["webhook-timestamp"] = unix(time.Now().Add(30 * time.Second))
	return m
}

// foreign is a signature made by the package.
func foreign(s *script, id string, at time.Time, body string, secrets ...webhook.Secret) (signature string) {
	texts := make([]string, len(secrets))
	for i, secret := range secrets {
		texts[i] = secret.Reveal()
	}
	s.must("sign", map[string]any{"secrets": texts, "id": id, "at": at.Unix(), "body": body}, &signature)
	return signature
}

func TestWeVerifyTheSignaturesOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	s := start(t, "standardwebhooks")
	now := time.Now()
	for name, body := range bodies {
		for _, size := range []int{24, 25, 32, 64} {
			secret := secretOf(t, size)
			theirs := foreign(s, "msg_1", now, body, secret)
			ours, err := webhook.Sign("msg_1", now, []byte(body), secret)
			if err != nil || ours != theirs {
				t.Errorf("%s: we sign %q, they %q (%v)", name, ours, theirs, err)
			}
			verified, err := webhook.Verify(received("msg_1", now, theirs), []byte(body), now, secret)
			if err != nil || verified.ID != "msg_1" {
				t.Errorf("%s, %d bytes of secret: %+v, %v", name, size, verified, err)
			}
		}
	}
}

func TestWeVerifyARotationOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	s := start(t, "standardwebhooks")
	at := time.Now()
	now, before, stranger := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	body := bodies["emoji"]
	both := received("msg_1", at, foreign(s, "msg_1", at, body, now, before))
	for name, c := range map[string]struct {
		secrets []webhook.Secret
		good    bool
	}{
		"the new one":              {[]webhook.Secret{now}, true},
		"the one before":           {[]webhook.Secret{before}, true},
		"a stranger's and a right": {[]webhook.Secret{stranger, before}, true},
		"a stranger's":             {[]webhook.Secret{stranger}, false},
	} {
		if _, err := webhook.Verify(both, []byte(body), at, c.secrets...); (err == nil) != c.good {
			t.Errorf("verified with %s: %v", name, err)
		}
	}
	for name, tampered := range map[string]struct {
		header http.Header
		body   string
	}{
		"body": {both, body + " "},
		"id":   {received("msg_2", at, both.Get(webhook.HeaderSignature)), body},
		"time": {received("msg_1", at.Add(time.Second), both.Get(webhook.HeaderSignature)), body},
	} {
		if _, err := webhook.Verify(tampered.header, []byte(tampered.body), at, now, before); err == nil {
			t.Errorf("another %s was accepted", name)
		}
	}
}

// received are the headers of a webhook as an http.Handler gets them.
func received(id string, at time.Time, signature string) http.Header {
	h := http.Header{}
	h.Set(webhook.HeaderID, id)
	h.Set(webhook.HeaderTimestamp, unix(at))
	h.Set(webhook.HeaderSignature, signature)
	return h
}
