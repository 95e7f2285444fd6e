package webapp_test

import (
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/web"
	"github.com/herald-relay/herald/internal/webapp"
)

func get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	rt := web.NewRouter(slog.New(slog.DiscardHandler), nil, nil)
	webapp.Register(rt)
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

var (
	styleElement  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	scriptElement = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
)

func TestPagesLoadNothingAndCannotBeFramed(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/pair", "/pair?x=1"} {
		w := get(t, path)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		body := w.Body.String()
		styles := styleElement.FindAllStringSubmatch(body, -1)
		if len(styles) != 1 {
			t.Fatalf("%s has %d style elements, want one", path, len(styles))
		}
		sum := sha256.Sum256([]byte(styles[0][1]))
		var want strings.Builder
		want.WriteString("default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
		for _, script := range scriptElement.FindAllStringSubmatch(body, -1) {
			sum := sha256.Sum256([]byte(script[1]))
			want.WriteString("; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; connect-src 'self'")
		}
		want.WriteString("; form-action 'none'; base-uri 'none'; frame-ancestors 'none'")
		if got := w.Header().Get("Content-Security-Policy"); got != want.String() {
			t.Errorf("%s: policy = %s\nwant %s", path, got, want.String())
		}
		for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"} {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %s = %q, want %q", path, name, got, value)
			}
		}
		if found := active.FindString(scriptElement.ReplaceAllString(styleElement.ReplaceAllString(body, ""), "")); found != "" {
			t.Errorf("%s holds %q", path, found)
		}
		for _, must := range []string{"<!doctype html>", `lang="en"`, "<title>", "<h1", `name="viewport"`} {
			if !strings.Contains(body, must) {
				t.Errorf("%s lacks %s", path, must)
			}
		}
	}
}

// active is whatever could run, load or send something, beside the one script of a page.
var active = regexp.MustCompile(`(?i)<script|javascript:|\son[a-z]+\s*=|\ssrc=|<link|<iframe|<form|\sstyle=|/\*style\*/`)

func TestOtherPathsAreNoPages(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/index.html", "/pair/", "/style.css", "/pages/pair.html"} {
		if w := get(t, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
