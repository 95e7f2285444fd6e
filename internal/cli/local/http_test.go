package local

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
)

// testPatience ends tests that would hang.
const testPatience = time.Minute

const token = "a-token-of-more-than-thirty-two-characters"

// ask asks the loopback API; header holds names and values in turn.
func ask(t *testing.T, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:48617"+path, nil)
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// published is the list of reply subscriptions as the reference prints it, without its blanks.
const published = `{"restrictedTo":[],"subscriptions":[{"id":"sub_3fa91c0de27b45a6d118","event":"notification.reply","host":"agent.example.com","key":{"id":"4e5f6a7b","name":"chatgpt","displayName":"ChatGPT"},"createdAt":"2026-10-02T08:05:00.000Z","pending":0}]}`

// publishedRelay answers as the reference prints it.
func publishedRelay(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/device/events", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, published) })
	mux.HandleFunc("DELETE /v1/device/events/subscriptions/sub_3fa91c0de27b45a6d118", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"removed": true, "id": "sub_3fa91c0de27b45a6d118"}`)
	})
	mux.HandleFunc("GET /v1/device/usage", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":"rate_limited","message":"slowly","retryAfterSeconds":60}`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestSubscriptionsReadAndEndByteForByte(t *testing.T) {
	h := at(publishedRelay(t).URL, "hrd_x").Handler(token)
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/v1/relay/events", 200, published},
		{"DELETE", "/v1/relay/events/subscriptions/sub_3fa91c0de27b45a6d118", 200, `{"removed":true,"id":"sub_3fa91c0de27b45a6d118"}`},
		{"DELETE", "/v1/relay/events/subscriptions/sub_1", 400, `{"error":"invalid_request","message":"the id of a subscription is sub_ and 20 hex digits","fields":["id"]}`},
		{"DELETE", "/v1/relay/events/subscriptions/sub_3fa91c0de27b45a6d11%2F", 400, `{"error":"invalid_request","message":"the id of a subscription is sub_ and 20 hex digits","fields":["id"]}`},
		{"GET", "/v1/relay/nothing", 404, `{"error":"not_found","message":"there is no such route"}`},
		{"POST", "/v1/relay/events", 404, `{"error":"not_found","message":"there is no such route"}`},
		{"OPTIONS", "/v1/relay/events", 404, `{"error":"not_found","message":"there is no such route"}`},
	} {
		w := ask(t, h, c.method, c.path)
		if w.Code != c.status || w.Body.String() != c.want {
			t.Errorf("%s %s: %d %s\nwant %d %s", c.method, c.path, w.Code, w.Body, c.status, c.want)
		}
		if w.Header().Get("Content-Type") != "application/json; charset=utf-8" || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: headers %v", c.method, c.path, w.Header())
		}
	}
	if w := ask(t, h, "GET", "/v1/relay/usage"); w.Code != 429 {
		t.Errorf("a limit of the relay: %d %s", w.Code, w.Body)
	}
	if w := ask(t, h, "GET", "/v1/relay/keys"); w.Code != 502 {
		t.Errorf("a relay that makes no sense: %d %s", w.Code, w.Body)
	}
}

func TestOnlyWhoKnowsTheTokenIsAnswered(t *testing.T) {
	h := at(publishedRelay(t).URL, "hrd_x").Handler(token)
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"as documented", nil, 200},
		{"by name", []string{"Host", "localhost:48617"}, 200},
		{"IPv6", []string{"Host", "[::1]:48617"}, 200},
		{"no port", []string{"Host", "127.0.0.1"}, 200},
		{"a name that was made to lead here", []string{"Host", "evil.test:48617"}, 403},
		{"a name that begins alike", []string{"Host", "localhost.evil.test"}, 403},
		{"an address that begins alike", []string{"Host", "127.0.0.1.evil.test:48617"}, 403},
		{"no host", []string{"Host", ""}, 403},
		{"a page", []string{"Origin", "https://evil.test"}, 403},
		{"a page of this machine", []string{"Origin", "http://127.0.0.1:48617"}, 403},
		{"no token", []string{"Authorization", ""}, 401},
		{"another token", []string{"Authorization", "Bearer " + token + "x"}, 401},
		{"half a token", []string{"Authorization", "Bearer " + token[:20]}, 401},
		{"another scheme", []string{"Authorization", "Basic " + token}, 401},
	} {
		if w := ask(t, h, "GET", "/v1/relay/events", c.header...); w.Code != c.status {
			t.Errorf("%s: %d, want %d", c.name, w.Code, c.status)
		}
	}
}

func TestTheLoopbackAPIAnswersForARealRelay(t *testing.T) {
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("desk")
	d.Agent("bot")
	h := at(r.URL, d.Token).Handler(token)
	for path, upstream := range map[string]string{"/v1/relay/keys": "/v1/device/keys"} {
		w := ask(t, h, "GET", path)
		if want := d.Call("GET", upstream, nil); w.Code != 200 || w.Body.String() != string(want.Raw) {
			t.Errorf("%s: %d %s\nthe relay says %s", path, w.Code, w.Body, want.Raw)
		}
	}
	for path, want := range map[string]string{
		"/v1/relay/status":     `{"paired":true,"state":"offline","relay":"` + r.URL + `","deviceId":"mailbox","deviceName":"desk",`,
		"/v1/relay/usage":      `{"day":"`,
		"/v1/relay/connectors": `{"connectors":[],"waiting":[]}`,
	} {
		if w := ask(t, h, "GET", path); w.Code != 200 || !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	d.Call("DELETE", "/v1/device", nil)
	if w := ask(t, h, "GET", "/v1/relay/keys"); w.Code != 409 || !strings.Contains(w.Body.String(), `"not_paired"`) {
		t.Errorf("after unpairing: %d %s", w.Code, w.Body)
	}
	none := at("", "").Handler(token)
	if w := ask(t, none, "GET", "/v1/relay/keys"); w.Code != 409 {
		t.Errorf("never paired: %d %s", w.Code, w.Body)
	}
	if w := ask(t, none, "GET", "/v1/relay/status"); w.Code != 200 || !strings.HasPrefix(w.Body.String(), `{"paired":false,"state":"unpaired",`) {
		t.Errorf("never paired: %d %s", w.Code, w.Body)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	if w := ask(t, at(gone.URL, "x").Handler(token), "GET", "/v1/relay/keys"); w.Code != 502 {
		t.Errorf("a relay that is away: %d %s", w.Code, w.Body)
	}
}

func TestTheTokenIsMadeOnceForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "local-token")
	made, err := Token(path)
	if err != nil || len(made) < 32 {
		t.Fatalf("Token = %q, %v", made, err)
	}
	if again, err := Token(path); err != nil || again != made {
		t.Errorf("again: %q, %v", again, err)
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for name, text := range map[string]string{"empty": "", "short": "abc", "two": token + " " + token} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Token(path); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := errors.Join(os.WriteFile(path, []byte(made), 0o600), os.Chmod(path, 0o640)); err != nil {
		t.Fatal(err)
	}
	if _, err := Token(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by others: %v", err)
	}
}

func TestThePageNamesEveryToolAndRoute(t *testing.T) {
	page, err := os.ReadFile("../../../docs/local-agents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if !strings.Contains(string(page), "| `"+tool.Name+"` |") {
			t.Errorf("docs/local-agents.md does not name the tool %s", tool.Name)
		}
	}
	for _, r := range routes {
		if !strings.Contains(string(page), "| `"+r.pattern+"` |") {
			t.Errorf("docs/local-agents.md does not name the route %s", r.pattern)
		}
	}
}
