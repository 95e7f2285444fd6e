// Package storetest proves that a database adapter keeps every promise of package store: one call to Run is the whole
// suite. It also holds Faulty, a store whose writes fail on demand, with or without having happened.
//
// A subtest is named for the promise it proves. Functions handed to View and Update never end the test themselves: an
// adapter may run them on a goroutine of its own.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Opener returns a fresh, empty store and closes it when the test ends.
type Opener func(t *testing.T) store.Store

// Run proves the contract, each promise on a store of its own.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"transactions", transactionCases}, {"concurrency", concurrencyCases},
		{"people", peopleCases}, {"mailboxes", mailboxCases}, {"devices", deviceCases}, {"keys", keyCases},
		{"notifications", notificationCases}, {"admission", admissionCases}, {"sweeps", sweepCases},
		{"usage", usageCases}, {"pairing", pairingCases}, {"marks", markCases}, {"model", modelCases},
		{"clients", clientCases}, {"consents", consentCases}, {"grants", grantCases}, {"audit", auditCases},
		{"workspaces", workspaceCases}, {"members", memberCases}, {"workspace keys", workspaceKeyCases}, {"entries", entryCases}, {"events", eventCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) { c.run(newFixture(t, open(t))) })
			}
		})
	}
}

type testCase struct {
	name string
	run  func(f *fixture)
}

// t0 is the instant at which every story begins.
var t0 = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

// fixture is a store that holds one person with one mailbox, one owning device and one key.
type fixture struct {
	*testing.T
	store  store.Store
	person relay.PersonID
	box    relay.MailboxID
	device relay.DeviceID
	key    relay.KeyID
}

func newFixture(t *testing.T, s store.Store) *fixture {
	f := &fixture{T: t, store: s}
	f.person = f.addPerson("ada")
	f.box = f.addMailbox(f.person)
	f.device = f.addDevice(f.box, t0)
	f.key = f.addKey(f.box, "agent")
	return f
}

func (f *fixture) update(fn func(tx store.Tx) error) {
	f.Helper()
	if err := f.store.Update(f.Context(), fn); err != nil {
		f.Fatalf("Update: %v", err)
	}
}

// refused runs an Update that must fail with a fault of that kind and, unless empty, code.
func (f *fixture) refused(kind fault.Kind, code string, fn func(tx store.Tx) error) {
	f.Helper()
	f.wantFault(f.store.Update(f.Context(), fn), kind, code)
}

func (f *fixture) wantFault(err error, kind fault.Kind, code string) {
	f.Helper()
	switch {
	case err == nil:
		f.Errorf("error = nil, want a fault of kind %v", kind)
	case !fault.Is(err, kind):
		f.Errorf("error = %v, want a fault of kind %v", err, kind)
	case code != "" && fault.From(err).Code != code:
		f.Errorf("code = %q, want %q", fault.From(err).Code, code)
	}
}

// read returns what fn reads in a View that must succeed.
func read[T any](f *fixture, fn func(tx store.Tx) (T, error)) T {
	f.Helper()
	var v T
	err := f.store.View(f.Context(), func(tx store.Tx) (err error) {
		v, err = fn(tx)
		return err
	})
	if err != nil {
		f.Fatalf("View: %v", err)
	}
	return v
}

// missing runs a View that must fail with NotFound.
func (f *fixture) missing(fn func(tx store.Tx) error) {
	f.Helper()
	f.wantFault(f.store.View(f.Context(), fn), fault.NotFound, "")
}

func (f *fixture) same(what string, got, want any) {
	f.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		f.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (f *fixture) addPerson(name string) relay.PersonID {
	f.Helper()
	p := relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: name, CreatedAt: t0}
	f.update(func(tx store.Tx) error { return tx.People().Create(p) })
	return p.ID
}

func (f *fixture) addMailbox(p relay.PersonID) relay.MailboxID {
	f.Helper()
	m := relay.Mailbox{ID: newMailboxID(), Person: p, Name: "laptop", CreatedAt: t0}
	f.update(func(tx store.Tx) error { return tx.Mailboxes().Create(m) })
	return m.ID
}

func (f *fixture) addDevice(m relay.MailboxID, at time.Time) relay.DeviceID {
	f.Helper()
	d := newDevice(m, at)
	f.update(func(tx store.Tx) error { return tx.Devices().Create(d) })
	return d.ID
}

func (f *fixture) addKey(m relay.MailboxID, name string) relay.KeyID {
	f.Helper()
	k := newKey(m, name)
	f.update(func(tx store.Tx) error { return tx.Keys().Create(k) })
	return k.ID
}

func newMailboxID() relay.MailboxID { return relay.MailboxID(relay.RandomHex(24)) }

func newDevice(m relay.MailboxID, at time.Time) relay.Device {
	return relay.Device{ID: relay.DeviceID(relay.RandomHex(8)), Mailbox: m, TokenHash: newHash(), Name: "laptop", CreatedAt: at}
}

func newKey(m relay.MailboxID, name string) relay.Key {
	return relay.Key{ID: relay.KeyID(relay.RandomHex(4)), Mailbox: m, Hash: newHash(), Name: name, Client: "claude",
		Scope: relay.ScopeNotify, Kind: relay.KindStatic, CreatedAt: t0}
}

func newHash() (h relay.Hash) {
	copy(h[:], relay.RandomHex(len(h)/2))
	return h
}

// note makes a notification of the fixture's key; agentID "" means that the agent sent none.
func (f *fixture) note(agentID string, at time.Time) relay.Notification {
	n := relay.Notification{ID: relay.NewNotificationID(at), Mailbox: f.box, Key: f.key, AgentID: agentID, CreatedAt: at,
		Payload: []byte(`{"title":"build","body":"done"}`), ExpectReply: true}
	if agentID == "" {
		n.AgentID = n.ID.MadeAgentID()
	}
	return n
}

// send inserts a notification and returns it with its Seq.
func (f *fixture) send(n relay.Notification) relay.Notification {
	f.Helper()
	f.update(func(tx store.Tx) error { return insert(tx, &n) })
	return n
}

// insert stores n under the relay's own rule that an agent's id is promised for a day.
func insert(tx store.Tx, n *relay.Notification) error {
	return tx.Notifications().Insert(n, n.CreatedAt.Add(-24*time.Hour))
}

func (f *fixture) get(n relay.Notification) relay.Notification {
	f.Helper()
	return read(f, func(tx store.Tx) (relay.Notification, error) { return tx.Notifications().Get(n.Mailbox, n.ID) })
}

func (f *fixture) save(n relay.Notification) {
	f.Helper()
	f.update(func(tx store.Tx) error { return tx.Notifications().Save(n) })
}

func (f *fixture) countWaiting(m relay.MailboxID) int64 {
	f.Helper()
	return read(f, func(tx store.Tx) (int64, error) { return tx.Notifications().CountWaiting(m) })
}

func (f *fixture) waiting(m relay.MailboxID, after int64, limit int) []store.Waiting {
	f.Helper()
	return read(f, func(tx store.Tx) ([]store.Waiting, error) { return tx.Notifications().Waiting(m, after, limit) })
}

func (f *fixture) canceled() context.Context {
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	return ctx
}
