package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What came of an attempt to deliver an event, as the label of herald_event_attempts_total.
const (
	AttemptDelivered = "delivered"
	AttemptAgain     = "again" // it failed and will be made again
	AttemptDrop      = "drop"  // the event is given up
	AttemptEnd       = "end"   // the destination wants no more
)

// Why a subscription ended, as the label of herald_event_subscriptions_ended_total.
const (
	EndUnsubscribed = "unsubscribed"
	EndGone         = "gone"    // the destination answered 410
	EndRevoked      = "revoked" // by the person; those that go with their key are not counted
)

// events are the numbers of package events.
type events struct {
	attempts *prometheus.CounterVec
	seconds  prometheus.Histogram
	verified *prometheus.CounterVec
	ended    *prometheus.CounterVec
}

func (m *Metrics) addEvents() {
	m.events.attempts = m.counters("herald_event_attempts_total", "Attempts to deliver an event, by what came of them.", "result",
		AttemptDelivered, AttemptAgain, AttemptDrop, AttemptEnd, SweptOther)
	m.events.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "herald_event_attempt_seconds",
		Help: "Time of an attempt to deliver an event.", Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}})
	m.registry.MustRegister(m.events.seconds)
	m.events.verified = m.counters("herald_event_challenges_total", "Addresses of events that were challenged, by result.", "result", "passed", "failed")
	m.events.ended = m.counters("herald_event_subscriptions_ended_total", "Subscriptions that ended, by reason.", "reason",
		EndUnsubscribed, EndGone, EndRevoked, SweptOther)
}

// EventAttempt counts an attempt by one of the results above; any other counts as "other".
func (m *Metrics) EventAttempt(result string, elapsed time.Duration) {
	if m == nil {
		return
	}
	switch result {
	case AttemptDelivered, AttemptAgain, AttemptDrop, AttemptEnd:
	default:
		result = SweptOther
	}
	m.events.attempts.WithLabelValues(result).Inc()
	m.events.seconds.Observe(elapsed.Seconds())
}

// EventVerified counts a challenge.
func (m *Metrics) EventVerified(passed bool) {
	if m == nil {
		return
	}
	result := "failed"
	if passed {
		result = "passed"
	}
	m.events.verified.WithLabelValues(result).Inc()
}

// EventSubscriptionEnded counts a subscription that ended, by one of the reasons above; any other counts as "other".
func (m *Metrics) EventSubscriptionEnded(reason string) {
	if m == nil {
		return
	}
	switch reason {
	case EndUnsubscribed, EndGone, EndRevoked:
	default:
		reason = SweptOther
	}
	m.events.ended.WithLabelValues(reason).Inc()
}
