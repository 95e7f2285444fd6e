package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

var modelCases = []testCase{
	{"after random operations the store equals a model of maps and slices", func(f *fixture) {
		rapid.Check(f.T, func(t *rapid.T) {
			m := newModel(t, f.store)
			defer m.remove()
			t.Repeat(map[string]func(*rapid.T){
				"send": m.send, "send and fail": m.sendAndFail, "save": m.save, "expire": m.expire, "forget": m.forget,
				"purge": m.purge, "let time pass": m.pass, "": m.check,
			})
		})
	}},
}

// model is one mailbox with two keys, kept in memory by the plainest means. Time only moves forward, so that the
// oldest notification is also the first.
type model struct {
	t      *rapid.T
	s      store.Store
	person relay.PersonID
	box    relay.MailboxID
	keys   []relay.KeyID
	now    time.Time
	seq    int64
	notes  []relay.Notification // by Seq
	sends  map[relay.KeyID][]time.Time
	perDay map[string]int64
}

const (
	modelIDLife = 24 * time.Hour
	modelPerKey = 3
)

func newModel(t *rapid.T, s store.Store) *model {
	m := &model{t: t, s: s, person: relay.PersonID(relay.RandomHex(8)), box: newMailboxID(), now: t0,
		sends: map[relay.KeyID][]time.Time{}, perDay: map[string]int64{}}
	m.update(func(tx store.Tx) error {
		return tx.People().Create(relay.Person{ID: m.person, Name: string(m.person), CreatedAt: t0})
	})
	m.update(func(tx store.Tx) error {
		return tx.Mailboxes().Create(relay.Mailbox{ID: m.box, Person: m.person, CreatedAt: t0})
	})
	for _, name := range []string{"one", "two"} {
		m.keys = append(m.keys, m.newKey(name))
	}
	return m
}

func (m *model) newKey(name string) relay.KeyID {
	k := newKey(m.box, name)
	m.update(func(tx store.Tx) error { return tx.Keys().Create(k) })
	return k.ID
}

func (m *model) update(fn func(store.Tx) error) {
	if err := m.s.Update(m.t.Context(), fn); err != nil {
		m.t.Fatalf("Update: %v", err)
	}
}

func (m *model) remove() {
	_ = m.s.Update(m.t.Context(), func(tx store.Tx) error { return tx.People().Delete(m.person) })
}

// holder returns the notification that answers to an agent's id of a key.
func (m *model) holder(k relay.KeyID, agentID string) *relay.Notification {
	for i := len(m.notes) - 1; i >= 0; i-- {
		if n := &m.notes[i]; n.Key == k && n.AgentID == agentID {
			return n
		}
	}
	return nil
}

func (m *model) draw(t *rapid.T) relay.Notification {
	m.now = m.now.Add(time.Millisecond)
	n := relay.Notification{ID: relay.NewNotificationID(m.now), Mailbox: m.box, Key: rapid.SampledFrom(m.keys).Draw(t, "key"),
		CreatedAt: m.now, Payload: fmt.Appendf(nil, `{"n":%d}`, m.seq), ExpectReply: rapid.Bool().Draw(t, "expectReply")}
	n.AgentID = rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "agent id")
	if n.AgentID == "" {
		n.AgentID = n.ID.MadeAgentID()
	}
	return n
}

func (m *model) send(t *rapid.T) {
	n := m.draw(t)
	forget := m.now.Add(-modelIDLife)
	before := m.holder(n.Key, n.AgentID)
	conflict := before != nil && !before.CreatedAt.Before(forget)
	err := m.s.Update(t.Context(), func(tx store.Tx) error { return tx.Notifications().Insert(&n, forget) })
	switch {
	case conflict && fault.Is(err, fault.Conflict):
		return
	case conflict || err != nil:
		t.Fatalf("Insert = %v, conflict wanted: %v", err, conflict)
	case n.Seq != m.seq+1:
		t.Fatalf("Seq = %d, want %d", n.Seq, m.seq+1)
	}
	if before != nil {
		before.AgentID = ""
	}
	m.seq++
	m.notes = append(m.notes, n)
	m.sends[n.Key] = append(m.sends[n.Key], n.CreatedAt)
	m.perDay[relay.Day(n.CreatedAt)]++
}

// sendAndFail does much in one Update and takes it all back.
func (m *model) sendAndFail(t *rapid.T) {
	n := m.draw(t)
	n.AgentID = n.ID.MadeAgentID()
	err := m.s.Update(t.Context(), func(tx store.Tx) error {
		if err := tx.Notifications().Insert(&n, m.now.Add(-modelIDLife)); err != nil {
			return err
		}
		if _, err := tx.Notifications().Expire(m.box, m.now, 2); err != nil {
			return err
		}
		if _, err := tx.Notifications().Admission(m.box, n.Key, modelPerKey, m.now); err != nil {
			return err
		}
		return errRefused
	})
	if err != errRefused {
		t.Fatalf("Update = %v", err)
	}
}

func (m *model) save(t *rapid.T) {
	if len(m.notes) == 0 {
		t.Skip("nothing to save")
	}
	n := &m.notes[rapid.IntRange(0, len(m.notes)-1).Draw(t, "index")]
	r := relay.Receipt{Kind: rapid.SampledFrom([]string{relay.KindDisplayed, relay.KindReplied, relay.KindSuppressed}).Draw(t, "kind"),
		Text: rapid.StringMatching(`[a-zäß ]{1,20}x`).Draw(t, "text")}
	changed := *n
	if rapid.Bool().Draw(t, "take the receipt back") {
		changed = relay.Notification{ID: n.ID, Mailbox: n.Mailbox, Key: n.Key, AgentID: n.AgentID, Seq: n.Seq, CreatedAt: n.CreatedAt,
			Payload: n.Payload, ExpectReply: n.ExpectReply}
	} else if _, err := changed.Record(r, m.now); err != nil {
		t.Fatal(err)
	}
	m.update(func(tx store.Tx) error { return tx.Notifications().Save(changed) })
	*n = changed
}

func (m *model) expire(t *rapid.T) {
	limit := rapid.IntRange(1, 4).Draw(t, "limit")
	cutoff := m.now.Add(-time.Duration(rapid.IntRange(0, 30).Draw(t, "hours")) * time.Hour)
	var want []store.Expired
	for i := range m.notes {
		if n := &m.notes[i]; len(want) < limit && n.CreatedAt.Before(cutoff) && n.Expire() {
			want = append(want, store.Expired{Mailbox: m.box, ID: n.ID})
		}
	}
	var got []store.Expired
	box := rapid.SampledFrom([]relay.MailboxID{m.box, ""}).Draw(t, "mailbox")
	m.update(func(tx store.Tx) (err error) {
		got, err = tx.Notifications().Expire(box, cutoff, limit)
		return err
	})
	m.same("expired", got, want)
}

func (m *model) forget(t *rapid.T) {
	limit := rapid.IntRange(1, 4).Draw(t, "limit")
	cutoff := m.now.Add(-time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour)
	want := 0
	for want < min(limit, len(m.notes)) && m.notes[want].CreatedAt.Before(cutoff) {
		want++
	}
	m.notes = m.notes[want:]
	var got int
	m.update(func(tx store.Tx) (err error) {
		got, err = tx.Notifications().Forget(cutoff, limit)
		return err
	})
	m.same("forgotten", got, want)
}

// purge removes a key with all it sent and makes another in its place.
func (m *model) purge(t *rapid.T) {
	i := rapid.IntRange(0, len(m.keys)-1).Draw(t, "key")
	gone := m.keys[i]
	m.update(func(tx store.Tx) error { return tx.Keys().Purge(m.box, gone) })
	m.notes = slices.DeleteFunc(m.notes, func(n relay.Notification) bool { return n.Key == gone })
	delete(m.sends, gone)
	m.keys[i] = m.newKey(fmt.Sprint("key", m.now.UnixMilli(), i))
}

func (m *model) pass(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "minutes")) * time.Minute)
}

// observed is everything the model can say about its mailbox.
type observed struct {
	Waiting       []int64
	Count         int64
	Size          int64
	Today         int64
	Days          map[string]int64
	NthSend       map[relay.KeyID]time.Time
	Notifications []relay.Notification
	Holders       map[string]relay.NotificationID
}

// check is the invariant: all that can be read equals what the model expects.
func (m *model) check(t *rapid.T) {
	m.t = t
	var got observed
	err := m.s.View(t.Context(), func(tx store.Tx) (err error) {
		got, err = m.observe(tx)
		return err
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	m.same("store", got, m.expected())
}

func (m *model) same(what string, got, want any) {
	if d := gocmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		m.t.Fatalf("%s (-model +store):\n%s", what, d)
	}
}

func (m *model) expected() observed {
	o := observed{Days: maps.Clone(m.perDay), Today: m.perDay[relay.Day(m.now)], NthSend: map[relay.KeyID]time.Time{},
		Holders: map[string]relay.NotificationID{}}
	for i := range m.notes {
		n := m.notes[i]
		o.Size += int64(len(n.Payload)+len(n.Text)+len(n.Transcript)) + n.ClipBytes
		if n.Waiting() {
			o.Waiting = append(o.Waiting, n.Seq)
			o.Count++
		}
		if n.AgentID != "" && !n.CreatedAt.Before(m.now.Add(-modelIDLife)) {
			o.Holders[string(n.Key)+n.AgentID] = n.ID
		}
		n.AgentID = ""
		o.Notifications = append(o.Notifications, n)
	}
	for _, k := range m.keys {
		if s := m.sends[k]; len(s) >= modelPerKey {
			if nth := s[len(s)-modelPerKey]; nth.Add(relay.RateWindow).After(m.now) {
				o.NthSend[k] = nth
			}
		}
	}
	return o
}

func (m *model) observe(tx store.Tx) (o observed, err error) {
	notes := tx.Notifications()
	o = observed{Days: map[string]int64{}, NthSend: map[relay.KeyID]time.Time{}, Holders: map[string]relay.NotificationID{}}
	if o.Count, err = notes.CountWaiting(m.box); err != nil {
		return o, err
	}
	if o.Size, err = notes.Size(m.box); err != nil {
		return o, err
	}
	list, err := notes.Waiting(m.box, 0, 1000)
	if err != nil {
		return o, err
	}
	for _, w := range list {
		o.Waiting = append(o.Waiting, w.Seq)
	}
	for day := range m.perDay {
		u, err := tx.Usage().Get(m.box, day)
		if err != nil {
			return o, err
		}
		o.Days[day] = u.Notifications
	}
	if err := m.observeKeys(tx, &o); err != nil {
		return o, err
	}
	return o, m.observeNotes(tx, &o)
}

func (m *model) observeKeys(tx store.Tx, o *observed) error {
	for _, k := range m.keys {
		a, err := tx.Notifications().Admission(m.box, k, modelPerKey, m.now)
		if err != nil {
			return err
		}
		if a.Waiting != o.Count {
			return fmt.Errorf("admission counts %d waiting, CountWaiting %d", a.Waiting, o.Count)
		}
		o.Today = a.Today
		if a.NthSend.Add(relay.RateWindow).After(m.now) {
			o.NthSend[k] = a.NthSend
		}
	}
	return nil
}

func (m *model) observeNotes(tx store.Tx, o *observed) error {
	since := m.now.Add(-modelIDLife)
	for _, want := range m.notes {
		n, err := tx.Notifications().Get(m.box, want.ID)
		if err != nil {
			return fmt.Errorf("get %s: %w", want.ID, err)
		}
		if want.AgentID != "" && !want.CreatedAt.Before(since) {
			holder, err := tx.Notifications().Sent(m.box, want.Key, want.AgentID, since)
			if err != nil {
				return fmt.Errorf("sent %q: %w", want.AgentID, err)
			}
			o.Holders[string(want.Key)+want.AgentID] = holder.ID
		}
		n.AgentID = "" // who holds an id is read through Sent
		o.Notifications = append(o.Notifications, n)
	}
	slices.SortFunc(o.Notifications, func(a, b relay.Notification) int { return cmp.Compare(a.Seq, b.Seq) })
	return nil
}
