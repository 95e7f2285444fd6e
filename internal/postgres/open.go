package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/store"
)

const (
	// DefaultMaxConns bounds a process's connections, not counting the one of Bus.Listen.
	DefaultMaxConns = 12
	// minConns is what one leader of each kind, the bus and Ready need.
	minConns = 6
	// lonelyLeaders serve Updates that share with nobody.
	lonelyLeaders = 2
	// oldestServer is the oldest PostgreSQL version that has all this package uses.
	oldestServer = 130000

	dialWithin  = 5 * time.Second
	readyWithin = 3 * time.Second
	// afterCancel is how long a statement may still run when its caller has gone: most end within it, and the
	// connection is spared.
	afterCancel = 2 * time.Second
)

// sessionSettings are asked of the server at every connect, unless the URL sets them.
var sessionSettings = map[string]string{
	"application_name": "herald",
	// See the package comment, section Plans.
	"plan_cache_mode":  "force_generic_plan",
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	"jit":              "off",
	// A process that hangs or lost its network must not hold a mailbox for long.
	"lock_timeout":                        "4s",
	"statement_timeout":                   "60s",
	"idle_in_transaction_session_timeout": "30s",
	"tcp_keepalives_idle":                 "30",
	"tcp_keepalives_interval":             "10",
	"tcp_keepalives_count":                "3",
	"timezone":                            "UTC",
}

// Options adjust a Store. The zero value is useful.
type Options struct {
	// Log receives warnings about the server's settings and lost connections; nil is silent.
	Log *slog.Logger
	// MaxConns bounds the connections of this process; 0 takes pool_max_conns of the URL, or DefaultMaxConns. At least
	// 6 are used.
	MaxConns int
}

// Store is an open PostgreSQL database. It implements store.Store.
type Store struct {
	pool     *pgxpool.Pool
	log      *slog.Logger
	describe string
	bus      *bus
	latches  latches

	updates, lonely, views *line
	leaders                sync.WaitGroup
	stop                   chan struct{} // closed when the leaders may go

	mu      sync.Mutex // guards the rest
	closed  bool
	running int
	idle    chan struct{} // closed when the last running call of a closed store has ended
}

var _ store.Store = (*Store)(nil)

// Open connects to the database at url (postgres://user:password@host:port/database?option=value, with pgx's options),
// brings its schema up to date and returns it. Several processes may open one database at the same time. A database
// that cannot be reached, is newer than this program or unfit for it is a fault of kind Unavailable.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	opts = cmp.Or(opts, &Options{})
	config, err := configure(url, opts)
	if err != nil {
		return nil, err
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, translate(err)
	}
	server, err := inspect(ctx, pool, log)
	if err != nil {
		pool.Close()
		return nil, err
	}
	schema, err := migrate(ctx, config.ConnConfig, log)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s := &Store{
		pool: pool, log: log, describe: fmt.Sprintf("postgresql %s, schema %d", server, schema),
		updates: newLine(sharedUpdates), lonely: newLine(lonelyUpdate), views: newLine(sharedViews),
		stop: make(chan struct{}), idle: make(chan struct{}),
	}
	s.bus = newBus(s, config.ConnConfig)
	s.start(int(config.MaxConns))
	return s, nil
}

func configure(url string, opts *Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // the error may quote the URL, which holds a password
		return nil, fault.New(fault.Unavailable, unsuitableCode,
			"the database URL cannot be read; it must look like postgres://user:password@host:port/database")
	}
	switch {
	case opts.MaxConns > 0:
		config.MaxConns = int32(opts.MaxConns)
	case !strings.Contains(url, "pool_max_conns"):
		config.MaxConns = DefaultMaxConns
	}
	config.MaxConns = max(config.MaxConns, minConns)
	c := config.ConnConfig
	for name, value := range sessionSettings {
		if _, set := c.RuntimeParams[name]; !set {
			c.RuntimeParams[name] = value
		}
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement // whatever the URL says: all speed rests on it
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, dialWithin)
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}}
	c.DialFunc = dialer.DialContext
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn(), DeadlineDelay: afterCancel}
	}
	return config, nil
}

// inspect refuses a server on which the promises of package store could not be kept, and returns its version.
func inspect(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) (version string, err error) {
	var number int
	var encoding, readOnly, commit, fsync string
	err = pool.QueryRow(ctx, `
SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding'),
    current_setting('transaction_read_only'), current_setting('synchronous_commit'), current_setting('fsync')`).
		Scan(&number, &version, &encoding, &readOnly, &commit, &fsync)
	version, _, _ = strings.Cut(version, " ")
	switch {
	case err != nil:
		return "", translate(err)
	case number < oldestServer:
		return "", fault.New(fault.Unavailable, unsuitableCode, "the database is PostgreSQL %s; version %d or newer is needed", version, oldestServer/10000)
	case encoding != "UTF8":
		return "", fault.New(fault.Unavailable, unsuitableCode, "the database's encoding is %s; create it with ENCODING 'UTF8'", encoding)
	case readOnly == "on":
		return "", fault.New(fault.Unavailable, unavailableCode, remedies[codeReadOnly])
	case commit == "off":
		return "", fault.New(fault.Unavailable, unsuitableCode,
			"the database has synchronous_commit = off, so an acknowledged notification could be lost in a crash; set it on for the relay's user")
	}
	if fsync == "off" {
		log.Warn("the database server runs with fsync = off: a crash of its machine loses acknowledged notifications")
	}
	return version, nil
}

// start starts the leaders, as many for reading as for writing.
func (s *Store) start(conns int) {
	sharing := (conns - lonelyLeaders - 2) / 2
	for i := range max(1, sharing) {
		s.leaders.Go(func() { s.serve(s.updates, i >= firstLeaders) })
		s.leaders.Go(func() { s.serve(s.views, i >= firstLeaders) })
	}
	for range lonelyLeaders {
		s.leaders.Go(func() { s.serve(s.lonely, false) })
	}
	s.leaders.Go(s.bus.run)
}

// acquire waits for a connection.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, acquireWithin)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	return conn, nil
}

// enter begins a call; exit must follow when it returns nil.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed()
	}
	s.running++
	return nil
}

func (s *Store) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.closed && s.running == 0 {
		close(s.idle)
	}
}

// Bus implements store.Store.
func (s *Store) Bus() store.Bus { return s.bus }

// Describe implements store.Store.
func (s *Store) Describe() string { return s.describe }

// Ready implements store.Store: the database answers, and takes writes.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.exit()
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	var readOnly string
	err := s.pool.QueryRow(ctx, `SELECT current_setting('transaction_read_only')`).Scan(&readOnly)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return unavailable(err)
	}
	if readOnly == "on" {
		return fault.New(fault.Unavailable, unavailableCode, remedies[codeReadOnly])
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.running == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	<-s.idle
	close(s.stop)
	s.leaders.Wait()
	s.pool.Close()
	return nil
}
