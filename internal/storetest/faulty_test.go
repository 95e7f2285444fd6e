package storetest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
)

// counter is a store that only counts what it commits.
type counter struct {
	store.Store
	committed int
}

func (c *counter) Update(_ context.Context, fn func(store.Tx) error) error {
	if err := fn(nil); err != nil {
		return err
	}
	c.committed++
	return nil
}

func TestFaultyFailsAtTheNthUpdate(t *testing.T) {
	for how, persisted := range map[storetest.Failure]int{storetest.NotPersisted: 2, storetest.Persisted: 3} {
		c := &counter{}
		f := storetest.NewFaulty(c)
		f.FailNth(2, how)
		ran := 0
		for i := 1; i <= 3; i++ {
			err := f.Update(t.Context(), func(store.Tx) error { ran++; return nil })
			if want := i == 2; (err == storetest.ErrInjected) != want {
				t.Errorf("failure %d, Update %d = %v", how, i, err)
			}
		}
		if ran != 3 || c.committed != persisted || f.Updates() != 3 {
			t.Errorf("failure %d: ran %d, committed %d, seen %d; want 3, %d, 3", how, ran, c.committed, f.Updates(), persisted)
		}
	}
}

func TestFaultyReturnsTheErrorOfFnFirst(t *testing.T) {
	refused := errors.New("refused")
	for _, how := range []storetest.Failure{storetest.NotPersisted, storetest.Persisted} {
		f := storetest.NewFaulty(&counter{})
		f.FailNth(1, how)
		if err := f.Update(t.Context(), func(store.Tx) error { return refused }); err != refused {
			t.Errorf("failure %d: Update = %v, want the error of fn", how, err)
		}
	}
}
