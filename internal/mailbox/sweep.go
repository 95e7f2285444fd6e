package mailbox

import (
	"context"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// sweepBatch bounds how many notifications one transaction expires or forgets.
const sweepBatch = 500

// Retention is how long notifications are kept: their waiting time and an hour, and never less than their ids are
// promised to be known.
func (s *Service) Retention() time.Duration { return max(s.Limits.QueueTTL, IDLife) + time.Hour }

// Expire suppresses, in batches, every notification that waited longer than the queue's time, and wakes those who wait
// for its reply. It returns how many it expired.
func (s *Service) Expire(ctx context.Context, now time.Time) (total int, err error) {
	for ctx.Err() == nil {
		n, err := s.expire(ctx, "", now.Add(-s.Limits.QueueTTL))
		total += n
		if err != nil || n < sweepBatch {
			return total, err
		}
	}
	return total, nil
}

func (s *Service) expire(ctx context.Context, m relay.MailboxID, cutoff time.Time) (int, error) {
	var expired []store.Expired
	err := s.Store.Update(ctx, func(tx store.Tx) (err error) {
		expired, err = tx.Notifications().Expire(m, cutoff, sweepBatch)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.publishExpired(expired)
	return len(expired), nil
}

func (s *Service) publishExpired(expired []store.Expired) {
	hints := make([]relay.Hint, 0, len(expired))
	for _, e := range expired {
		hints = append(hints, relay.Hint{Kind: relay.HintReceipt, Mailbox: e.Mailbox, Notification: e.ID})
	}
	s.Hub.Publish(hints...)
}

// Forget removes, in batches, notifications past Retention. It returns how many it removed.
func (s *Service) Forget(ctx context.Context, now time.Time) (total int, err error) {
	for ctx.Err() == nil {
		n := 0
		err = s.Store.Update(ctx, func(tx store.Tx) (err error) {
			n, err = tx.Notifications().Forget(now.Add(-s.Retention()), sweepBatch)
			return err
		})
		total += n
		if err != nil || n < sweepBatch {
			return total, err
		}
	}
	return total, nil
}
