// Package pgtest gives each test a PostgreSQL database of its own.
//
// The server is named by the environment variable HERALD_TEST_POSTGRES, a URL whose user may create databases;
// scripts/postgres.sh starts one. Without it tests are skipped, except where CI is set: there a missing server is a
// failure. Databases are copies of a migrated template, which is made once per schema and kept for the next run. A copy
// costs a quarter of a second of processor time; a package with many tests wraps its TestMain with Reuse, and Open
// then empties and hands on the databases of tests that passed.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/herald-relay/herald/internal/postgres"
	"github.com/herald-relay/herald/internal/relay"
)

// ServerVariable names the environment variable that holds the server's URL.
const ServerVariable = "HERALD_TEST_POSTGRES"

// Server returns the URL of the test server. Without one it skips the test, or fails it where CI is set.
func Server(t testing.TB) string {
	t.Helper()
	server := os.Getenv(ServerVariable)
	if server != "" {
		return server
	}
	const how = ServerVariable + " is not set: no PostgreSQL to test against; run: export " + ServerVariable + "=$(scripts/postgres.sh start)"
	if os.Getenv("CI") != "" {
		t.Fatal(how)
	}
	t.Skip("SKIPPED: " + how)
	return ""
}

// URL returns the URL of a new, migrated and otherwise empty database, which is dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	server := Server(t)
	return create(t, server, template(t, server))
}

// EmptyURL returns the URL of a new database without any table, which is dropped when the test ends.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return create(t, Server(t), "template0")
}

// Open opens an empty database and closes it when the test ends. With Reuse an earlier test may have used it.
func Open(t testing.TB) *postgres.Store {
	t.Helper()
	if !reused.on {
		return OpenURL(t, URL(t), nil)
	}
	server := Server(t)
	url := reused.take()
	if url == "" {
		url = withDatabase(t, server, createNamed(t, server, template(t, server)))
	}
	t.Cleanup(func() { reused.giveBack(t, url) })
	return OpenURL(t, url, nil)
}

// OpenURL opens a database and closes it when the test ends.
func OpenURL(t testing.TB, url string, opts *postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Exec runs one statement on a database, past the store.
func Exec(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	withConn(t, url, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	})
}

func withConn(t testing.TB, url string, fn func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // cleanups run after the test's own context
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := fn(ctx, conn); err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, server, from string) string {
	t.Helper()
	name := createNamed(t, server, from)
	t.Cleanup(func() {
		withConn(t, server, func(ctx context.Context, conn *pgx.Conn) error { return drop(ctx, conn, name) })
	})
	return withDatabase(t, server, name)
}

func createNamed(t testing.TB, server, from string) (name string) {
	t.Helper()
	name = "herald_test_" + relay.RandomHex(6)
	withConn(t, server, func(ctx context.Context, conn *pgx.Conn) error {
		return createFrom(ctx, conn, name, from)
	})
	return name
}

func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}

// createFrom copies a database. Its last session may take a moment to end.
func createFrom(ctx context.Context, conn *pgx.Conn, name, from string) error {
	sql := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", pgx.Identifier{name}.Sanitize(), pgx.Identifier{from}.Sanitize())
	for {
		_, err := conn.Exec(ctx, sql)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "55006" { // in use
			return err
		}
		if _, err := conn.Exec(ctx, "SELECT pg_sleep(0.02)"); err != nil {
			return err
		}
	}
}

func withDatabase(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s is no URL", ServerVariable)
	}
	u.Path = "/" + name
	return u.String()
}

// templateLock is the advisory lock under which test binaries that run side by side make the template.
const templateLock = 0x4845_5241_4c44

// template returns the name of a database with the present schema, making it when it is missing.
func template(t testing.TB, server string) string {
	t.Helper()
	name := "herald_template_" + postgres.SchemaDigest()
	withConn(t, server, func(ctx context.Context, conn *pgx.Conn) error {
		if ready, err := isTemplate(ctx, conn, name); ready || err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", templateLock); err != nil {
			return err
		}
		if ready, err := isTemplate(ctx, conn, name); ready || err != nil {
			return err // the lock ends with the session
		}
		return makeTemplate(ctx, conn, name, withDatabase(t, server, name))
	})
	return name
}

func isTemplate(ctx context.Context, conn *pgx.Conn, name string) (ready bool, err error) {
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)", name).Scan(&ready)
	return ready, err
}

// makeTemplate marks the database as a template last, so that one that was left half made is made anew.
func makeTemplate(ctx context.Context, conn *pgx.Conn, name, url string) error {
	quoted := pgx.Identifier{name}.Sanitize()
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil {
		return err
	}
	if err := createFrom(ctx, conn, name, "template0"); err != nil {
		return err
	}
	s, err := postgres.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+quoted+" IS_TEMPLATE true")
	return err
}
