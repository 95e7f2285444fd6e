package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is what a longer wait is cut to: 2^31 seconds, some 68 years, as HTTP caches do with seconds that they
// cannot count (RFC 9111, section 1.2.2). Senders have limits of their own, which are smaller.
const MaxRetryAfter = 1 << 31 * time.Second

// ParseRetryAfter reads the value of a Retry-After header (RFC 9110, section 10.2.3) in a response that arrived at now, and
// returns how long it asks to wait: zero for a date in the past.
//
// It accepts digits, for whole seconds, and the three forms of an HTTP date, each exactly as RFC 9110 (section 5.6.7)
// writes it: with the right weekday, a day that exists, in GMT. For anything else it reports false, and the sender waits as
// it would without the header. So it does for "1.5", "-5", "7s" and " 7 ", and for a leap second.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	if isDigits(value) {
		return parseSeconds(value), true
	}
	date, ok := parseDate(value, now)
	if !ok {
		return 0, false
	}
	return min(max(date.Sub(now), 0), MaxRetryAfter), true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func parseSeconds(digits string) time.Duration {
	seconds, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
		return MaxRetryAfter // the only error that digits can make is that they are too many
	}
	return time.Duration(seconds) * time.Second
}

// The second of the three forms (RFC 850) has two digits of a year, which expandYear makes four.
const rfc850 = "Monday, 02-Jan-2006 15:04:05 GMT"

func parseDate(value string, now time.Time) (time.Time, bool) {
	for _, form := range [...]struct{ layout, text string }{
		{http.TimeFormat, value},
		{rfc850, expandYear(value, now)},
		{time.ANSIC, value},
	} {
		// Formatting the date again is what finds wrong weekdays, missing zeros and fractions, which time.Parse takes.
		if date, err := time.Parse(form.layout, form.text); err == nil && date.Format(form.layout) == form.text {
			return date, true
		}
	}
	return time.Time{}, false
}

// expandYear puts the century into a date of the form of RFC 850, so that the year is at most 50 after now's and the
// latest such. Other text comes back as it is, or as something that is no date.
func expandYear(value string, now time.Time) string {
	at := len(value) - len("94 08:49:37 GMT")
	if at < 0 || !isDigits(value[at:at+2]) {
		return value
	}
	year, _ := strconv.Atoi(value[at : at+2]) // two digits
	last := now.UTC().Year() + 50
	return value[:at] + strconv.Itoa(last-(last-year)%100) + value[at+2:]
}
