package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

func (f *fixture) mailbox() relay.Mailbox {
	f.Helper()
	return read(f, func(tx store.Tx) (relay.Mailbox, error) { return tx.Mailboxes().Get(f.box) })
}

func (f *fixture) activeKeys() int {
	f.Helper()
	return read(f, func(tx store.Tx) (int, error) { return tx.Keys().CountActive(f.box) })
}

var peopleCases = []testCase{
	{"what was created is listed, oldest first, and found by name", func(f *fixture) {
		younger := relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: "zoe", CreatedAt: t0.Add(2 * time.Hour)}
		older := relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: "bob", CreatedAt: t0.Add(time.Hour)}
		f.update(func(tx store.Tx) error { return tx.People().Create(older) })
		f.update(func(tx store.Tx) error { return tx.People().Create(younger) })
		list := read(f, func(tx store.Tx) ([]relay.Person, error) { return tx.People().List() })
		f.same("people", list, []relay.Person{{ID: f.person, Name: "ada", CreatedAt: t0}, older, younger})
		f.same("zoe", read(f, func(tx store.Tx) (relay.Person, error) { return tx.People().ByName("zoe") }), younger)
	}},
	{"a name belongs to one", func(f *fixture) {
		p := relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: "ada", CreatedAt: t0}
		f.refused(fault.Conflict, "name_taken", func(tx store.Tx) error { return tx.People().Create(p) })
	}},
	{"an id belongs to one", func(f *fixture) {
		p := relay.Person{ID: f.person, Name: "eve", CreatedAt: t0}
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.People().Create(p) })
	}},
	{"an unknown name is not found", func(f *fixture) {
		f.missing(func(tx store.Tx) error { _, err := tx.People().ByName("nobody"); return err })
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.People().Delete("00000000000000ff") })
	}},
	{"deleting a person removes all that hangs on them and nothing else", func(f *fixture) {
		f.send(f.note("", t0))
		other := f.addPerson("bob")
		otherBox := f.addMailbox(other)
		code := relay.PairCode{Hash: newHash(), Person: f.person, CreatedAt: t0, ExpiresAt: t0.Add(time.Minute)}
		f.update(func(tx store.Tx) error { return tx.Pairing().Create(code) })
		f.update(func(tx store.Tx) error { return tx.People().Delete(f.person) })
		f.nothingLeftOf(f.box)
		f.refused(fault.NotFound, "", func(tx store.Tx) error { _, err := tx.Pairing().Take(code.Hash, t0); return err })
		f.missing(func(tx store.Tx) error { _, err := tx.People().ByName("ada"); return err })
		got := read(f, func(tx store.Tx) ([]relay.Mailbox, error) { return tx.Mailboxes().List(other) })
		if len(got) != 1 || got[0].ID != otherBox {
			f.Errorf("the other person's mailboxes = %v", got)
		}
	}},
}

// nothingLeftOf looks for whatever a removed mailbox might have left behind.
func (f *fixture) nothingLeftOf(m relay.MailboxID) {
	f.Helper()
	f.missing(func(tx store.Tx) error { _, err := tx.Mailboxes().Get(m); return err })
	err := f.store.View(f.Context(), func(tx store.Tx) error {
		devices, err1 := tx.Devices().List(m)
		keys, err2 := tx.Keys().List(m)
		waiting, err3 := tx.Notifications().Waiting(m, 0, 100)
		size, err4 := tx.Notifications().Size(m)
		count, err5 := tx.Notifications().CountWaiting(m)
		usage, err6 := tx.Usage().Get(m, relay.Day(t0))
		for _, err := range []error{err1, err2, err3, err4, err5, err6} {
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		if n := len(devices) + len(keys) + len(waiting) + int(size) + int(count); n != 0 || usage != (relay.Usage{}) {
			return fmt.Errorf("left behind: %v %v %v %v %v %v", devices, keys, waiting, size, count, usage)
		}
		return nil
	})
	if err != nil {
		f.Error(err)
	}
}

var mailboxCases = []testCase{
	{"what was created is read back", func(f *fixture) {
		m := relay.Mailbox{ID: newMailboxID(), Person: f.person, Name: "Studio \u2019s \"Mac\"", CreatedAt: t0.Add(1234567 * time.Microsecond),
			LastSeenAt: t0.Add(time.Hour), State: relay.State{QuietActive: true, QuietUntil: "07:30", Muted: true}}
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Create(m) })
		m.CreatedAt = relay.Millis(m.CreatedAt)
		f.same("mailbox", read(f, func(tx store.Tx) (relay.Mailbox, error) { return tx.Mailboxes().Get(m.ID) }), m)
		list := read(f, func(tx store.Tx) ([]relay.Mailbox, error) { return tx.Mailboxes().List(f.person) })
		f.same("list, oldest first", list, []relay.Mailbox{f.mailbox(), m})
	}},
	{"an id belongs to one", func(f *fixture) {
		m := f.mailbox()
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Mailboxes().Create(m) })
	}},
	{"an unknown id is not found", func(f *fixture) {
		f.missing(func(tx store.Tx) error { _, err := tx.Mailboxes().Get(newMailboxID()); return err })
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Mailboxes().SetState(newMailboxID(), relay.State{}) })
	}},
	{"state is overwritten whole", func(f *fixture) {
		for _, st := range []relay.State{{QuietActive: true, QuietUntil: "22:00", Muted: true}, {Muted: true}, {}} {
			f.update(func(tx store.Tx) error { return tx.Mailboxes().SetState(f.box, st) })
			f.same("state", f.mailbox().State, st)
		}
	}},
	{"deleting removes all that hangs on it and nothing else", func(f *fixture) {
		other := f.addMailbox(f.person)
		f.addKey(other, "agent")
		for range 3 {
			f.send(f.note("", t0))
		}
		link := relay.PairCode{Hash: newHash(), Person: f.person, Mailbox: f.box, CreatedAt: t0, ExpiresAt: t0.Add(time.Minute)}
		f.update(func(tx store.Tx) error { return tx.Pairing().Create(link) })
		f.update(func(tx store.Tx) error { return tx.Usage().Add(f.box, relay.Day(t0), relay.Usage{Requests: 4}) })
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Delete(f.box) })
		f.nothingLeftOf(f.box)
		f.refused(fault.NotFound, "", func(tx store.Tx) error { _, err := tx.Pairing().Take(link.Hash, t0); return err })
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Delete(f.box) }) // absent is no error
		keys := read(f, func(tx store.Tx) ([]relay.Key, error) { return tx.Keys().List(other) })
		f.same("keys of the other mailbox", len(keys), 1)
	}},
	{"a mailbox made again under the same id starts anew", func(f *fixture) {
		f.send(f.note("once", t0))
		m := f.mailbox()
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Delete(f.box) })
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Create(m) })
		k := newKey(f.box, "agent")
		k.ID = f.key
		f.update(func(tx store.Tx) error { return tx.Keys().Create(k) })
		a := f.admission(1, t0)
		f.same("admission", a, relay.Admission{})
		if n := f.send(f.note("once", t0)); n.Seq != 1 {
			f.Errorf("Seq = %d, want 1", n.Seq)
		}
	}},
	{"Idle returns those last seen, or made, before the cutoff", func(f *fixture) {
		now := t0.Add(40 * 24 * time.Hour)
		make := func(created, seen time.Time) relay.MailboxID {
			m := relay.Mailbox{ID: newMailboxID(), Person: f.person, CreatedAt: created, LastSeenAt: seen}
			f.update(func(tx store.Tx) error { return tx.Mailboxes().Create(m) })
			return m.ID
		}
		seenLong := make(t0, t0.Add(time.Hour))
		make(t0, now)          // seen lately
		make(now, time.Time{}) // made lately
		idle := func(limit int) (ids []relay.MailboxID) {
			list := read(f, func(tx store.Tx) ([]relay.Mailbox, error) { return tx.Mailboxes().Idle(now.Add(-time.Hour), limit) })
			for _, m := range list {
				ids = append(ids, m.ID)
			}
			slices.Sort(ids)
			return ids
		}
		want := []relay.MailboxID{f.box, seenLong}
		slices.Sort(want)
		f.same("idle", idle(10), want)
		f.same("bounded", len(idle(1)), 1)
	}},
}

func (f *fixture) devices() []relay.Device {
	f.Helper()
	return read(f, func(tx store.Tx) ([]relay.Device, error) { return tx.Devices().List(f.box) })
}

func (f *fixture) onlyDevice() relay.Device {
	f.Helper()
	list := f.devices()
	if len(list) != 1 {
		f.Fatalf("devices = %v, want one", list)
	}
	return list[0]
}

var deviceCases = []testCase{
	{"what was created is listed, oldest first", func(f *fixture) {
		third, second := newDevice(f.box, t0.Add(2*time.Hour)), newDevice(f.box, t0.Add(time.Hour))
		second.Owner, second.LastSeenAt, second.Stream = true, t0.Add(3*time.Hour), "s1"
		f.update(func(tx store.Tx) error { return tx.Devices().Create(second) })
		f.update(func(tx store.Tx) error { return tx.Devices().Create(third) })
		f.same("devices", f.devices()[1:], []relay.Device{second, third})
		f.same("the first", f.devices()[0].ID, f.device)
	}},
	{"an unknown mailbox has none", func(f *fixture) {
		list := read(f, func(tx store.Tx) ([]relay.Device, error) { return tx.Devices().List(newMailboxID()) })
		f.same("devices", len(list), 0)
	}},
	{"an id belongs to one of the mailbox", func(f *fixture) {
		d := f.onlyDevice()
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Devices().Create(d) })
	}},
	{"Heard moves the device and its mailbox forward, never back", func(f *fixture) {
		at := t0.Add(time.Hour)
		for _, heard := range []time.Time{at, at.Add(-30 * time.Minute), at.Add(-2 * time.Hour)} {
			f.update(func(tx store.Tx) error { return tx.Devices().Heard(f.box, f.device, heard) })
			f.same("device", f.onlyDevice().LastSeenAt, at)
			f.same("mailbox", f.mailbox().LastSeenAt, at)
		}
	}},
	{"OpenStream replaces, and counts as heard", func(f *fixture) {
		f.update(func(tx store.Tx) error { return tx.Devices().OpenStream(f.box, f.device, "a", t0.Add(time.Minute)) })
		f.update(func(tx store.Tx) error { return tx.Devices().OpenStream(f.box, f.device, "b", t0) })
		d := f.onlyDevice()
		f.same("stream", d.Stream, "b")
		f.same("last seen", d.LastSeenAt, t0.Add(time.Minute))
		f.same("mailbox", f.mailbox().LastSeenAt, t0.Add(time.Minute))
	}},
	{"CloseStream forgets its own stream only", func(f *fixture) {
		f.update(func(tx store.Tx) error { return tx.Devices().OpenStream(f.box, f.device, "old", t0) })
		f.update(func(tx store.Tx) error { return tx.Devices().OpenStream(f.box, f.device, "new", t0) })
		f.update(func(tx store.Tx) error { return tx.Devices().CloseStream(f.box, f.device, "old", t0) })
		f.same("stream after the old one closed", f.onlyDevice().Stream, "new")
		f.update(func(tx store.Tx) error { return tx.Devices().CloseStream(f.box, f.device, "new", t0) })
		f.same("stream after it closed", f.onlyDevice().Stream, "")
	}},
	{"a device that is gone is not found, and may be removed and closed again", func(f *fixture) {
		f.update(func(tx store.Tx) error { return tx.Devices().Delete(f.box, f.device) })
		f.same("devices", len(f.devices()), 0)
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Devices().Heard(f.box, f.device, t0) })
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Devices().OpenStream(f.box, f.device, "s", t0) })
		f.update(func(tx store.Tx) error { return tx.Devices().Delete(f.box, f.device) })
		f.update(func(tx store.Tx) error { return tx.Devices().CloseStream(f.box, f.device, "s", t0) })
	}},
	{"a device is reached through its own mailbox only", func(f *fixture) {
		other := f.addMailbox(f.person)
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Devices().Heard(other, f.device, t0) })
		f.update(func(tx store.Tx) error { return tx.Devices().Delete(other, f.device) })
		f.same("devices", len(f.devices()), 1)
	}},
}

func (f *fixture) getKey(id relay.KeyID) relay.Key {
	f.Helper()
	return read(f, func(tx store.Tx) (relay.Key, error) { return tx.Keys().Get(f.box, id) })
}

var keyCases = []testCase{
	{"what was created is read back and listed, oldest first", func(f *fixture) {
		k := newKey(f.box, "connector")
		k.Kind, k.DisplayName, k.Hash, k.CreatedAt, k.LastUsedAt = relay.KindOAuth, "Some App", relay.Hash{}, t0.Add(time.Hour), t0.Add(2*time.Hour)
		revoked := newKey(f.box, "old")
		revoked.RevokedAt, revoked.CreatedAt = t0.Add(time.Minute), t0.Add(3*time.Hour)
		f.update(func(tx store.Tx) error { return tx.Keys().Create(k) })
		f.update(func(tx store.Tx) error { return tx.Keys().Create(revoked) })
		f.same("key", f.getKey(k.ID), k)
		list := read(f, func(tx store.Tx) ([]relay.Key, error) { return tx.Keys().List(f.box) })
		f.same("list", list, []relay.Key{f.getKey(f.key), k, revoked})
		f.same("active", f.activeKeys(), 2)
	}},
	{"a name belongs to one active key of a mailbox", func(f *fixture) {
		f.refused(fault.Conflict, "name_taken", func(tx store.Tx) error { return tx.Keys().Create(newKey(f.box, "agent")) })
		f.addKey(f.addMailbox(f.person), "agent")
		f.update(func(tx store.Tx) error { return tx.Keys().Revoke(f.box, f.key, t0) })
		f.addKey(f.box, "agent")
		f.same("active", f.activeKeys(), 1)
	}},
	{"an id belongs to one of the mailbox", func(f *fixture) {
		k := newKey(f.box, "other")
		k.ID = f.key
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Keys().Create(k) })
		k.Mailbox = f.addMailbox(f.person)
		f.update(func(tx store.Tx) error { return tx.Keys().Create(k) })
	}},
	{"a key is found in its own mailbox only", func(f *fixture) {
		other := f.addMailbox(f.person)
		f.missing(func(tx store.Tx) error { _, err := tx.Keys().Get(other, f.key); return err })
		f.missing(func(tx store.Tx) error { _, err := tx.Keys().Get(newMailboxID(), f.key); return err })
	}},
	{"a key for a mailbox that is gone is refused", func(f *fixture) {
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Delete(f.box) })
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Keys().Create(newKey(f.box, "late")) })
	}},
	{"the first revocation stays", func(f *fixture) {
		f.update(func(tx store.Tx) error { return tx.Keys().Revoke(f.box, f.key, t0.Add(time.Minute)) })
		f.update(func(tx store.Tx) error { return tx.Keys().Revoke(f.box, f.key, t0.Add(time.Hour)) })
		f.same("revoked", f.getKey(f.key).RevokedAt, t0.Add(time.Minute))
		f.same("active", f.activeKeys(), 0)
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Keys().Revoke(f.box, "00000000", t0) })
	}},
	{"Touch dates the last use", func(f *fixture) {
		f.update(func(tx store.Tx) error { return tx.Keys().Touch(f.box, f.key, t0.Add(time.Hour)) })
		f.same("last used", f.getKey(f.key).LastUsedAt, t0.Add(time.Hour))
		f.update(func(tx store.Tx) error { return tx.Keys().Touch(f.box, "00000000", t0) })
	}},
	{"Purge removes the key and all it sent, waiting or not", func(f *fixture) {
		mine := f.send(f.note("a", t0))
		acked := f.send(f.note("b", t0))
		acked.Acknowledge(t0)
		f.save(acked)
		other := f.note("c", t0)
		other.Key = f.addKey(f.box, "other")
		other = f.send(other)
		f.update(func(tx store.Tx) error { return tx.Keys().Purge(f.box, f.key) })
		for _, n := range []relay.Notification{mine, acked} {
			f.missing(func(tx store.Tx) error { _, err := tx.Notifications().Get(f.box, n.ID); return err })
		}
		f.missing(func(tx store.Tx) error { _, err := tx.Keys().Get(f.box, f.key); return err })
		f.same("waiting", f.countWaiting(f.box), int64(1))
		f.same("the other key's", f.get(other), other)
		f.same("size", f.size(f.box), int64(len(other.Payload)))
		f.same("today still counts them", f.admission(100, t0).Today, int64(3))
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Keys().Purge(f.box, f.key) })
	}},
}
