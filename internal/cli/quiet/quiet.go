// Package quiet decides when a person's quiet hours are.
//
// Hours are a window of wall-clock time in a named zone, every day anew. All arithmetic is done on the calendar of
// that zone, so days that are 23 or 25 hours long change nothing; a time of day that a clock change skips counts as
// that much later.
package quiet

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
	_ "time/tzdata" // zones by name on machines that have none
)

// Hours are quiet from From until To, minutes after midnight. A window whose end comes before its start passes
// midnight. The zero value is never quiet.
type Hours struct {
	From, To int
	Zone     *time.Location
}

var shape = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])$`)

// Parse reads a window such as 23:00-06:00. zone is the name of a time zone such as Asia/Kathmandu, "" is this machine's.
func Parse(window, zone string) (Hours, error) {
	m := shape.FindStringSubmatch(window)
	if m == nil {
		return Hours{}, errors.New("quiet hours look like 23:00-06:00")
	}
	h := Hours{From: minutes(m[1], m[2]), To: minutes(m[3], m[4]), Zone: time.Local}
	if h.From == h.To {
		return Hours{}, errors.New("quiet hours that begin and end at the same minute are none; mute the device to be quiet all day")
	}
	if zone != "" {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			return Hours{}, fmt.Errorf("there is no time zone %q; name one such as Europe/Berlin", zone)
		}
		h.Zone = loc
	}
	return h, nil
}

func minutes(hour, minute string) int {
	h, _ := strconv.Atoi(hour)
	m, _ := strconv.Atoi(minute)
	return 60*h + m
}

// At reports whether now is quiet, and when that changes next. The zero Hours never change.
func (h Hours) At(now time.Time) (active bool, change time.Time) {
	if h.From == h.To {
		return false, time.Time{}
	}
	today := now.In(h.Zone)
	for day := -1; ; day++ {
		start, end := h.window(today, day)
		switch {
		case now.Before(start):
			return false, start
		case now.Before(end):
			return true, end
		}
	}
}

// window returns the bounds of the window that begins that many days after the given one.
func (h Hours) window(today time.Time, day int) (start, end time.Time) {
	start = at(today, day, h.From)
	if h.To < h.From {
		day++
	}
	return start, at(today, day, h.To)
}

// at returns a wall-clock time, moved forward when the zone skips it.
func at(today time.Time, day, minute int) time.Time {
	y, m, d := today.Date()
	t := time.Date(y, m, d+day, 0, minute, 0, 0, today.Location())
	if early := time.Date(y, m, d+day, 0, minute, 0, 0, time.UTC).Sub(wall(t)); early > 0 {
		t = t.Add(early) // time.Date may fall on either side of a skipped hour
	}
	return t
}

// wall is what a clock shows at t, as if it were UTC.
func wall(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), 0, 0, time.UTC)
}
