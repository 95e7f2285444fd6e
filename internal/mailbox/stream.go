package mailbox

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// OpenStream makes a new stream of the device the one that counts, and names it: its name sorts behind the one it
// replaces, whatever the clock did in between. A device that was unpaired meanwhile is Unauthenticated.
func (s *Service) OpenStream(ctx context.Context, m relay.MailboxID, d relay.DeviceID, now time.Time) (stream string, err error) {
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		device, err := device(tx, m, d)
		if err != nil {
			return err
		}
		stream = nextStream(device.Stream, now)
		return tx.Devices().OpenStream(m, d, stream, now)
	})
	return stream, goneIsUnauthorized(err)
}

// device finds one device of a mailbox. NotFound when there is none.
func device(tx store.Tx, m relay.MailboxID, d relay.DeviceID) (relay.Device, error) {
	list, err := tx.Devices().List(m)
	if err != nil {
		return relay.Device{}, err
	}
	if i := slices.IndexFunc(list, func(other relay.Device) bool { return other.ID == d }); i >= 0 {
		return list[i], nil
	}
	return relay.Device{}, fault.NotFoundf("no device with that id is linked to this mailbox")
}

const streamTimeDigits = 12

// nextStream is the time in milliseconds, or one more than the time of the stream before, and something random.
func nextStream(before string, now time.Time) string {
	ms := now.UnixMilli()
	if len(before) >= streamTimeDigits {
		if last, err := strconv.ParseInt(before[:streamTimeDigits], 16, 64); err == nil {
			ms = max(ms, last+1)
		}
	}
	return fmt.Sprintf("%0*x%s", streamTimeDigits, ms, relay.RandomHex(6))
}

// CloseStream forgets a device's stream, last heard from at at, unless a newer one took its place.
func (s *Service) CloseStream(ctx context.Context, m relay.MailboxID, d relay.DeviceID, stream string, at time.Time) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return tx.Devices().CloseStream(m, d, stream, at) })
}

// Heard records a sign of life. A device that was unpaired meanwhile is Unauthenticated.
func (s *Service) Heard(ctx context.Context, m relay.MailboxID, d relay.DeviceID, at time.Time) error {
	return goneIsUnauthorized(s.Store.Update(ctx, func(tx store.Tx) error { return tx.Devices().Heard(m, d, at) }))
}

// Place is how far a stream has sent.
type Place struct {
	After int64 // Seq of the last notification sent
	// Fresh names notifications that were accepted while the stream was open: the device is told of them even if
	// another device of the mailbox acknowledged them first.
	Fresh []relay.NotificationID
}

// Owed lists up to limit notifications that a device's stream still has to send, in order: those that wait, and the
// fresh ones. What waited too long is expired on the way and left out. Fewer than limit means that there are no more.
// A device that was unpaired meanwhile is Unauthenticated.
func (s *Service) Owed(ctx context.Context, m relay.MailboxID, d relay.DeviceID, at Place, limit int, now time.Time) (list []store.Waiting, err error) {
	cutoff := now.Add(-s.Limits.QueueTTL)
	for {
		err = s.Store.View(ctx, func(tx store.Tx) error {
			if _, err := device(tx, m, d); err != nil {
				return err
			}
			list, err = owed(tx, m, at, limit)
			return err
		})
		overdue := func(w store.Waiting) bool { return w.Waiting() && w.CreatedAt.Before(cutoff) }
		if err != nil || !slices.ContainsFunc(list, overdue) {
			return list, goneIsUnauthorized(err)
		}
		if _, err := s.expire(ctx, m, cutoff); err != nil {
			return nil, err
		}
	}
}

func owed(tx store.Tx, m relay.MailboxID, at Place, limit int) ([]store.Waiting, error) {
	list, err := tx.Notifications().Waiting(m, at.After, limit)
	if err != nil {
		return nil, err
	}
	last := int64(-1) // where a full list ends: what lies behind comes with the next one
	if len(list) == limit {
		last = list[limit-1].Seq
	}
	for _, id := range at.Fresh {
		if slices.ContainsFunc(list, func(w store.Waiting) bool { return w.ID == id }) {
			continue
		}
		w, err := fresh(tx, m, id)
		if fault.Is(err, fault.NotFound) || err == nil && (w.Seq <= at.After || last >= 0 && w.Seq > last) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b store.Waiting) int { return int(a.Seq - b.Seq) })
	return list[:min(len(list), limit)], nil
}

// fresh reads one notification whatever became of it. One that expired is NotFound, for its time is over.
func fresh(tx store.Tx, m relay.MailboxID, id relay.NotificationID) (w store.Waiting, err error) {
	if w.Notification, err = tx.Notifications().Get(m, id); err != nil {
		return w, err
	}
	if w.Suppressed && w.Reason == relay.ReasonExpired {
		return w, fault.NotFoundf("expired")
	}
	k, err := tx.Keys().Get(m, w.Key)
	w.KeyName, w.KeyClient = k.Name, k.Client
	if fault.Is(err, fault.NotFound) {
		w.KeyName, w.KeyClient = store.UnknownName, store.UnknownClient
		err = nil
	}
	return w, err
}
