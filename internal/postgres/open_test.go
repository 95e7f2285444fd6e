package postgres_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/postgres"
)

var update = flag.Bool("update", false, "rewrite schema.sql from what the migrations make")

// wantRefusal checks that a database was refused in words that help its operator.
func wantRefusal(t *testing.T, err error, code, hint string) {
	t.Helper()
	f := fault.From(err)
	if f.Kind != fault.Unavailable || f.Code != code || !strings.Contains(f.Detail, hint) {
		t.Errorf("Open = %v (kind %v), want an unavailable %s that says %q", err, f.Kind, code, hint)
	}
}

func TestOpenRefusesWhatCannotServe(t *testing.T) {
	t.Parallel()
	open := func(url string) error {
		s, err := postgres.Open(t.Context(), url, nil)
		if err == nil {
			s.Close()
		}
		return err
	}
	t.Run("no URL", func(t *testing.T) {
		err := open("postgres://herald:geheim@[::1/x")
		wantRefusal(t, err, "database_unsuitable", "postgres://user:password@host")
		if strings.Contains(err.Error(), "geheim") {
			t.Error("the error holds the password")
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		wantRefusal(t, open("postgres://herald@"+addr+"/herald"), "unavailable", "cannot be reached")
	})
	t.Run("wrong password", func(t *testing.T) {
		url := regexp.MustCompile(`://([^:]+):[^@]+@`).ReplaceAllString(pgtest.EmptyURL(t), "://$1:wrong@")
		err := open(url)
		if err == nil {
			t.Skip("SKIPPED: this server asks for no password")
		}
		wantRefusal(t, err, "unavailable", "user or password")
	})
	t.Run("no such database", func(t *testing.T) {
		url := pgtest.EmptyURL(t)
		wantRefusal(t, open(strings.Replace(url, "/herald_test_", "/herald_absent_", 1)), "unavailable", "does not exist")
	})
	t.Run("newer schema", func(t *testing.T) {
		url := pgtest.URL(t)
		pgtest.Exec(t, url, `INSERT INTO schema_versions (version_id, is_applied) VALUES ($1, true)`, postgres.SchemaVersion()+1)
		wantRefusal(t, open(url), "database_newer", fmt.Sprintf("schema %d", postgres.SchemaVersion()+1))
	})
	t.Run("another encoding", func(t *testing.T) {
		url, name := pgtest.EmptyURL(t), ""
		name = regexp.MustCompile(`herald_test_\w+`).FindString(url)
		pgtest.Exec(t, pgtest.Server(t), "DROP DATABASE "+name)
		pgtest.Exec(t, pgtest.Server(t), "CREATE DATABASE "+name+" ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
		wantRefusal(t, open(url), "database_unsuitable", "UTF8")
	})
	t.Run("commits that may be lost", func(t *testing.T) {
		wantRefusal(t, open(pgtest.URL(t)+"&synchronous_commit=off"), "database_unsuitable", "synchronous_commit")
	})
	t.Run("read-only", func(t *testing.T) {
		wantRefusal(t, open(pgtest.URL(t)+"&default_transaction_read_only=on"), "unavailable", "read-only")
	})
}

func TestOpenSaysWhatItFound(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := pgtest.OpenURL(t, pgtest.EmptyURL(t), &postgres.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), MaxConns: 1})
	if want := fmt.Sprintf(`^postgresql \d+(\.\d+)?\w*, schema %d$`, postgres.SchemaVersion()); !regexp.MustCompile(want).MatchString(s.Describe()) {
		t.Errorf("Describe = %q, want %s", s.Describe(), want)
	}
	if !strings.Contains(log.String(), "schema migrated") {
		t.Errorf("log = %q, want the migration", log.String())
	}
}

// Several processes may start on one empty database at the same moment.
func TestOpenMigratesOnceAmongMany(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	for _, err := range together(6, func(int) error {
		s, err := postgres.Open(t.Context(), url, nil)
		if err != nil {
			return err
		}
		return s.Close()
	}) {
		must(t, err)
	}
	conn := session(t, url)
	var runs int
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM schema_versions WHERE version_id > 0`).Scan(&runs))
	if want := postgres.MigrationsForTest(); runs != want {
		t.Errorf("%d migrations ran, want each of %d once", runs, want)
	}
}

// The golden shows what all migrations together make, so that a reviewer sees the schema and not its history.
func TestSchemaGolden(t *testing.T) {
	t.Parallel()
	conn := session(t, pgtest.URL(t))
	got := dumpSchema(t, conn)
	if *update {
		must(t, os.WriteFile("schema.sql", []byte(got), 0o644))
	}
	want, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("schema.sql differs from what the migrations make (-golden +made); run with -update:\n%s", d)
	}
}

// catalog holds the queries that describe a schema, each row one line of SQL.
var catalog = []string{`
SELECT format('TABLE %s (%s)%s', c.relname, (
    SELECT string_agg(format(E'\n    %s %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attcollation <> 0 THEN (SELECT format(' COLLATE %I', collname) FROM pg_collation o
            WHERE o.oid = a.attcollation AND o.collname <> 'default') ELSE '' END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END,
        CASE WHEN a.attidentity <> '' THEN ' GENERATED ALWAYS AS IDENTITY'
            WHEN a.attgenerated <> '' THEN format(' GENERATED ALWAYS AS %s STORED', pg_get_expr(d.adbin, d.adrelid))
            WHEN d.adbin IS NOT NULL THEN format(' DEFAULT %s', pg_get_expr(d.adbin, d.adrelid)) ELSE '' END), ',' ORDER BY a.attnum)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) || E'\n',
    CASE WHEN c.reloptions IS NOT NULL THEN format(' WITH (%s)', array_to_string(c.reloptions, ', ')) ELSE '' END)
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> 'schema_versions' ORDER BY c.relname`, `
SELECT format('CONSTRAINT %s ON %s %s', k.conname, c.relname, pg_get_constraintdef(k.oid))
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE c.relnamespace = 'public'::regnamespace AND k.contype <> 'n' AND c.relname <> 'schema_versions' ORDER BY c.relname, k.conname`, `
SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'schema_versions' ORDER BY tablename, indexname`, `
SELECT format('FUNCTION %s', p.oid::regprocedure) FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace ORDER BY 1`,
}

func dumpSchema(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("-- What the migrations make, as the server describes it. Rewritten by: go test ./internal/postgres -run SchemaGolden -update\n")
	for _, sql := range catalog {
		rows, _ := conn.Query(context.Background(), sql)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
		for _, line := range lines {
			b.WriteString(line + ";\n")
		}
	}
	return b.String()
}
