package webhook_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/webhook"
)

func TestSignWithSeveralSecrets(t *testing.T) {
	got, err := webhook.Sign("evt_789", time.Unix(at1, 999_999_999), []byte(body1), secret(t, text2), secret(t, text1))
	if want := vectors[2].want + " " + vectors[1].want; err != nil || got != want {
		t.Errorf("Sign = %q, %v, want %q", got, err, want)
	}
}

func TestSignRefuses(t *testing.T) {
	s, now := secret(t, text1), time.Unix(at1, 0)
	for name, sign := range map[string]func() (string, error){
		"no id":                 func() (string, error) { return webhook.Sign("", now, nil, s) },
		"full stop in the id":   func() (string, error) { return webhook.Sign("evt.1", now, nil, s) },
		"space in the id":       func() (string, error) { return webhook.Sign("evt 1", now, nil, s) },
		"line end in the id":    func() (string, error) { return webhook.Sign("evt\r\nX: y", now, nil, s) },
		"non-ASCII id":          func() (string, error) { return webhook.Sign("évt", now, nil, s) },
		"invalid UTF-8 in id":   func() (string, error) { return webhook.Sign("\xff", now, nil, s) },
		"long id":               func() (string, error) { return webhook.Sign(strings.Repeat("x", webhook.MaxID+1), now, nil, s) },
		"before 1970":           func() (string, error) { return webhook.Sign("evt", time.Unix(-1, 0), nil, s) },
		"zero time":             func() (string, error) { return webhook.Sign("evt", time.Time{}, nil, s) },
		"no secret":             func() (string, error) { return webhook.Sign("evt", now, nil) },
		"a secret that is zero": func() (string, error) { return webhook.Sign("evt", now, nil, s, webhook.Secret{}) },
	} {
		if got, err := sign(); !errors.Is(err, webhook.ErrMessage) || got != "" {
			t.Errorf("%s: %q, %v, want ErrMessage", name, got, err)
		}
	}
	if _, err := webhook.Sign(strings.Repeat("~", webhook.MaxID), time.Unix(0, 0), nil, s); err != nil {
		t.Errorf("longest id, earliest time, no body: %v", err)
	}
}

func TestSetHeadersReplacesOrLeavesAlone(t *testing.T) {
	h := headers("old", "1", "v1,old")
	h.Set("Content-Type", "application/json")
	before := h.Clone()
	if err := webhook.SetHeaders(h, "a.b", time.Unix(at1, 0), []byte(body1), secret(t, text1)); err == nil {
		t.Error("an id with a full stop was signed")
	}
	if diff := cmp.Diff(before, h); diff != "" {
		t.Errorf("a failure changed the headers (-want +got):\n%s", diff)
	}
	if err := webhook.SetHeaders(h, "evt_789", time.Unix(at1, 0), []byte(body1), secret(t, text1)); err != nil {
		t.Fatal(err)
	}
	want := http.Header{"Content-Type": {"application/json"}, "webhook-id": {"evt_789"}, "webhook-timestamp": {"1771516800"}, "webhook-signature": {vectors[1].want}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// What SetHeaders signs, Verify takes: from the same map, and off the wire.
func TestSignedRequestVerifies(t *testing.T) {
	s, now := webhook.NewSecret(), time.Now()
	var arrived error
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, arrived = webhook.Verify(r.Header, []byte(body3), now, s)
	}))
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body3))
	if err != nil {
		t.Fatal(err)
	}
	if err := webhook.SetHeaders(req.Header, "evt_u", now, []byte(body3), s); err != nil {
		t.Fatal(err)
	}
	if _, err := webhook.Verify(req.Header, []byte(body3), now, s); err != nil {
		t.Errorf("before it is sent: %v", err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if arrived != nil {
		t.Errorf("off the wire: %v", arrived)
	}
}

// case 024: the signature is one of bytes, not of what they mean.
func TestEquivalentJSONIsAnotherBody(t *testing.T) {
	s, now := secret(t, text1), time.Unix(at1, 0)
	for body, other := range map[string]string{`{"b":1,"a":2}`: `{"a":2,"b":1}`, `{"a": 1.0}`: `{"a":1}`} {
		h := http.Header{}
		if err := webhook.SetHeaders(h, "evt", now, []byte(body), s); err != nil {
			t.Fatal(err)
		}
		if _, err := webhook.Verify(h, []byte(body), now, s); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if _, err := webhook.Verify(h, []byte(other), now, s); !errors.Is(err, webhook.ErrSignature) {
			t.Errorf("%s verifies as %s: %v", other, body, err)
		}
	}
}
