package sqlite

import (
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
)

type pairing struct{ *tx }

func (t pairing) Create(c relay.PairCode) error {
	if c.Mailbox != "" {
		if _, err := t.box(c.Mailbox); err != nil {
			return err
		}
	}
	const insert = `INSERT INTO pair_codes (hash, person, mailbox, name, address, created_at, expires_at)
		SELECT ?, n, (SELECT n FROM mailboxes WHERE id = ?), ?, ?, ?, ? FROM people WHERE id = ?`
	n, err := t.change(insert).Blob(c.Hash[:]).Text(string(c.Mailbox)).Text(c.Name).Text(c.Address).
		Time(c.CreatedAt).Time(c.ExpiresAt).Text(string(c.Person)).Exec()
	if isUnique(err) {
		return conflict("that code exists")
	}
	return t.one("create pairing code", n, err, noPerson)
}

func (t pairing) Take(h relay.Hash, now time.Time) (relay.PairCode, error) {
	const query = `SELECT p.id, m.id, c.name, c.address, c.created_at, c.expires_at
		FROM pair_codes c JOIN people p ON p.n = c.person LEFT JOIN mailboxes m ON m.n = c.mailbox
		WHERE c.hash = ? AND c.expires_at > ?`
	c, err := single(t.tx, "find pairing code", t.prepare(query).Blob(h[:]).Int(now.UnixMilli()), func(s *native.Stmt) relay.PairCode {
		return relay.PairCode{Hash: h, Person: relay.PersonID(s.ColText(0)), Mailbox: relay.MailboxID(s.ColText(1)),
			Name: s.ColText(2), Address: s.ColText(3), CreatedAt: s.ColTime(4), ExpiresAt: s.ColTime(5)}
	}, func() error { return fault.NotFoundf("there is no such code") })
	if err != nil {
		return c, err
	}
	const remove = `DELETE FROM pair_codes WHERE hash = ?`
	_, err = t.change(remove).Blob(h[:]).Exec()
	return c, t.fail("take pairing code", err)
}

func (t pairing) CountWaiting(address string, now time.Time) (int, error) {
	const all = `SELECT count(*) FROM pair_codes WHERE expires_at > ? AND address <> ''`
	const one = `SELECT count(*) FROM pair_codes WHERE expires_at > ? AND address = ?`
	s := t.prepare(all).Int(now.UnixMilli())
	if address != "" {
		s = t.prepare(one).Int(now.UnixMilli()).Text(address)
	}
	n, err := t.count("count pairing codes", s)
	return int(n), err
}

func (t pairing) Forget(now time.Time, limit int) (int, error) {
	const remove = `DELETE FROM pair_codes WHERE hash IN
		(SELECT hash FROM pair_codes WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`
	n, err := t.change(remove).Int(now.UnixMilli()).Int(int64(limit)).Exec()
	return int(n), t.fail("forget pairing codes", err)
}

type marks struct{ *tx }

func (t marks) Add(kind, subject string, at time.Time) error {
	const insert = `INSERT INTO marks (kind, subject, at) VALUES (?, ?, ?)`
	_, err := t.change(insert).Text(kind).Text(subject).Int(at.UnixMilli()).Exec()
	return t.fail("add mark", err)
}

func (t marks) Count(kind, subject string, since time.Time) (int, error) {
	const all = `SELECT count(*) FROM marks WHERE at > ? AND kind = ?`
	const one = `SELECT count(*) FROM marks WHERE at > ? AND kind = ? AND subject = ?`
	s := t.prepare(all).Int(since.UnixMilli()).Text(kind)
	if subject != "" {
		s = t.prepare(one).Int(since.UnixMilli()).Text(kind).Text(subject)
	}
	n, err := t.count("count marks", s)
	return int(n), err
}

func (t marks) Forget(cutoff time.Time, limit int) (int, error) {
	const remove = `DELETE FROM marks WHERE n IN (SELECT n FROM marks WHERE at <= ? ORDER BY at LIMIT ?)`
	n, err := t.change(remove).Int(cutoff.UnixMilli()).Int(int64(limit)).Exec()
	return int(n), t.fail("forget marks", err)
}
