package guard

import (
	"bytes"
	"go/ast"
	"testing"
)

// leaksFoundElsewhere are packages that start goroutines and whose leaks are found by another package's tests.
var leaksFoundElsewhere = map[string]string{
	"internal/deviceapi": "internal/app runs its streams over the wire",
	"bench":              "it measures and ends",
}

func TestPackagesThatStartGoroutinesLookForLeaks(t *testing.T) {
	starts, looks := map[string]bool{}, map[string]bool{}
	for _, f := range load(t).gos {
		switch {
		case f.isTest():
			looks[f.pkg] = looks[f.pkg] || bytes.Contains(f.text, []byte("goleak.VerifyTestMain("))
		case !isHelp(f.pkg):
			starts[f.pkg] = starts[f.pkg] || startsGoroutines(f.syntax)
		}
	}
	for pkg, yes := range starts {
		if yes && !looks[pkg] && leaksFoundElsewhere[pkg] == "" {
			t.Errorf("%s starts goroutines, and no TestMain of its looks for leaks with goleak", pkg)
		}
	}
	for pkg := range leaksFoundElsewhere {
		if !starts[pkg] || looks[pkg] {
			t.Errorf("%s needs no exception any more", pkg)
		}
	}
}

// startsGoroutines looks for go statements and for WaitGroup.Go or the like of a function.
func startsGoroutines(file *ast.File) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
				found = true
			}
		}
		return !found
	})
	return found
}
