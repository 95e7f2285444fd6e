package oauth

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

func noRequest() error {
	return fault.NotFoundf("this mailbox has no request for approval with that id; list the requests to see them")
}

// Decide records what a device of mailbox m decided. Refusals: NotFound, already_decided, expired, too_many_keys. With
// already_decided the request is returned too.
func (s *Service) Decide(ctx context.Context, m relay.MailboxID, id relay.ConsentID, approve bool, by relay.DeviceID, now time.Time) (relay.Consent, error) {
	if id.Mailbox() != m {
		return relay.Consent{}, noRequest()
	}
	return s.decide(ctx, id, now, func(tx store.Tx, c *relay.Consent) error {
		if err := undecided(*c, now); err != nil {
			return err
		}
		if approve {
			return s.approve(tx, c, string(by), now)
		}
		return deny(tx, c, string(by), now)
	})
}

// decide runs one decision in one transaction, and lets everybody concerned know. fn changes and saves the request.
func (s *Service) decide(ctx context.Context, id relay.ConsentID, now time.Time, fn func(tx store.Tx, c *relay.Consent) error) (c relay.Consent, err error) {
	others, err := s.siblings(ctx, id.Mailbox())
	if err != nil {
		return c, err
	}
	before := relay.ConsentStatus("")
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		if c, err = tx.Consents().Get(id); err != nil {
			return err
		}
		before = c.Status
		if err := fn(tx, &c); err != nil || c.Status == relay.Pending || c.Status == before {
			return err
		}
		return supersedeElsewhere(tx, c, others, now)
	})
	if fault.Is(err, fault.NotFound) {
		err = noRequest()
	}
	if err == nil && c.Status != before {
		s.tell(append(others, id.Mailbox())...)
		s.Hub.Publish(relay.Hint{Kind: relay.HintRevoked, Mailbox: id.Mailbox()}) // the client's earlier key
	}
	return c, err
}

func undecided(c relay.Consent, now time.Time) error {
	switch c.StatusAt(now) {
	case relay.Pending:
		return nil
	case relay.Lapsed:
		return fault.New(fault.Gone, "expired", "the request waited longer than ten minutes; the client has to ask again")
	}
	return fault.New(fault.Conflict, "already_decided", refusalNotPending)
}

// approve makes the connector's key and grant. An earlier key of the client is ended first (decision 14).
func (s *Service) approve(tx store.Tx, c *relay.Consent, by string, now time.Time) error {
	m := c.ID.Mailbox()
	if err := s.endEarlier(tx, *c, now); err != nil {
		return err
	}
	key, err := connectorKey(tx, *c, now)
	if err != nil {
		return err
	}
	if err := tx.Keys().Create(key); err != nil {
		return err
	}
	_, refresh := s.Signer.Derived(credential.RefreshToken, c.ID)
	grant := relay.Grant{Mailbox: m, Key: key.ID, Client: c.Client, Consent: c.ID, Refresh: refresh, Scopes: c.Scopes,
		Resource: c.Resource, CreatedAt: relay.Millis(now)}
	if err := tx.Grants().Create(grant); err != nil {
		return err
	}
	c.Status, c.DecidedAt, c.Key = relay.Approved, relay.Millis(now), key.ID
	if err := tx.Consents().Save(*c); err != nil {
		return err
	}
	return note(tx, *c, relay.AuditApproved, by, now)
}

func (s *Service) endEarlier(tx store.Tx, c relay.Consent, now time.Time) error {
	m := c.ID.Mailbox()
	grants, err := tx.Grants().List(m)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if g.Client != c.Client {
			continue
		}
		if err := s.EndKey(tx, m, g.Key, now); err != nil {
			return err
		}
		c.Key = g.Key
		if err := note(tx, c, relay.AuditRevoked, relay.ByRelay, now); err != nil {
			return err
		}
	}
	return nil
}

// connectorKey makes the key of an approved client, under a name that no active key of the mailbox has.
func connectorKey(tx store.Tx, c relay.Consent, now time.Time) (relay.Key, error) {
	m := c.ID.Mailbox()
	keys, err := tx.Keys().List(m)
	if err != nil {
		return relay.Key{}, err
	}
	taken := map[string]bool{}
	for _, k := range keys {
		if k.Active() {
			taken[k.Name] = true
		}
	}
	if len(taken) >= relay.MaxActiveKeys {
		return relay.Key{}, fault.New(fault.Exhausted, "too_many_keys",
			"this mailbox already has %d active keys and connectors, its limit; revoke one first", relay.MaxActiveKeys)
	}
	return relay.Key{
		ID: relay.KeyID(relay.RandomHex(4)), Mailbox: m, Kind: relay.KindOAuth, Client: "other", Scope: c.Scopes.String(),
		Name:        relay.ConnectorName(c.ClientName, func(name string) bool { return taken[name] }),
		DisplayName: c.ClientName, CreatedAt: relay.Millis(now),
	}, nil
}

func deny(tx store.Tx, c *relay.Consent, by string, now time.Time) error {
	c.Status, c.DecidedAt = relay.Denied, relay.Millis(now)
	if err := tx.Consents().Save(*c); err != nil {
		return err
	}
	return note(tx, *c, relay.AuditDenied, by, now)
}

// Page looks a request up for the page that waits for it. NotFound covers ids that this relay never made.
func (s *Service) Page(ctx context.Context, id relay.ConsentID) (c relay.Consent, err error) {
	if !s.Signer.Signed(id.Mailbox()) {
		return c, noRequest()
	}
	err = s.Store.View(ctx, func(tx store.Tx) error {
		c, err = tx.Consents().Get(id)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		err = noRequest()
	}
	return c, err
}

// Enter tries the six digits that only the person's devices show: the right ones approve, the fifth wrong ones deny.
// address is whose tries are counted. The request is returned as it then is; a wrong code leaves it pending, with one
// more attempt. A request that was decided before is returned unchanged, without a look at the code. Refusals: NotFound,
// expired, too_many_keys, and rate_limited for an address that guesses.
func (s *Service) Enter(ctx context.Context, id relay.ConsentID, code, address string, now time.Time) (relay.Consent, error) {
	if !s.Signer.Signed(id.Mailbox()) {
		return relay.Consent{}, noRequest()
	}
	address, code = s.Signer.AddressHash(address), relay.NormalApprovalCode(code)
	return s.decide(ctx, id, now, func(tx store.Tx, c *relay.Consent) error {
		if err := undecided(*c, now); err != nil {
			if fault.Is(err, fault.Conflict) {
				return nil
			}
			return err
		}
		person, err := personOf(tx, c.ID.Mailbox())
		if err != nil {
			return err
		}
		if credential.EqualText(code, c.Code) && person != "" {
			return s.approve(tx, c, relay.ByPage, now)
		}
		return wrongCode(tx, c, address, now)
	})
}

func wrongCode(tx store.Tx, c *relay.Consent, address string, now time.Time) error {
	wrong, err := within(tx, markWrongCode, address, guessWindow, now)
	if err != nil {
		return err
	}
	if wrong >= wrongPerAddress {
		return tooMany("too many wrong approval codes came from this address; wait ten minutes, or decide on the device", guessWindow)
	}
	if err := tx.Marks().Add(markWrongCode, address, now); err != nil {
		return err
	}
	if c.Attempts++; c.Attempts >= relay.MaxConsentAttempts {
		return deny(tx, c, relay.ByPage, now)
	}
	return tx.Consents().Save(*c)
}

// Refuse denies a request from its page. One that was decided before is returned unchanged. Refusals: NotFound, expired.
func (s *Service) Refuse(ctx context.Context, id relay.ConsentID, now time.Time) (relay.Consent, error) {
	if !s.Signer.Signed(id.Mailbox()) {
		return relay.Consent{}, noRequest()
	}
	return s.decide(ctx, id, now, func(tx store.Tx, c *relay.Consent) error {
		err := undecided(*c, now)
		if err == nil {
			err = deny(tx, c, relay.ByPage, now)
		}
		if fault.Is(err, fault.Conflict) {
			err = nil
		}
		return err
	})
}

// ByUserCode finds the open request of the device flow that shows this user code. address is whose misses are counted.
// Refusals: NotFound for codes that are wrong, used or old, and rate_limited for an address that guesses.
func (s *Service) ByUserCode(ctx context.Context, typed, address string, now time.Time) (c relay.Consent, err error) {
	address = s.Signer.AddressHash(address)
	code, ok := relay.NormalUserCode(typed)
	var refusal error
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		refusal = nil
		wrong, err := within(tx, markWrongUser, address, guessWindow, now)
		if err != nil {
			return err
		}
		if wrong >= wrongUserCodes {
			return tooMany("too many wrong codes came from this address; wait ten minutes", guessWindow)
		}
		err = noRequest()
		if ok {
			c, err = tx.Consents().ByUserCode(code)
		}
		if err == nil && c.Open(now) {
			return nil
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		refusal = fault.NotFoundf("no device or app shows that code now; look again, or let the app ask once more")
		return tx.Marks().Add(markWrongUser, address, now) // the stroke must be kept, so the refusal is no rollback
	})
	if err == nil {
		err = refusal
	}
	return c, err
}

// List returns the requests of the last day, newest first, at most 20. Those whose time ran out are noted and left out.
func (s *Service) List(ctx context.Context, m relay.MailboxID, now time.Time) (list []relay.Consent, err error) {
	lapsed := func(c relay.Consent) bool { return c.StatusAt(now) == relay.Lapsed }
	err = s.Store.View(ctx, func(tx store.Tx) error {
		list, err = tx.Consents().List(m, now.Add(-relay.ConsentKept), 2*relay.MaxListedConsents+relay.ConsentsPerHour)
		return err
	})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(list, func(c relay.Consent) bool { return c.Status == relay.Pending && lapsed(c) }) {
		if err := s.expire(ctx, m, now); err != nil {
			return nil, err
		}
	}
	list = slices.DeleteFunc(list, lapsed)
	return list[:min(len(list), relay.MaxListedConsents)], nil
}

// expire notes the requests of a mailbox whose time ran out.
func (s *Service) expire(ctx context.Context, m relay.MailboxID, now time.Time) error {
	changed := false
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		changed = false
		pending, err := tx.Consents().Pending(m)
		for _, c := range pending {
			if c.Open(now) {
				continue
			}
			if err := closeRequest(tx, c, now); err != nil {
				return err
			}
			changed = true
		}
		return err
	})
	if err == nil && changed {
		s.tell(m)
	}
	return err
}

// Expire notes requests of all mailboxes whose time ran out, and returns how many mailboxes had any.
func (s *Service) Expire(ctx context.Context, now time.Time) (n int, err error) {
	var due []relay.Consent
	err = s.Store.View(ctx, func(tx store.Tx) error {
		due, err = tx.Consents().Overdue(now, overdueBatch)
		return err
	})
	seen := map[relay.MailboxID]bool{}
	for _, c := range due {
		if m := c.ID.Mailbox(); !seen[m] && err == nil {
			seen[m] = true
			err = s.expire(ctx, m, now)
		}
	}
	return len(seen), err
}

// EndUncollected ends connectors whose tokens nobody collected in time: nobody can use them, and each would take one of
// the mailbox's places. It returns how many it ended.
func (s *Service) EndUncollected(ctx context.Context, now time.Time) (n int, err error) {
	var list []relay.Consent
	err = s.Store.View(ctx, func(tx store.Tx) error {
		list, err = tx.Consents().Uncollected(now.Add(-relay.CollectWithin), overdueBatch)
		return err
	})
	for _, c := range list {
		if err != nil {
			break
		}
		err = s.Store.Update(ctx, func(tx store.Tx) error { return s.endUncollected(tx, c.ID, now) })
		n++
	}
	return n, err
}

func (s *Service) endUncollected(tx store.Tx, id relay.ConsentID, now time.Time) error {
	c, err := tx.Consents().Get(id)
	if err != nil || !c.CollectedAt.IsZero() || c.Collectable(now) {
		return absent(err)
	}
	g, err := tx.Grants().Get(id.Mailbox(), c.Key)
	if err != nil {
		return absent(err)
	}
	return absent(s.end(tx, g, relay.ByRelay, now))
}

// Redirect is where the browser of a request is sent at now: with the authorization code, with the denial, or "" while
// there is nothing to tell. The issuer goes along (RFC 9207).
func (s *Service) Redirect(c relay.Consent, now time.Time) string {
	if c.Flow != relay.FlowCode {
		return ""
	}
	switch {
	case c.Collectable(now):
		code, _ := s.Signer.Derived(credential.AuthorizationCode, c.ID)
		return RedirectTo(c.Redirect, "code", code, "state", c.State, "iss", c.Issuer)
	case c.Status == relay.Denied:
		return RedirectTo(c.Redirect, "error", "access_denied", "error_description", "the person declined", "state", c.State, "iss", c.Issuer)
	}
	return ""
}

// RedirectTo adds names and values to a redirect address, which stays as it was registered. Empty values are left out.
func RedirectTo(redirect string, pairs ...string) string {
	var b strings.Builder
	b.WriteString(redirect)
	mark := "?"
	if strings.Contains(redirect, "?") {
		mark = "&"
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		b.WriteString(mark + pairs[i] + "=" + url.QueryEscape(pairs[i+1]))
		mark = "&"
	}
	return b.String()
}
