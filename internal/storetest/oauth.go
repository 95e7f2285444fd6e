package storetest

import (
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

func newClient(at time.Time) relay.Client {
	return relay.Client{ID: relay.NewClientID(), Name: "Ünïcode “app”", Redirects: []string{"https://a.example/cb", "cursor://x/y"},
		AuthMethod: relay.AuthBasic, SecretHash: newHash(), CreatedAt: at}
}

func (f *fixture) put(c relay.Client) {
	f.Helper()
	f.update(func(tx store.Tx) error { return tx.Clients().Put(c) })
}

func (f *fixture) client(id relay.ClientID) relay.Client {
	f.Helper()
	return read(f, func(tx store.Tx) (relay.Client, error) { return tx.Clients().Get(id) })
}

var clientCases = []testCase{
	{"what was put is read back, overwritten but for its birth", func(f *fixture) {
		c := newClient(t0)
		f.put(c)
		f.same("client", f.client(c.ID), c)
		again := relay.Client{ID: c.ID, Name: "other", AuthMethod: relay.AuthNone, CreatedAt: t0.Add(time.Hour), FreshUntil: t0.Add(2 * time.Hour)}
		f.put(again)
		again.CreatedAt = t0
		f.same("client", f.client(c.ID), again)
		f.missing(func(tx store.Tx) error { _, err := tx.Clients().Get(relay.NewClientID()); return err })
	}},
	{"the newest are kept, and those that hold a grant or wait", func(f *fixture) {
		var all []relay.Client
		for i := range 6 {
			c := newClient(t0.Add(time.Duration(-i) * time.Hour)) // the order of arrival counts, not the clock's
			all = append(all, c)
			f.put(c)
		}
		document := relay.Client{ID: "https://app.example/client.json", Name: "d", AuthMethod: relay.AuthNone, CreatedAt: t0}
		f.put(document)
		f.grant(f.connector("holder"), all[0].ID)
		waits := f.consent(t0)
		waits.Client = all[1].ID
		f.update(func(tx store.Tx) error { return tx.Consents().Create(waits) })
		f.same("removed", f.trim(false, 2, 1), 1)
		f.same("removed", f.trim(false, 2, 10), 1)
		f.same("removed", f.trim(false, 2, 10), 0)
		f.same("documents removed", f.trim(true, 1, 10), 0)
		for i, c := range all {
			err := f.store.View(f.Context(), func(tx store.Tx) error { _, err := tx.Clients().Get(c.ID); return err })
			if gone := fault.Is(err, fault.NotFound); gone != (i == 2 || i == 3) {
				f.Errorf("client %d gone = %v", i, gone)
			}
		}
	}},
}

func (f *fixture) trim(documents bool, keep, limit int) (n int) {
	f.Helper()
	f.update(func(tx store.Tx) (err error) {
		n, err = tx.Clients().Trim(documents, keep, limit)
		return err
	})
	return n
}

func (f *fixture) consent(at time.Time) relay.Consent {
	return relay.Consent{ID: relay.NewConsentID(f.box), Client: relay.NewClientID(), ClientName: "An app", Flow: relay.FlowDevice,
		Scopes: relay.Scopes{"a", "b"}, Status: relay.Pending, Code: "012345", UserCode: relay.NewUserCode(), Secret: newHash(),
		Redirect: "https://a.example/cb", State: "st äte", Challenge: "ch", Issuer: "https://r.example", Resource: "https://r.example/mcp",
		Interval: 5 * time.Second, CreatedAt: at, ExpiresAt: at.Add(relay.ConsentLife)}
}

func (f *fixture) ask(c relay.Consent) relay.Consent {
	f.Helper()
	f.update(func(tx store.Tx) error { return tx.Consents().Create(c) })
	return c
}

func (f *fixture) asked(id relay.ConsentID) relay.Consent {
	f.Helper()
	return read(f, func(tx store.Tx) (relay.Consent, error) { return tx.Consents().Get(id) })
}

var consentCases = []testCase{
	{"what was created is read back, by id, secret and user code", func(f *fixture) {
		c := f.ask(f.consent(t0))
		f.same("by id", f.asked(c.ID), c)
		f.same("by secret", read(f, func(tx store.Tx) (relay.Consent, error) { return tx.Consents().BySecret(f.box, c.Secret) }), c)
		f.same("by user code", read(f, func(tx store.Tx) (relay.Consent, error) { return tx.Consents().ByUserCode(c.UserCode) }), c)
		f.missing(func(tx store.Tx) error { _, err := tx.Consents().BySecret(newMailboxID(), c.Secret); return err })
		f.missing(func(tx store.Tx) error { _, err := tx.Consents().ByUserCode(""); return err })
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Consents().Create(c) })
	}},
	{"what may change is saved, and only that", func(f *fixture) {
		c := f.ask(f.consent(t0))
		c.Status, c.Code, c.UserCode, c.Secret, c.Attempts, c.Interval = relay.Approved, "999999", "BBBB-CCCC", newHash(), 3, 10*time.Second
		c.PolledAt, c.CreatedAt, c.ExpiresAt = t0.Add(time.Second), t0.Add(2*time.Second), t0.Add(time.Minute)
		c.DecidedAt, c.CollectedAt, c.Key, c.Announced = t0.Add(3*time.Second), t0.Add(4*time.Second), "0000000a", []relay.DeviceID{f.device, "00000000000000ff"}
		f.update(func(tx store.Tx) error { return tx.Consents().Save(c) })
		f.same("saved", f.asked(c.ID), c)
		f.missing(func(tx store.Tx) error { _, err := tx.Consents().ByUserCode("BBBB-CCCC"); return err }) // not pending any more
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Consents().Save(f.consent(t0)) })
	}},
	{"a user code is free again once its request is decided", func(f *fixture) {
		first, second := f.ask(f.consent(t0)), f.consent(t0)
		second.UserCode = first.UserCode
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Consents().Create(second) })
		first.Status = relay.Denied
		f.update(func(tx store.Tx) error { return tx.Consents().Save(first) })
		f.ask(second)
	}},
	{"lists are of one mailbox, newest first, since an instant and bounded", func(f *fixture) {
		var all []relay.Consent
		for i := range 3 {
			all = append(all, f.ask(f.consent(t0.Add(time.Duration(i)*time.Minute))))
		}
		stranger := f.consent(t0)
		stranger.ID = relay.NewConsentID(newMailboxID()) // of a mailbox that does not exist
		f.ask(stranger)
		f.same("one asked of nobody", f.asked(stranger.ID), stranger)
		lists := func(since time.Time, limit int) []relay.Consent {
			return read(f, func(tx store.Tx) ([]relay.Consent, error) { return tx.Consents().List(f.box, since, limit) })
		}
		f.same("all", lists(t0.Add(-time.Second), 10), []relay.Consent{all[2], all[1], all[0]})
		f.same("since", lists(t0, 10), []relay.Consent{all[2], all[1]})
		f.same("bounded", lists(t0.Add(-time.Second), 1), []relay.Consent{all[2]})
		all[1].Status = relay.Superseded
		f.update(func(tx store.Tx) error { return tx.Consents().Save(all[1]) })
		f.same("pending", read(f, func(tx store.Tx) ([]relay.Consent, error) { return tx.Consents().Pending(f.box) }), []relay.Consent{all[0], all[2]})
	}},
	{"the overdue are pending ones whose time ran out, of all mailboxes", func(f *fixture) {
		due, later := f.ask(f.consent(t0)), f.ask(f.consent(t0.Add(time.Minute)))
		decided := f.consent(t0)
		decided.Status = relay.Denied
		f.ask(decided)
		overdue := func(now time.Time, limit int) []relay.Consent {
			return read(f, func(tx store.Tx) ([]relay.Consent, error) { return tx.Consents().Overdue(now, limit) })
		}
		f.same("a moment before", overdue(due.ExpiresAt.Add(-time.Millisecond), 10), []relay.Consent(nil))
		f.same("on time", overdue(due.ExpiresAt, 10), []relay.Consent{due})
		f.same("bounded", len(overdue(later.ExpiresAt, 1)), 1)
	}},
	{"the uncollected were approved before, hold a grant, and gave no tokens", func(f *fixture) {
		approve := func(name string, at time.Time) relay.Consent {
			c := f.consent(t0)
			c.Key = f.connector(name)
			c.Status, c.DecidedAt = relay.Approved, at
			return f.ask(c)
		}
		old, late, collected, ended := approve("a", t0), approve("b", t0.Add(time.Minute)), approve("c", t0), approve("d", t0)
		collected.CollectedAt = t0
		f.update(func(tx store.Tx) error { return tx.Consents().Save(collected) })
		for _, c := range []relay.Consent{old, late, collected, ended} {
			f.grant(c.Key, c.Client)
		}
		f.update(func(tx store.Tx) error { return tx.Grants().End(f.box, ended.Key) })
		f.ask(f.consent(t0)) // pending
		uncollected := func(cutoff time.Time, limit int) []relay.Consent {
			return read(f, func(tx store.Tx) ([]relay.Consent, error) { return tx.Consents().Uncollected(cutoff, limit) })
		}
		f.same("at its own instant", uncollected(t0, 10), []relay.Consent(nil))
		f.same("later", uncollected(t0.Add(time.Minute), 10), []relay.Consent{old})
		f.same("later still", uncollected(t0.Add(time.Hour), 10), []relay.Consent{old, late})
		f.same("bounded", uncollected(t0.Add(time.Hour), 1), []relay.Consent{old})
	}},
	{"Forget removes those created before, oldest first and bounded", func(f *fixture) {
		old, kept := f.ask(f.consent(t0)), f.ask(f.consent(t0.Add(time.Hour)))
		forget := func(limit int) (n int) {
			f.update(func(tx store.Tx) (err error) { n, err = tx.Consents().Forget(t0.Add(time.Hour), limit); return err })
			return n
		}
		f.same("none at no limit", forget(0), 0)
		f.same("removed", forget(10), 1)
		f.missing(func(tx store.Tx) error { _, err := tx.Consents().Get(old.ID); return err })
		f.same("kept", f.asked(kept.ID), kept)
	}},
	{"deleting a mailbox or a person removes the requests", func(f *fixture) {
		other := f.addMailbox(f.person)
		mine, theirs := f.ask(f.consent(t0)), f.consent(t0)
		theirs.ID = relay.NewConsentID(other)
		f.ask(theirs)
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Delete(f.box) })
		f.missing(func(tx store.Tx) error { _, err := tx.Consents().Get(mine.ID); return err })
		f.same("the other mailbox's", f.asked(theirs.ID), theirs)
		f.update(func(tx store.Tx) error { return tx.People().Delete(f.person) })
		f.missing(func(tx store.Tx) error { _, err := tx.Consents().Get(theirs.ID); return err })
	}},
}

func (f *fixture) connector(name string) relay.KeyID {
	f.Helper()
	k := newKey(f.box, name)
	k.Kind, k.Hash, k.DisplayName, k.Client = relay.KindOAuth, relay.Hash{}, "A connector", "other"
	f.update(func(tx store.Tx) error { return tx.Keys().Create(k) })
	f.same("key of a connector", f.getKey(k.ID), k)
	return k.ID
}

func (f *fixture) grant(k relay.KeyID, c relay.ClientID) relay.Grant {
	f.Helper()
	g := relay.Grant{Mailbox: f.box, Key: k, Client: c, Consent: relay.NewConsentID(f.box), Refresh: newHash(),
		Scopes: relay.Scopes{relay.ScopeNotify}, Resource: "https://r.example/mcp", CreatedAt: t0}
	f.update(func(tx store.Tx) error { return tx.Grants().Create(g) })
	return g
}

func (f *fixture) token(k relay.KeyID, at time.Time, keep int) relay.AccessToken {
	f.Helper()
	a := relay.AccessToken{Mailbox: f.box, Key: k, Hash: newHash(), Scopes: relay.Scopes{relay.ScopeNotify}, CreatedAt: at}
	f.update(func(tx store.Tx) error { return tx.Grants().AddToken(a, keep) })
	return a
}

func (f *fixture) noToken(a relay.AccessToken) {
	f.Helper()
	f.missing(func(tx store.Tx) error { _, err := tx.Grants().Token(f.box, a.Hash); return err })
}

func (f *fixture) getToken(a relay.AccessToken) relay.AccessToken {
	f.Helper()
	return read(f, func(tx store.Tx) (relay.AccessToken, error) { return tx.Grants().Token(f.box, a.Hash) })
}

var grantCases = []testCase{
	{"what was created is read back, by key and refresh token", func(f *fixture) {
		g := f.grant(f.connector("c"), relay.NewClientID())
		a := f.token(g.Key, t0, 50)
		g.Tokens = 1
		f.same("by key", read(f, func(tx store.Tx) (relay.Grant, error) { return tx.Grants().Get(f.box, g.Key) }), g)
		f.same("by refresh", read(f, func(tx store.Tx) (relay.Grant, error) { return tx.Grants().ByRefresh(f.box, g.Refresh) }), g)
		f.same("listed", read(f, func(tx store.Tx) ([]relay.Grant, error) { return tx.Grants().List(f.box) }), []relay.Grant{g})
		f.same("token", f.getToken(a), a)
		f.missing(func(tx store.Tx) error { _, err := tx.Grants().ByRefresh(f.box, newHash()); return err })
		f.missing(func(tx store.Tx) error { _, err := tx.Grants().Get(f.box, f.key); return err })
		f.missing(func(tx store.Tx) error { _, err := tx.Grants().Token(newMailboxID(), a.Hash); return err })
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Grants().Create(g) })
		f.refused(fault.Conflict, "", func(tx store.Tx) error { return tx.Grants().AddToken(a, 50) })
	}},
	{"a grant needs its key, a token its grant", func(f *fixture) {
		g := relay.Grant{Mailbox: f.box, Key: "00000000", Client: "c", Consent: relay.NewConsentID(f.box), Refresh: newHash(), CreatedAt: t0}
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Grants().Create(g) })
		a := relay.AccessToken{Mailbox: f.box, Key: f.key, Hash: newHash(), CreatedAt: t0}
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Grants().AddToken(a, 50) })
	}},
	{"the newest tokens of a grant are kept", func(f *fixture) {
		g, other := f.grant(f.connector("c"), "x"), f.grant(f.connector("d"), "y")
		theirs := f.token(other.Key, t0, 2)
		first := f.token(g.Key, t0, 2)
		second := f.token(g.Key, t0, 2)
		third := f.token(g.Key, t0, 2)
		f.noToken(first)
		for _, a := range []relay.AccessToken{second, third, theirs} {
			f.same("kept", f.getToken(a), a)
		}
	}},
	{"ending a token ends that one; ending the grant, purging the key or deleting the mailbox ends all", func(f *fixture) {
		ends := map[string]func(tx store.Tx, g relay.Grant) error{
			"grant":   func(tx store.Tx, g relay.Grant) error { return tx.Grants().End(f.box, g.Key) },
			"key":     func(tx store.Tx, g relay.Grant) error { return tx.Keys().Purge(f.box, g.Key) },
			"mailbox": func(tx store.Tx, g relay.Grant) error { return tx.Mailboxes().Delete(f.box) },
		}
		for _, how := range []string{"grant", "key", "mailbox"} {
			g := f.grant(f.connector(how), "x")
			one, two := f.token(g.Key, t0, 50), f.token(g.Key, t0, 50)
			f.update(func(tx store.Tx) error { return tx.Grants().EndToken(f.box, one.Hash) })
			f.noToken(one)
			f.same(how, f.getToken(two), two)
			f.update(func(tx store.Tx) error { return ends[how](tx, g) })
			f.noToken(two)
			f.missing(func(tx store.Tx) error { _, err := tx.Grants().ByRefresh(f.box, g.Refresh); return err })
		}
	}},
	{"what is not there can be ended", func(f *fixture) {
		f.update(func(tx store.Tx) error { return tx.Grants().End(f.box, f.key) })
		f.update(func(tx store.Tx) error { return tx.Grants().EndToken(f.box, newHash()) })
	}},
}

var auditCases = []testCase{
	{"entries are listed to their person, newest first", func(f *fixture) {
		entry := func(p relay.PersonID, at time.Time) relay.AuditEntry {
			return relay.AuditEntry{At: at, Person: p, Mailbox: f.box, Action: relay.AuditApproved, Client: "hc_1", ClientName: "An app",
				Consent: relay.NewConsentID(f.box), Key: "0000000a", By: string(f.device)}
		}
		first, second := entry(f.person, t0), entry(f.person, t0.Add(time.Minute))
		second.Consent, second.Key = "", ""
		f.update(func(tx store.Tx) error { return tx.Audit().Add(first) })
		f.update(func(tx store.Tx) error { return tx.Audit().Add(second) })
		other := f.addPerson("bob")
		f.update(func(tx store.Tx) error { return tx.Audit().Add(entry(other, t0)) })
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Audit().Add(entry("00000000000000ff", t0)) })
		lists := func(before time.Time, limit int) []relay.AuditEntry {
			return read(f, func(tx store.Tx) ([]relay.AuditEntry, error) { return tx.Audit().List(f.person, before, limit) })
		}
		f.same("all", lists(time.Time{}, 10), []relay.AuditEntry{second, first})
		f.same("before", lists(second.At, 10), []relay.AuditEntry{first})
		f.same("bounded", lists(time.Time{}, 1), []relay.AuditEntry{second})
		f.update(func(tx store.Tx) error { return tx.Mailboxes().Delete(f.box) })
		f.same("after the mailbox is gone", len(lists(time.Time{}, 10)), 2)
		n := 0
		f.update(func(tx store.Tx) (err error) { n, err = tx.Audit().Forget(second.At, 10); return err })
		f.same("forgotten", n, 2)
		f.same("left", lists(time.Time{}, 10), []relay.AuditEntry{second})
		f.update(func(tx store.Tx) error { return tx.People().Delete(f.person) })
	}},
}
