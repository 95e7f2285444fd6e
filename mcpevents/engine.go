package mcpevents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// Engine tunes how deliveries are carried out. The zero value is useful.
type Engine struct {
	// Workers bounds the attempts under way. Zero is 256.
	Workers int
	// PerHost bounds them for one host, so that a host that hangs leaves workers for the others. Zero is a quarter of
	// Workers.
	PerHost int
	// PollEvery is how soon at the latest the store is looked at for work of other processes. Zero is 1 s.
	PollEvery time.Duration
	// SweepEvery is how often what is past its time is ended, dropped and forgotten. Zero is 30 s.
	SweepEvery time.Duration
	// Grace is how long attempts may go on after Run was told to stop. Zero is 15 s.
	Grace time.Duration
}

func (e Engine) withDefaults() Engine {
	orElse(&e.Workers, 256)
	orElse(&e.PerHost, max(e.Workers/4, 1))
	orElse(&e.PollEvery, time.Second)
	orElse(&e.SweepEvery, 30*time.Second)
	orElse(&e.Grace, 15*time.Second)
	return e
}

const (
	claimBatch   = 256
	leaseMargin  = 30 * time.Second // of a lease beyond the longest attempt
	settleWithin = 10 * time.Second // for the last settlement after a stop
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// errStopped ends attempts that outlast the grace period. It is no outcome: their leases are given back.
var errStopped = errors.New("mcpevents: stopping")

// dispatcher is one run of the engine. One goroutine, run's, owns everything in it but results: it settles what was
// attempted and claims what is due in one transaction, so that commits are shared the more the busier it is.
//
// A worker's slot is free only once its outcome is stored, so a store that is away stops new attempts instead of losing
// what is known of old ones.
type dispatcher struct {
	*Server
	lease    time.Duration
	busy     map[string]int // attempts by host
	underWay map[deliveryKey]struct{}
	unstored []result
	results  chan result
	workers  sync.WaitGroup
}

type deliveryKey struct {
	subscription string
	sequence     int64
}

// Run delivers, sweeps and follows ledgers until ctx ends, and then lets attempts under way finish within the grace
// period. Any number of processes may run on one store. It returns nil on a stop that was asked for, and never gives up
// because of a store that fails: it tries again.
func (s *Server) Run(ctx context.Context) error {
	d := &dispatcher{Server: s, lease: s.leaseTime(), busy: map[string]int{}, underWay: map[deliveryKey]struct{}{},
		results: make(chan result, s.opts.Engine.Workers)}
	s.hub.open()
	var side sync.WaitGroup
	side.Go(func() {
		s.hub.watch(ctx, s.db, s.opts.Engine.PollEvery, func(err error) { s.log.Warn("look at ledgers", "err", err) })
	})
	side.Go(func() { s.sweepLoop(ctx) })
	side.Go(func() { s.postLoop(ctx) })
	d.run(ctx)
	s.hub.close()
	side.Wait()
	s.hub.wait()
	return nil
}

// leaseTime outlasts every attempt, so that within it nobody else attempts the same.
func (s *Server) leaseTime() time.Duration {
	var longest time.Duration
	for _, f := range s.families {
		longest = max(longest, f.Policy.Timeout)
	}
	return longest + leaseMargin
}

func (d *dispatcher) run(ctx context.Context) {
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	var backoff time.Duration
	for ctx.Err() == nil {
		leases, err := d.turn(ctx, d.free())
		if err != nil && ctx.Err() == nil {
			backoff = min(max(2*backoff, firstBackoff), maxBackoff)
			d.log.Warn("deliveries wait for the store", "err", err)
			_ = sleep(ctx, backoff) // a stop ends the loop anyway
			d.collect()
			continue
		}
		backoff = 0
		d.launch(work, leases)
		if len(leases) == 0 || d.free() == 0 {
			d.wait(ctx)
		}
		d.collect()
	}
	d.drain(ctx, func() { stopWork(errStopped) })
}

func (d *dispatcher) free() int { return d.opts.Engine.Workers - len(d.underWay) }

// turn is one transaction: it stores the outcomes at hand and claims up to free deliveries.
func (d *dispatcher) turn(ctx context.Context, free int) ([]driver.Lease, error) {
	var leases []driver.Lease
	var done settled
	now := time.Now()
	err := d.db.Update(ctx, func(tx driver.Tx) (err error) {
		leases = nil
		if done, err = d.settle(tx, d.unstored); err != nil {
			return err
		}
		if free > 0 {
			leases, err = tx.Deliveries().Claim(d.claim(now, free))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d.release(d.unstored)
	d.unstored = d.unstored[:0]
	d.report(done)
	return leases, nil
}

func (d *dispatcher) claim(now time.Time, free int) driver.ClaimParams {
	step := max(d.opts.Engine.PerHost/4, 1)
	p := driver.ClaimParams{Now: now, Until: now.Add(d.lease), Limit: min(free, claimBatch), PerLane: step, PerHost: step}
	for host, n := range d.busy {
		if n > d.opts.Engine.PerHost-step {
			p.BusyHosts = append(p.BusyHosts, host)
		}
	}
	return p
}

// launch begins attempts. A delivery that is under way here already was claimed again because the clock jumped past its
// lease: that second lease is left to run out.
func (d *dispatcher) launch(work context.Context, leases []driver.Lease) {
	claimed := time.Now()
	for _, l := range leases {
		key := deliveryKey{l.Delivery.Subscription, l.Delivery.Sequence}
		if _, double := d.underWay[key]; double {
			continue
		}
		d.underWay[key] = struct{}{}
		d.busy[l.Subscription.Host]++
		d.workers.Go(func() { d.results <- d.carry(work, l, claimed) })
	}
}

// release frees the slots of attempts whose outcome is stored.
func (d *dispatcher) release(rs []result) {
	for i := range rs {
		l := &rs[i].lease
		delete(d.underWay, deliveryKey{l.Delivery.Subscription, l.Delivery.Sequence})
		if d.busy[l.Subscription.Host]--; d.busy[l.Subscription.Host] == 0 {
			delete(d.busy, l.Subscription.Host)
		}
	}
}

// wait returns when there is something to store or to claim.
func (d *dispatcher) wait(ctx context.Context) {
	t := time.NewTimer(d.untilDue(ctx))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-d.wake:
	case <-t.C:
	case r := <-d.results:
		d.unstored = append(d.unstored, r)
	}
}

// untilDue is how long nothing will become due, at most PollEvery.
func (d *dispatcher) untilDue(ctx context.Context) time.Duration {
	limit := d.opts.Engine.PollEvery
	if d.free() == 0 {
		return limit
	}
	now := time.Now()
	_ = d.db.View(ctx, func(tx driver.Tx) error { // without an answer, look again after limit
		due, err := tx.Deliveries().NextDue(now)
		if err == nil && !due.IsZero() {
			limit = min(limit, due.Sub(now))
		}
		return err
	})
	return limit
}

// collect takes the outcomes that are there.
func (d *dispatcher) collect() {
	for {
		select {
		case r := <-d.results:
			d.unstored = append(d.unstored, r)
		default:
			return
		}
	}
}

// drain ends a run: attempts under way get the grace period, then are cut off, and what came of them is stored.
func (d *dispatcher) drain(ctx context.Context, cutOff func()) {
	finished := make(chan struct{})
	var watcher sync.WaitGroup // ends with the workers, which end by cutOff
	defer watcher.Wait()
	watcher.Go(func() {
		d.workers.Wait()
		close(finished)
	})
	grace := time.NewTimer(d.opts.Engine.Grace)
	defer grace.Stop()
	select {
	case <-finished:
	case <-grace.C:
		cutOff()
		<-finished
	}
	d.collect()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	for backoff := firstBackoff; len(d.unstored) > 0; backoff = min(2*backoff, maxBackoff) {
		if _, err := d.turn(ctx, 0); err != nil && sleep(ctx, backoff) != nil {
			d.log.Error("outcomes could not be stored before the stop; their leases run out and they are attempted again",
				"deliveries", len(d.unstored), "err", err)
			return
		}
	}
}
