package mcpevents

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/herald-relay/herald/internal/egress"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/internal/canonical"
	"github.com/herald-relay/herald/webhook"
)

// subscribeResult is the answer to events/subscribe (contract a.7): every member but deliveryStatus is always there.
type subscribeResult struct {
	ID             string          `json:"id"`
	RefreshBefore  *string         `json:"refreshBefore"`
	Cursor         *string         `json:"cursor"`
	Truncated      bool            `json:"truncated"`
	DeliveryStatus *deliveryStatus `json:"deliveryStatus,omitempty"`
}

// wish is a subscribe call whose parameters were all checked.
type wish struct {
	*target
	dialect Dialect
	address *url.URL
	secret  webhook.Secret
	key     string
	cursor  Cursor
	maxAge  time.Duration
	aged    bool
	grant   grant
	now     time.Time
	// id is what the subscription is called if it is new.
	id string
}

func (w *wish) url() string { return w.address.String() }

// subscribe serves events/subscribe. The checks are made in the order of this function (contract e.4); nothing is
// contacted before the last, and no transaction is open while it runs.
func (s *Server) subscribe(ctx context.Context, r Request) (any, error) {
	w, err := s.readWish(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := s.verify(ctx, w); err != nil {
		return nil, err
	}
	return s.commit(ctx, w)
}

func (s *Server) readWish(ctx context.Context, r Request) (*wish, error) {
	m, err := readMembers(r.Params, "params")
	if err != nil {
		return nil, err
	}
	t, err := s.find(ctx, r, m)
	if err != nil {
		return nil, err
	}
	p := t.policy()
	if t.caller.Principal == "" {
		return nil, p.refuse(r.Dialect, NoPrincipal, "subscribing needs an authenticated principal")
	}
	if err := t.readArguments(r.Dialect); err != nil {
		return nil, err
	}
	w := &wish{target: t, dialect: r.Dialect, now: millis(time.Now())}
	if err := s.readDestination(w, m); err != nil {
		return nil, err
	}
	var ok bool
	if w.grant, ok = p.Lifetime.grant(m["ttlMs"], w.now, s.durable); !ok {
		return nil, p.refuse(r.Dialect, BadTTL, "ttlMs: null or a positive whole number of milliseconds")
	}
	if w.cursor, err = m.cursor(p.Replay.Lenient); err != nil {
		return nil, err
	}
	if w.maxAge, w.aged, err = m.span("maxAgeMs"); err != nil {
		return nil, err
	}
	w.key = subscriptionKey(t.caller.Principal, w.url(), t.kind.Name, t.arguments, t.caller.Ledger)
	return w, s.authorize(ctx, t, Webhook)
}

// readDestination checks mode, address and secret.
func (s *Server) readDestination(w *wish, m members) (err error) {
	delivery, err := readMembers(m.object("delivery"), "delivery")
	if err != nil {
		return err
	}
	if delivery.has("mode") {
		if mode, err := delivery.text("mode"); err != nil || mode != string(Webhook) {
			return unsupportedMode(w.policy(), w.dialect, mode)
		}
	}
	if err := w.mayUse(w.dialect, Webhook); err != nil {
		return err
	}
	if w.address, err = s.readURL(w.policy(), w.dialect, delivery); err != nil {
		return err
	}
	text, err := delivery.text("secret")
	if err == nil {
		w.secret, err = webhook.ParseSecret(text)
	}
	if err != nil {
		return w.policy().refuse(w.dialect, BadSecret, "delivery.secret: whsec_ and the base64 of 24 to 64 bytes")
	}
	return nil
}

// readURL finds the address and lets the guard judge it by its syntax. Its answer to the client never tells what a name
// resolves to: that is looked at when connecting.
func (s *Server) readURL(p *Policy, d Dialect, delivery members) (*url.URL, error) {
	text, err := delivery.text("url")
	if err != nil {
		return nil, p.refuse(d, BadURL, "delivery.url: an https URL is required")
	}
	u, err := s.opts.Egress.CheckURL(text)
	if err == nil {
		return u, nil
	}
	ground, detail := BadURL, "is not an https URL that deliveries may go to"
	var refusal *egress.Error
	if errors.As(err, &refusal) {
		detail = refusal.Detail
		switch refusal.Kind {
		case egress.InnerName, egress.NotPublic:
			ground = RefusedURL
		case egress.NotListed:
			ground = UnlistedHost
		}
	}
	e := p.refuse(d, ground, "delivery.url: the URL %s", detail)
	if ground == UnlistedHost {
		e.with("reason", string(UnlistedHost)).with("host", refusal.Host)
	}
	return nil, e
}

// commit makes or renews the subscription, and queues what its cursor asks for, in one transaction.
func (s *Server) commit(ctx context.Context, w *wish) (any, error) {
	var result subscribeResult
	var saved Subscription
	var refusal error
	renewed := false
	err := s.db.Update(ctx, func(tx driver.Tx) (err error) {
		// The ledger comes first, as in EmitTx, so that the two never wait for each other.
		head, err := tx.Events().Head(w.caller.Ledger)
		if err != nil {
			return err
		}
		if refusal = s.checkQuota(tx, w); refusal != nil {
			return refusal
		}
		before, err := tx.Subscriptions().ByKey(w.key)
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			return err
		}
		renewed = err == nil && isLive(&before, w.now)
		if renewed {
			result, saved, err = s.renew(tx, w, before, head)
		} else {
			result, saved, err = s.begin(tx, w, before, head)
		}
		return err
	})
	switch {
	case refusal != nil:
		return nil, refusal
	case err != nil:
		return nil, internal("store the subscription", err)
	}
	s.log.Info("subscribed", "subscription", saved.ID, "event_type", saved.Name, "host", saved.Host, "renewed", renewed)
	s.watch.Subscribed(saved, renewed)
	s.Wake("")
	return result, nil
}

func isLive(s *Subscription, now time.Time) bool {
	return s.State != driver.Ended && (s.Expires.IsZero() || s.Expires.After(now))
}

// checkQuota counts only for a subscription that would be new.
func (s *Server) checkQuota(tx driver.Tx, w *wish) error {
	limit := w.policy().Quotas.Subscriptions
	if limit < 0 {
		return nil
	}
	before, err := tx.Subscriptions().ByKey(w.key)
	if err == nil && isLive(&before, w.now) {
		return nil
	}
	if err != nil && !errors.Is(err, driver.ErrNotFound) {
		return internal("look up the subscription", err)
	}
	n, err := tx.Subscriptions().Count(driver.Filter{Family: w.family.Name, Principal: w.caller.Principal, Live: true, Now: w.now})
	if err != nil {
		return internal("count subscriptions", err)
	}
	if n >= limit {
		return w.policy().refuse(w.dialect, TooMany, "this caller has %d subscriptions, as many as are allowed", limit).
			with("limit", "subscriptions").with("max", limit)
	}
	return nil
}

// begin starts a subscription: one that never was, or anew one that ended or lapsed, whose id it keeps and whose waiting
// deliveries it does not revive.
func (s *Server) begin(tx driver.Tx, w *wish, before Subscription, head driver.Head) (subscribeResult, Subscription, error) {
	none := subscribeResult{}
	sub := Subscription{ID: w.id, Key: w.key, Created: w.now}
	if before.ID != "" {
		sub.ID, sub.Created = before.ID, before.Created
		if err := dropAll(tx.Deliveries(), sub.ID, ReasonEnded, w.now); err != nil {
			return none, sub, err
		}
	}
	secret, err := s.seal(w.secret, sub.ID)
	if err != nil {
		return none, sub, err
	}
	sub.Secrets = []driver.Secret{{Sealed: secret}}
	sub.Changed = w.now
	at, err := startAt(tx.Events(), w.policy().Replay, w.caller.Ledger, head, w.asWant(), w.now)
	if err != nil {
		return none, sub, err
	}
	if w.policy().Replay.None || w.kind.NoReplay {
		at = position{after: head.Newest}
	}
	sub.Start = at.after
	w.fill(&sub)
	if err := tx.Subscriptions().Save(sub); err != nil {
		return none, sub, err
	}
	result, err := s.answer(tx, w, &sub, head, at)
	return result, sub, err
}

// renew extends a live subscription: its secret, lifetime and dialect become the call's, and a suspended one goes on.
func (s *Server) renew(tx driver.Tx, w *wish, sub Subscription, head driver.Head) (subscribeResult, Subscription, error) {
	none := subscribeResult{}
	status := statusOf(&sub, w.now)
	if err := s.rotate(w, &sub); err != nil {
		return none, sub, err
	}
	if sub.State == driver.Suspended {
		if err := tx.Deliveries().Postpone(sub.ID, w.now.Sub(sub.Changed), w.now); err != nil {
			return none, sub, err
		}
		sub.Changed = w.now
		sub.Health = Health{LastDelivery: sub.Health.LastDelivery, LastError: sub.Health.LastError}
	}
	gap := sub.Gap
	sub.Gap = false
	w.fill(&sub)
	if err := tx.Subscriptions().Save(sub); err != nil {
		return none, sub, err
	}
	at := position{after: head.Newest, gap: gap}
	if w.policy().Replay.Live {
		from, err := startAt(tx.Events(), w.policy().Replay, w.caller.Ledger, head, w.asWant(), w.now)
		if err != nil {
			return none, sub, err
		}
		at = position{after: from.after, gap: gap || from.gap}
	}
	result, err := s.answer(tx, w, &sub, head, at)
	result.DeliveryStatus = status
	return result, sub, err
}

func (w *wish) asWant() want { return want{cursor: w.cursor, maxAge: w.maxAge, aged: w.aged} }

// fill sets what every subscribe call sets.
func (w *wish) fill(sub *Subscription) {
	p := w.policy()
	sub.Family, sub.Principal, sub.Ledger, sub.Name = w.family.Name, w.caller.Principal, w.caller.Ledger, w.kind.Name
	sub.Arguments = canonical.Append(nil, w.arguments)
	sub.URL, sub.Host = w.url(), w.address.Host
	sub.Dialect = string(w.dialect)
	sub.Strict, sub.Parallel = p.Order.Strict, p.Order.Parallel
	sub.State, sub.Reason = driver.Active, ""
	sub.Refreshed, sub.Expires = w.now, w.grant.lapses
}

// rotate puts the call's secret in force. The one before goes on signing for the policy's overlap, and so does each
// older one until its own time.
func (s *Server) rotate(w *wish, sub *Subscription) error {
	current, err := s.open(sub.Secrets[0], sub.ID)
	if err != nil {
		return err
	}
	// What a driver handed out may be its own memory: attempts under way read it, and a failed Update must not change it.
	sub.Secrets = slices.DeleteFunc(slices.Clone(sub.Secrets), func(x driver.Secret) bool { return !x.Until.IsZero() && !x.Until.After(w.now) })
	if current.Equal(w.secret) {
		return nil
	}
	sealed, err := s.seal(w.secret, sub.ID)
	if err != nil {
		return err
	}
	overlap := w.policy().Rotation.Overlap
	if overlap < 0 {
		sub.Secrets = []driver.Secret{{Sealed: sealed}}
		return nil
	}
	sub.Secrets[0].Until = w.now.Add(overlap)
	sub.Secrets = append([]driver.Secret{{Sealed: sealed}}, sub.Secrets...)
	sub.Secrets = sub.Secrets[:min(len(sub.Secrets), maxSecrets)]
	return nil
}

// maxSecrets bounds how many signatures a request carries, however often a client rotates.
const maxSecrets = 4

// answer replays what the position asks for and reports what was granted.
func (s *Server) answer(tx driver.Tx, w *wish, sub *Subscription, head driver.Head, at position) (subscribeResult, error) {
	result := subscribeResult{ID: sub.ID}
	if !w.grant.shown.IsZero() {
		shown := stamp(w.grant.shown)
		result.RefreshBefore = &shown
	}
	r := w.policy().Replay
	if r.None || w.kind.NoReplay {
		return result, nil
	}
	last, skipped, err := s.replay(tx, w, sub, head, at.after)
	if err != nil {
		return result, err
	}
	result.Truncated = at.gap || skipped
	sequence, err := watermark(tx, r, sub, head)
	if err != nil {
		return result, err
	}
	if last > 0 {
		sequence = min(sequence, last)
	}
	cursor := r.write(sequence, head.Epoch)
	result.Cursor = &cursor
	return result, nil
}

// watermark is the position up to which nothing is outstanding (contract b.9).
func watermark(tx driver.Tx, r Replay, sub *Subscription, head driver.Head) (int64, error) {
	newest := head.Newest
	if r.OwnPosition {
		var err error
		if newest, err = tx.Events().Newest(sub.Ledger, sub.Principal); err != nil {
			return 0, err
		}
	}
	oldest, err := tx.Deliveries().Oldest(sub.ID)
	if err != nil || oldest == 0 {
		return newest, err
	}
	return min(newest, oldest-1), nil
}

// replay queues the events after a position. last is the sequence to go on from when Stop cut the replay short, else 0;
// skipped says that older ones were left out.
func (s *Server) replay(tx driver.Tx, w *wish, sub *Subscription, head driver.Head, after int64) (last int64, skipped bool, err error) {
	r := w.policy().Replay
	if after >= head.Newest {
		return 0, false, nil
	}
	if !r.Stop && head.Newest-after > maxScan {
		after, skipped = head.Newest-maxScan, true
	}
	b := batch{after: after}
	limit := r.Limit
	if !r.Stop {
		limit = maxScan
	}
	if err := b.fill(tx.Events(), w.target, head.Newest, limit); err != nil {
		return 0, false, err
	}
	if r.Stop && (b.more || len(b.events) == r.Limit) {
		last = b.after
	}
	if n := len(b.events) - r.Limit; n > 0 {
		b.events, skipped = b.events[n:], true
	}
	return last, skipped, s.queueAll(tx, w.family, sub, b.events, w.now)
}

type unsubscribeResult struct{}

// unsubscribe serves events/unsubscribe. Mode and arguments that the schema would refuse are no obstacle: what cannot be
// subscribed to is not there.
func (s *Server) unsubscribe(ctx context.Context, r Request) (any, error) {
	m, err := readMembers(r.Params, "params")
	if err != nil {
		return nil, err
	}
	delivery, err := readMembers(m.object("delivery"), "delivery")
	if err != nil {
		return nil, err
	}
	t, err := s.find(ctx, r, m)
	if err != nil {
		return nil, err
	}
	if t.caller.Principal == "" {
		return nil, t.policy().refuse(r.Dialect, NoPrincipal, "unsubscribing needs an authenticated principal")
	}
	key, err := s.keyOf(t, r.Dialect, delivery)
	if err != nil {
		return nil, err
	}
	found, err := s.endKey(ctx, key)
	if err != nil {
		return nil, internal("end the subscription", err)
	}
	if !found && t.policy().strictUnsubscribe(r.Dialect) {
		return nil, t.policy().refuse(r.Dialect, NotSubscribed, "there is no such subscription").with("kind", "subscription")
	}
	return unsubscribeResult{}, nil
}

func (p *Policy) strictUnsubscribe(d Dialect) bool {
	return p.Unsubscribed == AlwaysNotFound || (p.Unsubscribed == ByDialect && d == DialectSEP)
}

// keyOf is the key of the subscription that an unsubscribe call names. Rules about hosts do not count here: what was
// subscribed when they were other can be ended.
func (s *Server) keyOf(t *target, d Dialect, delivery members) (string, error) {
	text, err := delivery.text("url")
	if err != nil {
		return "", t.policy().refuse(d, BadURL, "delivery.url: an https URL is required")
	}
	u, err := egress.Parse(text)
	if checked, checkErr := s.opts.Egress.CheckURL(text); checkErr == nil {
		u, err = checked, nil // the form it was subscribed under
	}
	if err != nil {
		return "", t.policy().refuse(d, BadURL, "delivery.url: not an https URL")
	}
	v, err := canonical.Parse(t.raw)
	arguments, ok := v.(map[string]any)
	if err != nil || !ok {
		return "", t.policy().refuse(d, BadArguments, "arguments: not an object")
	}
	return subscriptionKey(t.caller.Principal, u.String(), t.kind.Name, arguments, t.caller.Ledger), nil
}

func (s *Server) endKey(ctx context.Context, key string) (found bool, err error) {
	var ended Subscription
	now := millis(time.Now())
	err = s.db.Update(ctx, func(tx driver.Tx) error {
		sub, err := tx.Subscriptions().ByKey(key)
		if found = err == nil && isLive(&sub, now); !found {
			if errors.Is(err, driver.ErrNotFound) {
				return nil
			}
			return err
		}
		ended, err = endSubscription(tx, sub, ReasonUnsubscribed, now)
		return err
	})
	if found && err == nil {
		s.ended(ended)
	}
	return found, err
}
