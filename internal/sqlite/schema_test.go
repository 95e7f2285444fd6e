package sqlite

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

// TestSchemaIsWhatTheMigrationsMake keeps schema.sql, which nothing else reads, equal to the result of all migrations.
func TestSchemaIsWhatTheMigrationsMake(t *testing.T) {
	s := open(t, newPath(t))
	var b strings.Builder
	b.WriteString("-- The result of all migrations. Written by: go test ./internal/sqlite -run Schema -update\n")
	err := s.View(t.Context(), func(t store.Tx) error {
		const query = `SELECT sql FROM sqlite_schema
			WHERE sql IS NOT NULL AND tbl_name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%' ORDER BY tbl_name, type DESC, name`
		return t.(*tx).prepare(query).Rows(func(s *native.Stmt) error {
			b.WriteString("\n" + s.ColText(0) + ";\n")
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("schema.sql", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(golden), b.String()); d != "" {
		t.Errorf("schema.sql (-file +migrations); run with -update if that is meant:\n%s", d)
	}
}
