package mcpevents

import (
	"context"
	"errors"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

const sweepBatch = 500 // records of one kind in one transaction

// sweepLoop sweeps every SweepEvery until ctx ends.
func (s *Server) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(s.opts.Engine.SweepEvery)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("sweep", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Sweep ends what has lapsed, drops what is past its deadline and forgets what is past its retention at now. Run does it
// by itself; it is exported for programs without Run and for tests.
func (s *Server) Sweep(ctx context.Context, now time.Time) error {
	keep := s.retention()
	return errors.Join(
		s.sweepLapsed(ctx, now),
		s.sweepOverdue(ctx, now),
		s.forget(ctx, SweptDeliveries, now, keep.Deliveries, func(tx driver.Tx) forgetter { return tx.Deliveries() }),
		s.forget(ctx, SweptSubscriptions, now, keep.Subscriptions, func(tx driver.Tx) forgetter { return tx.Subscriptions() }),
		s.forget(ctx, SweptEvents, now, keep.Events, func(tx driver.Tx) forgetter { return tx.Events() }),
		s.forget(ctx, SweptVerifications, now, s.longestProof(), func(tx driver.Tx) forgetter { return tx.Verifications() }),
	)
}

// retention is the longest of all families' for each kind: records do not say which family they are of. Negative keeps
// for ever.
func (s *Server) retention() Retention {
	all := s.families[0].Policy.Retention
	for _, f := range s.families[1:] {
		r := f.Policy.Retention
		all.Events = longer(all.Events, r.Events)
		all.Deliveries = longer(all.Deliveries, r.Deliveries)
		all.Subscriptions = longer(all.Subscriptions, r.Subscriptions)
	}
	return all
}

func longer(a, b time.Duration) time.Duration {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

func (s *Server) longestProof() time.Duration {
	var d time.Duration
	for _, f := range s.families {
		d = longer(d, f.Policy.Verification.Remember)
	}
	return d
}

func (s *Server) sweepLapsed(ctx context.Context, now time.Time) error {
	for {
		var ended []Subscription
		err := s.db.Update(ctx, func(tx driver.Tx) error {
			ended = ended[:0]
			ids, err := tx.Subscriptions().Lapsed(now, sweepBatch)
			if err != nil {
				return err
			}
			for _, id := range ids {
				sub, err := tx.Subscriptions().Get(id)
				if err != nil {
					return err
				}
				if sub, err = endSubscription(tx, sub, ReasonLapsed, millis(now)); err != nil {
					return err
				}
				ended = append(ended, sub)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, sub := range ended {
			s.ended(sub)
		}
		s.swept(SweptLapsed, len(ended))
		if len(ended) < sweepBatch {
			return nil
		}
	}
}

func (s *Server) sweepOverdue(ctx context.Context, now time.Time) error {
	for {
		total := 0
		err := s.db.Update(ctx, func(tx driver.Tx) error {
			total = 0
			dropped, err := tx.Deliveries().Overdue(now, ReasonDeadline, sweepBatch)
			for _, n := range dropped {
				total += n
			}
			return err
		})
		if err != nil {
			return err
		}
		s.swept(SweptOverdue, total)
		if total < sweepBatch {
			return nil
		}
	}
}

type forgetter interface {
	Forget(cutoff time.Time, limit int) (int, error)
}

func (s *Server) forget(ctx context.Context, kind string, now time.Time, keep time.Duration, of func(driver.Tx) forgetter) error {
	if keep < 0 {
		return nil
	}
	for {
		n := 0
		err := s.db.Update(ctx, func(tx driver.Tx) (err error) {
			n, err = of(tx).Forget(now.Add(-keep), sweepBatch)
			return err
		})
		if err != nil {
			return err
		}
		s.swept(kind, n)
		if n < sweepBatch {
			return nil
		}
	}
}

func (s *Server) swept(kind string, n int) {
	if n > 0 {
		s.log.Info("swept", "kind", kind, "records", n)
		s.watch.Swept(kind, n)
	}
}
