package sqlite

import (
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
)

type people struct{ *tx }

func noPerson() error { return fault.NotFoundf("there is no such person") }

func scanPerson(s *native.Stmt) relay.Person {
	return relay.Person{ID: relay.PersonID(s.ColText(0)), Name: s.ColText(1), CreatedAt: s.ColTime(2)}
}

func (t people) Create(p relay.Person) error {
	const insert = `INSERT INTO people (id, name, created_at) VALUES (?, ?, ?)`
	_, err := t.change(insert).Text(string(p.ID)).Text(p.Name).Time(p.CreatedAt).Exec()
	return t.failed("create person", err, func() error {
		if _, err := t.ByName(p.Name); !fault.Is(err, fault.NotFound) {
			return orElse(err, nameTaken("a person of that name exists"))
		}
		return conflict("a person with that id exists")
	})
}

// orElse returns err, or other when there is none.
func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (t people) List() ([]relay.Person, error) {
	const query = `SELECT id, name, created_at FROM people ORDER BY created_at, n`
	return list(t.tx, "list people", t.prepare(query), scanPerson)
}

func (t people) ByName(name string) (relay.Person, error) {
	const query = `SELECT id, name, created_at FROM people WHERE name = ?`
	return single(t.tx, "find person", t.prepare(query).Text(name), scanPerson, noPerson)
}

func (t people) Delete(id relay.PersonID) error {
	boxes, err := mailboxes(t).List(id)
	if err != nil {
		return err
	}
	for _, b := range boxes {
		if err := mailboxes(t).Delete(b.ID); err != nil {
			return err
		}
	}
	const remove = `DELETE FROM people WHERE id = ?`
	n, err := t.change(remove).Text(string(id)).Exec()
	return t.one("delete person", n, err, noPerson)
}

type mailboxes struct{ *tx }

const mailboxColumns = `m.id, p.id, m.name, m.created_at, m.last_seen_at, m.quiet_active, m.quiet_until, m.muted`

func scanMailbox(s *native.Stmt) relay.Mailbox {
	return relay.Mailbox{ID: relay.MailboxID(s.ColText(0)), Person: relay.PersonID(s.ColText(1)), Name: s.ColText(2),
		CreatedAt: s.ColTime(3), LastSeenAt: s.ColTime(4),
		State: relay.State{QuietActive: s.ColBool(5), QuietUntil: s.ColText(6), Muted: s.ColBool(7)}}
}

func (t mailboxes) Create(m relay.Mailbox) error {
	const insert = `INSERT INTO mailboxes (id, person, name, created_at, last_seen_at, quiet_active, quiet_until, muted)
		SELECT ?, n, ?, ?, ?, ?, ?, ? FROM people WHERE id = ?`
	n, err := t.change(insert).Text(string(m.ID)).Text(m.Name).Time(m.CreatedAt).Time(m.LastSeenAt).
		Bool(m.State.QuietActive).Text(m.State.QuietUntil).Bool(m.State.Muted).Text(string(m.Person)).Exec()
	if isUnique(err) {
		return conflict("a mailbox with that id exists")
	}
	if err := t.one("create mailbox", n, err, noPerson); err != nil {
		return err
	}
	const tally = `INSERT INTO tallies (mailbox, seq, last, waiting, bytes, day, notified)
		SELECT n, 0, 0, 0, 0, '', 0 FROM mailboxes WHERE id = ?`
	_, err = t.change(tally).Text(string(m.ID)).Exec()
	t.mem.created(m.ID)
	return t.fail("create tally", err)
}

func (t mailboxes) Get(id relay.MailboxID) (relay.Mailbox, error) {
	const query = `SELECT ` + mailboxColumns + ` FROM mailboxes m JOIN people p ON p.n = m.person WHERE m.id = ?`
	return single(t.tx, "read mailbox", t.prepare(query).Text(string(id)), scanMailbox, noMailbox)
}

func (t mailboxes) List(p relay.PersonID) ([]relay.Mailbox, error) {
	const query = `SELECT ` + mailboxColumns + ` FROM people p JOIN mailboxes m ON m.person = p.n
		WHERE p.id = ? ORDER BY m.created_at, m.n`
	return list(t.tx, "list mailboxes", t.prepare(query).Text(string(p)), scanMailbox)
}

func (t mailboxes) SetState(id relay.MailboxID, s relay.State) error {
	const update = `UPDATE mailboxes SET quiet_active = ?, quiet_until = ?, muted = ? WHERE id = ?`
	n, err := t.change(update).Bool(s.QuietActive).Text(s.QuietUntil).Bool(s.Muted).Text(string(id)).Exec()
	return t.one("set mailbox state", n, err, noMailbox)
}

func (t mailboxes) Delete(id relay.MailboxID) error {
	b, err := t.box(id)
	if err != nil {
		return absent(err)
	}
	const sent = chain + `DELETE FROM notifications WHERE n IN (SELECT nt.n FROM nt)`
	if _, err := t.change(sent).Int(b.n).Int(b.last).Exec(); err != nil {
		return t.fail("delete a mailbox's notifications", err)
	}
	const asked = `DELETE FROM consents WHERE mailbox = ?`
	if _, err := t.change(asked).Text(string(id)).Exec(); err != nil {
		return t.fail("delete a mailbox's requests", err)
	}
	const remove = `DELETE FROM mailboxes WHERE n = ?`
	if _, err := t.change(remove).Int(b.n).Exec(); err != nil {
		return t.fail("delete mailbox", err)
	}
	t.mem.drop(id)
	t.seen = row{}
	return nil
}

// Idle looks at every mailbox: it is asked once a day, and an index would cost each sign of life.
func (t mailboxes) Idle(cutoff time.Time, limit int) ([]relay.Mailbox, error) {
	const query = `SELECT ` + mailboxColumns + ` FROM mailboxes m JOIN people p ON p.n = m.person
		WHERE coalesce(m.last_seen_at, m.created_at) < ? LIMIT ?`
	return list(t.tx, "list idle mailboxes", t.prepare(query).Int(before(cutoff)).Int(int64(limit)), scanMailbox)
}
