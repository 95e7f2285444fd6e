package events

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
)

// Reply is the event of an answer.
const Reply = "notification.reply"

// familyReplies is stored with each subscription.
const familyReplies = "relay"

// replyType is what agents are shown of the event (reference page on reply events).
var replyType = mcpevents.EventType{
	Name: Reply,
	Description: "The user answered (typed or recorded) a notification you sent with expectReply. Call get_receipt or wait_for_reply with " +
		"data.notificationId to read the answer. The payload holds ids only, never the text. A subscription lasts until you unsubscribe or the " +
		"user revokes this connector in Herald.",
	InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`),
	PayloadSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["notificationId","id","kind"],"properties":{` +
		`"notificationId":{"type":"string","description":"The id you sent (or the relay's id when you sent none)."},` +
		`"id":{"type":"string","description":"The relay's own id for the notification."},` +
		`"kind":{"type":"string","enum":["text","voice"]}}}`),
}

// Options are what the relay decides about its events.
type Options struct {
	// Egress is the way out to agents' addresses.
	Egress mcpevents.Egress
	// Sealer encrypts signing secrets at rest.
	Sealer mcpevents.Sealer
	// Hosts are the only ones that may be called, for devices to show; empty when any public one may.
	Hosts []string
	Log   *slog.Logger
	// Observer is told what happens; nil is nobody.
	Observer mcpevents.Observer
	// Alone says that no other process works on the store, so it need not be asked often what they left.
	Alone bool
	// Grace is how long attempts may go on after a stop.
	Grace time.Duration
}

// Service tells agents of replies.
type Service struct {
	store  store.Store
	server *mcpevents.Server
	hosts  []string
}

// How often the store is looked at, beside what is known to be due: for deliveries that another process queued, and for
// what is past its time.
const (
	pollOthers = time.Second
	pollAlone  = 5 * time.Minute
	sweepEvery = 5 * time.Minute
)

// New makes the service over a store that keeps events.
func New(st store.Store, o Options) (*Service, error) {
	catalog, err := mcpevents.NewCatalog(replyType)
	if err != nil {
		return nil, err
	}
	s := &Service{store: st, hosts: o.Hosts}
	engine := mcpevents.Engine{PollEvery: pollOthers, SweepEvery: sweepEvery, Grace: o.Grace}
	if o.Alone {
		engine.PollEvery = pollAlone
	}
	family := mcpevents.Family{Name: familyReplies, Policy: mcpevents.Relay(), Catalog: catalog, Authorize: s.authorize}
	s.server, err = mcpevents.New(st.Events(), []mcpevents.Family{family}, &mcpevents.Options{
		Egress: o.Egress, Sealer: o.Sealer, Log: o.Log, Observer: o.Observer, UserAgent: "Herald-Relay/1.0", Engine: engine,
	})
	return s, err
}

// Server answers the methods of events.
func (s *Service) Server() *mcpevents.Server { return s.server }

// Run delivers until ctx ends.
func (s *Service) Run(ctx context.Context) error { return s.server.Run(ctx) }

// principal names a key for ever: ids of keys are its mailbox's own.
func principal(m relay.MailboxID, k relay.KeyID) string { return string(m) + "/" + string(k) }

// keyOf undoes principal.
func keyOf(principal string) relay.KeyID {
	_, key, _ := strings.Cut(principal, "/")
	return relay.KeyID(key)
}

// Caller is who an agent is to the events server.
func Caller(p credential.Principal) mcpevents.Caller {
	return mcpevents.Caller{Principal: principal(p.Mailbox, p.Key), Ledger: string(p.Mailbox), Value: p}
}

// authorize refuses a key that was revoked since its request was admitted: a stream outlives the check that began it.
func (s *Service) authorize(ctx context.Context, c mcpevents.Caller, _ mcpevents.Ask) error {
	p := c.Value.(credential.Principal)
	var key relay.Key
	err := s.store.View(ctx, func(tx store.Tx) (err error) {
		key, err = tx.Keys().Get(p.Mailbox, p.Key)
		return err
	})
	if fault.Is(err, fault.NotFound) || err == nil && !key.Active() {
		return &mcpevents.Error{Meaning: mcpevents.Forbidden, Message: "the key was revoked"}
	}
	return err
}

// Replied records, within the transaction that stores the first answer to n, that there is one. Call Wake after the commit.
func (s *Service) Replied(tx store.Tx, n *relay.Notification) error {
	kind := "text"
	if n.Text == "" {
		kind = "voice"
	}
	data, err := json.Marshal(struct {
		NotificationID string               `json:"notificationId"`
		ID             relay.NotificationID `json:"id"`
		Kind           string               `json:"kind"`
	}{n.AgentID, n.ID, kind})
	if err != nil {
		return err
	}
	_, err = s.server.EmitTx(tx.Events(), mcpevents.Emission{
		Ledger: string(n.Mailbox), ID: string(n.ID), Name: Reply, Audience: principal(n.Mailbox, n.Key), Time: n.RepliedAt,
		Data: json.RawMessage(data),
	})
	return err
}

// Wake sends what was recorded of a mailbox.
func (s *Service) Wake(m relay.MailboxID) { s.server.Wake(string(m)) }

// Subscription is a subscription as the person sees it.
type Subscription struct {
	ID        string
	Event     string
	Host      string
	Key       relay.Key
	CreatedAt time.Time
	Pending   int
	LastError string // category of the newest attempt, "" when it succeeded
}

// Hosts are the only ones that may be called, empty when any public one may.
func (s *Service) Hosts() []string { return s.hosts }

// List returns a mailbox's live subscriptions, oldest first.
func (s *Service) List(ctx context.Context, m relay.MailboxID, now time.Time) (list []Subscription, err error) {
	err = s.store.View(ctx, func(tx store.Tx) error {
		list = nil
		live, err := live(tx.Events(), m, now)
		if err != nil {
			return err
		}
		for _, sub := range live {
			pending, err := tx.Events().Deliveries().CountPending(sub.ID)
			if err != nil {
				return err
			}
			key, err := tx.Keys().Get(m, keyOf(sub.Principal))
			if err != nil {
				return err
			}
			host := strings.TrimSuffix(sub.Host, ":443")
			list = append(list, Subscription{sub.ID, sub.Name, host, key, sub.Created, pending, sub.Health.LastError})
		}
		return nil
	})
	slices.SortStableFunc(list, func(a, b Subscription) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, err
}

const page = 100

// live reads a mailbox's subscriptions that are not over.
func live(tx driver.Tx, m relay.MailboxID, now time.Time) (all []mcpevents.Subscription, err error) {
	f := driver.Filter{Family: familyReplies, Ledger: string(m), Live: true, Now: now, Limit: page}
	for {
		some, err := tx.Subscriptions().List(f)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < page {
			return all, nil
		}
		f.After = some[len(some)-1].ID
	}
}

// End ends a subscription of the mailbox at once, with what waits for it. One that is not there is no error.
func (s *Service) End(ctx context.Context, m relay.MailboxID, id string) error {
	sub, err := s.server.Subscription(ctx, id)
	if err == nil && sub.Ledger == string(m) {
		err = s.server.End(ctx, id, mcpevents.ReasonRevoked)
	}
	if err == nil || isNotFound(err) {
		return nil
	}
	return err
}
