package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/herald-relay/herald/internal/sqlite"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
)

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "herald.db")) })
}
