package relay

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/fault"
)

// Receipt kinds a device may send (contract section 6.3).
const (
	KindDisplayed  = "displayed"
	KindSpoken     = "spoken"
	KindReplied    = "replied"
	KindSuppressed = "suppressed"
)

// Suppression scopes, and the reasons the relay itself stores.
const (
	ScopeAll         = "all"
	ScopeSpeech      = "speech"
	ReasonExpired    = "expired"
	ReasonSuppressed = "suppressed"
)

// Bounds of a reply.
const (
	MaxReplyChars      = 4000
	MaxDurationSeconds = 600
)

// Notification is what an agent sent, with the facts of its receipt.
type Notification struct {
	ID      NotificationID
	Mailbox MailboxID
	Key     KeyID
	// AgentID is the wire's notificationId: the agent's own, or ID.MadeAgentID() when it sent none.
	AgentID     string
	Seq         int64 // place in the mailbox, assigned by the store: 1, 2, 3 … without reuse
	CreatedAt   time.Time
	Payload     []byte // the validated fields as a JSON object
	ExpectReply bool

	AckedAt     time.Time // zero until a device confirmed that it holds it
	DisplayedAt time.Time
	SpokenAt    time.Time
	RepliedAt   time.Time
	Text        string   // typed reply
	Transcript  string   // spoken reply
	Duration    *float64 // seconds, as the device reported
	ClipBytes   int64    // size of the uploaded clip; 0 when none
	ClipType    string   // media type under which the clip is served

	Suppressed bool
	Reason     string
	Scope      string
}

// Waiting reports whether devices still have to be told of n: not acknowledged, not displayed, not suppressed.
func (n *Notification) Waiting() bool {
	return n.AckedAt.IsZero() && n.DisplayedAt.IsZero() && !n.Suppressed
}

// Replied reports whether a person has answered.
func (n *Notification) Replied() bool { return !n.RepliedAt.IsZero() }

// SuppressedWhole reports whether nothing of n was or will be shown.
func (n *Notification) SuppressedWhole() bool { return n.Suppressed && n.Scope == ScopeAll }

// ReplyText is the answer: what was typed, else the transcript.
func (n *Notification) ReplyText() string {
	if n.Text != "" {
		return n.Text
	}
	return n.Transcript
}

// ReplyKind is "text" for a typed reply and "voice" for a spoken one.
func (n *Notification) ReplyKind() string {
	if n.Text != "" {
		return "text"
	}
	return "voice"
}

// Acknowledge records that a device holds n. Repeats change nothing.
func (n *Notification) Acknowledge(now time.Time) {
	if n.AckedAt.IsZero() {
		n.AckedAt = Millis(now)
	}
}

// Expire suppresses n because nobody took it in time. It does nothing to one that is no longer waiting.
func (n *Notification) Expire() bool {
	if !n.Waiting() {
		return false
	}
	n.Suppressed, n.Reason, n.Scope = true, ReasonExpired, ScopeAll
	return true
}

// Receipt is one report of a device. Strings are as sent; Record trims and bounds them.
type Receipt struct {
	Kind       string
	Text       string
	Transcript string
	Duration   *float64
	Reason     string
	Scope      string
}

// Record applies a device's report at now. Every report also acknowledges. The first time of displayed, spoken and
// replied stays, text and transcript are each filled once, a later valid duration replaces the earlier, and
// suppressed overwrites (contract section 6.3). firstReply tells that this report was the one that answered.
// An unknown kind, or a reply with neither text, transcript nor a clip, is invalid_request and changes nothing.
func (n *Notification) Record(r Receipt, now time.Time) (firstReply bool, err error) {
	now = Millis(now)
	switch r.Kind {
	case KindDisplayed:
		setOnce(&n.DisplayedAt, now)
	case KindSpoken:
		setOnce(&n.SpokenAt, now)
	case KindReplied:
		if firstReply, err = n.reply(r, now); err != nil {
			return false, err
		}
	case KindSuppressed:
		n.Suppressed, n.Reason, n.Scope = true, suppressReason(r.Reason), ScopeAll
		if r.Scope == ScopeSpeech {
			n.Scope = ScopeSpeech
		}
	default:
		return false, fault.InvalidRequest("kind", "kind must be displayed, spoken, replied or suppressed")
	}
	n.Acknowledge(now)
	return firstReply, nil
}

func (n *Notification) reply(r Receipt, now time.Time) (first bool, err error) {
	text, transcript := CleanReply(r.Text), CleanReply(r.Transcript)
	if text == "" && transcript == "" && n.ClipBytes == 0 {
		return false, fault.InvalidRequest("text", "a reply needs text, a transcript or an uploaded voice clip")
	}
	if n.Text == "" {
		n.Text = text
	}
	if n.Transcript == "" {
		n.Transcript = transcript
	}
	if r.Duration != nil && *r.Duration >= 0 && *r.Duration <= MaxDurationSeconds {
		n.Duration = r.Duration
	}
	return setOnce(&n.RepliedAt, now), nil
}

func setOnce(t *time.Time, now time.Time) bool {
	if !t.IsZero() {
		return false
	}
	*t = now
	return true
}

// CleanReply trims a reply, drops NUL characters and keeps the first MaxReplyChars characters.
func CleanReply(s string) string { return FirstChars(strings.TrimSpace(dropNUL(s)), MaxReplyChars) }

// dropNUL takes out what no database or terminal wants.
func dropNUL(s string) string { return strings.ReplaceAll(s, "\x00", "") }

// FirstChars keeps at most n characters of s, never half of one.
func FirstChars(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func suppressReason(s string) string {
	if len(s) < 1 || len(s) > 40 {
		return ReasonSuppressed
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return ReasonSuppressed
		}
	}
	return s
}
