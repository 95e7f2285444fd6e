package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

type usage struct{ t *tx }

// Add is merged with the neighbours' and travels with the commit.
func (s usage) Add(m relay.MailboxID, day string, delta relay.Usage) error {
	if s.t.u == nil {
		return errReadOnly
	}
	if err := s.t.u.ownLater(string(m)); err != nil {
		return err
	}
	s.t.u.addUsage(m, day, delta)
	return nil
}

func (u *update) addUsage(m relay.MailboxID, day string, delta relay.Usage) {
	w, k := u.putOff(), usageKey{m, day}
	exists, _ := u.counted.get(k)
	for i := range w.usage {
		if r := &w.usage[i]; r.usageKey == k {
			r.Usage, r.exists = r.Add(delta), exists
			return
		}
	}
	w.usage = append(w.usage, usageRow{k, delta, exists})
}

const getUsage = `
SELECT requests, ws_messages, notifications, poll_seconds, audio_uploads, audio_bytes FROM usage
WHERE mailbox = $1 AND day = $2`

func (s usage) Get(m relay.MailboxID, day string) (v relay.Usage, err error) {
	return v, s.t.read(m, &query{what: "get usage", sql: getUsage, args: []any{idBytes(m), day},
		each: one(&v.Requests, &v.WSMessages, &v.Notifications, &v.PollSeconds, &v.AudioUploads, &v.AudioBytes)})
}

const forgetUsage = `
DELETE FROM usage WHERE (mailbox, day) IN
    (SELECT mailbox, day FROM usage WHERE day < $1 ORDER BY day LIMIT $2 FOR UPDATE SKIP LOCKED)`

func (s usage) Forget(day string, limit int) (int, error) {
	return s.t.sweep(&query{what: "forget usage", sql: forgetUsage, args: []any{day, limit}})
}

type pairing struct{ t *tx }

const codeColumns = `hash, person, mailbox, name, address, created_at, expires_at`

const createCode = `
INSERT INTO pair_codes (` + codeColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (hash) DO NOTHING`

func (s pairing) Create(c relay.PairCode) error {
	q := &query{what: "create pairing code", sql: createCode, args: []any{c.Hash[:], idBytes(c.Person), optionalID(c.Mailbox),
		c.Name, c.Address, millis(c.CreatedAt), millis(c.ExpiresAt)}}
	if err := s.t.change(directory, q); err != nil {
		return err
	}
	if q.count == 0 {
		return fault.New(fault.Conflict, "conflict", "that pairing code exists already")
	}
	return nil
}

const takeCode = `DELETE FROM pair_codes WHERE hash = $1 AND expires_at > $2 RETURNING ` + codeColumns

func (s pairing) Take(h relay.Hash, now time.Time) (c relay.PairCode, err error) {
	q := &query{what: "take pairing code", sql: takeCode, args: []any{h[:], millis(now)}, each: func(r pgx.Rows) error {
		return r.Scan((*hashBytes)(&c.Hash), (*hexText)(&c.Person), (*hexText)(&c.Mailbox), &c.Name, &c.Address,
			(*instant)(&c.CreatedAt), (*instant)(&c.ExpiresAt))
	}}
	if err = s.t.change(directory, q); err == nil && q.count == 0 {
		err = fault.NotFoundf("no such pairing code is valid")
	}
	return c, err
}

const (
	countCodes        = `SELECT count(*) FROM pair_codes WHERE expires_at > $1 AND address <> ''`
	countAddressCodes = `SELECT count(*) FROM pair_codes WHERE expires_at > $1 AND address = $2`
)

func (s pairing) CountWaiting(address string, now time.Time) (n int, err error) {
	q := &query{what: "count pairing codes", sql: countCodes, args: []any{millis(now)}, each: one(&n)}
	if address != "" {
		q.sql, q.args = countAddressCodes, append(q.args, address)
	}
	return n, s.t.readShared(q)
}

const forgetCodes = `
DELETE FROM pair_codes WHERE hash IN
    (SELECT hash FROM pair_codes WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`

func (s pairing) Forget(now time.Time, limit int) (int, error) {
	return s.t.sweep(&query{what: "forget pairing codes", sql: forgetCodes, args: []any{millis(now), limit}})
}

type marks struct{ t *tx }

const addMark = `INSERT INTO marks (kind, subject, at) VALUES ($1, $2, $3)`

func (s marks) Add(kind, subject string, at time.Time) error {
	return s.t.changeLater(directory, &query{what: "add mark", sql: addMark, args: []any{kind, subject, millis(at)}})
}

const (
	countMarks        = `SELECT count(*) FROM marks WHERE kind = $1 AND at > $2`
	countSubjectMarks = `SELECT count(*) FROM marks WHERE kind = $1 AND at > $2 AND subject = $3`
)

func (s marks) Count(kind, subject string, since time.Time) (n int, err error) {
	q := &query{what: "count marks", sql: countMarks, args: []any{kind, millis(since)}, each: one(&n)}
	if subject != "" {
		q.sql, q.args = countSubjectMarks, append(q.args, subject)
	}
	return n, s.t.readShared(q)
}

const forgetMarks = `
DELETE FROM marks WHERE id IN (SELECT id FROM marks WHERE at <= $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`

func (s marks) Forget(cutoff time.Time, limit int) (int, error) {
	return s.t.sweep(&query{what: "forget marks", sql: forgetMarks, args: []any{millis(cutoff), limit}})
}
