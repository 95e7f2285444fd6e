package postgres

import "github.com/herald-relay/herald/mcpevents/driver"

// Events returns nil: this adapter keeps no events yet.
func (s *Store) Events() driver.Driver { return nil }

// Events returns nil, like Store.Events.
func (t *tx) Events() driver.Tx { return nil }
