package postgres_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Reuse(m)) }

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return pgtest.Open(t) })
}
