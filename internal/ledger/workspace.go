package ledger

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/relay"
)

// Mode says whether what happens in a workspace may leave it.
type Mode string

// The modes. Events of a test workspace are recorded and read like any other, and never sent.
const (
	Live Mode = "live"
	Test Mode = "test"
)

// ParseMode is the reverse of the constants.
func ParseMode(s string) (Mode, bool) { m := Mode(s); return m, m == Live || m == Test }

// HeldTest is why nothing of a test workspace is sent, as delivery logs say it.
const HeldTest = "test_workspace"

// Workspace is one team's ledger.
type Workspace struct {
	ID        WorkspaceID
	Name      string // handle: 1-32 of a-z 0-9 -, unique
	Mode      Mode
	CreatedAt time.Time
	// Catalog is the file of its event types as JSON, and Revision counts its changes, from 1.
	Catalog  []byte
	Revision int64
	// Sequence is the one of the newest entry, 0 when there is none.
	Sequence int64
}

// Member is a person of a workspace.
type Member struct {
	Workspace WorkspaceID
	Person    relay.PersonID
	JoinedAt  time.Time
	// Primary marks the workspace that answers for the person; each member has one, the first joined unless changed.
	Primary bool
}

// MaxKeys bounds a workspace's keys that are not revoked.
const MaxKeys = 50

// KeyTouchEvery is how often a key's LastUsedAt is rewritten at most.
const KeyTouchEvery = 10 * time.Minute

// Key is an application's right to append to a workspace and to read it.
type Key struct {
	ID         KeyID
	Workspace  WorkspaceID
	Hash       relay.Hash // of the secret part
	Name       string
	CreatedAt  time.Time
	LastUsedAt time.Time
	RevokedAt  time.Time
}

// Active reports whether the key still works.
func (k Key) Active() bool { return k.RevokedAt.IsZero() }

// Bounds of what an application may append (contract, Over HTTP).
const (
	MaxBatch      = 100       // entries of one request
	MaxData       = 256 << 10 // bytes of one entry's data
	MaxSource     = 128       // characters of the application's own id
	MaxSubject    = 256       // bytes of a subject
	MaxPage       = 500       // entries of one read
	MaxReadNames  = 32        // names in one filter
	MaxFutureTime = 24 * time.Hour
)

// Entry is one business event on a ledger. It never changes.
type Entry struct {
	Workspace WorkspaceID
	Sequence  int64 // the workspace's own, from 1, in the order of commit
	ID        EntryID
	Name      string
	Subject   string
	Timestamp time.Time // when it happened, as the application says
	Data      []byte    // a JSON object, byte for byte as it came
	// Recorded is when the ledger took it.
	Recorded time.Time
	// Print is a hash of what the application said, by which a repetition is told from a conflict.
	Print relay.Hash
}

// ValidSource reports whether s can be an application's id of an entry: 1 to MaxSource printable characters without
// white space at either end.
func ValidSource(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= MaxSource && s == strings.TrimSpace(s) && printable(s)
}

// ValidSubject reports whether s is kind/id, where kind is the one given, or any when kind is empty. A kind is lower-case
// letters, digits, _ and -; an id is printable and holds no white space.
func ValidSubject(s, kind string) bool {
	k, id, found := strings.Cut(s, "/")
	if !found || id == "" || len(s) > MaxSubject || !utf8.ValidString(s) || !ValidKind(k) || (kind != "" && k != kind) {
		return false
	}
	return printable(id) && !strings.ContainsFunc(id, unicode.IsSpace)
}

// ValidKind reports whether s names a kind of subject: 1 to 64 of a-z 0-9 _ -.
func ValidKind(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
