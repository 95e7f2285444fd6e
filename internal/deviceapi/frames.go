package deviceapi

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/strictjson"
)

const (
	// maxFrameChars is the longest text that is looked at, in UTF-16 units; a longer one is ignored (contract section 6.2).
	maxFrameChars = 16 << 10
	// frameRetry is how long the reader waits before it records a report again that the store could not take.
	frameRetry = 500 * time.Millisecond
	frameTries = 10
)

type welcomeFrame struct {
	Type       string `json:"type"`
	TTLSeconds int64  `json:"ttlSeconds"`
}

func welcome(ttl time.Duration) []byte {
	return encode(welcomeFrame{"welcome", int64(ttl.Seconds())})
}

type senderBody struct {
	ID     relay.KeyID `json:"id"`
	Name   string      `json:"name"`
	Client string      `json:"client"`
}

type notifyBody struct {
	Type           string               `json:"type"`
	ID             relay.NotificationID `json:"id"`
	NotificationID string               `json:"notificationId"`
	CreatedAt      string               `json:"createdAt"`
	Key            senderBody           `json:"key"`
	Payload        jsontext.Value       `json:"payload"`
}

func notifyFrame(n *store.Waiting) []byte {
	return encode(notifyBody{
		Type: "notify", ID: n.ID, NotificationID: n.AgentID, CreatedAt: relay.Timestamp(n.CreatedAt),
		Key: senderBody{n.Key, n.KeyName, n.KeyClient}, Payload: n.Payload,
	})
}

type repliedBody struct {
	Type string               `json:"type"`
	ID   relay.NotificationID `json:"id"`
}

func repliedFrame(id relay.NotificationID) []byte { return encode(repliedBody{"replied", id}) }

// encode cannot fail: frames are made of strings, numbers and JSON that was validated when it was accepted.
func encode(frame any) []byte {
	data, err := json.Marshal(frame)
	if err != nil {
		panic("deviceapi: frame does not encode: " + err.Error())
	}
	return data
}

// buffers are shared by the readers of all streams, so that an idle one holds none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// read takes frames until the stream ends.
func (s *stream) read() {
	for {
		kind, body, err := s.conn.Reader(context.Background())
		if err != nil {
			return
		}
		if !s.readFrame(kind, body) {
			return
		}
	}
}

// readFrame reads and handles one message. Whatever is not a text of at most 16 K characters is read past in silence.
func (s *stream) readFrame(kind websocket.MessageType, body io.Reader) bool {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	data, err := appendAll((*buf)[:0], io.LimitReader(body, 3*maxFrameChars+1))
	*buf = data[:0]
	if err != nil {
		return false
	}
	if n, err := io.Copy(io.Discard, body); err != nil {
		return false
	} else if n > 0 || kind != websocket.MessageText || tooLong(data) {
		return true
	}
	return s.handle(data)
}

func appendAll(b []byte, r io.Reader) ([]byte, error) {
	if cap(b) == 0 {
		b = make([]byte, 0, 1024)
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// tooLong counts as the original does, in UTF-16 units: a character takes at most three bytes a unit.
func tooLong(data []byte) bool {
	if len(data) <= maxFrameChars {
		return false
	}
	units := 0
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		data = data[size:]
		if units++; r > 0xffff {
			units++
		}
	}
	return units > maxFrameChars
}

// handle acts on one text. It reports false when the stream must end.
func (s *stream) handle(data []byte) bool {
	if s.unpaired.Load() {
		return false
	}
	now := time.Now()
	if string(data) == "ping" { // answered before the store hears of it
		s.heard.Store(now.UnixMilli())
		return s.write([]byte("pong")) == nil && s.alive(now)
	}
	v, err := strictjson.ParseObject(data)
	if err != nil {
		return true
	}
	if !s.alive(now) {
		return false
	}
	s.api.Meter.Count(s.mailbox, now, relay.Usage{WSMessages: 1})
	kind, _ := v.Text("type")
	switch act := actions[kind]; {
	case act == nil || v.RefuseRepeats(frameKeys) != nil:
		return true
	default:
		return s.do(act, v)
	}
}

// alive notes a sign of life, and lets the store know of it now and then. It reports false when the device turns out to
// be unpaired.
func (s *stream) alive(now time.Time) bool {
	ms := now.UnixMilli()
	s.heard.Store(ms)
	if since := ms - s.persisted; since >= 0 && since < heardEvery.Milliseconds() {
		return true
	}
	s.persisted = ms
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	err := s.api.Mailbox.Heard(ctx, s.mailbox, s.device, now)
	if err != nil {
		s.api.Log.Debug("sign of life not stored", "mailbox", s.mailbox, "err", err)
	}
	return !s.disowned(err)
}

// disowned closes the stream when err says that its device was unpaired: the hint may have been lost, or may have come
// before the stream could be reached.
func (s *stream) disowned(err error) bool {
	gone := fault.Is(err, fault.Unauthenticated)
	if gone {
		s.Unpaired()
	}
	return gone
}

var frameKeys = append(append([]string{}, receiptKeys...), stateKeys...)

// action is what one type of frame does. Its errors are the store's: an invalid frame does nothing and is no error.
type action func(s *stream, ctx context.Context, v strictjson.Value, now time.Time) error

var actions = map[string]action{
	"hello": func(s *stream, ctx context.Context, v strictjson.Value, _ time.Time) error {
		defer s.Wake()
		return s.api.Mailbox.SetState(ctx, s.mailbox, stateOf(v))
	},
	"status": func(s *stream, ctx context.Context, v strictjson.Value, _ time.Time) error {
		return s.api.Mailbox.SetState(ctx, s.mailbox, stateOf(v))
	},
	"ack": func(s *stream, ctx context.Context, v strictjson.Value, now time.Time) error {
		id, ok := reportedID(v)
		if !ok {
			return nil
		}
		return s.api.Mailbox.Acknowledge(ctx, s.mailbox, id, now)
	},
	"receipt": func(s *stream, ctx context.Context, v strictjson.Value, now time.Time) error {
		id, ok := reportedID(v)
		if !ok {
			return nil
		}
		return s.api.Mailbox.Record(ctx, s.mailbox, s.device, id, receiptOf(v), now)
	},
}

// do carries an action out. Invalid reports are ignored, but a report that the store cannot take now is tried again:
// on the stream there is no answer by which the device would learn that it was lost. When it cannot be kept after
// all, the stream ends with "try again later" rather than pretending.
func (s *stream) do(act action, v strictjson.Value) bool {
	for try := 1; ; try++ {
		now := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
		err := act(s, ctx, v, now)
		cancel()
		if err == nil || !lost(err) {
			return true
		}
		s.api.Log.Warn("report of a device not stored", "mailbox", s.mailbox, "try", try, "err", err)
		if try == frameTries {
			s.close(EndedStore, websocket.StatusTryAgainLater, "the relay cannot store reports now; connect and send them again")
			return false
		}
		time.Sleep(frameRetry)
	}
}

// lost tells a failure of the relay from a report that was wrong in itself.
func lost(err error) bool {
	kind := fault.From(err).Kind
	return kind == fault.Internal || kind == fault.Unavailable
}
