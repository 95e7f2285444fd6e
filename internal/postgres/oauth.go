package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

func (t *tx) Clients() store.Clients   { return clients{t} }
func (t *tx) Consents() store.Consents { return consents{t} }
func (t *tx) Grants() store.Grants     { return grants{t} }
func (t *tx) Audit() store.Audit       { return audit{t} }

type clients struct{ t *tx }

const putClient = `
INSERT INTO clients (id, document, name, redirects, auth_method, secret_hash, created_at, fresh_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, redirects = excluded.redirects, auth_method = excluded.auth_method,
    secret_hash = excluded.secret_hash, fresh_until = excluded.fresh_until`

func (s clients) Put(c relay.Client) error {
	redirects := c.Redirects
	if redirects == nil {
		redirects = []string{}
	}
	return s.t.change(directory, &query{what: "put client", sql: putClient, args: []any{string(c.ID), c.ID.IsDocument(), c.Name,
		redirects, c.AuthMethod, optionalHash(c.SecretHash), millis(c.CreatedAt), millis(c.FreshUntil)}})
}

// optionalHash is NULL for no hash.
func optionalHash(h relay.Hash) []byte {
	if h == (relay.Hash{}) {
		return nil
	}
	return h[:]
}

const getClient = `SELECT name, redirects, auth_method, secret_hash, created_at, fresh_until FROM clients WHERE id = $1`

func (s clients) Get(id relay.ClientID) (relay.Client, error) {
	c, hash := relay.Client{ID: id}, []byte(nil)
	q := &query{what: "get client", sql: getClient, args: []any{string(id)},
		each: one(&c.Name, &c.Redirects, &c.AuthMethod, &hash, (*instant)(&c.CreatedAt), (*instant)(&c.FreshUntil))}
	if err := s.t.readShared(q); err != nil {
		return c, err
	}
	if q.count == 0 {
		return c, fault.NotFoundf("there is no such client, or not any more")
	}
	copy(c.SecretHash[:], hash)
	if len(c.Redirects) == 0 {
		c.Redirects = nil
	}
	return c, nil
}

const trimClients = `
DELETE FROM clients WHERE id IN (SELECT c.id FROM clients c WHERE c.document = $1
    AND c.place <= (SELECT place FROM clients WHERE document = $1 ORDER BY place DESC LIMIT 1 OFFSET $2)
    AND NOT EXISTS (SELECT FROM grants g WHERE g.client = c.id)
    AND NOT EXISTS (SELECT FROM consents o WHERE o.client = c.id AND o.status = 'pending')
    ORDER BY c.place LIMIT $3 FOR UPDATE SKIP LOCKED)`

func (s clients) Trim(documents bool, keep, limit int) (int, error) {
	return s.t.sweep(&query{what: "trim clients", sql: trimClients, args: []any{documents, keep, limit}})
}

type grants struct{ t *tx }

const grantColumns = `mailbox, key, client, consent, refresh, scopes, resource, created_at`

const (
	selectGrant = `SELECT ` + grantColumns + `,
    (SELECT count(*) FROM access_tokens a WHERE a.mailbox = g.mailbox AND a.key = g.key) FROM grants g `
	getGrant    = selectGrant + `WHERE mailbox = $1 AND key = $2`
	findRefresh = selectGrant + `WHERE mailbox = $1 AND refresh = $2`
	listGrants  = selectGrant + `WHERE mailbox = $1 ORDER BY created_at, place`
)

func scanGrant(r pgx.Rows, g *relay.Grant) error {
	var scopes string
	err := r.Scan((*hexText)(&g.Mailbox), (*hexText)(&g.Key), (*string)(&g.Client), (*hexText)(&g.Consent), (*hashBytes)(&g.Refresh),
		&scopes, &g.Resource, (*instant)(&g.CreatedAt), &g.Tokens)
	g.Scopes = relay.ParseScopes(scopes)
	return err
}

func noGrant() error { return fault.NotFoundf("there is no such grant, or not any more") }

const createGrant = `
INSERT INTO grants (` + grantColumns + `) SELECT $1, $2, $3, $4, $5, $6, $7, $8
WHERE EXISTS (SELECT FROM keys WHERE mailbox = $1 AND id = $2)`

func (s grants) Create(g relay.Grant) error {
	if err := s.t.exists(g.Mailbox); err != nil {
		return err
	}
	q := &query{what: "create grant", sql: createGrant, args: []any{idBytes(g.Mailbox), idBytes(g.Key), string(g.Client),
		idBytes(g.Consent), g.Refresh[:], g.Scopes.String(), g.Resource, millis(g.CreatedAt)}}
	if err := s.t.change(string(g.Mailbox), q); err != nil {
		return err
	}
	if q.count == 0 {
		return noKey()
	}
	return nil
}

func (s grants) get(m relay.MailboxID, sql string, by []byte) (g relay.Grant, err error) {
	q := &query{what: "get grant", sql: sql, args: []any{idBytes(m), by}, each: func(r pgx.Rows) error { return scanGrant(r, &g) }}
	if err = s.t.read(m, q); err == nil && q.count == 0 {
		err = noGrant()
	}
	return g, err
}

func (s grants) Get(m relay.MailboxID, k relay.KeyID) (relay.Grant, error) {
	return s.get(m, getGrant, idBytes(k))
}

func (s grants) ByRefresh(m relay.MailboxID, refresh relay.Hash) (relay.Grant, error) {
	return s.get(m, findRefresh, refresh[:])
}

func (s grants) List(m relay.MailboxID) (out []relay.Grant, err error) {
	return out, s.t.read(m, &query{what: "list grants", sql: listGrants, args: []any{idBytes(m)}, each: list(&out, scanGrant)})
}

const (
	endGrant = `DELETE FROM grants WHERE mailbox = $1 AND key = $2`
	addToken = `
INSERT INTO access_tokens (mailbox, key, hash, scopes, created_at) SELECT $1, $2, $3, $4, $5
WHERE EXISTS (SELECT FROM grants WHERE mailbox = $1 AND key = $2)`
	trimTokens = `
DELETE FROM access_tokens WHERE hash IN
    (SELECT hash FROM access_tokens WHERE mailbox = $1 AND key = $2 ORDER BY place DESC OFFSET $3)`
	getToken = `SELECT mailbox, key, hash, scopes, created_at FROM access_tokens WHERE hash = $2 AND mailbox = $1`
	endToken = `DELETE FROM access_tokens WHERE hash = $2 AND mailbox = $1`
)

func (s grants) End(m relay.MailboxID, k relay.KeyID) error {
	return s.t.change(string(m), &query{what: "end grant", sql: endGrant, args: []any{idBytes(m), idBytes(k)}})
}

func (s grants) AddToken(a relay.AccessToken, keep int) error {
	args := []any{idBytes(a.Mailbox), idBytes(a.Key)}
	q := &query{what: "add access token", sql: addToken, args: append(args, a.Hash[:], a.Scopes.String(), millis(a.CreatedAt))}
	if err := s.t.change(string(a.Mailbox), q); err != nil {
		return err
	}
	if q.count == 0 {
		return noGrant()
	}
	return s.t.changeLater(string(a.Mailbox), &query{what: "trim access tokens", sql: trimTokens, args: append(args[:2:2], keep)})
}

func (s grants) Token(m relay.MailboxID, hash relay.Hash) (a relay.AccessToken, err error) {
	var scopes string
	q := &query{what: "get access token", sql: getToken, args: []any{idBytes(m), hash[:]}, each: one((*hexText)(&a.Mailbox),
		(*hexText)(&a.Key), (*hashBytes)(&a.Hash), &scopes, (*instant)(&a.CreatedAt))}
	if err = s.t.read(m, q); err == nil && q.count == 0 {
		err = noGrant()
	}
	a.Scopes = relay.ParseScopes(scopes)
	return a, err
}

func (s grants) EndToken(m relay.MailboxID, hash relay.Hash) error {
	return s.t.change(string(m), &query{what: "end access token", sql: endToken, args: []any{idBytes(m), hash[:]}})
}

type audit struct{ t *tx }

const auditColumns = `at, person, mailbox, action, client, client_name, consent, key, by`

const addAudit = `
INSERT INTO audit (` + auditColumns + `) SELECT $1, id, $3, $4, $5, $6, $7, $8, $9 FROM people WHERE id = $2`

func (s audit) Add(e relay.AuditEntry) error {
	q := &query{what: "add audit entry", sql: addAudit, args: []any{millis(e.At), idBytes(e.Person), idBytes(e.Mailbox), e.Action,
		string(e.Client), e.ClientName, optionalID(e.Consent), optionalID(e.Key), e.By}}
	if err := s.t.change(string(e.Mailbox), q); err != nil {
		return err
	}
	if q.count == 0 {
		return fault.NotFoundf("the person of an audit entry does not exist")
	}
	return nil
}

const (
	listAudit = `
SELECT ` + auditColumns + ` FROM audit WHERE person = $1 AND at < $2 ORDER BY at DESC, place DESC LIMIT $3`
	forgetAudit = `
DELETE FROM audit WHERE place IN (SELECT place FROM audit WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`
)

func (s audit) List(p relay.PersonID, before time.Time, limit int) (out []relay.AuditEntry, err error) {
	until := millis(before)
	if !until.Valid {
		until.Int64, until.Valid = 1<<62, true
	}
	return out, s.t.readShared(&query{what: "list audit entries", sql: listAudit, args: []any{idBytes(p), until, limit},
		each: list(&out, scanAudit)})
}

func scanAudit(r pgx.Rows, e *relay.AuditEntry) error {
	return r.Scan((*instant)(&e.At), (*hexText)(&e.Person), (*hexText)(&e.Mailbox), &e.Action, (*string)(&e.Client), &e.ClientName,
		(*hexText)(&e.Consent), (*hexText)(&e.Key), &e.By)
}

func (s audit) Forget(cutoff time.Time, limit int) (int, error) {
	return s.t.sweep(&query{what: "forget audit entries", sql: forgetAudit, args: []any{millis(cutoff), limit}})
}
