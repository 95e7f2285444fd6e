package mcpevents

import (
	"strconv"
	"strings"

	"github.com/herald-relay/herald/mcpevents/driver"
)

// Cursor is a subscriber's position: opaque to clients, and null (the zero Cursor) for "from now on".
type Cursor struct {
	Text string
	Set  bool
}

// position is what a cursor turned out to mean in a ledger.
type position struct {
	// after is the sequence to go on after.
	after int64
	// gap says that events between the cursor and after are lost to the reader.
	gap bool
}

// write renders a sequence as a cursor of a ledger.
func (r Replay) write(sequence int64, epoch string) string {
	if r.Digits {
		return strconv.FormatInt(sequence, 10)
	}
	return epoch + "-" + strconv.FormatInt(sequence, 10)
}

// read finds a cursor's position in a ledger. A null cursor is at its end. One that is none of this ledger's, or whose
// following events are forgotten, is a gap; under Lenient the former is like null.
func (r Replay) read(c Cursor, h driver.Head) position {
	now := position{after: h.Newest}
	if !c.Set {
		return now
	}
	sequence, ok := r.parse(c.Text, h)
	switch {
	case !ok:
		now.gap = !r.Lenient
		return now
	case sequence < h.Forgotten:
		return position{after: h.Forgotten, gap: true}
	}
	return position{after: sequence}
}

// parse accepts what write made for a sequence that the ledger has reached.
func (r Replay) parse(text string, h driver.Head) (int64, bool) {
	digits := text
	if !r.Digits {
		epoch, rest, found := strings.Cut(text, "-")
		if !found || epoch != h.Epoch {
			return 0, false
		}
		digits = rest
	}
	if len(digits) < 1 || len(digits) > 15 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	sequence, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || (sequence > h.Newest && !r.Digits) {
		return 0, false
	}
	return min(sequence, h.Newest), true
}
