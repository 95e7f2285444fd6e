package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/postgres"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// session connects as the store does.
func session(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config.RuntimeParams, postgres.SessionForTest)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// generic returns the plan that a prepared statement gets, whatever its arguments.
func generic(t *testing.T, conn *pgx.Conn, name, sql string) string {
	t.Helper()
	sd, err := conn.Prepare(t.Context(), name, sql)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	execute := fmt.Sprintf("EXPLAIN (COSTS OFF) EXECUTE %q", name)
	if n := len(sd.ParamOIDs); n > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("NULL,", n), ",") + ")"
	}
	rows, _ := conn.Query(t.Context(), execute, pgx.QueryExecModeSimpleProtocol)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return strings.Join(lines, "\n")
}

// Every statement must find its rows by an index from the first day on, when tables are empty and nothing is analyzed.
func TestPlansUseIndexes(t *testing.T) {
	t.Parallel()
	conn := session(t, pgtest.URL(t))
	for name, sql := range postgres.StatementsForTest {
		plan := generic(t, conn, name, sql)
		if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Hash Join") || strings.Contains(plan, "Merge Join") {
			t.Errorf("%s reads a whole table:\n%s", name, plan)
		}
	}
}

// The bulk writes pair rows of arrays with rows of tables, each by its key.
func TestPlansPairByKey(t *testing.T) {
	t.Parallel()
	conn := session(t, pgtest.URL(t))
	for name, want := range map[string]string{
		"admitSQL":   `Index Cond: \(\(mailbox = a\.mailbox\) AND \(key = a\.key\) AND \(key_seq = `,
		"saveSQL":    `Index Cond: \(id = u\.id\)`,
		"countSQL":   `Index Cond: \(mailbox = u\.mailbox\)`,
		"addUsage":   `Index Cond: \(\(mailbox = u\.mailbox\) AND \(day = \(?u\.day`,
		"lastKeySeq": `Index Only Scan Backward using notifications_sent`,
	} {
		if plan := generic(t, conn, name, postgres.StatementsForTest[name]); !regexp.MustCompile(want).MatchString(plan) {
			t.Errorf("%s: plan does not hold %s:\n%s", name, want, plan)
		}
	}
}

// The nth last send of a key that has sent much costs as little as that of a new one, whatever n is.
func TestAdmissionReadsFewPages(t *testing.T) {
	t.Parallel()
	const many = 200_000
	url := pgtest.URL(t)
	s := pgtest.OpenURL(t, url, nil)
	k := newKey(t, s)
	pgtest.Exec(t, url, `
INSERT INTO notifications (id, mailbox, key, seq, key_seq, created_at, payload, expect_reply, acked_at, reply_text,
    reply_transcript, clip_bytes, clip_type, suppressed, reason, scope)
SELECT int8send(i) || '\x00000000', decode($1, 'hex'), decode($2, 'hex'), i, i, $3::bigint + i, '{}', false, 1, '', '', 0, '', false, '', ''
FROM generate_series(1, $4::bigint) i`, string(k.Mailbox), string(k.ID), benchDay.UnixMilli(), many)

	for _, perKey := range []int{1, 60, many / 2, many, many + 1, 1_000_000_000} {
		var a relay.Admission
		must(t, s.View(t.Context(), func(tx store.Tx) (err error) {
			a, err = tx.Notifications().Admission(k.Mailbox, k.ID, perKey, benchDay.Add(many*time.Millisecond))
			return err
		}))
		want := time.Time{}
		if perKey <= many {
			want = benchDay.Add(time.Duration(many-perKey+1) * time.Millisecond)
		}
		if !a.NthSend.Equal(want) {
			t.Errorf("perKey %d: NthSend = %v, want %v", perKey, a.NthSend, want)
		}
	}
	conn := session(t, url)
	if _, err := conn.Prepare(t.Context(), "admit", postgres.StatementsForTest["admitSQL"]); err != nil {
		t.Fatal(err)
	}
	for _, perKey := range []int{60, many / 2, 1_000_000_000} {
		sql := fmt.Sprintf(`EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE admit('{\\x%s}', '{\\x%s}', '{%d}', '{2026-03-14}')`,
			k.Mailbox, k.ID, perKey)
		rows, _ := conn.Query(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if pages := pagesRead(lines); pages == 0 || pages > 25 {
			t.Errorf("perKey %d: %d pages read, want a few:\n%s", perKey, pages, strings.Join(lines, "\n"))
		}
	}
}

var buffers = regexp.MustCompile(`Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`)

// pagesRead sums what the topmost node of a plan read.
func pagesRead(plan []string) (n int) {
	for _, line := range plan {
		if m := buffers.FindStringSubmatch(line); m != nil {
			var hit, read int
			fmt.Sscan(m[1], &hit)
			fmt.Sscan(m[2], &read)
			return hit + read
		}
	}
	return 0
}
