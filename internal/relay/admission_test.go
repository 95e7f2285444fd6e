package relay_test

import (
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

var limits = relay.AdmissionLimits{PerKey: 60, PerDay: 500, Queue: 100}

func TestAdmission(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		a     relay.Admission
		now   time.Time
		code  string
		retry time.Duration
	}{
		"a first one":                        {now: noon},
		"fewer than the limit":               {a: relay.Admission{Today: 499, Waiting: 99}, now: noon},
		"the 60th send was just now":         {a: relay.Admission{NthSend: noon}, now: noon, code: "rate_limited", retry: 10 * time.Minute},
		"a second of the window is over":     {a: relay.Admission{NthSend: noon}, now: noon.Add(time.Second), code: "rate_limited", retry: 599 * time.Second},
		"the rest is rounded up":             {a: relay.Admission{NthSend: noon}, now: noon.Add(time.Second + time.Millisecond), code: "rate_limited", retry: 599 * time.Second},
		"a millisecond is left":              {a: relay.Admission{NthSend: noon}, now: minute(10).Add(-time.Millisecond), code: "rate_limited", retry: time.Second},
		"the window is over":                 {a: relay.Admission{NthSend: noon}, now: minute(10)},
		"the clock was set back":             {a: relay.Admission{NthSend: noon.Add(30 * time.Second)}, now: noon, code: "rate_limited", retry: 630 * time.Second},
		"the day is full":                    {a: relay.Admission{Today: 500}, now: noon, code: "daily_cap", retry: 12 * time.Hour},
		"the day is more than full":          {a: relay.Admission{Today: 501}, now: noon, code: "daily_cap", retry: 12 * time.Hour},
		"the day is full, its last instant":  {a: relay.Admission{Today: 500}, now: time.Date(2026, 10, 5, 23, 59, 59, 999e6, time.UTC), code: "daily_cap", retry: time.Second},
		"the day is full, its first instant": {a: relay.Admission{Today: 500}, now: time.Date(2026, 10, 6, 0, 0, 0, 0, time.UTC), code: "daily_cap", retry: 24 * time.Hour},
		"days end at midnight UTC":           {a: relay.Admission{Today: 500}, now: time.Date(2026, 10, 5, 23, 0, 0, 0, time.FixedZone("", -4*3600)), code: "daily_cap", retry: 21 * time.Hour},
		"the rate is judged before the day":  {a: relay.Admission{NthSend: noon, Today: 500, Waiting: 100}, now: noon, code: "rate_limited", retry: 10 * time.Minute},
		"the day is judged before the queue": {a: relay.Admission{Today: 500, Waiting: 100}, now: noon, code: "daily_cap", retry: 12 * time.Hour},
		"the queue is full":                  {a: relay.Admission{Waiting: 100}, now: noon, code: "queue_full"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := limits.AdmitRate(test.a, test.now)
			if err == nil {
				err = limits.AdmitQueue(test.a)
			}
			if test.code == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			f := fault.From(err)
			if err == nil || f.Kind != fault.Exhausted || f.Code != test.code || f.RetryAfter != test.retry || f.RetryHeader != (test.retry > 0) {
				t.Errorf("err = %v, retry %s (header %v); want %s, %s", err, f.RetryAfter, f.RetryHeader, test.code, test.retry)
			}
		})
	}
}

func TestSecondsAreRoundedUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{
		-time.Hour: 1, 0: 1, time.Nanosecond: 1, time.Second: 1, time.Second + 1: 2, 1500 * time.Millisecond: 2,
		10 * time.Minute: 600, 10*time.Minute - 1: 600, 24 * time.Hour: 86400,
	} {
		if got := relay.CeilSeconds(d); got != want*time.Second {
			t.Errorf("CeilSeconds(%s) = %s, want %ds", d, got, want)
		}
	}
}
