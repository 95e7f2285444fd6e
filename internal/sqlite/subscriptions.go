package sqlite

import (
	"encoding/binary"
	"time"

	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/mcpevents/driver"
)

type subscriptions struct {
	*tx
	lanes lanes
}

// lanes remembers the keys of subscriptions that a transaction met.
type lanes map[string]int64

const subscriptionColumns = `s.id, s.key, s.family, s.principal, s.ledger, s.name, s.arguments, s.url, s.host, s.label, s.secrets,
	s.dialect, s.strict, s.parallel, s.state, s.reason, s.start, s.gap, s.created_at, s.refreshed_at, s.expires_at, s.changed_at,
	s.last_delivery, s.last_error, s.failing_since, s.throttled, s.window, s.tried, s.failed`

// subscriptionWidth is the number of subscriptionColumns.
const subscriptionWidth = 29

func scanSubscription(s *native.Stmt) driver.Subscription {
	return driver.Subscription{ID: s.ColText(0), Key: s.ColText(1), Family: s.ColText(2), Principal: s.ColText(3), Ledger: s.ColText(4),
		Name: s.ColText(5), Arguments: s.ColBlob(6), URL: s.ColText(7), Host: s.ColText(8), Label: s.ColText(9),
		Secrets: decodeSecrets(s.ColBlob(10)), Dialect: s.ColText(11), Strict: s.ColBool(12), Parallel: int(s.ColInt(13)),
		State: driver.State(s.ColText(14)), Reason: s.ColText(15), Start: s.ColInt(16), Gap: s.ColBool(17), Created: s.ColTime(18),
		Refreshed: s.ColTime(19), Expires: s.ColTime(20), Changed: s.ColTime(21), Health: driver.Health{LastDelivery: s.ColTime(22),
			LastError: s.ColText(23), FailingSince: s.ColTime(24), Throttled: s.ColTime(25), Window: s.ColTime(26),
			Tried: int(s.ColInt(27)), Failed: int(s.ColInt(28))}}
}

// encodeSecrets writes each secret as its end in Unix milliseconds (0 for none), its length, and its bytes.
func encodeSecrets(secrets []driver.Secret) []byte {
	var b []byte
	for _, s := range secrets {
		var until int64
		if !s.Until.IsZero() {
			until = s.Until.UnixMilli()
		}
		b = binary.BigEndian.AppendUint64(b, uint64(until))
		b = binary.BigEndian.AppendUint32(b, uint32(len(s.Sealed)))
		b = append(b, s.Sealed...)
	}
	return b
}

func decodeSecrets(b []byte) []driver.Secret {
	var secrets []driver.Secret
	for len(b) >= 12 {
		until, size := int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint32(b[8:])
		if b = b[12:]; uint64(len(b)) < uint64(size) {
			break
		}
		s := driver.Secret{Sealed: b[:size:size]}
		if until != 0 {
			s.Until = time.UnixMilli(until).UTC()
		}
		secrets, b = append(secrets, s), b[size:]
	}
	return secrets
}

func (t subscriptions) Get(id string) (driver.Subscription, error) {
	const query = `SELECT ` + subscriptionColumns + ` FROM subscriptions s WHERE id = ?`
	return single(t.tx, "find subscription", t.prepare(query).Text(id), scanSubscription, noRecord)
}

func (t subscriptions) ByKey(key string) (driver.Subscription, error) {
	const query = `SELECT ` + subscriptionColumns + ` FROM subscriptions s WHERE key = ?`
	return single(t.tx, "find subscription by key", t.prepare(query).Text(key), scanSubscription, noRecord)
}

func (t subscriptions) Save(s driver.Subscription) error {
	const upsert = `INSERT INTO subscriptions (id, key, family, principal, ledger, name, arguments, url, host, label, secrets, dialect,
			strict, parallel, state, reason, start, gap, created_at, refreshed_at, expires_at, changed_at,
			last_delivery, last_error, failing_since, throttled, window, tried, failed)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET key = excluded.key, family = excluded.family, principal = excluded.principal,
			ledger = excluded.ledger, name = excluded.name, arguments = excluded.arguments, url = excluded.url,
			host = excluded.host, label = excluded.label, secrets = excluded.secrets, dialect = excluded.dialect,
			strict = excluded.strict, parallel = excluded.parallel, state = excluded.state, reason = excluded.reason,
			start = excluded.start, gap = excluded.gap, created_at = excluded.created_at, refreshed_at = excluded.refreshed_at,
			expires_at = excluded.expires_at, changed_at = excluded.changed_at, last_delivery = excluded.last_delivery,
			last_error = excluded.last_error, failing_since = excluded.failing_since, throttled = excluded.throttled,
			window = excluded.window, tried = excluded.tried, failed = excluded.failed`
	h := s.Health
	_, err := t.change(upsert).Text(s.ID).Text(s.Key).Text(s.Family).Text(s.Principal).Text(s.Ledger).Text(s.Name).Blob(s.Arguments).
		Text(s.URL).Text(s.Host).Text(s.Label).Blob(encodeSecrets(s.Secrets)).Text(s.Dialect).Bool(s.Strict).Int(int64(s.Parallel)).
		Text(string(s.State)).Text(s.Reason).Int(s.Start).Bool(s.Gap).Time(s.Created).Time(s.Refreshed).Time(s.Expires).Time(s.Changed).
		Time(h.LastDelivery).Text(h.LastError).Time(h.FailingSince).Time(h.Throttled).Time(h.Window).Int(int64(h.Tried)).Int(int64(h.Failed)).Exec()
	if err != nil {
		return t.failed("save subscription", err, func() error { return driver.ErrExists })
	}
	n, err := t.lane(s.ID)
	if err != nil {
		return err
	}
	return t.settleLane(n, 0)
}

func (t subscriptions) SetHealth(id string, h driver.Health) error {
	const update = `UPDATE subscriptions SET last_delivery = ?, last_error = ?, failing_since = ?, throttled = ?, window = ?, tried = ?, failed = ?
		WHERE id = ?`
	_, err := t.change(update).Time(h.LastDelivery).Text(h.LastError).Time(h.FailingSince).Time(h.Throttled).Time(h.Window).
		Int(int64(h.Tried)).Int(int64(h.Failed)).Text(id).Exec()
	return t.fail("set health", err)
}

// lane returns a subscription's key; 0 when there is none.
func (t *tx) lane(id string) (int64, error) {
	const query = `SELECT n FROM subscriptions WHERE id = ?`
	return t.count("find lane", t.prepare(query).Text(id))
}

// settleLane applies the lane rule of package driver, after more deliveries became pending or, negative, stopped being.
// None that became so may be older than the oldest: that is queueLane's business.
func (t *tx) settleLane(n int64, more int) error {
	const update = `UPDATE subscriptions SET pending = pending + ?2,
			oldest = CASE WHEN pending + ?2 = 0 THEN 0 ELSE (SELECT sequence FROM deliveries
				WHERE subscription = ?1 AND sequence >= oldest AND state = 'pending' ORDER BY sequence LIMIT 1) END,
			due_at = CASE
			WHEN state <> 'active' OR pending + ?2 = 0 THEN NULL
			WHEN strict THEN (SELECT due_at FROM deliveries
				WHERE subscription = ?1 AND sequence >= oldest AND state = 'pending' ORDER BY sequence LIMIT 1)
			WHEN (SELECT count(*) FROM deliveries WHERE subscription = ?1 AND leased = 1) < parallel
				THEN (SELECT min(due_at) FROM deliveries WHERE subscription = ?1 AND state = 'pending')
			ELSE (SELECT min(due_at) FROM deliveries WHERE subscription = ?1 AND leased = 1) END
		WHERE n = ?1`
	_, err := t.change(update).Int(n).Int(int64(more)).Exec()
	return t.fail("settle lane", err)
}

// queueLane applies the lane rule after one delivery was queued, mostly without looking at the others: of a strict lane
// only an older one matters, of a free one only an earlier one, and that only while no lease limits it.
func (t *tx) queueLane(n int64, d *driver.Delivery) error {
	const update = `UPDATE subscriptions SET pending = pending + 1,
			oldest = CASE WHEN pending = 0 THEN ?2 ELSE min(oldest, ?2) END,
			due_at = CASE
			WHEN state <> 'active' THEN NULL
			WHEN pending = 0 OR strict AND ?2 < oldest THEN ?3
			WHEN strict OR due_at <= ?3 OR (SELECT count(*) FROM deliveries WHERE subscription = ?1 AND leased = 1) >= parallel THEN due_at
			ELSE ?3 END
		WHERE n = ?1`
	_, err := t.change(update).Int(n).Int(d.Sequence).Time(d.Due).Exec()
	return t.fail("queue in lane", err)
}

// The conditions of driver.Filter, as parameters 1 to 6.
const filtered = ` FROM subscriptions s WHERE (?1 = '' OR family = ?1) AND (?2 = '' OR principal = ?2) AND (?3 = '' OR ledger = ?3)
	AND (?4 = '' OR label = ?4) AND (NOT ?5 OR state <> 'ended' AND (expires_at IS NULL OR expires_at > ?6))`

// The same for one principal, whose subscriptions an index knows.
const filteredOne = ` FROM subscriptions s WHERE (?1 = '' OR family = ?1) AND principal = ?2 AND (?3 = '' OR ledger = ?3)
	AND (?4 = '' OR label = ?4) AND (NOT ?5 OR state <> 'ended' AND (expires_at IS NULL OR expires_at > ?6))`

func (t subscriptions) filter(one, all string, f driver.Filter) *native.Stmt {
	sql := all
	if f.Principal != "" {
		sql = one
	}
	var now int64
	if !f.Now.IsZero() {
		now = f.Now.UnixMilli()
	}
	return t.prepare(sql).Text(f.Family).Text(f.Principal).Text(f.Ledger).Text(f.Label).Bool(f.Live).Int(now)
}

func (t subscriptions) List(f driver.Filter) ([]driver.Subscription, error) {
	const one = `SELECT ` + subscriptionColumns + filteredOne + ` AND id > ?7 ORDER BY id LIMIT ?8`
	const all = `SELECT ` + subscriptionColumns + filtered + ` AND id > ?7 ORDER BY id LIMIT ?8`
	return list(t.tx, "list subscriptions", t.filter(one, all, f).Text(f.After).Int(int64(f.Limit)), scanSubscription)
}

func (t subscriptions) Count(f driver.Filter) (int, error) {
	const one = `SELECT count(*)` + filteredOne
	const all = `SELECT count(*)` + filtered
	n, err := t.count("count subscriptions", t.filter(one, all, f))
	return int(n), err
}

func (t subscriptions) Matching(family, ledger, name, audience string, now time.Time) ([]driver.Candidate, error) {
	const query = `SELECT ` + subscriptionColumns + `, s.pending, s.oldest, s.n
		FROM subscriptions s WHERE ledger = ?1 AND name = ?2 AND family = ?3 AND state <> 'ended'
			AND (expires_at IS NULL OR expires_at > ?4) AND (?5 = '' OR principal = ?5) ORDER BY id`
	s := t.prepare(query).Text(ledger).Text(name).Text(family).Int(now.UnixMilli()).Text(audience)
	return list(t.tx, "match subscriptions", s, func(s *native.Stmt) driver.Candidate {
		c := driver.Candidate{Subscription: scanSubscription(s), Waiting: int(s.ColInt(subscriptionWidth)), Oldest: s.ColInt(subscriptionWidth + 1)}
		t.lanes[c.ID] = s.ColInt(subscriptionWidth + 2)
		return c
	})
}

func (t subscriptions) Lapsed(now time.Time, limit int) ([]string, error) {
	const query = `SELECT id FROM subscriptions WHERE state <> 'ended' AND expires_at IS NOT NULL AND expires_at <= ? ORDER BY expires_at LIMIT ?`
	return list(t.tx, "find lapsed subscriptions", t.prepare(query).Int(now.UnixMilli()).Int(int64(limit)),
		func(s *native.Stmt) string { return s.ColText(0) })
}

func (t subscriptions) Forget(cutoff time.Time, limit int) (int, error) {
	const query = `SELECT n FROM subscriptions WHERE state = 'ended' AND changed_at < ? LIMIT ?`
	old, err := list(t.tx, "find old subscriptions", t.change(query).Int(cutoff.UnixMilli()).Int(int64(limit)),
		func(s *native.Stmt) int64 { return s.ColInt(0) })
	if err != nil {
		return 0, err
	}
	const remove = `DELETE FROM subscriptions WHERE n = ?`
	for _, n := range old {
		if _, err := t.change(remove).Int(n).Exec(); err != nil {
			return 0, t.fail("forget subscription", err)
		}
	}
	return len(old), nil
}
