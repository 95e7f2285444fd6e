package mcpevents

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// grant is how long a subscription is good for.
type grant struct {
	lapses time.Time // zero for never
	shown  time.Time // what refreshBefore says; zero for null
}

// grant reads the raw ttlMs of a call at now. durable says whether the store outlives the process: without that, nothing
// is granted without end. ok is false for a value that a Strict lifetime refuses.
func (l Lifetime) grant(raw json.RawMessage, now time.Time, durable bool) (g grant, ok bool) {
	d, null, valid := readTTL(raw)
	if !valid && l.Strict {
		return grant{}, false
	}
	switch {
	case l.Endless:
		return grant{shown: now.Add(l.Default)}, true
	case null && l.Null == NullForever && durable:
		return grant{}, true
	case null && l.Null == NullMax:
		d = l.Max
	case null || raw == nil || !valid:
		d = l.Default
	default:
		d = min(max(d, l.Min), l.Max)
	}
	return grant{lapses: now.Add(d), shown: now.Add(d)}, true
}

// readTTL tells absent (nil), null and a number apart. Only a positive whole number of milliseconds is valid beside
// those two; one too large for a time.Duration is as large as that.
func readTTL(raw json.RawMessage) (d time.Duration, null, valid bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return 0, false, true
	}
	if string(raw) == "null" {
		return 0, true, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || raw[0] == '"' || f < 1 || f != math.Trunc(f) || math.IsInf(f, 0) {
		return 0, false, false
	}
	if f >= float64(math.MaxInt64/int64(time.Millisecond)) {
		return math.MaxInt64, false, true
	}
	return time.Duration(f) * time.Millisecond, false, true
}
