package postgres

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/ledger"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

func (t *tx) Workspaces() store.Workspaces       { return workspaces{t} }
func (t *tx) Members() store.Members             { return members{t} }
func (t *tx) WorkspaceKeys() store.WorkspaceKeys { return workspaceKeys{t} }
func (t *tx) Entries() store.Entries             { return entries{t} }

const workspacePrefix = "ws_"

// workspaceID is a ledger.WorkspaceID that the database keeps as bytes, without its prefix.
type workspaceID string

// ScanBytes implements pgtype.BytesScanner.
func (w *workspaceID) ScanBytes(b []byte) error {
	var h hexText
	err := h.ScanBytes(b)
	*w = workspaceID(workspacePrefix + string(h))
	return err
}

func workspaceBytes(id ledger.WorkspaceID) []byte {
	return idBytes(strings.TrimPrefix(string(id), workspacePrefix))
}

type workspaces struct{ t *tx }

func noWorkspace() error { return fault.NotFoundf("there is no such workspace, or not any more") }

const (
	workspaceColumns = `w.id, w.name, w.mode, w.created_at, w.revision, h.newest`
	workspaceTables  = `workspaces w JOIN workspace_heads h ON h.workspace = w.id`
	getWorkspace     = `SELECT ` + workspaceColumns + `, w.catalog FROM ` + workspaceTables + ` WHERE w.id = $1`
	findWorkspace    = `SELECT ` + workspaceColumns + `, w.catalog FROM ` + workspaceTables + ` WHERE w.name = $1`
	listWorkspaces   = `SELECT ` + workspaceColumns + `, ''::bytea FROM ` + workspaceTables + ` ORDER BY w.created_at, w.place`
)

func scanWorkspace(r pgx.Rows, w *ledger.Workspace) error {
	return r.Scan((*workspaceID)(&w.ID), &w.Name, (*string)(&w.Mode), (*instant)(&w.CreatedAt), &w.Revision, &w.Sequence, &w.Catalog)
}

// An id that exists is a unique violation, which ends the transaction; the name is the everyday case.
const createWorkspace = `
WITH w AS (INSERT INTO workspaces (id, name, mode, created_at, catalog, revision) VALUES ($1, $2, $3, $4, $5, 1)
    ON CONFLICT (name) DO NOTHING RETURNING id)
INSERT INTO workspace_heads (workspace, newest) SELECT id, 0 FROM w`

func (s workspaces) Create(w ledger.Workspace) error {
	q := &query{what: "create workspace", sql: createWorkspace,
		args: []any{workspaceBytes(w.ID), w.Name, string(w.Mode), millis(w.CreatedAt), w.Catalog}}
	if err := s.t.change(directory, q); err != nil {
		return err
	}
	if q.count == 0 {
		return nameTaken("a workspace", w.Name)
	}
	return nil
}

func (s workspaces) find(sql string, by any) (w ledger.Workspace, err error) {
	q := &query{what: "find workspace", sql: sql, args: []any{by}, each: func(r pgx.Rows) error { return scanWorkspace(r, &w) }}
	if err = s.t.readShared(q); err == nil && q.count == 0 {
		err = noWorkspace()
	}
	return w, err
}

func (s workspaces) Get(id ledger.WorkspaceID) (ledger.Workspace, error) {
	return s.find(getWorkspace, workspaceBytes(id))
}

func (s workspaces) ByName(name string) (ledger.Workspace, error) {
	if !storable(name) {
		return ledger.Workspace{}, noWorkspace()
	}
	return s.find(findWorkspace, name)
}

func (s workspaces) List() (out []ledger.Workspace, err error) {
	return out, s.t.readShared(&query{what: "list workspaces", sql: listWorkspaces, each: list(&out, scanWorkspace)})
}

const setCatalog = `UPDATE workspaces SET catalog = $3, revision = revision + 1 WHERE id = $1 AND revision = $2`

func (s workspaces) SetCatalog(id ledger.WorkspaceID, catalog []byte, revision int64) (int64, error) {
	q := &query{what: "set catalog", sql: setCatalog, args: []any{workspaceBytes(id), revision, catalog}}
	if err := s.t.change(directory, q); err != nil {
		return 0, err
	}
	if q.count == 0 {
		if _, err := s.Get(id); err != nil {
			return 0, err
		}
		return 0, fault.New(fault.Conflict, "conflict", "the catalog has changed since it was read")
	}
	return revision + 1, nil
}

type members struct{ t *tx }

func noMember() error { return fault.NotFoundf("that person is no member of that workspace") }

const (
	addMember = `
INSERT INTO members (workspace, person, joined_at, chosen)
SELECT w.id, p.id, $3, false FROM workspaces w, people p WHERE w.id = $1 AND p.id = $2
ON CONFLICT (workspace, person) DO NOTHING`
	isMember    = `SELECT 1 FROM members WHERE workspace = $1 AND person = $2`
	listMembers = `
SELECT m.workspace, m.person, m.joined_at,
    m.place = (SELECT o.place FROM members o WHERE o.person = m.person ORDER BY o.chosen DESC, o.place LIMIT 1)
FROM members m WHERE m.workspace = $1 ORDER BY m.place`
	listMemberships = `
SELECT workspace, person, joined_at, false FROM members WHERE person = $1 ORDER BY chosen DESC, place`
	choosePrimary = `UPDATE members SET chosen = (workspace = $1) WHERE person = $2 AND chosen <> (workspace = $1)`
	removeMember  = `DELETE FROM members WHERE workspace = $1 AND person = $2`
)

func scanMember(r pgx.Rows, m *ledger.Member) error {
	return r.Scan((*workspaceID)(&m.Workspace), (*hexText)(&m.Person), (*instant)(&m.JoinedAt), &m.Primary)
}

// is reports whether somebody is a member.
func (s members) is(w ledger.WorkspaceID, p relay.PersonID) (bool, error) {
	q := &query{what: "find member", sql: isMember, args: []any{workspaceBytes(w), idBytes(p)}}
	err := s.t.readShared(q)
	return q.count > 0, err
}

func (s members) Add(m ledger.Member) error {
	q := &query{what: "add member", sql: addMember, args: []any{workspaceBytes(m.Workspace), idBytes(m.Person), millis(m.JoinedAt)}}
	if err := s.t.change(directory, q); err != nil || q.count > 0 {
		return err
	}
	switch is, err := s.is(m.Workspace, m.Person); {
	case err != nil:
		return err
	case is:
		return fault.New(fault.Conflict, "conflict", "that person is a member already")
	}
	return fault.NotFoundf("there is no such workspace or person")
}

func (s members) List(w ledger.WorkspaceID) (out []ledger.Member, err error) {
	return out, s.t.readShared(&query{what: "list members", sql: listMembers, args: []any{workspaceBytes(w)}, each: list(&out, scanMember)})
}

func (s members) Of(p relay.PersonID) (out []ledger.Member, err error) {
	err = s.t.readShared(&query{what: "list memberships", sql: listMemberships, args: []any{idBytes(p)}, each: list(&out, scanMember)})
	if len(out) > 0 {
		out[0].Primary = true
	}
	return out, err
}

func (s members) SetPrimary(w ledger.WorkspaceID, p relay.PersonID) error {
	if is, err := s.is(w, p); err != nil {
		return err
	} else if !is {
		return noMember()
	}
	return s.t.change(directory, &query{what: "choose workspace", sql: choosePrimary, args: []any{workspaceBytes(w), idBytes(p)}})
}

func (s members) Remove(w ledger.WorkspaceID, p relay.PersonID) error {
	q := &query{what: "remove member", sql: removeMember, args: []any{workspaceBytes(w), idBytes(p)}}
	if err := s.t.change(directory, q); err != nil || q.count > 0 {
		return err
	}
	return noMember()
}

type workspaceKeys struct{ t *tx }

const workspaceKeyColumns = `workspace, id, hash, name, created_at, last_used_at, revoked_at`

func scanWorkspaceKey(r pgx.Rows, k *ledger.Key) error {
	return r.Scan((*workspaceID)(&k.Workspace), (*hexText)(&k.ID), (*hashBytes)(&k.Hash), &k.Name, (*instant)(&k.CreatedAt),
		(*instant)(&k.LastUsedAt), (*instant)(&k.RevokedAt))
}

const (
	createWorkspaceKey = `
INSERT INTO workspace_keys (` + workspaceKeyColumns + `) SELECT id, $2, $3, $4, $5, $6, $7 FROM workspaces WHERE id = $1
ON CONFLICT (workspace, name) WHERE revoked_at IS NULL DO NOTHING`
	getWorkspaceKey   = `SELECT ` + workspaceKeyColumns + ` FROM workspace_keys WHERE workspace = $1 AND id = $2`
	listWorkspaceKeys = `
SELECT ` + workspaceKeyColumns + ` FROM workspace_keys WHERE workspace = $1 ORDER BY created_at, place`
	revokeWorkspaceKey = `
UPDATE workspace_keys SET revoked_at = COALESCE(revoked_at, $3) WHERE workspace = $1 AND id = $2`
	touchWorkspaceKey = `UPDATE workspace_keys SET last_used_at = $3 WHERE workspace = $1 AND id = $2`
)

func (s workspaceKeys) Create(k ledger.Key) error {
	q := &query{what: "create workspace key", sql: createWorkspaceKey, args: []any{workspaceBytes(k.Workspace), idBytes(k.ID),
		k.Hash[:], k.Name, millis(k.CreatedAt), millis(k.LastUsedAt), millis(k.RevokedAt)}}
	if err := s.t.change(directory, q); err != nil || q.count > 0 {
		return err
	}
	if _, err := workspaces(s).Get(k.Workspace); err != nil {
		return err
	}
	return nameTaken("an active key of the workspace", k.Name)
}

func (s workspaceKeys) Get(w ledger.WorkspaceID, id ledger.KeyID) (k ledger.Key, err error) {
	q := &query{what: "get workspace key", sql: getWorkspaceKey, args: []any{workspaceBytes(w), idBytes(id)},
		each: func(r pgx.Rows) error { return scanWorkspaceKey(r, &k) }}
	if err = s.t.readShared(q); err == nil && q.count == 0 {
		err = fault.NotFoundf("the workspace has no such key")
	}
	return k, err
}

func (s workspaceKeys) List(w ledger.WorkspaceID) (out []ledger.Key, err error) {
	return out, s.t.readShared(&query{what: "list workspace keys", sql: listWorkspaceKeys, args: []any{workspaceBytes(w)},
		each: list(&out, scanWorkspaceKey)})
}

func (s workspaceKeys) Revoke(w ledger.WorkspaceID, id ledger.KeyID, at time.Time) error {
	q := &query{what: "revoke workspace key", sql: revokeWorkspaceKey, args: []any{workspaceBytes(w), idBytes(id), millis(at)}}
	if err := s.t.change(directory, q); err != nil || q.count > 0 {
		return err
	}
	return fault.NotFoundf("the workspace has no such key")
}

func (s workspaceKeys) Touch(w ledger.WorkspaceID, id ledger.KeyID, at time.Time) error {
	return s.t.change(directory, &query{what: "touch workspace key", sql: touchWorkspaceKey, args: []any{workspaceBytes(w), idBytes(id), millis(at)}})
}
