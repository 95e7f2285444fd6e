package relay

import "time"

// Key kinds.
const (
	KindStatic = "static" // made by a person, shown once
	KindOAuth  = "oauth"  // a connector admitted by consent
)

// ScopeNotify is the scope that lets an agent send and read what it sent.
const ScopeNotify = "notify"

// MaxActiveKeys bounds a mailbox's keys that are not revoked, connectors included.
const MaxActiveKeys = 20

// KeyTouchEvery is how often a key's LastUsedAt is rewritten at most.
const KeyTouchEvery = 10 * time.Minute

// Key is an agent's right to use one mailbox.
type Key struct {
	ID          KeyID
	Mailbox     MailboxID
	Hash        Hash // of the secret part; zero for kind oauth, whose tokens live elsewhere
	Name        string
	Client      string // claude, codex or other
	Scope       string
	Kind        string
	DisplayName string // connectors only
	CreatedAt   time.Time
	LastUsedAt  time.Time
	RevokedAt   time.Time
}

// Active reports whether the key still works.
func (k Key) Active() bool { return k.RevokedAt.IsZero() }
