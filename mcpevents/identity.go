package mcpevents

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/herald-relay/herald/mcpevents/internal/canonical"
)

// subscriptionKey is the identity of a subscription: the hash of the canonical JSON array of principal, address, event
// name and arguments (contract e.2), with the ledger as a fifth member unless it is "".
func subscriptionKey(principal, url, name string, arguments map[string]any, ledger string) string {
	parts := []any{principal, url, name, arguments}
	if ledger != "" {
		parts = append(parts, ledger)
	}
	sum := sha256.Sum256(canonical.Append(nil, parts))
	return hex.EncodeToString(sum[:])
}

// newID returns the id of a new subscription with that key.
func (i Identity) newID(key string) string {
	if i.Random {
		return "sub_" + randomHex(i.Digits)
	}
	return "sub_" + key[:i.Digits]
}

func randomHex(digits int) string {
	b := make([]byte, (digits+1)/2)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)[:digits]
}

// wireID is what an event is called towards one subscription.
func (e EventIDs) wireID(event *Event, subscription string) string {
	if e == PerSubscription {
		return fmt.Sprintf("evt_%d_%s", event.Sequence, strings.TrimPrefix(subscription, "sub_"))
	}
	return event.ID
}

const maxEventID = 128

// validEventID keeps dots out: Standard Webhooks joins id, timestamp and body with them.
func validEventID(id string) bool {
	if id == "" || len(id) > maxEventID {
		return false
	}
	for _, c := range []byte(id) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != ':' {
			return false
		}
	}
	return true
}
