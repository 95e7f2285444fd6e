package memdriver

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

type subscriptions struct{ *tx }

func (t subscriptions) Get(id string) (driver.Subscription, error) {
	return subscriptionOf(t.lanes[id])
}

func (t subscriptions) ByKey(key string) (driver.Subscription, error) {
	return subscriptionOf(t.keys[key])
}

func subscriptionOf(l *lane) (driver.Subscription, error) {
	if l == nil {
		return driver.Subscription{}, driver.ErrNotFound
	}
	return l.sub, nil
}

func (t subscriptions) Save(s driver.Subscription) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if other := t.keys[s.Key]; other != nil && other.sub.ID != s.ID {
		return driver.ErrExists
	}
	s = stored(s)
	l := t.lanes[s.ID]
	if l == nil {
		l = newLane(s)
		t.add(l)
		t.onRollback(func() { t.remove(l) })
		return nil
	}
	before := l.sub
	t.replace(l, s)
	t.onRollback(func() { t.replace(l, before) })
	return nil
}

func (t subscriptions) SetHealth(id string, h driver.Health) error {
	l := t.lanes[id]
	if l == nil {
		return t.mayWrite()
	}
	s := l.sub
	s.Health = h
	return t.Save(s)
}

// replace changes what is known of a lane, whose key, family, ledger and name never change.
func (s *state) replace(l *lane, sub driver.Subscription) {
	l.sub = sub
	s.settle(l)
}

func topicOf(s driver.Subscription) topic { return topic{s.Family, s.Ledger, s.Name} }

func (s *state) add(l *lane) {
	s.lanes[l.sub.ID], s.keys[l.sub.Key] = l, l
	k := topicOf(l.sub)
	i, _ := slices.BinarySearchFunc(s.topics[k], l.sub.ID, compareID)
	s.topics[k] = slices.Insert(s.topics[k], i, l)
	s.settle(l)
}

func (s *state) remove(l *lane) {
	delete(s.lanes, l.sub.ID)
	delete(s.keys, l.sub.Key)
	k := topicOf(l.sub)
	if i, found := slices.BinarySearchFunc(s.topics[k], l.sub.ID, compareID); found {
		s.topics[k] = slices.Delete(s.topics[k], i, i+1)
	}
	l.sub.State = driver.Ended
	s.settle(l)
}

func compareID(l *lane, id string) int { return cmp.Compare(l.sub.ID, id) }

// stored is what a subscription becomes by being stored.
func stored(s driver.Subscription) driver.Subscription {
	for _, t := range []*time.Time{&s.Created, &s.Refreshed, &s.Expires, &s.Changed, &s.Health.LastDelivery,
		&s.Health.FailingSince, &s.Health.Throttled, &s.Health.Window} {
		*t = milli(*t)
	}
	s.Arguments = bytes.Clone(s.Arguments)
	s.Secrets = slices.Clone(s.Secrets)
	for i := range s.Secrets {
		s.Secrets[i].Sealed = bytes.Clone(s.Secrets[i].Sealed)
		s.Secrets[i].Until = milli(s.Secrets[i].Until)
	}
	return s
}

func (t subscriptions) List(f driver.Filter) ([]driver.Subscription, error) {
	var found []driver.Subscription
	for _, l := range t.lanes {
		if l.sub.ID > f.After && selects(f, &l.sub) {
			found = append(found, l.sub)
		}
	}
	slices.SortFunc(found, func(a, b driver.Subscription) int { return cmp.Compare(a.ID, b.ID) })
	return found[:min(len(found), f.Limit)], nil
}

func (t subscriptions) Count(f driver.Filter) (int, error) {
	n := 0
	for _, l := range t.lanes {
		if selects(f, &l.sub) {
			n++
		}
	}
	return n, nil
}

func selects(f driver.Filter, s *driver.Subscription) bool {
	same := func(want, have string) bool { return want == "" || want == have }
	return same(f.Family, s.Family) && same(f.Principal, s.Principal) && same(f.Ledger, s.Ledger) &&
		same(f.Label, s.Label) && (!f.Live || live(s, f.Now))
}

func live(s *driver.Subscription, now time.Time) bool {
	return s.State != driver.Ended && (s.Expires.IsZero() || s.Expires.After(milli(now)))
}

func (t subscriptions) Matching(family, ledger, name, audience string, now time.Time) ([]driver.Candidate, error) {
	var found []driver.Candidate
	for _, l := range t.topics[topic{family, ledger, name}] {
		if !live(&l.sub, now) || (audience != "" && audience != l.sub.Principal) {
			continue
		}
		c := driver.Candidate{Subscription: l.sub, Waiting: l.pending}
		if l.pending > 0 {
			c.Oldest = t.oldest(l)
		}
		found = append(found, c)
	}
	return found, nil
}

// oldest works in a View too, where the lazy heap must not be tidied: other Views read it.
func (t *tx) oldest(l *lane) int64 {
	if t.writable {
		return l.oldest().Sequence
	}
	var oldest int64
	for sequence, d := range l.records {
		if d.State == driver.Pending && (oldest == 0 || sequence < oldest) {
			oldest = sequence
		}
	}
	return oldest
}

func (t subscriptions) Lapsed(now time.Time, limit int) ([]string, error) {
	var ids []string
	for id, l := range t.lanes {
		if len(ids) < limit && l.sub.State != driver.Ended && !live(&l.sub, now) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (t subscriptions) Forget(cutoff time.Time, limit int) (int, error) {
	if err := t.mayWrite(); err != nil {
		return 0, err
	}
	n := 0
	for _, l := range t.lanes {
		if n == limit || l.sub.State != driver.Ended || !l.sub.Changed.Before(milli(cutoff)) {
			continue
		}
		for sequence := range l.records {
			t.put(l, sequence, nil)
		}
		t.remove(l)
		t.onRollback(func() { t.add(l) })
		n++
	}
	return n, nil
}
