package conform

import (
	"slices"
	"strconv"
	"strings"
)

var streamRules = []Rule{
	{Number: 801, Group: Stream, Level: Must, Source: "SEP-3415, events/stream (a.6, e.8)", Needs: onlyText,
		Text: "A stream begins with notifications/events/active.", check: func(r *run) error { _, err := r.watch(); return owned(err) }},
	{Number: 802, Group: Stream, Level: Must, Source: "SEP-3415, events/stream (a.6)", Needs: onlyText,
		Text: "active has cursor, a string or null, and truncated, true or false.", check: (*run).activeIsWhole},
	{Number: 803, Group: Stream, Level: Must, Source: "SEP-3415, events/stream (a.6, e.8)", Needs: onlyText,
		Text: "Every notification repeats the request's id in its _meta, a number as the same number.", check: func(r *run) error { return r.repeatsID("7") }},
	{Number: 804, Group: Stream, Level: Must, Source: "SEP-3415, events/stream (a.6, e.8)", Needs: onlyText,
		Text: "An id that is a string is repeated as a string, even one of digits.", check: func(r *run) error { return r.repeatsID(`"7"`) }},
	{Number: 805, Group: Stream, Level: Must, Source: "SEP-3415, push delivery (b.4)", Needs: onlyText,
		Text: "Nothing but JSON-RPC notifications of events is on a stream, its result apart.", check: (*run).streamIsPure},
	{Number: 806, Group: Stream, Level: Must, Source: "SEP-3415, heartbeats (b.4, e.8)", Needs: onlyText,
		Text: "A quiet stream sends a heartbeat at least every 30 seconds, as a message with a cursor, not as a comment.", check: (*run).heartBeats},
	{Number: 807, Group: Stream, Level: Must, Source: "SEP-3415, errors (a.6, a.9)", Needs: onlyText,
		Text:  "An event type that is not there is refused at once, with NotFound; in the sketch -32602 will do.",
		check: func(r *run) error { return r.refusesUnknown("events/stream", "push") }},
	{Number: 808, Group: Stream, Level: Must, Source: "SEP-3415, errors (a.6, a.9)", Needs: onlyText,
		Text:  "An event type that does not offer push is refused with Unsupported and data.feature deliveryMode.",
		check: func(r *run) error { return r.refusesMode("events/stream", "push") }},
	{Number: 809, Group: Stream, Level: Must, Source: "SEP-3415, errors (a.6, a.9)", Needs: onlyText,
		Text:  "Arguments that the inputSchema does not allow are refused with -32602.",
		check: func(r *run) error { return r.refusesMisfit("events/stream", "push") }},
	{Number: 810, Group: Stream, Level: Must, Source: "SEP-3415, push delivery (a.6, b.4)", Needs: onlyText,
		Text: "An event that happens comes on an open stream.", check: func(r *run) error { _, err := r.pushed(); return owned(err) }},
	{Number: 811, Group: Stream, Level: Must, Source: "SEP-3415, event occurrence (a.4)", Needs: onlyText,
		Text: "It has an eventId, the name that was asked for, data that is an object, and no type.", check: (*run).pushedIsShaped},
	{Number: 812, Group: Stream, Level: Must, Source: "SEP-3415, event occurrence (a.4)", Needs: onlyText,
		Text: "Its timestamp is an RFC 3339 time with a zone.", check: (*run).pushedIsZoned},
	{Number: 813, Group: Stream, Level: Must, Source: "SEP-3415, event occurrence (a.4)", Needs: onlyText,
		Text: "Its data fits the payloadSchema that events/list shows.", check: (*run).pushedFits},
	{Number: 814, Group: Stream, Level: Must, Source: "SEP-3415, cursors (a.6, b.1)", Needs: onlyText,
		Text: "Its cursor is the position behind it: a stream from there has no gap and does not repeat it.", check: (*run).streamGoesOn},
	{Number: 815, Group: Stream, Level: Must, Source: "SEP-3415, cursors (a.6, b.1)", Needs: onlyText,
		Text: "What happened while nobody listened comes on a stream from the last cursor.", check: (*run).streamCatchesUp},
	{Number: 816, Group: Stream, Level: Must, Source: "SEP-3415, push delivery (b.4, e.8)", Needs: onlyText,
		Text: "Open streams do not keep other requests from being answered.", check: (*run).streamsDoNotBlock},
	{Number: 817, Group: Stream, Level: Should, Source: "MCP 2026-07-28, Streamable HTTP (0.1)", Needs: onlyText,
		Text: "A stream has the header X-Accel-Buffering: no, so that proxies pass it on at once.", check: (*run).streamIsUnbuffered},
}

const (
	notifyActive     = "notifications/events/active"
	notifyEvent      = "notifications/events/event"
	notifyHeartbeat  = "notifications/events/heartbeat"
	notifyTerminated = "notifications/events/terminated"
	notifyError      = "notifications/events/error"
)

// stream opens a stream of the target from a cursor, and waits until it has begun.
func (r *run) stream(id string, cursor any) (*stream, error) {
	e, err := r.offering("push")
	if err != nil {
		return nil, err
	}
	s, err := r.follow(id, params{"name": e.Name, "arguments": r.o.Arguments, "cursor": cursor})
	if err != nil {
		return nil, err
	}
	first, ok := s.await(r.ctx, 1, r.o.Timeout, func(f *frame) bool { return !f.comment })
	if !ok || first.method != notifyActive {
		return s, &refused{"there is no stream", s.but("a stream that begins with " + notifyActive)}
	}
	return s, nil
}

// watch is the stream that most rules look at.
func (r *run) watch() (*stream, error) {
	return once(r, "watch", func() (*stream, error) { return r.stream("7", nil) })
}

func (s *stream) first(method string) (f frame) {
	list, _, _ := s.all()
	if i := slices.IndexFunc(list, func(f frame) bool { return f.method == method }); i >= 0 {
		return list[i]
	}
	return f
}

func (r *run) activeIsWhole() error {
	s, err := r.watch()
	if err != nil {
		return err
	}
	active := s.first(notifyActive)
	if cursor := active.params["cursor"]; !isNull(cursor) && !isText(cursor) || !isBool(active.params["truncated"]) {
		return s.but("active with cursor and truncated")
	}
	return nil
}

// repeatsID checks the id of all notifications so far of a stream.
func (r *run) repeatsID(id string) error {
	s, err := r.watch()
	if err != nil {
		return err
	}
	if id != s.id {
		if s, err = r.stream(id, nil); err != nil {
			return err
		}
		defer s.close()
	}
	list, _, _ := s.all()
	for _, f := range list {
		if f.method != "" && string(f.meta()["io.modelcontextprotocol/subscriptionId"]) != id {
			return fail(s.sent, "_meta with subscriptionId "+id, "%s", f.raw)
		}
	}
	return nil
}

func (r *run) streamIsPure() error {
	if _, err := r.watch(); err != nil {
		return err
	}
	_, _ = r.pushed() // so that there is more to look at
	allowed := []string{notifyActive, notifyEvent, notifyHeartbeat, notifyTerminated, notifyError}
	for _, s := range r.streams {
		list, _, _ := s.all()
		for _, f := range list {
			_, isResult := f.message["result"]
			_, hasID := f.message["id"]
			switch {
			case f.comment || isResult || s.method != "events/stream":
			case text(f.message["jsonrpc"]) != "2.0" || hasID || !slices.Contains(allowed, f.method):
				return fail(s.sent, "notifications of events only", "%s", f.raw)
			}
		}
	}
	return nil
}

func (r *run) heartBeats() error {
	s, err := r.watch()
	if err != nil {
		return err
	}
	beat, ok := s.await(r.ctx, 1, r.o.Silence, isMethod(notifyHeartbeat))
	if !ok && r.ctx.Err() == nil {
		return s.but("a heartbeat within " + r.o.Silence.String())
	}
	if cursor, has := beat.params["cursor"]; !has || !isNull(cursor) && !isText(cursor) {
		return s.but("a heartbeat with a cursor, a string or null")
	}
	return nil
}

// push is an event that came on a stream.
type push struct {
	*stream
	event *eventType
	frame frame
}

// pushed has an event happen while the main stream is open.
func (r *run) pushed() (*push, error) {
	return once(r, "pushed", func() (*push, error) {
		s, err := r.watch()
		if err != nil {
			return nil, lean(err)
		}
		e, _ := r.target()
		if err := r.trigger(e); err != nil {
			return nil, err
		}
		f, ok := s.await(r.ctx, 1, r.o.Wait, isMethod(notifyEvent))
		if !ok {
			return nil, r.missing(s.but("an event within " + r.o.Wait.String()))
		}
		return &push{s, e, f}, nil
	})
}

func (r *run) onPushed(wrong func(p *push) (want string)) error {
	p, err := r.pushed()
	if err != nil {
		return err
	}
	if want := wrong(p); want != "" {
		return fail(p.sent, want, "%s", p.frame.raw)
	}
	return nil
}

func (r *run) pushedIsShaped() error {
	return r.onPushed(func(p *push) string { return r.occurrence(p.event, p.frame.params) })
}

func (r *run) pushedIsZoned() error {
	return r.onPushed(func(p *push) string {
		return unless(zoned(p.frame.params["timestamp"]), "timestamp: an RFC 3339 time with a zone")
	})
}

func (r *run) pushedFits() error {
	return r.onPushed(func(p *push) string {
		data := p.frame.params["data"]
		return unless(!isObject(data) || p.event.fits(data), "data that fits the payloadSchema")
	})
}

// resume has an event come on the main stream, then opens another from its cursor; meanwhile happens in between.
func (r *run) resume(meanwhile func(p *push) error) (*push, *stream, error) {
	p, err := r.pushed()
	if err != nil {
		return nil, nil, err
	}
	cursor := p.frame.params["cursor"]
	if isNull(cursor) {
		return nil, nil, cannot("the event type has no positions: its cursor is null")
	}
	if err := meanwhile(p); err != nil {
		return nil, nil, err
	}
	s, err := r.stream(`"again"`, cursor)
	return p, s, err
}

func (r *run) streamGoesOn() error {
	p, s, err := r.resume(func(*push) error { return nil })
	if err != nil {
		return err
	}
	defer s.close()
	if r.activeIsWhole() != nil || r.pushedIsShaped() != nil {
		return cannot("streams are not told apart from each other; rules 802 and 811 look at that")
	}
	if string(s.first(notifyActive).params["truncated"]) != "false" {
		return s.but("active with truncated: false")
	}
	if err := r.trigger(p.event); err != nil {
		return err
	}
	next, ok := s.await(r.ctx, 1, r.o.Wait, isMethod(notifyEvent))
	if !ok {
		return r.missing(s.but("the next event"))
	}
	if text(next.params["eventId"]) == text(p.frame.params["eventId"]) {
		return fail(s.sent, "what is after the cursor", "%s again", next.raw)
	}
	return nil
}

func (r *run) streamCatchesUp() error {
	var missed frame
	_, s, err := r.resume(func(p *push) error {
		list, _, _ := p.all()
		before := 0
		for _, f := range list {
			if f.method == notifyEvent {
				before++
			}
		}
		if err := r.trigger(p.event); err != nil {
			return err
		}
		var ok bool
		if missed, ok = p.await(r.ctx, before+1, r.o.Wait, isMethod(notifyEvent)); !ok {
			return r.missing(p.but("another event"))
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer s.close()
	want := text(missed.params["eventId"])
	if _, ok := s.await(r.ctx, 1, r.o.Timeout, func(f *frame) bool { return f.method == notifyEvent && text(f.params["eventId"]) == want }); !ok {
		return s.but("the event " + quote(want) + ", which came after the cursor")
	}
	return nil
}

func (r *run) streamsDoNotBlock() error {
	if _, err := r.watch(); err != nil {
		return err
	}
	const many = 12
	for i := range many {
		s, err := r.stream(strconv.Itoa(100+i), nil)
		if err != nil {
			return cannot("only %d streams could be opened at once: %v", i, err)
		}
		defer s.close()
	}
	a, err := r.call("events/list", nil)
	if err != nil {
		return fail("events/list beside open streams", "an answer", "%v", err)
	}
	return a.wantResult()
}

func (r *run) streamIsUnbuffered() error {
	s, err := r.watch()
	if err != nil {
		return err
	}
	if !strings.EqualFold(s.header.Get("X-Accel-Buffering"), "no") {
		return fail(s.sent, "X-Accel-Buffering: no", "X-Accel-Buffering: %q", s.header.Get("X-Accel-Buffering"))
	}
	return nil
}
