package conform

import (
	"encoding/json"
	"slices"
	"time"
)

var pollRules = []Rule{
	{Number: 701, Group: Poll, Level: Must, Source: "SEP-3415, events/poll (a.5)", Needs: onlyText,
		Text: "A poll that nothing is wrong with is answered with a result.", check: func(r *run) error { _, err := r.bootstrap(); return owned(err) }},
	{Number: 702, Group: Poll, Level: Must, Source: "SEP-3415, events/poll (a.5, e.7)", Needs: onlyText,
		Text: "A poll with the cursor null begins now: events is there and empty.", check: (*run).pollBeginsEmpty},
	{Number: 703, Group: Poll, Level: Must, Source: "SEP-3415, events/poll (a.5)", Needs: onlyText,
		Text: "Every poll says cursor, a string or null; truncated and hasMore, true or false; nextPollMs, a whole number.", check: (*run).pollIsWhole},
	{Number: 704, Group: Poll, Level: Must, Source: "SEP-3415, cursors (a, e.7)", Needs: onlyText,
		Text: "A poll without a cursor is the same as one with null.", check: (*run).pollTakesNoCursor},
	{Number: 705, Group: Poll, Level: Must, Dialects: bySEP, Source: "MCP 2026-07-28, results (a)", Needs: onlyText,
		Text: `The result has "resultType": "complete".`, check: (*run).pollIsComplete},
	{Number: 706, Group: Poll, Level: Must, Source: "SEP-3415, truncation (b.1, e.7)", Needs: onlyText,
		Text: "A cursor that the server does not know is no error: truncated is true, and a fresh cursor comes.", check: (*run).pollTellsGap},
	{Number: 707, Group: Poll, Level: Must, Source: "SEP-3415, maxAgeMs (b.1, e.7)", Needs: onlyText,
		Text: "maxAgeMs is ignored beside the cursor null.", check: (*run).pollIgnoresAge},
	{Number: 708, Group: Poll, Level: Must, Source: "SEP-3415, errors (a.5, a.9)", Needs: onlyText,
		Text:  "An event type that is not there is refused with NotFound; in the sketch -32602 will do.",
		check: func(r *run) error { return r.refusesUnknown("events/poll", "poll") }},
	{Number: 709, Group: Poll, Level: Must, Source: "SEP-3415, errors (a.5, a.9)", Needs: onlyText,
		Text:  "An event type that does not offer poll is refused with Unsupported and data.feature deliveryMode.",
		check: func(r *run) error { return r.refusesMode("events/poll", "poll") }},
	{Number: 710, Group: Poll, Level: Must, Source: "SEP-3415, errors (a.5, a.9)", Needs: onlyText,
		Text:  "Arguments that the inputSchema does not allow are refused with -32602.",
		check: func(r *run) error { return r.refusesMisfit("events/poll", "poll") }},
	{Number: 711, Group: Poll, Level: Must, Source: "SEP-3415, events/poll (e.7)", Needs: onlyText,
		Text: "An event that happened after a cursor comes with a poll from there.", check: func(r *run) error { _, err := r.caught(); return owned(err) }},
	{Number: 712, Group: Poll, Level: Must, Source: "SEP-3415, event occurrence (a.4)", Needs: onlyText,
		Text: "Each event has an eventId, the name that was asked for, data that is an object, and no type.", check: (*run).polledIsShaped},
	{Number: 713, Group: Poll, Level: Must, Source: "SEP-3415, event occurrence (a.4)", Needs: onlyText,
		Text: "Each event's timestamp is an RFC 3339 time with a zone.", check: (*run).polledIsZoned},
	{Number: 714, Group: Poll, Level: Must, Source: "SEP-3415, event occurrence (a.4)", Needs: onlyText,
		Text: "data fits the payloadSchema that events/list shows.", check: (*run).polledFits},
	{Number: 715, Group: Poll, Level: Must, Source: "SEP-3415, events/poll (b.3, e.7)", Needs: onlyText,
		Text: "The same cursor gets the same events again.", check: (*run).pollRepeats},
	{Number: 716, Group: Poll, Level: Must, Source: "SEP-3415, cursors (b.1, e.7)", Needs: onlyText,
		Text: "The cursor of a result is behind its events: none of them comes again from there.", check: (*run).pollGoesOn},
	{Number: 717, Group: Poll, Level: Must, Source: "SEP-3415, events/poll (a.5, e.7)", Needs: onlyText,
		Text: "maxEvents bounds a result: of two events one comes with hasMore true, the other from its cursor.", check: (*run).pollIsBounded},
	{Number: 718, Group: Poll, Level: Should, Source: "SEP-3415, cursors (b.1)", Needs: onlyText,
		Text: "The cursor of an event type is null at every poll or at none.", check: (*run).pollCursorIsConsistent},
}

var onlyText = []Consumer{ByText}

// poll polls the target from a cursor, with other members if more are given.
func (r *run) poll(cursor any, more params) (*answer, error) {
	e, err := r.offering("poll")
	if err != nil {
		return nil, err
	}
	p := params{"name": e.Name, "arguments": r.o.Arguments}.with("cursor", cursor)
	for name, value := range more {
		p = p.with(name, value)
	}
	return r.call("events/poll", p)
}

// polled is a poll that must succeed for a rule to be judged.
func (r *run) polled(cursor any, more params) (*answer, error) {
	a, err := r.poll(cursor, more)
	if err == nil {
		err = a.wantResult()
	}
	return a, err
}

// bootstrap is the first poll.
func (r *run) bootstrap() (*answer, error) {
	return once(r, "bootstrap", func() (*answer, error) {
		a, err := r.poll(nil, nil)
		if err == nil && a.wantResult() != nil {
			return nil, &refused{"a poll does not succeed", a.wantResult()}
		}
		return a, err
	})
}

// happened are the events of a result; nil when it has no such list.
func (a *answer) happened() (events []object) {
	_ = json.Unmarshal(a.result["events"], &events) // what is no list of objects has none
	return events
}

func ids(events []object) (list []string) {
	for _, e := range events {
		list = append(list, text(e["eventId"]))
	}
	return list
}

func (a *answer) wantEmpty() error {
	if events := a.happened(); events == nil || len(events) > 0 {
		return a.but("events: []")
	}
	return nil
}

func (r *run) pollBeginsEmpty() error {
	a, err := r.bootstrap()
	if err != nil {
		return err
	}
	return a.wantEmpty()
}

func (r *run) pollIsWhole() error {
	a, err := r.bootstrap()
	if err != nil {
		return err
	}
	cursor, has := a.result["cursor"]
	if !has || !isNull(cursor) && !isText(cursor) || !isBool(a.result["truncated"]) || !isBool(a.result["hasMore"]) || !isWhole(a.result["nextPollMs"]) {
		return a.but("cursor, truncated, hasMore and nextPollMs, each of its type")
	}
	return nil
}

// empty leans on the first poll being empty.
func (r *run) empty() error {
	if _, err := r.bootstrap(); err != nil {
		return err
	}
	if r.pollBeginsEmpty() != nil {
		return cannot("the first poll is not empty; rule 702 looks at it")
	}
	return nil
}

func (r *run) pollTakesNoCursor() error {
	if err := r.empty(); err != nil {
		return err
	}
	a, err := r.polled(absent{}, nil)
	if err != nil {
		return err
	}
	return a.wantEmpty()
}

func (r *run) pollIsComplete() error {
	a, err := r.bootstrap()
	if err != nil {
		return err
	}
	return a.complete()
}

// position is a cursor of the target, where its events can be read again.
func (r *run) position() (string, error) {
	a, err := r.bootstrap()
	if err != nil {
		return "", err
	}
	if !isText(a.result["cursor"]) {
		return "", cannot("the event type has no positions: its cursor is %s", quote(string(a.result["cursor"])))
	}
	return text(a.result["cursor"]), nil
}

func (r *run) pollTellsGap() error {
	if _, err := r.position(); err != nil {
		return err
	}
	a, err := r.polled("herald check", nil)
	if err != nil {
		return err
	}
	if string(a.result["truncated"]) != "true" || !isWord(a.result["cursor"]) || text(a.result["cursor"]) == "herald check" {
		return a.but("truncated: true, and a fresh cursor")
	}
	return nil
}

func (r *run) pollIgnoresAge() error {
	if err := r.empty(); err != nil {
		return err
	}
	a, err := r.polled(nil, params{"maxAgeMs": 3_600_000})
	if err != nil {
		return err
	}
	return a.wantEmpty()
}

// refusesUnknown is refusesUnknownEvent for a way of reading that the server has at all.
func (r *run) refusesUnknown(method, mode string) error {
	if _, err := r.offering(mode); err != nil {
		return err
	}
	return r.refusesUnknownEvent(method)
}

// refusesMode asks for a mode of an event type that does not offer it.
func (r *run) refusesMode(method, mode string) error {
	c, err := r.list()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(c.types, func(e eventType) bool { return e.Name != "" && !e.offers(mode) && r.takes(&e) })
	if i < 0 {
		return cannot("there is no event type without %s that takes the arguments", mode)
	}
	a, err := r.call(method, params{"name": c.types[i].Name, "arguments": r.o.Arguments, "cursor": nil})
	if err != nil {
		return err
	}
	return r.isUnsupported(a)
}

// catch is a poll that found events.
type catch struct {
	event *eventType
	from  string // its cursor
	*answer
}

// caught has an event happen and polls until it is there.
func (r *run) caught() (*catch, error) {
	return once(r, "caught", func() (*catch, error) {
		from, err := r.position()
		if err != nil {
			return nil, lean(err)
		}
		e, _ := r.target()
		if err := r.trigger(e); err != nil {
			return nil, err
		}
		a, err := r.until(from, 1)
		return &catch{e, from, a}, err
	})
}

// until polls from a cursor until at least n events are there.
func (r *run) until(from string, n int) (*answer, error) {
	for end := time.Now().Add(r.o.Wait); ; {
		a, err := r.polled(from, nil)
		if err != nil {
			return nil, err
		}
		if len(a.happened()) >= n {
			return a, nil
		}
		if time.Now().After(end) {
			return nil, r.missing(a.but("%d events within %v", n, r.o.Wait))
		}
		if err := r.pause(a); err != nil {
			return nil, err
		}
	}
}

// pause waits as long as a poll asks for, within reason.
func (r *run) pause(a *answer) error {
	var ms int64
	_ = json.Unmarshal(a.result["nextPollMs"], &ms) // rule 703 looks at it
	select {
	case <-time.After(min(max(time.Duration(ms)*time.Millisecond, 50*time.Millisecond), 5*time.Second)):
		return nil
	case <-r.ctx.Done():
		return cannot("%v", r.ctx.Err())
	}
}

func (r *run) eachCaught(wrong func(e *eventType, o object) (want string)) error {
	c, err := r.caught()
	if err != nil {
		return err
	}
	for _, o := range c.happened() {
		if want := wrong(c.event, o); want != "" {
			return c.but("%s", want)
		}
	}
	return nil
}

func (r *run) polledIsShaped() error { return r.eachCaught(r.occurrence) }

func (r *run) polledIsZoned() error {
	return r.eachCaught(func(_ *eventType, o object) string {
		return unless(zoned(o["timestamp"]), "timestamp: an RFC 3339 time with a zone")
	})
}

func (r *run) polledFits() error {
	return r.eachCaught(func(e *eventType, o object) string {
		return unless(!isObject(o["data"]) || e.fits(o["data"]), "data that fits the payloadSchema")
	})
}

// unless is what is wanted where something does not hold.
func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

func (r *run) pollRepeats() error {
	c, err := r.caught()
	if err != nil {
		return err
	}
	a, err := r.polled(c.from, nil)
	if err != nil {
		return err
	}
	before, now := ids(c.happened()), ids(a.happened())
	if len(now) < len(before) || !slices.Equal(now[:len(before)], before) {
		return a.but("the events of before first: %v", before)
	}
	return nil
}

func (r *run) pollGoesOn() error {
	c, err := r.caught()
	if err != nil {
		return err
	}
	next := text(c.result["cursor"])
	if next == "" {
		return c.but("a cursor that is a string")
	}
	a, err := r.polled(next, nil)
	if err != nil {
		return err
	}
	for _, id := range ids(a.happened()) {
		if slices.Contains(ids(c.happened()), id) {
			return a.but("none of the events before the cursor: %v", ids(c.happened()))
		}
	}
	return nil
}

func (r *run) pollIsBounded() error {
	c, err := r.caught()
	if err != nil {
		return err
	}
	if err := r.trigger(c.event); err != nil {
		return err
	}
	all, err := r.until(c.from, 2)
	if err != nil {
		return err
	}
	want := ids(all.happened())
	one, err := r.polled(c.from, params{"maxEvents": 1})
	if err != nil {
		return err
	}
	if !slices.Equal(ids(one.happened()), want[:1]) || string(one.result["hasMore"]) != "true" {
		return one.but("the first of %v, and hasMore: true", want)
	}
	if r.pollGoesOn() != nil {
		return cannot("there is no going on from a cursor; rule 716 looks at it")
	}
	two, err := r.polled(text(one.result["cursor"]), params{"maxEvents": 1})
	if err != nil {
		return err
	}
	if !slices.Equal(ids(two.happened()), want[1:2]) {
		return two.but("the second of %v", want)
	}
	return nil
}

func (r *run) pollCursorIsConsistent() error {
	a, err := r.bootstrap()
	if err != nil {
		return err
	}
	for range 2 {
		again, err := r.polled(nil, nil)
		if err != nil {
			return err
		}
		if isNull(again.result["cursor"]) != isNull(a.result["cursor"]) {
			return again.but("a cursor like that of the first poll, %s", quote(string(a.result["cursor"])))
		}
	}
	return nil
}
