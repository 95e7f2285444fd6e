package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Tokens are what a connector collects.
type Tokens struct {
	Access, Refresh string
	Scopes          relay.Scopes
}

const (
	detailCode   = "the code is wrong, was not approved, is older than five minutes, or belongs to another client"
	detailEnded  = "the approval was revoked or replaced; ask the person again"
	challengeLen = 43
)

// ValidChallenge accepts the S256 form of a code challenge: 43 characters of base64url (RFC 7636, section 4.2).
func ValidChallenge(s string) bool {
	_, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return err == nil && len(s) == challengeLen
}

// validVerifier accepts 43 to 128 unreserved characters (RFC 7636, section 4.1).
func validVerifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
		if !ok {
			return false
		}
	}
	return len(s) >= 43 && len(s) <= 128
}

func proves(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return validVerifier(verifier) && credential.EqualText(base64.RawURLEncoding.EncodeToString(sum[:]), challenge)
}

// ExchangeCode turns an authorization code into tokens. Anything wrong is invalid_grant, and harms nothing.
func (s *Service) ExchangeCode(ctx context.Context, client relay.Client, code, redirect, verifier string, now time.Time) (t Tokens, err error) {
	m, secret, ok := credential.ParseSecret(credential.AuthorizationCode, code)
	if !ok || !s.Signer.Signed(m) {
		return t, invalidGrant(detailCode)
	}
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		c, err := tx.Consents().BySecret(m, secret)
		switch {
		case fault.Is(err, fault.NotFound):
			return invalidGrant(detailCode)
		case err != nil:
			return err
		case c.Flow != relay.FlowCode || c.Client != client.ID || !c.Collectable(now):
			return invalidGrant(detailCode)
		case c.Redirect != redirect:
			return invalidGrant("redirect_uri must be the one that the approval was asked with")
		case !proves(verifier, c.Challenge):
			return invalidGrant("code_verifier does not fit the code_challenge that the approval was asked with")
		}
		t, err = s.collect(tx, c, now)
		return err
	})
	return t, err
}

// collect answers with the tokens of an approved request: the same ones each time, as long as they live (decision 19).
func (s *Service) collect(tx store.Tx, c relay.Consent, now time.Time) (t Tokens, err error) {
	m := c.ID.Mailbox()
	grant, err := live(tx, m, c.Key)
	if err != nil {
		return t, err
	}
	t.Scopes = grant.Scopes
	t.Refresh, _ = s.Signer.Derived(credential.RefreshToken, c.ID)
	access, hash := s.Signer.Derived(credential.AccessToken, c.ID)
	if !c.CollectedAt.IsZero() {
		if _, err = tx.Grants().Token(m, hash); err == nil {
			t.Access = access
			return t, nil
		}
		if !fault.Is(err, fault.NotFound) {
			return t, err
		}
		access, hash = credential.MintSecret(credential.AccessToken, m) // the first one was given back since
	} else {
		c.CollectedAt = relay.Millis(now)
		if err := tx.Consents().Save(c); err != nil {
			return t, err
		}
	}
	t.Access = access
	return t, tx.Grants().AddToken(relay.AccessToken{Mailbox: m, Key: grant.Key, Hash: hash, Scopes: grant.Scopes, CreatedAt: relay.Millis(now)},
		relay.MaxAccessTokens)
}

// live finds the grant of a key that still works; otherwise invalid_grant.
func live(tx store.Tx, m relay.MailboxID, id relay.KeyID) (g relay.Grant, err error) {
	key, err := tx.Keys().Get(m, id)
	if err == nil && key.Active() {
		g, err = tx.Grants().Get(m, id)
	} else if err == nil {
		err = invalidGrant(detailEnded)
	}
	if fault.Is(err, fault.NotFound) {
		err = invalidGrant(detailEnded)
	}
	return g, err
}

// Refresh turns a refresh token into one more access token; the refresh token stays. scope narrows, "" keeps.
func (s *Service) Refresh(ctx context.Context, client relay.Client, refresh, scope string, now time.Time) (t Tokens, err error) {
	m, secret, ok := credential.ParseSecret(credential.RefreshToken, refresh)
	if !ok || !s.Signer.Signed(m) {
		return t, invalidGrant("the refresh token is unknown or was revoked; ask the person again")
	}
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		g, err := tx.Grants().ByRefresh(m, secret)
		if fault.Is(err, fault.NotFound) || err == nil && g.Client != client.ID {
			return invalidGrant("the refresh token is unknown, was revoked, or belongs to another client")
		}
		if err != nil {
			return err
		}
		if g, err = live(tx, m, g.Key); err != nil {
			return err
		}
		t = Tokens{Refresh: refresh, Scopes: g.Scopes}
		if asked := relay.ParseScopes(scope); len(asked) > 0 {
			if t.Scopes = asked; !asked.Within(g.Scopes) {
				return fault.New(fault.Invalid, "invalid_scope", "a refresh may narrow the scopes of the approval, not widen them")
			}
		}
		var hash relay.Hash
		t.Access, hash = credential.MintSecret(credential.AccessToken, m)
		return tx.Grants().AddToken(relay.AccessToken{Mailbox: m, Key: g.Key, Hash: hash, Scopes: t.Scopes, CreatedAt: relay.Millis(now)},
			relay.MaxAccessTokens)
	})
	return t, err
}

// Poll is the device flow's exchange (RFC 8628, section 3.5). Refusals: authorization_pending, slow_down, access_denied,
// expired_token, invalid_grant.
func (s *Service) Poll(ctx context.Context, client relay.Client, code string, now time.Time) (t Tokens, err error) {
	m, secret, ok := credential.ParseSecret(credential.DeviceCode, code)
	if !ok || !s.Signer.Signed(m) {
		return t, invalidGrant("the device code is malformed")
	}
	var refusal error
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		refusal = nil
		c, err := tx.Consents().BySecret(m, secret)
		switch {
		case fault.Is(err, fault.NotFound):
			return pollRefusal("expired_token", "the device code is unknown, was replaced, or ran out; begin again")
		case err != nil:
			return err
		case c.Flow != relay.FlowDevice || c.Client != client.ID:
			return invalidGrant("the device code belongs to another client")
		case c.Collectable(now):
			t, err = s.collect(tx, c, now)
			return err
		case c.StatusAt(now) == relay.Denied:
			return pollRefusal("access_denied", "the person declined")
		case c.StatusAt(now) != relay.Pending:
			return pollRefusal("expired_token", "the request ran out, was replaced, or its tokens were not collected in time; begin again")
		}
		refusal = pollRefusal("authorization_pending", "the person has not decided yet")
		if !c.Poll(now) {
			refusal = pollRefusal("slow_down", "wait five seconds longer between polls")
		}
		return tx.Consents().Save(c) // the poll must be noted, so the refusal is no rollback
	})
	if err == nil {
		err = refusal
	}
	return t, err
}

func pollRefusal(code, detail string) error {
	return fault.New(fault.Invalid, code, detail)
}

// Revoke ends what a client gives back (RFC 7009): a refresh token with the whole approval, an access token alone. What is
// unknown, or another client's, is left alone without a word.
func (s *Service) Revoke(ctx context.Context, client relay.Client, token string, now time.Time) error {
	if m, hash, ok := credential.ParseSecret(credential.RefreshToken, token); ok && s.Signer.Signed(m) {
		return s.revokeGrant(ctx, client, m, hash, now)
	}
	m, hash, ok := credential.ParseSecret(credential.AccessToken, token)
	if !ok || !s.Signer.Signed(m) {
		return nil
	}
	return s.Store.Update(ctx, func(tx store.Tx) error {
		t, err := tx.Grants().Token(m, hash)
		if err != nil {
			return absent(err)
		}
		g, err := tx.Grants().Get(m, t.Key)
		if err != nil || g.Client != client.ID {
			return absent(err)
		}
		return tx.Grants().EndToken(m, hash)
	})
}

func (s *Service) revokeGrant(ctx context.Context, client relay.Client, m relay.MailboxID, refresh relay.Hash, now time.Time) error {
	ended := false
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		ended = false
		g, err := tx.Grants().ByRefresh(m, refresh)
		if err != nil || g.Client != client.ID {
			return absent(err)
		}
		ended = true
		return s.end(tx, g, relay.ByClient, now)
	})
	if err == nil && ended {
		s.Hub.Publish(relay.Hint{Kind: relay.HintRevoked, Mailbox: m})
	}
	return err
}

// end ends a grant with its key, and writes it down.
func (s *Service) end(tx store.Tx, g relay.Grant, by string, now time.Time) error {
	key, err := tx.Keys().Get(g.Mailbox, g.Key)
	if err != nil {
		return err
	}
	if err := s.EndKey(tx, g.Mailbox, g.Key, now); err != nil {
		return err
	}
	c := relay.Consent{ID: g.Consent, Client: g.Client, ClientName: key.DisplayName, Key: g.Key}
	return note(tx, c, relay.AuditRevoked, by, now)
}

func absent(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
