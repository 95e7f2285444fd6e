package conform_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/conform"
)

var update = flag.Bool("update", false, "rewrite the rules in docs/conformance.md")

const page = "../../docs/conformance.md"

// TestThePageEqualsTheRules keeps docs/conformance.md equal to the rules that are checked.
func TestThePageEqualsTheRules(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- begin rules -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end rules -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no block of rules", page)
	}
	want := before + "<!-- begin rules -->\n" + rulesTable() + "<!-- end rules -->" + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the page is behind the rules (-rules +page); run go test ./internal/conform -run PageEquals -update:\n%s", diff)
	}
}

func rulesTable() string {
	var b strings.Builder
	var group conform.Group
	for _, r := range conform.Rules() {
		if r.Group != group {
			group = r.Group
			fmt.Fprintf(&b, "\n### %s\n\n| Rule | Strength | Dialect | What holds | Text | Clients |\n|---|---|---|---|---|---|\n", group)
		}
		dialect := "both"
		if r.Dialects != nil {
			dialect = string(r.Dialects[0])
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s |\n", r.Number, strings.ToUpper(string(r.Level)), dialect, strings.ReplaceAll(r.Text, "|", `\|`), r.Source, clients(r))
	}
	return b.String() + "\n"
}

func clients(r conform.Rule) string {
	if len(r.Needs) == len(conform.Consumers()) {
		return "all"
	}
	var names []string
	for _, c := range r.Needs {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

// TestRulesAreNumberedAndGrouped keeps numbers unique and where they belong, so that they can be cited.
func TestRulesAreNumberedAndGrouped(t *testing.T) {
	hundreds := map[conform.Group]int{conform.Basics: 0, conform.Discovery: 1, conform.List: 2, conform.Subscribe: 3, conform.Verification: 4,
		conform.Delivery: 5, conform.Unsubscribe: 6, conform.Poll: 7, conform.Stream: 8, conform.Control: 9, conform.Errors: 9}
	seen := map[int]bool{}
	for _, r := range conform.Rules() {
		if h, known := hundreds[r.Group]; seen[r.Number] || !known || r.Number/100 != h || r.Number == 0 {
			t.Errorf("rule %d of group %q: want a number of its own, in its group's hundred", r.Number, r.Group)
		}
		if r.Text == "" || !strings.HasSuffix(r.Text, ".") || r.Source == "" || len(r.Needs) == 0 || r.Level != conform.Must && r.Level != conform.Should {
			t.Errorf("rule %d is not whole: %+v", r.Number, r)
		}
		seen[r.Number] = true
	}
}
