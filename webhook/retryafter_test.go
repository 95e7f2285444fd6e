package webhook_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/herald-relay/herald/webhook"
)

// now is a Monday.
var now = time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)

func TestParseRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"seconds", "7", 7 * time.Second},
		{"case 034 a day", "86400", 24 * time.Hour},
		{"none", "0", 0},
		{"leading zeros", "007", 7 * time.Second},
		{"as many as may be", "2147483648", webhook.MaxRetryAfter},
		{"one more", "2147483649", webhook.MaxRetryAfter},
		{"more than a Duration holds", "9223372037", webhook.MaxRetryAfter},
		{"more than 64 bits hold", strings.Repeat("9", 400), webhook.MaxRetryAfter},
		{"date", "Mon, 30 Nov 2026 12:01:40 GMT", 100 * time.Second},
		{"date in the form of RFC 850", "Monday, 30-Nov-26 12:01:40 GMT", 100 * time.Second},
		{"date in the form of asctime", "Mon Nov 30 12:01:40 2026", 100 * time.Second},
		{"asctime, day below 10", "Tue Dec  1 12:00:00 2026", 24 * time.Hour},
		{"case 029 an hour ago", "Mon, 30 Nov 2026 11:00:00 GMT", 0},
		{"RFC 850, long ago", "Sunday, 06-Nov-94 08:49:37 GMT", 0},
		{"RFC 850, 50 years ahead", "Monday, 30-Nov-76 12:00:00 GMT", 18263 * 24 * time.Hour},
		{"RFC 850, 51 years ahead is 49 ago", "Wednesday, 30-Nov-77 12:00:00 GMT", 0},
		{"leap day", "Tue, 29 Feb 2028 00:00:00 GMT", 455*24*time.Hour + 12*time.Hour},
		{"far ahead", "Fri, 31 Dec 9999 23:59:59 GMT", webhook.MaxRetryAfter},
		{"far back", "Mon, 01 Jan 0001 00:00:00 GMT", 0},
	} {
		if got, ok := webhook.ParseRetryAfter(c.value, now); got != c.want || !ok {
			t.Errorf("%s: %.40q = %v, %v, want %v", c.name, c.value, got, ok, c.want)
		}
	}
	local := now.Add(500 * time.Millisecond).In(time.FixedZone("", 5*3600))
	if got, _ := webhook.ParseRetryAfter("Mon, 30 Nov 2026 12:00:01 GMT", local); got != 500*time.Millisecond {
		t.Errorf("from half a second before, elsewhere: %v", got)
	}
}

var badRetryAfters = map[string]string{
	"case 031 negative":                "-5",
	"case 031 fraction":                "1.5",
	"case 031 spaces":                  " 7 ",
	"case 031 unit":                    "7s",
	"case 031 empty":                   "",
	"sign":                             "+7",
	"hexadecimal":                      "0x7",
	"exponent":                         "1e3",
	"separator":                        "1_000",
	"digits of another script":         "７",
	"list":                             "7, 8",
	"word":                             "soon",
	"case 032 31 February":             "Mon, 31 Feb 2027 00:00:00 GMT",
	"case 032 wrong weekday":           "Tue, 30 Nov 2026 12:01:40 GMT",
	"wrong weekday, RFC 850":           "Tuesday, 30-Nov-26 12:01:40 GMT",
	"wrong weekday, asctime":           "Tue Nov 30 12:01:40 2026",
	"weekday of the wrong century":     "Tuesday, 30-Nov-77 12:00:00 GMT",
	"29 February of a common year":     "Mon, 29 Feb 2027 00:00:00 GMT",
	"RFC 850, 29 February":             "Monday, 29-Feb-27 00:00:00 GMT",
	"hour 24":                          "Mon, 30 Nov 2026 24:00:00 GMT",
	"minute 60":                        "Mon, 30 Nov 2026 12:60:00 GMT",
	"leap second":                      "Mon, 30 Nov 2026 23:59:60 GMT",
	"hour of one digit":                "Mon, 30 Nov 2026 9:00:00 GMT",
	"day of one digit":                 "Tue, 1 Dec 2026 12:00:00 GMT",
	"asctime, one space":               "Tue Dec 1 12:00:00 2026",
	"asctime, leading zero":            "Tue Dec 01 12:00:00 2026",
	"fraction of a second":             "Mon, 30 Nov 2026 12:01:40.5 GMT",
	"two spaces":                       "Mon,  30 Nov 2026 12:01:40 GMT",
	"lower case":                       "mon, 30 nov 2026 12:01:40 gmt",
	"UTC":                              "Mon, 30 Nov 2026 12:01:40 UTC",
	"offset":                           "Mon, 30 Nov 2026 12:01:40 +0000",
	"no zone":                          "Mon, 30 Nov 2026 12:01:40",
	"no weekday":                       "30 Nov 2026 12:01:40 GMT",
	"year of two digits":               "Mon, 30 Nov 26 12:01:40 GMT",
	"RFC 850, year of four digits":     "Monday, 30-Nov-2026 12:01:40 GMT",
	"RFC 850, short weekday":           "Mon, 30-Nov-26 12:01:40 GMT",
	"RFC 850, signed year":             "Saturday, 30-Nov-+2 12:01:40 GMT",
	"RFC 850, tail only":               "26 12:01:40 GMT",
	"RFC 3339":                         "2026-11-30T12:01:40Z",
	"space after":                      "Mon, 30 Nov 2026 12:01:40 GMT ",
	"space before":                     " Mon, 30 Nov 2026 12:01:40 GMT",
	"line end":                         "Mon, 30 Nov 2026 12:01:40 GMT\n",
	"asctime with zone":                "Mon Nov 30 12:01:40 GMT 2026",
	"asctime, a million years from it": "Mon Nov 30 12:01:40 1002026",
}

func TestParseRetryAfterIgnores(t *testing.T) {
	for name, value := range badRetryAfters {
		if got, ok := webhook.ParseRetryAfter(value, now); ok || got != 0 {
			t.Errorf("%s: %q = %v, want it ignored", name, value, got)
		}
	}
}

// Whatever now is, two digits mean the latest year that is not more than 50 ahead of it.
func TestTwoDigitYearsNeedNow(t *testing.T) {
	for year := 2000; year < 2200; year += 7 {
		now := time.Date(year, time.March, 1, 0, 0, 0, 0, time.UTC)
		for ahead := -49; ahead <= 50; ahead++ {
			date := time.Date(year+ahead, time.February, 28, 0, 0, 0, 0, time.UTC)
			got, ok := webhook.ParseRetryAfter(date.Format("Monday, 02-Jan-06 15:04:05 GMT"), now)
			want := max(date.Sub(now), 0)
			if !ok || got != want {
				t.Fatalf("in %d, %d years ahead: %v, %v, want %v", year, ahead, got, ok, want)
			}
		}
	}
}

func TestMaxRetryAfterCanBeAddedToAnyDate(t *testing.T) {
	if hours := webhook.MaxRetryAfter.Hours(); math.Round(hours/24/365) != 68 || !now.Add(webhook.MaxRetryAfter).After(now) {
		t.Errorf("MaxRetryAfter is %v hours", hours)
	}
}
