package app_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/testkit"
)

// wantRefusal holds an answer to the plain error body of the contract's section 1: status, code, the fields to blame,
// a sentence for people, nothing else, and headers that agree with it.
func wantRefusal(t *testing.T, a testkit.Answer, status int, code string, fields ...string) {
	t.Helper()
	if a.Status != status || a.Code() != code {
		t.Errorf("answer = %d %s, want %d %s", a.Status, a.Raw, status, code)
		return
	}
	if a.Text("message") == "" {
		t.Errorf("%d %s has no message", status, code)
	}
	if got := textsOf(a.Body["fields"]); !slices.Equal(got, fields) {
		t.Errorf("%s blames %v, want %v: %s", code, got, fields, a.Raw)
	}
	for member := range a.Body {
		if !slices.Contains([]string{"error", "message", "fields", "retryAfterSeconds", "status"}, member) {
			t.Errorf("%s has a member %s: %s", code, member, a.Raw)
		}
	}
	wantJSONHeaders(t, a)
	if got := a.Header.Get("WWW-Authenticate"); (got != "") != (status == 401) {
		t.Errorf("%d carries WWW-Authenticate %q", status, got)
	}
}

func wantJSONHeaders(t *testing.T, a testkit.Answer) {
	t.Helper()
	if got := a.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		t.Errorf("content-type = %q", got)
	}
	if got := a.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("cache-control = %q", got)
	}
}

// wantRetry holds both places that tell how long to wait: header says whether Retry-After is one of them.
func wantRetry(t *testing.T, a testkit.Answer, seconds int, header bool) {
	t.Helper()
	inHeader := ""
	if header {
		inHeader = strconv.Itoa(seconds)
	}
	if got := a.Header.Get("Retry-After"); got != inHeader {
		t.Errorf("Retry-After = %q, want %q", got, inHeader)
	}
	got, present := a.Body["retryAfterSeconds"]
	if present != (seconds > 0) || present && got != float64(seconds) {
		t.Errorf("retryAfterSeconds = %v, want %d", got, seconds)
	}
}

// wantBody compares a whole JSON answer.
func wantBody(t *testing.T, a testkit.Answer, status int, want map[string]any) {
	t.Helper()
	if a.Status != status {
		t.Errorf("status = %d, want %d: %s", a.Status, status, a.Raw)
	}
	if diff := cmp.Diff(want, a.Body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	wantJSONHeaders(t, a)
}

func textsOf(v any) (list []string) {
	items, _ := v.([]any)
	for _, item := range items {
		s, _ := item.(string)
		list = append(list, s)
	}
	return list
}

// padded is fields as JSON, made longer by white space that means nothing.
func padded(t *testing.T, fields map[string]any, size int) string {
	t.Helper()
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > size {
		t.Fatalf("the fields take %d bytes, which is more than %d", len(data), size)
	}
	return string(data) + strings.Repeat(" ", size-len(data))
}

// pending is how many notifications wait in the device's mailbox.
func pending(d *testkit.Device) float64 {
	d.T.Helper()
	n, _ := d.Call("GET", "/v1/device/info", nil).Body["pending"].(float64)
	return n
}

// used is one counter of the mailbox's day.
func used(d *testkit.Device, counter string) float64 {
	d.T.Helper()
	n, ok := d.Call("GET", "/v1/device/usage", nil).Body[counter].(float64)
	if !ok {
		d.T.Errorf("usage has no number %s", counter)
	}
	return n
}
