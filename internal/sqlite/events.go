package sqlite

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/mcpevents/driver"
)

// Events returns the store as a driver of package mcpevents: its transactions are the relay's own.
func (s *Store) Events() driver.Driver { return eventStore{s} }

type eventStore struct{ s *Store }

func (e eventStore) Update(ctx context.Context, fn func(driver.Tx) error) error {
	return e.s.Update(ctx, func(t store.Tx) error { return fn(newEventTx(t.(*tx))) })
}

func (e eventStore) View(ctx context.Context, fn func(driver.Tx) error) error {
	return e.s.View(ctx, func(t store.Tx) error { return fn(newEventTx(t.(*tx))) })
}

// Events returns the transaction as package mcpevents needs it.
func (t *tx) Events() driver.Tx { return newEventTx(t) }

// eventTx is a transaction with the nouns of driver.Tx.
type eventTx struct {
	*tx
	lanes lanes
}

func newEventTx(t *tx) eventTx { return eventTx{t, lanes{}} }

func (t eventTx) Events() driver.Events               { return events{t.tx} }
func (t eventTx) Subscriptions() driver.Subscriptions { return subscriptions(t) }
func (t eventTx) Deliveries() driver.Deliveries       { return deliveries(t) }
func (t eventTx) Verifications() driver.Verifications { return verifications{t.tx} }

func noRecord() error { return driver.ErrNotFound }

type events struct{ *tx }

// ledger returns the key and extent of a ledger; n is 0 when it does not exist.
func (t *tx) ledger(name string) (n int64, h driver.Head, err error) {
	const query = `SELECT n, epoch, newest, forgotten FROM event_ledgers WHERE name = ?`
	_, err = t.prepare(query).Text(name).Row(func(s *native.Stmt) {
		n, h = s.ColInt(0), driver.Head{Epoch: s.ColText(1), Newest: s.ColInt(2), Forgotten: s.ColInt(3)}
	})
	return n, h, t.fail("find ledger", err)
}

// makeLedger returns the key of a ledger that may have to be made.
func (t *tx) makeLedger(name string) (int64, driver.Head, error) {
	n, h, err := t.ledger(name)
	if n != 0 || err != nil {
		return n, h, err
	}
	const insert = `INSERT INTO event_ledgers (name, epoch, newest, forgotten) VALUES (?, ?, 0, 0)`
	if _, err := t.change(insert).Text(name).Text(rand.Text()[:8]).Exec(); err != nil {
		return 0, h, t.fail("make ledger", err)
	}
	return t.ledger(name)
}

func (t events) Append(e *driver.Event) error {
	if err := t.writable(); err != nil {
		return err
	}
	ledger, h, err := t.makeLedger(e.Ledger)
	if err != nil {
		return err
	}
	const insert = `INSERT INTO events (ledger, sequence, id, name, subject, audience, time, recorded_at, data, meta)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	s := t.change(insert).Int(ledger).Int(h.Newest + 1).Text(e.ID).Text(e.Name).Text(e.Subject).Text(e.Audience).
		Int(e.Time.UnixMilli()).Int(e.Recorded.UnixMilli()).Blob(e.Data)
	if e.Meta == nil {
		s = s.Null()
	} else {
		s = s.Blob(e.Meta)
	}
	if _, err := s.Exec(); err != nil {
		return t.failed("append event", err, func() error { return t.exists(ledger, e) })
	}
	e.Sequence = h.Newest + 1
	const advance = `UPDATE event_ledgers SET newest = ? WHERE n = ?`
	_, err = t.change(advance).Int(e.Sequence).Int(ledger).Exec()
	return t.fail("advance ledger", err)
}

// exists answers an event whose id is taken.
func (t events) exists(ledger int64, e *driver.Event) error {
	const query = `SELECT sequence FROM events WHERE ledger = ? AND id = ?`
	n, err := t.count("find event", t.prepare(query).Int(ledger).Text(e.ID))
	if err != nil {
		return err
	}
	e.Sequence = n
	return driver.ErrExists
}

func (t events) Head(name string) (driver.Head, error) {
	if t.mem != nil { // its epoch must be the one that later events have
		_, h, err := t.makeLedger(name)
		return h, err
	}
	_, h, err := t.ledger(name)
	return h, err
}

func (t events) Newest(ledger, audience string) (int64, error) {
	const query = `SELECT max(coalesce((SELECT max(sequence) FROM events WHERE ledger = l.n AND audience = ''), 0),
			coalesce((SELECT max(sequence) FROM events WHERE ledger = l.n AND audience = ?), 0))
		FROM event_ledgers l WHERE name = ?`
	return t.count("find newest event", t.prepare(query).Text(audience).Text(ledger))
}

func (t events) Since(ledger string, at time.Time) (int64, error) {
	const query = `SELECT coalesce((SELECT min(sequence) FROM events WHERE ledger = l.n AND time >= ?), newest + 1)
		FROM event_ledgers l WHERE name = ?`
	n, err := t.count("find events since", t.prepare(query).Int(at.UnixMilli()).Text(ledger))
	return max(n, 1), err
}

const eventColumns = `l.name, e.sequence, e.id, e.name, e.subject, e.audience, e.time, e.recorded_at, e.data, e.meta`

// scanEvent reads eventColumns from column i on.
func scanEvent(s *native.Stmt, i int) driver.Event {
	return driver.Event{Ledger: s.ColText(i), Sequence: s.ColInt(i + 1), ID: s.ColText(i + 2), Name: s.ColText(i + 3),
		Subject: s.ColText(i + 4), Audience: s.ColText(i + 5), Time: s.ColTime(i + 6), Recorded: s.ColTime(i + 7),
		Data: s.ColBlob(i + 8), Meta: s.ColBlob(i + 9)}
}

func (t events) Read(q driver.Query) ([]driver.Event, error) {
	const query = `SELECT ` + eventColumns + ` FROM event_ledgers l CROSS JOIN events e ON e.ledger = l.n
		WHERE l.name = ?1 AND e.sequence > ?2 AND (?3 = 0 OR e.sequence <= ?3) AND (?4 = '' OR e.name = ?4)
			AND (?5 = '' OR e.subject = ?5) AND (e.audience = '' OR e.audience = ?6)
		ORDER BY e.sequence LIMIT ?7`
	s := t.prepare(query).Text(q.Ledger).Int(q.After).Int(q.Until).Text(q.Name).Text(q.Subject).Text(q.Audience).Int(int64(q.Limit))
	return list(t.tx, "read events", s, func(s *native.Stmt) driver.Event { return scanEvent(s, 0) })
}

func (t events) Get(ledger, id string) (driver.Event, error) {
	const query = `SELECT ` + eventColumns + ` FROM event_ledgers l JOIN events e ON e.ledger = l.n WHERE l.name = ? AND e.id = ?`
	return single(t.tx, "find event", t.prepare(query).Text(ledger).Text(id),
		func(s *native.Stmt) driver.Event { return scanEvent(s, 0) }, noRecord)
}

// Forget takes ledgers with old events, and from the front of each what is old and not needed.
func (t events) Forget(cutoff time.Time, limit int) (int, error) {
	const old = `SELECT DISTINCT ledger FROM events INDEXED BY events_by_record WHERE recorded_at < ? LIMIT ?`
	ledgers, err := list(t.tx, "find old events", t.change(old).Int(cutoff.UnixMilli()).Int(int64(limit)),
		func(s *native.Stmt) int64 { return s.ColInt(0) })
	total := 0
	for _, ledger := range ledgers {
		if err != nil || total == limit {
			break
		}
		var n int
		n, err = t.forgetFront(ledger, cutoff, limit-total)
		total += n
	}
	return total, err
}

func (t events) forgetFront(ledger int64, cutoff time.Time, limit int) (int, error) {
	const bound = `SELECT min(forgotten + ?2,
			coalesce((SELECT min(sequence) FROM events WHERE ledger = l.n AND recorded_at >= ?3) - 1, newest),
			coalesce((SELECT min(oldest) FROM subscriptions s JOIN lanes USING (n) WHERE s.ledger = l.name AND pending > 0) - 1, newest))
		FROM event_ledgers l WHERE n = ?1`
	last, err := t.count("bound forgetting", t.prepare(bound).Int(ledger).Int(int64(limit)).Int(cutoff.UnixMilli()))
	if err != nil {
		return 0, err
	}
	const remove = `DELETE FROM events WHERE ledger = ? AND sequence <= ?`
	n, err := t.change(remove).Int(ledger).Int(last).Exec()
	if err != nil || n == 0 {
		return 0, t.fail("forget events", err)
	}
	const mark = `UPDATE event_ledgers SET forgotten = ? WHERE n = ?`
	_, err = t.change(mark).Int(last).Int(ledger).Exec()
	return int(n), t.fail("mark forgotten events", err)
}

type verifications struct{ *tx }

func (t verifications) Verified(principal, url string) (at time.Time, err error) {
	const query = `SELECT verified_at FROM verifications WHERE principal = ? AND url = ?`
	_, err = t.prepare(query).Text(principal).Text(url).Row(func(s *native.Stmt) { at = s.ColTime(0) })
	return at, t.fail("find verification", err)
}

func (t verifications) Record(principal, url string, at time.Time) error {
	const upsert = `INSERT INTO verifications (principal, url, verified_at) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET verified_at = excluded.verified_at`
	_, err := t.change(upsert).Text(principal).Text(url).Int(at.UnixMilli()).Exec()
	return t.fail("record verification", err)
}

func (t verifications) Withdraw(principal, url string) error {
	const remove = `DELETE FROM verifications WHERE principal = ? AND url = ?`
	_, err := t.change(remove).Text(principal).Text(url).Exec()
	return t.fail("withdraw verification", err)
}

func (t verifications) Forget(cutoff time.Time, limit int) (int, error) {
	const remove = `DELETE FROM verifications WHERE (principal, url) IN (SELECT principal, url FROM verifications v
		WHERE verified_at < ? AND NOT EXISTS (SELECT 1 FROM subscriptions s WHERE s.url = v.url AND s.principal = v.principal AND s.state <> 'ended')
		LIMIT ?)`
	n, err := t.change(remove).Int(cutoff.UnixMilli()).Int(int64(limit)).Exec()
	return int(n), t.fail("forget verifications", err)
}
