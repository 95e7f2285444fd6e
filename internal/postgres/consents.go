package postgres

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

type consents struct{ t *tx }

func noConsent() error { return fault.NotFoundf("there is no such request, or not any more") }

const consentColumns = `id, client, client_name, flow, scopes, status, code, user_code, secret, redirect, state, challenge, issuer,
    resource, attempts, poll_every, polled_at, created_at, expires_at, decided_at, collected_at, key, announced`

func scanConsent(r pgx.Rows, c *relay.Consent) error {
	var scopes, announced string
	var every int64
	err := r.Scan((*hexText)(&c.ID), (*string)(&c.Client), &c.ClientName, &c.Flow, &scopes, (*string)(&c.Status), &c.Code, &c.UserCode,
		(*hashBytes)(&c.Secret), &c.Redirect, &c.State, &c.Challenge, &c.Issuer, &c.Resource, &c.Attempts, &every,
		(*instant)(&c.PolledAt), (*instant)(&c.CreatedAt), (*instant)(&c.ExpiresAt), (*instant)(&c.DecidedAt),
		(*instant)(&c.CollectedAt), (*hexText)(&c.Key), &announced)
	c.Scopes, c.Interval = relay.ParseScopes(scopes), time.Duration(every)*time.Millisecond
	for id := range strings.FieldsSeq(announced) {
		c.Announced = append(c.Announced, relay.DeviceID(id))
	}
	return err
}

func announced(c relay.Consent) string {
	var b strings.Builder
	for _, id := range c.Announced {
		b.WriteString(string(id) + " ")
	}
	return b.String()
}

const createConsent = `
INSERT INTO consents (mailbox, ` + consentColumns + `)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)
ON CONFLICT DO NOTHING`

func (s consents) Create(c relay.Consent) error {
	m := c.ID.Mailbox()
	q := &query{what: "create request", sql: createConsent, args: []any{idBytes(m), idBytes(c.ID), string(c.Client), c.ClientName,
		c.Flow, c.Scopes.String(), string(c.Status), c.Code, c.UserCode, c.Secret[:], c.Redirect, c.State, c.Challenge, c.Issuer,
		c.Resource, c.Attempts, c.Interval.Milliseconds(), millis(c.PolledAt), millis(c.CreatedAt), millis(c.ExpiresAt),
		millis(c.DecidedAt), millis(c.CollectedAt), optionalID(c.Key), announced(c)}}
	if err := s.t.change(string(m), q); err != nil {
		return err
	}
	if q.count == 0 {
		return fault.New(fault.Conflict, "conflict", "that request exists already")
	}
	return nil
}

const saveConsent = `
UPDATE consents SET status = $2, code = $3, user_code = $4, secret = $5, attempts = $6, poll_every = $7, polled_at = $8,
    created_at = $9, expires_at = $10, decided_at = $11, collected_at = $12, key = $13, announced = $14 WHERE id = $1`

func (s consents) Save(c relay.Consent) error {
	q := &query{what: "save request", sql: saveConsent, args: []any{idBytes(c.ID), string(c.Status), c.Code, c.UserCode, c.Secret[:],
		c.Attempts, c.Interval.Milliseconds(), millis(c.PolledAt), millis(c.CreatedAt), millis(c.ExpiresAt), millis(c.DecidedAt),
		millis(c.CollectedAt), optionalID(c.Key), announced(c)}}
	if err := s.t.change(string(c.ID.Mailbox()), q); err != nil {
		return err
	}
	if q.count == 0 {
		return noConsent()
	}
	return nil
}

const (
	getConsent   = `SELECT ` + consentColumns + ` FROM consents WHERE id = $1`
	findConsent  = `SELECT ` + consentColumns + ` FROM consents WHERE mailbox = $1 AND secret = $2`
	findUserCode = `SELECT ` + consentColumns + ` FROM consents WHERE user_code = $1 AND status = 'pending' AND user_code <> ''`
	listConsents = `
SELECT ` + consentColumns + ` FROM consents WHERE mailbox = $1 AND created_at > $2 ORDER BY created_at DESC, place DESC LIMIT $3`
	pendingConsents = `
SELECT ` + consentColumns + ` FROM consents WHERE mailbox = $1 AND status = 'pending' ORDER BY created_at, place`
	overdueConsents = `
SELECT ` + consentColumns + ` FROM consents WHERE status = 'pending' AND expires_at <= $1 ORDER BY expires_at LIMIT $2`
	uncollectedConsents = `
SELECT ` + consentColumns + ` FROM consents c WHERE status = 'approved' AND collected_at IS NULL AND decided_at < $1
    AND EXISTS (SELECT FROM grants g WHERE g.mailbox = c.mailbox AND g.key = c.key) ORDER BY decided_at LIMIT $2`
	forgetConsents = `
DELETE FROM consents WHERE id IN (SELECT id FROM consents WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)`
)

func (s consents) one(scope string, q *query) (c relay.Consent, err error) {
	q.each = func(r pgx.Rows) error { return scanConsent(r, &c) }
	if err = s.t.ask(scope, []*query{q}); err == nil && q.count == 0 {
		err = noConsent()
	}
	return c, err
}

func (s consents) Get(id relay.ConsentID) (relay.Consent, error) {
	return s.one(string(id.Mailbox()), &query{what: "get request", sql: getConsent, args: []any{idBytes(id)}})
}

func (s consents) BySecret(m relay.MailboxID, secret relay.Hash) (relay.Consent, error) {
	return s.one(string(m), &query{what: "find request", sql: findConsent, args: []any{idBytes(m), secret[:]}})
}

func (s consents) ByUserCode(code string) (relay.Consent, error) {
	return s.one(directory, &query{what: "find request by user code", sql: findUserCode, args: []any{code}})
}

func (s consents) List(m relay.MailboxID, since time.Time, limit int) (out []relay.Consent, err error) {
	return out, s.t.read(m, &query{what: "list requests", sql: listConsents, args: []any{idBytes(m), since.UnixMilli(), limit},
		each: list(&out, scanConsent)})
}

func (s consents) Pending(m relay.MailboxID) (out []relay.Consent, err error) {
	return out, s.t.read(m, &query{what: "list pending requests", sql: pendingConsents, args: []any{idBytes(m)}, each: list(&out, scanConsent)})
}

func (s consents) Overdue(now time.Time, limit int) (out []relay.Consent, err error) {
	return out, s.t.readShared(&query{what: "list overdue requests", sql: overdueConsents, args: []any{millis(now), limit},
		each: list(&out, scanConsent)})
}

func (s consents) Uncollected(cutoff time.Time, limit int) (out []relay.Consent, err error) {
	return out, s.t.readShared(&query{what: "list uncollected approvals", sql: uncollectedConsents, args: []any{millis(cutoff), limit},
		each: list(&out, scanConsent)})
}

func (s consents) Forget(cutoff time.Time, limit int) (int, error) {
	return s.t.sweep(&query{what: "forget requests", sql: forgetConsents, args: []any{millis(cutoff), limit}})
}
