package allowance

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var noon = time.Date(2026, 10, 5, 12, 0, 0, 0, time.UTC)

func TestAWindowAllowsItsLimitAndSlides(t *testing.T) {
	t.Parallel()
	w := &Window{Limit: 3, Span: 10 * time.Minute}
	for i, step := range []struct {
		at   time.Duration
		want bool
	}{
		{0, true},
		{time.Minute, true},
		{2 * time.Minute, true},
		{3 * time.Minute, false},
		{10*time.Minute - time.Millisecond, false},
		{10 * time.Minute, true}, // the first has left
		{10 * time.Minute, false},
		{11*time.Minute - time.Millisecond, false},
		{11 * time.Minute, true}, // refused strokes were not counted
		{12 * time.Minute, true},
		{12 * time.Minute, false},
		{time.Hour, true},
		{time.Hour, true},
		{time.Hour, true},
		{time.Hour, false},
	} {
		if got := w.Allow("key", noon.Add(step.at)); got != step.want {
			t.Errorf("stroke %d at %s: allowed = %v", i+1, step.at, got)
		}
	}
}

// TestAClockSetBackDoesNotBarAKey has the whole limit used up an hour ahead. A key used to be barred until that hour and the
// window were over.
func TestAClockSetBackDoesNotBarAKey(t *testing.T) {
	t.Parallel()
	w := &Window{Limit: 3, Span: 10 * time.Minute}
	back := noon.Add(-time.Hour)
	for i, step := range []struct {
		at   time.Time
		want bool
	}{
		{noon, true}, {noon.Add(time.Second), true}, {noon.Add(2 * time.Second), true},
		{noon.Add(-30 * time.Second), false}, // requests that overtake one another are no clock set back
		{back, true}, {back.Add(time.Second), true}, {back.Add(2 * time.Second), true},
		{back.Add(3 * time.Second), false}, // the limit holds
		{back.Add(10 * time.Minute), true},
		{noon, true}, // the clock has caught up
	} {
		if got := w.Allow("key", step.at); got != step.want {
			t.Errorf("stroke %d: allowed = %v", i+1, got)
		}
	}
}

func TestSubjectsOfAWindowAreTheirOwn(t *testing.T) {
	t.Parallel()
	w := &Window{Limit: 1, Span: time.Minute}
	for i := range 100 {
		if !w.Allow(fmt.Sprint("key ", i), noon) {
			t.Errorf("subject %d pays for others", i)
		}
	}
	if w.Allow("key 7", noon) {
		t.Error("a subject's second stroke is allowed")
	}
}

func TestAWindowWithoutLimitAllowsNothing(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, -1} {
		if (&Window{Limit: limit, Span: time.Minute}).Allow("key", noon) {
			t.Errorf("limit %d allows a stroke", limit)
		}
	}
}

func TestAWindowForgetsWhoWentQuiet(t *testing.T) {
	t.Parallel()
	w := &Window{Limit: 600, Span: time.Minute}
	for i := range 10_000 {
		w.Allow(fmt.Sprint("old ", i), noon)
	}
	for i := range 1000 { // enough to come by every shard
		w.Allow(fmt.Sprint("new ", i), noon.Add(3*time.Minute))
	}
	held := 0
	for i := range w.shards {
		for subject := range w.shards[i].strokes {
			held++
			if strings.HasPrefix(subject, "old ") {
				t.Fatalf("%q is still held two spans after its last stroke", subject)
			}
		}
	}
	if held != 1000 {
		t.Errorf("%d subjects are held, want the 1000 active ones", held)
	}
}

func TestAWindowCountsExactlyUnderContention(t *testing.T) {
	t.Parallel()
	w := &Window{Limit: 600, Span: time.Minute}
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if w.Allow("key", noon) {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if allowed.Load() != 600 {
		t.Errorf("%d of 1600 strokes at once were allowed, want 600", allowed.Load())
	}
}
