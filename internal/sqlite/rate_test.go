package sqlite

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// exact is the plain meaning of a rate: all sends, sorted.
type exact []int64

func (e exact) nth(n, now int64) int64 {
	in := slices.DeleteFunc(slices.Clone(e), func(at int64) bool { return at <= now-window || at > now+ahead })
	slices.Sort(in)
	if n > int64(len(in)) {
		return 0
	}
	return in[int64(len(in))-n]
}

func TestRateEqualsItsPlainMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := int64(1_700_000_000_000)
		r := newRate(nil, false, 1)
		var e exact
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				at := now - rapid.Int64Range(0, 50).Draw(t, "late")
				r.add(at)
				e = append(e, at)
			},
			"send and take back": func(t *rapid.T) {
				at := now - rapid.Int64Range(0, 50).Draw(t, "late")
				r.add(at)
				r.remove(at)
			},
			"wait": func(t *rapid.T) { now += rapid.Int64Range(1, window/3).Draw(t, "ms") },
			"": func(t *rapid.T) {
				for _, n := range []int64{1, 2, 3, 10, 1e9} {
					if got, want := r.nth(n, now), e.nth(n, now); got != want {
						t.Fatalf("nth(%d) = %d, want %d", n, got, want)
					}
				}
			},
		})
	})
}

func TestABusyRateIsBoundedAndNeverAdmitsTooMany(t *testing.T) {
	const sends = 200_000
	now := int64(1_700_000_000_000)
	r := newRate(nil, false, 1)
	var e exact
	for i := range int64(sends) {
		at := now + i*window/sends + i%7*i%13 // a bit out of order
		r.add(at)
		e = append(e, at)
		if len(r.strokes) > maxStrokes {
			t.Fatalf("%d strokes, at most %d", len(r.strokes), maxStrokes)
		}
	}
	now += window
	slices.Sort(e)
	for _, n := range []int64{1, 2, 100, 1000, 5000, 50_000, 150_000, sends - 2000, sends + 1} {
		got, want := r.nth(n, now), e.nth(n, now)
		if got < want || got > want+grain {
			t.Errorf("nth(%d) = %d, want %d or up to %d later", n, got, want, grain)
		}
	}
}

func TestARateIgnoresSendsOfAClockThatRanAhead(t *testing.T) {
	now := int64(1_700_000_000_000)
	r := newRate([]int64{now + 3_600_000, now + 3_600_001, now - 10, now + 20}, false, 1)
	for n, want := range map[int64]int64{1: now + 20, 2: now - 10, 3: 0} {
		if got := r.nth(n, now); got != want {
			t.Errorf("nth(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestABusyClockThatRanAheadStaysBounded(t *testing.T) {
	now := int64(1_700_000_000_000)
	r := newRate(nil, false, 1)
	for i := range int64(3 * maxStrokes) {
		r.add(now + i%2*3_600_000 + i)
		if len(r.strokes) > maxStrokes {
			t.Fatalf("%d strokes, at most %d", len(r.strokes), maxStrokes)
		}
	}
}
