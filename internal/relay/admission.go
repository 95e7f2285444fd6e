package relay

import (
	"math"
	"time"

	"github.com/herald-relay/herald/internal/fault"
)

// RateWindow is the sliding window of the per-key limits.
const RateWindow = 10 * time.Minute

// ClockSlack is how much later than now something may be dated and still count for a rate: requests overtake one another,
// and the clocks of several processes differ a little. What is dated later is from before the clock was set back, and
// counts for nothing until its time has come.
const ClockSlack = time.Minute

// AdmissionLimits are the allowances judged when a notification is accepted.
type AdmissionLimits struct {
	PerKey int // accepted notifications per key in RateWindow
	PerDay int // accepted notifications per mailbox and UTC day
	Queue  int // waiting notifications per mailbox
}

// Admission is what the store knows when a notification asks to be accepted.
type Admission struct {
	// NthSend is when the key's PerKey-th most recent notification was accepted; zero when it has sent fewer.
	NthSend time.Time
	// Today counts the mailbox's notifications accepted on the UTC day of now.
	Today int64
	// Waiting counts the mailbox's waiting notifications, expired ones already swept.
	Waiting int64
}

// AdmitRate judges the per-key rate, then the daily cap. Both refusals say when waiting helps: when the oldest counted
// send leaves the window, or at UTC midnight.
func (l AdmissionLimits) AdmitRate(a Admission, now time.Time) error {
	if left := a.NthSend.Add(RateWindow).Sub(now); !a.NthSend.IsZero() && left > 0 {
		return fault.New(fault.Exhausted, "rate_limited",
			"this key sent %d notifications in the last 10 minutes, its limit; wait and send again", l.PerKey).
			WithRetry(CeilSeconds(left), true)
	}
	if a.Today >= int64(l.PerDay) {
		return fault.New(fault.Exhausted, "daily_cap",
			"this mailbox took %d notifications today, its limit; it takes more after midnight UTC", l.PerDay).
			WithRetry(CeilSeconds(UntilNextDay(now)), true)
	}
	return nil
}

// AdmitQueue judges the number of waiting notifications. The caller has swept expired ones first.
func (l AdmissionLimits) AdmitQueue(a Admission) error {
	if a.Waiting >= int64(l.Queue) {
		return fault.New(fault.Exhausted, "queue_full",
			"%d notifications already wait for this mailbox's devices, its limit; none is taken until a device connects or some expire", l.Queue)
	}
	return nil
}

// CeilSeconds rounds up to whole seconds, at least one.
func CeilSeconds(d time.Duration) time.Duration {
	return time.Duration(max(1, math.Ceil(d.Seconds()))) * time.Second
}
