package agentapi

import (
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

func wait(value string) time.Duration {
	return waitOf(httptest.NewRequest("GET", "/v1/replies/x?wait="+url.QueryEscape(value), nil))
}

func TestWaitIsSecondsFromNoneToSixty(t *testing.T) {
	t.Parallel()
	tests := map[string]time.Duration{
		"": 0, "0": 0, "-0": 0, "-1": 0, "-1e9": 0, "x": 0, "5s": 0, " 5": 0, "1,5": 0, "NaN": 0, "-Inf": 0, "0x": 0, "true": 0, "１": 0,
		"1": time.Second, "+1": time.Second, "30": 30 * time.Second, "59.5": 59500 * time.Millisecond, "0.25": 250 * time.Millisecond, "1e1": 10 * time.Second,
		"60": time.Minute, "60.0001": time.Minute, "61": time.Minute, "300": time.Minute, "1e300": time.Minute, "Inf": time.Minute,
		"99999999999999999999999999": time.Minute,
	}
	for text, want := range tests {
		if got := wait(text); got != want {
			t.Errorf("wait=%s waits %s, want %s", text, got, want)
		}
	}
	if got := waitOf(httptest.NewRequest("GET", "/v1/replies/x", nil)); got != 0 {
		t.Errorf("no wait waits %s", got)
	}
	if got := waitOf(httptest.NewRequest("GET", "/v1/replies/x?wait=7&wait=50", nil)); got != 7*time.Second {
		t.Errorf("of two waits %s counts, want the first", got)
	}
	if got := waitOf(httptest.NewRequest("GET", "/v1/replies/x?wait=%zz", nil)); got != 0 {
		t.Errorf("a broken query waits %s", got)
	}
}

// FuzzWait holds that no text makes a wait negative or longer than a minute.
func FuzzWait(f *testing.F) {
	for _, text := range []string{"", "1", "-1", "60", "1e999", "NaN", "0x1p4", "1_0", "Infinity"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := wait(text); got < 0 || got > time.Minute {
			t.Errorf("wait=%s waits %s", text, got)
		}
	})
}
