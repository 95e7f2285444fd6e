package sqlite

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/mcpevents/driver"
)

type deliveries struct {
	*tx
	lanes lanes
}

const deliveryColumns = `s.id, d.sequence, s.ledger, d.state, d.reason, d.cursor, d.tries, d.attempts, d.manual, d.queued_at, d.due_at,
	d.deadline_at, d.settled_at, d.lease, d.leased`

// deliveryWidth is the number of deliveryColumns.
const deliveryWidth = 15

// deliveryStates are the states by their numbers in the table.
var deliveryStates = [...]driver.DeliveryState{driver.Pending, driver.Delivered, driver.Dropped, driver.Held}

func stateOf(n int64) driver.DeliveryState { return deliveryStates[n] }

// stateNumber returns -1, which the table refuses, for what is no state.
func stateNumber(s driver.DeliveryState) int64 { return int64(slices.Index(deliveryStates[:], s)) }

// scanDelivery reads deliveryColumns from column i on.
func scanDelivery(s *native.Stmt, i int) driver.Delivery {
	return driver.Delivery{Subscription: s.ColText(i), Sequence: s.ColInt(i + 1), Ledger: s.ColText(i + 2),
		State: stateOf(s.ColInt(i + 3)), Reason: s.ColText(i + 4), Cursor: s.ColInt(i + 5), Tries: int(s.ColInt(i + 6)),
		Attempts: int(s.ColInt(i + 7)), Manual: s.ColBool(i + 8), Queued: s.ColTime(i + 9), Due: s.ColTime(i + 10),
		Deadline: s.ColTime(i + 11), Settled: s.ColTime(i + 12), Lease: s.ColInt(i + 13), Leased: s.ColBool(i + 14)}
}

// dueLane is a subscription with something to claim.
type dueLane struct {
	n        int64
	host     string
	strict   bool
	parallel int
}

// Claim reads a bounded number of due lanes: a host that fills them all beyond its share is left out by its next call.
func (t deliveries) Claim(p driver.ClaimParams) ([]driver.Lease, error) {
	const query = `SELECT n, host, strict, parallel FROM lanes
		WHERE due_at IS NOT NULL AND due_at <= ?1 AND (expires_at IS NULL OR expires_at > ?1)
			AND host NOT IN (SELECT value FROM json_each(?2)) ORDER BY due_at LIMIT ?3`
	s := t.change(query).Int(p.Now.UnixMilli()).Text(hostList(p.BusyHosts)).Int(int64(2 * p.Limit))
	lanes, err := list(t.tx, "find due lanes", s, func(s *native.Stmt) dueLane {
		return dueLane{s.ColInt(0), s.ColText(1), s.ColBool(2), int(s.ColInt(3))}
	})
	if err != nil {
		return nil, err
	}
	var leases []driver.Lease
	taken := map[string]int{}
	for _, l := range lanes {
		most := min(p.Limit-len(leases), p.PerHost-taken[l.host])
		if most <= 0 {
			continue
		}
		before := len(leases)
		if leases, err = t.claimLane(leases, l, p, most); err != nil {
			return nil, err
		}
		taken[l.host] += len(leases) - before
	}
	return leases, nil
}

// hostList writes host names as a JSON array. They come from checked URLs and hold nothing that would need escaping.
func hostList(hosts []string) string {
	if len(hosts) == 0 {
		return "[]"
	}
	return `["` + strings.Join(hosts, `","`) + `"]`
}

func (t deliveries) claimLane(leases []driver.Lease, l dueLane, p driver.ClaimParams, most int) ([]driver.Lease, error) {
	sequences, err := t.claimable(l, p, most)
	if err != nil {
		return nil, err
	}
	const lease = `UPDATE deliveries SET leased = 1, lease = lease + 1, due_at = ? WHERE subscription = ? AND sequence = ?`
	for _, sequence := range sequences {
		if _, err := t.change(lease).Int(p.Until.UnixMilli()).Int(l.n).Int(sequence).Exec(); err != nil {
			return nil, t.fail("lease delivery", err)
		}
		claimed, err := t.load(l.n, sequence)
		if err != nil {
			return nil, err
		}
		leases = append(leases, claimed)
	}
	return leases, t.settleLane(l.n, 0)
}

// claimable returns the sequences to lease: a strict lane's oldest; of a free one those whose lease ran out, then others
// while there is room.
func (t deliveries) claimable(l dueLane, p driver.ClaimParams, most int) ([]int64, error) {
	number := func(s *native.Stmt) int64 { return s.ColInt(0) }
	now := p.Now.UnixMilli()
	if l.strict {
		const oldest = `SELECT oldest FROM lanes WHERE n = ? AND oldest > 0`
		return list(t.tx, "find oldest delivery", t.prepare(oldest).Int(l.n), number)
	}
	most = min(most, p.PerLane)
	const lapsed = `SELECT sequence FROM deliveries WHERE subscription = ? AND leased = 1 AND due_at <= ? ORDER BY due_at, sequence LIMIT ?`
	found, err := list(t.tx, "find lapsed leases", t.prepare(lapsed).Int(l.n).Int(now).Int(int64(most)), number)
	if err != nil {
		return nil, err
	}
	const leased = `SELECT count(*) FROM deliveries WHERE subscription = ? AND leased = 1`
	n, err := t.count("count leases", t.prepare(leased).Int(l.n))
	if err != nil {
		return nil, err
	}
	room := min(most-len(found), l.parallel-int(n))
	if room <= 0 {
		return found, nil
	}
	const due = `SELECT sequence FROM deliveries INDEXED BY deliveries_due WHERE subscription = ? AND state = 0 AND leased = 0 AND due_at <= ?
		ORDER BY due_at, sequence LIMIT ?`
	more, err := list(t.tx, "find due deliveries", t.prepare(due).Int(l.n).Int(now).Int(int64(room)), number)
	return append(found, more...), err
}

// load reads a delivery with its event, if that is kept, and its subscription.
func (t deliveries) load(lane, sequence int64) (driver.Lease, error) {
	const query = `SELECT ` + subscriptionColumns + `, ` + deliveryColumns + `, l.epoch, ` + eventColumns + `
		FROM subscriptions s JOIN deliveries d ON d.subscription = s.n
			LEFT JOIN event_ledgers l ON l.name = s.ledger LEFT JOIN events e ON e.ledger = l.n AND e.sequence = d.sequence
		WHERE s.n = ? AND d.sequence = ?`
	return single(t.tx, "load delivery", t.prepare(query).Int(lane).Int(sequence), func(s *native.Stmt) driver.Lease {
		const after = subscriptionWidth + deliveryWidth
		l := driver.Lease{Subscription: scanSubscription(s), Delivery: scanDelivery(s, subscriptionWidth), Epoch: s.ColText(after)}
		if !s.ColNull(after + 2) {
			l.Event = scanEvent(s, after+1)
		}
		return l
	}, noRecord)
}

func (t deliveries) Leased(subscription string, sequence int64) (driver.Lease, error) {
	lane, err := t.lane(subscription)
	if err != nil {
		return driver.Lease{}, err
	}
	return t.load(lane, sequence)
}

func (t deliveries) Settle(ss []driver.Settlement) ([]bool, error) {
	held := make([]bool, len(ss))
	gone := map[int64]int{} // by lane, how many are no longer pending
	for i := range ss {
		lane, err := t.met(ss[i].Subscription)
		if err != nil {
			return nil, err
		}
		if held[i], err = t.settle(lane, &ss[i]); err != nil {
			return nil, err
		}
		if !held[i] {
			continue
		}
		left := 0
		if ss[i].State != driver.Pending {
			left = -1
		}
		gone[lane] += left
	}
	for lane, more := range gone {
		if err := t.settleLane(lane, more); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// settle changes one delivery, and leaves its lane to the caller.
func (t deliveries) settle(lane int64, s *driver.Settlement) (bool, error) {
	due, settled, attempts := s.Due, time.Time{}, int64(0)
	if s.State != driver.Pending {
		due, settled = time.Time{}, s.At
	}
	if s.Attempt != nil {
		attempts = 1
	}
	const update = `UPDATE deliveries SET state = ?1, reason = ?2, due_at = coalesce(?3, due_at), settled_at = ?4, leased = 0,
			tries = tries + ?5, attempts = attempts + ?5
		WHERE subscription = ?6 AND sequence = ?7 AND state = 0 AND lease = ?8 AND leased = 1`
	n, err := t.change(update).Int(stateNumber(s.State)).Text(s.Reason).Time(due).Time(settled).Int(attempts).
		Int(lane).Int(s.Sequence).Int(s.Lease).Exec()
	if err != nil || n == 0 {
		return false, t.fail("settle delivery", err)
	}
	if s.Attempt == nil {
		return true, nil
	}
	return true, t.record(lane, s.Sequence, s.Attempt)
}

func (t deliveries) record(lane, sequence int64, a *driver.Attempt) error {
	const insert = `INSERT INTO attempts (subscription, sequence, number, started_at, elapsed_ms, status, category, verdict, manual)
		SELECT subscription, sequence, attempts, ?, ?, ?, ?, ?, manual FROM deliveries WHERE subscription = ? AND sequence = ?`
	_, err := t.change(insert).Time(a.Started).Int(a.Elapsed.Milliseconds()).Int(int64(a.Status)).Text(a.Category).Text(a.Verdict).
		Int(lane).Int(sequence).Exec()
	return t.fail("record attempt", err)
}

func (t deliveries) Oldest(subscription string) (int64, error) {
	const query = `SELECT oldest FROM subscriptions JOIN lanes USING (n) WHERE id = ?`
	return t.count("find oldest delivery", t.prepare(query).Text(subscription))
}

func (t deliveries) CountPending(subscription string) (int, error) {
	const query = `SELECT pending FROM subscriptions JOIN lanes USING (n) WHERE id = ?`
	n, err := t.count("count pending deliveries", t.prepare(query).Text(subscription))
	return int(n), err
}

func (t deliveries) Drop(subscription, reason string, at time.Time, limit int) (int, error) {
	lane, err := t.lane(subscription)
	if err != nil {
		return 0, err
	}
	const update = `UPDATE deliveries SET state = 2, reason = ?1, settled_at = ?2, leased = 0 WHERE subscription = ?3 AND sequence IN
		(SELECT sequence FROM deliveries INDEXED BY deliveries_waiting WHERE subscription = ?3 AND state = 0 ORDER BY sequence LIMIT ?4)`
	n, err := t.change(update).Text(reason).Int(at.UnixMilli()).Int(lane).Int(int64(limit)).Exec()
	if err != nil || n == 0 {
		return 0, t.fail("drop deliveries", err)
	}
	return int(n), t.settleLane(lane, -int(n))
}

// overdue names a pending delivery past its deadline.
type overdue struct {
	lane, sequence int64
	id             string
}

func (t deliveries) Overdue(now time.Time, reason string, limit int) (map[string]int, error) {
	const query = `SELECT d.subscription, d.sequence, s.id FROM deliveries d JOIN subscriptions s ON s.n = d.subscription
		WHERE d.state = 0 AND d.deadline_at IS NOT NULL AND d.deadline_at <= ? AND d.leased = 0 AND s.state <> 'suspended'
		ORDER BY d.deadline_at LIMIT ?`
	found, err := list(t.tx, "find overdue deliveries", t.change(query).Int(now.UnixMilli()).Int(int64(limit)), func(s *native.Stmt) overdue {
		return overdue{s.ColInt(0), s.ColInt(1), s.ColText(2)}
	})
	if err != nil {
		return nil, err
	}
	const update = `UPDATE deliveries SET state = 2, reason = ?, settled_at = ? WHERE subscription = ? AND sequence = ?`
	dropped := map[string]int{}
	for _, o := range found {
		if _, err := t.change(update).Text(reason).Int(now.UnixMilli()).Int(o.lane).Int(o.sequence).Exec(); err != nil {
			return nil, t.fail("drop overdue delivery", err)
		}
		if err := t.settleLane(o.lane, -1); err != nil {
			return nil, err
		}
		dropped[o.id]++
	}
	return dropped, nil
}

func (t deliveries) Postpone(subscription string, by time.Duration, now time.Time) error {
	lane, err := t.lane(subscription)
	if err != nil {
		return err
	}
	if lane == 0 {
		return driver.ErrNotFound
	}
	const update = `UPDATE deliveries INDEXED BY deliveries_waiting SET deadline_at = deadline_at + ?1, due_at = CASE WHEN leased THEN due_at ELSE min(due_at, ?2) END
		WHERE subscription = ?3 AND state = 0`
	if _, err := t.change(update).Int(by.Milliseconds()).Int(now.UnixMilli()).Int(lane).Exec(); err != nil {
		return t.fail("postpone deliveries", err)
	}
	return t.settleLane(lane, 0)
}

func (t deliveries) List(subscription string, before int64, limit int) ([]driver.Delivery, error) {
	const query = `SELECT ` + deliveryColumns + ` FROM subscriptions s CROSS JOIN deliveries d INDEXED BY deliveries_waiting ON d.subscription = s.n
			WHERE s.id = ?1 AND d.sequence < ?2 AND d.state = 0
		UNION ALL SELECT ` + deliveryColumns + ` FROM subscriptions s CROSS JOIN deliveries d INDEXED BY deliveries_past ON d.subscription = s.n
			WHERE s.id = ?1 AND d.sequence < ?2 AND d.state <> 0
		ORDER BY 2 DESC LIMIT ?3`
	if before == 0 {
		before = math.MaxInt64
	}
	return list(t.tx, "list deliveries", t.prepare(query).Text(subscription).Int(before).Int(int64(limit)),
		func(s *native.Stmt) driver.Delivery { return scanDelivery(s, 0) })
}

func (t deliveries) Attempts(subscription string, sequence int64, limit int) ([]driver.Attempt, error) {
	const query = `SELECT number, started_at, elapsed_ms, status, category, verdict, manual FROM attempts
		WHERE subscription = (SELECT n FROM subscriptions WHERE id = ?) AND sequence = ? ORDER BY number DESC LIMIT ?`
	s := t.prepare(query).Text(subscription).Int(sequence).Int(int64(limit))
	return list(t.tx, "list attempts", s, func(s *native.Stmt) driver.Attempt {
		return driver.Attempt{Subscription: subscription, Sequence: sequence, Number: int(s.ColInt(0)), Started: s.ColTime(1),
			Elapsed: time.Duration(s.ColInt(2)) * time.Millisecond, Status: int(s.ColInt(3)), Category: s.ColText(4),
			Verdict: s.ColText(5), Manual: s.ColBool(6)}
	})
}

func (t deliveries) NextDue(now time.Time) (due time.Time, err error) {
	const query = `SELECT min(due_at) FROM lanes WHERE due_at IS NOT NULL AND due_at > ?`
	_, err = t.prepare(query).Int(now.UnixMilli()).Row(func(s *native.Stmt) { due = s.ColTime(0) })
	return due, t.fail("find next due lane", err)
}

func (t deliveries) Forget(cutoff time.Time, limit int) (int, error) {
	const query = `SELECT subscription, sequence FROM deliveries WHERE settled_at IS NOT NULL AND settled_at < ? LIMIT ?`
	type key struct{ lane, sequence int64 }
	old, err := list(t.tx, "find old deliveries", t.change(query).Int(cutoff.UnixMilli()).Int(int64(limit)),
		func(s *native.Stmt) key { return key{s.ColInt(0), s.ColInt(1)} })
	if err != nil {
		return 0, err
	}
	const remove = `DELETE FROM deliveries WHERE subscription = ? AND sequence = ?`
	for _, k := range old {
		if _, err := t.change(remove).Int(k.lane).Int(k.sequence).Exec(); err != nil {
			return 0, t.fail("forget delivery", err)
		}
	}
	return len(old), nil
}
