package oauth

import (
	"context"
	"slices"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Ask is what a client asks for.
type Ask struct {
	Client relay.Client
	Flow   string
	Scopes relay.Scopes
	// Issuer is the origin by which the client came, Resource what the tokens are for.
	Issuer, Resource string
	// Redirect, State and Challenge belong to the code flow.
	Redirect, State, Challenge string
	// Whose approval is asked for.
	Whose Whose
	// Device picks a mailbox by its place in the order of pairing, counted from 1; 0 picks the one most likely to see it.
	Device int
}

// Whose says whose approval is asked for. On a relay of one person it may be left empty (decision 5).
type Whose struct {
	Person relay.PersonID // known from their own browser
	Handle string         // typed by whoever asks; one that nobody has leads to a request that nobody approves
}

// Target is the mailbox that a request goes to. What it tells of devices is neutral when a stranger named the person.
type Target struct {
	Mailbox relay.MailboxID
	Name    string // of the mailbox, "" when unnamed
	Index   int    // its place in the order of pairing, counted from 1
	Count   int    // how many the person has
	Online  bool
}

// Begun is a request that was begun.
type Begun struct {
	relay.Consent
	Target Target
	// DeviceCode is what a client of the device flow polls with, shown this once.
	DeviceCode string
}

// Begin asks for approval. The same client's open request of the device flow is taken over: it keeps its id and gets
// fresh codes. A browser that is reloaded keeps its request too; a client that asks anew in a browser supersedes what it
// asked before, for the page that waits must not be approved for what another one asked. Open requests of the client
// elsewhere are superseded as well (decision 35).
//
// Refusals: ErrWhose, ErrNoDevice, ErrNoSuchDevice, and rate_limited for three open or twelve begun within the hour.
func (s *Service) Begin(ctx context.Context, ask Ask, now time.Time) (b Begun, err error) {
	if b.Target, err = s.target(ctx, ask.Whose, ask.Device, now); err != nil {
		return b, err
	}
	others, err := s.siblings(ctx, b.Target.Mailbox)
	if err != nil {
		return b, err
	}
	for range userCodeTries { // another request may hold the user code that was drawn
		b.Consent, b.DeviceCode, err = s.begin(ctx, ask, b.Target.Mailbox, others, now)
		if !fault.Is(err, fault.Conflict) {
			break
		}
	}
	if err == nil {
		s.tell(append(others, b.Target.Mailbox)...)
	}
	return b, err
}

func (s *Service) begin(ctx context.Context, ask Ask, m relay.MailboxID, others []relay.MailboxID, now time.Time) (c relay.Consent, code string, err error) {
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		if err := admit(tx, ask, m, now); err != nil {
			return err
		}
		pending, err := tx.Consents().Pending(m)
		if err != nil {
			return err
		}
		c, code = s.request(ask, m, now)
		known := slices.IndexFunc(pending, func(p relay.Consent) bool { return p.Open(now) && takesOver(c, p) })
		if known >= 0 {
			c = renewed(pending[known], c)
			err = tx.Consents().Save(c)
		}
		if err == nil {
			err = supersede(tx, c, pending, now)
		}
		if err == nil && known < 0 {
			err = tx.Consents().Create(c)
		}
		if err == nil {
			err = supersedeElsewhere(tx, c, others, now)
		}
		return err
	})
	return c, code, err
}

// admit holds a mailbox to three open requests, those of the same client apart, and to twelve begun within an hour.
func admit(tx store.Tx, ask Ask, m relay.MailboxID, now time.Time) error {
	pending, err := tx.Consents().Pending(m)
	if err != nil {
		return err
	}
	open := 0
	for _, c := range pending {
		if c.Open(now) && c.Client != ask.Client.ID {
			open++
		}
	}
	begun, err := within(tx, markConsent, string(m), hour, now)
	if err != nil {
		return err
	}
	if open >= relay.MaxOpenConsents || begun >= relay.ConsentsPerHour {
		return tooMany(refusalTooMany, slowDownRetry)
	}
	return tx.Marks().Add(markConsent, string(m), now)
}

// request makes a new one. The secret of the code flow is derived from the id, so that it can be told once approved.
func (s *Service) request(ask Ask, m relay.MailboxID, now time.Time) (c relay.Consent, deviceCode string) {
	c = relay.Consent{
		ID: relay.NewConsentID(m), Client: ask.Client.ID, ClientName: ask.Client.Name, Flow: ask.Flow, Scopes: ask.Scopes,
		Status: relay.Pending, Redirect: ask.Redirect, State: ask.State, Challenge: ask.Challenge, Issuer: ask.Issuer, Resource: ask.Resource,
	}
	c.Renew(now)
	if c.Flow == relay.FlowDevice {
		deviceCode, c.Secret = credential.MintSecret(credential.DeviceCode, m)
	} else {
		_, c.Secret = s.Signer.Derived(credential.AuthorizationCode, c.ID)
	}
	return c, deviceCode
}

// takesOver reports whether c is the pending request p, asked again.
func takesOver(c, p relay.Consent) bool {
	return c.Client == p.Client && c.Flow == p.Flow && (c.Flow == relay.FlowDevice || p.SameRequest(c))
}

// renewed gives the request p everything new of c but its id, and in the code flow its secret, which belongs to the id.
func renewed(p, c relay.Consent) relay.Consent {
	c.ID = p.ID
	if c.Flow == relay.FlowCode {
		c.Secret = p.Secret
	}
	return c
}

// supersede closes the client's other open requests among pending, and notes those whose time ran out.
func supersede(tx store.Tx, c relay.Consent, pending []relay.Consent, now time.Time) error {
	for _, p := range pending {
		if p.Client != c.Client || p.ID == c.ID {
			continue
		}
		if err := closeRequest(tx, p, now); err != nil {
			return err
		}
	}
	return nil
}

func supersedeElsewhere(tx store.Tx, c relay.Consent, others []relay.MailboxID, now time.Time) error {
	for _, m := range others {
		pending, err := tx.Consents().Pending(m)
		if err == nil {
			err = supersede(tx, c, pending, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closeRequest ends a pending request without a decision.
func closeRequest(tx store.Tx, p relay.Consent, now time.Time) error {
	action := relay.AuditSuperseded
	p.Status, p.DecidedAt = relay.Superseded, relay.Millis(now)
	if !now.Before(p.ExpiresAt) {
		p.Status, p.DecidedAt, action = relay.Lapsed, p.ExpiresAt, relay.AuditExpired
	}
	if err := tx.Consents().Save(p); err != nil {
		return err
	}
	return note(tx, p, action, relay.ByRelay, now)
}

// target finds the mailbox that a request goes to.
func (s *Service) target(ctx context.Context, whose Whose, device int, now time.Time) (t Target, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		person, err := asked(tx, whose)
		if err != nil {
			return err
		}
		if t, err = s.mailboxOf(tx, person, device, now); whose.Handle == "" || whose.Person != "" {
			return err
		}
		if err != nil && err != ErrNoDevice && err != ErrNoSuchDevice {
			return err
		}
		// A stranger typed the handle: what is answered must not tell whether anybody has it.
		if err != nil {
			t.Mailbox = s.Signer.Shadow(whose.Handle)
		}
		t = Target{Mailbox: t.Mailbox, Index: max(device, 1), Count: max(device, 1)}
		return nil
	})
	return t, err
}

// asked finds the person. A handle that nobody has is the person "".
func asked(tx store.Tx, whose Whose) (relay.PersonID, error) {
	if whose.Person != "" {
		return whose.Person, nil
	}
	people, err := tx.People().List()
	switch {
	case err != nil:
		return "", err
	case len(people) == 0:
		return "", ErrNoDevice
	case len(people) == 1 && whose.Handle == "":
		return people[0].ID, nil
	case whose.Handle == "":
		return "", ErrWhose
	}
	for _, p := range people {
		if p.Name == whose.Handle {
			return p.ID, nil
		}
	}
	return "", nil
}

// mailboxOf picks one of the person's mailboxes: by its number, else the one that is online, else the one seen last.
func (s *Service) mailboxOf(tx store.Tx, person relay.PersonID, device int, now time.Time) (t Target, err error) {
	boxes, err := tx.Mailboxes().List(person)
	if err != nil {
		return t, err
	}
	boxes = slices.DeleteFunc(boxes, func(b relay.Mailbox) bool { return !s.Signer.Signed(b.ID) }) // of an earlier secret
	if len(boxes) == 0 {
		return t, ErrNoDevice
	}
	if device > len(boxes) {
		return t, ErrNoSuchDevice
	}
	var seen time.Time
	for i, b := range boxes {
		online, last, err := s.presence(tx, b, now)
		if err != nil {
			return t, err
		}
		better := t.Index == 0 || online && !t.Online || online == t.Online && last.After(seen)
		if device > 0 {
			better = i == device-1
		}
		if better {
			t, seen = Target{Mailbox: b.ID, Name: b.Name, Index: i + 1, Count: len(boxes), Online: online}, last
		}
	}
	return t, nil
}

// Target tells of the mailbox that a request went to, for its page. On a relay of several people it tells nothing, for
// the page may be a stranger's.
func (s *Service) Target(ctx context.Context, id relay.ConsentID, now time.Time) (t Target, err error) {
	t.Mailbox = id.Mailbox()
	err = s.Store.View(ctx, func(tx store.Tx) error {
		people, err := tx.People().List()
		if err != nil || len(people) != 1 {
			return err
		}
		box, err := tx.Mailboxes().Get(t.Mailbox)
		if err != nil {
			return absent(err)
		}
		t.Name = box.Name
		t.Online, _, err = s.presence(tx, box, now)
		return err
	})
	return t, err
}

// presence judges as GET /v1/status does.
func (s *Service) presence(tx store.Tx, b relay.Mailbox, now time.Time) (online bool, last time.Time, err error) {
	devices, err := tx.Devices().List(b.ID)
	for _, d := range devices {
		online = online || d.Online(now)
	}
	last = b.LastSeenAt
	if live := s.Hub.LastHeard(b.ID); !live.IsZero() {
		online = online || now.Sub(live) < relay.OnlineWithin
		if live.After(last) {
			last = live
		}
	}
	return online, last, err
}
