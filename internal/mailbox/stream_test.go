package mailbox

import (
	"testing"
	"time"
)

func TestStreamNamesSortInTheOrderInWhichStreamsAreOpened(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	for name, step := range map[string]time.Duration{
		"later": time.Second, "in the same millisecond": 0, "with the clock set back an hour": -time.Hour,
		"with the clock set back by decades": -40 * 365 * 24 * time.Hour,
	} {
		before := nextStream("", now)
		after := nextStream(before, now.Add(step))
		if after <= before {
			t.Errorf("%s: %s does not sort behind %s", name, after, before)
		}
	}
}

func TestAStreamNameThatMakesNoSenseIsNoHindrance(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(0xabc)
	for _, before := range []string{"", "x", "not twelve hex digits", "zzzzzzzzzzzz"} {
		if got := nextStream(before, now); got[:12] != "000000000abc" || len(got) != 24 {
			t.Errorf("after %q: %s", before, got)
		}
	}
}
