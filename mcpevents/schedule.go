package mcpevents

import (
	"fmt"
	"math"
	"time"
)

// Schedule says when the next attempt of a delivery may happen, counted from the end of the last one.
type Schedule struct {
	// Delays are the waits after the first, second and later attempts; one more attempt than delays is made. When it is
	// empty, waits grow from Base by Factor up to Max, for Attempts attempts in all. Zeros are 5 s, 4, 5 minutes and 5.
	Delays   []time.Duration
	Base     time.Duration
	Factor   float64
	Max      time.Duration
	Attempts int
	// Jitter spreads each wait evenly over plus and minus this share of it. Zero is 0.1, negative is none.
	Jitter float64
	// MaxRetryAfter bounds what a destination may ask for with Retry-After. Zero is 24 h.
	MaxRetryAfter time.Duration
}

// StandardWebhooks returns the waits that the Standard Webhooks text recommends: 75 h 35 min 5 s in all.
func StandardWebhooks() []time.Duration {
	return []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}
}

func (s Schedule) withDefaults() Schedule {
	if len(s.Delays) > 0 {
		s.Attempts = len(s.Delays) + 1
	} else {
		orElse(&s.Base, 5*time.Second)
		orElse(&s.Factor, 4)
		orElse(&s.Max, 5*time.Minute)
		orElse(&s.Attempts, 5)
	}
	orElse(&s.Jitter, 0.1)
	orElse(&s.MaxRetryAfter, day)
	return s
}

func (s Schedule) validate() []error {
	var problems []error
	if len(s.Delays) == 0 && (s.Base <= 0 || s.Factor < 1 || s.Max < s.Base || s.Attempts < 1) {
		problems = append(problems, fmt.Errorf("Schedule: want Base > 0, Factor >= 1, Max >= Base and Attempts >= 1, have %v, %v, %v, %d", s.Base, s.Factor, s.Max, s.Attempts))
	}
	if s.Jitter > 1 {
		problems = append(problems, fmt.Errorf("Schedule.Jitter: want at most 1, have %v", s.Jitter))
	}
	return problems
}

// Wait returns how long to wait after the nth attempt, counted from 1, before jitter. ok is false when there is no
// further attempt.
func (s Schedule) Wait(n int) (wait time.Duration, ok bool) {
	if n >= s.Attempts {
		return 0, false
	}
	if len(s.Delays) > 0 {
		return s.Delays[max(n-1, 0)], true
	}
	grown := float64(s.Base) * math.Pow(s.Factor, float64(max(n-1, 0)))
	return time.Duration(min(grown, float64(s.Max))), true
}

// Next returns when to try again after the nth attempt ended at at. retryAfter is what the destination asked for, 0 for
// nothing; the longer wins. random in [0,1) places the wait within its jitter. ok is false when attempts are used up or
// the next one would be later than deadline (zero for none).
func (s Schedule) Next(n int, at time.Time, retryAfter time.Duration, deadline time.Time, random float64) (next time.Time, ok bool) {
	wait, ok := s.Wait(n)
	if !ok {
		return time.Time{}, false
	}
	if s.Jitter > 0 {
		wait += time.Duration(float64(wait) * s.Jitter * (2*random - 1))
	}
	wait = max(wait, min(retryAfter, s.MaxRetryAfter))
	next = at.Add(wait)
	if !deadline.IsZero() && next.After(deadline) {
		return time.Time{}, false
	}
	return next, true
}
