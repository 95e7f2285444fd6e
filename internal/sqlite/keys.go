package sqlite

import (
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
)

type keys struct{ *tx }

func noKey() error { return fault.NotFoundf("there is no such key") }

const keyColumns = `k.id, k.hash, k.name, k.client, k.scope, k.kind, k.display_name, k.created_at, k.last_used_at, k.revoked_at`

func scanKey(m relay.MailboxID) func(*native.Stmt) relay.Key {
	return func(s *native.Stmt) relay.Key {
		k := relay.Key{ID: keyID(s.ColInt(0)), Mailbox: m, Name: s.ColText(2), Client: s.ColText(3), Scope: s.ColText(4),
			Kind: s.ColText(5), DisplayName: s.ColText(6), CreatedAt: s.ColTime(7), LastUsedAt: s.ColTime(8), RevokedAt: s.ColTime(9)}
		s.ColBytes(1, k.Hash[:])
		return k
	}
}

func (t keys) Create(k relay.Key) error {
	const insert = `INSERT INTO keys
		(mailbox, id, hash, name, client, scope, kind, display_name, created_at, last_used_at, revoked_at)
		SELECT n, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM mailboxes WHERE id = ?`
	s := t.change(insert).Int(keyNumber(k.ID))
	if k.Hash == (relay.Hash{}) {
		s.Null()
	} else {
		s.Blob(k.Hash[:])
	}
	n, err := s.Text(k.Name).Text(k.Client).Text(k.Scope).Text(k.Kind).Text(k.DisplayName).
		Time(k.CreatedAt).Time(k.LastUsedAt).Time(k.RevokedAt).Text(string(k.Mailbox)).Exec()
	if isUnique(err) {
		return t.duplicate(k)
	}
	return t.one("create key", n, err, noMailbox)
}

// duplicate tells a taken id from a taken name.
func (t keys) duplicate(k relay.Key) error {
	switch _, err := t.Get(k.Mailbox, k.ID); {
	case err == nil:
		return conflict("the mailbox has a key with that id")
	case fault.Is(err, fault.NotFound):
		return nameTaken("an active key or connector of that name exists; choose another name or revoke it first")
	default:
		return err
	}
}

func (t keys) Get(m relay.MailboxID, id relay.KeyID) (relay.Key, error) {
	const query = `SELECT ` + keyColumns + ` FROM mailboxes m JOIN keys k ON k.mailbox = m.n WHERE m.id = ? AND k.id = ?`
	return single(t.tx, "read key", t.prepare(query).Text(string(m)).Int(keyNumber(id)), scanKey(m), noKey)
}

func (t keys) List(m relay.MailboxID) ([]relay.Key, error) {
	const query = `SELECT ` + keyColumns + ` FROM mailboxes m JOIN keys k ON k.mailbox = m.n
		WHERE m.id = ? ORDER BY k.created_at, k.n`
	return list(t.tx, "list keys", t.prepare(query).Text(string(m)), scanKey(m))
}

func (t keys) CountActive(m relay.MailboxID) (int, error) {
	const query = `SELECT count(*) FROM keys
		WHERE mailbox = (SELECT n FROM mailboxes WHERE id = ?) AND revoked_at IS NULL`
	n, err := t.count("count keys", t.prepare(query).Text(string(m)))
	return int(n), err
}

func (t keys) Revoke(m relay.MailboxID, id relay.KeyID, at time.Time) error {
	const update = `UPDATE keys SET revoked_at = coalesce(revoked_at, ?)
		WHERE mailbox = (SELECT n FROM mailboxes WHERE id = ?) AND id = ?`
	n, err := t.change(update).Time(at).Text(string(m)).Int(keyNumber(id)).Exec()
	return t.one("revoke key", n, err, noKey)
}

func (t keys) Purge(m relay.MailboxID, id relay.KeyID) error {
	b, err := t.box(m)
	if fault.Is(err, fault.NotFound) {
		return noKey()
	}
	if err != nil {
		return err
	}
	const remove = `DELETE FROM keys WHERE mailbox = ? AND id = ?`
	n, err := t.change(remove).Int(b.n).Int(keyNumber(id)).Exec()
	if err := t.one("purge key", n, err, noKey); err != nil {
		return err
	}
	delete(b.rates, keyNumber(id))
	return notifications(t).removeFrom(b, func(l link) bool { return l.key == keyNumber(id) })
}

func (t keys) Touch(m relay.MailboxID, id relay.KeyID, at time.Time) error {
	const update = `UPDATE keys SET last_used_at = ? WHERE mailbox = (SELECT n FROM mailboxes WHERE id = ?) AND id = ?`
	_, err := t.change(update).Time(at).Text(string(m)).Int(keyNumber(id)).Exec()
	return t.fail("touch key", err)
}
