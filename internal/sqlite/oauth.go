package sqlite

import (
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

func (t *tx) Clients() store.Clients   { return clients{t} }
func (t *tx) Consents() store.Consents { return consents{t} }
func (t *tx) Grants() store.Grants     { return grants{t} }
func (t *tx) Audit() store.Audit       { return audit{t} }

type clients struct{ *tx }

func noClient() error { return fault.NotFoundf("there is no such client") }

func (t clients) Put(c relay.Client) error {
	const insert = `INSERT INTO clients (id, document, name, redirects, auth_method, secret_hash, created_at, fresh_until)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, redirects = excluded.redirects,
		auth_method = excluded.auth_method, secret_hash = excluded.secret_hash, fresh_until = excluded.fresh_until`
	s := t.change(insert).Text(string(c.ID)).Bool(c.ID.IsDocument()).Text(c.Name).Text(strings.Join(c.Redirects, "\n")).Text(c.AuthMethod)
	optHash(s, c.SecretHash)
	_, err := s.Time(c.CreatedAt).Time(c.FreshUntil).Exec()
	return t.fail("put client", err)
}

// optHash binds a hash, or NULL for none.
func optHash(s *native.Stmt, h relay.Hash) {
	if h == (relay.Hash{}) {
		s.Null()
		return
	}
	s.Blob(h[:])
}

func (t clients) Get(id relay.ClientID) (relay.Client, error) {
	const query = `SELECT name, redirects, auth_method, secret_hash, created_at, fresh_until FROM clients WHERE id = ?`
	return single(t.tx, "read client", t.prepare(query).Text(string(id)), func(s *native.Stmt) relay.Client {
		c := relay.Client{ID: id, Name: s.ColText(0), AuthMethod: s.ColText(2), CreatedAt: s.ColTime(4), FreshUntil: s.ColTime(5)}
		if text := s.ColText(1); text != "" {
			c.Redirects = strings.Split(text, "\n")
		}
		s.ColBytes(3, c.SecretHash[:])
		return c
	}, noClient)
}

func (t clients) Trim(documents bool, keep, limit int) (int, error) {
	const remove = `DELETE FROM clients WHERE n IN (SELECT c.n FROM clients c WHERE c.document = ?
		AND c.n <= (SELECT n FROM clients WHERE document = ? ORDER BY n DESC LIMIT 1 OFFSET ?)
		AND NOT EXISTS (SELECT 1 FROM grants g WHERE g.client = c.id)
		AND NOT EXISTS (SELECT 1 FROM consents o WHERE o.client = c.id AND o.status = 'pending')
		ORDER BY c.n LIMIT ?)`
	n, err := t.change(remove).Bool(documents).Bool(documents).Int(int64(keep)).Int(int64(limit)).Exec()
	return int(n), t.fail("trim clients", err)
}

type grants struct{ *tx }

func noGrant() error { return fault.NotFoundf("there is no such grant") }

const (
	grantColumns = `m.id, g.key, g.client, g.consent, g.refresh, g.scopes, g.resource, g.created_at,
		(SELECT count(*) FROM access_tokens a WHERE a.grant = g.n)`
	grantTables = `mailboxes m JOIN grants g ON g.mailbox = m.n`
)

func scanGrant(s *native.Stmt) relay.Grant {
	g := relay.Grant{Mailbox: relay.MailboxID(s.ColText(0)), Key: keyID(s.ColInt(1)), Client: relay.ClientID(s.ColText(2)),
		Consent: relay.ConsentID(s.ColText(3)), Scopes: relay.ParseScopes(s.ColText(5)), Resource: s.ColText(6),
		CreatedAt: s.ColTime(7), Tokens: int(s.ColInt(8))}
	s.ColBytes(4, g.Refresh[:])
	return g
}

func (t grants) Create(g relay.Grant) error {
	const insert = `INSERT INTO grants (mailbox, key, client, consent, refresh, scopes, resource, created_at)
		SELECT k.mailbox, k.id, ?, ?, ?, ?, ?, ? FROM mailboxes m JOIN keys k ON k.mailbox = m.n WHERE m.id = ? AND k.id = ?`
	n, err := t.change(insert).Text(string(g.Client)).Text(string(g.Consent)).Blob(g.Refresh[:]).Text(g.Scopes.String()).
		Text(g.Resource).Time(g.CreatedAt).Text(string(g.Mailbox)).Int(keyNumber(g.Key)).Exec()
	if isUnique(err) {
		return conflict("the key has a grant")
	}
	return t.one("create grant", n, err, noKey)
}

func (t grants) Get(m relay.MailboxID, k relay.KeyID) (relay.Grant, error) {
	const query = `SELECT ` + grantColumns + ` FROM ` + grantTables + ` WHERE m.id = ? AND g.key = ?`
	return single(t.tx, "read grant", t.prepare(query).Text(string(m)).Int(keyNumber(k)), scanGrant, noGrant)
}

func (t grants) ByRefresh(m relay.MailboxID, refresh relay.Hash) (relay.Grant, error) {
	const query = `SELECT ` + grantColumns + ` FROM ` + grantTables + ` WHERE m.id = ? AND g.refresh = ?`
	return single(t.tx, "find grant", t.prepare(query).Text(string(m)).Blob(refresh[:]), scanGrant, noGrant)
}

func (t grants) List(m relay.MailboxID) ([]relay.Grant, error) {
	const query = `SELECT ` + grantColumns + ` FROM ` + grantTables + ` WHERE m.id = ? ORDER BY g.created_at, g.n`
	return list(t.tx, "list grants", t.prepare(query).Text(string(m)), scanGrant)
}

const grantOf = `(SELECT g.n FROM ` + grantTables + ` WHERE m.id = ? AND g.key = ?)`

func (t grants) End(m relay.MailboxID, k relay.KeyID) error {
	const remove = `DELETE FROM grants WHERE n = ` + grantOf
	_, err := t.change(remove).Text(string(m)).Int(keyNumber(k)).Exec()
	return t.fail("end grant", err)
}

func (t grants) AddToken(a relay.AccessToken, keep int) error {
	const insert = `INSERT INTO access_tokens (grant, hash, scopes, created_at)
		SELECT g.n, ?, ?, ? FROM ` + grantTables + ` WHERE m.id = ? AND g.key = ?`
	n, err := t.change(insert).Blob(a.Hash[:]).Text(a.Scopes.String()).Time(a.CreatedAt).
		Text(string(a.Mailbox)).Int(keyNumber(a.Key)).Exec()
	if isUnique(err) {
		return conflict("that access token exists")
	}
	if err := t.one("add access token", n, err, noGrant); err != nil {
		return err
	}
	const trim = `DELETE FROM access_tokens WHERE n IN
		(SELECT n FROM access_tokens WHERE grant = ` + grantOf + ` ORDER BY n DESC LIMIT -1 OFFSET ?)`
	_, err = t.change(trim).Text(string(a.Mailbox)).Int(keyNumber(a.Key)).Int(int64(keep)).Exec()
	return t.fail("trim access tokens", err)
}

func (t grants) Token(m relay.MailboxID, hash relay.Hash) (relay.AccessToken, error) {
	const query = `SELECT g.key, a.scopes, a.created_at
		FROM access_tokens a JOIN grants g ON g.n = a.grant JOIN mailboxes m ON m.n = g.mailbox WHERE a.hash = ? AND m.id = ?`
	return single(t.tx, "find access token", t.prepare(query).Blob(hash[:]).Text(string(m)), func(s *native.Stmt) relay.AccessToken {
		return relay.AccessToken{Mailbox: m, Key: keyID(s.ColInt(0)), Hash: hash, Scopes: relay.ParseScopes(s.ColText(1)), CreatedAt: s.ColTime(2)}
	}, noGrant)
}

func (t grants) EndToken(m relay.MailboxID, hash relay.Hash) error {
	const remove = `DELETE FROM access_tokens WHERE hash = ? AND grant IN (SELECT g.n FROM ` + grantTables + ` WHERE m.id = ?)`
	_, err := t.change(remove).Blob(hash[:]).Text(string(m)).Exec()
	return t.fail("end access token", err)
}

type audit struct{ *tx }

func (t audit) Add(e relay.AuditEntry) error {
	const insert = `INSERT INTO audit (person, mailbox, at, action, client, client_name, consent, key, by)
		SELECT n, ?, ?, ?, ?, ?, ?, ?, ? FROM people WHERE id = ?`
	s := t.change(insert).Text(string(e.Mailbox)).Time(e.At).Text(e.Action).Text(string(e.Client)).Text(e.ClientName).Text(string(e.Consent))
	n, err := optKey(s, e.Key).Text(e.By).Text(string(e.Person)).Exec()
	return t.one("add audit entry", n, err, noPerson)
}

// optKey binds a key's id, or NULL for none.
func optKey(s *native.Stmt, k relay.KeyID) *native.Stmt {
	if k == "" {
		return s.Null()
	}
	return s.Int(keyNumber(k))
}

// optKeyID reads what optKey wrote.
func optKeyID(s *native.Stmt, i int) relay.KeyID {
	if s.ColNull(i) {
		return ""
	}
	return keyID(s.ColInt(i))
}

func (t audit) List(p relay.PersonID, before time.Time, limit int) ([]relay.AuditEntry, error) {
	const query = `SELECT a.mailbox, a.at, a.action, a.client, a.client_name, a.consent, a.key, a.by
		FROM people p JOIN audit a ON a.person = p.n WHERE p.id = ? AND a.at < ? ORDER BY a.at DESC, a.n DESC LIMIT ?`
	return list(t.tx, "list audit entries", t.prepare(query).Text(string(p)).Int(untilMillis(before)).Int(int64(limit)),
		func(s *native.Stmt) relay.AuditEntry {
			return relay.AuditEntry{Person: p, Mailbox: relay.MailboxID(s.ColText(0)), At: s.ColTime(1), Action: s.ColText(2),
				Client: relay.ClientID(s.ColText(3)), ClientName: s.ColText(4), Consent: relay.ConsentID(s.ColText(5)),
				Key: optKeyID(s, 6), By: s.ColText(7)}
		})
}

// untilMillis is before for a bound that may be absent.
func untilMillis(t time.Time) int64 {
	if t.IsZero() {
		return 1 << 62
	}
	return before(t)
}

func (t audit) Forget(cutoff time.Time, limit int) (int, error) {
	const remove = `DELETE FROM audit WHERE n IN (SELECT n FROM audit WHERE at < ? ORDER BY at LIMIT ?)`
	n, err := t.change(remove).Int(before(cutoff)).Int(int64(limit)).Exec()
	return int(n), t.fail("forget audit entries", err)
}
