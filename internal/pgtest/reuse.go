package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Reuse wraps a package's tests so that Open hands databases on from test to test. They are dropped when all have run.
// Use it in TestMain: os.Exit(pgtest.Reuse(m).Run()).
func Reuse(m *testing.M) interface{ Run() int } { return reusing{m} }

type reusing struct{ m *testing.M }

// Run implements what os.Exit and leak checkers want of a testing.M.
func (r reusing) Run() int {
	reused.on = true
	code := r.m.Run()
	if err := reused.dropAll(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: databases left behind:", err)
	}
	return code
}

// reused holds databases that wait for the next test. on is set before any test runs.
var reused pool

type pool struct {
	on bool

	mu   sync.Mutex // guards the rest
	urls []string   // empty databases
	all  []string   // names of all that were ever handed out
}

// take returns the URL of an empty database, "" when there is none.
func (p *pool) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.urls) == 0 {
		return ""
	}
	url := p.urls[len(p.urls)-1]
	p.urls = p.urls[:len(p.urls)-1]
	return url
}

const empty = `
DO $$ BEGIN
    EXECUTE (SELECT 'TRUNCATE ' || string_agg(quote_ident(tablename), ', ') || ' RESTART IDENTITY' FROM pg_tables
        WHERE schemaname = 'public' AND tablename NOT IN ('schema_versions', 'gates'));
END $$`

// giveBack empties the database of a test that passed; that of one that failed is not trusted and stays aside.
func (p *pool) giveBack(t testing.TB, database string) {
	t.Helper()
	p.mu.Lock()
	p.all = append(p.all, database)
	p.mu.Unlock()
	if t.Failed() {
		return
	}
	Exec(t, database, empty)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.urls = append(p.urls, database)
}

func (p *pool) dropAll() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, os.Getenv(ServerVariable))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, database := range p.all {
		u, err := url.Parse(database)
		if err != nil {
			return err
		}
		if err := drop(ctx, conn, strings.TrimPrefix(u.Path, "/")); err != nil {
			return err
		}
	}
	return nil
}
