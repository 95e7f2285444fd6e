package postgres

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/herald-relay/herald/mcpevents/driver"
)

type deliveries struct{ t eventTx }

// Lanes are locked in the order of their keys before they or their deliveries change, so that no two transactions wait for
// each other.
const (
	lockLanes   = `SELECT n FROM event_lanes WHERE n = ANY ($1) ORDER BY n FOR UPDATE`
	settleLanes = `
UPDATE event_lanes l SET pending = l.pending + x.more,
    oldest = COALESCE((SELECT d.sequence FROM event_deliveries d WHERE d.subscription = l.n AND d.state = 'pending'
        ORDER BY d.sequence LIMIT 1), 0),
    due_at = CASE WHEN NOT l.active THEN NULL
        WHEN l.strict THEN (SELECT d.due_at FROM event_deliveries d WHERE d.subscription = l.n AND d.state = 'pending' ORDER BY d.sequence LIMIT 1)
        WHEN (SELECT count(*) FROM (SELECT FROM event_deliveries d WHERE d.subscription = l.n AND d.leased LIMIT l.parallel) busy) >= l.parallel
            THEN (SELECT d.due_at FROM event_deliveries d WHERE d.subscription = l.n AND d.leased ORDER BY d.due_at LIMIT 1)
        ELSE (SELECT d.due_at FROM event_deliveries d WHERE d.subscription = l.n AND d.state = 'pending' ORDER BY d.due_at LIMIT 1) END
FROM unnest($1::bigint[], $2::bigint[]) AS x (n, more) WHERE l.n = x.n`
)

// settleLanes makes lanes true again after their deliveries changed; more is how many more of each are pending.
func (t eventTx) settleLanes(lanes, more []int64) error {
	if len(lanes) == 0 {
		return nil
	}
	return t.run(&query{what: "lock lanes", sql: lockLanes, args: []any{lanes}, writes: true},
		&query{what: "settle lanes", sql: settleLanes, args: []any{lanes, more}, writes: true})
}

// tally counts by lane.
type tally map[int64]int64

func (t tally) columns() (lanes, more []int64) {
	for n := range t {
		lanes = append(lanes, n)
	}
	slices.Sort(lanes)
	return lanes, column(lanes, func(n *int64) int64 { return t[*n] })
}

const (
	lanesOf = `
SELECT s.id, l.n FROM event_subscriptions s JOIN event_lanes l ON l.n = s.n WHERE s.id = ANY ($1) ORDER BY l.n FOR UPDATE OF l`
	queueDeliveries = `
INSERT INTO event_deliveries AS d (subscription, sequence, state, reason, cursor, tries, attempts, manual, queued_at, due_at, deadline_at,
    settled_at, lease, leased)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::boolean[], $9::bigint[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::boolean[])
ON CONFLICT (subscription, sequence) DO UPDATE SET state = excluded.state, reason = excluded.reason, cursor = excluded.cursor,
    tries = excluded.tries, manual = excluded.manual, queued_at = excluded.queued_at, due_at = excluded.due_at,
    deadline_at = excluded.deadline_at, settled_at = excluded.settled_at, leased = false
WHERE d.state <> 'pending' RETURNING subscription, state = 'pending'`
)

// lanes locks the lanes of subscriptions and returns their keys by id.
func (s deliveries) lanes(ids []string) (map[string]int64, error) {
	found := map[string]int64{}
	return found, s.t.change(&query{what: "find lanes", sql: lanesOf, args: []any{ids}, each: func(r pgx.Rows) error {
		var id string
		var n int64
		err := r.Scan(&id, &n)
		found[id] = n
		return err
	}})
}

func (s deliveries) Queue(ds []driver.Delivery) error {
	if len(ds) == 0 {
		return nil
	}
	lanes, err := s.lanes(column(ds, func(d *driver.Delivery) string { return d.Subscription }))
	if err != nil {
		return err
	}
	for _, d := range ds {
		if lanes[d.Subscription] == 0 {
			return fmt.Errorf("postgres: queue a delivery: there is no subscription %q", d.Subscription)
		}
	}
	instants := func(at func(*driver.Delivery) time.Time) []pgtype.Int8 {
		return column(ds, func(d *driver.Delivery) pgtype.Int8 { return millis(at(d)) })
	}
	ints := func(n func(*driver.Delivery) int64) []int64 { return column(ds, n) }
	changed := tally{}
	q := &query{what: "queue deliveries", sql: queueDeliveries, args: []any{
		ints(func(d *driver.Delivery) int64 { return lanes[d.Subscription] }), ints(func(d *driver.Delivery) int64 { return d.Sequence }),
		column(ds, func(d *driver.Delivery) string { return string(d.State) }), column(ds, func(d *driver.Delivery) string { return d.Reason }),
		ints(func(d *driver.Delivery) int64 { return d.Cursor }), ints(func(d *driver.Delivery) int64 { return int64(d.Tries) }),
		ints(func(d *driver.Delivery) int64 { return int64(d.Attempts) }), column(ds, func(d *driver.Delivery) bool { return d.Manual }),
		instants(func(d *driver.Delivery) time.Time { return d.Queued }), instants(func(d *driver.Delivery) time.Time { return d.Due }),
		instants(func(d *driver.Delivery) time.Time { return d.Deadline }), instants(func(d *driver.Delivery) time.Time { return d.Settled }),
		ints(func(d *driver.Delivery) int64 { return d.Lease }), column(ds, func(d *driver.Delivery) bool { return d.Leased }),
	}, each: func(r pgx.Rows) error {
		var n int64
		var pending bool
		err := r.Scan(&n, &pending)
		if changed[n] += 0; pending {
			changed[n]++
		}
		return err
	}}
	if err := s.t.change(q); err != nil {
		return err
	}
	return s.t.settleLanes(changed.columns())
}

const (
	// The due lanes are found in the index alone: those of busy hosts cost no look at their rows.
	dueLanes = `
WITH due AS MATERIALIZED (SELECT n, due_at FROM event_lanes WHERE due_at IS NOT NULL AND due_at <= $1
    AND (expires_at IS NULL OR expires_at > $1) AND host <> ALL ($2) ORDER BY due_at LIMIT $3)
SELECT l.n, l.host, l.strict, l.parallel, l.oldest FROM due JOIN event_lanes l ON l.n = due.n
WHERE l.due_at IS NOT NULL AND l.due_at <= $1 ORDER BY due.due_at, l.n FOR UPDATE OF l SKIP LOCKED`
	claimable = `
SELECT l.n, d.sequence FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS l (n, parallel, place) CROSS JOIN LATERAL (
    (SELECT sequence, 0 AS turn, due_at FROM event_deliveries WHERE subscription = l.n AND leased AND due_at <= $3
        ORDER BY due_at, sequence LIMIT $4)
    UNION ALL
    (SELECT sequence, 1, due_at FROM event_deliveries WHERE subscription = l.n AND state = 'pending' AND NOT leased AND due_at <= $3
        ORDER BY due_at, sequence LIMIT GREATEST(0, LEAST($4, l.parallel -
            (SELECT count(*) FROM event_deliveries WHERE subscription = l.n AND leased))))) d
ORDER BY l.place, d.turn, d.due_at, d.sequence`
	leaseDeliveries = `
UPDATE event_deliveries d SET leased = true, lease = d.lease + 1, due_at = $3
FROM unnest($1::bigint[], $2::bigint[]) AS x (n, sequence) WHERE d.subscription = x.n AND d.sequence = x.sequence`
	deliveryColumns = `d.sequence, d.state, d.reason, d.cursor, d.tries, d.attempts, d.manual, d.queued_at, d.due_at, d.deadline_at,
    d.settled_at, d.lease, d.leased`
	loadLeases = `
SELECT ` + subscriptionColumns + `, ` + deliveryColumns + `, COALESCE(l.epoch, ''), e.ledger IS NOT NULL, COALESCE(e.id, ''), COALESCE(e.name, ''),
    COALESCE(e.subject, ''), COALESCE(e.audience, ''), e.time, e.recorded_at, e.data, e.meta
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS x (n, sequence, place)
JOIN event_subscriptions s ON s.n = x.n JOIN event_deliveries d ON d.subscription = x.n AND d.sequence = x.sequence
LEFT JOIN event_ledgers l ON l.name = s.ledger LEFT JOIN events e ON e.ledger = l.n AND e.sequence = d.sequence
ORDER BY x.place`
)

func deliveryFields(d *driver.Delivery) []any {
	return []any{&d.Sequence, (*string)(&d.State), &d.Reason, &d.Cursor, &d.Tries, &d.Attempts, &d.Manual, (*instant)(&d.Queued),
		(*instant)(&d.Due), (*instant)(&d.Deadline), (*instant)(&d.Settled), &d.Lease, &d.Leased}
}

func scanLease(r pgx.Rows, l *driver.Lease) error {
	var row stored
	var there bool
	e := &l.Event
	fields := append(append(row.fields(), deliveryFields(&l.Delivery)...), &l.Epoch, &there, &e.ID, &e.Name, &e.Subject, &e.Audience,
		(*instant)(&e.Time), (*instant)(&e.Recorded), &e.Data, &e.Meta)
	if err := r.Scan(fields...); err != nil {
		return err
	}
	l.Subscription = row.whole()
	l.Delivery.Subscription, l.Delivery.Ledger = l.Subscription.ID, l.Subscription.Ledger
	if there {
		e.Ledger, e.Sequence = l.Subscription.Ledger, l.Delivery.Sequence
	} else {
		l.Event = driver.Event{}
	}
	return nil
}

// load reads deliveries with their events, if those are kept, and their subscriptions.
func (s deliveries) load(lanes, sequences []int64) (out []driver.Lease, err error) {
	return out, s.t.run(&query{what: "load deliveries", sql: loadLeases, args: []any{lanes, sequences}, each: list(&out, scanLease)})
}

// dueLane is a subscription with something to claim.
type dueLane struct {
	n        int64
	host     string
	strict   bool
	parallel int64
	oldest   int64
}

// lanesPerClaim is how many due lanes are looked at for each delivery that may be claimed: some are locked by other
// processes, some are of a host that has its share.
const lanesPerClaim = 4

func (s deliveries) Claim(p driver.ClaimParams) ([]driver.Lease, error) {
	busy := p.BusyHosts
	if busy == nil {
		busy = []string{}
	}
	var lanes []dueLane
	err := s.t.change(&query{what: "find due lanes", sql: dueLanes, args: []any{unixMillis(p.Now), busy, lanesPerClaim * p.Limit},
		each: list(&lanes, func(r pgx.Rows, l *dueLane) error { return r.Scan(&l.n, &l.host, &l.strict, &l.parallel, &l.oldest) })})
	if err != nil || len(lanes) == 0 {
		return nil, err
	}
	due, err := s.claimable(lanes, p)
	if err != nil {
		return nil, err
	}
	var chosen, sequences []int64
	taken, touched := map[string]int{}, tally{}
	for _, l := range lanes {
		most := min(p.Limit-len(chosen), p.PerHost-taken[l.host], len(due[l.n]))
		for _, sequence := range due[l.n][:max(most, 0)] {
			chosen, sequences = append(chosen, l.n), append(sequences, sequence)
			taken[l.host]++
			touched[l.n] = 0
		}
	}
	if len(chosen) == 0 {
		return nil, nil
	}
	err = s.t.change(&query{what: "lease deliveries", sql: leaseDeliveries, args: []any{chosen, sequences, unixMillis(p.Until)}})
	if err == nil {
		err = s.t.settleLanes(touched.columns())
	}
	if err != nil {
		return nil, err
	}
	return s.load(chosen, sequences)
}

// claimable returns what each lane has to lease: a strict one its oldest; a free one those whose lease ran out, then others
// while there is room.
func (s deliveries) claimable(lanes []dueLane, p driver.ClaimParams) (map[int64][]int64, error) {
	due := map[int64][]int64{}
	var free, parallel []int64
	for _, l := range lanes {
		switch {
		case !l.strict:
			free, parallel = append(free, l.n), append(parallel, l.parallel)
		case l.oldest > 0:
			due[l.n] = []int64{l.oldest}
		}
	}
	if len(free) == 0 {
		return due, nil
	}
	err := s.t.run(&query{what: "find due deliveries", sql: claimable, args: []any{free, parallel, unixMillis(p.Now), min(p.PerLane, p.Limit)},
		each: func(r pgx.Rows) error {
			var n, sequence int64
			err := r.Scan(&n, &sequence)
			if len(due[n]) < p.PerLane {
				due[n] = append(due[n], sequence)
			}
			return err
		}})
	return due, err
}

const laneOf = `SELECT n FROM event_subscriptions s WHERE id = $1`

// lane returns the key of a subscription, 0 when there is none, and locks it in an Update.
func (s deliveries) lane(subscription string) (n int64, err error) {
	return n, s.t.run(&query{what: "find subscription", sql: s.t.locking(laneOf, "s"), args: []any{subscription}, each: one(&n)})
}

func (s deliveries) Leased(subscription string, sequence int64) (driver.Lease, error) {
	n, err := s.lane(subscription)
	if err != nil {
		return driver.Lease{}, err
	}
	found, err := s.load([]int64{n}, []int64{sequence})
	if err != nil || len(found) == 0 {
		return driver.Lease{}, orNotFound(err)
	}
	return found[0], nil
}

func orNotFound(err error) error {
	if err == nil {
		err = driver.ErrNotFound
	}
	return err
}

const (
	settleDeliveries = `
UPDATE event_deliveries d SET state = x.state, reason = x.reason, due_at = COALESCE(x.due_at, d.due_at), settled_at = x.settled_at, leased = false,
    tries = d.tries + x.tried, attempts = d.attempts + x.tried
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[]) WITH ORDINALITY
    AS x (n, sequence, lease, state, reason, due_at, settled_at, tried, place)
WHERE d.subscription = x.n AND d.sequence = x.sequence AND d.state = 'pending' AND d.lease = x.lease AND d.leased RETURNING x.place`
	recordAttempts = `
INSERT INTO event_attempts (subscription, sequence, number, started_at, elapsed_ms, status, category, verdict, manual)
SELECT d.subscription, d.sequence, d.attempts, x.started_at, x.elapsed_ms, x.status, x.category, x.verdict, d.manual
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])
    AS x (n, sequence, started_at, elapsed_ms, status, category, verdict)
JOIN event_deliveries d ON d.subscription = x.n AND d.sequence = x.sequence`
)

func (s deliveries) Settle(ss []driver.Settlement) ([]bool, error) {
	held := make([]bool, len(ss))
	if len(ss) == 0 {
		return held, nil
	}
	lanes, err := s.lanes(column(ss, func(x *driver.Settlement) string { return x.Subscription }))
	if err != nil {
		return nil, err
	}
	gone := tally{}
	for first := 0; first < len(ss); {
		last := first + once(ss[first:])
		if err := s.settle(lanes, ss[first:last], held[first:last], gone); err != nil {
			return nil, err
		}
		first = last
	}
	return held, s.t.settleLanes(gone.columns())
}

// once returns how many settlements there are before one of a delivery that was met already: one statement changes a row
// once.
func once(ss []driver.Settlement) int {
	type delivery struct {
		subscription string
		sequence     int64
	}
	met := map[delivery]bool{}
	for i, s := range ss {
		d := delivery{s.Subscription, s.Sequence}
		if met[d] {
			return i
		}
		met[d] = true
	}
	return len(ss)
}

func (s deliveries) settle(lanes map[string]int64, ss []driver.Settlement, held []bool, gone tally) error {
	lane := func(x *driver.Settlement) int64 { return lanes[x.Subscription] }
	pending := func(x *driver.Settlement) bool { return x.State == driver.Pending }
	q := &query{what: "settle deliveries", sql: settleDeliveries, args: []any{column(ss, lane),
		column(ss, func(x *driver.Settlement) int64 { return x.Sequence }), column(ss, func(x *driver.Settlement) int64 { return x.Lease }),
		column(ss, func(x *driver.Settlement) string { return string(x.State) }), column(ss, func(x *driver.Settlement) string { return x.Reason }),
		column(ss, func(x *driver.Settlement) (at pgtype.Int8) {
			if pending(x) {
				at = millis(x.Due)
			}
			return at
		}),
		column(ss, func(x *driver.Settlement) (at pgtype.Int8) {
			if !pending(x) {
				at = millis(x.At)
			}
			return at
		}),
		column(ss, func(x *driver.Settlement) (n int64) {
			if x.Attempt != nil {
				n = 1
			}
			return n
		}),
	}, each: func(r pgx.Rows) error {
		var place int
		err := r.Scan(&place)
		held[place-1] = true
		return err
	}}
	if err := s.t.change(q); err != nil {
		return err
	}
	var tried []driver.Settlement
	for i := range ss {
		if !held[i] {
			continue
		}
		if gone[lane(&ss[i])] += 0; !pending(&ss[i]) {
			gone[lane(&ss[i])]--
		}
		if ss[i].Attempt != nil {
			tried = append(tried, ss[i])
		}
	}
	if len(tried) == 0 {
		return nil
	}
	return s.t.change(&query{what: "record attempts", sql: recordAttempts, args: []any{column(tried, lane),
		column(tried, func(x *driver.Settlement) int64 { return x.Sequence }),
		column(tried, func(x *driver.Settlement) pgtype.Int8 { return millis(x.Attempt.Started) }),
		column(tried, func(x *driver.Settlement) int64 { return x.Attempt.Elapsed.Milliseconds() }),
		column(tried, func(x *driver.Settlement) int64 { return int64(x.Attempt.Status) }),
		column(tried, func(x *driver.Settlement) string { return x.Attempt.Category }),
		column(tried, func(x *driver.Settlement) string { return x.Attempt.Verdict })}})
}

const (
	oldestPending = `SELECT l.oldest FROM event_subscriptions s JOIN event_lanes l ON l.n = s.n WHERE s.id = $1`
	countPending  = `SELECT l.pending FROM event_subscriptions s JOIN event_lanes l ON l.n = s.n WHERE s.id = $1`
)

func (s deliveries) Oldest(subscription string) (n int64, err error) {
	return n, s.t.run(&query{what: "find oldest delivery", sql: oldestPending, args: []any{subscription}, each: one(&n)})
}

func (s deliveries) CountPending(subscription string) (n int, err error) {
	return n, s.t.run(&query{what: "count pending deliveries", sql: countPending, args: []any{subscription}, each: one(&n)})
}

const dropDeliveries = `
UPDATE event_deliveries SET state = 'dropped', reason = $2, settled_at = $3, leased = false WHERE subscription = $1 AND sequence IN
    (SELECT sequence FROM event_deliveries WHERE subscription = $1 AND state = 'pending' ORDER BY sequence LIMIT $4)`

func (s deliveries) Drop(subscription, reason string, at time.Time, limit int) (int, error) {
	lanes, err := s.lanes([]string{subscription})
	if err != nil || len(lanes) == 0 {
		return 0, err
	}
	n := lanes[subscription]
	q := &query{what: "drop deliveries", sql: dropDeliveries, args: []any{n, reason, unixMillis(at), limit}}
	if err := s.t.change(q); err != nil || q.count == 0 {
		return 0, err
	}
	return int(q.count), s.t.settleLanes([]int64{n}, []int64{-q.count})
}

const (
	overdueLanes = `
SELECT l.n FROM event_lanes l WHERE l.n IN (SELECT d.subscription FROM event_deliveries d JOIN event_subscriptions s ON s.n = d.subscription
    WHERE d.state = 'pending' AND d.deadline_at IS NOT NULL AND d.deadline_at <= $1 AND NOT d.leased AND s.state <> 'suspended'
    ORDER BY d.deadline_at LIMIT $2) ORDER BY l.n FOR UPDATE`
	dropOverdue = `
WITH due AS (SELECT d.subscription, d.sequence FROM event_deliveries d JOIN event_subscriptions s ON s.n = d.subscription
    WHERE d.subscription = ANY ($4) AND d.state = 'pending' AND d.deadline_at IS NOT NULL AND d.deadline_at <= $1 AND NOT d.leased
        AND s.state <> 'suspended' ORDER BY d.deadline_at LIMIT $2),
gone AS (UPDATE event_deliveries d SET state = 'dropped', reason = $3, settled_at = $1 FROM due
    WHERE d.subscription = due.subscription AND d.sequence = due.sequence RETURNING d.subscription)
SELECT s.n, s.id, count(*) FROM gone JOIN event_subscriptions s ON s.n = gone.subscription GROUP BY s.n, s.id`
)

func (s deliveries) Overdue(now time.Time, reason string, limit int) (map[string]int, error) {
	var lanes []int64
	err := s.t.change(&query{what: "find overdue deliveries", sql: overdueLanes, args: []any{unixMillis(now), limit},
		each: list(&lanes, func(r pgx.Rows, n *int64) error { return r.Scan(n) })})
	if err != nil || len(lanes) == 0 {
		return nil, err
	}
	dropped, gone := map[string]int{}, tally{}
	err = s.t.change(&query{what: "drop overdue deliveries", sql: dropOverdue, args: []any{unixMillis(now), limit, reason, lanes}, each: func(r pgx.Rows) error {
		var n int64
		var id string
		var count int
		err := r.Scan(&n, &id, &count)
		dropped[id], gone[n] = count, -int64(count)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return dropped, s.t.settleLanes(gone.columns())
}

const postponeDeliveries = `
UPDATE event_deliveries SET deadline_at = deadline_at + $2, due_at = CASE WHEN leased THEN due_at ELSE LEAST(due_at, $3) END
WHERE subscription = $1 AND state = 'pending'`

func (s deliveries) Postpone(subscription string, by time.Duration, now time.Time) error {
	lanes, err := s.lanes([]string{subscription})
	if err != nil || len(lanes) == 0 {
		return orNotFound(err)
	}
	n := lanes[subscription]
	if err := s.t.change(&query{what: "postpone deliveries", sql: postponeDeliveries, args: []any{n, by.Milliseconds(), unixMillis(now)}}); err != nil {
		return err
	}
	return s.t.settleLanes([]int64{n}, []int64{0})
}

const listDeliveries = `
SELECT ` + deliveryColumns + `, s.id, s.ledger FROM event_subscriptions s JOIN event_deliveries d ON d.subscription = s.n
WHERE s.id = $1 AND d.sequence < $2 ORDER BY d.sequence DESC LIMIT $3`

func (s deliveries) List(subscription string, before int64, limit int) (out []driver.Delivery, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return out, s.t.run(&query{what: "list deliveries", sql: listDeliveries, args: []any{subscription, before, limit},
		each: list(&out, func(r pgx.Rows, d *driver.Delivery) error {
			return r.Scan(append(deliveryFields(d), &d.Subscription, &d.Ledger)...)
		})})
}

const listAttempts = `
SELECT a.number, a.started_at, a.elapsed_ms, a.status, a.category, a.verdict, a.manual FROM event_subscriptions s
JOIN event_attempts a ON a.subscription = s.n WHERE s.id = $1 AND a.sequence = $2 ORDER BY a.number DESC LIMIT $3`

func (s deliveries) Attempts(subscription string, sequence int64, limit int) (out []driver.Attempt, err error) {
	return out, s.t.run(&query{what: "list attempts", sql: listAttempts, args: []any{subscription, sequence, limit},
		each: list(&out, func(r pgx.Rows, a *driver.Attempt) error {
			var elapsed int64
			err := r.Scan(&a.Number, (*instant)(&a.Started), &elapsed, &a.Status, &a.Category, &a.Verdict, &a.Manual)
			a.Subscription, a.Sequence, a.Elapsed = subscription, sequence, time.Duration(elapsed)*time.Millisecond
			return err
		})})
}

const nextDueLane = `SELECT min(due_at) FROM event_lanes WHERE due_at IS NOT NULL AND due_at > $1`

func (s deliveries) NextDue(now time.Time) (due time.Time, err error) {
	return due, s.t.run(&query{what: "find next due lane", sql: nextDueLane, args: []any{unixMillis(now)}, each: one((*instant)(&due))})
}

const (
	oldDeliveries = `
SELECT subscription, sequence FROM event_deliveries WHERE settled_at IS NOT NULL AND settled_at < $1 ORDER BY settled_at LIMIT $2
FOR UPDATE SKIP LOCKED`
	forgetAttempts = `
DELETE FROM event_attempts a USING unnest($1::bigint[], $2::bigint[]) AS x (n, sequence) WHERE a.subscription = x.n AND a.sequence = x.sequence`
	forgetDeliveries = `
DELETE FROM event_deliveries d USING unnest($1::bigint[], $2::bigint[]) AS x (n, sequence) WHERE d.subscription = x.n AND d.sequence = x.sequence`
)

func (s deliveries) Forget(cutoff time.Time, limit int) (int, error) {
	var lanes, sequences []int64
	err := s.t.change(&query{what: "find old deliveries", sql: oldDeliveries, args: []any{unixMillis(cutoff), limit}, each: func(r pgx.Rows) error {
		var n, sequence int64
		err := r.Scan(&n, &sequence)
		lanes, sequences = append(lanes, n), append(sequences, sequence)
		return err
	}})
	if err != nil || len(lanes) == 0 {
		return 0, err
	}
	return len(lanes), s.t.run(&query{what: "forget attempts", sql: forgetAttempts, args: []any{lanes, sequences}, writes: true},
		&query{what: "forget deliveries", sql: forgetDeliveries, args: []any{lanes, sequences}, writes: true})
}
