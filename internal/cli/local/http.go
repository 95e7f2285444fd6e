package local

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/herald-relay/herald/internal/cli/profile"
)

// DefaultPort is where the loopback API is when nothing else is said.
const DefaultPort = 48617

// Bounds of the loopback API.
const (
	maxHeader   = 16 << 10
	maxAtOnce   = 16 // questions under way
	writeWithin = callWithin + 5*time.Second
)

// Token returns the secret that opens the loopback API, and makes the file on first use. One that others may read is
// refused.
func Token(path string) (string, error) {
	made := rand.Text() + rand.Text()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		_, err = f.WriteString(made + "\n")
		return made, errors.Join(err, f.Close())
	case !errors.Is(err, fs.ErrExist):
		return "", err
	}
	data, err := profile.ReadSecret(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 32 || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s does not hold one long word; remove it to get a new one", path)
	}
	return token, nil
}

// Serve answers the loopback API on l until ctx ends. Only who knows the token is answered.
func (l *Local) Serve(ctx context.Context, listener net.Listener, token string) error {
	srv := &http.Server{Handler: l.Handler(token), ReadTimeout: 10 * time.Second, WriteTimeout: writeWithin, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// routes of the loopback API.
var routes = []struct {
	pattern string
	ask     func(*Local, *http.Request) (any, error)
}{
	{"GET /v1/relay/status", func(l *Local, r *http.Request) (any, error) { return l.Status(r.Context()), nil }},
	{"GET /v1/relay/usage", func(l *Local, r *http.Request) (any, error) { return l.Usage(r.Context()) }},
	{"GET /v1/relay/keys", func(l *Local, r *http.Request) (any, error) { return l.Keys(r.Context()) }},
	{"GET /v1/relay/connectors", func(l *Local, r *http.Request) (any, error) { return l.Connectors(r.Context()) }},
	{"GET /v1/relay/events", func(l *Local, r *http.Request) (any, error) { return l.Events(r.Context()) }},
	{"DELETE /v1/relay/events/subscriptions/{id}", func(l *Local, r *http.Request) (any, error) {
		return l.EndSubscription(r.Context(), r.PathValue("id"))
	}},
}

// Handler is the loopback API.
func (l *Local) Handler(token string) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), callWithin)
			defer cancel()
			answer, err := route.ask(l, r.WithContext(ctx))
			if err != nil {
				l.refuse(w, err)
				return
			}
			write(w, http.StatusOK, answer)
		})
	}
	return guarded(mux, token)
}

// guarded lets only those in who know the token, and nobody by way of a browser: a page that made its own name resolve to
// this machine names itself in Host, and every page that may not read the answer names itself in Origin.
func guarded(mux *http.ServeMux, token string) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + token))
	room := make(chan struct{}, maxAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		switch _, pattern := mux.Handler(r); {
		case !loopbackName(r.Host):
			write(w, http.StatusForbidden, Problem{Code: "forbidden", Message: "ask by the name 127.0.0.1 or localhost"})
		case r.Header.Get("Origin") != "":
			write(w, http.StatusForbidden, Problem{Code: "forbidden", Message: "web pages may not ask"})
		case subtle.ConstantTimeCompare(got[:], want[:]) != 1:
			w.Header().Set("WWW-Authenticate", "Bearer")
			write(w, http.StatusUnauthorized, Problem{Code: "unauthorized", Message: "the token of the local API is missing or wrong"})
		case pattern == "":
			write(w, http.StatusNotFound, Problem{Code: "not_found", Message: "there is no such route"})
		default:
			select {
			case room <- struct{}{}:
				defer func() { <-room }()
				mux.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		}
	})
}

func loopbackName(hostport string) bool {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		host, port = strings.Trim(hostport, "[]"), ""
	}
	if _, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return false
	}
	return host == "127.0.0.1" || host == "::1" || strings.EqualFold(host, "localhost")
}

// refuse answers with a problem, under a status that says whose it is.
func (l *Local) refuse(w http.ResponseWriter, err error) {
	p := l.opt.Explain(err)
	status := http.StatusBadGateway
	switch p.Code {
	case "not_paired", "unauthorized", "wrong_credential":
		status = http.StatusConflict // the relay does not, or no longer, know this machine
		p.Code = "not_paired"
	case "invalid_request":
		status = http.StatusBadRequest
	case "not_found":
		status = http.StatusNotFound
	case "rate_limited", "daily_cap", "budget_exhausted":
		status = http.StatusTooManyRequests
		if p.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(p.RetryAfterSeconds)+1))
		}
	}
	write(w, status, p)
}

func write(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"internal","message":"the answer cannot be written"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone
}
