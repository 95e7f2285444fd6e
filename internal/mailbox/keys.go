package mailbox

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

var keyName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// KeyRequest asks for an agent key with the scope notify, the only one there is. Client "" means other.
type KeyRequest struct {
	Name, Client string
}

// CreateKey makes a key and returns it with its secret, which is shown this once. Refusals, in the order of the
// contract's section 6.6: invalid_request for name and client, name_taken, too_many_keys.
func (s *Service) CreateKey(ctx context.Context, m relay.MailboxID, in KeyRequest, now time.Time) (k relay.Key, secret string, err error) {
	if k, err = in.key(); err != nil {
		return relay.Key{}, "", err
	}
	k.Mailbox, k.CreatedAt = m, relay.Millis(now)
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		secret, k.ID, k.Hash = credential.MintAgentKey(m)
		if err := tx.Keys().Create(k); err != nil {
			return err
		}
		active, err := tx.Keys().CountActive(m)
		if err == nil && active > relay.MaxActiveKeys {
			err = fault.New(fault.Exhausted, "too_many_keys",
				"this mailbox already has %d active keys and connectors, its limit; revoke one first", relay.MaxActiveKeys)
		}
		return err
	})
	if err != nil {
		return relay.Key{}, "", goneIsUnauthorized(err)
	}
	return k, secret, nil
}

func (in KeyRequest) key() (relay.Key, error) {
	k := relay.Key{
		Kind: relay.KindStatic, Scope: relay.ScopeNotify, Client: in.Client, Name: strings.ToLower(strings.TrimSpace(in.Name)),
	}
	if k.Client == "" {
		k.Client = "other"
	}
	switch {
	case !keyName.MatchString(k.Name):
		return k, fault.InvalidRequest("name", "name must be 1 to 32 of a-z, 0-9 and -, beginning with a letter or digit")
	case k.Client != "claude" && k.Client != "codex" && k.Client != "other":
		return k, fault.InvalidRequest("client", "client must be claude, codex or other")
	}
	return k, nil
}

// CheckScope refuses every scope that a key is asked to carry but notify: scope_not_allowed.
func CheckScope(scope string) error {
	if scope != relay.ScopeNotify {
		return fault.New(fault.Invalid, "scope_not_allowed", "the only scope a key may carry is notify; leave scope out")
	}
	return nil
}

// Keys lists the mailbox's keys, oldest first, revoked ones included.
func (s *Service) Keys(ctx context.Context, m relay.MailboxID) (list []relay.Key, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		list, err = tx.Keys().List(m)
		return err
	})
	return list, err
}

// RevokeKey ends a key at once on behalf of a device; what it queued is still delivered. Repeating it succeeds. With purge the key and
// everything it sent is removed. An unknown key is NotFound.
func (s *Service) RevokeKey(ctx context.Context, m relay.MailboxID, id relay.KeyID, purge bool, by relay.DeviceID, now time.Time) error {
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		if err := noteRevoked(tx, m, id, by, now); err != nil {
			return err
		}
		if purge {
			return tx.Keys().Purge(m, id)
		}
		return s.EndKey(tx, m, id, now)
	})
	switch {
	case err == nil:
		s.Hub.Publish(relay.Hint{Kind: relay.HintRevoked, Mailbox: m})
	case fault.Is(err, fault.NotFound):
		err = fault.NotFoundf("this mailbox has no key with that id; list the keys to see them")
	}
	return err
}

// noteRevoked writes down that a device ended a connector. A key without a grant is none, or was ended before.
func noteRevoked(tx store.Tx, m relay.MailboxID, id relay.KeyID, by relay.DeviceID, now time.Time) error {
	g, err := tx.Grants().Get(m, id)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	key, err := tx.Keys().Get(m, id)
	if err != nil {
		return err
	}
	box, err := tx.Mailboxes().Get(m)
	if err != nil {
		return err
	}
	return tx.Audit().Add(relay.AuditEntry{At: relay.Millis(now), Mailbox: m, Person: box.Person, Action: relay.AuditRevoked,
		Client: g.Client, ClientName: key.DisplayName, Consent: g.Consent, Key: id, By: string(by)})
}

// EndKey revokes a key within tx, and ends what hangs on it: a connector's grant with its tokens. Whoever ends a key for
// whatever reason calls it, so that nothing outlives a revocation, and publishes HintRevoked after the commit. A key
// that was revoked before stays so; an unknown one is NotFound.
func (s *Service) EndKey(tx store.Tx, m relay.MailboxID, id relay.KeyID, now time.Time) error {
	if err := tx.Keys().Revoke(m, id, relay.Millis(now)); err != nil {
		return err
	}
	return tx.Grants().End(m, id)
}
