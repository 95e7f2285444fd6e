package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

type devices struct{ t *tx }

const deviceColumns = `mailbox, id, token_hash, name, owner, created_at, last_seen_at, stream`

func scanDevice(rows pgx.Rows, d *relay.Device) error {
	return rows.Scan((*hexText)(&d.Mailbox), (*hexText)(&d.ID), (*hashBytes)(&d.TokenHash), &d.Name, &d.Owner,
		(*instant)(&d.CreatedAt), (*instant)(&d.LastSeenAt), &d.Stream)
}

func noDevice() error {
	return fault.NotFoundf("that device is not linked to the mailbox, or not any more")
}

const createDevice = `
INSERT INTO devices (` + deviceColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (mailbox, id) DO NOTHING`

func (s devices) Create(d relay.Device) error {
	if err := s.t.exists(d.Mailbox); err != nil {
		return err
	}
	q := &query{what: "create device", sql: createDevice, args: []any{idBytes(d.Mailbox), idBytes(d.ID), d.TokenHash[:], d.Name,
		d.Owner, millis(d.CreatedAt), millis(d.LastSeenAt), d.Stream}}
	if err := s.t.change(string(d.Mailbox), q); err != nil {
		return err
	}
	if q.count == 0 {
		return fault.New(fault.Conflict, "conflict", "the mailbox has a device with that id already")
	}
	return nil
}

const listDevices = `SELECT ` + deviceColumns + ` FROM devices WHERE mailbox = $1 ORDER BY created_at, place`

func (s devices) List(m relay.MailboxID) (out []relay.Device, err error) {
	return out, s.t.read(m, &query{what: "list devices", sql: listDevices, args: []any{idBytes(m)}, each: list(&out, scanDevice)})
}

const (
	heard = `
WITH d AS (UPDATE devices SET last_seen_at = GREATEST(last_seen_at, $3) WHERE mailbox = $1 AND id = $2 RETURNING mailbox)
UPDATE mailboxes m SET last_seen_at = GREATEST(m.last_seen_at, $3) FROM d WHERE m.id = d.mailbox`
	openStream = `
WITH d AS (UPDATE devices SET last_seen_at = GREATEST(last_seen_at, $3), stream = $4
    WHERE mailbox = $1 AND id = $2 RETURNING mailbox)
UPDATE mailboxes m SET last_seen_at = GREATEST(m.last_seen_at, $3) FROM d WHERE m.id = d.mailbox`
	closeStream = `
WITH d AS (UPDATE devices SET last_seen_at = GREATEST(last_seen_at, $3),
    stream = CASE WHEN stream = $4 THEN '' ELSE stream END WHERE mailbox = $1 AND id = $2 RETURNING mailbox)
UPDATE mailboxes m SET last_seen_at = GREATEST(m.last_seen_at, $3) FROM d WHERE m.id = d.mailbox`
	deleteDevice = `DELETE FROM devices WHERE mailbox = $1 AND id = $2`
)

func (s devices) Heard(m relay.MailboxID, d relay.DeviceID, at time.Time) error {
	return s.seen(m, &query{what: "record a sign of life", sql: heard, args: []any{idBytes(m), idBytes(d), millis(at)}})
}

func (s devices) OpenStream(m relay.MailboxID, d relay.DeviceID, stream string, at time.Time) error {
	return s.seen(m, &query{what: "open stream", sql: openStream, args: []any{idBytes(m), idBytes(d), millis(at), stream}})
}

func (s devices) seen(m relay.MailboxID, q *query) error {
	if err := s.t.change(string(m), q); err != nil {
		return err
	}
	if q.count == 0 {
		return noDevice()
	}
	return nil
}

// CloseStream counts as heard from, like its siblings.
func (s devices) CloseStream(m relay.MailboxID, d relay.DeviceID, stream string, at time.Time) error {
	return s.t.changeLater(string(m), &query{what: "close stream", sql: closeStream, args: []any{idBytes(m), idBytes(d), millis(at), stream}})
}

func (s devices) Delete(m relay.MailboxID, d relay.DeviceID) error {
	return s.t.changeLater(string(m), &query{what: "delete device", sql: deleteDevice, args: []any{idBytes(m), idBytes(d)}})
}
