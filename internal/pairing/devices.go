package pairing

import (
	"context"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Entry is one row of the device list: a mailbox of the same person.
type Entry struct {
	relay.Mailbox
	Online bool
	This   bool
	Reason string // why it may be removed; "" when it may not
}

// List returns the mailboxes of the caller's person, oldest first.
func (s *Service) List(ctx context.Context, m relay.MailboxID, now time.Time) (list []Entry, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		list, err = s.entries(tx, m, now)
		return err
	})
	return list, err
}

func (s *Service) entries(tx store.Tx, m relay.MailboxID, now time.Time) ([]Entry, error) {
	self, err := tx.Mailboxes().Get(m)
	if err != nil {
		return nil, err
	}
	boxes, err := tx.Mailboxes().List(self.Person)
	if err != nil {
		return nil, err
	}
	list := make([]Entry, 0, len(boxes))
	for _, b := range boxes {
		online, err := s.online(tx, &b, now)
		if err != nil {
			return nil, err
		}
		reason := relay.RemovableReason(self, b, s.Signer.Signed(b.ID), now)
		list = append(list, Entry{Mailbox: b, Online: online, This: b.ID == m, Reason: reason})
	}
	return list, nil
}

// online judges as GET /v1/status does, and freshens b.LastSeenAt from this process's streams.
func (s *Service) online(tx store.Tx, b *relay.Mailbox, now time.Time) (online bool, err error) {
	devices, err := tx.Devices().List(b.ID)
	for _, d := range devices {
		online = online || d.Online(now)
	}
	if live := s.Hub.LastHeard(b.ID); !live.IsZero() {
		online = online || now.Sub(live) < relay.OnlineWithin
		if live.After(b.LastSeenAt) {
			b.LastSeenAt = live
		}
	}
	return online, err
}

// Prune removes the caller's same-name siblings, mailboxes of an earlier RELAY_SECRET and those idle for 30 days.
func (s *Service) Prune(ctx context.Context, m relay.MailboxID, now time.Time) (removed []relay.MailboxID, list []Entry, err error) {
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		removed = nil
		self, err := tx.Mailboxes().Get(m)
		if err != nil {
			return err
		}
		boxes, err := tx.Mailboxes().List(self.Person)
		if err != nil {
			return err
		}
		for _, b := range boxes {
			if !relay.Prunable(self, s.fresh(b), s.Signer.Signed(b.ID), now) {
				continue
			}
			if err := tx.Mailboxes().Delete(b.ID); err != nil {
				return err
			}
			removed = append(removed, b.ID)
		}
		list, err = s.entries(tx, m, now)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	s.forgotten(unpaired(removed))
	return removed, list, nil
}

func (s *Service) fresh(b relay.Mailbox) relay.Mailbox {
	if live := s.Hub.LastHeard(b.ID); live.After(b.LastSeenAt) {
		b.LastSeenAt = live
	}
	return b
}

func unpaired(ids []relay.MailboxID) (hints []relay.Hint) {
	for _, id := range ids {
		hints = append(hints, relay.Hint{Kind: relay.HintUnpaired, Mailbox: id})
	}
	return hints
}

// Remove removes another mailbox of the caller's person, when its entry is removable. The caller's own is
// invalid_request, one of somebody else or nobody NotFound, a living one not_removable.
func (s *Service) Remove(ctx context.Context, m, other relay.MailboxID, now time.Time) error {
	if m == other {
		return fault.InvalidRequest("deviceId", "a device does not remove itself from the list; unpair it with DELETE /v1/device")
	}
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		self, err := tx.Mailboxes().Get(m)
		if err != nil {
			return err
		}
		b, err := tx.Mailboxes().Get(other)
		if fault.Is(err, fault.NotFound) || err == nil && b.Person != self.Person {
			return fault.NotFoundf("no device of yours has that id; list the devices to see them")
		}
		if err != nil {
			return err
		}
		if relay.RemovableReason(self, s.fresh(b), s.Signer.Signed(other), now) == "" {
			return fault.New(fault.Forbidden, "not_removable",
				"that device was seen in the last 7 days and is not this one's double; unpair it on the device itself")
		}
		return tx.Mailboxes().Delete(other)
	})
	if err == nil {
		s.forgotten(unpaired([]relay.MailboxID{other}))
	}
	return err
}

// Unpair ends the calling device. The owner takes the whole mailbox along; a linked device leaves it.
func (s *Service) Unpair(ctx context.Context, p credential.Principal) error {
	hint := relay.Hint{Kind: relay.HintUnpaired, Mailbox: p.Mailbox}
	if !p.Owner {
		hint.Device = p.Device
	}
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		if p.Owner {
			return tx.Mailboxes().Delete(p.Mailbox)
		}
		return tx.Devices().Delete(p.Mailbox, p.Device)
	})
	if err == nil {
		s.forgotten([]relay.Hint{hint})
	}
	return err
}

// Linked lists the devices of the caller's mailbox, the owner first.
func (s *Service) Linked(ctx context.Context, m relay.MailboxID) (list []relay.Device, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		list, err = tx.Devices().List(m)
		return err
	})
	return list, err
}

// Unlink ends another linked device of the mailbox. Only the owner may, and never itself.
func (s *Service) Unlink(ctx context.Context, p credential.Principal, d relay.DeviceID) error {
	switch {
	case !p.Owner:
		return fault.New(fault.Forbidden, "forbidden", "only the device that paired this mailbox unlinks others; unpair this one with DELETE /v1/device")
	case d == p.Device:
		return fault.InvalidRequest("linkId", "the owner does not unlink itself; unpair it with DELETE /v1/device")
	}
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		devices, err := tx.Devices().List(p.Mailbox)
		if err != nil {
			return err
		}
		for _, other := range devices {
			if other.ID == d {
				return tx.Devices().Delete(p.Mailbox, d)
			}
		}
		return fault.NotFoundf("no device with that id is linked to this mailbox")
	})
	if err == nil {
		s.forgotten([]relay.Hint{{Kind: relay.HintUnpaired, Mailbox: p.Mailbox, Device: d}})
	}
	return err
}

// RemoveIdle removes up to limit mailboxes that were silent for 30 days, and returns how many.
func (s *Service) RemoveIdle(ctx context.Context, now time.Time, limit int) (int, error) {
	var removed []relay.MailboxID
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		removed = nil
		boxes, err := tx.Mailboxes().Idle(now.Add(-relay.IdleRemoved), limit)
		if err != nil {
			return err
		}
		for _, b := range boxes {
			if s.fresh(b).LastSeenAt != b.LastSeenAt {
				continue // a stream of this process heard from it
			}
			if err := tx.Mailboxes().Delete(b.ID); err != nil {
				return err
			}
			removed = append(removed, b.ID)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	s.forgotten(unpaired(removed))
	return len(removed), nil
}
