package pairing

import (
	"context"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Paired is what a device gets for its code. Token is shown this once.
type Paired struct {
	Mailbox relay.MailboxID
	Token   string
}

// Exchange turns a code into a device token. A name given here beats the one given at the start. Another mailbox of the
// person with the same name is replaced with all it holds. A wrong, used or expired code is bad_code; ten of
// those from one address within ten minutes bar the address (rate_limited), the right code included.
func (s *Service) Exchange(ctx context.Context, code, name, address string, now time.Time) (out Paired, err error) {
	address, name = s.Signer.AddressHash(address), CleanName(name)
	var refusal error
	var hints []relay.Hint
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		out, refusal, hints = Paired{}, nil, nil
		c, err := s.take(tx, code, address, now)
		if f := fault.From(err); err != nil && f.Code == "bad_code" {
			refusal = err
			return tx.Marks().Add(markWrong, address, now) // the stroke must be kept, so the refusal is no rollback
		}
		if err != nil {
			return err
		}
		if name != "" {
			c.Name = name
		}
		if c.Mailbox != "" {
			out, hints, err = s.link(tx, c, now)
		} else {
			out, hints, err = s.pair(tx, c, now)
		}
		return err
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return Paired{}, err
	}
	s.forgotten(hints)
	return out, nil
}

func (s *Service) take(tx store.Tx, code, address string, now time.Time) (relay.PairCode, error) {
	wrong, err := strokes(tx, markWrong, address, wrongWindow, now)
	if err != nil {
		return relay.PairCode{}, err
	}
	if wrong >= wrongPerAddress {
		return relay.PairCode{}, tooMany("too many wrong pairing codes came from this address; wait ten minutes", wrongWindow)
	}
	c, err := tx.Pairing().Take(s.Signer.PairCodeHash(normalise(code)), now)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.Forbidden, "bad_code", "the pairing code is wrong, used or expired; start pairing again for a new one")
	}
	return c, err
}

func (s *Service) pair(tx store.Tx, c relay.PairCode, now time.Time) (Paired, []relay.Hint, error) {
	if err := s.roomFor(tx, c.Person, c.Name); err != nil {
		return Paired{}, nil, err
	}
	hints, err := replaceSameName(tx, c)
	if err != nil {
		return Paired{}, nil, err
	}
	id := s.Signer.NewMailboxID()
	box := relay.Mailbox{ID: id, Person: c.Person, Name: c.Name, CreatedAt: relay.Millis(now)}
	if err := tx.Mailboxes().Create(box); err != nil {
		return Paired{}, nil, err
	}
	out, err := addDevice(tx, id, c.Name, true, now)
	return out, hints, err
}

// replaceSameName removes the person's mailbox of that name. Pairings without a name never replace each other
// (decision 36).
func replaceSameName(tx store.Tx, c relay.PairCode) (hints []relay.Hint, err error) {
	if c.Name == "" {
		return nil, nil
	}
	boxes, err := tx.Mailboxes().List(c.Person)
	for _, b := range boxes {
		if b.Name != c.Name {
			continue
		}
		if err := tx.Mailboxes().Delete(b.ID); err != nil {
			return nil, err
		}
		hints = append(hints, relay.Hint{Kind: relay.HintUnpaired, Mailbox: b.ID})
	}
	return hints, err
}

func (s *Service) link(tx store.Tx, c relay.PairCode, now time.Time) (Paired, []relay.Hint, error) {
	if err := linkRoom(tx, c.Mailbox, c.Name); err != nil {
		return Paired{}, nil, err
	}
	devices, err := tx.Devices().List(c.Mailbox)
	if err != nil {
		return Paired{}, nil, err
	}
	var hints []relay.Hint
	for _, d := range devices {
		if !replaces(d, c.Name) {
			continue
		}
		if err := tx.Devices().Delete(c.Mailbox, d.ID); err != nil {
			return Paired{}, nil, err
		}
		hints = append(hints, relay.Hint{Kind: relay.HintUnpaired, Mailbox: c.Mailbox, Device: d.ID})
	}
	out, err := addDevice(tx, c.Mailbox, c.Name, false, now)
	return out, hints, err
}

func addDevice(tx store.Tx, m relay.MailboxID, name string, owner bool, now time.Time) (Paired, error) {
	token, hash := credential.MintDeviceToken(m)
	d := relay.Device{
		ID: relay.DeviceID(relay.RandomHex(8)), Mailbox: m, TokenHash: hash,
		Name: name, Owner: owner, CreatedAt: relay.Millis(now),
	}
	return Paired{Mailbox: m, Token: token}, tx.Devices().Create(d)
}

// forgotten tells streams that their device is gone and takes the clips of whole mailboxes away.
func (s *Service) forgotten(hints []relay.Hint) {
	s.Hub.Publish(hints...)
	for _, h := range hints {
		if h.Device != "" {
			continue
		}
		if err := s.Clips.Remove(h.Mailbox); err != nil {
			s.Log.Warn("clips of a removed mailbox left for the sweep", "mailbox", h.Mailbox, "err", err)
		}
	}
}
