package mcpevents

import (
	"encoding/json"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// The records of the library. They are declared in package driver, which says what each field means.
type (
	// Event is one occurrence, with a place in a ledger.
	Event = driver.Event
	// Subscription is a principal's standing wish for events at an address.
	Subscription = driver.Subscription
	// Delivery is the obligation to bring one event to one destination.
	Delivery = driver.Delivery
	// Attempt is one try at a delivery.
	Attempt = driver.Attempt
	// Health is what recent attempts say about a destination.
	Health = driver.Health
)

// Occurrence is an event as it goes over the wire (contract a.4). A webhook body is one, with Cursor always present; in
// a poll answer the cursor is at the result's level.
type Occurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// placed is an Occurrence with a cursor, which null means not having.
type placed struct {
	Occurrence
	Cursor *string `json:"cursor"`
}

// stamp writes an instant as the wire wants it: RFC 3339 with milliseconds, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// millis is what an instant becomes by being stored.
func millis(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// Emission is what an application says happened.
type Emission struct {
	// Ledger is the order it belongs to; "" for a server that has one.
	Ledger string
	// ID identifies it within the ledger: best the upstream's own id, so that emitting it again changes nothing. It has
	// 1 to 128 characters of A-Z a-z 0-9 _ - : and is made at random when empty.
	ID string
	// Name is the event type's.
	Name string
	// Subject says what it is about; see EventType.SubjectArgument.
	Subject string
	// Audience is the only principal whose subscriptions get it; "" is everybody's on the ledger.
	Audience string
	// Time is when it happened; zero is now.
	Time time.Time
	// Data is the payload. A json.RawMessage is kept byte for byte, anything else is marshalled. It must be a JSON
	// object that fits the type's PayloadSchema.
	Data any
	// Meta becomes _meta, which no schema governs; nil for none. Like Data, it must be an object.
	Meta any
}
