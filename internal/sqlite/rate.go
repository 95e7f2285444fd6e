package sqlite

import (
	"math"
	"slices"

	"github.com/herald-relay/herald/internal/relay"
)

const (
	window = int64(relay.RateWindow / 1e6) // milliseconds
	ahead  = int64(relay.ClockSlack / 1e6)
	// maxStrokes bounds the memory of one key. Up to so many different milliseconds are kept exactly; then neighbours
	// closer than grain are merged, each taking the later instant, so that a limit admits too few, never too many.
	maxStrokes = 4096
	grain      = window / 1024
)

// rate holds when a key sent within the window: a sorted list of instants, each with how many sends it stands for.
type rate struct {
	strokes []stroke
	total   int64
	covers  int64 // how many of the latest sends are known; sends after loading are always known
}

// stroke stands for n sends in [from, at], with at-from < grain.
type stroke struct{ from, at, n int64 }

// newRate makes a rate of sends in any order. When there may be earlier ones, only the latest perKey are known.
func newRate(sends []int64, more bool, perKey int64) *rate {
	r := &rate{covers: math.MaxInt64}
	if more {
		r.covers = perKey
	}
	slices.Sort(sends)
	for _, at := range sends {
		r.add(at)
	}
	return r
}

// add records a send. It usually is the latest.
func (r *rate) add(at int64) {
	r.total++
	i := len(r.strokes)
	for i > 0 && r.strokes[i-1].at > at {
		i--
	}
	if i > 0 && r.strokes[i-1].at == at {
		r.strokes[i-1].n++
		return
	}
	r.strokes = slices.Insert(r.strokes, i, stroke{at, at, 1})
	if len(r.strokes) > maxStrokes {
		r.merge()
	}
}

// remove takes back a send that was added, as far as merging lets it be told from its neighbours.
func (r *rate) remove(at int64) {
	i, _ := slices.BinarySearchFunc(r.strokes, at, func(s stroke, at int64) int { return int(min(1, max(-1, s.at-at))) })
	if i == len(r.strokes) {
		return
	}
	r.total--
	if r.strokes[i].n--; r.strokes[i].n == 0 {
		r.strokes = slices.Delete(r.strokes, i, i+1)
	}
}

// forget drops what has left the window at now.
func (r *rate) forget(now int64) {
	i := 0
	for i < len(r.strokes) && r.strokes[i].at <= now-window {
		r.total -= r.strokes[i].n
		i++
	}
	if i > 0 {
		r.strokes = slices.Delete(r.strokes, 0, i)
	}
}

// nth returns when the n-th latest send within the window happened, 0 when there were fewer.
func (r *rate) nth(n, now int64) int64 {
	r.forget(now)
	if r.total < n {
		return 0
	}
	for i := len(r.strokes) - 1; i >= 0; i-- {
		s := r.strokes[i]
		if s.at > now+ahead {
			continue
		}
		if n -= s.n; n <= 0 {
			return s.at
		}
	}
	return 0
}

// merge joins neighbours as long as they stay within a grain. At most two strokes are left per grain of the window.
func (r *rate) merge() {
	r.forget(r.strokes[len(r.strokes)-1].at)
	kept := r.strokes[:1]
	for _, s := range r.strokes[1:] {
		if last := &kept[len(kept)-1]; s.at-last.from < grain {
			last.at, last.n = s.at, last.n+s.n
		} else {
			kept = append(kept, s)
		}
	}
	r.strokes = kept
}
