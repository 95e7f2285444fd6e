package lifecycle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/lifecycle"
)

func TestAwaitReturnsWithTheGroupOrWithTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		group.Go(func() { time.Sleep(time.Minute) })
		patience, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the grace is over"))
		defer cancel()
		if err := lifecycle.Await(patience, &group); err == nil || err.Error() != "the grace is over" {
			t.Errorf("after a second: %v, want the cause", err)
		}
		if err := lifecycle.Await(t.Context(), &group); err != nil {
			t.Errorf("after the group ended: %v", err)
		}
	})
}
