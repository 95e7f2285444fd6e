package relay_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/relay"
)

func TestIDsAreReadInTheirExactShapeOnly(t *testing.T) {
	t.Parallel()
	hex := strings.Repeat("0123456789abcdef", 4)
	parsers := map[string]struct {
		parse func(string) (string, bool)
		good  string
	}{
		"notification": {func(s string) (string, bool) { id, ok := relay.ParseNotificationID(s); return string(id), ok }, "r_" + hex[:24]},
		"key":          {func(s string) (string, bool) { id, ok := relay.ParseKeyID(s); return string(id), ok }, hex[:8]},
		"device":       {func(s string) (string, bool) { id, ok := relay.ParseDeviceID(s); return string(id), ok }, hex[:16]},
		"mailbox":      {func(s string) (string, bool) { id, ok := relay.ParseMailboxID(s); return string(id), ok }, hex[:48]},
	}
	for name, p := range parsers {
		if got, ok := p.parse(p.good); !ok || got != p.good {
			t.Errorf("%s id %q is refused", name, p.good)
		}
		bad := []string{
			"", p.good[1:], p.good[:len(p.good)-1], p.good + "0", " " + p.good[1:], p.good[:len(p.good)-1] + "g",
			p.good[:len(p.good)-1] + "A", p.good[:len(p.good)-1] + "\n", p.good[:len(p.good)-1] + "/", strings.ToUpper(p.good[:len(p.good)-1]) + "F",
			p.good[:len(p.good)-2] + "ä", "n_" + p.good, "R_" + p.good,
		}
		for _, s := range bad {
			if got, ok := p.parse(s); ok || got != "" {
				t.Errorf("%s id %q is taken as %q", name, s, got)
			}
		}
	}
}

func TestNotificationIDsSortByTheirTime(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^r_[0-9a-f]{24}$`)
	var ids []string
	for ms := range 2000 {
		id := relay.NewNotificationID(noon.Add(time.Duration(ms) * time.Millisecond))
		if !shape.MatchString(string(id)) {
			t.Fatalf("id %q has not the documented shape", id)
		}
		ids = append(ids, string(id))
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 2000 {
		t.Error("ids made later do not sort later")
	}
	if first, second := relay.NewNotificationID(noon), relay.NewNotificationID(noon); first == second {
		t.Error("two ids of one millisecond are the same")
	}
}

func TestAnAgentWithoutAnIDIsGivenOneThatLeadsBack(t *testing.T) {
	t.Parallel()
	id := relay.NewNotificationID(noon)
	made := id.MadeAgentID()
	if !regexp.MustCompile(`^n_[0-9a-f]{24}$`).MatchString(made) {
		t.Errorf("made id %q has not the documented shape", made)
	}
	if back, ok := relay.FromMadeAgentID(made); !ok || back != id {
		t.Errorf("%q leads to %q, want %q", made, back, id)
	}
	for _, s := range []string{"", "n_", string(id), made + "0", made[:25], "n_" + strings.Repeat("g", 24), strings.ToUpper(made), "deploy-17"} {
		if back, ok := relay.FromMadeAgentID(s); ok {
			t.Errorf("an agent's own id %q counts as made, from %q", s, back)
		}
	}
}

func TestInstantsAreMillisecondsInUTC(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("Kathmandu", 5*3600+45*60)
	tests := map[string]time.Time{
		"2026-10-05T06:15:00.000Z": time.Date(2026, 10, 5, 12, 0, 0, 0, east),
		"2026-10-05T12:00:00.001Z": noon.Add(1999 * time.Microsecond), // cut, never rounded
		"2026-12-31T23:59:59.999Z": time.Date(2026, 12, 31, 23, 59, 59, 999999999, time.UTC),
		"1969-12-31T23:59:59.999Z": time.UnixMilli(-1),
	}
	for want, at := range tests { // case 112: Z and a fixed precision, whatever the zone
		if got := relay.Timestamp(at); got != want {
			t.Errorf("Timestamp(%v) = %s, want %s", at, got, want)
		}
		if cut := relay.Millis(at); relay.Timestamp(cut) != want || cut.Nanosecond()%1e6 != 0 || cut.Location() != time.UTC {
			t.Errorf("Millis(%v) = %v", at, cut)
		}
	}
	if !relay.Millis(time.Time{}).IsZero() {
		t.Error("the absent instant became a present one")
	}
}

func TestDaysAreUTC(t *testing.T) {
	t.Parallel()
	late := time.Date(2026, 3, 29, 1, 30, 0, 0, time.FixedZone("", 2*3600)) // 23:30 the day before, in UTC
	if got := relay.Day(late); got != "2026-03-28" {
		t.Errorf("Day = %s", got)
	}
	for at, want := range map[time.Time]time.Duration{
		late: 30 * time.Minute,
		time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC):           24 * time.Hour,
		time.Date(2026, 12, 31, 23, 59, 59, 999e6, time.UTC):   time.Millisecond,
		time.Date(2028, 2, 28, 12, 0, 0, 0, time.UTC):          12 * time.Hour,
		time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC).Local(): 23*time.Hour + 30*time.Minute, // case 106: no summer time
	} {
		if got := relay.UntilNextDay(at); got != want {
			t.Errorf("UntilNextDay(%v) = %s, want %s", at, got, want)
		}
	}
}
