package app

import (
	"context"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/store"
)

// observed tells how long updates took. update is set before the store serves requests.
type observed struct {
	store.Store
	update func(elapsed time.Duration, failed bool)
}

// Update measures the whole wait of the caller, the group commit included.
func (o *observed) Update(ctx context.Context, fn func(store.Tx) error) error {
	start := time.Now()
	err := o.Store.Update(ctx, fn)
	o.update(time.Since(start), fault.Is(err, fault.Unavailable))
	return err
}
