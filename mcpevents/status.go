package mcpevents

import (
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// deliveryStatus tells a client at a refresh how its endpoint has been doing (contract a.7).
type deliveryStatus struct {
	// Active is false when this refresh has just woken a suspended subscription.
	Active         bool      `json:"active"`
	LastDeliveryAt *string   `json:"lastDeliveryAt,omitempty"`
	LastError      *Category `json:"lastError"`
	FailedSince    *string   `json:"failedSince,omitempty"`
	Throttled      bool      `json:"throttled,omitempty"`
	RetryAfterMs   int64     `json:"retryAfterMs,omitempty"`
}

// statusOf describes a subscription as it is before a refresh; nil while nothing was attempted.
func statusOf(sub *Subscription, now time.Time) *deliveryStatus {
	h := &sub.Health
	if h.LastDelivery.IsZero() && h.LastError == "" && sub.State == driver.Active {
		return nil
	}
	s := &deliveryStatus{Active: sub.State == driver.Active, LastDeliveryAt: stampOrNil(h.LastDelivery), FailedSince: stampOrNil(h.FailingSince)}
	if h.LastError != "" {
		c := Category(h.LastError)
		s.LastError = &c
	}
	if h.Throttled.After(now) {
		s.Throttled, s.RetryAfterMs = true, h.Throttled.Sub(now).Milliseconds()
	}
	return s
}

func stampOrNil(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

// observe is what an attempt that ended at at makes of a destination's health.
func observe(h Health, o Outcome, category Category, at time.Time, window time.Duration) Health {
	if h.Window.IsZero() || at.Sub(h.Window) >= window {
		h.Window, h.Tried, h.Failed = at, 0, 0
	}
	h.Tried++
	h.Throttled = time.Time{}
	if category == "" {
		h.LastError, h.FailingSince = "", time.Time{}
		if o.Status >= 200 && o.Status < 300 {
			h.LastDelivery = at
		}
		return h
	}
	h.Failed++
	h.LastError = string(category)
	if h.FailingSince.IsZero() {
		h.FailingSince = at
	}
	if o.RetryAfter > 0 {
		h.Throttled = at.Add(o.RetryAfter)
	}
	return h
}

// suspends reports whether a destination with that health is to be given a rest at at.
func (r Suspension) suspends(h Health, at time.Time) bool {
	if h.FailingSince.IsZero() {
		return false
	}
	if r.FailingFor > 0 && at.Sub(h.FailingSince) >= r.FailingFor {
		return true
	}
	return r.Rate >= 0 && h.Tried >= r.MinAttempts && float64(h.Failed) > r.Rate*float64(h.Tried)
}
