package sqlite

import (
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/ledger"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

func (t *tx) Workspaces() store.Workspaces       { return workspaces{t} }
func (t *tx) Members() store.Members             { return members{t} }
func (t *tx) WorkspaceKeys() store.WorkspaceKeys { return workspaceKeys{t} }
func (t *tx) Entries() store.Entries             { return entries{t} }

type workspaces struct{ *tx }

func noWorkspace() error { return fault.NotFoundf("there is no such workspace") }

const workspaceColumns = `w.id, w.name, w.mode, w.created_at, w.revision, h.newest`

const workspaceTables = `workspaces w JOIN workspace_heads h ON h.workspace = w.n`

func scanWorkspace(s *native.Stmt) ledger.Workspace {
	return ledger.Workspace{ID: ledger.WorkspaceID(s.ColText(0)), Name: s.ColText(1), Mode: ledger.Mode(s.ColText(2)),
		CreatedAt: s.ColTime(3), Revision: s.ColInt(4), Sequence: s.ColInt(5)}
}

func scanWholeWorkspace(s *native.Stmt) ledger.Workspace {
	w := scanWorkspace(s)
	w.Catalog = s.ColBlob(6)
	return w
}

func (t workspaces) Create(w ledger.Workspace) error {
	const insert = `INSERT INTO workspaces (id, name, mode, created_at, catalog, revision) VALUES (?, ?, ?, ?, ?, 1)`
	_, err := t.change(insert).Text(string(w.ID)).Text(w.Name).Text(string(w.Mode)).Time(w.CreatedAt).Blob(w.Catalog).Exec()
	if err != nil {
		return t.failed("create workspace", err, func() error {
			if _, err := t.ByName(w.Name); !fault.Is(err, fault.NotFound) {
				return orElse(err, nameTaken("a workspace of that name exists"))
			}
			return conflict("a workspace with that id exists")
		})
	}
	const head = `INSERT INTO workspace_heads (workspace, newest) VALUES (?, 0)`
	_, err = t.change(head).Int(t.c.LastInsertID()).Exec()
	return t.fail("create workspace", err)
}

func (t workspaces) Get(id ledger.WorkspaceID) (ledger.Workspace, error) {
	const query = `SELECT ` + workspaceColumns + `, w.catalog FROM ` + workspaceTables + ` WHERE w.id = ?`
	return single(t.tx, "read workspace", t.prepare(query).Text(string(id)), scanWholeWorkspace, noWorkspace)
}

func (t workspaces) ByName(name string) (ledger.Workspace, error) {
	const query = `SELECT ` + workspaceColumns + `, w.catalog FROM ` + workspaceTables + ` WHERE w.name = ?`
	return single(t.tx, "find workspace", t.prepare(query).Text(name), scanWholeWorkspace, noWorkspace)
}

func (t workspaces) List() ([]ledger.Workspace, error) {
	const query = `SELECT ` + workspaceColumns + ` FROM ` + workspaceTables + ` ORDER BY w.created_at, w.n`
	return list(t.tx, "list workspaces", t.prepare(query), scanWorkspace)
}

func (t workspaces) SetCatalog(id ledger.WorkspaceID, catalog []byte, revision int64) (int64, error) {
	w, err := t.Get(id)
	if err != nil {
		return 0, err
	}
	if w.Revision != revision {
		return 0, conflict("the catalog has changed since it was read")
	}
	const update = `UPDATE workspaces SET catalog = ?, revision = revision + 1 WHERE id = ?`
	n, err := t.change(update).Blob(catalog).Text(string(id)).Exec()
	return revision + 1, t.one("change catalog", n, err, noWorkspace)
}

type members struct{ *tx }

func noMember() error { return fault.NotFoundf("that person is no member of that workspace") }

func (t members) Add(m ledger.Member) error {
	const insert = `INSERT INTO members (workspace, person, joined_at, chosen)
		SELECT w.n, p.n, ?, 0 FROM workspaces w, people p WHERE w.id = ? AND p.id = ?`
	n, err := t.change(insert).Time(m.JoinedAt).Text(string(m.Workspace)).Text(string(m.Person)).Exec()
	if isUnique(err) {
		return conflict("that person is a member already")
	}
	return t.one("add member", n, err, func() error { return fault.NotFoundf("there is no such workspace or person") })
}

// primaryFirst orders a person's memberships. The first of them is the primary one.
const primaryFirst = `chosen DESC, n`

func (t members) List(w ledger.WorkspaceID) ([]ledger.Member, error) {
	const query = `SELECT w.id, p.id, m.joined_at, m.n = (SELECT n FROM members WHERE person = m.person ORDER BY ` + primaryFirst + ` LIMIT 1)
		FROM workspaces w JOIN members m ON m.workspace = w.n JOIN people p ON p.n = m.person WHERE w.id = ? ORDER BY m.n`
	return list(t.tx, "list members", t.prepare(query).Text(string(w)), scanMember)
}

func scanMember(s *native.Stmt) ledger.Member {
	return ledger.Member{Workspace: ledger.WorkspaceID(s.ColText(0)), Person: relay.PersonID(s.ColText(1)),
		JoinedAt: s.ColTime(2), Primary: s.ColBool(3)}
}

func (t members) Of(p relay.PersonID) ([]ledger.Member, error) {
	const query = `SELECT w.id, p.id, m.joined_at, 0
		FROM people p JOIN members m ON m.person = p.n JOIN workspaces w ON w.n = m.workspace WHERE p.id = ? ORDER BY m.chosen DESC, m.n`
	all, err := list(t.tx, "list memberships", t.prepare(query).Text(string(p)), scanMember)
	if len(all) > 0 {
		all[0].Primary = true
	}
	return all, err
}

const memberOf = `person = (SELECT n FROM people WHERE id = ?) AND workspace = (SELECT n FROM workspaces WHERE id = ?)`

func (t members) SetPrimary(w ledger.WorkspaceID, p relay.PersonID) error {
	const choose = `UPDATE members SET chosen = 1 WHERE ` + memberOf
	n, err := t.change(choose).Text(string(p)).Text(string(w)).Exec()
	if err := t.one("choose workspace", n, err, noMember); err != nil {
		return err
	}
	const others = `UPDATE members SET chosen = 0 WHERE chosen AND person = (SELECT n FROM people WHERE id = ?)
		AND workspace <> (SELECT n FROM workspaces WHERE id = ?)`
	_, err = t.change(others).Text(string(p)).Text(string(w)).Exec()
	return t.fail("choose workspace", err)
}

func (t members) Remove(w ledger.WorkspaceID, p relay.PersonID) error {
	const remove = `DELETE FROM members WHERE ` + memberOf
	n, err := t.change(remove).Text(string(p)).Text(string(w)).Exec()
	return t.one("remove member", n, err, noMember)
}

type workspaceKeys struct{ *tx }

const workspaceKeyColumns = `k.id, k.hash, k.name, k.created_at, k.last_used_at, k.revoked_at`

func scanWorkspaceKey(w ledger.WorkspaceID) func(*native.Stmt) ledger.Key {
	return func(s *native.Stmt) ledger.Key {
		k := ledger.Key{ID: ledger.KeyID(keyID(s.ColInt(0))), Workspace: w, Name: s.ColText(2), CreatedAt: s.ColTime(3),
			LastUsedAt: s.ColTime(4), RevokedAt: s.ColTime(5)}
		s.ColBytes(1, k.Hash[:])
		return k
	}
}

// workspaceKeyNumber is keyNumber for the keys of workspaces.
func workspaceKeyNumber(id ledger.KeyID) int64 { return keyNumber(relay.KeyID(id)) }

func (t workspaceKeys) Create(k ledger.Key) error {
	const insert = `INSERT INTO workspace_keys (workspace, id, hash, name, created_at, last_used_at, revoked_at)
		SELECT n, ?, ?, ?, ?, ?, ? FROM workspaces WHERE id = ?`
	n, err := t.change(insert).Int(workspaceKeyNumber(k.ID)).Blob(k.Hash[:]).Text(k.Name).Time(k.CreatedAt).Time(k.LastUsedAt).
		Time(k.RevokedAt).Text(string(k.Workspace)).Exec()
	if isUnique(err) {
		switch _, err := t.Get(k.Workspace, k.ID); {
		case err == nil:
			return conflict("the workspace has a key with that id")
		case fault.Is(err, fault.NotFound):
			return nameTaken("an active key of that name exists; choose another name or revoke it first")
		default:
			return err
		}
	}
	return t.one("create workspace key", n, err, noWorkspace)
}

const workspaceKeyTables = `workspaces w JOIN workspace_keys k ON k.workspace = w.n`

func (t workspaceKeys) Get(w ledger.WorkspaceID, id ledger.KeyID) (ledger.Key, error) {
	const query = `SELECT ` + workspaceKeyColumns + ` FROM ` + workspaceKeyTables + ` WHERE w.id = ? AND k.id = ?`
	return single(t.tx, "read workspace key", t.prepare(query).Text(string(w)).Int(workspaceKeyNumber(id)), scanWorkspaceKey(w), noKey)
}

func (t workspaceKeys) List(w ledger.WorkspaceID) ([]ledger.Key, error) {
	const query = `SELECT ` + workspaceKeyColumns + ` FROM ` + workspaceKeyTables + ` WHERE w.id = ? ORDER BY k.created_at, k.n`
	return list(t.tx, "list workspace keys", t.prepare(query).Text(string(w)), scanWorkspaceKey(w))
}

const workspaceKeyOf = `workspace = (SELECT n FROM workspaces WHERE id = ?) AND id = ?`

func (t workspaceKeys) Revoke(w ledger.WorkspaceID, id ledger.KeyID, at time.Time) error {
	const update = `UPDATE workspace_keys SET revoked_at = coalesce(revoked_at, ?) WHERE ` + workspaceKeyOf
	n, err := t.change(update).Time(at).Text(string(w)).Int(workspaceKeyNumber(id)).Exec()
	return t.one("revoke workspace key", n, err, noKey)
}

func (t workspaceKeys) Touch(w ledger.WorkspaceID, id ledger.KeyID, at time.Time) error {
	const update = `UPDATE workspace_keys SET last_used_at = ? WHERE ` + workspaceKeyOf
	_, err := t.change(update).Time(at).Text(string(w)).Int(workspaceKeyNumber(id)).Exec()
	return t.fail("touch workspace key", err)
}
