package guard

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/format"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	has := map[string]bool{}
	for _, f := range load(t).gos {
		if f.isTest() {
			continue
		}
		doc := strings.TrimSpace(f.syntax.Doc.Text())
		want := "Package " + f.syntax.Name.Name + " "
		if f.syntax.Name.Name == "main" {
			want = "Command " + path.Base(f.pkg) + " "
		}
		if doc != "" && !strings.HasPrefix(doc, want) && !strings.HasPrefix(doc, "Package ") {
			t.Errorf("%s: the package comment begins %q, want %q", f.path, firstWords(doc), want)
		}
		has[f.pkg] = has[f.pkg] || strings.HasPrefix(doc, want)
	}
	for pkg, ok := range has {
		if !ok {
			t.Errorf("%s has no package comment that says what it is for", pkg)
		}
	}
}

func firstWords(s string) string {
	words := strings.Fields(s)
	return strings.Join(words[:min(4, len(words))], " ")
}

func TestSourcesAreFormatted(t *testing.T) {
	for _, f := range load(t).gos {
		got, err := format.Source(f.text)
		if err != nil || !bytes.Equal(got, f.text) {
			t.Errorf("%s: gofmt would change it (%v)", f.path, err)
		}
	}
}

// The size budget. Half of all functions fit a dozen lines and nine in ten fit fifty; the ceilings are where one story
// has become several.
const (
	fileCeiling     = 600
	testFileCeiling = 900
	functionCeiling = 90
	medianBudget    = 15
	ninetiethBudget = 50
)

func TestSizesStayHuman(t *testing.T) {
	r := load(t)
	var functions, files []sized
	for _, f := range r.gos {
		lines := bytes.Count(f.text, []byte("\n"))
		ceiling := fileCeiling
		if f.isTest() {
			ceiling = testFileCeiling
		}
		if lines > ceiling {
			t.Errorf("%s has %d lines; past %d it is several rooms in one", f.path, lines, ceiling)
		}
		if f.isTest() {
			continue
		}
		files = append(files, sized{f.path, lines})
		for _, fn := range functionSizes(r.set, f) {
			functions = append(functions, fn)
			if fn.lines > functionCeiling {
				t.Errorf("%s has %d lines; past %d it is several stories", fn.name, fn.lines, functionCeiling)
			}
		}
	}
	report(t, "files", files)
	report(t, "functions", functions)
	if m, n := at(functions, 50), at(functions, 90); m > medianBudget || n > ninetiethBudget {
		t.Errorf("functions: median %d lines, nine in ten within %d; want at most %d and %d", m, n, medianBudget, ninetiethBudget)
	}
}

type sized struct {
	name  string
	lines int
}

func functionSizes(set *token.FileSet, f *goFile) (list []sized) {
	for _, d := range f.syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			lines := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1
			list = append(list, sized{f.path + ": " + fn.Name.Name, lines})
		}
	}
	return list
}

func at(list []sized, percent int) int { return list[(len(list)-1)*percent/100].lines }

func report(t *testing.T, what string, list []sized) {
	slices.SortFunc(list, func(a, b sized) int { return cmp.Compare(a.lines, b.lines) })
	t.Logf("%s: %d, lines at median %d, 90%% %d, 99%% %d", what, len(list), at(list, 50), at(list, 90), at(list, 99))
	for _, s := range list[max(0, len(list)-3):] {
		t.Logf("  %4d %s", s.lines, s.name)
	}
}

// forbidden are names of other packages that no source of ours may use, tests apart.
var forbidden = []struct {
	name    string
	pattern *regexp.Regexp // of the form package.Name
	except  []string       // packages that may
	why     string
}{
	{"package-level logging", regexp.MustCompile(`^(log\.(Print|Fatal|Panic)\w*|slog\.(Debug|Info|Warn|Error|Log|LogAttrs|Default|SetDefault)(Context)?)$`), nil, "a logger arrives through the constructor"},
	{"printing", regexp.MustCompile(`^fmt\.Print(f|ln)?$`), []string{"bench"}, "commands print to the writer they are given"},
	{"the default mux and client", regexp.MustCompile(`^http\.(DefaultServeMux|DefaultClient|Get|Post|PostForm|Head|Handle|HandleFunc|ListenAndServe)$`), nil, "they are shared by whoever imports anything, profiles included"},
	{"exiting", regexp.MustCompile(`^os\.Exit$`), []string{"cmd/herald", "bench"}, "only main ends the process"},
}

func TestForbiddenCalls(t *testing.T) {
	for _, f := range load(t).gos {
		if f.isTest() || isHelp(f.pkg) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			id, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			call := id.Name + "." + sel.Sel.Name
			for _, rule := range forbidden {
				if rule.pattern.MatchString(call) && !within(f.pkg, rule.except...) {
					t.Errorf("%s uses %s (%s): %s", f.path, call, rule.name, rule.why)
				}
			}
			return true
		})
	}
}

// mayStartGoroutines are the packages whose own types wait for the goroutines that they start with a go statement.
var mayStartGoroutines = map[string]string{
	"internal/lifecycle":  "it runs services and waits for them",
	"internal/app":        "the public server's Serve, whose end is waited for after Shutdown",
	"internal/client":     "a stream's writer, which the stream waits for",
	"bench":               "a benchmark waits for its own workers",
	"internal/cli/local":  "reading standard input cannot be interrupted: the process ends over it",
	"internal/cli/listen": "reading standard input, and a desktop that does not answer, cannot be interrupted: the process ends over them",
}

func TestGoroutinesHaveAnOwner(t *testing.T) {
	for _, f := range load(t).gos {
		if f.isTest() || isHelp(f.pkg) || mayStartGoroutines[f.pkg] != "" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s:%d starts a goroutine with go; use WaitGroup.Go in a type that waits, or say in the table who waits", f.path, load(t).set.Position(g.Pos()).Line)
			}
			return true
		})
	}
}

// sleepsAllowed are packages that may sleep outside a synctest bubble, each with its reason.
var sleepsAllowed = map[string]string{
	"e2e":     "the built program lives in real time, and is killed at moments of chance",
	"e2e/cli": "the built program lives in real time, and a person types in it",
}

func TestNoTestSleepsInRealTime(t *testing.T) {
	for _, f := range load(t).gos {
		if !f.isTest() && !isHelp(f.pkg) || slices.Contains(f.imports(), "testing/synctest") || sleepsAllowed[f.pkg] != "" {
			continue
		}
		if regexp.MustCompile(`\btime\.Sleep\(`).Match(f.text) && f.pkg != "internal/guard" {
			t.Errorf("%s sleeps in real time; use a bubble, a signal or a deadline", f.path)
		}
	}
}

var (
	sqlText  = regexp.MustCompile(`(?is)^\s*(select\s.+\sfrom\s|insert\s+(or\s+\w+\s+)?into\s|update\s+\w+\s+set\s|delete\s+from\s|create\s+(table|index|unique)\s)`)
	sqlClock = regexp.MustCompile(`(?i)\b(now\s*\(\s*\)|current_timestamp|current_time|current_date|clock_timestamp|unixepoch\s*\(|julianday\s*\(|localtimestamp)|'now'`)
)

func TestSQLStandsInStoresAndNeverAsksForTheTime(t *testing.T) {
	for _, f := range load(t).gos {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || f.pkg == "internal/guard" {
				return true
			}
			text, _ := strconv.Unquote(lit.Value)
			store := within(f.pkg, mayHoldSQL...)
			if !store && !f.isTest() && sqlText.MatchString(text) {
				t.Errorf("%s holds SQL: %.60q; it belongs to a store", f.path, text)
			}
			if store && !f.isTest() && sqlClock.MatchString(text) {
				t.Errorf("%s asks the database for the time: %.60q; time is an argument", f.path, text)
			}
			return true
		})
	}
	for _, name := range load(t).files {
		if strings.HasSuffix(name, ".sql") && !strings.HasPrefix(name, "bench/") && sqlClock.MatchString(read(t, name)) {
			t.Errorf("%s asks the database for the time; time is an argument", name)
		}
	}
}

func TestPromisesToDoSomethingNameAnIssue(t *testing.T) {
	promise := regexp.MustCompile(`\b(TODO|FIXME|XXX)\b(\(#\d+\))?`)
	for _, f := range load(t).gos {
		for _, group := range f.syntax.Comments {
			for _, m := range promise.FindAllStringSubmatch(group.Text(), -1) {
				if m[2] == "" {
					t.Errorf("%s has a %s without an issue, such as %s(#12)", f.path, m[1], m[1])
				}
			}
		}
	}
}
