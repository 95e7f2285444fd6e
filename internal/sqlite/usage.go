package sqlite

import (
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
)

// usage holds daily counters. Each day on which a mailbox took a notification has a row; the count of its latest such
// day is in its tally and reaches the row when another day begins.
type usage struct{ *tx }

// Add leaves delta.Notifications out: Insert counts those.
func (t usage) Add(m relay.MailboxID, day string, delta relay.Usage) error {
	const upsert = `INSERT INTO usage (mailbox, day, requests, ws_messages, poll_seconds, audio_uploads, audio_bytes)
		SELECT n, ?, ?, ?, ?, ?, ? FROM mailboxes WHERE id = ?
		ON CONFLICT (mailbox, day) DO UPDATE SET requests = requests + excluded.requests,
			ws_messages = ws_messages + excluded.ws_messages, poll_seconds = poll_seconds + excluded.poll_seconds,
			audio_uploads = audio_uploads + excluded.audio_uploads, audio_bytes = audio_bytes + excluded.audio_bytes`
	_, err := t.change(upsert).Text(day).Int(delta.Requests).Int(delta.WSMessages).Int(delta.PollSeconds).
		Int(delta.AudioUploads).Int(delta.AudioBytes).Text(string(m)).Exec()
	return t.fail("add usage", err)
}

func (t usage) Get(m relay.MailboxID, day string) (u relay.Usage, err error) {
	b, err := t.box(m)
	if err != nil {
		return u, absent(err)
	}
	const query = `SELECT requests, ws_messages, notifications, poll_seconds, audio_uploads, audio_bytes
		FROM usage WHERE mailbox = ? AND day = ?`
	found, err := t.prepare(query).Int(b.n).Text(day).Row(func(s *native.Stmt) {
		u = relay.Usage{Requests: s.ColInt(0), WSMessages: s.ColInt(1), Notifications: s.ColInt(2), PollSeconds: s.ColInt(3),
			AudioUploads: s.ColInt(4), AudioBytes: s.ColInt(5)}
	})
	if found && b.day == day {
		u.Notifications = b.notified
	}
	return u, t.fail("read usage", err)
}

func (t usage) Forget(day string, limit int) (int, error) {
	const remove = `DELETE FROM usage WHERE (mailbox, day) IN (SELECT mailbox, day FROM usage WHERE day < ? ORDER BY day LIMIT ?)`
	n, err := t.change(remove).Text(day).Int(int64(limit)).Exec()
	return int(n), t.fail("forget usage", err)
}

// notified counts the notifications that b took on day.
func (t *tx) notified(b *box, day string) (int64, error) {
	if b.day == day {
		return b.notified, nil
	}
	const query = `SELECT notifications FROM usage WHERE mailbox = ? AND day = ?`
	return t.count("count a day's notifications", t.prepare(query).Int(b.n).Text(day))
}

// turnDay makes day the one that b's tally counts: the count of the day before goes to its row. The clock may turn back.
func (t *tx) turnDay(b *box, day string) error {
	if b.day == day {
		return nil
	}
	if b.day != "" {
		const put = `UPDATE usage SET notifications = ? WHERE mailbox = ? AND day = ?`
		if _, err := t.change(put).Int(b.notified).Int(b.n).Text(b.day).Exec(); err != nil {
			return t.fail("store a day's notifications", err)
		}
	}
	n, err := t.notified(b, day)
	if err != nil {
		return err
	}
	const begin = `INSERT INTO usage (mailbox, day) VALUES (?, ?) ON CONFLICT DO NOTHING`
	if _, err := t.change(begin).Int(b.n).Text(day).Exec(); err != nil {
		return t.fail("begin a day", err)
	}
	c := t.mem.change(b)
	c.day, c.notified = day, n
	return nil
}
