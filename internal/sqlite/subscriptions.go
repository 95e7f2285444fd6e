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
	const lane = `INSERT INTO lanes (n, host, strict, parallel, active, expires_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET host = excluded.host, strict = excluded.strict, parallel = excluded.parallel, active = excluded.active,
			expires_at = excluded.expires_at`
	_, err = t.change(lane).Int(n).Text(s.Host).Bool(s.Strict).Int(int64(s.Parallel)).Bool(s.State == driver.Active).Time(s.Expires).Exec()
	if err != nil {
		return t.fail("save lane", err)
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
	const query = `SELECT ` + subscriptionColumns + `, l.pending, l.oldest, s.n
		FROM subscriptions s JOIN lanes l ON l.n = s.n WHERE ledger = ?1 AND name = ?2 AND family = ?3 AND state <> 'ended'
			AND (s.expires_at IS NULL OR s.expires_at > ?4) AND (?5 = '' OR principal = ?5) ORDER BY id`
	s := t.prepare(query).Text(ledger).Text(name).Text(family).Int(now.UnixMilli()).Text(audience)
	var found []driver.Candidate
	if t.mem != nil && t.mem.matched > 0 { // room for as many as the last time
		found = make([]driver.Candidate, 0, t.mem.matched)
	}
	err := s.Rows(func(s *native.Stmt) error {
		found = append(found, driver.Candidate{Subscription: scanSubscription(s), Waiting: int(s.ColInt(subscriptionWidth)),
			Oldest: s.ColInt(subscriptionWidth + 1)})
		t.lanes[found[len(found)-1].ID] = s.ColInt(subscriptionWidth + 2)
		return nil
	})
	if err != nil || len(found) == 0 {
		return nil, t.fail("match subscriptions", err)
	}
	if t.mem != nil {
		t.mem.matched = min(len(found), maxBoxes)
	}
	return found, nil
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
	const removeWaiting = `DELETE FROM deliveries INDEXED BY deliveries_waiting WHERE subscription = ? AND state = 0`
	const removePast = `DELETE FROM deliveries INDEXED BY deliveries_past WHERE subscription = ? AND state <> 0`
	const remove = `DELETE FROM subscriptions WHERE n = ?`
	for _, n := range old {
		for _, sql := range []string{removeWaiting, removePast, remove} {
			if _, err := t.change(sql).Int(n).Exec(); err != nil {
				return 0, t.fail("forget subscription", err)
			}
		}
	}
	return len(old), nil
}
