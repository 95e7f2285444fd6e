package allowance

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/relay"
)

// Window is a sliding-window limit held in memory, one tally per subject; a restart forgives. Memory is bounded by
// Limit instants per subject that was active within Span.
type Window struct {
	Limit int           // allowed strokes per subject within Span; zero or less allows none
	Span  time.Duration // length of the window

	seed   maphash.Seed
	once   sync.Once
	shards [16]windowShard
}

type windowShard struct {
	mu      sync.Mutex // guards the rest
	strokes map[string]*ring
	swept   time.Time
}

// ring holds the newest strokes in a circle that grows up to the limit; at is the place of the next one.
type ring struct {
	times []int64 // Unix milliseconds
	at    int
}

// Allow makes a stroke for subject at now and reports whether it was within the limit. A refused one is not counted.
// Strokes from before the clock was set back do not count (relay.ClockSlack).
func (w *Window) Allow(subject string, now time.Time) bool {
	w.once.Do(func() { w.seed = maphash.MakeSeed() })
	s := &w.shards[maphash.String(w.seed, subject)%uint64(len(w.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strokes == nil {
		s.strokes = map[string]*ring{}
	}
	if now.Sub(s.swept) > w.Span {
		s.sweepLocked(now.Add(-w.Span))
		s.swept = now
	}
	r := s.strokes[subject]
	if r == nil {
		r = &ring{}
		s.strokes[subject] = r
	}
	return r.allow(w.Limit, now, w.Span)
}

func (r *ring) allow(limit int, now time.Time, span time.Duration) bool {
	if limit <= 0 {
		return false
	}
	if len(r.times) < limit {
		r.times = append(r.times, now.UnixMilli())
		return true
	}
	if since := now.UnixMilli() - r.times[r.at]; since < span.Milliseconds() && since >= -relay.ClockSlack.Milliseconds() {
		return false
	}
	r.times[r.at] = now.UnixMilli()
	r.at = (r.at + 1) % len(r.times)
	return true
}

// newest returns the last stroke in Unix milliseconds.
func (r *ring) newest() int64 {
	return r.times[(r.at+len(r.times)-1)%len(r.times)]
}

func (s *windowShard) sweepLocked(cutoff time.Time) {
	for subject, r := range s.strokes {
		if r.newest() <= cutoff.UnixMilli() {
			delete(s.strokes, subject)
		}
	}
}
