package sqlite

import (
	"strings"
	"testing"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/drivertest"
)

func TestEventsDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver {
		s := open(t, newPath(t))
		t.Cleanup(func() { wantEventsSeek(t, s) })
		return s.Events()
	})
}

// wantEventsSeek looks at the plan of every statement that a test has prepared.
func wantEventsSeek(t *testing.T, s *Store) {
	for _, c := range (home{Store: s}).connections() {
		for _, sql := range c.Prepared() {
			if !strings.HasPrefix(sql, "PRAGMA") && !strings.HasPrefix(sql, "EXPLAIN") {
				wantSeek(t, c, sql)
			}
		}
	}
}

func init() {
	scans["SCAN json_each"] = "a list of the program's own"
	scans["SELECT count(*) FROM subscriptions s WHERE (?1 = ''"] = "an operator counts everything"
	invariants["pending equals the deliveries"] = `SELECT s.n FROM lanes s
		WHERE pending <> (SELECT count(*) FROM deliveries d WHERE d.subscription = s.n AND d.state = 0)`
	invariants["oldest is the oldest"] = `SELECT s.n FROM lanes s WHERE oldest <>
		coalesce((SELECT min(sequence) FROM deliveries d WHERE d.subscription = s.n AND d.state = 0), 0)`
	invariants["lanes repeat their subscriptions"] = `SELECT id FROM subscriptions s WHERE NOT EXISTS (SELECT 1 FROM lanes l WHERE l.n = s.n
		AND l.host = s.host AND l.strict = s.strict AND l.parallel = s.parallel AND l.active = (s.state = 'active') AND l.expires_at IS s.expires_at)`
	invariants["deliveries have a subscription"] = `SELECT subscription FROM deliveries WHERE subscription NOT IN (SELECT n FROM subscriptions)`
	invariants["ledgers have no gaps"] = `SELECT name FROM event_ledgers l
		WHERE newest - forgotten <> (SELECT count(*) FROM events e WHERE e.ledger = l.n)`
	invariants["pending deliveries have their events"] = `SELECT s.id FROM deliveries d JOIN subscriptions s ON s.n = d.subscription
		WHERE d.state = 0 AND NOT EXISTS (SELECT 1 FROM event_ledgers l JOIN events e ON e.ledger = l.n
			WHERE l.name = s.ledger AND e.sequence = d.sequence)`
}
