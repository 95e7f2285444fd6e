package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/herald-relay/herald/internal/admin"
	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/config"
)

// Here looks at a relay on this machine, as its configuration says it is, or says why that cannot be read.
func (r *Report) Here(ctx context.Context, cfg config.Config, err error) {
	problems := config.Problems(err)
	for _, p := range problems {
		r.fail("configuration", p.Key+": "+p.Detail, p.Hint)
	}
	switch {
	case err == nil:
		r.pass("configuration", "it can be read and makes sense")
	case len(problems) == 0:
		r.fail("configuration", err.Error(), "herald config check tells more")
	}
	for _, note := range cfg.Notes() {
		r.note("configuration", note)
	}
	if err == nil {
		r.relayHere(ctx, cfg)
	}
}

// relayHere looks at a relay of this machine, when there is one.
func (r *Report) relayHere(ctx context.Context, cfg config.Config) {
	info, err := os.Stat(cfg.Data)
	if errors.Is(err, fs.ErrNotExist) {
		r.note("data directory", cfg.Data+" is not there: no relay has run here yet")
		r.port(cfg.Listen, Warn) // perhaps none ever shall
		return
	}
	if !r.directory(cfg.Data, info, err) {
		return
	}
	r.secret(cfg)
	if r.running(ctx, cfg) {
		return
	}
	r.database(ctx, cfg)
	r.port(cfg.Listen, Fail)
}

func (r *Report) directory(path string, info fs.FileInfo, err error) bool {
	switch {
	case err != nil:
		r.fail("data directory", err.Error(), "make it readable for the user that runs the relay")
		return false
	case !info.IsDir():
		r.fail("data directory", path+" is a file", "name a directory with --data")
		return false
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		r.warn("data directory", path+" can be entered by others", "chmod 700 "+path)
	default:
		r.pass("data directory", path)
	}
	probe, err := os.CreateTemp(path, ".doctor-*")
	if err != nil {
		r.fail("data directory", "nothing can be written there: "+err.Error(), "give it to the user that runs the relay, and see that the disk is not full")
		return false
	}
	_ = errors.Join(probe.Close(), os.Remove(probe.Name()))
	return true
}

func (r *Report) secret(cfg config.Config) {
	path := filepath.Join(cfg.Data, config.SecretFile)
	info, err := os.Stat(path)
	switch {
	case cfg.RelaySecret.Reveal() != "": // the file is not read
		r.pass("relay secret", "it is in the configuration")
	case errors.Is(err, fs.ErrNotExist):
		if keptIn(cfg) { // else serve makes one
			r.fail("relay secret", path+" is missing beside the database, and any device that has paired is known by it",
				"restore the file, or give the RELAY_SECRET that the relay had before; with a new one every device must pair again")
		}
	case err != nil:
		r.fail("relay secret", err.Error(), "make it readable for the user that runs the relay")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o027 != 0: // as serve has it: its group may read
		r.fail("relay secret", path+" can be read by others", "chmod 600 "+path)
	default:
		r.pass("relay secret", "it is closed to others")
	}
}

// keptIn reports whether the embedded database is there.
func keptIn(cfg config.Config) bool {
	_, err := os.Stat(filepath.Join(cfg.Data, app.DatabaseFile))
	return cfg.Embedded() && err == nil
}

// running asks a relay that runs on the data directory, which proves its database too.
func (r *Report) running(ctx context.Context, cfg config.Config) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	a, err := admin.Dial(ctx, cfg.Data)
	if errors.Is(err, admin.ErrNotRunning) {
		r.note("relay here", "it is not running")
		return false
	}
	if err != nil {
		r.fail("relay here", err.Error(), "restart it")
		return true
	}
	defer a.Close()
	people, err := a.People(ctx)
	if err != nil {
		r.fail("relay here", err.Error(), "its log tells the cause")
		return true
	}
	mailboxes := 0
	for _, p := range people {
		mailboxes += p.Mailboxes
	}
	r.pass("relay here", "it is running, with "+plural(len(people), "person", "people")+" and "+plural(mailboxes, "paired device", "paired devices"))
	return true
}

func (r *Report) database(ctx context.Context, cfg config.Config) {
	if !cfg.Embedded() {
		r.postgres(ctx, cfg.Database.Reveal())
		return
	}
	path := filepath.Join(cfg.Data, app.DatabaseFile)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		r.note("database", "there is none yet")
		return
	}
	if err != nil {
		r.fail("database", err.Error(), "give it to the user that runs the relay")
		return
	}
	defer f.Close()
	head := make([]byte, 16)
	if n, _ := f.Read(head); n > 0 && string(head) != "SQLite format 3\x00" {
		r.fail("database", path+" is no SQLite database", "restore it from a backup")
		return
	}
	r.pass("database", path)
}

func (r *Report) postgres(ctx context.Context, database string) {
	u, err := url.Parse(database)
	if err != nil {
		r.fail("database", "HERALD_DATABASE is no URL", "it looks like postgres://user:password@host/name")
		return
	}
	address := net.JoinHostPort(u.Hostname(), u.Port())
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "5432")
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		r.fail("database", "PostgreSQL does not answer: "+err.Error(), "start it, or correct HERALD_DATABASE")
		return
	}
	_ = conn.Close()
	r.pass("database", "PostgreSQL answers at "+address)
}

// port looks whether a relay could listen there; busy is what it is when it cannot.
func (r *Report) port(address string, busy State) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		r.Add("port", busy, err.Error(), "stop what holds it, or choose another address with --listen")
		return
	}
	_ = l.Close()
	r.pass("port", address+" is free")
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
