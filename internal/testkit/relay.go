// Package testkit runs a whole relay for tests: real store, real router, real sockets, and in a testing/synctest bubble a
// network of pipes, so that hours pass in no time.
//
// Devices and agents are spoken for over the wire only. Helpers fail the test rather than return errors.
package testkit

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/sqlite"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/mcpevents"
)

// Secret is the RELAY_SECRET of every test relay.
const Secret = "testkit-secret-of-more-than-32-characters"

// StoreVariable names the environment variable that, set to postgres, puts every relay outside bubbles on PostgreSQL: one
// more run of a package's tests, and its whole front door is proven there too.
const StoreVariable = "HERALD_TEST_STORE"

// Options change the relay under test. The zero value is an embedded relay with default limits on loopback.
type Options struct {
	Config func(*config.Config)          // adjusts the configuration
	Wrap   func(store.Store) store.Store // wraps the store, to make it fail
	Store  store.Store                   // instead of SQLite in Dir
	Dir    string                        // data directory; a temporary one when empty
	Log    *slog.Logger                  // silent when nil
	Pipes  bool                          // a network of pipes, for bubbles
	// Postgres puts the relay on a PostgreSQL database of its own, the same one for the same given Dir. Not in
	// bubbles: waiting for a real server stops their time.
	Postgres bool
	// Documents reads the descriptions of OAuth clients, instead of a client behind the address guard.
	Documents *http.Client
	// Agents is the way to the addresses of events, instead of the address guard.
	Agents mcpevents.Egress
}

// Stores runs a test once on SQLite and once on PostgreSQL. The options it hands over are to be completed.
func Stores(t *testing.T, run func(t *testing.T, o Options)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		OnSQLite(t)
		t.Parallel()
		run(t, Options{})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		run(t, Options{Postgres: true})
	})
}

// OnSQLite skips a test that is about SQLite, or lives in bubbles, when StoreVariable asks for PostgreSQL.
func OnSQLite(t testing.TB) {
	t.Helper()
	if os.Getenv(StoreVariable) == "postgres" {
		t.Skip("runs on SQLite, without " + StoreVariable)
	}
}

// Relay is a running relay.
type Relay struct {
	T    testing.TB
	App  *app.App
	URL  string
	HTTP *http.Client
	Dir  string

	dial func(context.Context) (net.Conn, error)
	stop context.CancelFunc
	done chan error
}

// New starts a relay and stops it when the test ends.
func New(t testing.TB, o Options) *Relay {
	t.Helper()
	if o.Pipes {
		OnSQLite(t) // a bubble holds no connection to PostgreSQL
	}
	o.Postgres = o.Postgres || os.Getenv(StoreVariable) == "postgres"
	r := &Relay{T: t, Dir: o.Dir, done: make(chan error, 1)}
	if r.Dir == "" {
		r.Dir = t.TempDir()
	}
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.RelaySecret, cfg.Grace = r.Dir, "127.0.0.1:0", Secret, 5*time.Second
	if o.Config != nil {
		o.Config(&cfg)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	parts := app.Parts{Store: r.openStore(o), Documents: o.Documents, Agents: o.Agents}
	if o.Pipes {
		l := newPipeListener()
		parts.Listener, r.dial, parts.NoSockets = l, l.Dial, true
	}
	r.start(cfg, o.Log, parts)
	t.Cleanup(r.Stop)
	return r
}

func (r *Relay) openStore(o Options) store.Store {
	r.T.Helper()
	st := o.Store
	switch {
	case st != nil:
	case o.Postgres && o.Dir == "":
		st = pgtest.Open(r.T)
	case o.Postgres:
		st = pgtest.OpenURL(r.T, r.database(), nil)
	default:
		opened, err := sqlite.Open(r.T.Context(), filepath.Join(r.Dir, app.DatabaseFile), nil)
		if err != nil {
			r.T.Fatalf("open the store: %v", err)
		}
		st = opened
	}
	if o.Wrap != nil {
		st = o.Wrap(st)
	}
	return st
}

// databases are the URLs of PostgreSQL databases by data directory.
var databases sync.Map

func (r *Relay) database() string {
	r.T.Helper()
	if url, known := databases.Load(r.Dir); known {
		return url.(string)
	}
	url := pgtest.URL(r.T)
	databases.Store(r.Dir, url)
	return url
}

func (r *Relay) start(cfg config.Config, log *slog.Logger, parts app.Parts) {
	r.T.Helper()
	a, err := app.Assemble(r.T.Context(), cfg, log, parts)
	if err != nil {
		r.T.Fatalf("make the relay: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(r.T.Context()))
	r.App, r.stop = a, stop
	go func() { r.done <- a.Run(ctx) }()
	select {
	case <-a.Ready():
	case err := <-r.done:
		r.T.Fatalf("the relay ended at once: %v", err)
	}
	r.URL = "http://" + a.Addr()
	// The relay closes idle connections after two minutes; a request sent at that very moment would be lost.
	transport := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute}
	if r.dial != nil {
		r.URL = "http://127.0.0.1"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx) }
	}
	r.HTTP = &http.Client{Transport: transport}
}

// Stop ends the relay and fails the test unless it stopped cleanly. Repeats do nothing.
func (r *Relay) Stop() {
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	r.HTTP.CloseIdleConnections()
	if err := <-r.done; err != nil {
		r.T.Errorf("the relay did not stop cleanly: %v", err)
	}
}

// pipeListener is a network of net.Pipe connections.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for the next Dial.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections.
func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

// Addr looks like loopback.
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// Dial connects to the listener.
func (l *pipeListener) Dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- addressed{server}:
		return client, nil
	case <-l.closed:
		return nil, fmt.Errorf("dial: %w", net.ErrClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addressed gives a pipe the address of a loopback peer.
type addressed struct{ net.Conn }

// RemoteAddr looks like loopback.
func (addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1024} }
