package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/web"
)

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func answerOK(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteJSON(w, http.StatusOK, map[string]bool{"ok": true})
}

// call asks the router without a network.
func call(rt *web.Router, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, r)
	return w
}

func codeOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var body struct{ Error, Message string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Errorf("the answer is no JSON: %v: %s", err, w.Body)
	}
	if body.Error != "" && body.Message == "" {
		t.Errorf("error %s comes without a message", body.Error)
	}
	return body.Error
}

func TestARouterAnswersWhatItHasAndSaysWhatItHasNot(t *testing.T) {
	t.Parallel()
	rt := web.NewRouter(silent(), nil, nil)
	rt.Handle("POST /v1/notify", answerOK)
	rt.Handle("GET /v1/receipts/{id}", answerOK)
	rt.Handle("GET /v1/device/info", answerOK)
	rt.Fallback("/v1/device", func(http.ResponseWriter, *http.Request) error { return fault.Unauthorized("who?") })
	tests := map[string]struct {
		method, target string
		status         int
		code, allow    string
	}{
		"a route":                               {"POST", "/v1/notify", 200, "", ""},
		"a route with a query":                  {"POST", "/v1/notify?x=1", 200, "", ""},
		"HEAD where GET is":                     {"HEAD", "/v1/receipts/n_1", 200, "", ""},
		"a wrong method":                        {"PUT", "/v1/notify", 405, "method_not_allowed", "POST"},
		"a wrong method where GET is":           {"DELETE", "/v1/receipts/n_1", 405, "method_not_allowed", "GET, HEAD"},
		"a method in small letters":             {"post", "/v1/notify", 405, "method_not_allowed", "POST"},
		"an invented method":                    {"BREW", "/v1/notify", 405, "method_not_allowed", "POST"},
		"no route":                              {"GET", "/v1/nothing", 404, "not_found", ""},
		"a trailing slash":                      {"POST", "/v1/notify/", 404, "not_found", ""},
		"another case":                          {"POST", "/V1/Notify", 404, "not_found", ""},
		"an empty parameter":                    {"GET", "/v1/receipts/", 404, "not_found", ""},
		"decision 38: dot-dot":                  {"POST", "/v1/x/../notify", 404, "not_found", ""},
		"decision 38: dot":                      {"POST", "/v1/./notify", 404, "not_found", ""},
		"decision 38: dot-dot in escapes":       {"POST", "/v1/x/%2e%2e/notify", 404, "not_found", ""},
		"decision 38: a slash too many":         {"POST", "/v1//notify", 404, "not_found", ""},
		"decision 38: dot-dot out of the root":  {"GET", "/../../etc/passwd", 404, "not_found", ""},
		"decision 38: dot-dot into a parameter": {"GET", "/v1/receipts/..%2f..", 404, "not_found", ""},
		"decision 38: internal":                 {"GET", "/internal/status", 404, "not_found", ""},
		"decision 38: dot-dot under a fallback": {"GET", "/v1/device/../notify", 404, "not_found", ""},
		"a route under a fallback":              {"GET", "/v1/device/info", 200, "", ""},
		"a fallback's own path":                 {"GET", "/v1/device", 401, "unauthorized", ""},
		"a path below a fallback":               {"GET", "/v1/device/a/b", 401, "unauthorized", ""},
		"a wrong method under a fallback":       {"PATCH", "/v1/device/info", 401, "unauthorized", ""},
		"a path beside a fallback":              {"GET", "/v1/devices", 404, "not_found", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := call(rt, test.method, test.target)
			if w.Code != test.status || codeOf(t, w) != test.code || w.Header().Get("Allow") != test.allow {
				t.Errorf("%s %s: %d %s, Allow %q; want %d %s, Allow %q", test.method, test.target, w.Code, w.Body, w.Header().Get("Allow"), test.status, test.code, test.allow)
			}
			if location := w.Header().Get("Location"); location != "" {
				t.Errorf("%s %s leads to %s", test.method, test.target, location)
			}
		})
	}
	if want := []string{"POST /v1/notify", "GET /v1/receipts/{id}", "GET /v1/device/info"}; !slices.Equal(rt.Routes(), want) {
		t.Errorf("routes = %v", rt.Routes())
	}
}

// TestPagesOfAnyOriginMayCall holds decision 29 and the preflight of the contract's section 8.
func TestPagesOfAnyOriginMayCall(t *testing.T) {
	t.Parallel()
	rt := web.NewRouter(silent(), nil, nil)
	rt.Handle("POST /v1/notify", answerOK)
	rt.Handle("GET /v1/device/info", func(http.ResponseWriter, *http.Request) error { return fault.Unauthorized("who?") })
	rt.Fallback("/v1/device", func(http.ResponseWriter, *http.Request) error { return fault.NotFoundf("no such device endpoint") })
	const origin = "https://page.example"

	for _, target := range []string{"/v1/notify", "/v1/device/info"} {
		w := call(rt, "OPTIONS", target, "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
		h := w.Header()
		if w.Code != http.StatusNoContent || w.Body.Len() != 0 || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Max-Age") != "86400" ||
			h.Get("Access-Control-Allow-Headers") != "authorization, content-type, mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id" {
			t.Errorf("preflight of %s: %d %v", target, w.Code, h)
		}
		if h.Get("Access-Control-Allow-Credentials") != "" {
			t.Error("a page of another origin may send cookies")
		}
	}
	if got := call(rt, "OPTIONS", "/v1/notify", "Origin", origin, "Access-Control-Request-Method", "POST").Header().Get("Access-Control-Allow-Methods"); got != "POST" {
		t.Errorf("a page may use %q, want POST", got)
	}
	if w := call(rt, "OPTIONS", "/v1/notify"); w.Code != http.StatusNoContent || w.Header().Get("Allow") != "POST" {
		t.Errorf("OPTIONS without a page: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	if w := call(rt, "OPTIONS", "/v1/nothing", "Origin", origin, "Access-Control-Request-Method", "GET"); w.Code != http.StatusNotFound {
		t.Errorf("preflight where nothing is: %d", w.Code)
	}
	if w := call(rt, "OPTIONS", "/v1/device/info"); w.Code != http.StatusNotFound {
		t.Errorf("OPTIONS under a fallback, which answers wrong methods: %d", w.Code)
	}

	for name, w := range map[string]*httptest.ResponseRecorder{
		"an answer":       call(rt, "POST", "/v1/notify", "Origin", origin),
		"a refusal":       call(rt, "GET", "/v1/device/info", "Origin", origin),
		"a wrong method":  call(rt, "GET", "/v1/notify", "Origin", origin),
		"an unknown path": call(rt, "GET", "/nothing", "Origin", "null"),
	} {
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("%s cannot be read by a page: Access-Control-Allow-Origin = %q", name, got)
		}
		if got := w.Header().Get("Access-Control-Expose-Headers"); got != "WWW-Authenticate, Retry-After" {
			t.Errorf("%s: exposed headers = %q", name, got)
		}
	}
	if got := call(rt, "POST", "/v1/notify").Header().Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("an answer to no page allows %q", got)
	}
}

func TestRefusedHostsReachNoHandler(t *testing.T) {
	t.Parallel()
	rt := web.NewRouter(silent(), nil, func(*http.Request) error { return fault.New(fault.Forbidden, "forbidden", "not here") })
	rt.Handle("GET /", func(http.ResponseWriter, *http.Request) error {
		t.Error("the handler ran")
		return nil
	})
	for _, method := range []string{"GET", "OPTIONS", "PUT"} {
		for _, target := range []string{"/", "/x", "/../x"} {
			if w := call(rt, method, target); w.Code != http.StatusForbidden || codeOf(t, w) != "forbidden" {
				t.Errorf("%s %s: %d %s", method, target, w.Code, w.Body)
			}
		}
	}
}

func TestErrorsAreRenderedByTheirKind(t *testing.T) {
	t.Parallel()
	secret := errors.New("password=hunter2")
	tests := map[string]struct {
		err    error
		status int
		body   string
		header http.Header
	}{
		"a bad value": {
			fault.InvalidRequest("title", "title is missing"), 400, `{"error":"invalid_request","message":"title is missing","fields":["title"]}`, nil,
		},
		"several fields": {
			fault.New(fault.Invalid, "forbidden_fields", "no").WithFields("cmd", "exec"), 400, `{"error":"forbidden_fields","message":"no","fields":["cmd","exec"]}`, nil,
		},
		"no credential": {
			fault.Unauthorized("who?"), 401, `{"error":"unauthorized","message":"who?"}`, http.Header{"Www-Authenticate": {"Bearer"}},
		},
		"forbidden":   {fault.New(fault.Forbidden, "scope", "no"), 403, `{"error":"scope","message":"no"}`, nil},
		"not found":   {fault.NotFoundf("no"), 404, `{"error":"not_found","message":"no"}`, nil},
		"conflict":    {fault.New(fault.Conflict, "name_taken", "no"), 409, `{"error":"name_taken","message":"no"}`, nil},
		"gone":        {fault.New(fault.Gone, "expired", "no"), 410, `{"error":"expired","message":"no"}`, nil},
		"too large":   {fault.New(fault.TooLarge, "too_large", "no"), 413, `{"error":"too_large","message":"no"}`, nil},
		"unsupported": {fault.New(fault.Unsupported, "unsupported_media_type", "no"), 415, `{"error":"unsupported_media_type","message":"no"}`, nil},
		"upgrade": {
			fault.New(fault.UpgradeRequired, "upgrade_required", "no"), 426, `{"error":"upgrade_required","message":"no"}`,
			http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}},
		},
		"an allowance with a header": {
			fault.New(fault.Exhausted, "daily_cap", "no").WithRetry(90*time.Second, true), 429, `{"error":"daily_cap","message":"no","retryAfterSeconds":90}`,
			http.Header{"Retry-After": {"90"}},
		},
		"an allowance without one": {
			fault.New(fault.Exhausted, "rate_limited", "no").WithRetry(time.Hour, false), 429, `{"error":"rate_limited","message":"no","retryAfterSeconds":3600}`, nil,
		},
		"an allowance for which waiting is no help": {fault.New(fault.Exhausted, "queue_full", "no"), 429, `{"error":"queue_full","message":"no"}`, nil},
		"unavailable": {fault.New(fault.Unavailable, "budget_exhausted", "no"), 503, `{"error":"budget_exhausted","message":"no"}`, nil},
		"a private cause": {
			fault.NotFoundf("no").Because(secret), 404, `{"error":"not_found","message":"no"}`, nil,
		},
		"anything else": {
			secret, 500, `{"error":"internal","message":"the relay could not handle the request; try again later"}`, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := web.NewRouter(silent(), nil, nil)
			rt.Handle("GET /{$}", func(http.ResponseWriter, *http.Request) error { return test.err })
			w := call(rt, "GET", "/")
			want := http.Header{
				"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"},
			}
			maps.Copy(want, test.header)
			got := w.Header().Clone()
			got.Del("Content-Length")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			if w.Code != test.status || w.Body.String() != test.body || web.Status(test.err) != test.status {
				t.Errorf("answer = %d %s, want %d %s", w.Code, w.Body, test.status, test.body)
			}
		})
	}
}

func TestAPanicIsOneFailedRequest(t *testing.T) {
	t.Parallel()
	rt := web.NewRouter(silent(), nil, nil)
	rt.Handle("GET /boom", func(http.ResponseWriter, *http.Request) error { panic("hunter2") })
	rt.Handle("GET /late", func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusAccepted)
		panic("after the answer")
	})
	rt.Handle("GET /abort", func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) })
	if w := call(rt, "GET", "/boom"); w.Code != 500 || codeOf(t, w) != "internal" || strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("panic: %d %s", w.Code, w.Body)
	}
	if w := call(rt, "GET", "/late"); w.Code != http.StatusAccepted || w.Body.Len() != 0 {
		t.Errorf("panic after the answer: %d %s", w.Code, w.Body)
	}
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("the server's own way to cut a connection does not get through")
		}
	}()
	call(rt, "GET", "/abort")
}

// seen is what an Observer was told.
type seen struct {
	Route  string
	Status int
}

func TestEveryRequestIsObservedOnceAndLoggedWithoutItsWords(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []seen
	var log bytes.Buffer
	observe := func(route string, status int, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, seen{route, status})
	}
	rt := web.NewRouter(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), observe, nil)
	rt.Handle("GET /ok/{id}", answerOK)
	rt.Handle("GET /no/{id}", func(http.ResponseWriter, *http.Request) error { return fault.NotFoundf("no") })
	rt.Handle("GET /wait", func(_ http.ResponseWriter, r *http.Request) error {
		<-r.Context().Done()
		return context.Cause(r.Context())
	})
	call(rt, "GET", "/ok/hunter2?token=hunter2", "Authorization", "Bearer hunter2", "User-Agent", "hunter2")
	call(rt, "GET", "/no/hunter2")
	call(rt, "GET", "/hunter2")
	call(rt, "GET", "/../hunter2")
	call(rt, "HUNTER2", "/ok/x")
	ctx, leave := context.WithCancel(t.Context())
	leave()
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("a request whose client left ends with %v, not with the connection cut", p)
			}
		}()
		rt.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/wait", nil).WithContext(ctx))
	}()

	want := []seen{{"GET /ok/{id}", 200}, {"GET /no/{id}", 404}, {"no route", 404}, {"unclean path", 404}, {"no route", 405}, {"GET /wait", 499}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	if text := log.String(); strings.Contains(strings.ToLower(text), "hunter2") || strings.Count(text, "msg=request") != len(want) {
		t.Errorf("the log has not one line a request, or repeats their words:\n%s", text)
	}
}

// TestAHalfClosedRequestIsNotAnsweredWithAnEmpty200: closing the sending half is legal, and net/http takes it for leaving.
// What the handler gave up must not look like a success.
func TestAHalfClosedRequestIsNotAnsweredWithAnEmpty200(t *testing.T) {
	t.Parallel()
	rt := web.NewRouter(silent(), nil, nil)
	rt.Handle("POST /wait", func(_ http.ResponseWriter, r *http.Request) error {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return context.Cause(r.Context())
	})
	server := httptest.NewServer(rt)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
	if err = errors.Join(err, conn.(*net.TCPConn).CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || len(answer) > 0 {
		t.Errorf("an abandoned request was answered: %q, %v", answer, err)
	}
}

func TestContentTypesOfJSON(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"":                                  true,
		"application/json":                  true,
		"Application/JSON":                  true,
		"application/json; charset=utf-8":   true,
		`application/json;charset="UTF-8"`:  true,
		"application/json; profile=x":       true,
		"application/merge-patch+json":      true,
		"application/json; charset=latin-1": false,
		"application/json; charset":         false,
		"application/json, text/plain":      false,
		"text/json":                         false,
		"text/plain":                        false,
		"application/x-www-form-urlencoded": false,
		"multipart/form-data; boundary=x":   false,
		"application/jsonx":                 false,
		"json":                              false,
		"image/svg+json":                    false,
		"\x00":                              false,
	}
	for header, want := range tests {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Content-Type", header)
		err := web.RequireJSON(r)
		if (err == nil) != want {
			t.Errorf("Content-Type %q: err = %v", header, err)
		}
		if err != nil && fault.From(err).Code != "unsupported_media_type" {
			t.Errorf("Content-Type %q: err = %v, want unsupported_media_type", header, err)
		}
	}
}

func TestBodiesAreReadUpToTheirLimit(t *testing.T) {
	t.Parallel()
	const limit = 1000
	rt := web.NewRouter(silent(), nil, nil)
	rt.Handle("POST /{$}", func(w http.ResponseWriter, r *http.Request) error {
		data, err := web.ReadBody(w, r, limit)
		if err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, len(data))
	})
	server := httptest.NewServer(rt)
	defer server.Close()
	tests := map[string]struct {
		size   int
		status int
	}{"nothing": {0, 200}, "the limit": {limit, 200}, "one more": {limit + 1, 413}, "much more": {1 << 20, 413}}
	for name, test := range tests {
		for _, declared := range []bool{true, false} {
			body := io.Reader(strings.NewReader(strings.Repeat("a", test.size)))
			if !declared {
				body = io.MultiReader(body) // hides its length: sent in chunks
			}
			res, err := http.Post(server.URL, "application/json", body)
			if err != nil {
				t.Fatalf("%s, declared %v: %v", name, declared, err)
			}
			answer, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != test.status {
				t.Errorf("%s, declared %v: %d %s (%v), want %d", name, declared, res.StatusCode, answer, err, test.status)
			}
		}
	}
}
