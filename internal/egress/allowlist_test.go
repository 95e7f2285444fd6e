package egress_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/egress"
)

func TestParseAllowlist(t *testing.T) {
	list, err := egress.ParseAllowlist([]string{" Hooks.Example. ", "", "hooks.example", "\t93.184.216.34", "2606:2800:0220:1::1", "xn--bcher-kva.example"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"2606:2800:220:1::1", "93.184.216.34", "hooks.example", "xn--bcher-kva.example"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(list))); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	for _, blank := range [][]string{nil, {}, {"", "  "}} {
		if list, err := egress.ParseAllowlist(blank); list != nil || err != nil {
			t.Errorf("ParseAllowlist(%q) = %v, %v, want nothing", blank, list, err)
		}
	}
}

func TestParseAllowlistNamesEveryBadEntry(t *testing.T) {
	bad := []string{"localhost", "db.internal", "printer.local", "router.home.arpa", "intranet", "10.0.0.1", "100.64.0.1", "192.0.2.1", "::ffff:93.184.216.34",
		"64:ff9b::808:808", "127.1", "*.example.com", "https://hooks.example", "hooks.example:8443", "hooks.example/x", "[2606:4700::1111]", "bücher.example", "."}
	list, err := egress.ParseAllowlist(append(slices.Clone(bad), "good.example"))
	if err == nil {
		t.Fatalf("accepted %v", list)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(bad) {
		t.Fatalf("%d problems for %d bad entries:\n%v", len(lines), len(bad), err)
	}
	for i, line := range lines {
		if !strings.Contains(line, bad[i]) || !strings.Contains(line, "not a public host") {
			t.Errorf("problem of %q: %s", bad[i], line)
		}
	}
}
