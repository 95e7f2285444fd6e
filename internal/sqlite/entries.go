package sqlite

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/ledger"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

type entries struct{ *tx }

func noEntry() error { return fault.NotFoundf("the workspace has no such event") }

// uuid is an entry's id as it is stored, nothing when it is no UUID.
func uuid(id ledger.EntryID) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(string(id), "-", ""))
	if err != nil || len(b) != 16 {
		return nil
	}
	return b
}

func entryID(b []byte) ledger.EntryID {
	s := hex.EncodeToString(b)
	return ledger.EntryID(s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:])
}

// head returns a workspace's key and newest sequence.
func (t entries) head(w ledger.WorkspaceID) (n, newest int64, err error) {
	const query = `SELECT w.n, h.newest FROM ` + workspaceTables + ` WHERE w.id = ?`
	found, err := t.prepare(query).Text(string(w)).Row(func(s *native.Stmt) { n, newest = s.ColInt(0), s.ColInt(1) })
	if err != nil {
		return 0, 0, t.fail("find workspace", err)
	}
	if !found {
		return 0, 0, noWorkspace()
	}
	return n, newest, nil
}

// appending is one Append under way.
type appending struct {
	entries
	workspace int64
	words     map[string]int64 // keys of names and subjects, which hold a slash
}

func (t entries) Append(w ledger.WorkspaceID, batch []ledger.Entry) (map[int]ledger.Entry, error) {
	if err := t.writable(); err != nil {
		return nil, err
	}
	n, newest, err := t.head(w)
	if err != nil {
		return nil, err
	}
	a := appending{t, n, map[string]int64{}}
	var known map[int]ledger.Entry
	for i := range batch {
		e := &batch[i]
		switch before, err := t.Get(w, e.ID); {
		case err == nil:
			if known == nil {
				known = map[int]ledger.Entry{}
			}
			known[i], e.Workspace, e.Sequence = before, w, before.Sequence
			continue
		case !fault.Is(err, fault.NotFound):
			return nil, err
		}
		newest++
		e.Workspace, e.Sequence = w, newest
		if err := a.insert(e); err != nil {
			return nil, err
		}
	}
	const advance = `UPDATE workspace_heads SET newest = ? WHERE workspace = ?`
	_, err = t.change(advance).Int(newest).Int(n).Exec()
	return known, t.fail("advance workspace", err)
}

func (a appending) insert(e *ledger.Entry) error {
	name, err := a.word(e.Name, `SELECT n FROM entry_names WHERE workspace = ? AND name = ?`,
		`INSERT INTO entry_names (workspace, name) VALUES (?, ?)`)
	if err != nil {
		return err
	}
	subject, err := a.word(e.Subject, `SELECT n FROM entry_subjects WHERE workspace = ? AND subject = ?`,
		`INSERT INTO entry_subjects (workspace, subject) VALUES (?, ?)`)
	if err != nil {
		return err
	}
	const insert = `INSERT INTO entries (workspace, sequence, id, name, subject, at, recorded_at, print, data)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	_, err = a.change(insert).Int(a.workspace).Int(e.Sequence).Blob(uuid(e.ID)).Int(name).Int(subject).
		Int(e.Timestamp.UnixMilli()).Int(e.Recorded.UnixMilli()).Blob(e.Print[:]).Blob(e.Data).Exec()
	return a.fail("append entry", err)
}

// word returns the key of a name or subject, which may have to be made.
func (a appending) word(text, query, insert string) (n int64, err error) {
	if n = a.words[text]; n != 0 {
		return n, nil
	}
	found, err := a.prepare(query).Int(a.workspace).Text(text).Row(func(s *native.Stmt) { n = s.ColInt(0) })
	if err == nil && !found {
		if _, err = a.change(insert).Int(a.workspace).Text(text).Exec(); err == nil {
			n = a.c.LastInsertID()
		}
	}
	if err != nil {
		return 0, a.fail("find a name or subject", err)
	}
	a.words[text] = n
	return n, nil
}

const entryColumns = `e.sequence, e.id, a.name, s.subject, e.at, e.recorded_at, e.print, e.data`

const entryTables = `entries e JOIN entry_names a ON a.n = e.name JOIN entry_subjects s ON s.n = e.subject`

func scanEntry(w ledger.WorkspaceID) func(*native.Stmt) ledger.Entry {
	return func(s *native.Stmt) ledger.Entry {
		e := ledger.Entry{Workspace: w, Sequence: s.ColInt(0), Name: s.ColText(2), Subject: s.ColText(3),
			Timestamp: s.ColTime(4), Recorded: s.ColTime(5), Data: s.ColBlob(7)}
		var id [16]byte
		s.ColBytes(1, id[:])
		s.ColBytes(6, e.Print[:])
		e.ID = entryID(id[:])
		return e
	}
}

func (t entries) Get(w ledger.WorkspaceID, id ledger.EntryID) (ledger.Entry, error) {
	const query = `SELECT ` + entryColumns + ` FROM ` + entryTables + ` WHERE e.workspace = (SELECT n FROM workspaces WHERE id = ?) AND e.id = ?`
	return single(t.tx, "read entry", t.prepare(query).Text(string(w)).Blob(uuid(id)), scanEntry(w), noEntry)
}

func (t entries) List(w ledger.WorkspaceID, f store.EntryFilter) ([]ledger.Entry, error) {
	if len(f.Names) == 0 && f.Subject == "" {
		const query = `SELECT ` + entryColumns + ` FROM ` + entryTables + `
			WHERE e.workspace = (SELECT n FROM workspaces WHERE id = ?) AND e.sequence > ? ORDER BY e.sequence LIMIT ?`
		return list(t.tx, "list entries", t.prepare(query).Text(string(w)).Int(f.After).Int(int64(f.Limit)), scanEntry(w))
	}
	keys, err := t.chosen(w, f)
	if err != nil {
		return nil, err
	}
	const query = `SELECT ` + entryColumns + ` FROM ` + entryTables + ` WHERE e.n = ?`
	var out []ledger.Entry
	for _, n := range keys {
		e, err := single(t.tx, "read entry", t.prepare(query).Int(n), scanEntry(w), noEntry)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// chosen returns the keys of the entries that f chooses: of each name as many as are asked for, from an index, and of
// those the lowest.
func (t entries) chosen(w ledger.WorkspaceID, f store.EntryFilter) (keys []int64, err error) {
	const from = `SELECT n FROM entries WHERE workspace = (SELECT n FROM workspaces WHERE id = ?) AND sequence <= ?
		ORDER BY sequence DESC LIMIT 1`
	after, err := t.count("find position", t.prepare(from).Text(string(w)).Int(f.After))
	if err != nil {
		return nil, err
	}
	subject := int64(0)
	if f.Subject != "" {
		const query = `SELECT s.n FROM workspaces w JOIN entry_subjects s ON s.workspace = w.n WHERE w.id = ? AND s.subject = ?`
		if subject, err = t.count("find subject", t.prepare(query).Text(string(w)).Text(f.Subject)); err != nil || subject == 0 {
			return nil, err
		}
	}
	names, err := t.names(w, f.Names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		const byName = `SELECT n FROM entries WHERE name = ? AND n > ? ORDER BY n LIMIT ?`
		const bySubject = `SELECT n FROM entries WHERE subject = ? AND name = ? AND n > ? ORDER BY n LIMIT ?`
		s := t.prepare(byName)
		if subject != 0 {
			s = t.prepare(bySubject).Int(subject)
		}
		some, err := list(t.tx, "choose entries", s.Int(name).Int(after).Int(int64(f.Limit)), func(s *native.Stmt) int64 { return s.ColInt(0) })
		if err != nil {
			return nil, err
		}
		keys = append(keys, some...)
	}
	slices.Sort(keys)
	return keys[:min(len(keys), f.Limit)], nil
}

// names returns the keys of the workspace's names, of those wanted unless that is none.
func (t entries) names(w ledger.WorkspaceID, wanted []string) (keys []int64, err error) {
	const query = `SELECT a.name, a.n FROM workspaces w JOIN entry_names a ON a.workspace = w.n WHERE w.id = ?`
	err = t.prepare(query).Text(string(w)).Rows(func(s *native.Stmt) error {
		if len(wanted) == 0 || slices.Contains(wanted, s.ColText(0)) {
			keys = append(keys, s.ColInt(1))
		}
		return nil
	})
	return keys, t.fail("list names", err)
}

func (t entries) Newest(w ledger.WorkspaceID) (int64, error) {
	_, newest, err := t.head(w)
	return newest, err
}

func (t entries) Forget(cutoff time.Time, limit int) (int, error) {
	const remove = `DELETE FROM entries WHERE n IN (SELECT n FROM entries WHERE recorded_at < ? ORDER BY recorded_at LIMIT ?)`
	n, err := t.change(remove).Int(before(cutoff)).Int(int64(limit)).Exec()
	return int(n), t.fail("forget entries", err)
}
