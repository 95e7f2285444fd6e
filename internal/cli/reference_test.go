package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the reference in docs/cli.md")

const (
	page     = "../../docs/cli.md"
	opening  = "<!-- reference: written by go test ./internal/cli -run Reference -update -->\n"
	closing  = "<!-- end of reference -->\n"
	codeMark = "```"
)

// TestReferenceIsTrue keeps the reference in docs/cli.md equal to the commands themselves.
func TestReferenceIsTrue(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(data), opening)
	have, tail, ended := strings.Cut(rest, closing)
	if !found || !ended {
		t.Fatalf("%s has no reference between %q and %q", page, opening, closing)
	}
	want := reference(t)
	if *update {
		if err := os.WriteFile(page, []byte(head+opening+want+closing+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("docs/cli.md is not what the commands are; run go test ./internal/cli -run Reference -update (-want +have):\n%s", diff)
	}
}

// reference describes every command from kong's model.
func reference(t *testing.T) string {
	t.Helper()
	var c commands
	w, _, _ := world("")
	parser, err := newParser(&c, w)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	describeNode(t, &b, parser.Model.Node)
	return b.String()
}

func describeNode(t *testing.T, b *strings.Builder, n *kong.Node) {
	t.Helper()
	for _, child := range n.Children {
		if child.Hidden || child.Type != kong.CommandNode {
			continue
		}
		if len(child.Children) > 0 {
			describeNode(t, b, child)
			continue
		}
		describeCommand(t, b, child)
	}
}

func describeCommand(t *testing.T, b *strings.Builder, n *kong.Node) {
	t.Helper()
	path := n.FullPath()
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n%s\n%s\n%s\n", path, n.Help, codeMark, usageOf(n), codeMark)
	prose, examples := split(n.Detail)
	if prose != "" {
		fmt.Fprintf(b, "\n%s\n", prose)
	}
	if n.Name != "completion" { // its help is the library's
		if examples == "" {
			t.Errorf("%s has no example", path)
		}
		fmt.Fprintf(b, "\n%ssh\n%s%s\n", codeMark, examples, codeMark)
	}
	describeValues(t, b, n)
}

func usageOf(n *kong.Node) string {
	var text strings.Builder
	text.WriteString(n.FullPath())
	for _, p := range n.Positional {
		text.WriteString(" " + p.Summary())
	}
	return text.String() + " [flags]"
}

// split takes the examples off the end of a command's help.
func split(detail string) (prose, examples string) {
	prose, examples, _ = strings.Cut(detail, "Example")
	if examples == "" {
		return strings.TrimSpace(prose), ""
	}
	_, examples, _ = strings.Cut(examples, "\n")
	var b strings.Builder
	for line := range strings.Lines(examples) {
		b.WriteString(strings.TrimPrefix(line, "  "))
	}
	return strings.TrimSpace(prose), strings.TrimSuffix(b.String(), "\n") + "\n"
}

func describeValues(t *testing.T, b *strings.Builder, n *kong.Node) {
	t.Helper()
	var rows []string
	for _, p := range n.Positional {
		rows = append(rows, row(t, n, p.Summary(), p.Help))
	}
	for _, f := range n.Flags {
		name := "--" + f.Name
		if !f.IsBool() {
			name += "=" + f.FormatPlaceHolder()
		}
		help := f.Help
		if len(f.Envs) > 0 {
			help += " Also the variable " + f.Envs[0] + "."
		}
		rows = append(rows, row(t, n, name, help))
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n| | |\n|---|---|\n%s", strings.Join(rows, ""))
	}
}

func row(t *testing.T, n *kong.Node, name, help string) string {
	t.Helper()
	if help == "" {
		t.Errorf("%s: %s says nothing of itself", n.FullPath(), name)
	}
	return fmt.Sprintf("| `%s` | %s |\n", strings.ReplaceAll(name, "|", "\\|"), strings.ReplaceAll(help, "|", "\\|"))
}
