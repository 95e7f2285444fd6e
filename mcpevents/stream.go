package mcpevents

import (
	"context"
	"encoding/json"
	"time"
)

// Notification is a JSON-RPC notification to the client.
type Notification struct {
	JSONRPC string          `json:"jsonrpc"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// The notifications of the extension.
const (
	NotifyActive      = "notifications/events/active"
	NotifyEvent       = "notifications/events/event"
	NotifyHeartbeat   = "notifications/events/heartbeat"
	NotifyError       = "notifications/events/error"
	NotifyTerminated  = "notifications/events/terminated"
	NotifyListChanged = "notifications/events/list_changed"
)

const (
	subscriptionMeta = "io.modelcontextprotocol/subscriptionId"
	streamRetry      = 5 * time.Second // between looks at a store that failed
)

// stream is one open events/stream call.
type stream struct {
	*target
	s    *Server
	id   json.RawMessage
	send func(Notification) error
	d    Dialect
	end  chan ending
	// at is the position behind everything that was sent or passed.
	at Cursor
}

// ending is why a stream ends: nil terminates nothing, the client may come again.
type ending struct{ cause *Error }

// Stream serves events/stream. It calls send for each notification, never concurrently, and returns when ctx ends (the
// client went away), send fails, or the subscription or the server ends; only in the last two cases is there a result to
// send. An error before the first notification is the answer to the call: nothing was begun.
//
// A client that reads slowly slows only its own stream: events wait in the store.
func (s *Server) Stream(ctx context.Context, r Request, send func(Notification) error) (json.RawMessage, error) {
	t, m, err := s.reader(ctx, r, Push)
	if err != nil {
		return nil, err
	}
	w, err := readWant(m, t.policy())
	if err != nil {
		return nil, err
	}
	st := &stream{target: t, s: s, id: r.ID, send: send, d: r.Dialect, end: make(chan ending, 1)}
	switch err := s.hub.add(st, t.policy().Quotas.Streams); err {
	case nil:
	case errStopping:
		return nil, internal("open a stream", err)
	default:
		return nil, t.policy().refuse(r.Dialect, TooManyStreams, "too many streams are open for this caller").
			with("limit", "streams").with("max", t.policy().Quotas.Streams)
	}
	defer s.hub.drop(st)
	s.hub.join(t.caller.Ledger)
	defer s.hub.leave(t.caller.Ledger)
	s.watch.StreamOpened(t.kind.Name)
	defer s.watch.StreamClosed(t.kind.Name)
	return st.run(ctx, w)
}

func (st *stream) run(ctx context.Context, w want) (json.RawMessage, error) {
	grew := st.s.hub.next(st.caller.Ledger)
	first, err := st.s.readBatch(ctx, st.target, w, time.Now())
	if err != nil {
		return nil, internal("read events", err)
	}
	w.aged = false // the floor counts for the start only
	start := first
	if len(first.events) > 0 {
		start.after = first.events[0].Sequence - 1
	}
	st.move(start)
	if err := st.notify(NotifyActive, map[string]any{"cursor": st.wireCursor(), "truncated": first.gap && !st.kind.NoReplay}); err != nil {
		return nil, err
	}
	if err := st.deliver(first, false); err != nil {
		return nil, err
	}
	return st.follow(ctx, w, grew, first.more)
}

// follow sends what the ledger gains, and a heartbeat when it has been silent for the policy's time.
func (st *stream) follow(ctx context.Context, w want, grew <-chan struct{}, more bool) (json.RawMessage, error) {
	beat := time.NewTimer(st.policy().Heartbeat)
	defer beat.Stop()
	for {
		if !more {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case e := <-st.end:
				return st.finish(e)
			case <-grew:
			case <-beat.C:
				if e := st.recheck(ctx); e != nil {
					return st.finish(*e)
				}
				if err := st.notify(NotifyHeartbeat, map[string]any{"cursor": st.wireCursor()}); err != nil {
					return nil, err
				}
				beat.Reset(st.policy().Heartbeat)
				continue
			}
		}
		grew = st.s.hub.next(st.caller.Ledger)
		b, err := st.again(ctx, w)
		if err != nil {
			return nil, err
		}
		if len(b.events) > 0 || b.gap {
			beat.Reset(st.policy().Heartbeat)
		}
		if err := st.deliver(b, b.gap); err != nil {
			return nil, err
		}
		if more = b.more; more && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// again reads on from where the stream is. A store that fails is told as a recoverable error, and tried again.
func (st *stream) again(ctx context.Context, w want) (batch, error) {
	w.cursor = st.at
	for {
		b, err := st.s.readBatch(ctx, st.target, w, time.Now())
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			return batch{}, ctx.Err()
		}
		st.s.log.Warn("stream cannot read events", "event_type", st.kind.Name, "err", err)
		trouble := Wire{Code: Internal.Code(st.d), Message: "the server cannot read its events just now", Data: map[string]any{"reason": "unavailable"}}
		if err := st.notify(NotifyError, map[string]any{"error": trouble}); err != nil {
			return batch{}, err
		}
		if err := sleep(ctx, streamRetry); err != nil {
			return batch{}, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// deliver sends a batch. A gap in the middle of a stream is told by another active notification.
func (st *stream) deliver(b batch, gap bool) error {
	if gap {
		start := b
		if len(b.events) > 0 {
			start.after = b.events[0].Sequence - 1
		}
		st.move(start)
		if err := st.notify(NotifyActive, map[string]any{"cursor": st.wireCursor(), "truncated": true}); err != nil {
			return err
		}
	}
	reader := st.readerID()
	for i := range b.events {
		e := &b.events[i]
		st.move(batch{after: e.Sequence, epoch: b.epoch})
		err := st.notify(NotifyEvent, placed{occurrence(e, st.policy().EventIDs.wireID(e, reader)), st.wireCursor()})
		if err != nil {
			return err
		}
	}
	st.move(b)
	return nil
}

// move takes over the position of a batch.
func (st *stream) move(b batch) {
	st.at = Cursor{Text: st.policy().Replay.write(b.after, b.epoch), Set: true}
}

// wireCursor is the position as the client sees it: null for a type without replay.
func (st *stream) wireCursor() *string {
	if st.kind.NoReplay {
		return nil
	}
	c := st.at.Text
	return &c
}

// notify sends one notification, bound to the call by its id.
func (st *stream) notify(method string, params any) error {
	body := wireJSON(params)
	meta := `{"_meta":{"` + subscriptionMeta + `":` + string(st.id) + `}`
	if len(body) > 2 {
		meta += ","
	}
	if o, ok := params.(placed); ok && o.Meta != nil {
		return st.notifyWithMeta(method, o)
	}
	return st.send(Notification{JSONRPC: "2.0", Method: method, Params: append([]byte(meta), body[1:]...)})
}

// notifyWithMeta merges the event's own _meta with the binding.
func (st *stream) notifyWithMeta(method string, o placed) error {
	meta := map[string]json.RawMessage{}
	_ = json.Unmarshal(o.Meta, &meta) // checked to be an object when it was emitted
	meta[subscriptionMeta] = st.id
	o.Meta = wireJSON(meta)
	return st.send(Notification{JSONRPC: "2.0", Method: method, Params: wireJSON(o)})
}

// recheck asks again whether the caller may read what they read.
func (st *stream) recheck(ctx context.Context) *ending {
	err := st.s.authorize(ctx, st.target, Push)
	if err == nil || !isRefusal(err) || ctx.Err() != nil {
		return nil
	}
	wire := ErrorOf(err, st.d)
	if MeaningOf(wire.Code) == Internal {
		return nil // a trouble of ours is no reason to end
	}
	return &ending{cause: &Error{Meaning: MeaningOf(wire.Code), Message: wire.Message, Data: wire.Data}}
}

// finish says why the subscription is over, if it is, and returns the final result.
func (st *stream) finish(e ending) (json.RawMessage, error) {
	if e.cause != nil {
		if err := st.notify(NotifyTerminated, map[string]any{"error": ErrorOf(e.cause, st.d)}); err != nil {
			return nil, err
		}
	}
	return json.RawMessage(`{"_meta":{"` + subscriptionMeta + `":` + string(st.id) + `}}`), nil
}
