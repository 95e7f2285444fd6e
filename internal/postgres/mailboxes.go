package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

type mailboxes struct{ t *tx }

const mailboxColumns = `id, person, name, created_at, last_seen_at, quiet_active, quiet_until, muted`

func scanMailbox(rows pgx.Rows, m *relay.Mailbox) error {
	return rows.Scan((*hexText)(&m.ID), (*hexText)(&m.Person), &m.Name, (*instant)(&m.CreatedAt), (*instant)(&m.LastSeenAt),
		&m.State.QuietActive, &m.State.QuietUntil, &m.State.Muted)
}

func noMailbox() error { return fault.NotFoundf("that mailbox does not exist, or not any more") }

const createMailbox = `
WITH p AS (SELECT id FROM people WHERE id = $2),
m AS (INSERT INTO mailboxes (` + mailboxColumns + `) SELECT $1, p.id, $3, $4, $5, $6, $7, $8 FROM p
    ON CONFLICT (id) DO NOTHING RETURNING id),
c AS (INSERT INTO counters (mailbox) SELECT id FROM m RETURNING mailbox)
SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM c)`

func (s mailboxes) Create(m relay.Mailbox) error {
	u, err := s.t.writer(directory)
	if err != nil {
		return err
	}
	if err := u.own(string(m.ID)); err != nil {
		return err
	}
	var person, made int
	q := &query{what: "create mailbox", sql: createMailbox, writes: true, each: one(&person, &made), args: []any{
		idBytes(m.ID), idBytes(m.Person), m.Name, millis(m.CreatedAt), millis(m.LastSeenAt),
		m.State.QuietActive, m.State.QuietUntil, m.State.Muted}}
	if err := u.ask(&step{queries: []*query{q}}); err != nil {
		return err
	}
	u.relearn()
	switch {
	case person == 0:
		return fault.NotFoundf("the person who shall own the mailbox does not exist")
	case made == 0:
		return fault.New(fault.Conflict, "conflict", "a mailbox with that id exists already")
	}
	return nil
}

const getMailbox = `SELECT ` + mailboxColumns + ` FROM mailboxes WHERE id = $1`

func (s mailboxes) Get(id relay.MailboxID) (m relay.Mailbox, err error) {
	q := &query{what: "get mailbox", sql: getMailbox, args: []any{idBytes(id)}, each: func(r pgx.Rows) error { return scanMailbox(r, &m) }}
	if err = s.t.read(id, q); err == nil && q.count == 0 {
		err = noMailbox()
	}
	return m, err
}

const listMailboxes = `SELECT ` + mailboxColumns + ` FROM mailboxes WHERE person = $1 ORDER BY created_at, place`

// List locks what it returns when it is part of an Update: whoever writes there has ended before, or waits.
func (s mailboxes) List(p relay.PersonID) (out []relay.Mailbox, err error) {
	args := []any{idBytes(p)}
	q := &query{what: "list mailboxes", sql: listMailboxes, args: args, each: list(&out, scanMailbox)}
	if s.t.u == nil {
		return out, s.t.readShared(q)
	}
	u, err := s.t.owner(directory)
	if err == nil {
		lock := &query{what: "lock mailboxes of person", sql: lockPersonBoxes, args: args}
		err = u.ask(&step{queries: []*query{lock, q}})
	}
	return out, err
}

const setState = `UPDATE mailboxes SET quiet_active = $2, quiet_until = $3, muted = $4 WHERE id = $1`

func (s mailboxes) SetState(id relay.MailboxID, st relay.State) error {
	q := &query{what: "set state", sql: setState, args: []any{idBytes(id), st.QuietActive, st.QuietUntil, st.Muted}}
	if err := s.t.change(string(id), q); err != nil {
		return err
	}
	if q.count == 0 {
		return noMailbox()
	}
	return nil
}

const (
	deleteBoxNotes = `DELETE FROM notifications WHERE mailbox = $1`
	deleteBoxUsage = `DELETE FROM usage WHERE mailbox = $1`
	deleteBoxAsked = `DELETE FROM consents WHERE mailbox = $1`
	deleteBox      = `DELETE FROM mailboxes WHERE id = $1`
)

func (s mailboxes) Delete(id relay.MailboxID) error {
	u, err := s.t.owner(string(id))
	if err != nil {
		return err
	}
	args := []any{idBytes(id)}
	err = u.ask(&step{queries: []*query{
		{what: "delete notifications of mailbox", sql: deleteBoxNotes, args: args, writes: true},
		{what: "delete usage of mailbox", sql: deleteBoxUsage, args: args, writes: true},
		{what: "delete requests of mailbox", sql: deleteBoxAsked, args: args, writes: true},
		{what: "delete mailbox", sql: deleteBox, args: args, writes: true}, // the rest cascades
	}})
	u.relearn()
	return err
}

const (
	lockIdle = `
SELECT c.mailbox FROM counters c JOIN (SELECT id FROM mailboxes WHERE COALESCE(last_seen_at, created_at) < $1
    ORDER BY COALESCE(last_seen_at, created_at) LIMIT $2) m ON m.id = c.mailbox
ORDER BY c.mailbox FOR NO KEY UPDATE OF c SKIP LOCKED`
	idleMailboxes = `
SELECT ` + mailboxColumns + ` FROM mailboxes WHERE COALESCE(last_seen_at, created_at) < $1
ORDER BY COALESCE(last_seen_at, created_at) LIMIT $2`
	stillIdle = `
SELECT ` + mailboxColumns + ` FROM mailboxes WHERE id = ANY($2) AND COALESCE(last_seen_at, created_at) < $1`
)

// Idle locks what it returns when it is part of an Update, and passes over mailboxes that are busy: those are not idle.
func (s mailboxes) Idle(cutoff time.Time, limit int) (out []relay.Mailbox, err error) {
	if s.t.u == nil {
		return out, s.t.readShared(&query{what: "find idle mailboxes", sql: idleMailboxes,
			args: []any{millis(cutoff), limit}, each: list(&out, scanMailbox)})
	}
	u, err := s.t.owner(directory)
	if err != nil {
		return nil, err
	}
	ids, err := u.lockAny(&query{what: "lock idle mailboxes", sql: lockIdle, args: []any{millis(cutoff), limit}})
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	return out, u.ask(&step{queries: []*query{{what: "find idle mailboxes", sql: stillIdle,
		args: []any{millis(cutoff), ids}, each: list(&out, scanMailbox)}}})
}
