package quiet

import (
	"testing"
	"time"
)

func parse(t *testing.T, window, zone string) Hours {
	t.Helper()
	h, err := Parse(window, zone)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestParseRefusesWhatIsNoWindow(t *testing.T) {
	for _, w := range []string{"", "23-6", "23:00", "24:00-06:00", "23:60-06:00", "7:00-8:00", "07:00-07:00", " 07:00-08:00", "07:00–08:00"} {
		if h, err := Parse(w, ""); err == nil {
			t.Errorf("Parse(%q) = %v", w, h)
		}
	}
	if _, err := Parse("07:00-08:00", "Mars/Olympus"); err == nil {
		t.Error("a zone that is not there was taken")
	}
}

// Public cases 106, 107, 109 and 111: windows past midnight, days of another length, the person's zone, skipped hours.
func TestAt(t *testing.T) {
	for _, c := range []struct {
		name, window, zone, now string
		active                  bool
		change                  string
	}{
		{"case 107: late in the evening", "23:00-06:00", "UTC", "2026-10-05T23:30:00Z", true, "2026-10-06T06:00:00Z"},
		{"case 107: a minute before its end", "23:00-06:00", "UTC", "2026-10-06T05:59:00Z", true, "2026-10-06T06:00:00Z"},
		{"at its end it is over", "23:00-06:00", "UTC", "2026-10-06T06:00:00Z", false, "2026-10-06T23:00:00Z"},
		{"at its start it begins", "23:00-06:00", "UTC", "2026-10-06T23:00:00Z", true, "2026-10-07T06:00:00Z"},
		{"within one day", "12:00-13:00", "UTC", "2026-10-06T12:30:00Z", true, "2026-10-06T13:00:00Z"},
		{"after the day's window", "12:00-13:00", "UTC", "2026-10-06T14:00:00Z", false, "2026-10-07T12:00:00Z"},
		{"case 109: Kathmandu while the machine is on UTC", "23:00-06:00", "Asia/Kathmandu", "2026-10-05T17:20:00Z", true, "2026-10-06T00:15:00Z"},
		{"case 109: a quarter before", "23:00-06:00", "Asia/Kathmandu", "2026-10-05T17:10:00Z", false, "2026-10-05T17:15:00Z"},
		{"case 106: the last night of a month, an hour longer", "23:00-06:00", "Europe/Berlin", "2027-10-30T22:00:00Z", true, "2027-10-31T05:00:00Z"},
		{"case 106: a night that is an hour shorter", "23:00-06:00", "Europe/Berlin", "2027-03-27T23:00:00Z", true, "2027-03-28T04:00:00Z"},
		{"case 111: an end that is skipped moves forward", "23:00-02:30", "Europe/Berlin", "2027-03-27T23:00:00Z", true, "2027-03-28T01:30:00Z"},
		{"case 111: a start that is skipped moves forward", "02:30-06:00", "Europe/Berlin", "2027-03-28T00:59:00Z", false, "2027-03-28T01:30:00Z"},
		{"a skipped midnight", "00:00-06:00", "America/Santiago", "2026-09-06T03:59:00Z", false, "2026-09-06T04:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		active, change := parse(t, c.window, c.zone).At(now)
		if got := change.UTC().Format(time.RFC3339); active != c.active || got != c.change {
			t.Errorf("%s: active %v until %s, want %v until %s", c.name, active, got, c.active, c.change)
		}
	}
	if active, change := (Hours{}).At(time.Now()); active || !change.IsZero() {
		t.Error("the zero value is quiet")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("23:00-06:00", "Asia/Kathmandu", int64(1791234567))
	f.Add("02:30-02:29", "Europe/Berlin", int64(1806202800))
	f.Add("junk", "", int64(0))
	f.Fuzz(func(t *testing.T, window, zone string, unix int64) {
		h, err := Parse(window, zone)
		if err != nil {
			return
		}
		now := time.Unix(unix%4e9, 0)
		_, change := h.At(now)
		if !change.After(now) || change.Sub(now) > 50*time.Hour {
			t.Errorf("%s in %s at %v changes at %v", window, h.Zone, now, change)
		}
	})
}
