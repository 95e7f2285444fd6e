package mailbox

import (
	"context"
	"math"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/presence"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// MaxWait bounds one long-poll.
const MaxWait = 60 * time.Second

// Wait is an agent's wait for the answer to one notification. It holds no copy of the notification, so that thousands
// can be parked. End it.
type Wait struct {
	svc     *Service
	watch   *presence.Watch
	agent   credential.Principal
	id      relay.NotificationID
	started time.Time
	until   time.Time
}

// Outcome is how a wait ended: answered or suppressed whole, or, with TimedOut, neither within the time.
type Outcome struct {
	relay.Notification
	TimedOut bool
}

// BeginWait reads the notification and, when it is neither replied to nor suppressed whole and wait (cut to MaxWait) is
// positive, begins to wait for that. Otherwise the Wait is nil, as it is once the mailbox's daily allowance of
// seconds is spent.
func (s *Service) BeginWait(ctx context.Context, p credential.Principal, agentID string, wait time.Duration, now time.Time) (relay.Notification, *Wait, error) {
	n, err := s.Receipt(ctx, p, agentID, now)
	if err != nil || wait <= 0 || answered(&n) {
		return n, nil, err
	}
	used, err := s.Meter.Used(ctx, p.Mailbox, now)
	if err != nil || used.PollSeconds >= s.Limits.PollSecondsPerDay {
		return n, nil, err
	}
	start := time.Now()
	return n, &Wait{
		svc: s, watch: s.Hub.Watch(p.Mailbox, n.ID), agent: p, id: n.ID,
		started: start, until: start.Add(min(wait, MaxWait)),
	}, nil
}

func answered(n *relay.Notification) bool { return n.Replied() || n.SuppressedWhole() }

// End stops watching and charges the seconds waited to the mailbox's daily allowance.
func (w *Wait) End() {
	w.watch.Close()
	now := time.Now()
	seconds := int64(math.Ceil(now.Sub(w.started).Seconds()))
	w.svc.Meter.Count(w.agent.Mailbox, now, relay.Usage{PollSeconds: seconds})
}

// For waits at most patience and returns nil when that was not enough to end the wait: the caller waits on, more
// cheaply perhaps. It ends early with ctx's cause when ctx does, with Unauthenticated when the key is revoked, and as
// if its time were up when the relay stops.
func (w *Wait) For(ctx context.Context, patience time.Duration) (*Outcome, error) {
	left := time.Until(w.until)
	timer := time.NewTimer(min(patience, left))
	defer timer.Stop()
	for over := false; ; {
		out := new(Outcome)
		if err := w.look(ctx, &out.Notification); err != nil {
			return nil, goneIsUnauthorized(err)
		}
		out.TimedOut = over && !answered(&out.Notification)
		if over || answered(&out.Notification) {
			return out, nil
		}
		out = nil // nothing is held while parked
		select {
		case <-w.watch.C:
		case <-timer.C:
			if patience < left {
				return nil, nil
			}
			over = true
		case <-w.svc.Stopping:
			over = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// look reads the notification for as long as its key works: a wait outlives the check that began it.
func (w *Wait) look(ctx context.Context, n *relay.Notification) error {
	return w.svc.Store.View(ctx, func(tx store.Tx) error {
		err := stillWorks(tx, w.agent)
		if err != nil {
			return err
		}
		*n, err = tx.Notifications().Get(w.agent.Mailbox, w.id)
		return err
	})
}

func (s *Service) find(ctx context.Context, m relay.MailboxID, id relay.NotificationID) (n relay.Notification, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		n, err = tx.Notifications().Get(m, id)
		return err
	})
	return n, err
}
