package sqlite

import (
	"errors"
	"math"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

func (t notifications) Admission(m relay.MailboxID, k relay.KeyID, perKey int, now time.Time) (a relay.Admission, err error) {
	b, err := t.box(m)
	if err != nil {
		return a, err
	}
	a.Waiting = b.waiting
	if a.Today, err = t.notified(b, relay.Day(now)); err != nil {
		return a, err
	}
	r, err := t.rate(b, keyNumber(k), int64(perKey), now.UnixMilli())
	if err != nil {
		return a, err
	}
	if nth := r.nth(int64(perKey), now.UnixMilli()); nth != 0 {
		a.NthSend = time.UnixMilli(nth).UTC()
	}
	return a, nil
}

// rate returns the key's sends, from memory if they are known as far back as perKey needs.
func (t notifications) rate(b *box, key, perKey, now int64) (*rate, error) {
	if r := b.rates[key]; r != nil && r.covers >= perKey {
		return r, nil
	}
	r, err := t.loadRate(b, key, perKey, now)
	if err == nil && t.mem != nil {
		b.rates[key] = r
	}
	return r, err
}

var errEnough = errors.New("enough rows")

// loadRate reads the latest perKey sends of the last ten minutes. It walks back the mailbox's own notifications, no
// further than that.
func (t notifications) loadRate(b *box, key, perKey, now int64) (*rate, error) {
	const query = chain + `SELECT nt.key, nt.created_at FROM nt`
	var sends []int64
	found := int64(0)
	err := t.prepare(query).Int(b.n).Int(b.last).Rows(func(s *native.Stmt) error {
		at := s.ColInt(1)
		if at <= now-window || found == perKey {
			return errEnough
		}
		if s.ColInt(0) != key {
			return nil
		}
		sends = append(sends, at)
		if at <= now+ahead {
			found++
		}
		return nil
	})
	if err != nil && err != errEnough {
		return nil, t.fail("read the sends of a key", err)
	}
	return newRate(sends, found == perKey, perKey), nil
}

// Expire asks the disk only when something can be that old.
func (t notifications) Expire(m relay.MailboxID, cutoff time.Time, limit int) ([]store.Expired, error) {
	due, err := t.anyDue(before(cutoff))
	if err != nil || !due {
		return nil, err
	}
	const all = `SELECT nt.n, nt.id, m.id FROM notifications nt INDEXED BY notifications_to_expire JOIN mailboxes m ON m.n = nt.mailbox
		WHERE nt.waiting = 1 AND nt.created_at < ? ORDER BY nt.created_at LIMIT ?`
	const one = `SELECT nt.n, nt.id, m.id FROM mailboxes m JOIN notifications nt INDEXED BY notifications_to_expire ON nt.mailbox = m.n
		WHERE nt.waiting = 1 AND nt.created_at < ? AND m.id = ? ORDER BY nt.created_at LIMIT ?`
	s := t.prepare(all).Int(before(cutoff))
	if m != "" {
		s = t.prepare(one).Int(before(cutoff)).Text(string(m))
	}
	rows, err := list(t.tx, "find expired notifications", s.Int(int64(limit)), func(s *native.Stmt) row {
		return row{n: s.ColInt(0), id: notificationID(s.ColBlob(1)), mailbox: relay.MailboxID(s.ColText(2))}
	})
	if err != nil {
		return nil, err
	}
	return t.expireRows(rows)
}

// anyDue reports whether any notification of any mailbox may have waited since before cutoff.
func (t notifications) anyDue(cutoff int64) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	if cutoff <= t.mem.oldest {
		return false, nil
	}
	const query = `SELECT created_at FROM notifications INDEXED BY notifications_to_expire WHERE waiting = 1 ORDER BY created_at LIMIT 1`
	oldest := int64(math.MaxInt64)
	if _, err := t.prepare(query).Row(func(s *native.Stmt) { oldest = s.ColInt(0) }); err != nil {
		return false, t.fail("find the oldest waiting notification", err)
	}
	t.mem.oldest = oldest
	return oldest < cutoff, nil
}

// expireRows does to rows what relay.Notification.Expire does to one that waits.
func (t notifications) expireRows(rows []row) (expired []store.Expired, err error) {
	const update = `UPDATE notifications SET suppressed = 1, reason = ?, scope = ?, waiting = 0 WHERE n = ?`
	t.seen = row{}
	for _, r := range rows {
		b, err := t.box(r.mailbox)
		if err != nil {
			return nil, err
		}
		if _, err := t.change(update).Text(relay.ReasonExpired).Text(relay.ScopeAll).Int(r.n).Exec(); err != nil {
			return nil, t.fail("expire notification", err)
		}
		t.mem.change(b).waiting--
		expired = append(expired, store.Expired{Mailbox: r.mailbox, ID: r.id})
	}
	return expired, nil
}

// Forget looks at the first rows in order of arrival, four times as many as it may remove: a few that a wrong clock dated
// into the future do not hold up the rest, and work stays bounded.
func (t notifications) Forget(cutoff time.Time, limit int) (int, error) {
	if err := t.writable(); err != nil {
		return 0, err
	}
	const query = `SELECT o.n, m.id, o.waiting, o.bytes
		FROM (SELECT n, mailbox, waiting, bytes, created_at FROM notifications ORDER BY n LIMIT ?) o
		JOIN mailboxes m ON m.n = o.mailbox WHERE o.created_at < ? ORDER BY o.n LIMIT ?`
	type old struct {
		link
		mailbox relay.MailboxID
	}
	s := t.prepare(query).Int(4 * int64(limit)).Int(before(cutoff)).Int(int64(limit))
	rows, err := list(t.tx, "find old notifications", s, func(s *native.Stmt) old {
		return old{link{n: s.ColInt(0), waiting: s.ColBool(2), bytes: s.ColInt(3)}, relay.MailboxID(s.ColText(1))}
	})
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		b, err := t.box(r.mailbox)
		if err != nil {
			return 0, err
		}
		if err := t.forget(b, r.link); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}
