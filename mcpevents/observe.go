package mcpevents

import (
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// AttemptReport is what an Observer learns of an attempt, once its outcome is stored.
type AttemptReport struct {
	Subscription Subscription
	Event        Event
	// Tries counts attempts since the delivery was queued, this one included.
	Tries    int
	Outcome  Outcome
	Verdict  Verdict
	Category Category
	// State is what became of the delivery, and Next when it is tried again if it is pending.
	State driver.DeliveryState
	Next  time.Time
	// Waited is how long ago it was queued.
	Waited time.Duration
	// Stale says that the lease had moved on: the outcome changed nothing.
	Stale bool
}

// Observer is told what happens, after it is stored. Its methods are called from several goroutines and must be quick.
// Embed NopObserver to be told of some things only.
type Observer interface {
	// Subscribed reports a subscribe call that succeeded; renewed when the subscription was there.
	Subscribed(s Subscription, renewed bool)
	// Ended reports a subscription that is over; s.Reason says why.
	Ended(s Subscription)
	// Suspended reports a destination that is given a rest: its owner may want to know.
	Suspended(s Subscription)
	// Verified reports a verification; category is "" when the host proved itself.
	Verified(host string, category Category)
	Attempted(r AttemptReport)
	// Swept reports how many records of a kind (see the Swept constants) a sweep has removed or dropped.
	Swept(kind string, n int)
	StreamOpened(eventType string)
	StreamClosed(eventType string)
}

// Kinds of what a sweep removes.
const (
	SweptLapsed        = "lapsed"        // subscriptions that ran out
	SweptOverdue       = "overdue"       // deliveries past their deadline
	SweptEvents        = "events"        // events past their retention
	SweptDeliveries    = "deliveries"    // likewise
	SweptSubscriptions = "subscriptions" // likewise
	SweptVerifications = "verifications" // proofs too old to be of use
)

// NopObserver is told everything and does nothing.
type NopObserver struct{}

// Subscribed does nothing.
func (NopObserver) Subscribed(Subscription, bool) {}

// Ended does nothing.
func (NopObserver) Ended(Subscription) {}

// Suspended does nothing.
func (NopObserver) Suspended(Subscription) {}

// Verified does nothing.
func (NopObserver) Verified(string, Category) {}

// Attempted does nothing.
func (NopObserver) Attempted(AttemptReport) {}

// Swept does nothing.
func (NopObserver) Swept(string, int) {}

// StreamOpened does nothing.
func (NopObserver) StreamOpened(string) {}

// StreamClosed does nothing.
func (NopObserver) StreamClosed(string) {}
