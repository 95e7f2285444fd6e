package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the settings in docs/configuration.md")

const (
	docPath  = "../../docs/configuration.md"
	docBegin = "<!-- settings: made from internal/config/config.go by go test ./internal/config -update -->\n"
	docEnd   = "<!-- settings: end -->\n"
)

func TestDocumentationEqualsTheFieldComments(t *testing.T) {
	page, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(page), docBegin)
	body, tail, closed := strings.Cut(rest, docEnd)
	if !found || !closed {
		t.Fatalf("%s lost the marks around its settings", docPath)
	}
	want := describeFields(t)
	if *update {
		if err := os.WriteFile(docPath, []byte(head+docBegin+want+docEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("docs/configuration.md is not what the field comments say; go test ./internal/config -update (-want +got):\n%s", diff)
	}
}

// describeFields renders the comments of Config's fields, with what their tags and the defaults add.
func describeFields(t *testing.T) string {
	t.Helper()
	comments := fieldComments(t)
	defaults := Default()
	var b strings.Builder
	fields := reflect.TypeFor[Config]()
	for _, s := range settings {
		f := fields.Field(s.index)
		if group := f.Tag.Get("group"); group != "" {
			fmt.Fprintf(&b, "\n## %s\n", group)
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n", s.key)
		text, named := strings.CutPrefix(comments[f.Name], f.Name)
		if !named {
			t.Errorf("the comment of Config.%s does not begin with its name", f.Name)
		}
		fmt.Fprintf(&b, "`%s`%s\n\n", s.key, text)
		b.WriteString("- Default: " + defaultText(s, &defaults) + "\n")
		if s.flag != "" {
			fmt.Fprintf(&b, "- Flag: `--%s`\n", s.flag)
		}
		if s.secret {
			fmt.Fprintf(&b, "- From a file: `%s%s`\n", s.key, fileSuffix)
		}
	}
	return b.String()
}

func defaultText(s setting, c *Config) string {
	if v := s.text(c); v != "" {
		return "`" + v + "`"
	}
	return "none"
}

func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			for _, name := range f.Names {
				comments[name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
		return false
	})
	return comments
}
