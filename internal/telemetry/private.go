package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"
)

// Private is the listener for metrics and profiles. It asks nobody who they are, so it is apart from the public one and
// off by default. On loopback it answers loopback host names only, so that no web page can reach it by a rebound name.
type Private struct {
	listener net.Listener
	server   *http.Server
}

// ListenPrivate opens the listener, so that an address in use is told at the start. Run serves it.
func ListenPrivate(address string, m *Metrics, log *slog.Logger) (*Private, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("private listener: %w; choose another HERALD_PRIVATE_LISTEN, or off", err)
	}
	p := &Private{listener: l, server: &http.Server{
		Handler:           privateHandler(m, isLoopback(l.Addr().String())),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
	return p, nil
}

// Addr is the address it listens on.
func (p *Private) Addr() string { return p.listener.Addr().String() }

// Run serves until ctx ends. Requests under way are cut off: nobody's work hangs on them.
func (p *Private) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = p.server.Close() })
	defer stop()
	err := p.server.Serve(p.listener)
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func privateHandler(m *Metrics, loopbackOnly bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // not cmdline: flags may hold a secret
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if loopbackOnly && !isLoopback(r.Host) {
			http.Error(w, "this listener answers loopback host names only", http.StatusForbidden)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// isLoopback judges a host with or without a port.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}
