package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// exchange is one request that the strict fake expects, and its answer.
type exchange struct {
	method, path, token, body string // path includes the query; body is compared as JSON, "" wants none
	header                    map[string]string

	status int
	answer string
	reply  map[string]string // headers
	drop   bool              // cut the connection instead of answering
}

// fake answers exactly the exchanges it was given, in order, and fails the test on anything else.
func fake(t *testing.T, want ...exchange) *Relay {
	t.Helper()
	return fakeWith(t, &Options{MaxWait: time.Second}, want...)
}

func fakeWith(t *testing.T, opt *Options, want ...exchange) *Relay {
	t.Helper()
	next := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if next >= len(want) {
			t.Errorf("unexpected request %s %s", r.Method, r.URL)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		x := want[next]
		next++
		x.check(t, r)
		x.serve(w)
	}))
	t.Cleanup(func() {
		srv.Close()
		if next != len(want) {
			t.Errorf("%d of %d expected requests came", next, len(want))
		}
	})
	r, err := New(srv.URL, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (x *exchange) check(t *testing.T, r *http.Request) {
	t.Helper()
	if got := r.Method + " " + r.URL.RequestURI(); got != x.method+" "+x.path {
		t.Errorf("request = %s, want %s %s", got, x.method, x.path)
	}
	want := ""
	if x.token != "" {
		want = "Bearer " + x.token
	}
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("Authorization = %q, want %q", got, want)
	}
	for k, v := range x.header {
		if got := r.Header.Get(k); got != v {
			t.Errorf("%s = %q, want %q", k, got, v)
		}
	}
	body, _ := io.ReadAll(r.Body)
	if x.body == "" || string(body) == x.body {
		if len(body) > 0 && x.body == "" {
			t.Errorf("%s has the body %s, want none", x.path, body)
		}
		return
	}
	if diff := cmp.Diff(tree(t, x.body), tree(t, string(body))); diff != "" {
		t.Errorf("%s body (-want +got):\n%s", x.path, diff)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q", got)
	}
}

func tree(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}

func (x *exchange) serve(w http.ResponseWriter) {
	if x.drop {
		panic(http.ErrAbortHandler)
	}
	for k, v := range x.reply {
		w.Header().Set(k, v)
	}
	w.WriteHeader(x.status)
	io.WriteString(w, x.answer)
}

func TestNewJudgesTheAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://relay.example":        "https://relay.example",
		" https://relay.example/ ":     "https://relay.example",
		"http://127.0.0.1:8787":        "http://127.0.0.1:8787",
		"http://[::1]:8787":            "http://[::1]:8787",
		"http://LOCALHOST:1":           "http://LOCALHOST:1",
		"http://[::ffff:127.0.0.1]":    "http://[::ffff:127.0.0.1]",
		"http://relay.example":         "",
		"http://192.168.0.7":           "",
		"ftp://relay.example":          "",
		"relay.example":                "",
		"":                             "",
		"https://":                     "",
		"https://u:p@relay.example":    "",
		"https://relay.example/mcp":    "",
		"https://relay.example/?a=b":   "",
		"https://relay.example/#x":     "",
		"https://relay.example:bad":    "",
		"http://127.0.0.1.nip.example": "",
	} {
		r, err := New(address, nil)
		switch {
		case want == "" && err == nil:
			t.Errorf("New(%q) took it", address)
		case want != "" && err != nil:
			t.Errorf("New(%q): %v", address, err)
		case want != "" && r.Address() != want:
			t.Errorf("New(%q) = %q, want %q", address, r.Address(), want)
		}
	}
	if _, err := New("http://192.168.0.7", &Options{Insecure: true}); err != nil {
		t.Errorf("an address the caller calls insecure was refused: %v", err)
	}
	if _, err := New("http://192.168.0.7", nil); !errors.Is(err, ErrPlain) {
		t.Errorf("error = %v, want ErrPlain", err)
	}
}

func TestErrorsAreReadWhole(t *testing.T) {
	answer := `{"error":"rate_limited","message":"too fast","fields":["a"],"retryAfterSeconds":90}`
	r := fake(t, exchange{method: "GET", path: "/health", status: 429, answer: answer, reply: map[string]string{"Retry-After": "60"}})
	_, _, err := r.Health(t.Context())
	want := &Error{Status: 429, Code: "rate_limited", Message: "too fast", Fields: []string{"a"}, RetryAfter: 90 * time.Second}
	got, _ := errors.AsType[*Error](err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if Code(err) != "rate_limited" || !strings.Contains(err.Error(), "too fast (rate_limited)") {
		t.Errorf("err = %v", err)
	}
}

func TestForeignAnswersAreSaidToBeForeign(t *testing.T) {
	for name, x := range map[string]exchange{
		"is no relay's answer":                        {status: 404, answer: "<html>"},
		"sends requests on to https://other.example;": {status: 308, reply: map[string]string{"Location": "https://other.example/health?a=b"}},
		"something else than a relay's JSON":          {status: 200, answer: "<html>"},
		"more than 1048576 bytes":                     {status: 200, answer: strings.Repeat("x", maxAnswer+1)},
	} {
		x.method, x.path = "GET", "/health"
		_, _, err := fake(t, x).Health(t.Context())
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error = %v, want one that says %q", err, name)
		}
	}
}

func TestOnlyRepeatableCallsAreRepeated(t *testing.T) {
	lost := exchange{method: "GET", path: "/health", drop: true}
	found := exchange{method: "GET", path: "/health", status: 200, answer: `{"ok":true,"service":"herald-relay"}`}
	h, date, err := fake(t, lost, lost, found).Health(t.Context())
	if err != nil || !h.OK || time.Since(date).Abs() > time.Minute {
		t.Errorf("Health = %+v, %v, %v after two lost answers", h, date, err)
	}
	_, _, err = fake(t, lost, lost, lost).Health(t.Context())
	if !isUnreachable(err) {
		t.Errorf("error = %v, want Unreachable", err)
	}
	pair := exchange{method: "POST", path: "/v1/pair", body: `{"code":"A"}`, drop: true}
	if _, err = fake(t, pair).Pair(t.Context(), "A", ""); !isUnreachable(err) {
		t.Errorf("error = %v, want Unreachable", err)
	}
}

func TestARefusalThatNamesATimeIsWaitedOut(t *testing.T) {
	pair := exchange{method: "POST", path: "/v1/pair", body: `{"code":"A","deviceName":"n"}`}
	busy, done, far := pair, pair, pair
	busy.status, busy.answer = 429, `{"error":"rate_limited","message":"m","retryAfterSeconds":0.01}`
	far.status, far.answer = 429, `{"error":"rate_limited","message":"m","retryAfterSeconds":600}`
	done.status, done.answer = 200, `{"deviceId":"d","deviceToken":"hrd_d_s"}`
	var waits []time.Duration
	opt := &Options{MaxWait: time.Second, OnWait: func(d time.Duration, err error) { waits = append(waits, d) }}
	got, err := fakeWith(t, opt, busy, done).Pair(t.Context(), "A", "n")
	if err != nil || got != (Paired{"d", "hrd_d_s"}) {
		t.Errorf("Pair = %+v, %v", got, err)
	}
	if diff := cmp.Diff([]time.Duration{10 * time.Millisecond}, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	if _, err := fakeWith(t, opt, far).Pair(t.Context(), "A", "n"); Code(err) != "rate_limited" {
		t.Errorf("error = %v, want the refusal itself", err)
	}
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 10, 5, 6, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"":                                   0,
		"7":                                  7 * time.Second,
		" 7 ":                                7 * time.Second,
		"-5":                                 0,
		"1.5":                                0,
		"7s":                                 0,
		"99999999":                           longestHint,
		"99999999999999999999":               0,
		"Mon, 05 Oct 2026 06:01:00 GMT":      time.Minute,
		"Mon, 05 Oct 2026 05:00:00 GMT":      0,
		"Monday, 05-Oct-26 06:00:30 GMT":     30 * time.Second,
		"Mon Oct  5 06:00:30 2026":           30 * time.Second,
		"Tue, 31 Feb 2027 00:00:00 GMT":      0,
		"Mon, 05 Oct 2099 06:01:00 GMT":      longestHint,
		"2026-10-05T06:01:00Z":               0,
		"Mon, 05 Oct 2026 06:01:00 GMT junk": 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", header, got, want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	lost := &Unreachable{"h", io.EOF}
	for _, c := range []struct {
		name       string
		err        error
		attempt    int
		repeatable bool
		again      bool
	}{
		{"a lost answer of a repeatable call", lost, 0, true, true},
		{"a lost answer of another call", lost, 0, false, false},
		{"the last attempt", lost, maxAttempts - 1, true, false},
		{"a proxy's 502", &Error{Status: 502}, 0, true, true},
		{"a proxy's 502 of another call", &Error{Status: 502}, 0, false, false},
		{"a bad request", &Error{Status: 400, Code: "invalid_request"}, 0, true, false},
		{"an internal error", &Error{Status: 500, Code: "internal"}, 0, true, false},
		{"a full queue", &Error{Status: 429, Code: "queue_full"}, 0, true, false},
		{"a rate limit that passes soon", &Error{Status: 429, RetryAfter: time.Second}, 0, false, true},
		{"a daily limit", &Error{Status: 429, RetryAfter: time.Hour}, 0, true, false},
		{"junk JSON", fmt.Errorf("junk"), 0, true, false},
	} {
		if _, again := retryDelay(c.err, c.attempt, c.repeatable, 30*time.Second); again != c.again {
			t.Errorf("%s: again = %v, want %v", c.name, again, c.again)
		}
	}
	if _, again := retryDelay(lost, 0, true, -1); again {
		t.Error("a negative MaxWait must forbid every repeat")
	}
}

func FuzzReadError(f *testing.F) {
	f.Add(429, "60", []byte(`{"error":"rate_limited","message":"m","retryAfterSeconds":90,"fields":["a"]}`))
	f.Add(502, "junk", []byte(`<html>`))
	f.Add(503, "Mon, 05 Oct 2026 06:01:00 GMT", []byte(`{"error":"x","retryAfterSeconds":1e308}`))
	req := httptest.NewRequest("GET", "https://relay.example/", nil)
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}, Request: req}
		e := readError(resp, body)
		if e.Error() == "" || e.RetryAfter < 0 || e.RetryAfter > longestHint {
			t.Errorf("readError = %+v", e)
		}
	})
}
