package ledger_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/ledger"
)

func TestEntryIDsAreNamesOfVersion5(t *testing.T) {
	t.Parallel()
	const one, two = ledger.WorkspaceID("ws_0123456789abcdef01234567"), ledger.WorkspaceID("ws_0123456789abcdef01234568")
	shape := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[ledger.EntryID]bool{}
	for _, w := range []ledger.WorkspaceID{one, two} {
		for _, source := range []string{"", "1", "2", "deal-17/won", "ä", strings.Repeat("x", 128)} {
			id := ledger.EntryIDOf(w, source)
			if !shape.MatchString(string(id)) || seen[id] || id != ledger.EntryIDOf(w, source) {
				t.Errorf("%s %q is %s", w, source, id)
			}
			seen[id] = true
			if back, ok := ledger.ParseEntryID(strings.ToUpper(string(id))); !ok || back != id {
				t.Errorf("%s is read as %s", id, back)
			}
		}
	}
	// Fixed for ever: an application that repeats an append after years must meet its entry. Computed with Python's uuid5.
	if got, want := ledger.EntryIDOf(one, "deal-17/won"), ledger.EntryID("a7c7f5cf-353b-5f84-81da-0e7c4ccb1046"); got != want {
		t.Errorf("id %s, want %s", got, want)
	}
}

func TestIDsAreReadInTheirExactShapeOnly(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "ws_", "ws_0123456789abcdef0123456", "ws_0123456789abcdef012345678", "ws_0123456789abcdef0123456G", "WS_0123456789abcdef01234567", "0123456789abcdef01234567"} {
		if _, ok := ledger.ParseWorkspaceID(s); ok {
			t.Errorf("workspace id %q is taken", s)
		}
	}
	if id := ledger.NewWorkspaceID(); len(id.Digits()) != 24 {
		t.Errorf("new id %s", id)
	} else if back, ok := ledger.ParseWorkspaceID(string(id)); !ok || back != id {
		t.Errorf("%s is refused", id)
	}
	for _, s := range []string{"", "4d6f0c2e6a1b5f7e9c3d2b8a7e1f0a55", "4d6f0c2e-6a1b-5f7e-9c3d-2b8a7e1f0a5", "4d6f0c2e-6a1b-5f7e-9c3d-2b8a7e1f0a5g", "{4d6f0c2e-6a1b-5f7e-9c3d-2b8a7e1f0a5}", "4d6f0c2e_6a1b_5f7e_9c3d_2b8a7e1f0a55"} {
		if _, ok := ledger.ParseEntryID(s); ok {
			t.Errorf("entry id %q is taken", s)
		}
	}
	for _, s := range []string{"", "0123456", "012345678", "0123456A"} {
		if _, ok := ledger.ParseKeyID(s); ok {
			t.Errorf("key id %q is taken", s)
		}
	}
}

func TestSubjectsAndSourcesAreKeptPlain(t *testing.T) {
	t.Parallel()
	for s, kind := range map[string]string{"deal/1": "", "deal/7b2c": "deal", "a_b-9/x/y": "", "deal/ü": "deal"} {
		if !ledger.ValidSubject(s, kind) {
			t.Errorf("subject %q of kind %q is refused", s, kind)
		}
	}
	for s, kind := range map[string]string{"": "", "deal": "", "deal/": "", "/1": "", "Deal/1": "", "deal/1 2": "", "deal/\x00": "", "deal/\u202e": "",
		"deal/1": "contract", "deal/\xff": "", "deal/" + strings.Repeat("x", 252): "", "de al/1": "", "deal/1\n": "", strings.Repeat("k", 65) + "/1": ""} {
		if ledger.ValidSubject(s, kind) {
			t.Errorf("subject %q of kind %q is taken", s, kind)
		}
	}
	for s, want := range map[string]bool{"1": true, "deal 17": true, strings.Repeat("ä", 128): true, "": false, " 1": false, "1\n": false, "a\x00b": false, strings.Repeat("x", 129): false, "\xff": false} {
		if ledger.ValidSource(s) != want {
			t.Errorf("source %q: %v", s, !want)
		}
	}
}
