package app

import (
	"context"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/telemetry"
	"github.com/herald-relay/herald/mcpevents"
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

// observer counts what events come to. metrics is set before the relay runs.
type observer struct {
	mcpevents.NopObserver
	metrics *telemetry.Metrics
}

// Attempted implements mcpevents.Observer.
func (o *observer) Attempted(r mcpevents.AttemptReport) {
	o.metrics.EventAttempt(string(r.Verdict), r.Outcome.Elapsed)
}

// Verified implements mcpevents.Observer.
func (o *observer) Verified(_ string, category mcpevents.Category) {
	o.metrics.EventVerified(category == "")
}

// Ended implements mcpevents.Observer.
func (o *observer) Ended(s mcpevents.Subscription) { o.metrics.EventSubscriptionEnded(s.Reason) }

// Swept implements mcpevents.Observer.
func (o *observer) Swept(kind string, n int) { o.metrics.Swept("event_"+kind, n) }
