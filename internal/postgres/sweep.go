package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Sweeps over all mailboxes first lock the mailboxes of the oldest rows, passing over those that are busy, and then look
// again: between the two nobody else can have touched them. What they passed over comes with the next sweep.

// lockAny runs a query that locks mailboxes and returns their ids.
func (u *update) lockAny(q *query) (ids [][]byte, err error) {
	q.each = list(&ids, func(r pgx.Rows, id *[]byte) error { return r.Scan(id) })
	err = u.ask(&step{queries: []*query{q}})
	return ids, err
}

const expireBox = `
WITH due AS (SELECT id FROM notifications WHERE waiting AND mailbox = $1 AND created_at < $2 ORDER BY created_at, seq LIMIT $3),
done AS (UPDATE notifications n SET suppressed = true, reason = $4, scope = $5 FROM due WHERE n.id = due.id
    RETURNING n.mailbox, n.id, n.created_at, n.seq)
SELECT mailbox, id FROM done ORDER BY created_at, seq`

func (s notifications) Expire(m relay.MailboxID, cutoff time.Time, limit int) (out []store.Expired, err error) {
	if m == "" {
		return s.expireAny(cutoff, limit)
	}
	u, err := s.t.writer(string(m))
	if err != nil {
		return nil, err
	}
	b, err := u.ownBox(m)
	if err != nil || b.waiting == 0 {
		return nil, err
	}
	q := &query{what: "expire notifications", sql: expireBox, writes: true, each: list(&out, scanExpired),
		args: []any{idBytes(m), millis(cutoff), limit, relay.ReasonExpired, relay.ScopeAll}}
	if err := u.ask(&step{queries: []*query{q}}); err != nil {
		return nil, err
	}
	for _, e := range out {
		u.waiting.learn(place{m, e.ID}, false)
	}
	u.addWaiting(b, -int64(len(out)))
	return out, nil
}

func scanExpired(rows pgx.Rows, e *store.Expired) error {
	return rows.Scan((*hexText)(&e.Mailbox), (*noteID)(&e.ID))
}

const (
	lockDue = `
SELECT c.mailbox FROM counters c WHERE c.mailbox IN
    (SELECT mailbox FROM (SELECT mailbox FROM notifications WHERE waiting AND created_at < $1 ORDER BY created_at LIMIT $2) due)
ORDER BY c.mailbox FOR NO KEY UPDATE OF c SKIP LOCKED`
	expireAny = `
WITH due AS (SELECT id FROM notifications WHERE waiting AND created_at < $1 AND mailbox = ANY($3) ORDER BY created_at, seq LIMIT $2),
done AS (UPDATE notifications n SET suppressed = true, reason = $4, scope = $5 FROM due WHERE n.id = due.id
    RETURNING n.mailbox, n.id, n.created_at, n.seq),
counted AS (UPDATE counters c SET waiting = c.waiting - d.n
    FROM (SELECT mailbox, count(*) AS n FROM done GROUP BY mailbox) d WHERE c.mailbox = d.mailbox)
SELECT mailbox, id FROM done ORDER BY created_at, seq`
)

func (s notifications) expireAny(cutoff time.Time, limit int) (out []store.Expired, err error) {
	err = s.sweepBoxes(
		&query{what: "lock mailboxes with due notifications", sql: lockDue, args: []any{millis(cutoff), limit}},
		&query{what: "expire notifications", sql: expireAny, args: []any{millis(cutoff), limit}, each: list(&out, scanExpired)},
		relay.ReasonExpired, relay.ScopeAll)
	return out, err
}

const (
	lockOld = `
SELECT c.mailbox FROM counters c WHERE c.mailbox IN
    (SELECT mailbox FROM (SELECT mailbox FROM notifications WHERE created_at < $1 ORDER BY created_at LIMIT $2) old)
ORDER BY c.mailbox FOR NO KEY UPDATE OF c SKIP LOCKED`
	forgetOld = `
WITH old AS (SELECT id FROM notifications WHERE created_at < $1 AND mailbox = ANY($3) ORDER BY created_at, seq LIMIT $2),
gone AS (DELETE FROM notifications n USING old WHERE n.id = old.id RETURNING n.mailbox, n.waiting),
counted AS (UPDATE counters c SET waiting = c.waiting - d.n
    FROM (SELECT mailbox, count(*) AS n FROM gone WHERE waiting GROUP BY mailbox) d WHERE c.mailbox = d.mailbox)
SELECT count(*) FROM gone`
)

func (s notifications) Forget(cutoff time.Time, limit int) (n int, err error) {
	err = s.sweepBoxes(
		&query{what: "lock mailboxes with old notifications", sql: lockOld, args: []any{millis(cutoff), limit}},
		&query{what: "forget notifications", sql: forgetOld, args: []any{millis(cutoff), limit}, each: one(&n)})
	return n, err
}

// sweepBoxes runs lock, then q with the ids of the locked mailboxes and more as its further arguments.
func (s notifications) sweepBoxes(lock, q *query, more ...any) error {
	if s.t.u == nil {
		return errReadOnly
	}
	u := s.t.u
	if err := u.wide(); err != nil {
		return err
	}
	ids, err := u.lockAny(lock)
	if err != nil || len(ids) == 0 {
		return err
	}
	q.args, q.writes = append(append(q.args, ids), more...), true
	err = u.ask(&step{queries: []*query{q}})
	u.relearn()
	return err
}
