package mailbox

import (
	"context"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Record applies the report of device d. An unknown id is NotFound and is judged before the report itself.
func (s *Service) Record(ctx context.Context, m relay.MailboxID, d relay.DeviceID, id relay.NotificationID, r relay.Receipt, now time.Time) error {
	first := false
	err := s.change(ctx, m, id, func(tx store.Tx, n *relay.Notification) (err error) {
		if first, err = n.Record(r, now); err == nil && first {
			err = s.Events.Replied(tx, n)
		}
		return err
	})
	if err != nil {
		return err
	}
	kind := relay.HintReceipt
	if first {
		s.Events.Wake(m)
		kind = relay.HintReplied
	}
	s.Hub.Publish(relay.Hint{Kind: kind, Mailbox: m, Device: d, Notification: id})
	return nil
}

// Acknowledge records that a device holds the notification. An unknown id is NotFound.
func (s *Service) Acknowledge(ctx context.Context, m relay.MailboxID, id relay.NotificationID, now time.Time) error {
	return s.change(ctx, m, id, func(_ store.Tx, n *relay.Notification) error {
		n.Acknowledge(now)
		return nil
	})
}

func (s *Service) change(ctx context.Context, m relay.MailboxID, id relay.NotificationID, fn func(store.Tx, *relay.Notification) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error {
		n, err := tx.Notifications().Get(m, id)
		if err != nil {
			return unknownNotification(err)
		}
		if err := fn(tx, &n); err != nil {
			return err
		}
		return tx.Notifications().Save(n)
	})
}

func unknownNotification(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.NotFoundf("this mailbox holds no notification with that id; it may be older than a day")
	}
	return err
}

// SetState stores what a device said of itself.
func (s *Service) SetState(ctx context.Context, m relay.MailboxID, st relay.State) error {
	st = st.Clean()
	return goneIsUnauthorized(s.Store.Update(ctx, func(tx store.Tx) error {
		old, err := tx.Mailboxes().Get(m)
		if err != nil || old.State == st {
			return err
		}
		return tx.Mailboxes().SetState(m, st)
	}))
}

// Overview is what GET /v1/device/info tells.
type Overview struct {
	Presence
	Waiting    int64
	ActiveKeys int
}

// Overview sums up a mailbox for its own devices.
func (s *Service) Overview(ctx context.Context, m relay.MailboxID, now time.Time) (out Overview, err error) {
	if out.Presence, err = s.Presence(ctx, m, now); err != nil {
		return out, err
	}
	err = s.Store.View(ctx, func(tx store.Tx) error {
		if out.Waiting, err = tx.Notifications().CountWaiting(m); err != nil {
			return err
		}
		out.ActiveKeys, err = tx.Keys().CountActive(m)
		return err
	})
	return out, err
}

// Usage is what GET /v1/device/usage tells, beside the limits.
type Usage struct {
	Day string
	relay.Usage
	Waiting      int64
	StorageBytes int64
}

// Usage sums up what a mailbox used today and what it holds.
func (s *Service) Usage(ctx context.Context, m relay.MailboxID, now time.Time) (out Usage, err error) {
	out.Day = relay.Day(now)
	err = s.Meter.Whole(m, now, func(pending relay.Usage) error {
		return s.Store.View(ctx, func(tx store.Tx) error { return out.read(tx, m, pending) })
	})
	return out, err
}

func (u *Usage) read(tx store.Tx, m relay.MailboxID, pending relay.Usage) error {
	stored, err := tx.Usage().Get(m, u.Day)
	if err != nil {
		return err
	}
	u.Usage = stored.Add(pending)
	if u.Waiting, err = tx.Notifications().CountWaiting(m); err != nil {
		return err
	}
	u.StorageBytes, err = tx.Notifications().Size(m)
	return err
}
