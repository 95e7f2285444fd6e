// Package mailbox is the relay's main job: it accepts notifications, records what devices report of them, and lets agents
// read and await the answer.
//
// A call that returns without error is durable: the store has committed before anyone is woken or answered. A reply and
// its receipt are one transaction. Time is an argument of every rule; only Await lets it pass.
package mailbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/herald-relay/herald/internal/allowance"
	"github.com/herald-relay/herald/internal/clips"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/presence"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// IDLife is how long a notification's id, receipt and reply can be read, and a repeated notificationId is a duplicate.
const IDLife = 24 * time.Hour

// Limits are the configurable allowances of a mailbox (contract section 10).
type Limits struct {
	Admission         relay.AdmissionLimits
	QueueTTL          time.Duration // how long an undelivered notification waits
	RequestsPerDay    int64
	PollSecondsPerDay int64
	ClipsPerDay       int64
	ClipBytesPerDay   int64
}

// Service serves every mailbox. All fields are set once, before use.
type Service struct {
	Store  store.Store
	Hub    *presence.Hub
	Meter  *allowance.Meter
	Clips  *clips.Dir
	Limits Limits
	Log    *slog.Logger
	// Events is told of first answers.
	Events Events
	// Stopping is closed when the relay begins to stop: parked waits then end as if their time were up.
	Stopping <-chan struct{}
}

// Events tells agents that the person answered.
type Events interface {
	// Replied is called within the transaction that stores the first answer to n.
	Replied(tx store.Tx, n *relay.Notification) error
	// Wake is called after it has committed.
	Wake(m relay.MailboxID)
}

// Send accepts a notification from the agent p. duplicate tells that the key sent this notificationId within IDLife
// before; the first notification is returned and nothing is queued. Refusals are Exhausted: rate_limited, daily_cap,
// queue_full.
func (s *Service) Send(ctx context.Context, p credential.Principal, in payload.Payload, now time.Time) (n relay.Notification, duplicate bool, err error) {
	now = relay.Millis(now)
	var refusal error
	var expired []store.Expired
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		n, duplicate, refusal, expired = relay.Notification{}, false, nil, nil
		if err := stillWorks(tx, p); err != nil {
			return err
		}
		if in.AgentID != "" {
			if n, duplicate, err = findSent(tx, p, in.AgentID, now); err != nil || duplicate {
				return err
			}
		}
		expired, refusal, err = s.admit(tx, p, now)
		if err != nil || refusal != nil {
			return err // a refusal commits the expiries that came before it
		}
		n = newNotification(p, in, now)
		return tx.Notifications().Insert(&n, now.Add(-IDLife))
	})
	s.publishExpired(expired)
	if err == nil {
		err = refusal
	}
	if err != nil {
		return relay.Notification{}, false, goneIsUnauthorized(err)
	}
	if !duplicate || n.Waiting() { // of a first try whose answer was lost, nobody was told
		s.Hub.Publish(relay.Hint{Kind: relay.HintQueued, Mailbox: n.Mailbox, Notification: n.ID})
	}
	return n, duplicate, nil
}

// stillWorks is NotFound once the key was revoked or purged: a request that was proven before may come after that.
func stillWorks(tx store.Tx, p credential.Principal) error {
	k, err := tx.Keys().Get(p.Mailbox, p.Key)
	if err == nil && !k.Active() {
		err = fault.NotFoundf("the key was revoked")
	}
	return err
}

func findSent(tx store.Tx, p credential.Principal, agentID string, now time.Time) (relay.Notification, bool, error) {
	n, err := tx.Notifications().Sent(p.Mailbox, p.Key, agentID, now.Add(-IDLife))
	if fault.Is(err, fault.NotFound) {
		return relay.Notification{}, false, nil
	}
	return n, err == nil, err
}

func newNotification(p credential.Principal, in payload.Payload, now time.Time) relay.Notification {
	n := relay.Notification{
		ID: relay.NewNotificationID(now), Mailbox: p.Mailbox, Key: p.Key, AgentID: in.AgentID,
		CreatedAt: now, Payload: in.JSON, ExpectReply: in.ExpectReply,
	}
	if n.AgentID == "" {
		n.AgentID = n.ID.MadeAgentID()
	}
	return n
}

// admit judges rate, day and queue in that order; before it refuses for a full queue it expires what waited too long.
func (s *Service) admit(tx store.Tx, p credential.Principal, now time.Time) (expired []store.Expired, refusal, err error) {
	limits := s.Limits.Admission
	a, err := tx.Notifications().Admission(p.Mailbox, p.Key, limits.PerKey, now)
	if err != nil {
		return nil, nil, err
	}
	if refusal = limits.AdmitRate(a, now); refusal != nil {
		return nil, refusal, nil
	}
	if refusal = limits.AdmitQueue(a); refusal == nil {
		return nil, nil, nil
	}
	expired, err = tx.Notifications().Expire(p.Mailbox, now.Add(-s.Limits.QueueTTL), sweepBatch)
	a.Waiting -= int64(len(expired))
	return expired, limits.AdmitQueue(a), err
}

// Receipt returns a notification that the agent p sent within IDLife. Another key's is NotFound.
func (s *Service) Receipt(ctx context.Context, p credential.Principal, agentID string, now time.Time) (n relay.Notification, err error) {
	if !payload.IsID(agentID) { // no database need look at what nobody can have sent
		return n, notSent()
	}
	err = s.Store.View(ctx, func(tx store.Tx) error {
		n, err = tx.Notifications().Sent(p.Mailbox, p.Key, agentID, now.Add(-IDLife))
		return err
	})
	if fault.Is(err, fault.NotFound) {
		err = notSent()
	}
	return n, err
}

func notSent() error {
	return fault.NotFoundf("this key sent no notification with that notificationId in the last 24 hours")
}

// Presence is what an agent may know of a mailbox's devices.
type Presence struct {
	Online     bool
	LastSeenAt time.Time // zero when never
	State      relay.State
}

// Presence reports whether a device is online and what it last said of itself.
func (s *Service) Presence(ctx context.Context, m relay.MailboxID, now time.Time) (out Presence, err error) {
	var box relay.Mailbox
	var devices []relay.Device
	err = s.Store.View(ctx, func(tx store.Tx) error {
		if box, err = tx.Mailboxes().Get(m); err != nil {
			return err
		}
		devices, err = tx.Devices().List(m)
		return err
	})
	if err != nil {
		return out, goneIsUnauthorized(err)
	}
	return s.presence(box, devices, now), nil
}

func (s *Service) presence(box relay.Mailbox, devices []relay.Device, now time.Time) Presence {
	out := Presence{LastSeenAt: box.LastSeenAt, State: box.State}
	for _, d := range devices {
		out.Online = out.Online || d.Online(now)
	}
	if live := s.Hub.LastHeard(box.ID); !live.IsZero() {
		out.Online = out.Online || now.Sub(live) < relay.OnlineWithin
		if live.After(out.LastSeenAt) {
			out.LastSeenAt = live
		}
	}
	return out
}

// goneIsUnauthorized turns "the mailbox or key vanished meanwhile" into what it means to its caller.
func goneIsUnauthorized(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Unauthorized("this relay does not know the credential, or it was revoked; pair or make a new key")
	}
	return err
}
