package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLatchesExclude(t *testing.T) {
	t.Parallel()
	var l latches
	var wg sync.WaitGroup
	counter := 0
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if err := l.lock(t.Context(), "a"); err != nil {
					t.Error(err)
				}
				counter++
				l.unlock("a")
			}
		})
	}
	wg.Wait()
	if counter != 8000 {
		t.Errorf("counter = %d, want 8000: two held the latch at once", counter)
	}
	if len(l.name) != 0 {
		t.Errorf("%d latches left behind", len(l.name))
	}
}

func TestLatchesGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l latches
		if !l.tryLock("a") || l.tryLock("a") || !l.tryLock("b") {
			t.Error("tryLock takes what is free, and only that")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lock = %v, want the end of its context", err)
		}
		l.unlock("a")
		l.unlock("b")
		if len(l.name) != 0 {
			t.Errorf("%d latches left behind", len(l.name))
		}
	})
}
