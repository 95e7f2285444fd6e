package storetest

import (
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

func (f *fixture) size(m relay.MailboxID) int64 {
	f.Helper()
	return read(f, func(tx store.Tx) (int64, error) { return tx.Notifications().Size(m) })
}

func (f *fixture) sent(agentID string, since time.Time) (relay.Notification, error) {
	f.Helper()
	var n relay.Notification
	err := f.store.View(f.Context(), func(tx store.Tx) (err error) {
		n, err = tx.Notifications().Sent(f.box, f.key, agentID, since)
		return err
	})
	return n, err
}

func (f *fixture) wantSent(agentID string, since time.Time, want relay.Notification) {
	f.Helper()
	got, err := f.sent(agentID, since)
	if err != nil {
		f.Errorf("Sent(%q) = %v", agentID, err)
	}
	f.same("Sent "+agentID, got.ID, want.ID)
}

// answered returns n with every field of its receipt filled.
func answered(n relay.Notification) relay.Notification {
	n.AckedAt, n.DisplayedAt, n.SpokenAt, n.RepliedAt = t0.Add(1*time.Second), t0.Add(2*time.Second), t0.Add(3*time.Second), t0.Add(4*time.Second)
	n.Text, n.Transcript, n.Duration = "yes, \u201cship\u201d it \U0001F680", "ja, schick'es; --", new(2.25)
	n.ClipBytes, n.ClipType = 53210, "audio/mp4"
	n.Suppressed, n.Reason, n.Scope = true, "quiet-hours", relay.ScopeSpeech
	return n
}

var notificationCases = []testCase{
	{"what was inserted is read back", func(f *fixture) {
		n := f.note("deploy/42 \u00fc", t0.Add(1500*time.Microsecond))
		n.Payload, n.ExpectReply = []byte(`{"b":"\u0000<&>","a":1.50,"b2":[ ]}`), false
		n = f.send(n)
		n.CreatedAt = relay.Millis(n.CreatedAt)
		f.same("notification", f.get(n), n)
	}},
	{"one inserted with its receipt filled is read back and counted", func(f *fixture) {
		n := f.send(answered(f.note("", t0)))
		f.same("notification", f.get(n), n)
		f.same("waiting", f.countWaiting(f.box), int64(0))
		f.same("size", f.size(f.box), int64(len(n.Payload)+len(n.Text)+len(n.Transcript))+n.ClipBytes)
	}},
	{"Save stores the whole receipt and nothing else", func(f *fixture) {
		n := f.send(f.note("x", t0))
		full := answered(n)
		other := full
		other.Payload, other.AgentID, other.Seq, other.CreatedAt, other.ExpectReply = []byte(`{}`), "y", 99, t0.Add(time.Hour), false
		f.save(other)
		f.same("receipt", f.get(n), full)
		f.same("waiting", f.countWaiting(f.box), int64(0))
		f.save(n) // and back
		f.same("emptied", f.get(n), n)
		f.same("waiting again", f.countWaiting(f.box), int64(1))
		f.same("listed again", len(f.waiting(f.box, 0, 5)), 1)
	}},
	{"Save knows zero from absent", func(f *fixture) {
		n := f.send(f.note("", t0))
		n.Duration = new(0.0)
		f.save(n)
		f.same("duration", f.get(n).Duration, new(0.0))
	}},
	{"unknown ids are not found", func(f *fixture) {
		n := f.send(f.note("", t0))
		f.missing(func(tx store.Tx) error {
			_, err := tx.Notifications().Get(f.box, relay.NewNotificationID(t0))
			return err
		})
		other := f.addMailbox(f.person)
		f.missing(func(tx store.Tx) error { _, err := tx.Notifications().Get(other, n.ID); return err })
		stray := n
		stray.Mailbox = other
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Notifications().Save(stray) })
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Notifications().Save(f.note("", t0)) })
	}},
	{"one for a mailbox that is gone is refused", func(f *fixture) {
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Delete(f.box) })
		n := f.note("", t0)
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return insert(tx, &n) })
	}},
	{"an id belongs to one", func(f *fixture) {
		n := f.send(f.note("", t0))
		twin := f.note("twin", t0)
		twin.ID = n.ID
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return insert(tx, &twin) })
		f.same("the first", f.get(n), n)
		f.same("waiting", f.countWaiting(f.box), int64(1))
	}},
	{"Seq counts 1, 2, 3 in each mailbox, without reuse", func(f *fixture) {
		other := f.note("", t0)
		other.Mailbox = f.addMailbox(f.person)
		for want := int64(1); want <= 3; want++ {
			if n := f.send(f.note("", t0)); n.Seq != want {
				f.Errorf("Seq = %d, want %d", n.Seq, want)
			}
		}
		f.same("the other mailbox begins at", f.send(other).Seq, int64(1))
		f.update(func(tx store.Tx) error { return tx.Keys().Purge(f.box, f.key) })
		f.same("after all were removed", f.send(f.note("", t0)).Seq, int64(4))
	}},
	{"an AgentID is found by its key, since a time", func(f *fixture) {
		n := f.send(f.note("deploy", t0))
		f.wantSent("deploy", t0, n)
		for name, err := range map[string]error{
			"later":       second(f.sent("deploy", t0.Add(time.Millisecond))),
			"unknown":     second(f.sent("deplo", t0)),
			"other case":  second(f.sent("DEPLOY", t0)),
			"made id":     second(f.sent(n.ID.MadeAgentID(), t0)),
			"other shape": second(f.sent("n_123", t0)),
		} {
			if !fault.Is(err, fault.NotFound) {
				f.Errorf("%s: %v, want not found", name, err)
			}
		}
		f.key = f.addKey(f.box, "other")
		if _, err := f.sent("deploy", t0); !fault.Is(err, fault.NotFound) {
			f.Errorf("another key: %v, want not found", err)
		}
	}},
	{"a made AgentID is found through the relay's id", func(f *fixture) {
		n := f.send(f.note("", t0))
		f.wantSent(n.AgentID, t0, n)
		if _, err := f.sent(n.AgentID, t0.Add(time.Millisecond)); !fault.Is(err, fault.NotFound) {
			f.Errorf("since later: %v, want not found", err)
		}
		f.same("AgentID", f.get(n).AgentID, n.ID.MadeAgentID())
		f.key = f.addKey(f.box, "other")
		if _, err := f.sent(n.AgentID, t0); !fault.Is(err, fault.NotFound) {
			f.Errorf("another key: %v, want not found", err)
		}
	}},
	{"a made AgentID that the agent sends itself is taken", func(f *fixture) {
		n := f.send(f.note("", t0))
		again := f.note(n.AgentID, t0.Add(time.Hour))
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Notifications().Insert(&again, t0) })
	}},
	{"an AgentID past its time passes to the next that asks", func(f *fixture) {
		for name, agentID := range map[string]string{"sent": "nightly", "made": ""} {
			old := f.send(f.note(agentID, t0))
			young := f.note(old.AgentID, t0.Add(25*time.Hour))
			young = f.send(young)
			f.wantSent(old.AgentID, t0, young)
			if got := f.get(old); got.ID != old.ID || got.Seq != old.Seq {
				f.Errorf("%s: the old one reads %+v", name, got)
			}
		}
	}},
	{"an AgentID within its time is a conflict", func(f *fixture) {
		first := f.send(f.note("nightly", t0))
		next := f.note("nightly", t0.Add(time.Hour))
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Notifications().Insert(&next, t0) })
		f.wantSent("nightly", t0, first)
		f.same("waiting", f.countWaiting(f.box), int64(1))
		next.Key = f.addKey(f.box, "other") // another key may use it
		f.send(next)
	}},
	{"Waiting lists in order of Seq, after a place, bounded", func(f *fixture) {
		var all []relay.Notification
		for i := range 6 {
			all = append(all, f.send(f.note("", t0.Add(-time.Duration(i)*time.Minute)))) // dates run backwards, Seq does not
		}
		all[1].Acknowledge(t0)
		f.save(all[1])
		all[3].DisplayedAt = t0
		f.save(all[3])
		seqs := func(after int64, limit int) (s []int64) {
			for _, w := range f.waiting(f.box, after, limit) {
				s = append(s, w.Seq)
			}
			return s
		}
		f.same("all", seqs(0, 10), []int64{1, 3, 5, 6})
		f.same("first two", seqs(0, 2), []int64{1, 3})
		f.same("after 3", seqs(3, 10), []int64{5, 6})
		f.same("after the last", seqs(6, 10), []int64(nil))
		f.same("content", f.waiting(f.box, 0, 1)[0].Notification, all[0])
	}},
	{"Waiting names the sender while its key is there", func(f *fixture) {
		f.send(f.note("", t0))
		stray := f.note("", t0)
		stray.Key = "0badcafe"
		f.send(stray)
		list := f.waiting(f.box, 0, 10)
		f.same("senders", []string{list[0].KeyName, list[0].KeyClient, list[1].KeyName, list[1].KeyClient},
			[]string{"agent", "claude", "unknown", "other"})
	}},
	{"Size sums payloads, replies and clips", func(f *fixture) {
		a, b := f.send(f.note("", t0)), f.send(f.note("", t0))
		f.same("payloads", f.size(f.box), int64(len(a.Payload)+len(b.Payload)))
		b.Text, b.Transcript, b.ClipBytes = "grüß", "hello", 1000
		f.save(b)
		f.same("with a reply", f.size(f.box), int64(len(a.Payload)+len(b.Payload)+len(b.Text)+len(b.Transcript)+1000))
		f.same("an empty mailbox", f.size(f.addMailbox(f.person)), int64(0))
	}},
}

func second(_ relay.Notification, err error) error { return err }

func (f *fixture) admission(perKey int, now time.Time) relay.Admission {
	f.Helper()
	return read(f, func(tx store.Tx) (relay.Admission, error) {
		return tx.Notifications().Admission(f.box, f.key, perKey, now)
	})
}

// wantRate checks what AdmitRate would make of the answer: nth is the send that holds the key back, zero when none does.
// An adapter may forget or report sends that have left the window.
func (f *fixture) wantRate(what string, a relay.Admission, now, nth time.Time) {
	f.Helper()
	got := a.NthSend
	if !got.IsZero() && !got.Add(relay.RateWindow).After(now) {
		got = time.Time{}
	}
	if !got.Equal(nth) {
		f.Errorf("%s: NthSend = %v, want %v", what, a.NthSend, nth)
	}
}

var admissionCases = []testCase{
	{"NthSend is the key's n-th most recent send", func(f *fixture) {
		var at []time.Time
		for i := range 5 {
			at = append(at, t0.Add(time.Duration(i)*time.Minute+time.Duration(i)*time.Millisecond))
			f.send(f.note("", at[i]))
		}
		now := at[4]
		for perKey := 1; perKey <= 5; perKey++ {
			f.wantRate("within", f.admission(perKey, now), now, at[5-perKey])
		}
		f.wantRate("fewer sent", f.admission(6, now), now, time.Time{})
		f.wantRate("a billion allowed", f.admission(1_000_000_000, now), now, time.Time{})
		gone := at[0].Add(relay.RateWindow)
		f.wantRate("just inside the window", f.admission(5, gone.Add(-time.Millisecond)), gone.Add(-time.Millisecond), at[0])
		f.wantRate("just outside", f.admission(5, gone), gone, time.Time{})
		f.wantRate("the next is still inside", f.admission(4, gone), gone, at[1])
	}},
	{"several sends in one millisecond count each", func(f *fixture) {
		for range 3 {
			f.send(f.note("", t0))
		}
		f.wantRate("third", f.admission(3, t0), t0, t0)
		f.wantRate("fourth", f.admission(4, t0), t0, time.Time{})
	}},
	{"a raised limit sees the sends a lower one did not need", func(f *fixture) {
		for i := range 8 {
			f.send(f.note("", t0.Add(time.Duration(i)*time.Second)))
		}
		now := t0.Add(time.Minute)
		f.wantRate("two", f.admission(2, now), now, t0.Add(6*time.Second))
		f.wantRate("eight", f.admission(8, now), now, t0)
	}},
	{"it is exact inside an Update and forgets what was rolled back", func(f *fixture) {
		var inside relay.Admission
		f.send(f.note("", t0))
		err := f.store.Update(f.Context(), func(tx store.Tx) (err error) {
			for i := range 3 {
				n := f.note("", t0.Add(time.Duration(i+1)*time.Second))
				if err := insert(tx, &n); err != nil {
					return err
				}
			}
			if inside, err = tx.Notifications().Admission(f.box, f.key, 4, t0.Add(5*time.Second)); err != nil {
				return err
			}
			return errRefused
		})
		if err != errRefused {
			f.Fatal(err)
		}
		now := t0.Add(5 * time.Second)
		f.wantRate("inside", inside, now, t0)
		f.same("inside", []int64{inside.Today, inside.Waiting}, []int64{4, 4})
		after := f.admission(2, now)
		f.wantRate("after", after, now, time.Time{})
		f.same("after", []int64{after.Today, after.Waiting}, []int64{1, 1})
	}},
	{"the rate is a key's own, day and queue are the mailbox's", func(f *fixture) {
		f.send(f.note("", t0))
		f.key = f.addKey(f.box, "other")
		a := f.admission(1, t0)
		f.wantRate("the other key", a, t0, time.Time{})
		f.same("mailbox", []int64{a.Today, a.Waiting}, []int64{1, 1})
		f.box, f.key = f.addMailbox(f.person), f.addKey(f.box, "third")
		f.same("another mailbox", f.admission(1, t0), relay.Admission{})
	}},
	{"Today counts the UTC day of now", func(f *fixture) {
		midnight := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
		f.send(f.note("", midnight.Add(-time.Millisecond)))
		f.send(f.note("", midnight.Add(-time.Hour)))
		f.same("that day", f.admission(9, midnight.Add(-time.Millisecond)).Today, int64(2))
		f.same("the next", f.admission(9, midnight).Today, int64(0))
		f.send(f.note("", midnight))
		f.same("one sent", f.admission(9, midnight).Today, int64(1))
		f.same("the day before is still known", f.admission(9, midnight.Add(-1)).Today, int64(2))
	}},
	{"Waiting follows what becomes of the notifications", func(f *fixture) {
		a, b := f.send(f.note("", t0)), f.send(f.note("", t0))
		f.same("two", f.admission(9, t0).Waiting, int64(2))
		a.Acknowledge(t0)
		f.save(a)
		f.same("one", f.admission(9, t0).Waiting, int64(1))
		b.Suppressed, b.Reason, b.Scope = true, "busy", relay.ScopeAll
		f.save(b)
		f.same("none", f.admission(9, t0).Waiting, int64(0))
	}},
	{"a clock set back an hour neither blocks the key nor opens its limit", func(f *fixture) {
		limits := relay.AdmissionLimits{PerKey: 3, PerDay: 100, Queue: 100}
		for i := range 3 {
			f.send(f.note("", t0.Add(time.Duration(i)*time.Second)))
		}
		back := t0.Add(-time.Hour)
		for i := range 3 {
			if err := f.admitAndInsert(limits, back.Add(time.Duration(i)*time.Second)); err != nil {
				f.Fatalf("send %d after the clock was set back: %v", i, err)
			}
		}
		now := back.Add(time.Minute)
		f.wantRate("limit reached", f.admission(3, now), now, back)
		f.wantFault(f.admitAndInsert(limits, now), fault.Exhausted, "rate_limited")
		list := f.waiting(f.box, 0, 10)
		f.same("the order is that of arrival", []int64{list[0].Seq, list[5].Seq}, []int64{1, 6})
	}},
	{"a clock set back over midnight keeps both days' counts", func(f *fixture) {
		midnight := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
		before, after := midnight.Add(-time.Minute), midnight.Add(time.Minute)
		for _, at := range []time.Time{before, after, before, after, before} {
			f.send(f.note("", at))
		}
		f.same("before", f.admission(9, before).Today, int64(3))
		f.same("after", f.admission(9, after).Today, int64(2))
		for at, want := range map[time.Time]int64{before: 3, after: 2} {
			u := read(f, func(tx store.Tx) (relay.Usage, error) { return tx.Usage().Get(f.box, relay.Day(at)) })
			f.same("usage", u.Notifications, want)
		}
	}},
	{"a mailbox that is gone is not found", func(f *fixture) {
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Delete(f.box) })
		f.missing(func(tx store.Tx) error { _, err := tx.Notifications().Admission(f.box, f.key, 1, t0); return err })
	}},
}
