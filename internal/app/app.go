// Package app is the composition root: it makes a relay of a configuration, and it alone knows every part.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"github.com/herald-relay/herald/internal/admin"
	"github.com/herald-relay/herald/internal/agentapi"
	"github.com/herald-relay/herald/internal/allowance"
	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/deviceapi"
	"github.com/herald-relay/herald/internal/events"
	"github.com/herald-relay/herald/internal/lifecycle"
	"github.com/herald-relay/herald/internal/mcpapi"
	"github.com/herald-relay/herald/internal/oauthapi"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/sweep"
	"github.com/herald-relay/herald/internal/telemetry"
	"github.com/herald-relay/herald/internal/web"
	"github.com/herald-relay/herald/internal/webapp"
	"github.com/herald-relay/herald/mcpevents"
)

// App is one relay process. New takes what it needs, Run serves, Close gives everything back when Run was never called.
type App struct {
	cfg      config.Config
	log      *slog.Logger
	core     *core
	listener net.Listener
	router   *web.Router
	origins  *web.Origins
	devices  *deviceapi.API
	metrics  *telemetry.Metrics
	operator *admin.Direct
	fresh    bool
	sockets  bool
	stopping chan struct{}
	draining context.Context // ends when stopping is closed
	drain    context.CancelFunc
	ready    chan struct{}
}

// Parts replaces parts of the relay that a configuration would otherwise choose. The zero value replaces none.
type Parts struct {
	Listener net.Listener // instead of one on cfg.Listen
	Store    store.Store  // instead of the configured database; closed with the relay
	// NoSockets leaves the operator's socket out, for a relay in a testing bubble: waiting on a real socket stops
	// the bubble's time.
	NoSockets bool
	// Documents reads the descriptions of OAuth clients, instead of a client behind the address guard.
	Documents *http.Client
	// Agents is the way to the addresses of events, instead of the address guard.
	Agents mcpevents.Egress
}

// New opens the store, makes what a fresh relay needs (data directory, secret, first person) and listens. Nothing is
// answered before Run.
func New(ctx context.Context, cfg config.Config, log *slog.Logger) (*App, error) {
	return Assemble(ctx, cfg, log, Parts{})
}

// Assemble is New with some parts brought along. It owns them, also when it fails.
func Assemble(ctx context.Context, cfg config.Config, log *slog.Logger, parts Parts) (*App, error) {
	a := &App{cfg: cfg, log: log, listener: parts.Listener, sockets: !parts.NoSockets, stopping: make(chan struct{}), ready: make(chan struct{})}
	c, err := openCore(ctx, cfg, log, parts.Store, ways{events: parts.Agents})
	if err != nil {
		return nil, err
	}
	a.core = c
	if parts.Documents != nil {
		c.readDocuments(parts.Documents)
	}
	if a.fresh, err = c.pairing.EnsureFirst(ctx, time.Now()); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if a.listener == nil {
		if a.listener, err = listen(cfg); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	if cfg.Dev {
		log.Warn("DEVELOPMENT MODE: this relay may call plain http receivers on this machine; do not let others depend on it")
	}
	a.origins = originsOf(cfg)
	a.operator = &admin.Direct{Pairing: c.pairing, Origin: a.Origin}
	c.mailbox.Stopping = a.stopping
	a.draining, a.drain = context.WithCancel(context.WithoutCancel(ctx))
	a.route()
	return a, nil
}

func listen(cfg config.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w; choose another address with --listen, or stop what holds this one", err)
	}
	if cfg.TLSDomain == "" {
		return l, nil
	}
	certificates := &autocert.Manager{
		Prompt:     autocert.AcceptTOS,
		HostPolicy: autocert.HostWhitelist(cfg.TLSDomain),
		Cache:      autocert.DirCache(filepath.Join(cfg.Data, "certificates")),
	}
	return tls.NewListener(l, certificates.TLSConfig()), nil
}

func originsOf(cfg config.Config) *web.Origins {
	return &web.Origins{
		Public: cfg.Origin, Trusted: cfg.TrustedProxies,
		LoopbackOnly: cfg.ListensOnLoopback() && cfg.Origin == "" && len(cfg.TrustedProxies) == 0,
	}
}

// route makes the edges. Metrics know the routes, so they come last; nothing is observed before Run.
func (a *App) route() {
	c := a.core
	auth := &credential.Authenticator{Signer: c.signer, Store: c.store}
	a.router = web.NewRouter(a.log, func(route string, status int, elapsed time.Duration) {
		a.metrics.Request(route, status, elapsed)
	}, a.origins.CheckHost)
	agents := &agentapi.API{
		Auth: auth, Signer: c.signer, Mailbox: c.mailbox, Meter: c.meter, Clips: c.clips, Origins: a.origins,
		Reads:   &allowance.Window{Limit: agentapi.ReadsPerWindow, Span: readSpan},
		MaxBody: a.cfg.MaxBodyBytes,
		Health:  agentapi.Health{OK: true, Service: "herald-relay", Bundle: a.cfg.BundleHash, Dev: a.cfg.Dev},
	}
	a.devices = &deviceapi.API{
		Auth: auth, Mailbox: c.mailbox, Pairing: c.pairing, OAuth: c.oauth, Events: c.events, Meter: c.meter, Hub: c.hub, Origins: a.origins, Log: a.log,
		Closed: func(reason string) { a.metrics.StreamClosed(reason) },
	}
	agents.Register(a.router)
	endpoint := &mcpapi.API{Auth: auth, Agents: agents, Origins: a.origins, MaxBody: a.cfg.MaxBodyBytes,
		Events: c.events.Server(), Caller: events.Caller, Stopping: a.draining}
	endpoint.Register(a.router)
	a.devices.Register(a.router)
	webapp.Register(a.router)
	(&oauthapi.API{
		OAuth: c.oauth, Origins: a.origins, Begins: &allowance.Window{Limit: oauthapi.BeginsPerWindow, Span: beginSpan},
	}).Register(a.router)
	a.metrics = telemetry.NewMetrics(telemetry.ReadBuild(), a.router.Routes())
	a.metrics.Streams(c.hub.Streams)
	a.metrics.Waits(c.hub.Waits)
	c.store.update = a.metrics.Update
	c.watch.metrics = a.metrics
}

const (
	readSpan  = 10 * time.Minute
	beginSpan = 10 * time.Minute
)

// Addr is the address that the relay listens on.
func (a *App) Addr() string { return a.listener.Addr().String() }

// Origin is how devices and agents reach the relay: the configured origin, or the address it listens on.
func (a *App) Origin() string { return originOf(a.cfg, a.Addr()) }

func originOf(cfg config.Config, address string) string {
	switch {
	case cfg.Origin != "":
		return cfg.Origin
	case cfg.TLSDomain != "":
		return "https://" + cfg.TLSDomain
	}
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + address
}

// Fresh reports whether New made the relay's first person.
func (a *App) Fresh() bool { return a.fresh }

// Ready is closed once requests are answered.
func (a *App) Ready() <-chan struct{} { return a.ready }

// Admin is the operator's interface to this relay.
func (a *App) Admin() admin.Admin { return a.operator }

// Routes lists the patterns of the public routes, as docs/wire/routes.md does.
func (a *App) Routes() []string { return a.router.Routes() }

// Handler serves the public routes, for tests that bring their own listener.
func (a *App) Handler() http.Handler { return a.router }

// Close gives back what New took, for an App that never ran.
func (a *App) Close() error {
	a.drain()
	return errors.Join(a.listener.Close(), a.core.close())
}

// Run serves until ctx ends, then stops within the grace period: no new requests, waits answered, streams closed,
// counters flushed, store closed. It returns nil after a clean stop.
func (a *App) Run(ctx context.Context) error {
	g := &lifecycle.Group{Grace: a.cfg.Grace, Log: a.log, OnReady: func() { close(a.ready) }}
	g.Add("store", lifecycle.Func(a.holdCore))
	g.Add("meter", a.core.meter)
	g.Add("presence", a.core.hub)
	g.Add("events", a.core.events)
	g.Add("sweep", &sweep.Sweeper{
		Store: a.core.store, Mailbox: a.core.mailbox, Pairing: a.core.pairing, OAuth: a.core.oauth, Clips: a.core.clips,
		CloseSilent: a.devices.CloseSilent, Swept: a.metrics.Swept, Log: a.log,
	})
	if err := a.addPrivate(g); err != nil {
		return errors.Join(err, a.Close())
	}
	g.Add("public", lifecycle.Func(a.serve))
	return g.Run(ctx)
}

// addPrivate adds the listeners that are not for the public: the operator's socket, metrics and profiles.
func (a *App) addPrivate(g *lifecycle.Group) error {
	if !a.sockets {
		return nil
	}
	operator, err := admin.Listen(a.cfg.Data, a.operator, a.log)
	if err != nil {
		return err
	}
	g.Add("admin", operator)
	if a.cfg.PrivateListen == "" {
		return nil
	}
	private, err := telemetry.ListenPrivate(a.cfg.PrivateListen, a.metrics, a.log)
	if err != nil {
		return errors.Join(err, operator.Close())
	}
	g.Add("private", private)
	return nil
}

func (a *App) holdCore(ctx context.Context) error {
	<-ctx.Done()
	return a.core.close()
}

// Bounds of the public server. Bodies have deadlines of their own (web.BodyWithin). answerWithin begins with the
// request's header and covers the longest upload, the longest wait and a slow reader of a clip; streams are free of it.
const (
	headerWithin = 10 * time.Second
	answerWithin = 3 * time.Minute
	idleWithin   = 2 * time.Minute
	maxHeader    = 32 << 10
)

// serve answers requests until ctx ends. Then parked waits are answered, streams told to come back, and running
// requests given the rest of the grace period.
func (a *App) serve(ctx context.Context) error {
	srv := &http.Server{
		Handler: a.router, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: headerWithin, WriteTimeout: answerWithin, IdleTimeout: idleWithin,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(a.listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := lifecycle.Drain(ctx)
	defer cancel()
	close(a.stopping)
	a.drain()
	a.devices.CloseAll()
	err := srv.Shutdown(drain)
	<-failed // always http.ErrServerClosed after Shutdown
	err = errors.Join(err, a.devices.Wait(drain), a.router.WaitDetached(drain))
	if err != nil {
		_ = srv.Close() // the grace period is over: cut what is left
	}
	return err
}
