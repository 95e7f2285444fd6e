package credential

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/herald-relay/herald/internal/relay"
)

// The shapes that only the authorization server takes. None of them is a bearer credential.
const (
	RefreshToken      Kind = "hrr"
	AuthorizationCode Kind = "hrc"
	DeviceCode        Kind = "hrv"
)

// ParseSecret reads a token of two parts, of exactly that kind: its mailbox, and the hash of its secret.
func ParseSecret(kind Kind, s string) (m relay.MailboxID, h relay.Hash, ok bool) {
	if len(s) != len(kind)+1+48+1+secretHex || s[:len(kind)+1] != string(kind)+"_" || s[len(kind)+49] != '_' {
		return "", h, false
	}
	secret := s[len(kind)+50:]
	m, ok = relay.ParseMailboxID(s[len(kind)+1 : len(kind)+49])
	return m, sha256.Sum256([]byte(secret)), ok && relay.IsHex(secret)
}

// MintSecret makes a token of two parts and the hash to store.
func MintSecret(kind Kind, m relay.MailboxID) (token string, h relay.Hash) {
	return secretToken(kind, m, relay.RandomHex(secretHex/2))
}

func secretToken(kind Kind, m relay.MailboxID, secret string) (string, relay.Hash) {
	return string(kind) + "_" + string(m) + "_" + secret, sha256.Sum256([]byte(secret))
}

// Derived makes the token of that kind which belongs to a request for approval. It is the same each time, so that a
// repeated exchange can answer with the same grant although only hashes are stored.
func (s *Signer) Derived(kind Kind, id relay.ConsentID) (token string, h relay.Hash) {
	return secretToken(kind, id.Mailbox(), hex.EncodeToString(mac(s.grant, string(kind)+":"+string(id))))
}

// MintClientSecret makes the secret of a confidential client, 64 hex digits, and the hash to store.
func MintClientSecret() (secret string, h relay.Hash) {
	secret = relay.RandomHex(secretHex / 2)
	return secret, HashSecret(secret)
}

// HashSecret is what is stored of a client's secret.
func HashSecret(secret string) relay.Hash { return sha256.Sum256([]byte(secret)) }

// Shadow is the mailbox id that a handle leads to when nobody has it. It is the same each time and signed like any other.
func (s *Signer) Shadow(handle string) relay.MailboxID {
	head := hex.EncodeToString(mac(s.grant, "shadow:"+handle)[:16])
	return relay.MailboxID(head + s.mailboxSignature(head))
}
