// Package store is the persistence contract of the relay: what its services may ask of a database, and what they may
// rely on. It holds no SQL; internal/sqlite and internal/postgres fulfil it natively, internal/storetest proves both.
//
// # Promises
//
// Update runs fn in one transaction: all of its writes become visible together, or none. When Update returns nil, they
// survive a crash of the process and of the machine. Two Updates that touch one mailbox behave as if one ran after the
// other. fn may run more than once (after a conflict, or because a neighbour in the same commit failed), so inside it
// there is only the database: wake, send and log after Update returns.
//
// View runs fn on one consistent snapshot that includes every Update which returned before View was called.
//
// An error of fn is returned as it is and rolls back. The store's own errors are faults: kind NotFound where a method
// says so, Conflict for a duplicate, Unavailable when the database cannot be reached, is locked or has no room (the
// outcome of that Update is then unknown and repeating it must be safe). Anything else is wrapped with its operation.
//
// Time is always an argument: no implementation asks the database for it. Instants are stored as Unix milliseconds, and
// a zero time.Time is stored as absent.
package store

import (
	"context"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/mcpevents/driver"
)

// Store is an open database. Its methods may be called concurrently.
type Store interface {
	View(ctx context.Context, fn func(Tx) error) error
	Update(ctx context.Context, fn func(Tx) error) error
	// Bus carries hints to other processes on the same database; nil when there can be none.
	Bus() Bus
	// Events is the same database as package mcpevents needs it.
	Events() driver.Driver
	// Ready reports whether the database answers.
	Ready(ctx context.Context) error
	// Describe names the engine, its version and the schema version, for health output: "sqlite 3.54.1, schema 3".
	Describe() string
	// Close waits for running calls and releases everything.
	Close() error
}

// Bus carries hints between processes. Delivery is best effort: hints may be lost, repeated or late.
type Bus interface {
	// Publish hands over hints without waiting for the network; hints that do not fit are dropped.
	Publish(hints ...relay.Hint)
	// Listen calls fn for the hints of other processes until ctx ends.
	Listen(ctx context.Context, fn func(relay.Hint)) error
}

// Tx is one transaction. It must not be used after fn returned, nor from another goroutine.
type Tx interface {
	People() People
	Mailboxes() Mailboxes
	Devices() Devices
	Keys() Keys
	Notifications() Notifications
	Usage() Usage
	Pairing() Pairing
	Marks() Marks
	Clients() Clients
	Consents() Consents
	Grants() Grants
	Audit() Audit
	Workspaces() Workspaces
	Members() Members
	WorkspaceKeys() WorkspaceKeys
	Entries() Entries
	// Events is this transaction as package mcpevents needs it, so that a reply and its event are one.
	Events() driver.Tx
}

// People holds who owns mailboxes.
type People interface {
	// Create adds p. A name that exists is Conflict with code "name_taken".
	Create(p relay.Person) error
	// List returns everybody, oldest first.
	List() ([]relay.Person, error)
	// ByName is NotFound when there is none.
	ByName(name string) (relay.Person, error)
	// Delete removes the person with their mailboxes and all that hangs on those. NotFound when there is none.
	Delete(id relay.PersonID) error
}

// Mailboxes holds the units of ownership.
type Mailboxes interface {
	Create(m relay.Mailbox) error
	// Get is NotFound when there is none.
	Get(id relay.MailboxID) (relay.Mailbox, error)
	// List returns a person's mailboxes, oldest first.
	List(p relay.PersonID) ([]relay.Mailbox, error)
	// SetState overwrites what the device said of itself. NotFound when the mailbox is gone.
	SetState(id relay.MailboxID, s relay.State) error
	// Delete removes the mailbox with its devices, keys, notifications, usage and codes. Absent is no error.
	Delete(id relay.MailboxID) error
	// Idle returns up to limit mailboxes last seen (or, never seen, created) before cutoff.
	Idle(cutoff time.Time, limit int) ([]relay.Mailbox, error)
}

// Devices holds the machines that may open a mailbox's stream.
type Devices interface {
	Create(d relay.Device) error
	// List returns a mailbox's devices, oldest first: the owner is the first.
	List(m relay.MailboxID) ([]relay.Device, error)
	// Heard records that the device was heard from at at: LastSeenAt of the device and its mailbox never go back.
	// NotFound when the device is gone.
	Heard(m relay.MailboxID, d relay.DeviceID, at time.Time) error
	// OpenStream records that stream is the device's open stream, replacing any other, and that it was heard from.
	// NotFound when the device is gone.
	OpenStream(m relay.MailboxID, d relay.DeviceID, stream string, at time.Time) error
	// CloseStream forgets the stream, unless a newer one took its place.
	CloseStream(m relay.MailboxID, d relay.DeviceID, stream string, at time.Time) error
	// Delete removes one device. Absent is no error.
	Delete(m relay.MailboxID, d relay.DeviceID) error
}

// Keys holds agents' rights.
type Keys interface {
	// Create adds k. An active key of the mailbox with that name is Conflict with code "name_taken". NotFound when the
	// mailbox is gone.
	Create(k relay.Key) error
	// Get is NotFound when the mailbox has no such key.
	Get(m relay.MailboxID, id relay.KeyID) (relay.Key, error)
	// List returns a mailbox's keys, oldest first, revoked ones included.
	List(m relay.MailboxID) ([]relay.Key, error)
	// CountActive counts those not revoked.
	CountActive(m relay.MailboxID) (int, error)
	// Revoke ends the key at at; the first time stays. NotFound when there is none.
	Revoke(m relay.MailboxID, id relay.KeyID, at time.Time) error
	// Purge removes the key and every notification it sent. NotFound when there is none.
	Purge(m relay.MailboxID, id relay.KeyID) error
	// Touch sets LastUsedAt. Absent is no error.
	Touch(m relay.MailboxID, id relay.KeyID, at time.Time) error
}

// What Waiting says of a sender whose key is gone (contract section 6.2).
const (
	UnknownName   = "unknown"
	UnknownClient = "other"
)

// Waiting is a notification that devices still have to be told of, with the key that sent it.
type Waiting struct {
	relay.Notification
	// KeyName and KeyClient describe the sender; UnknownName and UnknownClient when its key is gone.
	KeyName, KeyClient string
}

// Expired names a notification that a sweep has just suppressed.
type Expired struct {
	Mailbox relay.MailboxID
	ID      relay.NotificationID
}

// Notifications holds what agents sent and what became of it.
type Notifications interface {
	// Get finds by the relay's id within a mailbox. NotFound when there is none.
	Get(m relay.MailboxID, id relay.NotificationID) (relay.Notification, error)
	// Sent finds by the agent's id among what the key sent at or after since. NotFound when there is none.
	Sent(m relay.MailboxID, k relay.KeyID, agentID string, since time.Time) (relay.Notification, error)
	// Admission gathers what AdmissionLimits judge for one more notification of the key at now, perKey being the rate
	// limit. The answer is exact with respect to every earlier Update of that mailbox and, inside an Update, of this one.
	// Sends dated more than a minute after now count for no rate: the clock was set back since. NotFound when the
	// mailbox is gone.
	Admission(m relay.MailboxID, k relay.KeyID, perKey int, now time.Time) (relay.Admission, error)
	// Insert stores n, assigns n.Seq (the mailbox's next) and counts it for rate, day and queue. When another
	// notification of the same key holds the same AgentID and was created before forget, that one gives up the id; a
	// younger one makes Insert a Conflict. NotFound when the mailbox is gone; whether the key is there is not looked at.
	Insert(n *relay.Notification, forget time.Time) error
	// Save stores the receipt of n (all but identity, payload and Seq) and keeps the mailbox's waiting count true.
	// NotFound when it is gone.
	Save(n relay.Notification) error
	// Waiting lists up to limit waiting notifications of the mailbox with Seq greater than after, in order of Seq.
	Waiting(m relay.MailboxID, after int64, limit int) ([]Waiting, error)
	// CountWaiting counts them.
	CountWaiting(m relay.MailboxID) (int64, error)
	// Expire suppresses up to limit waiting notifications created before cutoff, oldest first, as
	// relay.Notification.Expire does, and returns them. An empty mailbox id means every mailbox.
	Expire(m relay.MailboxID, cutoff time.Time, limit int) ([]Expired, error)
	// Forget removes up to limit notifications created before cutoff, oldest first, and returns how many.
	Forget(cutoff time.Time, limit int) (int, error)
	// Size sums the bytes of payloads, replies and clips that the mailbox's notifications hold.
	Size(m relay.MailboxID) (int64, error)
}

// Usage holds daily counters. Notifications are counted by Notifications.Insert and only read here.
type Usage interface {
	// Add adds delta to the mailbox's counters of that day. A mailbox that is gone is no error and keeps nothing.
	Add(m relay.MailboxID, day string, delta relay.Usage) error
	// Get returns the counters of that day; zeros when there are none.
	Get(m relay.MailboxID, day string) (relay.Usage, error)
	// Forget removes up to limit rows of days before day.
	Forget(day string, limit int) (int, error)
}

// Pairing holds codes that wait to be exchanged.
type Pairing interface {
	Create(c relay.PairCode) error
	// Take removes the code with that hash and returns it when it is valid at now; otherwise NotFound.
	Take(h relay.Hash, now time.Time) (relay.PairCode, error)
	// CountWaiting counts codes valid at now; address "" counts all that have an address.
	CountWaiting(address string, now time.Time) (int, error)
	// Forget removes up to limit codes that ran out before now.
	Forget(now time.Time, limit int) (int, error)
}

// Marks are dated strokes on a tally, for sliding windows that must survive a restart and hold across processes.
type Marks interface {
	// Add makes a stroke for subject on the tally named kind.
	Add(kind, subject string, at time.Time) error
	// Count counts strokes after since; subject "" counts all of the kind.
	Count(kind, subject string, since time.Time) (int, error)
	// Forget removes up to limit strokes at or before cutoff, of every kind.
	Forget(cutoff time.Time, limit int) (int, error)
}
