package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/herald-relay/herald/mcpevents"
)

// occurrence is an event on the wire.
type occurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
	Meta      json.RawMessage `json:"_meta"`
	Cursor    *string         `json:"cursor"`
}

var errNoEvent = errors.New("subscriber: not an event: it needs eventId, name, a timestamp with a zone, and data")

// event checks an occurrence of a subscription to name.
func (o *occurrence) event(name string, mode mcpevents.Mode) (Event, error) {
	at, err := time.Parse(time.RFC3339, o.Timestamp)
	if err != nil || o.EventID == "" || o.Name != name || len(o.Data) == 0 || o.Data[0] != '{' {
		return Event{}, errNoEvent
	}
	return Event{ID: o.EventID, Name: o.Name, Time: at, Data: o.Data, Meta: o.Meta, Mode: mode}, nil
}

type polled struct {
	Events     []occurrence `json:"events"`
	Cursor     *string      `json:"cursor"`
	Truncated  bool         `json:"truncated"`
	HasMore    bool         `json:"hasMore"`
	NextPollMs int64        `json:"nextPollMs"`
}

// maxHasMore bounds how often in a row a server may say that there is more without giving anything.
const maxHasMore = 100

// followPoll polls until that fails.
func (s *Subscriber) followPoll(ctx context.Context, e *entry) error {
	empty := 0
	for {
		raw, err := e.want.Server.Call(ctx, mcpevents.MethodPoll, e.position())
		if err != nil {
			return err
		}
		var got polled
		if err := json.Unmarshal(raw, &got); err != nil {
			return fmt.Errorf("subscriber: answer to events/poll: %w", err)
		}
		if err := s.takePolled(ctx, e, &got); err != nil {
			return err
		}
		if empty++; len(got.Events) > 0 {
			empty = 0
		}
		wait := max(time.Duration(got.NextPollMs)*time.Millisecond, s.opts.PollFloor)
		if got.HasMore && empty < maxHasMore {
			wait = 0
		}
		if err := pause(ctx, e, wait); err != nil {
			return err
		}
	}
}

// position is what poll and stream go on from.
func (e *entry) position() map[string]any {
	rec := e.record()
	params := map[string]any{"name": rec.Name, "arguments": rec.Arguments, "cursor": rec.Cursor}
	if e.want.MaxAge > 0 {
		params["maxAgeMs"] = e.want.MaxAge.Milliseconds()
	}
	return params
}

// takePolled handles a batch. Its position counts only once all of it was handled.
func (s *Subscriber) takePolled(ctx context.Context, e *entry, got *polled) error {
	if got.Truncated {
		s.gap(e.want.Key)
	}
	for i := range got.Events {
		event, err := got.Events[i].event(e.want.Name, mcpevents.Poll)
		if err != nil {
			return err
		}
		if err := s.accept(ctx, e, event, nil); err != nil {
			return err
		}
	}
	err := s.moved(ctx, e, got.Cursor)
	if err == nil && e.record().State != Active {
		err = s.change(ctx, e, func(r *Record) { r.State, r.Reason = Active, "" })
	}
	return err
}

// followStream follows one stream until it ends or falls silent.
func (s *Subscriber) followStream(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(s.opts.Silence, func() { cancel(errors.New("subscriber: the stream fell silent")) })
	defer silence.Stop()
	err := e.want.Server.(Streamer).Stream(ctx, mcpevents.MethodStream, e.position(),
		func(method string, params json.RawMessage) error {
			silence.Reset(s.opts.Silence)
			return s.takeNotification(ctx, e, method, params)
		})
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	if err == nil {
		return errAgain // the server is going away
	}
	return err
}

// note holds the parameters of all notifications of a stream.
type note struct {
	occurrence
	Truncated bool            `json:"truncated"`
	Error     *mcpevents.Wire `json:"error"`
}

func (s *Subscriber) takeNotification(ctx context.Context, e *entry, method string, params json.RawMessage) error {
	var n note
	if err := json.Unmarshal(params, &n); err != nil {
		return fmt.Errorf("subscriber: %s: %w", method, err)
	}
	switch method {
	case mcpevents.NotifyActive:
		if n.Truncated {
			s.gap(e.want.Key)
		}
		if n.Cursor == nil {
			n.Cursor = e.record().Cursor
		}
		return s.change(ctx, e, func(r *Record) { r.Cursor, r.State, r.Reason = n.Cursor, Active, "" })
	case mcpevents.NotifyEvent:
		event, err := n.event(e.want.Name, mcpevents.Push)
		if err != nil {
			return err
		}
		return s.accept(ctx, e, event, n.Cursor)
	case mcpevents.NotifyHeartbeat:
		return s.moved(ctx, e, n.Cursor)
	case mcpevents.NotifyTerminated:
		if n.Error == nil {
			return errAgain
		}
		return n.Error.Err()
	case mcpevents.NotifyError:
		s.log.Warn("stream trouble at the server", "subscription", e.want.Key)
	}
	return nil
}
