package relay

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// The identifier types. Each is known good once it has been parsed; formats are fixed by the wire (contract section 1).
type (
	// PersonID names a person: 16 lower-case hex digits. Never on the wire.
	PersonID string
	// MailboxID is the wire's deviceId: 48 lower-case hex digits, the last 16 a signature over the first 32.
	MailboxID string
	// DeviceID names one device of a mailbox: 16 lower-case hex digits.
	DeviceID string
	// KeyID names a key within its mailbox: 8 lower-case hex digits.
	KeyID string
	// NotificationID is the relay's own id of a notification: "r_" and 24 lower-case hex digits, time-ordered.
	NotificationID string
)

const (
	notificationPrefix = "r_"
	madeIDPrefix       = "n_"
	timePrefixBytes    = 6
)

// ParseNotificationID accepts exactly the shape of a NotificationID.
func ParseNotificationID(s string) (NotificationID, bool) {
	if len(s) != 26 || s[:2] != notificationPrefix || !IsHex(s[2:]) {
		return "", false
	}
	return NotificationID(s), true
}

// ParseKeyID accepts exactly the shape of a KeyID.
func ParseKeyID(s string) (KeyID, bool) {
	if len(s) != 8 || !IsHex(s) {
		return "", false
	}
	return KeyID(s), true
}

// ParseDeviceID accepts exactly the shape of a DeviceID.
func ParseDeviceID(s string) (DeviceID, bool) {
	if len(s) != 16 || !IsHex(s) {
		return "", false
	}
	return DeviceID(s), true
}

// ParseMailboxID accepts exactly the shape of a MailboxID. Whether it was signed by this relay is for
// package credential to say.
func ParseMailboxID(s string) (MailboxID, bool) {
	if len(s) != 48 || !IsHex(s) {
		return "", false
	}
	return MailboxID(s), true
}

// NewNotificationID makes an id whose first 12 digits are the milliseconds of now, so that ids made later sort later
// and land on the same index page; the other 12 are random.
func NewNotificationID(now time.Time) NotificationID {
	var b [12]byte
	ms := uint64(now.UnixMilli())
	for i := range timePrefixBytes {
		b[timePrefixBytes-1-i] = byte(ms >> (8 * i))
	}
	rand.Read(b[timePrefixBytes:])
	return NotificationID(notificationPrefix + hex.EncodeToString(b[:]))
}

// MadeAgentID is the notificationId an agent is given when it sent none: "n_" and the digits of id. Deriving one from
// the other spares such a notification an index entry.
func (id NotificationID) MadeAgentID() string { return madeIDPrefix + string(id[2:]) }

// FromMadeAgentID undoes MadeAgentID.
func FromMadeAgentID(s string) (NotificationID, bool) {
	if len(s) != 26 || s[:2] != madeIDPrefix || !IsHex(s[2:]) {
		return "", false
	}
	return NotificationID(notificationPrefix + s[2:]), true
}

// RandomHex returns n random bytes as 2n lower-case hex digits.
func RandomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// IsHex reports whether s is not empty and holds lower-case hex digits only.
func IsHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}

// Millis cuts t to whole milliseconds in UTC: the precision at which instants are stored and shown.
func Millis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// Timestamp writes t as the wire does: RFC 3339 with milliseconds and Z (decision 22).
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Day names the UTC day of t, at whose end daily counters start anew (contract section 10).
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// UntilNextDay is the time from t to the next UTC midnight.
func UntilNextDay(t time.Time) time.Duration {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC).Sub(t)
}
