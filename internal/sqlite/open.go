package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/sqlite/native"
)

// Options are for unusual needs; nil means the defaults.
type Options struct {
	// BusyTimeout is how long to wait for another program that holds the database, at the start and at each commit.
	// Zero means 5 s.
	BusyTimeout time.Duration
	// Readers is how many Views run at once; zero means one per processor, at least 2 and at most 4.
	Readers int
}

func (o *Options) withDefaults() Options {
	out := Options{BusyTimeout: 5 * time.Second, Readers: min(4, max(2, runtime.GOMAXPROCS(0)))}
	if o != nil && o.BusyTimeout > 0 {
		out.BusyTimeout = o.BusyTimeout
	}
	if o != nil && o.Readers > 0 {
		out.Readers = o.Readers
	}
	return out
}

// applicationID marks a database file as the relay's: "HRLD".
const applicationID = 0x48524c44

// minVersion is the first release without a flaw by which a log that two connections use can corrupt a database
// (https://www.sqlite.org/wal.html#walresetbug).
const minVersion = 3051003

// Open opens the database at path, makes it if there is none, and brings its schema up to date. The directory must
// exist. Refusals are faults of kind Unavailable whose Detail names the path and the remedy, with the codes
// database_in_use (another process has it), database_unreachable (missing directory, permissions, disk),
// database_locked (another program works on it), database_newer (made by a newer release), database_foreign (not a
// database, or not the relay's) and database_library (the SQLite built in is too old). A refusal leaves the database as it was.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	if err := checkLibrary(native.Version()); err != nil {
		return nil, err
	}
	processWide()
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, lock: lock}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(refusal(path, err), lock.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) (err error) {
	if err := prepareFile(ctx, s.path, o.BusyTimeout); err != nil {
		return err
	}
	if s.schema, err = migrate(ctx, s.path, o.BusyTimeout); err != nil {
		return err
	}
	return s.connect(o)
}

// connect opens the connections and starts the goroutines.
func (s *Store) connect(o Options) error {
	var conns []*native.Conn
	for i := range 2 + o.Readers {
		c, err := openConn(s.path, o.BusyTimeout, i >= 2)
		if err != nil {
			for _, c := range conns {
				c.Close()
			}
			return err
		}
		conns = append(conns, c)
	}
	s.log = newCheckpointer(conns[1])
	s.writer = newWriter(conns[0], o.BusyTimeout, s.log.wake)
	s.log.start(s.writer.restart)
	s.readers = make(chan *native.Conn, o.Readers)
	for _, c := range conns[2:] {
		s.readers <- c
	}
	return nil
}

// openConn opens a connection with the settings that are a connection's own. A log that a huge transaction blew up is
// cut to 64 MiB when it begins anew. Memory maps are off: a disk error in one would kill the process.
func openConn(path string, busy time.Duration, reader bool) (*native.Conn, error) {
	c, err := native.Open(path, native.ReadWrite, busy)
	if err != nil {
		return nil, err
	}
	pragmas := []string{"foreign_keys = ON", "synchronous = FULL", "wal_autocheckpoint = 0", "journal_size_limit = 67108864",
		"mmap_size = 0", "temp_store = MEMORY", "trusted_schema = OFF", "cell_size_check = ON", "cache_size = -16384"}
	if reader {
		pragmas = append(pragmas, "query_only = ON", "cache_size = -4096")
	}
	for _, p := range pragmas {
		if err := c.Exec("PRAGMA " + p); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// processWide chooses, once, how the library syncs and locks. fdatasync is as durable as fsync and leaves out the
// file's dates; locks by open file description survive that some other code closes the same file.
var processWide = sync.OnceFunc(func() {
	_, _ = driver.Fdatasync(true)  // where there is none, fsync stays
	_, _ = driver.OFDLocking(true) // where there are none, or too late, the others stay
})

func checkLibrary(text string, number int) error {
	if number >= minVersion {
		return nil
	}
	return fault.New(fault.Unavailable, "database_library",
		"this program was built with SQLite %s, which can corrupt databases; build it with 3.51.3 or newer", text)
}

// prepareFile makes the file, readable by its owner only, when there is none, and makes sure that it is one of ours.
func prepareFile(ctx context.Context, path string, busy time.Duration) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	c, err := native.Open(path, native.ReadWrite, busy)
	if err != nil {
		return err
	}
	defer c.Close()
	var id, objects int64
	if _, err := c.Prepare("PRAGMA application_id").Row(func(s *native.Stmt) { id = s.ColInt(0) }); err != nil {
		return err
	}
	if _, err := c.Prepare("SELECT count(*) FROM sqlite_schema").Row(func(s *native.Stmt) { objects = s.ColInt(0) }); err != nil {
		return err
	}
	if id != applicationID && (id != 0 || objects != 0) {
		return fault.New(fault.Unavailable, "database_foreign",
			"%s is the database of another program; name another file or move it away", path)
	}
	if err := c.Exec("PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	return ctx.Err()
}

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, each step in a transaction of its own, and returns its version.
func migrate(ctx context.Context, path string, busy time.Duration) (int64, error) {
	dsn := fmt.Sprintf("file:%s?_busy_timeout=%d&_synchronous=FULL&_foreign_keys=1",
		(&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(), busy.Milliseconds())
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return 0, err
	}
	current, target, err := p.GetVersions(ctx)
	switch {
	case err != nil:
		return 0, err
	case current > target:
		return 0, fault.New(fault.Unavailable, "database_newer",
			"%s has schema %d and this release knows up to %d; run the release that made it, or a newer one", path, current, target)
	case current < target:
		_, err = p.Up(ctx)
	}
	return target, err
}

// refusal turns what went wrong while opening into a fault that tells the operator what to do.
func refusal(path string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	code, remedy := "database_unreachable", "the database %s cannot be opened for writing; check that its directory exists and that this user may write there"
	switch primaryCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		code, remedy = "database_locked", "another program works on the database %s; end it, then start again"
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		code, remedy = "database_foreign", "%s is no intact database; move it away, or restore it from a backup, then start again"
	case sqlite3.SQLITE_FULL:
		remedy = "the disk that holds %s is full; make room, then start again"
	case sqlite3.SQLITE_IOERR:
		remedy = "the disk that holds %s fails; check it, then start again"
	case 0:
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return fault.New(fault.Unavailable, code, remedy, path).Because(err)
}

// primaryCode returns the library's result code in err, whichever door it came through; 0 when there is none.
func primaryCode(err error) int {
	if e, ok := errors.AsType[*native.Error](err); ok {
		return e.Primary()
	}
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// lockFile takes the database for this process, by a lock on a file beside it that ends with the process however it
// ends. The file stays: removing it would let two processes hold locks on two files of one name.
func lockFile(path string) (*os.File, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, refusal(path, err)
	}
	if err := flock(f); err != nil {
		holder := strings.TrimSpace(readSome(f))
		f.Close()
		if errors.Is(err, errHeld) {
			return nil, fault.New(fault.Unavailable, "database_in_use",
				"the database %s is in use by process %s; end that process, or give this one another data directory", path, orUnknown(holder)).Because(err)
		}
		return nil, refusal(path, err)
	}
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%d\n", os.Getpid()) // only a hint for whoever is refused
	return f, nil
}

func readSome(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	return string(b[:n])
}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}
