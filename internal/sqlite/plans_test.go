package sqlite

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/ledger"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

// scans are the tables and parts of statements that may be read whole, and why.
var scans = map[string]string{
	"SCAN pair_codes":                        "sixty codes at most",
	"SCAN people":                            "there are few people",
	"ORDER BY w.created_at, w.n":             "there are few workspaces",
	"coalesce(m.last_seen_at, m.created_at)": "asked once a day",
	"FROM notifications ORDER BY n LIMIT":    "reads the first rows only",
	"SELECT created_at FROM notifications":   "reads the first entry of an index",
}

var scan = regexp.MustCompile(`^SCAN (\w+)( |$)`)

// TestStatementsSeek looks at the plan of every statement that a day in the life of the relay prepares.
func TestStatementsSeek(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	h.everything(t)
	seen := 0
	for _, c := range h.connections() {
		for _, sql := range c.Prepared() {
			if strings.HasPrefix(sql, "PRAGMA") || strings.HasPrefix(sql, "EXPLAIN") {
				continue
			}
			seen++
			wantSeek(t, c, sql)
		}
	}
	if seen < 60 {
		t.Errorf("looked at %d statements only", seen)
	}
}

// connections returns the connections, which no one uses meanwhile.
func (h home) connections() []*native.Conn {
	reader := <-h.readers
	h.readers <- reader
	return []*native.Conn{h.writer.c, reader}
}

func wantSeek(t *testing.T, c *native.Conn, sql string) {
	t.Helper()
	s := c.Prepare("EXPLAIN QUERY PLAN " + sql)
	for range s.Params() {
		s.Null()
	}
	err := s.Rows(func(s *native.Stmt) error {
		step := s.ColText(3)
		table := scan.FindStringSubmatch(step)
		if table == nil || table[1] == "nt" || table[1] == "block" { // the chain's own queue
			return nil
		}
		for part := range scans {
			if strings.Contains(step+sql, part) {
				return nil
			}
		}
		t.Errorf("%s\nin: %s", step, sql)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// everything calls every method of the store once, in an Update and, where that may be, in a View.
func (h home) everything(t *testing.T) {
	t.Helper()
	n, own := h.mustSend(t, h.note(t0)), h.note(t0)
	own.AgentID = "own"
	own = h.mustSend(t, own)
	reads := func(tx store.Tx) error {
		p, _ := tx.People().List()
		_, _ = tx.People().ByName("nobody")
		_, _ = tx.Mailboxes().Get(h.box)
		_, _ = tx.Mailboxes().List(p[0].ID)
		_, _ = tx.Mailboxes().Idle(t0, 1)
		_, _ = tx.Devices().List(h.box)
		_, _ = tx.Keys().Get(h.box, h.key)
		_, _ = tx.Keys().List(h.box)
		_, _ = tx.Keys().CountActive(h.box)
		_, _ = tx.Notifications().Get(h.box, n.ID)
		_, _ = tx.Notifications().Sent(h.box, h.key, n.AgentID, t0)
		_, _ = tx.Notifications().Admission(h.box, h.key, 3, t0.Add(48*time.Hour))
		_, _ = tx.Notifications().Waiting(h.box, 0, 1)
		_, _ = tx.Usage().Get(h.box, "2026-01-01")
		_, _ = tx.Pairing().CountWaiting("", t0)
		_, _ = tx.Pairing().CountWaiting("a", t0)
		_, _ = tx.Marks().Count("k", "", t0)
		_, err := tx.Marks().Count("k", "s", t0)
		h.oauthReads(tx)
		ledgerReads(tx)
		return err
	}
	writes := func(tx store.Tx) error {
		p, _ := tx.People().List()
		code := relay.PairCode{Hash: relay.Hash{1}, Person: p[0].ID, Mailbox: h.box, CreatedAt: t0, ExpiresAt: t0.Add(time.Minute)}
		d := relay.Device{ID: "00000000000000aa", Mailbox: h.box, CreatedAt: t0}
		late := h.note(t0.Add(48 * time.Hour))
		late.AgentID = "own"
		_ = tx.Mailboxes().SetState(h.box, relay.State{})
		_ = tx.Devices().Create(d)
		_ = tx.Devices().Heard(h.box, d.ID, t0)
		_ = tx.Devices().OpenStream(h.box, d.ID, "s", t0)
		_ = tx.Devices().CloseStream(h.box, d.ID, "s", t0)
		_ = tx.Devices().Delete(h.box, d.ID)
		_ = tx.Keys().Revoke(h.box, h.key, t0)
		_ = tx.Keys().Touch(h.box, h.key, t0)
		_ = tx.Notifications().Insert(&late, t0.Add(24*time.Hour))
		_ = tx.Notifications().Save(n)
		n.Acknowledge(t0)
		_ = tx.Notifications().Save(n)
		_, _ = tx.Notifications().Expire(h.box, t0.Add(1), 1)
		_, _ = tx.Notifications().Expire("", t0.Add(72*time.Hour), 1)
		_, _ = tx.Notifications().Forget(t0.Add(1), 1)
		_ = tx.Usage().Add(h.box, "2026-01-01", relay.Usage{})
		_, _ = tx.Usage().Forget("2026-01-02", 1)
		_ = tx.Pairing().Create(code)
		_, _ = tx.Pairing().Take(code.Hash, t0)
		_, _ = tx.Pairing().Forget(t0, 1)
		_ = tx.Marks().Add("k", "s", t0)
		_, _ = tx.Marks().Forget(t0, 1)
		h.oauthWrites(tx, p[0].ID)
		ledgerWrites(tx, p[0].ID)
		_ = tx.Keys().Purge(h.box, h.key)
		return tx.People().Delete(p[0].ID)
	}
	if err := h.View(t.Context(), reads); err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, h.Store, reads)
	mustUpdate(t, h.Store, writes)
}

// oauthReads and oauthWrites are everything's part about approvals.
func (h home) oauthReads(tx store.Tx) {
	id := relay.NewConsentID(h.box)
	_, _ = tx.Clients().Get("hc_1")
	_, _ = tx.Consents().Get(id)
	_, _ = tx.Consents().BySecret(h.box, relay.Hash{2})
	_, _ = tx.Consents().ByUserCode("BCDF-GHJK")
	_, _ = tx.Consents().List(h.box, t0, 1)
	_, _ = tx.Consents().Pending(h.box)
	_, _ = tx.Consents().Overdue(t0, 1)
	_, _ = tx.Consents().Uncollected(t0, 1)
	_, _ = tx.Grants().Get(h.box, h.key)
	_, _ = tx.Grants().ByRefresh(h.box, relay.Hash{2})
	_, _ = tx.Grants().List(h.box)
	_, _ = tx.Grants().Token(h.box, relay.Hash{2})
	_, _ = tx.Audit().List("0000000000000001", t0, 1)
}

func (h home) oauthWrites(tx store.Tx, person relay.PersonID) {
	c := relay.Consent{ID: relay.NewConsentID(h.box), Flow: relay.FlowCode, Status: relay.Pending, Secret: relay.Hash{2}, CreatedAt: t0, ExpiresAt: t0}
	_ = tx.Clients().Put(relay.Client{ID: "hc_1", AuthMethod: relay.AuthNone, CreatedAt: t0})
	_, _ = tx.Clients().Trim(false, 1, 1)
	_ = tx.Consents().Create(c)
	_ = tx.Consents().Save(c)
	_, _ = tx.Consents().Forget(t0, 1)
	_ = tx.Grants().Create(relay.Grant{Mailbox: h.box, Key: h.key, CreatedAt: t0})
	_ = tx.Grants().AddToken(relay.AccessToken{Mailbox: h.box, Key: h.key, CreatedAt: t0}, 1)
	_ = tx.Grants().EndToken(h.box, relay.Hash{})
	_ = tx.Grants().End(h.box, h.key)
	_ = tx.Audit().Add(relay.AuditEntry{Person: person, At: t0})
	_, _ = tx.Audit().Forget(t0, 1)
}

// ledgerReads and ledgerWrites are everything's part about workspaces.
func ledgerReads(tx store.Tx) {
	const w, person = ledger.WorkspaceID("ws_000000000000000000000001"), relay.PersonID("0000000000000001")
	_, _ = tx.Workspaces().Get(w)
	_, _ = tx.Workspaces().ByName("a")
	_, _ = tx.Workspaces().List()
	_, _ = tx.Members().List(w)
	_, _ = tx.Members().Of(person)
	_, _ = tx.WorkspaceKeys().Get(w, "00000001")
	_, _ = tx.WorkspaceKeys().List(w)
	_, _ = tx.Entries().Get(w, ledger.EntryIDOf(w, "1"))
	_, _ = tx.Entries().Newest(w)
	_, _ = tx.Entries().List(w, store.EntryFilter{Limit: 1})
	_, _ = tx.Entries().List(w, store.EntryFilter{Names: []string{"a"}, Limit: 1})
	_, _ = tx.Entries().List(w, store.EntryFilter{Subject: "a/1", Limit: 1})
}

func ledgerWrites(tx store.Tx, person relay.PersonID) {
	w := ledger.Workspace{ID: "ws_000000000000000000000001", Name: "a", Mode: ledger.Live, CreatedAt: t0, Catalog: []byte("{}")}
	e := ledger.Entry{ID: ledger.EntryIDOf(w.ID, "1"), Name: "a", Subject: "a/1", Timestamp: t0, Recorded: t0, Data: []byte("{}")}
	_ = tx.Workspaces().Create(w)
	_, _ = tx.Workspaces().SetCatalog(w.ID, w.Catalog, 1)
	_ = tx.Members().Add(ledger.Member{Workspace: w.ID, Person: person, JoinedAt: t0})
	_ = tx.Members().SetPrimary(w.ID, person)
	_ = tx.WorkspaceKeys().Create(ledger.Key{ID: "00000001", Workspace: w.ID, Name: "a", CreatedAt: t0})
	_ = tx.WorkspaceKeys().Touch(w.ID, "00000001", t0)
	_ = tx.WorkspaceKeys().Revoke(w.ID, "00000001", t0)
	_, _ = tx.Entries().Append(w.ID, []ledger.Entry{e, e})
	ledgerReads(tx)
	_, _ = tx.Entries().Forget(t0.Add(1), 1)
	_ = tx.Members().Remove(w.ID, person)
}
