// Package web is the HTTP kit of the relay's edges: routes that return errors, one place that renders them, bounded
// bodies, the caller's address and origin, and one log event per request.
//
// A handler parses, authorizes, calls one service and writes; it never renders an error itself. Every route is
// registered through Router.Handle, so every request gets the same limits, headers, metrics and event.
package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/fault"
)

// Handler answers a request or returns why it did not. It must not write before it returns an error.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Observer sees every finished request. route is the matched pattern, never the raw path; status 499 means that the
// client went away first.
type Observer func(route string, status int, elapsed time.Duration)

// Router serves registered routes. Register everything before the first request.
type Router struct {
	mux       *http.ServeMux
	log       *slog.Logger
	observe   Observer
	hosts     func(*http.Request) error
	fallback  []fallback
	routes    []string
	detaching sync.Mutex // guards waited, and counting detached up
	waited    bool
	detached  sync.WaitGroup // requests that Detach took over
}

type fallback struct {
	path    string
	handler Handler
}

func (f fallback) covers(path string) bool {
	rest, found := strings.CutPrefix(path, f.path)
	return found && (rest == "" || rest[0] == '/')
}

// NewRouter makes a router. observe and hosts may be nil; hosts refuses requests by their Host header.
func NewRouter(log *slog.Logger, observe Observer, hosts func(*http.Request) error) *Router {
	if observe == nil {
		observe = func(string, int, time.Duration) {}
	}
	if hosts == nil {
		hosts = func(*http.Request) error { return nil }
	}
	return &Router{mux: http.NewServeMux(), log: log, observe: observe, hosts: hosts}
}

// Handle registers a route by a ServeMux pattern, such as "GET /v1/receipts/{id}".
func (rt *Router) Handle(pattern string, h Handler) {
	rt.routes = append(rt.routes, pattern)
	rt.mux.Handle(pattern, &route{rt, pattern, h})
}

// Fallback answers whatever no route matches at a path and below it, wrong methods included. The longest path wins.
func (rt *Router) Fallback(path string, h Handler) {
	rt.fallback = append(rt.fallback, fallback{path, h})
}

// Routes lists the registered patterns in order of registration.
func (rt *Router) Routes() []string { return rt.routes }

// ServeHTTP routes one request. Paths that are not clean are not found rather than redirected (decision 38).
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, pattern := rt.mux.Handler(r)
	switch {
	case !clean(r.URL.Path):
		rt.serve(w, r, "unclean path", func(http.ResponseWriter, *http.Request) error { return noRoute() })
	case pattern == "":
		rt.serve(w, r, "no route", rt.unmatched(h))
	default:
		rt.mux.ServeHTTP(w, r)
	}
}

func clean(p string) bool {
	if p == "" || p[0] != '/' {
		return p == "*"
	}
	c := path.Clean(p)
	return c == p || c+"/" == p
}

type route struct {
	rt      *Router
	pattern string
	handler Handler
}

func (ro *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ro.rt.serve(w, r, ro.pattern, ro.handler)
}

// unmatched picks who answers a request that no route matches: the answer to a preflight, a fallback, else 405 with Allow
// or 404 in our envelope.
func (rt *Router) unmatched(muxAnswer http.Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		allow := allowed(muxAnswer, r)
		best := fallback{}
		for _, f := range rt.fallback {
			if f.covers(r.URL.Path) && len(f.path) > len(best.path) {
				best = f
			}
		}
		switch {
		case allow != "" && r.Method == http.MethodOptions && (best.handler == nil || preflight(r)):
			writeOptions(w, allow)
			return nil
		case best.handler != nil:
			return best.handler(w, r)
		case allow == "":
			return noRoute()
		}
		w.Header().Set("Allow", allow)
		return fault.New(fault.MethodNotAllowed, "method_not_allowed", "this path does not take %s; it takes %s", r.Method, allow)
	}
}

// allowed asks the mux which methods the path takes; "" when there is nothing at the path.
func allowed(muxAnswer http.Handler, r *http.Request) string {
	probe := &probe{header: http.Header{}}
	muxAnswer.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		return ""
	}
	return probe.header.Get("Allow")
}

func noRoute() error { return fault.NotFoundf("there is nothing at this path") }

// probe learns what the mux would have answered.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }

// serve runs one handler with everything around it.
func (rt *Router) serve(w http.ResponseWriter, r *http.Request, pattern string, h Handler) {
	rec := &recorder{ResponseWriter: w, router: rt, pattern: pattern, start: time.Now()}
	boundBody(w, r, rec.start)
	openToAll(w.Header(), r)
	err := rt.hosts(r)
	if err == nil {
		err = rt.call(func() error { return h(rec, r) })
	}
	if rec.detached {
		return
	}
	rt.finish(r.Context(), rec, err)
	if err != nil && rec.status == 0 { // for a client that only closed its half, net/http would make an empty 200 of it
		panic(http.ErrAbortHandler)
	}
}

// finish answers with err when there is one, and tells the observer and the log.
func (rt *Router) finish(ctx context.Context, w *recorder, err error) {
	status := w.status
	if err != nil {
		status = rt.fail(ctx, w, err)
	}
	elapsed := time.Since(w.start)
	rt.observe(w.pattern, status, elapsed)
	rt.event(ctx, w.pattern, status, elapsed, err)
}

// call turns a panic into one failed request.
func (rt *Router) call(handle func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			rt.log.Error("handler panicked", "panic", p, "stack", string(debug.Stack()))
			err = fault.From(errors.New("panic in a handler"))
		}
	}()
	return handle()
}

// statusClientGone is what the log and the metrics call a request whose client left. It is never sent: the connection is
// cut without an answer.
const statusClientGone = 499

// fail renders err unless the client is gone or something was sent already, and returns the status for the record.
func (rt *Router) fail(ctx context.Context, w *recorder, err error) int {
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return statusClientGone
	case w.status != 0:
		return w.status
	}
	WriteError(w, err)
	return w.status
}

func (rt *Router) event(ctx context.Context, pattern string, status int, elapsed time.Duration, err error) {
	level := slog.LevelDebug
	if status >= 500 || err != nil && status != statusClientGone && Status(err) >= 500 { // perhaps told inside a 200
		level = slog.LevelError
	}
	if !rt.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("route", pattern), slog.Int("status", status), slog.Float64("elapsed_ms", float64(elapsed.Microseconds())/1000)}
	if err != nil {
		f := fault.From(err)
		attrs = append(attrs, slog.String("code", f.Code))
		if f.Err != nil {
			attrs = append(attrs, slog.String("err", f.Err.Error()))
		}
	}
	rt.log.LogAttrs(ctx, level, "request", attrs...)
}

// recorder remembers the status and lets http.ResponseController reach what it wraps.
type recorder struct {
	http.ResponseWriter
	router   *Router
	pattern  string
	start    time.Time
	status   int
	detached bool // somebody else answers: see Detach
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader remembers the first final status.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implies status 200.
func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// statuses maps the kinds of the error language to HTTP.
var statuses = map[fault.Kind]int{
	fault.Internal:         http.StatusInternalServerError,
	fault.Invalid:          http.StatusBadRequest,
	fault.Unauthenticated:  http.StatusUnauthorized,
	fault.Forbidden:        http.StatusForbidden,
	fault.NotFound:         http.StatusNotFound,
	fault.MethodNotAllowed: http.StatusMethodNotAllowed,
	fault.Conflict:         http.StatusConflict,
	fault.Gone:             http.StatusGone,
	fault.TooLarge:         http.StatusRequestEntityTooLarge,
	fault.Unsupported:      http.StatusUnsupportedMediaType,
	fault.UpgradeRequired:  http.StatusUpgradeRequired,
	fault.Exhausted:        http.StatusTooManyRequests,
	fault.Unavailable:      http.StatusServiceUnavailable,
}

// Status is the HTTP status of an error.
func Status(err error) int { return statuses[fault.From(err).Kind] }

type errorBody struct {
	Error             string   `json:"error"`
	Message           string   `json:"message"`
	Fields            []string `json:"fields,omitempty"`
	RetryAfterSeconds int64    `json:"retryAfterSeconds,omitzero"`
}

// WriteError renders err as the plain error body of the contract's section 1.
func WriteError(w http.ResponseWriter, err error) {
	f := fault.From(err)
	seconds := int64(f.RetryAfter / time.Second)
	if f.RetryHeader && seconds > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if f.Kind == fault.Unauthenticated && w.Header().Get("WWW-Authenticate") == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if f.Kind == fault.UpgradeRequired {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
	}
	_ = WriteJSON(w, statuses[f.Kind], ErrorBody(err))
}

// ErrorBody is the plain error body of err, to be encoded as JSON.
func ErrorBody(err error) any {
	f := fault.From(err)
	return errorBody{Error: f.Code, Message: f.Detail, Fields: f.Fields, RetryAfterSeconds: int64(f.RetryAfter / time.Second)}
}
