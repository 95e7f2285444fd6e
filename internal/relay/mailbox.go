package relay

import "time"

// Fixed times of the contract's section 10.
const (
	// OnlineWithin is how recently an open stream must have been heard from to count as online.
	OnlineWithin = 11 * time.Minute
	// IdleRemovable is how long a mailbox must be silent before another device of the person may remove it.
	IdleRemovable = 7 * 24 * time.Hour
	// IdleRemoved is how long a mailbox may be silent before the relay removes it.
	IdleRemoved = 30 * 24 * time.Hour
	// PairCodeLife is how long a pairing or link code may be used.
	PairCodeLife = 10 * time.Minute
	// MaxLinkedDevices bounds the devices of one mailbox, its owner included.
	MaxLinkedDevices = 10
)

// Person is who owns mailboxes. Nobody sees that others exist (decision 5).
type Person struct {
	ID        PersonID
	Name      string // handle: 1-32 of a-z 0-9 -, unique
	CreatedAt time.Time
}

// Mailbox is the unit of ownership: one paired device, its keys, notifications and limits.
type Mailbox struct {
	ID         MailboxID
	Person     PersonID
	Name       string // "" when the device gave none
	CreatedAt  time.Time
	LastSeenAt time.Time // zero when never
	State      State
}

// State is what the device last said of itself. It is stored whole and overwritten whole.
type State struct {
	QuietActive bool
	QuietUntil  string // as the device sent it, cleaned
	Muted       bool   // stored, never told to agents
}

// maxQuietUntil bounds State.QuietUntil in characters.
const maxQuietUntil = 40

// Clean returns s as it is stored: its text without NUL characters, the first 40 of the others.
func (s State) Clean() State {
	s.QuietUntil = FirstChars(dropNUL(s.QuietUntil), maxQuietUntil)
	return s
}

// Device is one machine that may open the mailbox's stream. The one that paired is its owner.
type Device struct {
	ID        DeviceID
	Mailbox   MailboxID
	TokenHash Hash
	Name      string
	Owner     bool
	CreatedAt time.Time
	// LastSeenAt is when the device was last heard from; zero when never. It may lag a live stream by a minute.
	LastSeenAt time.Time
	// Stream names the open stream, "" when none is. A process that dies leaves it behind; LastSeenAt bounds the lie.
	Stream string
}

// Online reports whether the device counts as online at now: its stream is open and was heard from within OnlineWithin.
func (d Device) Online(now time.Time) bool {
	return d.Stream != "" && now.Sub(d.LastSeenAt) < OnlineWithin
}

// Hash is the SHA-256 of a secret; the secret itself is never stored.
type Hash [32]byte

// PairCode is a code that waits to be exchanged for a device token.
type PairCode struct {
	Hash      Hash      // keyed hash of the normalised code
	Person    PersonID  // whose mailbox it will be
	Mailbox   MailboxID // set when the code links a device to an existing mailbox
	Name      string    // device name given at the start
	Address   string    // hash of the starter's address, "" when made by the operator
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Removable reasons of the device list, in the order they are judged (contract section 7.3).
const (
	ReasonSameName = "same_name"
	ReasonRotated  = "credentials_rotated"
	ReasonIdle     = "idle"
)

// RemovableReason says why other may be removed from the list by the mailbox self, "" when it may not. signed tells
// whether other's id carries this relay's present signature.
func RemovableReason(self, other Mailbox, signed bool, now time.Time) string {
	switch {
	case self.ID == other.ID:
		return ""
	case other.Name != "" && other.Name == self.Name:
		return ReasonSameName
	case !signed:
		return ReasonRotated
	case other.idle(now, IdleRemovable):
		return ReasonIdle
	}
	return ""
}

// Prunable reports whether POST /v1/device/prune by self drops other.
func Prunable(self, other Mailbox, signed bool, now time.Time) bool {
	switch RemovableReason(self, other, signed, now) {
	case ReasonSameName, ReasonRotated:
		return true
	case ReasonIdle:
		return other.idle(now, IdleRemoved)
	}
	return false
}

func (m Mailbox) idle(now time.Time, limit time.Duration) bool {
	last := m.LastSeenAt
	if last.IsZero() {
		last = m.CreatedAt
	}
	return now.Sub(last) >= limit
}
