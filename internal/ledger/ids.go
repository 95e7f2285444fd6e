package ledger

import (
	"crypto/sha1" //nolint:gosec // RFC 9562 section 5.5 names it; nothing here relies on collisions being hard
	"encoding/hex"

	"github.com/herald-relay/herald/internal/relay"
)

type (
	// WorkspaceID names a workspace: "ws_" and 24 lower-case hex digits. It is the engine's name of the ledger too.
	WorkspaceID string
	// KeyID names a key within its workspace: 8 lower-case hex digits.
	KeyID string
	// EntryID is the id of an entry and of its event: a UUID of version 5, lower case.
	EntryID string
)

const workspacePrefix = "ws_"

// NewWorkspaceID makes a random id.
func NewWorkspaceID() WorkspaceID { return WorkspaceID(workspacePrefix + relay.RandomHex(12)) }

// ParseWorkspaceID accepts exactly the shape of a WorkspaceID.
func ParseWorkspaceID(s string) (WorkspaceID, bool) {
	if len(s) != 27 || s[:3] != workspacePrefix || !relay.IsHex(s[3:]) {
		return "", false
	}
	return WorkspaceID(s), true
}

// Digits are the id's 24 hex digits, as tokens carry them.
func (id WorkspaceID) Digits() string { return string(id[len(workspacePrefix):]) }

// ParseKeyID accepts exactly the shape of a KeyID.
func ParseKeyID(s string) (KeyID, bool) {
	if len(s) != 8 || !relay.IsHex(s) {
		return "", false
	}
	return KeyID(s), true
}

// ParseEntryID accepts the canonical text of a UUID of any version, in either case, and returns it in lower case.
func ParseEntryID(s string) (EntryID, bool) {
	if len(s) != 36 {
		return "", false
	}
	b := []byte(s)
	for i, c := range b {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return "", false
			}
		case 'A' <= c && c <= 'F':
			b[i] = c + 'a' - 'A'
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return "", false
		}
	}
	return EntryID(b), true
}

// namespace is the UUID under which entries are named: of version 4, made once.
var namespace = [16]byte{0x5f, 0x0b, 0x86, 0x5a, 0x0d, 0x39, 0x4c, 0x1e, 0x9a, 0x57, 0x21, 0x6e, 0xd3, 0x4f, 0x7c, 0x28}

// EntryIDOf names the entry that a workspace's application calls source: the same names give the same id on every
// machine, for ever (RFC 9562, section 5.5). Equal sources of two workspaces give different ids.
func EntryIDOf(w WorkspaceID, source string) EntryID {
	h := sha1.New()
	h.Write(namespace[:])
	h.Write([]byte(w))
	h.Write([]byte{0}) // no part of a workspace's id
	h.Write([]byte(source))
	u := h.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	b := make([]byte, 36)
	hex.Encode(b, u[:4])
	hex.Encode(b[9:], u[4:6])
	hex.Encode(b[14:], u[6:8])
	hex.Encode(b[19:], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return EntryID(b)
}
