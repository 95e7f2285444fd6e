package payload_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/payload"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/wire/notify.md")

const page = "../../docs/wire/notify.md"

// TestTheWirePageEqualsTheRules keeps the tables of the page equal to the code that enforces them.
func TestTheWirePageEqualsTheRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, block := range map[string]string{
		"fields":    fieldTable("", payload.Fields()),
		"speak":     fieldTable("speak.", payload.SpeakFields()),
		"dangerous": "`" + strings.Join(payload.Dangerous(), "` `") + "`\n",
	} {
		want = replaceBlock(t, want, name, block)
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the page is behind the rules (-rules +page); run go test ./internal/payload -run WirePage -update:\n%s", diff)
	}
}

func fieldTable(prefix string, fields []payload.Field) string {
	var b strings.Builder
	b.WriteString("| Field | JSON type | Must be | Use |\n|---|---|---|---|\n")
	for _, f := range fields {
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", prefix, f.Name, strings.Join(f.Types, ", "), f.Need, f.Use)
	}
	return b.String()
}

func replaceBlock(t *testing.T, text, name, block string) string {
	t.Helper()
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no block %s", page, name)
	}
	return before + begin + block + end + after
}
