package mailbox

import (
	"context"
	"math"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// MaxWait bounds one long-poll.
const MaxWait = 60 * time.Second

// Await returns the notification as soon as it was replied to or suppressed whole, at the latest after wait (cut to
// MaxWait). timedOut tells that a positive wait ran out. The seconds spent waiting are charged to the mailbox's
// daily allowance; once that is spent, wait counts as zero. It ends early when ctx does.
func (s *Service) Await(ctx context.Context, p credential.Principal, agentID string, wait time.Duration, now time.Time) (n relay.Notification, timedOut bool, err error) {
	n, err = s.Receipt(ctx, p, agentID, now)
	if err != nil || wait <= 0 || answered(&n) {
		return n, false, err
	}
	used, err := s.Meter.Used(ctx, p.Mailbox, now)
	if err != nil || used.PollSeconds >= s.Limits.PollSecondsPerDay {
		return n, false, err
	}
	return s.park(ctx, p, n.ID, min(wait, MaxWait))
}

func answered(n *relay.Notification) bool { return n.Replied() || n.SuppressedWhole() }

// park holds as little as it can while it waits: one watch, one timer, no copy of the notification. It ends with
// Unauthenticated when the key is revoked meanwhile.
func (s *Service) park(ctx context.Context, p credential.Principal, id relay.NotificationID, wait time.Duration) (n relay.Notification, timedOut bool, err error) {
	start := time.Now()
	watch := s.Hub.Watch(p.Mailbox, id)
	defer watch.Close()
	defer func() {
		now := time.Now()
		s.Meter.Count(p.Mailbox, now, relay.Usage{PollSeconds: int64(math.Ceil(now.Sub(start).Seconds()))})
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for over := false; ; {
		if n, err = s.look(ctx, p, id); err != nil || over || answered(&n) {
			return n, over && err == nil && !answered(&n), goneIsUnauthorized(err)
		}
		select {
		case <-watch.C:
		case <-timer.C:
			over = true
		case <-s.Stopping:
			over = true
		case <-ctx.Done():
			return n, false, context.Cause(ctx)
		}
	}
}

// look reads the notification for as long as its key works: a wait outlives the check that began it.
func (s *Service) look(ctx context.Context, p credential.Principal, id relay.NotificationID) (n relay.Notification, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		k, err := tx.Keys().Get(p.Mailbox, p.Key)
		if err != nil {
			return err
		}
		if !k.Active() {
			return fault.NotFoundf("the key was revoked")
		}
		n, err = tx.Notifications().Get(p.Mailbox, id)
		return err
	})
	return n, err
}

func (s *Service) find(ctx context.Context, m relay.MailboxID, id relay.NotificationID) (n relay.Notification, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		n, err = tx.Notifications().Get(m, id)
		return err
	})
	return n, err
}
