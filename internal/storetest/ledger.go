package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/ledger"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

func (f *fixture) addWorkspace(name string) ledger.Workspace {
	f.Helper()
	w := ledger.Workspace{ID: ledger.NewWorkspaceID(), Name: name, Mode: ledger.Live, CreatedAt: t0, Catalog: []byte(`{"events":[]}`), Revision: 1}
	f.update(func(tx store.Tx) error { return tx.Workspaces().Create(w) })
	return w
}

func (f *fixture) workspace(id ledger.WorkspaceID) ledger.Workspace {
	f.Helper()
	return read(f, func(tx store.Tx) (ledger.Workspace, error) { return tx.Workspaces().Get(id) })
}

var workspaceCases = []testCase{
	{"what was created is read back, by id and name", func(f *fixture) {
		w := f.addWorkspace("sales")
		test := ledger.Workspace{ID: ledger.NewWorkspaceID(), Name: "probe", Mode: ledger.Test, CreatedAt: t0.Add(time.Hour), Catalog: []byte("{\"\x01"), Revision: 1}
		f.update(func(tx store.Tx) error { return tx.Workspaces().Create(test) })
		f.same("by id", f.workspace(test.ID), test)
		f.same("by name", read(f, func(tx store.Tx) (ledger.Workspace, error) { return tx.Workspaces().ByName("sales") }), w)
		w.Catalog, test.Catalog = nil, nil
		f.same("list", read(f, func(tx store.Tx) ([]ledger.Workspace, error) { return tx.Workspaces().List() }), []ledger.Workspace{w, test})
		f.missing(func(tx store.Tx) error { _, err := tx.Workspaces().Get(ledger.NewWorkspaceID()); return err })
		f.missing(func(tx store.Tx) error { _, err := tx.Workspaces().ByName("nobody"); return err })
	}},
	{"a name belongs to one", func(f *fixture) {
		w := f.addWorkspace("sales")
		f.refused(fault.Conflict, "name_taken", func(tx store.Tx) error {
			return tx.Workspaces().Create(ledger.Workspace{ID: ledger.NewWorkspaceID(), Name: "sales", Mode: ledger.Live, CreatedAt: t0, Catalog: []byte("{}")})
		})
		f.refused(fault.Conflict, "", func(tx store.Tx) error {
			return tx.Workspaces().Create(ledger.Workspace{ID: w.ID, Name: "other", Mode: ledger.Live, CreatedAt: t0, Catalog: []byte("{}")})
		})
	}},
	{"a catalog is replaced by whoever saw the latest", func(f *fixture) {
		w := f.addWorkspace("sales")
		f.update(func(tx store.Tx) error {
			next, err := tx.Workspaces().SetCatalog(w.ID, []byte(`{"a":1}`), 1)
			f.same("revision", next, int64(2))
			return err
		})
		f.refused(fault.Conflict, "", func(tx store.Tx) error { _, err := tx.Workspaces().SetCatalog(w.ID, []byte(`{}`), 1); return err })
		f.refused(fault.NotFound, "", func(tx store.Tx) error {
			_, err := tx.Workspaces().SetCatalog(ledger.NewWorkspaceID(), []byte(`{}`), 1)
			return err
		})
		w.Catalog, w.Revision = []byte(`{"a":1}`), 2
		f.same("workspace", f.workspace(w.ID), w)
	}},
}

func (f *fixture) join(w ledger.WorkspaceID, p relay.PersonID, at time.Time) {
	f.Helper()
	f.update(func(tx store.Tx) error { return tx.Members().Add(ledger.Member{Workspace: w, Person: p, JoinedAt: at}) })
}

func (f *fixture) memberships(p relay.PersonID) (ids []ledger.WorkspaceID) {
	f.Helper()
	of := read(f, func(tx store.Tx) ([]ledger.Member, error) { return tx.Members().Of(p) })
	for i, m := range of {
		if m.Primary != (i == 0) || m.Person != p {
			f.Errorf("membership %d is %+v", i, m)
		}
		ids = append(ids, m.Workspace)
	}
	return ids
}

var memberCases = []testCase{
	{"the first workspace of a person is the primary one until they choose", func(f *fixture) {
		a, b, c := f.addWorkspace("a").ID, f.addWorkspace("b").ID, f.addWorkspace("c").ID
		for i, w := range []ledger.WorkspaceID{b, a, c} {
			f.join(w, f.person, t0.Add(time.Duration(-i)*time.Hour)) // the order of arrival counts, not the clock's
		}
		f.same("memberships", f.memberships(f.person), []ledger.WorkspaceID{b, a, c})
		f.update(func(tx store.Tx) error { return tx.Members().SetPrimary(c, f.person) })
		f.same("after choosing", f.memberships(f.person), []ledger.WorkspaceID{c, b, a})
		f.update(func(tx store.Tx) error { return tx.Members().SetPrimary(a, f.person) })
		f.same("after choosing again", f.memberships(f.person), []ledger.WorkspaceID{a, b, c})
		f.update(func(tx store.Tx) error { return tx.Members().Remove(a, f.person) })
		f.same("after leaving it", f.memberships(f.person), []ledger.WorkspaceID{b, c})
		list := read(f, func(tx store.Tx) ([]ledger.Member, error) { return tx.Members().List(b) })
		f.same("members", list, []ledger.Member{{Workspace: b, Person: f.person, JoinedAt: t0, Primary: true}})
		list = read(f, func(tx store.Tx) ([]ledger.Member, error) { return tx.Members().List(c) })
		f.same("members", list, []ledger.Member{{Workspace: c, Person: f.person, JoinedAt: t0.Add(-2 * time.Hour)}})
	}},
	{"a person joins once, and what is gone cannot be joined", func(f *fixture) {
		w := f.addWorkspace("a").ID
		f.join(w, f.person, t0)
		add := func(w ledger.WorkspaceID, p relay.PersonID) func(store.Tx) error {
			return func(tx store.Tx) error { return tx.Members().Add(ledger.Member{Workspace: w, Person: p, JoinedAt: t0}) }
		}
		f.refused(fault.Conflict, "", add(w, f.person))
		f.refused(fault.NotFound, "", add(ledger.NewWorkspaceID(), f.person))
		f.refused(fault.NotFound, "", add(w, "00000000000000ff"))
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Members().SetPrimary(w, "00000000000000ff") })
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.Members().Remove(w, "00000000000000ff") })
	}},
	{"deleting a person ends their memberships only", func(f *fixture) {
		w, other := f.addWorkspace("a").ID, f.addPerson("bob")
		f.join(w, f.person, t0)
		f.join(w, other, t0)
		f.update(func(tx store.Tx) error { return tx.People().Delete(f.person) })
		list := read(f, func(tx store.Tx) ([]ledger.Member, error) { return tx.Members().List(w) })
		f.same("members", list, []ledger.Member{{Workspace: w, Person: other, JoinedAt: t0, Primary: true}})
	}},
}

var workspaceKeyCases = []testCase{
	{"what was created is read back until it is revoked, and after", func(f *fixture) {
		w := f.addWorkspace("a").ID
		k := ledger.Key{ID: "0000000a", Workspace: w, Hash: newHash(), Name: "crm", CreatedAt: t0}
		create := func(k ledger.Key) func(store.Tx) error {
			return func(tx store.Tx) error { return tx.WorkspaceKeys().Create(k) }
		}
		f.update(create(k))
		get := func() ledger.Key {
			return read(f, func(tx store.Tx) (ledger.Key, error) { return tx.WorkspaceKeys().Get(w, k.ID) })
		}
		f.same("key", get(), k)
		again := k
		again.ID = "0000000b"
		f.refused(fault.Conflict, "name_taken", create(again))
		again.ID, again.Name = k.ID, "other"
		f.refused(fault.Conflict, "", create(again))
		f.refused(fault.NotFound, "", create(ledger.Key{ID: "0000000c", Workspace: ledger.NewWorkspaceID(), Hash: newHash(), Name: "x", CreatedAt: t0}))
		for _, at := range []time.Time{t0.Add(time.Hour), t0.Add(2 * time.Hour)} {
			f.update(func(tx store.Tx) error { return tx.WorkspaceKeys().Revoke(w, k.ID, at) })
			f.update(func(tx store.Tx) error { return tx.WorkspaceKeys().Touch(w, k.ID, at) })
		}
		k.RevokedAt, k.LastUsedAt = t0.Add(time.Hour), t0.Add(2*time.Hour)
		f.same("key", get(), k)
		second := ledger.Key{ID: "0000000b", Workspace: w, Hash: newHash(), Name: "crm", CreatedAt: t0.Add(time.Minute)}
		f.update(create(second)) // the name is free again
		f.same("keys", read(f, func(tx store.Tx) ([]ledger.Key, error) { return tx.WorkspaceKeys().List(w) }), []ledger.Key{k, second})
		f.missing(func(tx store.Tx) error { _, err := tx.WorkspaceKeys().Get(f.addWorkspace("b").ID, k.ID); return err })
		f.refused(fault.NotFound, "", func(tx store.Tx) error { return tx.WorkspaceKeys().Revoke(w, "0000000d", t0) })
		f.update(func(tx store.Tx) error { return tx.WorkspaceKeys().Touch(w, "0000000d", t0) })
	}},
}

// entry is one whose source, name, subject and instant follow from i.
func entry(w ledger.WorkspaceID, i int) ledger.Entry {
	return ledger.Entry{Workspace: w, ID: ledger.EntryIDOf(w, fmt.Sprint(i)), Name: []string{"deal.won", "deal.lost", "note.added"}[i%3],
		Subject: fmt.Sprintf("deal/%d", i%4), Timestamp: t0.Add(time.Duration(i) * time.Second), Recorded: t0.Add(time.Duration(i) * time.Minute),
		Data: fmt.Appendf(nil, `{ "i": %d, "nul":"\u0000" }`, i), Print: newHash()}
}

func (f *fixture) append(w ledger.WorkspaceID, batch ...ledger.Entry) (known map[int]ledger.Entry) {
	f.Helper()
	f.update(func(tx store.Tx) (err error) {
		known, err = tx.Entries().Append(w, batch)
		return err
	})
	return known
}

func (f *fixture) entries(w ledger.WorkspaceID, filter store.EntryFilter) []ledger.Entry {
	f.Helper()
	return read(f, func(tx store.Tx) ([]ledger.Entry, error) { return tx.Entries().List(w, filter) })
}

func (f *fixture) wantSequences(what string, got []ledger.Entry, want ...int64) {
	f.Helper()
	seqs := []int64{}
	for _, e := range got {
		seqs = append(seqs, e.Sequence)
	}
	f.same(what, seqs, want)
}

var entryCases = []testCase{
	{"entries get the next sequences of their workspace and are read back byte for byte", func(f *fixture) {
		w, other := f.addWorkspace("a").ID, f.addWorkspace("b").ID
		batch := []ledger.Entry{entry(w, 0), entry(w, 1)}
		f.append(other, entry(other, 0))
		f.append(w, batch...)
		f.append(w, entry(w, 2))
		batch[0].Sequence, batch[1].Sequence = 1, 2
		all := f.entries(w, store.EntryFilter{Limit: 10})
		f.wantSequences("all", all, 1, 2, 3)
		f.same("first two", all[:2], batch)
		f.same("by id", read(f, func(tx store.Tx) (ledger.Entry, error) { return tx.Entries().Get(w, batch[1].ID) }), batch[1])
		f.missing(func(tx store.Tx) error { _, err := tx.Entries().Get(other, batch[1].ID); return err })
		f.missing(func(tx store.Tx) error { _, err := tx.Entries().Get(ledger.NewWorkspaceID(), batch[1].ID); return err })
		f.missing(func(tx store.Tx) error { _, err := tx.Entries().Get(w, "no uuid"); return err })
		f.same("newest", read(f, func(tx store.Tx) (int64, error) { return tx.Entries().Newest(w) }), int64(3))
		f.same("newest of the workspace", f.workspace(w).Sequence, int64(3))
		f.missing(func(tx store.Tx) error { _, err := tx.Entries().Newest(ledger.NewWorkspaceID()); return err })
		f.refused(fault.NotFound, "", func(tx store.Tx) error {
			_, err := tx.Entries().Append(ledger.NewWorkspaceID(), []ledger.Entry{entry(w, 9)})
			return err
		})
	}},
	{"what is known is not stored again, within a batch neither", func(f *fixture) {
		w := f.addWorkspace("a").ID
		first := entry(w, 1)
		f.append(w, first)
		changed := first
		changed.Data, changed.Print = []byte(`{"other":true}`), newHash()
		twice := entry(w, 2)
		batch := []ledger.Entry{changed, twice, twice, entry(w, 3)}
		known := f.append(w, batch...)
		first.Sequence, twice.Sequence = 1, 2
		f.same("known", known, map[int]ledger.Entry{0: first, 2: twice})
		f.wantSequences("sequences given", batch, 1, 2, 2, 3)
		f.wantSequences("stored", f.entries(w, store.EntryFilter{Limit: 10}), 1, 2, 3)
	}},
	{"a batch that fails leaves nothing, no sequence either", func(f *fixture) {
		w := f.addWorkspace("a").ID
		boom := fault.InvalidRequest("x", "no")
		err := f.store.Update(f.Context(), func(tx store.Tx) error {
			if _, err := tx.Entries().Append(w, []ledger.Entry{entry(w, 1), entry(w, 2)}); err != nil {
				return err
			}
			return boom
		})
		f.wantFault(err, fault.Invalid, "")
		f.append(w, entry(w, 3))
		f.wantSequences("stored", f.entries(w, store.EntryFilter{Limit: 10}), 1)
	}},
	{"filters choose by position, names and subject", func(f *fixture) {
		w, other := f.addWorkspace("a").ID, f.addWorkspace("b").ID
		for i := range 24 { // 0..23 have the sequences 1..24
			f.append(w, entry(w, i))
			f.append(other, entry(other, i+1))
		}
		tests := map[string]struct {
			filter store.EntryFilter
			want   []int64
		}{
			"the beginning":           {store.EntryFilter{Limit: 2}, []int64{1, 2}},
			"after":                   {store.EntryFilter{After: 22, Limit: 10}, []int64{23, 24}},
			"after all":               {store.EntryFilter{After: 24, Limit: 10}, nil},
			"far after all":           {store.EntryFilter{After: 1 << 60, Limit: 10}, nil},
			"a name":                  {store.EntryFilter{Names: []string{"deal.won"}, Limit: 3}, []int64{1, 4, 7}},
			"a name, after":           {store.EntryFilter{Names: []string{"deal.won"}, After: 4, Limit: 2}, []int64{7, 10}},
			"two names":               {store.EntryFilter{Names: []string{"deal.lost", "deal.won"}, After: 1, Limit: 4}, []int64{2, 4, 5, 7}},
			"a name twice":            {store.EntryFilter{Names: []string{"deal.won", "deal.won"}, Limit: 2}, []int64{1, 4}},
			"a name nobody uses":      {store.EntryFilter{Names: []string{"deal.none"}, Limit: 4}, nil},
			"a subject":               {store.EntryFilter{Subject: "deal/1", Limit: 3}, []int64{2, 6, 10}},
			"a subject, after":        {store.EntryFilter{Subject: "deal/1", After: 9, Limit: 2}, []int64{10, 14}},
			"a subject nobody uses":   {store.EntryFilter{Subject: "deal/9", Limit: 4}, nil},
			"a subject and a name":    {store.EntryFilter{Subject: "deal/1", Names: []string{"deal.lost"}, Limit: 9}, []int64{2, 14}},
			"a subject and two names": {store.EntryFilter{Subject: "deal/1", Names: []string{"deal.lost", "note.added"}, After: 2, Limit: 9}, []int64{6, 14, 18}},
			"a name as subject":       {store.EntryFilter{Subject: "deal.won", Limit: 4}, nil},
		}
		for name, tt := range tests {
			f.wantSequences(name, f.entries(w, tt.filter), tt.want...)
		}
		f.wantSequences("a workspace that is not there", f.entries(ledger.NewWorkspaceID(), store.EntryFilter{Limit: 1}))
	}},
	{"what is older than its time is forgotten, oldest first, and sequences go on", func(f *fixture) {
		w := f.addWorkspace("a").ID
		for i := range 5 {
			f.append(w, entry(w, i))
		}
		forget := func(cutoff time.Time, limit int) (n int) {
			f.update(func(tx store.Tx) (err error) {
				n, err = tx.Entries().Forget(cutoff, limit)
				return err
			})
			return n
		}
		f.same("forgotten", forget(t0.Add(3*time.Minute), 2), 2)
		f.same("forgotten", forget(t0.Add(3*time.Minute), 9), 1)
		f.wantSequences("left", f.entries(w, store.EntryFilter{Limit: 9}), 4, 5)
		f.wantSequences("left by name", f.entries(w, store.EntryFilter{Names: []string{"deal.won", "deal.lost"}, After: 1, Limit: 9}), 4, 5)
		f.same("forgotten", forget(t0.Add(time.Hour), 9), 2)
		f.append(w, entry(w, 7))
		f.wantSequences("afterwards", f.entries(w, store.EntryFilter{Limit: 9}), 6)
	}},
	{"a reader who follows misses nothing that racing writers append", func(f *fixture) {
		const writers, each = 4, 25
		w := f.addWorkspace("a").ID
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				for j := range each {
					err := f.store.Update(f.Context(), func(tx store.Tx) error {
						_, err := tx.Entries().Append(w, []ledger.Entry{entry(w, i*each*2+j*2), entry(w, i*each*2+j*2+1)})
						return err
					})
					if err != nil {
						f.Error(err)
					}
				}
			})
		}
		after, seen := int64(0), 0
		for seen < writers*each*2 && !f.Failed() {
			for _, e := range f.entries(w, store.EntryFilter{After: after, Limit: 7}) {
				if e.Sequence != after+1 {
					f.Errorf("after %d came %d", after, e.Sequence)
				}
				after, seen = e.Sequence, seen+1
			}
		}
		wg.Wait()
	}},
}
