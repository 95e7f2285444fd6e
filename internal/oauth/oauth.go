// Package oauth is the relay's authorization server: software asks to become a connector, and a person decides on a
// device of theirs (contract sections 6.7, 8 and 9).
//
// # The story
//
// A client registers, or names the https address of its own description. It asks for approval in a browser (flow code,
// RFC 6749 with PKCE) or by polling (flow device, RFC 8628). Either makes a relay.Consent in a person's mailbox; every
// device of the mailbox is told. The person approves on a device, or types the six digits that only the devices show
// into the page. Approving makes a key of kind oauth and a grant; the client exchanges its code for tokens.
//
// # Promises
//
// A request is decided once, whoever races. A client holds one key of a mailbox: a new approval ends the earlier one, its
// tokens and what hangs on them, in the same transaction. A token works only while its row, its grant and its key
// are there, so nothing outlives a revocation. Tokens never run out and never rotate: a refresh adds an access token, and a
// repeated exchange within five minutes answers with the same grant (decision 19).
//
// Only hashes of secrets are stored. What must be answered again is derived from RELAY_SECRET and the request's id.
// Guessing is bounded per request, per address and per mailbox, over restarts and over processes.
package oauth

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/presence"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Service is the authorization server. All fields are set once, before use.
type Service struct {
	Store  store.Store
	Hub    *presence.Hub
	Signer *credential.Signer
	Limits Limits
	// EndKey revokes a key within a transaction, and ends all that hangs on it.
	EndKey func(tx store.Tx, m relay.MailboxID, k relay.KeyID, now time.Time) error
	// Documents reads the descriptions of clients that did not register; nil when the relay takes none.
	Documents *Documents
	Log       *slog.Logger
}

// Limits are the configurable ones.
type Limits struct {
	RegistrationsPerHour int // for the whole relay
}

// Tallies kept as marks.
const (
	markRegister  = "oauth_register"
	markDocument  = "oauth_document"
	markConsent   = "oauth_consent"
	markWrongCode = "oauth_code_wrong"
	markWrongUser = "oauth_user_wrong"
)

// Fixed limits, ours where the contract names none.
const (
	hour              = time.Hour
	guessWindow       = 10 * time.Minute
	wrongPerAddress   = 20 // wrong approval codes, over all requests
	wrongUserCodes    = 10 // unknown user codes
	documentsPerHour  = 60 // descriptions read for one address
	keptClients       = 200
	trimBatch         = 50
	slowDownRetry     = time.Minute
	userCodeTries     = 5
	maxStateChars     = 2048
	maxAuditPage      = 200
	overdueBatch      = 100
	refusalTooMany    = "this mailbox has too many requests for approval; decide those that wait on a device, or try again later"
	refusalNotPending = "the request was decided already"
)

// Errors that pages and the device flow answer in their own ways.
var (
	// ErrNoDevice says that nobody can approve: no device is paired.
	ErrNoDevice = errors.New("oauth: no device is paired")
	// ErrNoSuchDevice says that the person has no device of that number.
	ErrNoSuchDevice = errors.New("oauth: no device has that number")
	// ErrWhose says that the relay serves several people and nobody said whose approval is asked for.
	ErrWhose = errors.New("oauth: whose approval is asked for was not said")
)

// The refusals of the token endpoint and its neighbours (RFC 6749 section 5.2, RFC 8628 section 3.5, RFC 8707 section 2).
func invalidGrant(detail string) error {
	return fault.New(fault.Invalid, "invalid_grant", detail)
}

func invalidClient(detail string) error {
	return fault.New(fault.Unauthenticated, "invalid_client", detail)
}

func invalidScope() error {
	return fault.New(fault.Invalid, "invalid_scope", "the scopes that this relay grants are: "+relay.KnownScopes.String())
}

// tooMany is the refusal of what is limited, in the plain error body.
func tooMany(detail string, after time.Duration) error {
	return fault.New(fault.Exhausted, "rate_limited", detail).WithRetry(after, false)
}

// within counts the strokes of a window, without those from before the clock was set back.
func within(tx store.Tx, kind, subject string, window time.Duration, now time.Time) (int, error) {
	all, err := tx.Marks().Count(kind, subject, now.Add(-window))
	if err != nil || all == 0 {
		return 0, err
	}
	ahead, err := tx.Marks().Count(kind, subject, now.Add(relay.ClockSlack))
	return all - ahead, err
}

// RequestedScopes reads a scope parameter: what is asked for, or everything when nothing is. Unknown ones are
// invalid_scope.
func RequestedScopes(text string) (relay.Scopes, error) {
	asked := relay.ParseScopes(text)
	if len(asked) == 0 {
		return relay.Scopes{relay.ScopeNotify}, nil
	}
	if !asked.Within(relay.KnownScopes) {
		return nil, invalidScope()
	}
	return asked, nil
}

// personOf is who owns a mailbox; "" when the mailbox does not exist.
func personOf(tx store.Tx, m relay.MailboxID) (relay.PersonID, error) {
	box, err := tx.Mailboxes().Get(m)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return box.Person, err
}

// siblings are the other mailboxes of a mailbox's person.
func (s *Service) siblings(ctx context.Context, m relay.MailboxID) (list []relay.MailboxID, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		list = nil
		person, err := personOf(tx, m)
		if err != nil || person == "" {
			return err
		}
		boxes, err := tx.Mailboxes().List(person)
		for _, b := range boxes {
			if b.ID != m {
				list = append(list, b.ID)
			}
		}
		return err
	})
	return list, err
}

// note adds an entry to the audit log of the mailbox's person. A mailbox that does not exist has nobody to read it.
func note(tx store.Tx, c relay.Consent, action, by string, now time.Time) error {
	m := c.ID.Mailbox()
	person, err := personOf(tx, m)
	if err != nil || person == "" {
		return err
	}
	return tx.Audit().Add(relay.AuditEntry{At: relay.Millis(now), Mailbox: m, Person: person, Action: action, Client: c.Client,
		ClientName: c.ClientName, Consent: c.ID, Key: c.Key, By: by})
}

func (s *Service) tell(boxes ...relay.MailboxID) {
	for _, m := range boxes {
		s.Hub.Publish(relay.Hint{Kind: relay.HintConsent, Mailbox: m})
	}
}
