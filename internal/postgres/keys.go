package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

type keys struct{ t *tx }

const keyColumns = `mailbox, id, hash, name, client, scope, kind, display_name, created_at, last_used_at, revoked_at`

func scanKey(rows pgx.Rows, k *relay.Key) error {
	return rows.Scan((*hexText)(&k.Mailbox), (*hexText)(&k.ID), (*hashBytes)(&k.Hash), &k.Name, &k.Client, &k.Scope, &k.Kind,
		&k.DisplayName, (*instant)(&k.CreatedAt), (*instant)(&k.LastUsedAt), (*instant)(&k.RevokedAt))
}

func noKey() error { return fault.NotFoundf("the mailbox has no such key, or not any more") }

// A key with an id that exists is a unique violation, which ends the transaction; the name is the everyday case.
const createKey = `
INSERT INTO keys (` + keyColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (mailbox, name) WHERE revoked_at IS NULL DO NOTHING`

func (s keys) Create(k relay.Key) error {
	if err := s.t.exists(k.Mailbox); err != nil {
		return err
	}
	q := &query{what: "create key", sql: createKey, args: []any{idBytes(k.Mailbox), idBytes(k.ID), k.Hash[:], k.Name, k.Client,
		k.Scope, k.Kind, k.DisplayName, millis(k.CreatedAt), millis(k.LastUsedAt), millis(k.RevokedAt)}}
	if err := s.t.change(string(k.Mailbox), q); err != nil {
		return err
	}
	if q.count == 0 {
		return nameTaken("an active key", k.Name)
	}
	return nil
}

const getKey = `SELECT ` + keyColumns + ` FROM keys WHERE mailbox = $1 AND id = $2`

func (s keys) Get(m relay.MailboxID, id relay.KeyID) (k relay.Key, err error) {
	q := &query{what: "get key", sql: getKey, args: []any{idBytes(m), idBytes(id)}, each: func(r pgx.Rows) error { return scanKey(r, &k) }}
	if err = s.t.read(m, q); err == nil && q.count == 0 {
		err = noKey()
	}
	return k, err
}

const listKeys = `SELECT ` + keyColumns + ` FROM keys WHERE mailbox = $1 ORDER BY created_at, place`

func (s keys) List(m relay.MailboxID) (out []relay.Key, err error) {
	return out, s.t.read(m, &query{what: "list keys", sql: listKeys, args: []any{idBytes(m)}, each: list(&out, scanKey)})
}

const countKeys = `SELECT count(*) FROM keys WHERE mailbox = $1 AND revoked_at IS NULL`

func (s keys) CountActive(m relay.MailboxID) (n int, err error) {
	return n, s.t.read(m, &query{what: "count keys", sql: countKeys, args: []any{idBytes(m)}, each: one(&n)})
}

const revokeKey = `UPDATE keys SET revoked_at = COALESCE(revoked_at, $3) WHERE mailbox = $1 AND id = $2`

func (s keys) Revoke(m relay.MailboxID, id relay.KeyID, at time.Time) error {
	q := &query{what: "revoke key", sql: revokeKey, args: []any{idBytes(m), idBytes(id), millis(at)}}
	if err := s.t.change(string(m), q); err != nil {
		return err
	}
	if q.count == 0 {
		return noKey()
	}
	return nil
}

const purgeKey = `
WITH k AS (DELETE FROM keys WHERE mailbox = $1 AND id = $2 RETURNING id),
n AS (DELETE FROM notifications WHERE mailbox = $1 AND key IN (SELECT id FROM k) RETURNING waiting)
SELECT (SELECT count(*) FROM k), (SELECT count(*) FROM n WHERE waiting)`

func (s keys) Purge(m relay.MailboxID, id relay.KeyID) error {
	u, err := s.t.owner(string(m))
	if err != nil {
		return err
	}
	b, err := u.ownBox(m)
	if err != nil {
		return err
	}
	var gone, waiting int64
	err = u.ask(&step{queries: []*query{{what: "purge key", sql: purgeKey, args: []any{idBytes(m), idBytes(id)}, writes: true,
		each: one(&gone, &waiting)}}})
	if err != nil {
		return err
	}
	u.learned = learned{}
	u.addWaiting(b, -waiting)
	if gone == 0 {
		return noKey()
	}
	return nil
}

const touchKey = `UPDATE keys SET last_used_at = $3 WHERE mailbox = $1 AND id = $2`

func (s keys) Touch(m relay.MailboxID, id relay.KeyID, at time.Time) error {
	return s.t.changeLater(string(m), &query{what: "touch key", sql: touchKey, args: []any{idBytes(m), idBytes(id), millis(at)}})
}
