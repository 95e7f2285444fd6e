package sqlite

import (
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
)

type devices struct{ *tx }

func noDevice() error { return fault.NotFoundf("there is no such device") }

func (t devices) Create(d relay.Device) error {
	const insert = `INSERT INTO devices (mailbox, id, token_hash, name, owner, created_at, last_seen_at, stream)
		SELECT n, ?, ?, ?, ?, ?, ?, ? FROM mailboxes WHERE id = ?`
	n, err := t.change(insert).Text(string(d.ID)).Blob(d.TokenHash[:]).Text(d.Name).Bool(d.Owner).
		Time(d.CreatedAt).Time(d.LastSeenAt).Text(d.Stream).Text(string(d.Mailbox)).Exec()
	if isUnique(err) {
		return conflict("the mailbox has a device with that id")
	}
	return t.one("create device", n, err, noMailbox)
}

func (t devices) List(m relay.MailboxID) ([]relay.Device, error) {
	const query = `SELECT d.id, d.token_hash, d.name, d.owner, d.created_at, d.last_seen_at, d.stream
		FROM mailboxes m JOIN devices d ON d.mailbox = m.n WHERE m.id = ? ORDER BY d.created_at, d.n`
	return list(t.tx, "list devices", t.prepare(query).Text(string(m)), func(s *native.Stmt) relay.Device {
		d := relay.Device{ID: relay.DeviceID(s.ColText(0)), Mailbox: m, Name: s.ColText(2), Owner: s.ColBool(3),
			CreatedAt: s.ColTime(4), LastSeenAt: s.ColTime(5), Stream: s.ColText(6)}
		s.ColBytes(1, d.TokenHash[:])
		return d
	})
}

func (t devices) Heard(m relay.MailboxID, d relay.DeviceID, at time.Time) error {
	const update = `UPDATE devices SET last_seen_at = max(coalesce(last_seen_at, ?1), ?1)
		WHERE id = ?2 AND mailbox = (SELECT n FROM mailboxes WHERE id = ?3)`
	n, err := t.change(update).Int(at.UnixMilli()).Text(string(d)).Text(string(m)).Exec()
	if err := t.one("record a sign of life", n, err, noDevice); err != nil {
		return err
	}
	return t.heard(m, at)
}

// heard moves the mailbox's own date.
func (t devices) heard(m relay.MailboxID, at time.Time) error {
	const update = `UPDATE mailboxes SET last_seen_at = max(coalesce(last_seen_at, ?1), ?1) WHERE id = ?2`
	_, err := t.change(update).Int(at.UnixMilli()).Text(string(m)).Exec()
	return t.fail("record a sign of life", err)
}

func (t devices) OpenStream(m relay.MailboxID, d relay.DeviceID, stream string, at time.Time) error {
	const update = `UPDATE devices SET stream = ?1, last_seen_at = max(coalesce(last_seen_at, ?2), ?2)
		WHERE id = ?3 AND mailbox = (SELECT n FROM mailboxes WHERE id = ?4)`
	n, err := t.change(update).Text(stream).Int(at.UnixMilli()).Text(string(d)).Text(string(m)).Exec()
	if err := t.one("open stream", n, err, noDevice); err != nil {
		return err
	}
	return t.heard(m, at)
}

// CloseStream also keeps at, when the stream was last heard from: it was the freshest sign of life there is.
func (t devices) CloseStream(m relay.MailboxID, d relay.DeviceID, stream string, at time.Time) error {
	const update = `UPDATE devices SET stream = '', last_seen_at = max(coalesce(last_seen_at, ?2), ?2)
		WHERE stream = ?1 AND id = ?3 AND mailbox = (SELECT n FROM mailboxes WHERE id = ?4)`
	n, err := t.change(update).Text(stream).Int(at.UnixMilli()).Text(string(d)).Text(string(m)).Exec()
	if err != nil || n == 0 {
		return t.fail("close stream", err)
	}
	return t.heard(m, at)
}

func (t devices) Delete(m relay.MailboxID, d relay.DeviceID) error {
	const remove = `DELETE FROM devices WHERE id = ? AND mailbox = (SELECT n FROM mailboxes WHERE id = ?)`
	_, err := t.change(remove).Text(string(d)).Text(string(m)).Exec()
	return t.fail("delete device", err)
}
