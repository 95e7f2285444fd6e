// Package sweep removes what retention has passed, in bounded batches, for as long as the relay runs.
//
// Every process of a relay sweeps; each batch is one transaction, so two sweepers at work only find less to do.
package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/herald-relay/herald/internal/clips"
	"github.com/herald-relay/herald/internal/mailbox"
	"github.com/herald-relay/herald/internal/oauth"
	"github.com/herald-relay/herald/internal/pairing"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// How long kinds of records are kept (contract section 12).
const (
	keepUsageDays = 7
	keepMarks     = 2 * time.Hour // the longest window is one hour
)

// batch bounds what one transaction removes, rounds how many batches one run does.
const (
	batch  = 500
	rounds = 200
)

// Sweeper does the housekeeping. All fields are set once, before Run.
type Sweeper struct {
	Store   store.Store
	Mailbox *mailbox.Service
	Pairing *pairing.Service
	OAuth   *oauth.Service
	Clips   *clips.Dir
	// CloseSilent ends streams that were silent for too long.
	CloseSilent func(now time.Time)
	// Swept is told how many records of a kind were removed.
	Swept func(kind string, n int)
	Log   *slog.Logger
}

// Run expires every few seconds and removes every few minutes until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	expire := time.NewTicker(s.expireEvery())
	defer expire.Stop()
	remove := time.NewTicker(removeEvery)
	defer remove.Stop()
	s.Remove(ctx, time.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-expire.C:
			s.step(ctx, "requests", func() (int, error) { return s.OAuth.Expire(ctx, time.Now()) })
			s.step(ctx, "expired", func() (int, error) { return s.Mailbox.Expire(ctx, time.Now()) })
		case <-remove.C:
			s.Remove(ctx, time.Now())
		}
	}
}

const removeEvery = 5 * time.Minute

// expireEvery keeps an expiry's lateness to a hundredth of the waiting time, within reason.
func (s *Sweeper) expireEvery() time.Duration {
	return min(max(s.Mailbox.Limits.QueueTTL/100, time.Second), 15*time.Second)
}

// Remove does one whole round at now.
func (s *Sweeper) Remove(ctx context.Context, now time.Time) {
	s.step(ctx, "expired", func() (int, error) { return s.Mailbox.Expire(ctx, now) })
	s.step(ctx, "notifications", func() (int, error) { return s.Mailbox.Forget(ctx, now) })
	s.batches(ctx, "usage", func(tx store.Tx) (int, error) {
		return tx.Usage().Forget(relay.Day(now.AddDate(0, 0, -keepUsageDays)), batch)
	})
	s.batches(ctx, "codes", func(tx store.Tx) (int, error) { return tx.Pairing().Forget(now, batch) })
	s.batches(ctx, "marks", func(tx store.Tx) (int, error) { return tx.Marks().Forget(now.Add(-keepMarks), batch) })
	s.step(ctx, "requests", func() (int, error) { return s.OAuth.Expire(ctx, now) })
	s.step(ctx, "requests", func() (int, error) { return s.OAuth.EndUncollected(ctx, now) })
	s.batches(ctx, "consents", func(tx store.Tx) (int, error) { return tx.Consents().Forget(now.Add(-relay.ConsentKept), batch) })
	s.batches(ctx, "audit", func(tx store.Tx) (int, error) { return tx.Audit().Forget(now.Add(-relay.AuditKept), batch) })
	s.step(ctx, "mailboxes", func() (int, error) { return s.Pairing.RemoveIdle(ctx, now, batch) })
	s.step(ctx, "clips", func() (int, error) { return s.Clips.Sweep(now.Add(-clips.Keep), batch*rounds) })
	s.CloseSilent(now)
}

func (s *Sweeper) batches(ctx context.Context, kind string, fn func(store.Tx) (int, error)) {
	s.step(ctx, kind, func() (total int, err error) {
		for range rounds {
			n := 0
			err = s.Store.Update(ctx, func(tx store.Tx) (err error) {
				n, err = fn(tx)
				return err
			})
			total += n
			if err != nil || n < batch {
				return total, err
			}
		}
		return total, nil
	})
}

// step runs one kind of removal. A failure waits for the next round: nothing depends on when records go.
func (s *Sweeper) step(ctx context.Context, kind string, fn func() (int, error)) {
	n, err := fn()
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("sweep failed, will be tried again", "kind", kind, "err", err)
	}
	if n > 0 {
		s.Swept(kind, n)
		s.Log.Debug("swept", "kind", kind, "count", n)
	}
}
