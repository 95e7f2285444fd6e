package sqlite

import (
	"slices"
	"strconv"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// lanes remembers the keys of subscriptions that a transaction met.
type lanes map[string]int64

// met returns a subscription's key, which it looks up once in a transaction; 0 when there is none.
func (t deliveries) met(id string) (int64, error) {
	if lane := t.lanes[id]; lane != 0 {
		return lane, nil
	}
	lane, err := t.lane(id)
	if lane != 0 {
		t.lanes[id] = lane
	}
	return lane, err
}

// lane returns a subscription's key; 0 when there is none.
func (t *tx) lane(id string) (int64, error) {
	const query = `SELECT n FROM subscriptions WHERE id = ?`
	return t.count("find lane", t.prepare(query).Text(id))
}

// Queue stores what differs by nothing but the subscription, as the deliveries of one event do, by two statements.
func (t deliveries) Queue(ds []driver.Delivery) error {
	for len(ds) > 0 {
		n := 1
		for n < len(ds) && alike(&ds[0], &ds[n]) {
			n++
		}
		if err := t.queueAlike(ds[:n]); err != nil {
			return err
		}
		ds = ds[n:]
	}
	return nil
}

// alike reports whether two deliveries differ by nothing but the subscription.
func alike(a, b *driver.Delivery) bool {
	same := *b
	same.Subscription = a.Subscription
	return a.Subscription != b.Subscription && same == *a
}

// queueAlike stores deliveries that are alike.
func (t deliveries) queueAlike(ds []driver.Delivery) error {
	found := make([]int64, len(ds))
	for i := range ds {
		lane, err := t.met(ds[i].Subscription)
		if err != nil {
			return err
		}
		if lane == 0 {
			return driver.ErrNotFound
		}
		found[i] = lane
	}
	if len(ds) == 1 {
		return t.queueOne(found[0], &ds[0])
	}
	slices.Sort(found)
	return t.queueMany(slices.Compact(found), &ds[0])
}

// queueMany stores a delivery like d for each lane. Its statements stop at a failure instead of undoing themselves, which
// spares them to keep a copy of every page; the failure ends the transaction anyway.
func (t deliveries) queueMany(lanes []int64, d *driver.Delivery) error {
	const insert = `INSERT OR IGNORE INTO deliveries (subscription, sequence, state, reason, cursor, tries, attempts, manual, queued_at, due_at,
			deadline_at, settled_at, lease, leased)
		SELECT value, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0 FROM json_each(?)`
	numbers := numberList(lanes)
	n, err := t.change(insert).Int(d.Sequence).Int(stateNumber(d.State)).Text(d.Reason).Int(d.Cursor).Int(int64(d.Tries)).
		Int(int64(d.Attempts)).Bool(d.Manual).Time(d.Queued).Time(d.Due).Time(d.Deadline).Time(d.Settled).Int(d.Lease).Text(numbers).Exec()
	switch {
	case err != nil:
		return t.fail("queue deliveries", err)
	case int(n) < len(lanes):
		return t.queueAgain(lanes, d)
	case d.State != driver.Pending:
		return nil
	}
	const update = `UPDATE OR FAIL lanes SET ` + afterQueueing + ` WHERE n IN (SELECT value FROM json_each(?3))`
	_, err = t.change(update).Int(d.Sequence).Time(d.Due).Text(numbers).Exec()
	return t.fail("queue in lanes", err)
}

// queueAgain finishes queueMany when some were there already, which events that are emitted never are.
func (t deliveries) queueAgain(lanes []int64, d *driver.Delivery) error {
	const recount = `UPDATE lanes SET pending = (SELECT count(*) FROM deliveries INDEXED BY deliveries_waiting WHERE subscription = ?1 AND state = 0),
		oldest = coalesce((SELECT min(sequence) FROM deliveries INDEXED BY deliveries_waiting
			WHERE subscription = ?1 AND state = 0), 0) WHERE n = ?1`
	for _, lane := range lanes {
		if _, err := t.upsert(lane, d); err != nil {
			return err
		}
		if _, err := t.change(recount).Int(lane).Exec(); err != nil {
			return t.fail("recount lane", err)
		}
		if err := t.settleLane(lane, 0); err != nil {
			return err
		}
	}
	return nil
}

// queueOne stores one delivery, unless it is pending already.
func (t deliveries) queueOne(lane int64, d *driver.Delivery) error {
	n, err := t.upsert(lane, d)
	if err != nil || n == 0 || d.State != driver.Pending {
		return err
	}
	const update = `UPDATE lanes SET ` + afterQueueing + ` WHERE n = ?3`
	_, err = t.change(update).Int(d.Sequence).Time(d.Due).Int(lane).Exec()
	return t.fail("queue in lane", err)
}

// upsert leaves the lane to its caller. It returns 0 when the delivery is pending already.
func (t deliveries) upsert(lane int64, d *driver.Delivery) (int64, error) {
	const upsert = `INSERT INTO deliveries (subscription, sequence, state, reason, cursor, tries, attempts, manual, queued_at, due_at,
			deadline_at, settled_at, lease, leased)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
		ON CONFLICT DO UPDATE SET state = excluded.state, reason = excluded.reason, cursor = excluded.cursor, tries = excluded.tries,
			manual = excluded.manual, queued_at = excluded.queued_at, due_at = excluded.due_at, deadline_at = excluded.deadline_at,
			settled_at = excluded.settled_at WHERE state <> 0`
	n, err := t.change(upsert).Int(lane).Int(d.Sequence).Int(stateNumber(d.State)).Text(d.Reason).Int(d.Cursor).Int(int64(d.Tries)).
		Int(int64(d.Attempts)).Bool(d.Manual).Time(d.Queued).Time(d.Due).Time(d.Deadline).Time(d.Settled).Int(d.Lease).Exec()
	return n, t.fail("queue delivery", err)
}

// afterQueueing applies the lane rule of package driver after a delivery with sequence ?1 and due time ?2 was queued, mostly
// without looking at the others: of a strict lane only an older one matters, of a free one only an earlier one, and that
// only while no lease limits it.
const afterQueueing = `pending = pending + 1,
	oldest = CASE WHEN pending = 0 THEN ?1 ELSE min(oldest, ?1) END,
	due_at = CASE
		WHEN NOT active THEN NULL
		WHEN pending = 0 OR strict AND ?1 < oldest THEN ?2
		WHEN strict OR due_at <= ?2 OR (SELECT count(*) FROM deliveries WHERE subscription = lanes.n AND leased = 1) >= parallel THEN due_at
		ELSE ?2 END`

// settleLane applies the lane rule after more deliveries became pending or, negative, stopped being.
func (t *tx) settleLane(n int64, more int) error {
	const update = `UPDATE lanes SET pending = pending + ?2,
			oldest = CASE WHEN pending + ?2 = 0 THEN 0 ELSE (SELECT min(sequence) FROM deliveries INDEXED BY deliveries_waiting
				WHERE subscription = ?1 AND state = 0) END,
			due_at = CASE
			WHEN NOT active OR pending + ?2 = 0 THEN NULL
			WHEN strict THEN (SELECT due_at FROM deliveries INDEXED BY deliveries_waiting
				WHERE subscription = ?1 AND state = 0 ORDER BY sequence LIMIT 1)
			WHEN (SELECT count(*) FROM deliveries WHERE subscription = ?1 AND leased = 1) < parallel
				THEN (SELECT min(due_at) FROM deliveries INDEXED BY deliveries_due WHERE subscription = ?1 AND state = 0)
			ELSE (SELECT min(due_at) FROM deliveries WHERE subscription = ?1 AND leased = 1) END
		WHERE n = ?1`
	_, err := t.change(update).Int(n).Int(int64(more)).Exec()
	return t.fail("settle lane", err)
}

// numberList writes numbers as a JSON array.
func numberList(numbers []int64) string {
	b := append(make([]byte, 0, 8*len(numbers)+2), '[')
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}
