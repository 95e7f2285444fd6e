package lifecycle

import (
	"context"
	"sync"
)

// Await returns nil when the group's goroutines have ended, or ctx's cause when ctx ends first; they are left behind then.
func Await(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { // ends with the group, which the caller gives up on only when the process ends
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
