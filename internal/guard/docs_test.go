package guard

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func markdown(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range load(t).files {
		if strings.HasSuffix(name, ".md") && !strings.Contains(name, "testdata/") {
			names = append(names, name)
		}
	}
	return names
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

func TestLinksBetweenDocumentsLead(t *testing.T) {
	for _, name := range markdown(t) {
		text := fence.ReplaceAllString(read(t, name), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := m[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			info, err := os.Stat(filepath.Join(root, filepath.FromSlash(at)))
			if err != nil {
				t.Errorf("%s links to %s, which is not there", name, target)
				continue
			}
			if anchor != "" && !info.IsDir() && !slices.Contains(anchors(read(t, at)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", name, target)
			}
		}
	}
}

// anchors lists the fragments of a page's headings, as common renderers make them.
func anchors(text string) (list []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(m[1]) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
				b.WriteRune(r)
			}
		}
		list = append(list, b.String())
	}
	return list
}

func TestTheMapNamesEveryPackage(t *testing.T) {
	page := read(t, "ARCHITECTURE.md")
	seen := map[string]bool{}
	for _, f := range load(t).gos {
		if seen[f.pkg] {
			continue
		}
		seen[f.pkg] = true
		if !accounted(page, f.pkg) {
			t.Errorf("ARCHITECTURE.md names neither `%s` nor a package above it", f.pkg)
		}
	}
	for _, m := range regexp.MustCompile("`((?:internal|cmd)/[a-z]+)`").FindAllStringSubmatch(page, -1) {
		if !seen[m[1]] {
			t.Errorf("ARCHITECTURE.md names `%s`, which is not there", m[1])
		}
	}
}

// testName matches a test in running text.
var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`")

func TestTheInvariantsNameTestsThatExist(t *testing.T) {
	there := map[string]bool{}
	for _, f := range load(t).gos {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				there[fn.Name.Name] = true
			}
		}
	}
	page := read(t, "ARCHITECTURE.md")
	named := testName.FindAllStringSubmatch(page, -1)
	if len(named) < 10 {
		t.Errorf("ARCHITECTURE.md names only %d tests", len(named))
	}
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("ARCHITECTURE.md leans on `%s`, which is not there", m[1])
		}
	}
}

func TestEveryErrorCodeIsDocumented(t *testing.T) {
	page := read(t, "docs/wire/errors.md")
	constants, used := stringConstants(t), map[string]string{}
	for _, f := range load(t).gos {
		if f.isTest() || isHelp(f.pkg) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 || !isFaultNew(f, call.Fun) {
				return true
			}
			if code := constants.valueOf(f.pkg, call.Args[1]); code != "" {
				used[code] = f.path
			}
			return true
		})
	}
	if len(used) < 10 {
		t.Errorf("only %d error codes found in the sources", len(used))
	}
	for code, file := range used {
		if !strings.Contains(page, "| `"+code+"` |") {
			t.Errorf("docs/wire/errors.md does not list `%s`, which %s answers with", code, file)
		}
	}
}

// constantsOf holds the text of constants by "folder.Name".
type constantsOf map[string]string

func stringConstants(t *testing.T) constantsOf {
	t.Helper()
	c := constantsOf{}
	for _, f := range load(t).gos {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != len(spec.Values) {
				return true
			}
			for i, name := range spec.Names {
				if text := c.valueOf(f.pkg, spec.Values[i]); text != "" {
					c[path.Base(f.pkg)+"."+name.Name] = text
				}
			}
			return true
		})
	}
	return c
}

// valueOf is the text of a literal or of a constant of ours; "" for anything else.
func (c constantsOf) valueOf(pkg string, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil || e.Kind != token.STRING {
			return ""
		}
		return text
	case *ast.Ident:
		return c[path.Base(pkg)+"."+e.Name]
	case *ast.SelectorExpr:
		if id, ok := e.X.(*ast.Ident); ok {
			return c[id.Name+"."+e.Sel.Name]
		}
	}
	return ""
}

func isFaultNew(f *goFile, fun ast.Expr) bool {
	if id, ok := fun.(*ast.Ident); ok {
		return f.pkg == "internal/fault" && id.Name == "New"
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "New" {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == "fault"
}

func TestEveryModuleOfOthersIsAccountedFor(t *testing.T) {
	page := read(t, "docs/decisions/0002-dependencies.md")
	for _, d := range doors {
		if !strings.Contains(page, "`"+d.module+"`") {
			t.Errorf("docs/decisions/0002-dependencies.md does not account for %s", d.module)
		}
	}
	for _, f := range load(t).gos {
		for _, imp := range f.imports() {
			if isThirdParty(imp) && !accounted(page, imp) {
				t.Errorf("%s imports %s, which docs/decisions/0002-dependencies.md does not account for", f.path, imp)
			}
		}
	}
}

// accounted reports whether a page names a path or one above it, in code type.
func accounted(page, imp string) bool {
	for imp != "." && imp != "/" {
		if strings.Contains(page, "`"+imp+"`") {
			return true
		}
		imp = path.Dir(imp)
	}
	return false
}

func TestWhatLandsIsChecked(t *testing.T) {
	ci, script := read(t, ".ci/run"), read(t, "scripts/test")
	if !strings.Contains(ci, "scripts/test") {
		t.Error(".ci/run does not run scripts/test")
	}
	for _, step := range []string{"scripts/check", "-race", "scripts/postgres.sh", "./e2e/..."} {
		if !strings.Contains(script, step) {
			t.Errorf("scripts/test does not run %s", step)
		}
	}
}
