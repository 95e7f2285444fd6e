// Package credential owns every secret format of the relay: token shapes, minting, hashing, signed ids and links.
//
// A token names its mailbox, whose id carries a signature made with RELAY_SECRET, so a forged or foreign token is refused
// before any database is asked. Only SHA-256 hashes of secrets leave this package for storage, and every comparison of
// secret material takes constant time.
package credential

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"github.com/herald-relay/herald/internal/relay"
)

// Kind tells token shapes apart (contract section 1).
type Kind string

// The shapes that may arrive as a bearer credential.
const (
	DeviceToken Kind = "hrd"
	AgentKey    Kind = "hrk"
	AccessToken Kind = "hra"
)

// secretHex is the length of every token's secret part in hex digits.
const secretHex = 64

// Token is a bearer credential of good shape. It proves nothing yet.
type Token struct {
	Kind    Kind
	Mailbox relay.MailboxID
	Key     relay.KeyID // AgentKey only
	secret  string
}

// String names the token without its secret.
func (t Token) String() string {
	return string(t.Kind) + "_" + string(t.Mailbox[:min(8, len(t.Mailbox))]) + "…"
}

// GoString is String, so that %#v shows no secret either.
func (t Token) GoString() string { return t.String() }

// Hash is what is stored of the token's secret.
func (t Token) Hash() relay.Hash { return sha256.Sum256([]byte(t.secret)) }

// Parse reads a token. ok is false for every other shape, refresh tokens and codes included: those are no bearers.
func Parse(s string) (t Token, ok bool) {
	kind, rest, found := strings.Cut(s, "_")
	if !found || len(s) > 256 {
		return Token{}, false
	}
	t.Kind = Kind(kind)
	parts := strings.Split(rest, "_")
	switch {
	case (t.Kind == DeviceToken || t.Kind == AccessToken) && len(parts) == 2:
	case t.Kind == AgentKey && len(parts) == 3:
		if t.Key, ok = relay.ParseKeyID(parts[1]); !ok {
			return Token{}, false
		}
	default:
		return Token{}, false
	}
	t.secret = parts[len(parts)-1]
	if t.Mailbox, ok = relay.ParseMailboxID(parts[0]); !ok || len(t.secret) != secretHex || !relay.IsHex(t.secret) {
		return Token{}, false
	}
	return t, true
}

// Bearer takes the token out of an Authorization header: the scheme in any case, one token, nothing behind it.
func Bearer(header string) (string, bool) {
	scheme, token, found := strings.Cut(header, " ")
	token = strings.Trim(token, " ")
	if !found || !strings.EqualFold(scheme, "bearer") || token == "" || strings.ContainsAny(token, " \t,") {
		return "", false
	}
	return token, true
}

// MintDeviceToken makes a device token and the hash to store.
func MintDeviceToken(m relay.MailboxID) (token string, h relay.Hash) {
	secret := relay.RandomHex(secretHex / 2)
	return string(DeviceToken) + "_" + string(m) + "_" + secret, sha256.Sum256([]byte(secret))
}

// MintAgentKey makes an agent key, its id and the hash to store.
func MintAgentKey(m relay.MailboxID) (key string, id relay.KeyID, h relay.Hash) {
	id = relay.KeyID(relay.RandomHex(4))
	secret := relay.RandomHex(secretHex / 2)
	return string(AgentKey) + "_" + string(m) + "_" + string(id) + "_" + secret, id, sha256.Sum256([]byte(secret))
}

// Equal compares hashes in constant time.
func Equal(a, b relay.Hash) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

// EqualText compares two secrets in constant time, whatever their lengths.
func EqualText(a, b string) bool {
	return Equal(sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b)))
}

// Signer holds RELAY_SECRET and whatever is derived from it. Its purposes, each with its own key or text prefix:
//
//	"device:"           mailbox ids (fixed by the wire)
//	"audio:"            signed clip links (fixed by the wire)
//	"herald pair code"  stored hashes of pairing codes
//	"herald address"    stored hashes of network addresses
//	"herald grant"      tokens of a request for approval, and mailbox ids that lead nowhere
//	"herald seal …"     encryption at rest, by purpose: see Sealer
type Signer struct {
	secret  []byte
	pair    []byte
	address []byte
	grant   []byte
}

// NewSigner derives its keys from the relay's secret, which must not be empty.
func NewSigner(relaySecret string) *Signer {
	s := &Signer{secret: []byte(relaySecret)}
	s.pair, s.address, s.grant = s.derive("herald pair code"), s.derive("herald address"), s.derive("herald grant")
	return s
}

func (s *Signer) derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, s.secret, nil, purpose, 32)
	if err != nil {
		panic("credential: hkdf refuses 32 bytes: " + err.Error())
	}
	return key
}

// String hides the secret.
func (s *Signer) String() string { return "credential.Signer" }

// NewMailboxID makes a mailbox id that this relay will recognise.
func (s *Signer) NewMailboxID() relay.MailboxID {
	head := relay.RandomHex(16)
	return relay.MailboxID(head + s.mailboxSignature(head))
}

// Signed reports whether the relay's present secret made the id.
func (s *Signer) Signed(id relay.MailboxID) bool {
	head, tail := string(id[:32]), string(id[32:])
	return subtle.ConstantTimeCompare([]byte(tail), []byte(s.mailboxSignature(head))) == 1
}

func (s *Signer) mailboxSignature(head string) string {
	return hex.EncodeToString(mac(s.secret, "device:"+head)[:8])
}

// PairCodeHash is what is stored of a pairing code: keyed, because 39 bits would not withstand a search.
func (s *Signer) PairCodeHash(code string) relay.Hash { return relay.Hash(mac(s.pair, code)) }

// AddressHash is what is stored of a network address.
func (s *Signer) AddressHash(address string) string {
	return hex.EncodeToString(mac(s.address, address)[:16])
}

// ClipSignature signs a link to a clip (contract section 2.8). exp is in Unix seconds, as text.
func (s *Signer) ClipSignature(m relay.MailboxID, id relay.NotificationID, exp string) string {
	return hex.EncodeToString(mac(s.secret, "audio:"+string(m)+"/"+string(id)+".m4a:"+exp))
}

// ValidClip reports whether sig is the signature of that link.
func (s *Signer) ValidClip(m relay.MailboxID, id relay.NotificationID, exp, sig string) bool {
	return subtle.ConstantTimeCompare([]byte(sig), []byte(s.ClipSignature(m, id, exp))) == 1
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
