package postgres

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/ledger"
	"github.com/herald-relay/herald/internal/store"
)

type entries struct{ t *tx }

// entryID is a ledger.EntryID that the database keeps as bytes.
type entryID string

// ScanBytes implements pgtype.BytesScanner.
func (e *entryID) ScanBytes(b []byte) error {
	s := hex.EncodeToString(b)
	*e = entryID(s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:])
	return nil
}

func entryBytes(id ledger.EntryID) []byte { return idBytes(strings.ReplaceAll(string(id), "-", "")) }

const entryColumns = `sequence, id, name, subject, at, recorded_at, print, data`

func scanEntry(w ledger.WorkspaceID) func(pgx.Rows, *ledger.Entry) error {
	return func(r pgx.Rows, e *ledger.Entry) error {
		e.Workspace = w
		return r.Scan(&e.Sequence, (*entryID)(&e.ID), &e.Name, &e.Subject, (*instant)(&e.Timestamp), (*instant)(&e.Recorded),
			(*hashBytes)(&e.Print), &e.Data)
	}
}

const (
	lockWorkspace = `SELECT newest FROM workspace_heads WHERE workspace = $1 FOR UPDATE`
	knownEntries  = `SELECT ` + entryColumns + ` FROM entries WHERE workspace = $1 AND id = ANY ($2)`
	addNames      = `
INSERT INTO entry_names (workspace, name) SELECT DISTINCT $1::bytea, n FROM unnest($2::text[]) AS n ON CONFLICT DO NOTHING`
	addEntries = `
INSERT INTO entries (workspace, sequence, id, name, subject, at, recorded_at, print, data)
SELECT $1, * FROM unnest($2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[])`
	advanceWorkspace = `UPDATE workspace_heads SET newest = $2 WHERE workspace = $1`
)

// Append shares its transaction with nobody: it holds the workspace's row until it commits.
func (s entries) Append(w ledger.WorkspaceID, batch []ledger.Entry) (map[int]ledger.Entry, error) {
	if s.t.u == nil {
		return nil, errReadOnly
	}
	if err := s.t.u.wide(); err != nil {
		return nil, err
	}
	id := workspaceBytes(w)
	var newest int64
	var there []ledger.Entry
	lock := &query{what: "lock workspace", sql: lockWorkspace, args: []any{id}, each: one(&newest)}
	// A statement of its own: it must see what was committed while the lock was waited for.
	find := &query{what: "find entries", sql: knownEntries, each: list(&there, scanEntry(w)),
		args: []any{id, column(batch, func(e *ledger.Entry) []byte { return entryBytes(e.ID) })}}
	if err := s.t.u.ask(&step{queries: []*query{lock, find}}); err != nil {
		return nil, err
	}
	if lock.count == 0 {
		return nil, noWorkspace()
	}
	fresh, known := sortOut(w, batch, there, newest)
	if len(fresh) == 0 {
		return known, nil
	}
	names := column(fresh, func(e *ledger.Entry) string { return e.Name })
	subjects := column(fresh, func(e *ledger.Entry) string { return e.Subject })
	for _, text := range append(names[:len(names):len(names)], subjects...) {
		if !storable(text) {
			return nil, fault.InvalidRequest("", "a name or subject holds NUL or invalid UTF-8")
		}
	}
	last := fresh[len(fresh)-1].Sequence
	return known, s.t.u.ask(&step{queries: []*query{
		{what: "add names", sql: addNames, args: []any{id, names}, writes: true},
		{what: "add entries", sql: addEntries, writes: true, args: []any{id, column(fresh, func(e *ledger.Entry) int64 { return e.Sequence }),
			column(fresh, func(e *ledger.Entry) []byte { return entryBytes(e.ID) }), names, subjects,
			column(fresh, func(e *ledger.Entry) int64 { return e.Timestamp.UnixMilli() }),
			column(fresh, func(e *ledger.Entry) int64 { return e.Recorded.UnixMilli() }),
			column(fresh, func(e *ledger.Entry) []byte { return e.Print[:] }), column(fresh, func(e *ledger.Entry) []byte { return e.Data })}},
		{what: "advance workspace", sql: advanceWorkspace, args: []any{id, last}, writes: true},
	}})
}

// sortOut gives the entries their sequences, and returns those to be stored and those that are known.
func sortOut(w ledger.WorkspaceID, batch, there []ledger.Entry, newest int64) (fresh []ledger.Entry, known map[int]ledger.Entry) {
	stored := map[ledger.EntryID]ledger.Entry{}
	for _, e := range there {
		stored[e.ID] = e
	}
	for i := range batch {
		e := &batch[i]
		e.Workspace = w
		if before, is := stored[e.ID]; is {
			if known == nil {
				known = map[int]ledger.Entry{}
			}
			known[i], e.Sequence = before, before.Sequence
			continue
		}
		newest++
		e.Sequence = newest
		fresh, stored[e.ID] = append(fresh, *e), *e
	}
	return fresh, known
}

const getEntry = `SELECT ` + entryColumns + ` FROM entries WHERE workspace = $1 AND id = $2`

func (s entries) Get(w ledger.WorkspaceID, id ledger.EntryID) (e ledger.Entry, err error) {
	scan := scanEntry(w)
	q := &query{what: "get entry", sql: getEntry, args: []any{workspaceBytes(w), entryBytes(id)}, each: func(r pgx.Rows) error { return scan(r, &e) }}
	if err = s.t.readShared(q); err == nil && q.count == 0 {
		err = fault.NotFoundf("the workspace has no such event")
	}
	return e, err
}

// Each name is followed in the order of the ledger, and the heads of all are merged: an index over several names alone
// would have to be sorted as a whole.
const (
	listEntries = `SELECT ` + entryColumns + ` FROM entries WHERE workspace = $1 AND sequence > $2 ORDER BY sequence LIMIT $3`
	listByName  = `
SELECT e.* FROM entry_names n CROSS JOIN LATERAL
    (SELECT ` + entryColumns + ` FROM entries WHERE workspace = $1 AND name = n.name AND sequence > $2 ORDER BY sequence LIMIT $3) e
WHERE n.workspace = $1 AND n.name = ANY ($4) ORDER BY e.sequence LIMIT $3`
	listBySubject = `
SELECT e.* FROM entry_names n CROSS JOIN LATERAL
    (SELECT ` + entryColumns + ` FROM entries WHERE workspace = $1 AND subject = $5 AND name = n.name AND sequence > $2
    ORDER BY sequence LIMIT $3) e
WHERE n.workspace = $1 AND ($4::text[] IS NULL OR n.name = ANY ($4)) ORDER BY e.sequence LIMIT $3`
)

func (s entries) List(w ledger.WorkspaceID, f store.EntryFilter) (out []ledger.Entry, err error) {
	q := &query{what: "list entries", sql: listEntries, args: []any{workspaceBytes(w), f.After, f.Limit}, each: list(&out, scanEntry(w))}
	names := f.Names
	if len(names) == 0 {
		names = nil
	}
	switch {
	case f.Subject != "":
		q.sql, q.args = listBySubject, append(q.args, names, f.Subject)
	case names != nil:
		q.sql, q.args = listByName, append(q.args, names)
	}
	return out, s.t.readShared(q)
}

const newestEntry = `SELECT newest FROM workspace_heads WHERE workspace = $1`

func (s entries) Newest(w ledger.WorkspaceID) (n int64, err error) {
	q := &query{what: "find newest entry", sql: newestEntry, args: []any{workspaceBytes(w)}, each: one(&n)}
	if err = s.t.readShared(q); err == nil && q.count == 0 {
		err = noWorkspace()
	}
	return n, err
}

const forgetEntries = `
DELETE FROM entries WHERE (workspace, sequence) IN
    (SELECT workspace, sequence FROM entries WHERE recorded_at < $1 ORDER BY recorded_at LIMIT $2 FOR UPDATE SKIP LOCKED)`

func (s entries) Forget(cutoff time.Time, limit int) (int, error) {
	return s.t.sweep(&query{what: "forget entries", sql: forgetEntries, args: []any{millis(cutoff), limit}})
}
