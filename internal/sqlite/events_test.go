package sqlite

import (
	"testing"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/drivertest"
)

func TestEventsDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver { return open(t, newPath(t)).Events() })
}

func init() {
	invariants["pending equals the deliveries"] = `SELECT id FROM subscriptions s
		WHERE pending <> (SELECT count(*) FROM deliveries d WHERE d.subscription = s.n AND d.state = 'pending')`
	invariants["oldest is the oldest"] = `SELECT id FROM subscriptions s WHERE oldest <>
		coalesce((SELECT min(sequence) FROM deliveries d WHERE d.subscription = s.n AND d.state = 'pending'), 0)`
	invariants["ledgers have no gaps"] = `SELECT name FROM event_ledgers l
		WHERE newest - forgotten <> (SELECT count(*) FROM events e WHERE e.ledger = l.n)`
	invariants["pending deliveries have their events"] = `SELECT s.id FROM deliveries d JOIN subscriptions s ON s.n = d.subscription
		WHERE d.state = 'pending' AND NOT EXISTS (SELECT 1 FROM event_ledgers l JOIN events e ON e.ledger = l.n
			WHERE l.name = s.ledger AND e.sequence = d.sequence)`
}
