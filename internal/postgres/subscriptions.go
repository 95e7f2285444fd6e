package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/mcpevents/driver"
)

type subscriptions struct{ t eventTx }

const subscriptionColumns = `s.id, s.key, s.family, s.principal, s.ledger, s.name, s.arguments, s.url, s.host, s.label, s.secrets, s.secrets_until,
    s.dialect, s.strict, s.parallel, s.state, s.reason, s.start, s.gap, s.created_at, s.refreshed_at, s.expires_at, s.changed_at,
    s.last_delivery, s.last_error, s.failing_since, s.throttled, s.window_at, s.tried, s.failed`

// stored is a subscription on its way out of the database.
type stored struct {
	driver.Subscription
	sealed [][]byte
	until  []int64
}

func (s *stored) fields() []any {
	h := &s.Health
	return []any{&s.ID, &s.Key, &s.Family, &s.Principal, &s.Ledger, &s.Name, &s.Arguments, &s.URL, &s.Host, &s.Label, &s.sealed, &s.until,
		&s.Dialect, &s.Strict, &s.Parallel, (*string)(&s.State), &s.Reason, &s.Start, &s.Gap, (*instant)(&s.Created),
		(*instant)(&s.Refreshed), (*instant)(&s.Expires), (*instant)(&s.Changed), (*instant)(&h.LastDelivery), &h.LastError,
		(*instant)(&h.FailingSince), (*instant)(&h.Throttled), (*instant)(&h.Window), &h.Tried, &h.Failed}
}

// whole returns the subscription with its secrets.
func (s *stored) whole() driver.Subscription {
	for i := range s.sealed {
		secret := driver.Secret{Sealed: s.sealed[i]}
		if s.until[i] != 0 {
			secret.Until = time.UnixMilli(s.until[i]).UTC()
		}
		s.Secrets = append(s.Secrets, secret)
	}
	return s.Subscription
}

func scanSubscription(r pgx.Rows, s *driver.Subscription) error {
	var row stored
	err := r.Scan(row.fields()...)
	*s = row.whole()
	return err
}

const (
	getSubscription   = `SELECT ` + subscriptionColumns + ` FROM event_subscriptions s WHERE s.id = $1`
	findSubscription  = `SELECT ` + subscriptionColumns + ` FROM event_subscriptions s WHERE s.key = $1`
	lockSubscription  = getSubscription + ` FOR UPDATE OF s`
	lockSubscriptionK = findSubscription + ` FOR UPDATE OF s`
)

func (s subscriptions) find(read, lock, by string) (sub driver.Subscription, err error) {
	q := &query{what: "find subscription", sql: read, args: []any{by}, each: func(r pgx.Rows) error { return scanSubscription(r, &sub) }}
	if s.t.u != nil {
		q.sql = lock
	}
	if err = s.t.run(q); err == nil && q.count == 0 {
		err = driver.ErrNotFound
	}
	return sub, err
}

func (s subscriptions) Get(id string) (driver.Subscription, error) {
	return s.find(getSubscription, lockSubscription, id)
}

func (s subscriptions) ByKey(key string) (driver.Subscription, error) {
	return s.find(findSubscription, lockSubscriptionK, key)
}

const (
	insertSubscription = `
INSERT INTO event_subscriptions (id, key, family, principal, ledger, name, arguments, url, host, label, secrets, secrets_until, dialect, strict,
    parallel, state, reason, start, gap, created_at, refreshed_at, expires_at, changed_at, last_delivery, last_error, failing_since,
    throttled, window_at, tried, failed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)
ON CONFLICT DO NOTHING RETURNING n`
	// An identity that another subscription has is a unique violation, which ends the transaction; so it is looked for.
	updateSubscription = `
UPDATE event_subscriptions SET key = $2, family = $3, principal = $4, ledger = $5, name = $6, arguments = $7, url = $8, host = $9, label = $10,
    secrets = $11, secrets_until = $12, dialect = $13, strict = $14, parallel = $15, state = $16, reason = $17, start = $18, gap = $19,
    created_at = $20, refreshed_at = $21, expires_at = $22, changed_at = $23, last_delivery = $24, last_error = $25,
    failing_since = $26, throttled = $27, window_at = $28, tried = $29, failed = $30
WHERE id = $1 AND NOT EXISTS (SELECT FROM event_subscriptions o WHERE o.key = $2 AND o.id <> $1) RETURNING n`
	saveLane = `
INSERT INTO event_lanes (n, host, strict, parallel, active, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (n) DO UPDATE SET host = excluded.host, strict = excluded.strict, parallel = excluded.parallel, active = excluded.active,
    expires_at = excluded.expires_at`
)

func (s subscriptions) Save(sub driver.Subscription) error {
	sealed, until := [][]byte{}, []int64{}
	for _, secret := range sub.Secrets {
		sealed, until = append(sealed, secret.Sealed), append(until, millis(secret.Until).Int64)
		if secret.Until.IsZero() {
			until[len(until)-1] = 0
		}
	}
	h := sub.Health
	args := []any{sub.ID, sub.Key, sub.Family, sub.Principal, sub.Ledger, sub.Name, sub.Arguments, sub.URL, sub.Host, sub.Label, sealed, until,
		sub.Dialect, sub.Strict, sub.Parallel, string(sub.State), sub.Reason, sub.Start, sub.Gap, millis(sub.Created), millis(sub.Refreshed),
		millis(sub.Expires), millis(sub.Changed), millis(h.LastDelivery), h.LastError, millis(h.FailingSince), millis(h.Throttled),
		millis(h.Window), h.Tried, h.Failed}
	var n int64
	for _, sql := range []string{insertSubscription, updateSubscription} {
		if err := s.t.change(&query{what: "save subscription", sql: sql, args: args, each: one(&n)}); err != nil {
			return err
		}
		if n != 0 {
			break
		}
	}
	if n == 0 {
		return driver.ErrExists
	}
	err := s.t.change(&query{what: "save lane", sql: saveLane, args: []any{n, sub.Host, sub.Strict, sub.Parallel, sub.State == driver.Active, millis(sub.Expires)}})
	if err != nil {
		return err
	}
	return s.t.settleLanes([]int64{n}, []int64{0})
}

const setHealth = `
UPDATE event_subscriptions SET last_delivery = $2, last_error = $3, failing_since = $4, throttled = $5, window_at = $6, tried = $7, failed = $8
WHERE id = $1`

func (s subscriptions) SetHealth(id string, h driver.Health) error {
	return s.t.change(&query{what: "set health", sql: setHealth, args: []any{id, millis(h.LastDelivery), h.LastError, millis(h.FailingSince),
		millis(h.Throttled), millis(h.Window), h.Tried, h.Failed}})
}

// The conditions of driver.Filter, by the index that serves what it names.
const (
	filterRest = ` AND ($1 = '' OR s.family = $1) AND ($4 = '' OR s.label = $4)
    AND (NOT $5 OR s.state <> 'ended' AND (s.expires_at IS NULL OR s.expires_at > $6))`
	filterAll       = ` FROM event_subscriptions s WHERE ($2 = '' OR s.principal = $2) AND ($3 = '' OR s.ledger = $3)` + filterRest
	filterPrincipal = ` FROM event_subscriptions s WHERE s.principal = $2 AND ($3 = '' OR s.ledger = $3)` + filterRest
	filterLedger    = ` FROM event_subscriptions s WHERE $2 = '' AND s.ledger = $3` + filterRest

	pageSubscriptions        = ` AND s.id > $7 ORDER BY s.id LIMIT $8`
	listSubscriptions        = `SELECT ` + subscriptionColumns + filterAll + pageSubscriptions
	listPrincipals           = `SELECT ` + subscriptionColumns + filterPrincipal + pageSubscriptions
	listLedgers              = `SELECT ` + subscriptionColumns + filterLedger + pageSubscriptions
	countSubscriptions       = `SELECT count(*)` + filterAll
	countPrincipals          = `SELECT count(*)` + filterPrincipal
	countLedgerSubscriptions = `SELECT count(*)` + filterLedger
)

// choose picks the statement for a filter, of those for all, for one principal and for one ledger.
func choose(f driver.Filter, all, principal, ledger string) (sql string, args []any) {
	now := int64(0)
	if !f.Now.IsZero() {
		now = f.Now.UnixMilli()
	}
	args = []any{f.Family, f.Principal, f.Ledger, f.Label, f.Live, now}
	switch {
	case f.Principal != "":
		return principal, args
	case f.Ledger != "":
		return ledger, args
	}
	return all, args
}

func (s subscriptions) List(f driver.Filter) (out []driver.Subscription, err error) {
	sql, args := choose(f, listSubscriptions, listPrincipals, listLedgers)
	return out, s.t.run(&query{what: "list subscriptions", sql: sql, args: append(args, f.After, f.Limit), each: list(&out, scanSubscription)})
}

func (s subscriptions) Count(f driver.Filter) (n int, err error) {
	sql, args := choose(f, countSubscriptions, countPrincipals, countLedgerSubscriptions)
	return n, s.t.run(&query{what: "count subscriptions", sql: sql, args: args, each: one(&n)})
}

const matchSubscriptions = `
SELECT ` + subscriptionColumns + `, l.pending, l.oldest FROM event_subscriptions s JOIN event_lanes l ON l.n = s.n
WHERE s.ledger = $1 AND s.name = $2 AND s.family = $3 AND s.state <> 'ended' AND (s.expires_at IS NULL OR s.expires_at > $4)
    AND ($5 = '' OR s.principal = $5) ORDER BY s.id`

func (s subscriptions) Matching(family, ledger, name, audience string, now time.Time) (out []driver.Candidate, err error) {
	return out, s.t.run(&query{what: "match subscriptions", sql: matchSubscriptions, args: []any{ledger, name, family, unixMillis(now), audience},
		each: list(&out, func(r pgx.Rows, c *driver.Candidate) error {
			var row stored
			err := r.Scan(append(row.fields(), &c.Waiting, &c.Oldest)...)
			c.Subscription = row.whole()
			return err
		})})
}

const lapsedSubscriptions = `
SELECT id FROM event_subscriptions WHERE state <> 'ended' AND expires_at IS NOT NULL AND expires_at <= $1 ORDER BY expires_at LIMIT $2`

func (s subscriptions) Lapsed(now time.Time, limit int) (out []string, err error) {
	return out, s.t.run(&query{what: "find lapsed subscriptions", sql: lapsedSubscriptions, args: []any{unixMillis(now), limit},
		each: list(&out, func(r pgx.Rows, id *string) error { return r.Scan(id) })})
}

const (
	oldSubscriptions = `
SELECT n FROM event_subscriptions WHERE state = 'ended' AND changed_at < $1 ORDER BY changed_at LIMIT $2 FOR UPDATE SKIP LOCKED`
	forgetTheirAttempts   = `DELETE FROM event_attempts WHERE subscription = ANY ($1)`
	forgetTheirDeliveries = `DELETE FROM event_deliveries WHERE subscription = ANY ($1)`
	forgetSubscriptions   = `DELETE FROM event_subscriptions WHERE n = ANY ($1)`
)

func (s subscriptions) Forget(cutoff time.Time, limit int) (int, error) {
	var old []int64
	err := s.t.change(&query{what: "find old subscriptions", sql: oldSubscriptions, args: []any{unixMillis(cutoff), limit},
		each: list(&old, func(r pgx.Rows, n *int64) error { return r.Scan(n) })})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	return len(old), s.t.run(
		&query{what: "forget attempts of subscriptions", sql: forgetTheirAttempts, args: []any{old}, writes: true},
		&query{what: "forget deliveries of subscriptions", sql: forgetTheirDeliveries, args: []any{old}, writes: true},
		&query{what: "forget subscriptions", sql: forgetSubscriptions, args: []any{old}, writes: true})
}
