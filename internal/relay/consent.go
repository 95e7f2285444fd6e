package relay

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"
)

// Fixed times and counts of approvals (contract sections 8 to 10).
const (
	// ConsentLife is how long a person may take to decide.
	ConsentLife = 10 * time.Minute
	// CollectWithin is how long after the approval the connector may collect its tokens, as often as it likes.
	CollectWithin = 5 * time.Minute
	// ConsentKept is how long a request stays listed.
	ConsentKept = 24 * time.Hour
	// MaxOpenConsents bounds the requests of a mailbox that wait for a decision.
	MaxOpenConsents = 3
	// ConsentsPerHour bounds the requests begun on a mailbox.
	ConsentsPerHour = 12
	// MaxConsentAttempts is how many wrong approval codes deny a request.
	MaxConsentAttempts = 5
	// PollInterval is how long a device-flow client waits between polls, and what is added when it does not.
	PollInterval = 5 * time.Second
	// MaxAccessTokens bounds the access tokens of a connector; the oldest go first.
	MaxAccessTokens = 50
	// MaxListedConsents bounds what a device is listed.
	MaxListedConsents = 20
)

// ConsentID names a request for approval: its mailbox's id and 24 lower-case hex digits.
type ConsentID string

// NewConsentID makes the id of a request to a mailbox.
func NewConsentID(m MailboxID) ConsentID { return ConsentID(string(m) + RandomHex(12)) }

// ParseConsentID accepts exactly the shape of a ConsentID.
func ParseConsentID(s string) (ConsentID, bool) {
	if len(s) != 72 || !IsHex(s) {
		return "", false
	}
	return ConsentID(s), true
}

// Mailbox is the mailbox whose devices decide.
func (id ConsentID) Mailbox() MailboxID { return MailboxID(id[:48]) }

// ConsentStatus is where a request stands.
type ConsentStatus string

// The states. Pending is left exactly once.
const (
	Pending    ConsentStatus = "pending"
	Approved   ConsentStatus = "approved"
	Denied     ConsentStatus = "denied"
	Superseded ConsentStatus = "superseded" // the client asked again, or elsewhere, or was decided elsewhere
	Lapsed     ConsentStatus = "expired"    // nobody decided in time
)

// How a client asks.
const (
	FlowCode   = "code"   // in a browser, which is sent back with an authorization code
	FlowDevice = "device" // RFC 8628: the client polls
)

// Consent is a client's request for a person's approval.
type Consent struct {
	ID         ConsentID
	Client     ClientID
	ClientName string
	Flow       string
	Scopes     Scopes
	Status     ConsentStatus
	Code       string // the six digits that only the person's devices show
	UserCode   string // device flow: what the client shows
	// Secret is the hash of what the client exchanges: the authorization code, or the device code.
	Secret    Hash
	Redirect  string // code flow, as the next three
	State     string
	Challenge string // S256
	Issuer    string // the origin by which the client came
	Resource  string // what the tokens are for, canonical
	Attempts  int    // wrong approval codes
	Interval  time.Duration
	PolledAt  time.Time
	CreatedAt time.Time
	ExpiresAt time.Time
	DecidedAt time.Time
	// CollectedAt is when the tokens were first collected.
	CollectedAt time.Time
	Key         KeyID // once approved
	// Announced lists the devices that were shown the request with its present code.
	Announced []DeviceID
}

// Open reports whether the request waits for a decision at now.
func (c Consent) Open(now time.Time) bool { return c.Status == Pending && now.Before(c.ExpiresAt) }

// StatusAt is the request's state at now: one whose time ran out has lapsed, whether or not anybody noted it.
func (c Consent) StatusAt(now time.Time) ConsentStatus {
	if c.Status == Pending && !c.Open(now) {
		return Lapsed
	}
	return c.Status
}

// Collectable reports whether the approval's tokens may be collected at now.
func (c Consent) Collectable(now time.Time) bool {
	return c.Status == Approved && now.Before(c.DecidedAt.Add(CollectWithin))
}

// SameRequest reports whether a browser that asks again as other was only reloaded.
func (c Consent) SameRequest(other Consent) bool {
	return c.Flow == FlowCode && other.Flow == FlowCode && c.Client == other.Client && c.Redirect == other.Redirect &&
		c.State == other.State && c.Challenge == other.Challenge && c.Resource == other.Resource &&
		slices.Equal(c.Scopes, other.Scopes)
}

// Renew gives an open request fresh codes and its whole time again.
func (c *Consent) Renew(now time.Time) {
	c.Code, c.Attempts, c.Announced = NewApprovalCode(), 0, nil
	c.CreatedAt, c.ExpiresAt = Millis(now), Millis(now.Add(ConsentLife))
	if c.Flow == FlowDevice {
		c.UserCode, c.Interval, c.PolledAt = NewUserCode(), PollInterval, time.Time{}
	}
}

// pollSlack forgives a poll that a punctual client's clock or network brought a little early.
const pollSlack = 250 * time.Millisecond

// Poll notes a device-flow poll at now and reports whether it came in time. An early one slows the client down by
// five more seconds; the first counts from the beginning of the request (RFC 8628, section 3.5).
func (c *Consent) Poll(now time.Time) (inTime bool) {
	last := c.PolledAt
	if last.IsZero() {
		last = c.CreatedAt
	}
	inTime = now.Sub(last) >= c.Interval-pollSlack || now.Before(last)
	if !inTime {
		c.Interval += PollInterval
	}
	c.PolledAt = Millis(now)
	return inTime
}

// NewApprovalCode makes six random digits.
func NewApprovalCode() string { return draw("0123456789", 6) }

// userCodeLetters are consonants that people tell apart (contract section 9).
const userCodeLetters = "BCDFGHJKMNPQRTWXZ"

// NewUserCode makes a user code in the form XXXX-XXXX.
func NewUserCode() string { return draw(userCodeLetters, 4) + "-" + draw(userCodeLetters, 4) }

// NormalUserCode reads a user code as people type it: in any case, with or without dash and blanks.
func NormalUserCode(s string) (string, bool) {
	if len(s) > 64 {
		return "", false
	}
	plain := strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '\t' || r == '\u00a0' || r == '\u2013' || r == '\u2011' {
			return -1
		}
		return r
	}, strings.ToUpper(s))
	if len(plain) != 8 || strings.Trim(plain, userCodeLetters) != "" {
		return "", false
	}
	return plain[:4] + "-" + plain[4:], true
}

// NormalApprovalCode drops the blanks that people type inside a code (decision 35).
func NormalApprovalCode(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(FirstChars(s, 64), "-", "")), "")
}

// draw picks n letters without bias: it refuses the uneven rest of a byte.
func draw(letters string, n int) string {
	limit := 256 - 256%len(letters)
	out := make([]byte, 0, n)
	for len(out) < n {
		var b [16]byte
		rand.Read(b[:])
		for _, c := range b {
			if int(c) < limit && len(out) < n {
				out = append(out, letters[int(c)%len(letters)])
			}
		}
	}
	return string(out)
}

// Grant is what an approved connector holds: a key of kind oauth, with a refresh token and access tokens.
type Grant struct {
	Mailbox   MailboxID
	Key       KeyID
	Client    ClientID
	Consent   ConsentID
	Refresh   Hash
	Scopes    Scopes
	Resource  string
	CreatedAt time.Time
	Tokens    int // access tokens that work; filled when read
}

// AccessToken is a bearer token of a grant. It works for as long as its row and its key do.
type AccessToken struct {
	Mailbox   MailboxID
	Key       KeyID
	Hash      Hash
	Scopes    Scopes
	CreatedAt time.Time
}

// Actions of the audit log.
const (
	AuditApproved   = "approved"
	AuditDenied     = "denied"
	AuditSuperseded = "superseded"
	AuditExpired    = "expired"
	AuditRevoked    = "revoked"
)

// Who decided, when it was no device.
const (
	ByPage   = "page"   // with the approval code
	ByClient = "client" // the connector gave its own token back
	ByRelay  = "relay"  // a rule
)

// AuditKept is how long decisions are remembered.
const AuditKept = 400 * 24 * time.Hour

// AuditEntry is one decision about a connector. It holds no secret and no notification text.
type AuditEntry struct {
	At         time.Time
	Mailbox    MailboxID
	Person     PersonID
	Action     string
	Client     ClientID
	ClientName string
	Consent    ConsentID // "" when there was none
	Key        KeyID     // "" when there is none
	By         string    // a DeviceID, or one of the By constants
}
