package relay

// Usage is what a mailbox used of its daily allowances on one UTC day.
type Usage struct {
	Requests      int64
	WSMessages    int64
	Notifications int64
	PollSeconds   int64
	AudioUploads  int64
	AudioBytes    int64
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Requests + v.Requests, u.WSMessages + v.WSMessages, u.Notifications + v.Notifications,
		u.PollSeconds + v.PollSeconds, u.AudioUploads + v.AudioUploads, u.AudioBytes + v.AudioBytes}
}

// HintKind says what changed in a mailbox.
type HintKind uint8

// What changed. A hint carries no data and may be lost or repeated: whoever is woken reads the store.
const (
	HintQueued   HintKind = iota + 1 // a notification waits for the devices
	HintReceipt                      // a notification's receipt changed: long-polls re-check
	HintReplied                      // Device sent the first reply: the mailbox's other devices are told
	HintReplaced                     // Device opened the stream named Stream: older ones of that device close
	HintUnpaired                     // Device (or, when empty, the whole mailbox) was unpaired
	HintRevoked                      // a key was revoked: the waits of its agent end
	HintConsent                      // a request for approval began, changed or ended: the mailbox's devices are told
)

// Hint wakes the waiters of a mailbox, in this process and, over a store's bus, in others.
type Hint struct {
	Kind         HintKind       `json:"k"`
	Mailbox      MailboxID      `json:"m"`
	Notification NotificationID `json:"n,omitempty"`
	Device       DeviceID       `json:"d,omitempty"`
	Stream       string         `json:"s,omitempty"`
}
