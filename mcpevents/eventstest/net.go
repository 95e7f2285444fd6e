// Package eventstest helps to test servers and receivers of MCP Events: an Internet in memory, and a receiver that does
// as a script tells it.
//
// Net stands in for the way out, so a test needs neither sockets nor certificates and runs in a testing/synctest bubble,
// where a day of retries takes no time. Receiver is an ordinary http.Handler: mount it on a Net, an httptest.Server or a
// real listener.
package eventstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"

	"github.com/herald-relay/herald/internal/egress"
)

// Net is an Internet in memory: hosts that answer in the same process. It is an mcpevents.Egress. Addresses are judged as
// the real guard judges them, by their syntax; nothing is ever resolved or dialled.
type Net struct {
	guard *egress.Guard

	mu    sync.Mutex // guards what follows
	hosts map[string]http.Handler
	calls map[string]int
}

// NewNet returns a Net without hosts: every call is refused as if nothing listened.
func NewNet() *Net {
	return &Net{guard: egress.New(nil), hosts: map[string]http.Handler{}, calls: map[string]int{}}
}

// Handle puts a host, as in "agent.example.com", on the net; nil takes it off.
func (n *Net) Handle(host string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.hosts, host)
	if h != nil {
		n.hosts[host] = h
	}
}

// Calls returns how many requests a host got, or would have got if it were there.
func (n *Net) Calls(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[host]
}

// CheckURL judges as the real guard does.
func (n *Net) CheckURL(raw string) (*url.URL, error) { return n.guard.CheckURL(raw) }

// RoundTrip has the host's handler answer. It returns when the handler did or the request's context ended; the handler
// sees the same context.
func (n *Net) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Hostname()
	n.mu.Lock()
	n.calls[host]++
	h := n.hosts[host]
	n.mu.Unlock()
	if h == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return roundTrip(h, req)
}

func roundTrip(h http.Handler, req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close() // read whole
	}
	ctx, cancel := context.WithCancel(req.Context())
	in := req.Clone(ctx)
	in.RequestURI, in.Host, in.RemoteAddr = req.URL.RequestURI(), req.URL.Host, "192.0.2.1:1"
	in.Header = http.Header{}
	for name, values := range req.Header { // as a server reads them, however the client spelled them
		name = http.CanonicalHeaderKey(name)
		in.Header[name] = append(in.Header[name], values...)
	}
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	a := &answer{header: http.Header{}, begun: make(chan struct{})}
	var out *io.PipeReader
	out, a.out = io.Pipe()
	context.AfterFunc(ctx, func() { _ = out.CloseWithError(context.Cause(ctx)) })
	go a.serve(h, in) // ends with the handler, which sees the request's context
	select {
	case <-a.begun:
	case <-ctx.Done():
		cancel()
		return nil, context.Cause(req.Context())
	}
	if a.broken {
		cancel()
		return nil, errors.Join(&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, io.ErrUnexpectedEOF)
	}
	return &http.Response{Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.sent, Body: &reading{out, cancel}, ContentLength: -1, Request: req}, nil
}

// reading is a response's body; closing it is leaving.
type reading struct {
	*io.PipeReader
	leave context.CancelFunc
}

func (r *reading) Close() error {
	r.leave()
	return r.PipeReader.Close()
}

// answer is what a handler writes, as it writes it.
type answer struct {
	header, sent http.Header
	status       int
	out          *io.PipeWriter
	broken       bool          // before anything was written
	begun        chan struct{} // closed once status and header, or broken, are set
}

// serve runs a handler. One that panics with http.ErrAbortHandler broke the connection.
func (a *answer) serve(h http.Handler, req *http.Request) {
	defer func() {
		p := recover()
		if p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
		if p != nil && a.status == 0 { // else the client reads broken already
			a.broken = true
			close(a.begun)
		}
		if p != nil {
			_ = a.out.CloseWithError(io.ErrUnexpectedEOF)
			return
		}
		a.WriteHeader(http.StatusOK)
		_ = a.out.Close()
	}()
	h.ServeHTTP(a, req)
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.out.Write(b)
}

// Flush sends what was written, which every Write does here.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }
