package postgres

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/mcpevents/driver"
)

// Events returns the store as a driver of package mcpevents: its transactions are the relay's own.
func (s *Store) Events() driver.Driver { return eventStore{s} }

type eventStore struct{ s *Store }

func (e eventStore) Update(ctx context.Context, fn func(driver.Tx) error) error {
	return e.s.Update(ctx, func(t store.Tx) error { return fn(eventTx{t.(*tx)}) })
}

func (e eventStore) View(ctx context.Context, fn func(driver.Tx) error) error {
	return e.s.View(ctx, func(t store.Tx) error { return fn(eventTx{t.(*tx)}) })
}

// Events returns the transaction as package mcpevents needs it.
func (t *tx) Events() driver.Tx { return eventTx{t} }

// eventTx is a transaction with the nouns of driver.Tx. Ledgers, lanes and subscriptions are locked by their rows, and
// whoever does so shares its transaction with nobody, so that no neighbour waits for what it waits for. But to append to the
// ledger of a mailbox that the update owns needs no more than that: nobody else can be at it here.
type eventTx struct{ *tx }

func (t eventTx) Events() driver.Events               { return events{t} }
func (t eventTx) Subscriptions() driver.Subscriptions { return subscriptions{t} }
func (t eventTx) Deliveries() driver.Deliveries       { return deliveries{t} }
func (t eventTx) Verifications() driver.Verifications { return verifications{t} }

// run asks queries in their order, in one round trip.
func (t eventTx) run(queries ...*query) error {
	if t.v != nil {
		for _, q := range queries {
			if q.writes {
				return errReadOnly
			}
		}
		return t.ask("", queries)
	}
	if !t.u.within {
		if err := t.u.wide(); err != nil {
			return err
		}
	}
	return t.u.ask(&step{queries: queries})
}

// change is run for one query that writes.
func (t eventTx) change(q *query) error {
	q.writes = true
	return t.run(q)
}

// locking returns sql, with the rows of what locked in an Update.
func (t eventTx) locking(sql, what string) string {
	if t.u == nil {
		return sql
	}
	return sql + " FOR UPDATE OF " + what
}

// unixMillis is the stored form of an instant that is never absent.
func unixMillis(t time.Time) int64 { return t.UnixMilli() }

type events struct{ t eventTx }

const (
	// The row of the ledger is locked by being written. A sequence that is not used after all is given back.
	appendEvent = `
WITH l AS (INSERT INTO event_ledgers (name, epoch, newest, forgotten) VALUES ($1, $2, 1, 0)
    ON CONFLICT (name) DO UPDATE SET newest = event_ledgers.newest + 1 RETURNING n, newest),
e AS (INSERT INTO events (ledger, sequence, id, name, subject, audience, time, recorded_at, data, meta)
    SELECT n, newest, $3, $4, $5, $6, $7, $8, $9, $10 FROM l ON CONFLICT (ledger, id) DO NOTHING RETURNING sequence)
SELECT l.n, COALESCE(e.sequence, 0) FROM l LEFT JOIN e ON true`
	giveBack   = `UPDATE event_ledgers SET newest = newest - 1 WHERE n = $1`
	knownEvent = `SELECT sequence FROM events WHERE ledger = $1 AND id = $2`
)

func (s events) Append(e *driver.Event) error {
	u := s.t.u
	if u == nil {
		return errReadOnly
	}
	if u.owns(e.Ledger) && !u.alone {
		u.within = true
	}
	var n, sequence int64
	q := &query{what: "append event", sql: appendEvent, each: one(&n, &sequence), args: []any{e.Ledger, rand.Text()[:8], e.ID, e.Name,
		e.Subject, e.Audience, unixMillis(e.Time), unixMillis(e.Recorded), e.Data, e.Meta}}
	if err := s.t.change(q); err != nil {
		return err
	}
	if sequence != 0 {
		e.Sequence = sequence
		return nil
	}
	err := s.t.run(&query{what: "give a sequence back", sql: giveBack, args: []any{n}, writes: true},
		&query{what: "find event", sql: knownEvent, args: []any{n, e.ID}, each: one(&e.Sequence)})
	if err != nil {
		return err
	}
	return driver.ErrExists
}

const (
	lockHead = `
INSERT INTO event_ledgers (name, epoch, newest, forgotten) VALUES ($1, $2, 0, 0)
ON CONFLICT (name) DO UPDATE SET newest = event_ledgers.newest RETURNING epoch, newest, forgotten`
	readHead = `SELECT epoch, newest, forgotten FROM event_ledgers WHERE name = $1`
)

func (s events) Head(ledger string) (h driver.Head, err error) {
	q := &query{what: "read ledger", sql: readHead, args: []any{ledger}, each: one(&h.Epoch, &h.Newest, &h.Forgotten)}
	if s.t.u != nil { // its epoch must be the one that later events have
		q.sql, q.writes, q.args = lockHead, true, append(q.args, rand.Text()[:8])
	}
	return h, s.t.run(q)
}

const newestEvent = `
SELECT GREATEST(COALESCE((SELECT max(sequence) FROM events WHERE ledger = l.n AND audience = ''), 0),
    COALESCE((SELECT max(sequence) FROM events WHERE ledger = l.n AND audience = $2), 0)) FROM event_ledgers l WHERE name = $1`

func (s events) Newest(ledger, audience string) (n int64, err error) {
	return n, s.t.run(&query{what: "find newest event", sql: newestEvent, args: []any{ledger, audience}, each: one(&n)})
}

const eventsSince = `
SELECT COALESCE((SELECT min(sequence) FROM events WHERE ledger = l.n AND time >= $2), newest + 1) FROM event_ledgers l WHERE name = $1`

func (s events) Since(ledger string, at time.Time) (n int64, err error) {
	err = s.t.run(&query{what: "find events since", sql: eventsSince, args: []any{ledger, unixMillis(at)}, each: one(&n)})
	return max(n, 1), err
}

const eventColumns = `l.name, e.sequence, e.id, e.name, e.subject, e.audience, e.time, e.recorded_at, e.data, e.meta`

func eventFields(e *driver.Event) []any {
	return []any{&e.Ledger, &e.Sequence, &e.ID, &e.Name, &e.Subject, &e.Audience, (*instant)(&e.Time), (*instant)(&e.Recorded), &e.Data, &e.Meta}
}

func scanEvent(r pgx.Rows, e *driver.Event) error { return r.Scan(eventFields(e)...) }

const readEvents = `
SELECT ` + eventColumns + ` FROM event_ledgers l JOIN events e ON e.ledger = l.n
WHERE l.name = $1 AND e.sequence > $2 AND e.sequence <= $3 AND ($4 = '' OR e.name = $4) AND ($5 = '' OR e.subject = $5)
    AND (e.audience = '' OR e.audience = $6)
ORDER BY e.sequence LIMIT $7`

func (s events) Read(q driver.Query) (out []driver.Event, err error) {
	until := q.Until
	if until == 0 {
		until = 1<<63 - 1
	}
	return out, s.t.run(&query{what: "read events", sql: readEvents, each: list(&out, scanEvent),
		args: []any{q.Ledger, q.After, until, q.Name, q.Subject, q.Audience, q.Limit}})
}

const getEvent = `SELECT ` + eventColumns + ` FROM event_ledgers l JOIN events e ON e.ledger = l.n WHERE l.name = $1 AND e.id = $2`

func (s events) Get(ledger, id string) (e driver.Event, err error) {
	q := &query{what: "find event", sql: getEvent, args: []any{ledger, id}, each: func(r pgx.Rows) error { return scanEvent(r, &e) }}
	if err = s.t.run(q); err == nil && q.count == 0 {
		err = driver.ErrNotFound
	}
	return e, err
}

// Forgetting takes ledgers with old events, and from the front of each what is old and not needed.
const (
	oldLedgers = `
SELECT l.n FROM event_ledgers l WHERE l.n IN (SELECT DISTINCT ledger FROM events WHERE recorded_at < $1 LIMIT $2) ORDER BY l.n FOR UPDATE`
	forgetFront = `
WITH bound AS (SELECT l.n, LEAST(l.forgotten + $2,
    COALESCE((SELECT min(sequence) FROM events WHERE ledger = l.n AND recorded_at >= $3) - 1, l.newest),
    COALESCE((SELECT min(a.oldest) FROM event_subscriptions s JOIN event_lanes a ON a.n = s.n WHERE s.ledger = l.name AND a.pending > 0) - 1,
        l.newest)) AS last FROM event_ledgers l WHERE l.n = $1),
gone AS (DELETE FROM events e USING bound b WHERE e.ledger = b.n AND e.sequence <= b.last RETURNING e.sequence),
mark AS (UPDATE event_ledgers l SET forgotten = b.last FROM bound b WHERE l.n = b.n AND EXISTS (SELECT FROM gone))
SELECT count(*) FROM gone`
)

func (s events) Forget(cutoff time.Time, limit int) (total int, err error) {
	var ledgers []int64
	err = s.t.change(&query{what: "find old events", sql: oldLedgers, args: []any{unixMillis(cutoff), limit},
		each: list(&ledgers, func(r pgx.Rows, n *int64) error { return r.Scan(n) })})
	for _, n := range ledgers {
		if err != nil || total == limit {
			break
		}
		var gone int
		err = s.t.change(&query{what: "forget events", sql: forgetFront, args: []any{n, limit - total, unixMillis(cutoff)}, each: one(&gone)})
		total += gone
	}
	return total, err
}

type verifications struct{ t eventTx }

const (
	findVerified   = `SELECT verified_at FROM event_verifications WHERE principal = $1 AND url = $2`
	recordVerified = `
INSERT INTO event_verifications (principal, url, verified_at) VALUES ($1, $2, $3)
ON CONFLICT (principal, url) DO UPDATE SET verified_at = excluded.verified_at`
	withdrawVerified = `DELETE FROM event_verifications WHERE principal = $1 AND url = $2`
	forgetVerified   = `
DELETE FROM event_verifications WHERE (principal, url) IN (SELECT v.principal, v.url FROM event_verifications v
    WHERE v.verified_at < $1 AND NOT EXISTS (SELECT FROM event_subscriptions s WHERE s.url = v.url AND s.principal = v.principal
        AND s.state <> 'ended') LIMIT $2 FOR UPDATE SKIP LOCKED)`
)

func (s verifications) Verified(principal, url string) (at time.Time, err error) {
	return at, s.t.run(&query{what: "find verification", sql: findVerified, args: []any{principal, url}, each: one((*instant)(&at))})
}

func (s verifications) Record(principal, url string, at time.Time) error {
	return s.t.change(&query{what: "record verification", sql: recordVerified, args: []any{principal, url, unixMillis(at)}})
}

func (s verifications) Withdraw(principal, url string) error {
	return s.t.change(&query{what: "withdraw verification", sql: withdrawVerified, args: []any{principal, url}})
}

func (s verifications) Forget(cutoff time.Time, limit int) (int, error) {
	q := &query{what: "forget verifications", sql: forgetVerified, args: []any{unixMillis(cutoff), limit}}
	err := s.t.change(q)
	return int(q.count), err
}
