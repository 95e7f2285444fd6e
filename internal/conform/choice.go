package conform

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// modeGroups are the groups that a mode of delivery is about.
var modeGroups = map[string][]Group{
	"webhook": {Subscribe, Verification, Delivery, Unsubscribe},
	"poll":    {Poll},
	"push":    {Stream},
}

// ParseChoice reads which rules to check: numbers, ranges of numbers and modes, with commas between them, as in
// "1,5-9,webhook". Empty text chooses all.
func ParseChoice(text string) (func(*Rule) bool, error) {
	if text == "" {
		return func(*Rule) bool { return true }, nil
	}
	var parts []func(*Rule) bool
	for part := range strings.SplitSeq(text, ",") {
		one, err := parsePart(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(Rules(), func(r Rule) bool { return one(&r) }) {
			return nil, fmt.Errorf("there is no rule %s", part)
		}
		parts = append(parts, one)
	}
	return func(r *Rule) bool {
		return slices.ContainsFunc(parts, func(one func(*Rule) bool) bool { return one(r) })
	}, nil
}

func parsePart(part string) (func(*Rule) bool, error) {
	if groups, isMode := modeGroups[part]; isMode {
		return func(r *Rule) bool { return slices.Contains(groups, r.Group) }, nil
	}
	first, last, isRange := strings.Cut(part, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || from > to {
		return nil, fmt.Errorf("%q is no number, no range such as 5-9, and none of webhook, poll and push", part)
	}
	return func(r *Rule) bool { return r.Number >= int(from) && r.Number <= int(to) }, nil
}
