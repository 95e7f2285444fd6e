package sqlite

import (
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
)

type consents struct{ *tx }

func noConsent() error { return fault.NotFoundf("there is no such request") }

const consentColumns = `id, client, client_name, flow, scopes, status, code, user_code, secret, redirect, state, challenge,
	issuer, resource, attempts, interval, polled_at, created_at, expires_at, decided_at, collected_at, key, announced`

func scanConsent(s *native.Stmt) relay.Consent {
	c := relay.Consent{ID: relay.ConsentID(s.ColText(0)), Client: relay.ClientID(s.ColText(1)), ClientName: s.ColText(2),
		Flow: s.ColText(3), Scopes: relay.ParseScopes(s.ColText(4)), Status: relay.ConsentStatus(s.ColText(5)), Code: s.ColText(6),
		UserCode: s.ColText(7), Redirect: s.ColText(9), State: s.ColText(10), Challenge: s.ColText(11), Issuer: s.ColText(12),
		Resource: s.ColText(13), Attempts: int(s.ColInt(14)), Interval: time.Duration(s.ColInt(15)) * time.Millisecond,
		PolledAt: s.ColTime(16), CreatedAt: s.ColTime(17), ExpiresAt: s.ColTime(18), DecidedAt: s.ColTime(19),
		CollectedAt: s.ColTime(20), Key: optKeyID(s, 21)}
	s.ColBytes(8, c.Secret[:])
	for id := range strings.FieldsSeq(s.ColText(22)) {
		c.Announced = append(c.Announced, relay.DeviceID(id))
	}
	return c
}

func announced(c relay.Consent) string {
	var b strings.Builder
	for _, id := range c.Announced {
		b.WriteString(string(id) + " ")
	}
	return b.String()
}

func (t consents) Create(c relay.Consent) error {
	const insert = `INSERT INTO consents (mailbox, ` + consentColumns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	s := t.change(insert).Text(string(c.ID.Mailbox())).Text(string(c.ID)).Text(string(c.Client)).Text(c.ClientName).Text(c.Flow).
		Text(c.Scopes.String()).Text(string(c.Status)).Text(c.Code).Text(c.UserCode).Blob(c.Secret[:]).Text(c.Redirect).
		Text(c.State).Text(c.Challenge).Text(c.Issuer).Text(c.Resource).Int(int64(c.Attempts)).Int(c.Interval.Milliseconds()).
		Time(c.PolledAt).Time(c.CreatedAt).Time(c.ExpiresAt).Time(c.DecidedAt).Time(c.CollectedAt)
	_, err := optKey(s, c.Key).Text(announced(c)).Exec()
	return t.failed("create request", err, func() error { return conflict("that request exists") })
}

func (t consents) Save(c relay.Consent) error {
	const update = `UPDATE consents SET status = ?, code = ?, user_code = ?, secret = ?, attempts = ?, interval = ?,
		polled_at = ?, created_at = ?, expires_at = ?, decided_at = ?, collected_at = ?, key = ?, announced = ? WHERE id = ?`
	s := t.change(update).Text(string(c.Status)).Text(c.Code).Text(c.UserCode).Blob(c.Secret[:]).Int(int64(c.Attempts)).
		Int(c.Interval.Milliseconds()).Time(c.PolledAt).Time(c.CreatedAt).Time(c.ExpiresAt).Time(c.DecidedAt).Time(c.CollectedAt)
	n, err := optKey(s, c.Key).Text(announced(c)).Text(string(c.ID)).Exec()
	if isUnique(err) {
		return conflict("another request has that code")
	}
	return t.one("save request", n, err, noConsent)
}

func (t consents) Get(id relay.ConsentID) (relay.Consent, error) {
	const query = `SELECT ` + consentColumns + ` FROM consents WHERE id = ?`
	return single(t.tx, "read request", t.prepare(query).Text(string(id)), scanConsent, noConsent)
}

func (t consents) BySecret(m relay.MailboxID, secret relay.Hash) (relay.Consent, error) {
	const query = `SELECT ` + consentColumns + ` FROM consents WHERE mailbox = ? AND secret = ?`
	return single(t.tx, "find request", t.prepare(query).Text(string(m)).Blob(secret[:]), scanConsent, noConsent)
}

func (t consents) ByUserCode(code string) (relay.Consent, error) {
	const query = `SELECT ` + consentColumns + ` FROM consents WHERE user_code = ? AND status = 'pending' AND user_code <> ''`
	return single(t.tx, "find request by user code", t.prepare(query).Text(code), scanConsent, noConsent)
}

func (t consents) List(m relay.MailboxID, since time.Time, limit int) ([]relay.Consent, error) {
	const query = `SELECT ` + consentColumns + ` FROM consents WHERE mailbox = ? AND created_at > ?
		ORDER BY created_at DESC, n DESC LIMIT ?`
	return list(t.tx, "list requests", t.prepare(query).Text(string(m)).Int(since.UnixMilli()).Int(int64(limit)), scanConsent)
}

func (t consents) Pending(m relay.MailboxID) ([]relay.Consent, error) {
	const query = `SELECT ` + consentColumns + ` FROM consents WHERE mailbox = ? AND status = 'pending' ORDER BY created_at, n`
	return list(t.tx, "list pending requests", t.prepare(query).Text(string(m)), scanConsent)
}

func (t consents) Overdue(now time.Time, limit int) ([]relay.Consent, error) {
	const query = `SELECT ` + consentColumns + ` FROM consents WHERE status = 'pending' AND expires_at <= ? ORDER BY expires_at LIMIT ?`
	return list(t.tx, "list overdue requests", t.prepare(query).Int(now.UnixMilli()).Int(int64(limit)), scanConsent)
}

func (t consents) Uncollected(cutoff time.Time, limit int) ([]relay.Consent, error) {
	const query = `SELECT ` + consentColumns + ` FROM consents c WHERE status = 'approved' AND collected_at IS NULL AND decided_at < ?
		AND EXISTS (SELECT 1 FROM mailboxes m JOIN grants g ON g.mailbox = m.n WHERE m.id = c.mailbox AND g.key = c.key)
		ORDER BY decided_at LIMIT ?`
	return list(t.tx, "list uncollected approvals", t.prepare(query).Int(before(cutoff)).Int(int64(limit)), scanConsent)
}

func (t consents) Forget(cutoff time.Time, limit int) (int, error) {
	const remove = `DELETE FROM consents WHERE n IN (SELECT n FROM consents WHERE created_at < ? ORDER BY created_at LIMIT ?)`
	n, err := t.change(remove).Int(before(cutoff)).Int(int64(limit)).Exec()
	return int(n), t.fail("forget requests", err)
}
