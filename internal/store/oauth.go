package store

import (
	"time"

	"github.com/herald-relay/herald/internal/relay"
)

// Clients holds software that may ask for approval. No mailbox owns it.
type Clients interface {
	// Put adds c, or overwrites the one with that id; CreatedAt of the first stays.
	Put(c relay.Client) error
	// Get is NotFound when there is none.
	Get(id relay.ClientID) (relay.Client, error)
	// Trim removes the oldest clients beyond the newest keep of their sort (registered ones, or documents), up to limit.
	// One that holds a grant, or whose request is pending, stays and counts. It returns how many it removed.
	Trim(documents bool, keep, limit int) (int, error)
}

// Consents holds requests for approval. A request of a mailbox that does not exist is kept like any other: strangers must
// not learn which exist. Deleting a mailbox removes its requests.
type Consents interface {
	// Create adds c. An id, secret or pending user code that exists is Conflict.
	Create(c relay.Consent) error
	// Save overwrites what may change of c: codes, secret, status, times, counts, key and announcements. NotFound when
	// it is gone.
	Save(c relay.Consent) error
	// Get is NotFound when there is none.
	Get(id relay.ConsentID) (relay.Consent, error)
	// BySecret finds a mailbox's request by what is exchanged for it. NotFound when there is none.
	BySecret(m relay.MailboxID, secret relay.Hash) (relay.Consent, error)
	// ByUserCode finds a pending request of the device flow, whosever it is. NotFound when there is none.
	ByUserCode(code string) (relay.Consent, error)
	// List returns up to limit requests of the mailbox created after since, newest first.
	List(m relay.MailboxID, since time.Time, limit int) ([]relay.Consent, error)
	// Pending returns the mailbox's pending requests, oldest first, those included whose time ran out.
	Pending(m relay.MailboxID) ([]relay.Consent, error)
	// Overdue returns up to limit pending requests of any mailbox whose time ran out by now.
	Overdue(now time.Time, limit int) ([]relay.Consent, error)
	// Uncollected returns up to limit requests of any mailbox that were approved before cutoff, whose tokens nobody
	// collected and whose grant is still there.
	Uncollected(cutoff time.Time, limit int) ([]relay.Consent, error)
	// Forget removes up to limit requests created before cutoff, and returns how many.
	Forget(cutoff time.Time, limit int) (int, error)
}

// Grants holds what approved connectors hold. A grant goes with its key, its access tokens with their grant.
type Grants interface {
	// Create adds g. NotFound when its key is gone, Conflict when the key has a grant.
	Create(g relay.Grant) error
	// Get is NotFound when the key has none.
	Get(m relay.MailboxID, k relay.KeyID) (relay.Grant, error)
	// ByRefresh finds by the hash of the refresh token. NotFound when there is none.
	ByRefresh(m relay.MailboxID, refresh relay.Hash) (relay.Grant, error)
	// List returns the mailbox's grants, oldest first.
	List(m relay.MailboxID) ([]relay.Grant, error)
	// End removes the grant of a key with its tokens. Absent is no error.
	End(m relay.MailboxID, k relay.KeyID) error
	// AddToken adds an access token and removes the oldest of that grant beyond keep. NotFound when the grant is gone,
	// Conflict when the token exists.
	AddToken(t relay.AccessToken, keep int) error
	// Token is NotFound when there is none.
	Token(m relay.MailboxID, hash relay.Hash) (relay.AccessToken, error)
	// EndToken removes one access token. Absent is no error.
	EndToken(m relay.MailboxID, hash relay.Hash) error
}

// Audit remembers decisions about connectors. Deleting a person removes theirs; deleting a mailbox removes none.
type Audit interface {
	Add(e relay.AuditEntry) error
	// List returns up to limit of a person's entries made before before (zero: of all), newest first.
	List(p relay.PersonID, before time.Time, limit int) ([]relay.AuditEntry, error)
	// Forget removes up to limit entries made before cutoff, and returns how many.
	Forget(cutoff time.Time, limit int) (int, error)
}
