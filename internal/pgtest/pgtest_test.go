package pgtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/herald-relay/herald/internal/pgtest"
)

func tables(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEveryTestHasItsOwnDatabase(t *testing.T) {
	a, b := pgtest.URL(t), pgtest.URL(t)
	pgtest.Exec(t, a, `INSERT INTO marks (kind, subject, at) VALUES ('k', 's', 1)`)
	pgtest.Exec(t, b, `DROP TABLE marks`)
	pgtest.Exec(t, a, `DELETE FROM marks`)
	if n, m := tables(t, a), tables(t, b); n < 5 || m != n-1 {
		t.Errorf("%d and %d tables, want the whole schema and one less", n, m)
	}
	if n := tables(t, pgtest.EmptyURL(t)); n != 0 {
		t.Errorf("an empty database has %d tables", n)
	}
}

func TestDatabasesAreDropped(t *testing.T) {
	var url string
	t.Run("with", func(t *testing.T) { url = pgtest.URL(t) })
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		conn.Close(context.Background())
	}
	if errorCode(err) != "3D000" {
		t.Errorf("connecting to a database whose test has ended: %v, want that it is gone", err)
	}
}

func errorCode(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// TestNeedsServer is run by TestWithoutServer in a process without one.
func TestNeedsServer(t *testing.T) { pgtest.Server(t) }

func TestWithoutServer(t *testing.T) {
	run := func(env ...string) (string, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNeedsServer$", "-test.v")
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("CI="); err != nil || !strings.Contains(out, "SKIPPED: "+pgtest.ServerVariable) {
		t.Errorf("without a server: %v\n%s\nwant a skip that says how to get one", err, out)
	}
	if out, err := run("CI=true"); err == nil || !strings.Contains(out, "scripts/postgres.sh start") {
		t.Errorf("without a server where CI is set: %v\n%s\nwant a failure that says how to get one", err, out)
	}
}
