package credential

import (
	"context"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Principal is who a request was proven to come from.
type Principal struct {
	Mailbox relay.MailboxID
	Device  relay.DeviceID // devices only
	Key     relay.KeyID    // agents only
	Owner   bool           // the device that paired the mailbox
	Scopes  relay.Scopes   // agents only: what the credential allows
}

// Authenticator proves credentials against the store.
type Authenticator struct {
	Signer *Signer
	Store  store.Store
}

// Shape refuses what Agent and Device refuse without a look into the store: a header that holds no credential, or one that
// this relay never signed.
func (a *Authenticator) Shape(header string) error {
	_, err := a.token(header)
	return err
}

// Agent proves an agent's credential from an Authorization header, in the order of the contract's section 1: shape,
// signature, kind, secret and revocation, scope. It keeps the key's lastUsedAt fresh to ten minutes.
func (a *Authenticator) Agent(ctx context.Context, header string, now time.Time) (Principal, error) {
	t, err := a.token(header)
	if err != nil {
		return Principal{}, err
	}
	if t.Kind == DeviceToken {
		return Principal{}, wrongCredential("this route takes an agent's credential, and a device token was sent; use an agent key (hrk_…) or an access token")
	}
	key, scopes, err := a.key(ctx, t)
	if err != nil {
		return Principal{}, err
	}
	if !scopes.Has(relay.ScopeNotify) {
		return Principal{}, fault.New(fault.Forbidden, "scope", "this credential does not carry the scope notify; use one that does")
	}
	a.touch(ctx, key, now)
	return Principal{Mailbox: t.Mailbox, Key: key.ID, Scopes: scopes}, nil
}

// key finds the active key that an agent's credential stands for, and what the credential allows of it.
func (a *Authenticator) key(ctx context.Context, t Token) (key relay.Key, scopes relay.Scopes, err error) {
	err = a.Store.View(ctx, func(tx store.Tx) (err error) {
		id := t.Key
		if t.Kind == AccessToken {
			token, err := tx.Grants().Token(t.Mailbox, t.Hash())
			if err != nil {
				return err
			}
			id, scopes = token.Key, token.Scopes
		}
		key, err = tx.Keys().Get(t.Mailbox, id)
		return err
	})
	if err != nil {
		return key, nil, unknownIfMissing(err)
	}
	kind := relay.KindOAuth // found by the hash of its secret
	if t.Kind == AgentKey {
		kind, scopes = relay.KindStatic, relay.ParseScopes(key.Scope)
	}
	if key.Kind != kind || !key.Active() || t.Kind == AgentKey && !Equal(key.Hash, t.Hash()) {
		return key, nil, unknownCredential()
	}
	return key, scopes, nil
}

// touch is best effort: a request must not fail because a date could not be written.
func (a *Authenticator) touch(ctx context.Context, key relay.Key, now time.Time) {
	if now.Sub(key.LastUsedAt) < relay.KeyTouchEvery {
		return
	}
	_ = a.Store.Update(ctx, func(tx store.Tx) error { return tx.Keys().Touch(key.Mailbox, key.ID, now) })
}

// Device proves a device token from an Authorization header, in the same order.
func (a *Authenticator) Device(ctx context.Context, header string) (Principal, error) {
	t, err := a.token(header)
	if err != nil {
		return Principal{}, err
	}
	if t.Kind != DeviceToken {
		return Principal{}, wrongCredential("this route takes a device token (hrd_…), and an agent's credential was sent")
	}
	var devices []relay.Device
	err = a.Store.View(ctx, func(tx store.Tx) (err error) {
		devices, err = tx.Devices().List(t.Mailbox)
		return err
	})
	if err != nil {
		return Principal{}, unknownIfMissing(err)
	}
	hash, found := t.Hash(), relay.Device{}
	for _, d := range devices {
		if Equal(d.TokenHash, hash) {
			found = d
		}
	}
	if found.ID == "" {
		return Principal{}, unknownCredential()
	}
	return Principal{Mailbox: t.Mailbox, Device: found.ID, Owner: found.Owner}, nil
}

func (a *Authenticator) token(header string) (Token, error) {
	text, ok := Bearer(header)
	if !ok {
		return Token{}, fault.Unauthorized("send one credential as \"Authorization: Bearer TOKEN\"")
	}
	t, ok := Parse(text)
	if !ok || !a.Signer.Signed(t.Mailbox) {
		return Token{}, unknownCredential()
	}
	return t, nil
}

func wrongCredential(detail string) error {
	return fault.New(fault.Forbidden, "wrong_credential", detail)
}

func unknownCredential() error {
	return fault.Unauthorized("this relay does not know the credential, or it was revoked; pair or make a new key")
}

func unknownIfMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return unknownCredential()
	}
	return err
}
