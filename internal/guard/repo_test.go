package guard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/herald-relay/herald"
)

// notOurs are folders that hold nothing of ours: tools' outputs and other people's packages.
var notOurs = []string{".git", ".cache", "node_modules", "module-cache", "artifacts", "dist"}

// goFile is one parsed Go file.
type goFile struct {
	path   string // slash-separated, from the root
	pkg    string // its folder, "." for the root
	text   []byte
	syntax *ast.File
}

func (f *goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// isHelp tells packages for tests, by their names: they may import testing.
func isHelp(pkg string) bool {
	base := path.Base(pkg)
	return strings.HasSuffix(base, "test") || strings.HasSuffix(base, "testkit") || base == "guard"
}

type repository struct {
	files []string // all files of ours, slash-separated, from the root
	gos   []*goFile
	set   *token.FileSet
	err   error
}

// repo reads the tree once for all tests.
var repo = sync.OnceValue(func() (r repository) {
	r.set = token.NewFileSet()
	r.err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(filepath.Clean(p), filepath.Clean(root)+string(filepath.Separator)))
		switch {
		case d.IsDir() && slices.Contains(notOurs, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular() || rel == ".git": // a file in linked work trees
			return nil
		}
		r.files = append(r.files, rel)
		if strings.HasSuffix(rel, ".go") && !strings.Contains(rel, "testdata/") {
			return r.parse(p, rel)
		}
		return nil
	})
	return r
})

func (r *repository) parse(p, rel string) error {
	text, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(r.set, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	r.gos = append(r.gos, &goFile{path: rel, pkg: path.Dir(rel), text: text, syntax: syntax})
	return nil
}

func load(t *testing.T) repository {
	t.Helper()
	r := repo()
	if r.err != nil {
		t.Fatal(r.err)
	}
	if len(r.gos) < 10 {
		t.Fatalf("only %d Go files found: the walk went wrong", len(r.gos))
	}
	return r
}

// read returns a file of the tree.
func read(t *testing.T, rel string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// imports lists a file's import paths.
func (f *goFile) imports() (list []string) {
	for _, spec := range f.syntax.Imports {
		list = append(list, strings.Trim(spec.Path.Value, `"`))
	}
	return list
}

// ours cuts the module's name off an import path of ours.
func ours(importPath string) (pkg string, ok bool) {
	return strings.CutPrefix(importPath, module+"/")
}

// isThirdParty tells whether an import comes from another module: its first element has a dot and is not ours.
func isThirdParty(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	_, own := ours(importPath)
	return strings.Contains(first, ".") && !own
}

// within reports whether path is one of the prefixes or below one.
func within(path string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}
