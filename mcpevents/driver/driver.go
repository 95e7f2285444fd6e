// Package driver is the storage seam of mcpevents: what the library asks of a database, and what it relies on.
//
// It is for those who implement a driver, and for the types that appear in a user's hands (Event, Subscription,
// Delivery, Attempt), which mcpevents re-exports under the same names. Package drivertest proves an implementation. The
// seam is unstable until the library's first release: methods may be added.
//
// # Joining the caller's transaction
//
// A Tx is a view of one transaction of the application's own database. An application that already runs transactions
// hands the library a Tx made from the one it is in (its store implements Tx natively, over *sql.Tx, pgx.Tx or its own
// type), so that a fact and its event become durable together. Driver.Update is for what the library does by itself.
//
// # Promises that every driver makes
//
// All writes of an Update become visible together when it returns nil, and survive a crash from then on (as far as the
// driver is durable at all: memdriver says it is not). An error of fn rolls everything back and is returned as it is. A
// driver's own error leaves the outcome unknown: the library repeats such an Update, or lets a lease run out.
//
// Inside an Update, a Head or Append of a ledger waits for, and holds off, every other Append to that ledger until the
// transaction ends; so sequences become visible in their order, and an event is either before a new subscription's start
// or queued for it. In the same way a Get, ByKey or Leased of a subscription inside an Update holds off other writers of
// that subscription. Two Updates that touch the same ledger or subscription therefore behave as if one ran after the
// other. fn may run more than once.
//
// A View sees one consistent state that includes every Update which returned before it began.
//
// Time is always an argument. Instants are kept as Unix milliseconds, a zero time.Time as absent; what is read back
// equals what was written, truncated to the millisecond, in UTC.
//
// # The lane rule
//
// Every subscription is a lane with a due time, which the driver derives and no caller sets. Ended and suspended
// subscriptions have none. A strict one is due when its pending delivery with the lowest sequence is. A free one is due
// at the earliest Due of its pending deliveries (of equal ones the lowest sequence comes first), except while Parallel of
// them are leased: then at the earliest Due of the leased ones. So a claim of a free lane takes those whose lease ran
// out, and others while fewer than Parallel are leased. A claim sets Due to the end of the lease, so a lease that ran out
// is claimed by the same query as everything else: there is no separate rescue.
//
// # Order of locks
//
// The library touches ledgers before subscriptions, and subscriptions before deliveries, so that transactions of a
// database with row locks do not wait for each other in a circle. One that is chosen as a victim all the same may be
// repeated by the driver.
package driver

import (
	"context"
	"errors"
	"time"
)

// Errors that a Tx returns, matched with errors.Is.
var (
	// ErrNotFound says that there is no such record.
	ErrNotFound = errors.New("mcpevents: not found")
	// ErrExists says that a record with that identity is already there.
	ErrExists = errors.New("mcpevents: already exists")
)

// Driver opens transactions. Its methods may be called concurrently.
type Driver interface {
	Update(ctx context.Context, fn func(Tx) error) error
	View(ctx context.Context, fn func(Tx) error) error
}

// Tx is one transaction. It is used by one goroutine, and not after fn returned. In a View its writing methods fail.
type Tx interface {
	Events() Events
	Subscriptions() Subscriptions
	Deliveries() Deliveries
	Verifications() Verifications
}

// Event is one occurrence: a fact with a place in a ledger. It never changes once appended.
type Event struct {
	// Ledger names the order the event belongs to; a server with a single one uses "".
	Ledger string
	// Sequence is its place there, from 1, without gaps, assigned by Append.
	Sequence int64
	// ID is unique within the ledger: the upstream's own id, or one the library made.
	ID string
	// Name is the event type's.
	Name string
	// Subject says what it is about, for types whose subscribers may narrow to one subject; "" for none. It is not part
	// of what goes over the wire.
	Subject string
	// Audience is the only principal who may see it; "" is everyone who may read the ledger.
	Audience string
	// Time is when it happened.
	Time time.Time
	// Recorded is when it was appended.
	Recorded time.Time
	// Data and Meta are JSON objects, kept byte for byte. Meta may be nil.
	Data, Meta []byte
}

// Head is what a ledger can tell of its extent.
type Head struct {
	// Newest is the sequence of the last event, 0 when there never was one.
	Newest int64
	// Forgotten is the highest sequence that Forget has removed, 0 when none.
	Forgotten int64
	// Epoch tells incarnations of a ledger apart: it changes when a ledger that forgets with its process starts anew.
	Epoch string
}

// Query selects events of one ledger with Sequence greater than After, in order, that Audience may see.
type Query struct {
	Ledger string
	After  int64
	// Name restricts to one event type; "" is any.
	Name string
	// Subject restricts to one subject; "" is any.
	Subject string
	// Audience is the reader: events with another non-empty audience are left out.
	Audience string
	// Until leaves out events with a greater Sequence; 0 is no bound.
	Until int64
	Limit int
}

// Events holds the ledgers.
type Events interface {
	// Append assigns e.Sequence, the ledger's next, and stores e. When the ledger holds an event with e.ID, it returns
	// ErrExists with e.Sequence set to that event's and stores nothing; the transaction stays usable.
	Append(e *Event) error
	// Head returns the extent of a ledger, which need not exist yet.
	Head(ledger string) (Head, error)
	// Newest returns the highest sequence that audience may see, 0 when there is none.
	Newest(ledger, audience string) (int64, error)
	// Read returns the events that q selects, at most q.Limit.
	Read(q Query) ([]Event, error)
	// Get returns one event, or ErrNotFound.
	Get(ledger, id string) (Event, error)
	// Since returns the lowest sequence whose event happened (Time) at or after t, or Newest+1.
	Since(ledger string, t time.Time) (int64, error)
	// Forget removes up to limit events recorded before cutoff that no pending delivery needs, lowest sequences of each
	// ledger first and without leaving gaps below what stays, and raises Forgotten. It returns how many.
	Forget(cutoff time.Time, limit int) (int, error)
}

// State is the state of a subscription.
type State string

// The states of a subscription.
const (
	Active    State = "active"    // events are queued and delivered
	Suspended State = "suspended" // events are queued; nothing is attempted until it is refreshed
	Ended     State = "ended"     // over; kept for its history until it is forgotten
)

// Secret is one signing secret of a destination, as the library stores it (sealed when the server was given a Sealer).
type Secret struct {
	Sealed []byte
	// Until is when it stops signing; zero for the current one.
	Until time.Time
}

// Subscription is a principal's standing wish for events at an address.
type Subscription struct {
	// ID is the routing handle on the wire, unique everywhere.
	ID string
	// Key is the identity, unique among subscriptions of every state: a hash over family, principal, url, name and
	// arguments.
	Key string
	// Family names the group of event types, and so the policy, it was made under.
	Family    string
	Principal string
	Ledger    string
	Name      string
	// Arguments is canonical JSON.
	Arguments []byte
	URL       string
	// Host is URL's host and port, what limits per destination count by.
	Host string
	// Label is the application's own; the library does not read it.
	Label string
	// Secrets are newest first.
	Secrets []Secret
	// Dialect is the one its last subscribe call was made in.
	Dialect string
	// Strict and Parallel say how its deliveries are claimed; see the lane rule. Parallel counts for free ones only.
	Strict   bool
	Parallel int

	State State
	// Reason says why it is suspended or ended: a word of the library's, never text of the endpoint.
	Reason string
	// Start is the position its events begin after.
	Start int64
	// Gap says that events were lost to it which its client has not been told of yet.
	Gap bool

	Created time.Time
	// Refreshed is when it was last subscribed or refreshed.
	Refreshed time.Time
	// Expires is when it lapses; zero for never.
	Expires time.Time
	// Changed is when State last changed.
	Changed time.Time

	Health Health
}

// Health is what recent attempts of a subscription say about its destination.
type Health struct {
	// LastDelivery is the last time it took an event.
	LastDelivery time.Time
	// LastError is the category of the newest attempt when that failed, else "".
	LastError string
	// FailingSince is when the first failure after the last success was; zero while it succeeds.
	FailingSince time.Time
	// Throttled is the end of the wait that its last answer asked for; zero when it asked for none.
	Throttled time.Time
	// Window, Tried and Failed count attempts since Window for the suspension rule.
	Window        time.Time
	Tried, Failed int
}

// Filter selects subscriptions to list. Empty fields select all.
type Filter struct {
	Family, Principal, Ledger, Label string
	// Live leaves out what is ended, or lapsed at Now.
	Live bool
	Now  time.Time
	// After is the ID to go on after; lists are ordered by ID.
	After string
	Limit int
}

// Candidate is a subscription that an event of its name may concern.
type Candidate struct {
	Subscription
	// Oldest is the lowest sequence of its pending deliveries, 0 when it has none.
	Oldest int64
	// Waiting is how many are pending.
	Waiting int
}

// Subscriptions holds standing wishes of every state.
type Subscriptions interface {
	// Get and ByKey return ErrNotFound when there is none.
	Get(id string) (Subscription, error)
	ByKey(key string) (Subscription, error)
	// Save stores s whole, new or known by ID. Another subscription with its Key is ErrExists.
	Save(s Subscription) error
	// SetHealth changes nothing but Health. Absent is no error.
	SetHealth(id string, h Health) error
	// List returns what f selects.
	List(f Filter) ([]Subscription, error)
	// Count counts what f selects, of which After and Limit are not read.
	Count(f Filter) (int, error)
	// Matching returns the subscriptions, not ended and not lapsed at now, of that family, ledger and event name; with a
	// non-empty audience only those of that principal. Their order is by ID.
	Matching(family, ledger, name, audience string, now time.Time) ([]Candidate, error)
	// Lapsed returns up to limit IDs of subscriptions not ended with Expires at or before now.
	Lapsed(now time.Time, limit int) ([]string, error)
	// Forget removes up to limit subscriptions that ended before cutoff, with their deliveries and attempts.
	Forget(cutoff time.Time, limit int) (int, error)
}

// DeliveryState is the state of a delivery.
type DeliveryState string

// The states of a delivery. A leased delivery is pending, with Leased set and Due at the end of its lease.
const (
	Pending   DeliveryState = "pending"
	Delivered DeliveryState = "delivered"
	Dropped   DeliveryState = "dropped"
	Held      DeliveryState = "held" // recorded, and by its family's rule never sent
)

// Delivery is the obligation to bring one event to one destination. Subscription and Sequence are its identity.
type Delivery struct {
	Subscription string
	Sequence     int64
	Ledger       string
	State        DeliveryState
	// Reason says why it was dropped or held.
	Reason string
	// Cursor is the position its body carries, fixed when it was queued; negative for none.
	Cursor int64
	// Tries counts attempts since it was queued or resent; Attempts counts all.
	Tries, Attempts int
	// Manual says that a person asked for it to be sent again.
	Manual bool
	// Queued is when it was queued or resent.
	Queued time.Time
	// Due is when it may be attempted.
	Due time.Time
	// Deadline is after when it is no longer attempted; zero for never.
	Deadline time.Time
	// Settled is when it left Pending.
	Settled time.Time
	// Lease is the number of its newest lease: each claim raises it by one.
	Lease int64
	// Leased says that an attempt may be under way.
	Leased bool
}

// Attempt is one try at a delivery, with its outcome.
type Attempt struct {
	Subscription string
	Sequence     int64
	// Number counts from 1 over the life of the delivery.
	Number  int
	Started time.Time
	Elapsed time.Duration
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// Category is the kind of failure, "" for a success: a word of the library's, never text of the endpoint.
	Category string
	// Verdict is what the outcome meant.
	Verdict string
	Manual  bool
}

// ClaimParams asks for leases.
type ClaimParams struct {
	Now time.Time
	// Until is the end of the leases.
	Until time.Time
	Limit int
	// PerLane bounds how many deliveries of one free subscription a claim takes; a strict one always yields one.
	PerLane int
	// PerHost bounds how many deliveries to one host a claim takes.
	PerHost int
	// BusyHosts are hosts to leave out. Lanes of theirs that are due must cost a claim no more than a step over an index
	// entry each.
	BusyHosts []string
}

// Lease is a time-bounded right to attempt a delivery. Its fencing number is Delivery.Lease.
type Lease struct {
	Delivery     Delivery
	Event        Event
	Subscription Subscription
	// Epoch is the ledger's; see Head.
	Epoch string
}

// Settlement is the outcome of a lease.
type Settlement struct {
	Subscription string
	Sequence     int64
	Lease        int64
	// State is Pending for another try at Due, else final.
	State  DeliveryState
	Reason string
	Due    time.Time
	At     time.Time
	// Attempt is recorded with Number assigned; nil when nothing was attempted.
	Attempt *Attempt
}

// Deliveries holds obligations and what was tried.
type Deliveries interface {
	// Queue stores pending or held deliveries. One that exists and is pending stays as it is; one that is not pending
	// begins anew with the given state, keeping Attempts and Lease.
	Queue(ds []Delivery) error
	// Claim leases deliveries that are due (Due at or before Now) of lanes that are due and not lapsed, as the lane rule
	// says, lanes longest due first. It may return fewer than there are, but none only when there are none. It sets Leased, raises Lease by one and sets Due to p.Until. A delivery past its
	// Deadline is claimed like any other; the caller settles it.
	Claim(p ClaimParams) ([]Lease, error)
	// Settle applies outcomes in order. held[i] is false, and nothing of settlement i applied, when the delivery is not
	// pending under that lease number any more.
	Settle(s []Settlement) (held []bool, err error)
	// Leased returns the delivery with its event and subscription, whatever its state, or ErrNotFound.
	Leased(subscription string, sequence int64) (Lease, error)
	// Oldest returns the lowest sequence of the subscription's pending deliveries, 0 when there is none.
	Oldest(subscription string) (int64, error)
	// CountPending counts a subscription's pending deliveries.
	CountPending(subscription string) (int, error)
	// Drop drops up to limit of the subscription's pending deliveries, lowest sequences first, and returns how many.
	Drop(subscription, reason string, at time.Time, limit int) (int, error)
	// Overdue drops up to limit pending deliveries of any subscription that is not suspended, whose Deadline is at or
	// before now and which are not leased, and returns how many of which subscription.
	Overdue(now time.Time, reason string, limit int) (map[string]int, error)
	// Postpone moves Deadline of the subscription's pending deliveries by d, and makes those not leased due at now when
	// they are due later.
	Postpone(subscription string, d time.Duration, now time.Time) error
	// List returns up to limit deliveries with Sequence below before (0 for the newest), highest first.
	List(subscription string, before int64, limit int) ([]Delivery, error)
	// Attempts returns up to limit attempts of a delivery, newest first.
	Attempts(subscription string, sequence int64, limit int) ([]Attempt, error)
	// NextDue returns the earliest due time of any lane after now, zero when there is none.
	NextDue(now time.Time) (time.Time, error)
	// Forget removes up to limit settled deliveries settled before cutoff, with their attempts.
	Forget(cutoff time.Time, limit int) (int, error)
}

// Verifications holds which addresses proved for which principals that they want deliveries.
type Verifications interface {
	// Verified returns when that principal's address was last verified, zero when never.
	Verified(principal, url string) (time.Time, error)
	// Record keeps that it was verified at at.
	Record(principal, url string, at time.Time) error
	// Withdraw forgets what is known of that address. Absent is no error.
	Withdraw(principal, url string) error
	// Forget removes up to limit records older than cutoff that no subscription which has not ended uses.
	Forget(cutoff time.Time, limit int) (int, error)
}
