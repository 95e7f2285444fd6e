package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json/jsontext"
)

// Fixed times of a stream.
const (
	PingEvery    = 300 * time.Second // the text ping (contract section 6.2)
	keepAlive    = 50 * time.Second  // protocol pings, for proxies that cut a silent stream after a minute
	writeWithin  = 20 * time.Second
	farewell     = 3 * time.Second       // for what is still to be said when the line is put down
	hearOut      = time.Second           // for a close code to be read after a write failed
	firstLook    = 50 * time.Millisecond // between questions whether anything still waits, doubling to lastLook
	lastLook     = 8 * time.Second
	steady       = time.Minute // a stream that lasted this long starts the reconnect delays anew
	firstRetry   = 2 * time.Second
	longestRetry = time.Minute
	longestHold  = 5 * time.Minute // the longest Retry-After that a reconnect obeys
)

// maxFrame bounds one message of the relay: a notification with an embedded icon stays far below.
const maxFrame = 1 << 20

// Close codes of the relay.
const (
	closeReplaced = 4000
	closeUnpaired = 4001
)

// Why a line ends for good.
var (
	ErrReplaced = errors.New("a newer stream of this device took the place of this one")
	ErrUnpaired = errors.New("this device was unpaired")
)

// Condition is how a line stands.
type Condition int

// The conditions, in the order in which they follow each other.
const (
	Connecting Condition = iota
	Live                 // connected, and everything that waited has been received
	Lost                 // to be connected again after a while
)

// LineOptions say what a line does. OnFrame is required.
type LineOptions struct {
	// State is what the device says of itself; asked whenever it is told. Nil means the zero State.
	State func() State
	// OnFrame takes every frame in the order received. A notification is handed over once, however often it is sent, and
	// is acknowledged when OnFrame returns nil. An error ends the line.
	OnFrame func(ctx context.Context, f Frame, raw jsontext.Value) error
	// OnCondition is told of changes, never while OnFrame runs. err and retry are set when the line was Lost.
	OnCondition func(c Condition, err error, retry time.Duration)
	// Jitter yields numbers in [0,1) that spread reconnects; nil means random ones.
	Jitter func() float64
	// Log is told of frames that make no sense; nil is silent.
	Log *slog.Logger
}

// Line is a device's standing stream. Whatever breaks, it connects again, until its context ends, the relay says that it may not, or OnFrame fails.
//
// Order: frames arrive as the relay sent them, and the relay resends what was not acknowledged first. What a device says
// is written in order and at least once.
type Line struct {
	device    *Device
	opt       LineOptions
	out       *outbox
	seen      recent
	connected bool       // ever
	calling   sync.Mutex // held while a callback runs
}

// Line prepares a line; Run puts it up.
func (d *Device) Line(opt LineOptions) *Line {
	if opt.State == nil {
		opt.State = func() State { return State{} }
	}
	if opt.Jitter == nil {
		opt.Jitter = rand.Float64
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Line{device: d, opt: opt, out: newOutbox(), seen: newRecent(4096)}
}

// Report says a fact on the stream, now or when it stands again. It does not wait. A reply belongs in Device.Reply,
// which tells whether the relay has it.
func (l *Line) Report(r Report) { l.out.add(encode(reportMessage{"receipt", r})) }

// StateChanged tells the relay the State of now.
func (l *Line) StateChanged() { l.out.add(encode(stateMessage{"status", l.opt.State()})) }

// Run keeps the line up. It returns nil when ctx ended it, after saying what was still to be said.
func (l *Line) Run(ctx context.Context) error {
	for failures := 0; ; failures++ {
		l.condition(Connecting, nil, 0)
		began := time.Now()
		err := l.stream(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if lasting(err, l.connected) {
			return err
		}
		if time.Since(began) >= steady {
			failures = 0
		}
		wait := reconnectDelay(err, failures, l.opt.Jitter())
		l.condition(Lost, err, wait)
		if !sleep(ctx, wait) {
			return nil
		}
	}
}

func (l *Line) condition(c Condition, err error, retry time.Duration) {
	if l.opt.OnCondition == nil {
		return
	}
	l.calling.Lock()
	defer l.calling.Unlock()
	l.opt.OnCondition(c, err, retry)
}

// handlerError is an error of OnFrame, which ends the line.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

// lasting reports whether connecting again would be in vain. A refusal that could pass is only believed to last when no
// stream ever stood: then it more likely is the address that is wrong.
func lasting(err error, connected bool) bool {
	if errors.Is(err, ErrReplaced) || errors.Is(err, ErrUnpaired) {
		return true
	}
	if _, ok := errors.AsType[handlerError](err); ok {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok, e.Status >= 500, e.Status == http.StatusTooManyRequests:
		return false
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return true
	}
	return !connected
}

// reconnectDelay doubles from firstRetry to longestRetry and is spread widely, so that the devices of a relay that
// restarts do not come back all at once. A longer Retry-After wins.
func reconnectDelay(err error, failures int, random float64) time.Duration {
	wait := jittered(min(firstRetry<<min(failures, 10), longestRetry), random)
	if e, ok := errors.AsType[*Error](err); ok {
		wait = max(wait, min(e.RetryAfter, longestHold))
	}
	return wait
}

// stream holds one stream from dialling to its end and says why it ended.
func (l *Line) stream(ctx context.Context) error {
	conn, err := l.device.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	l.connected = true
	l.out.restart(time.Now())
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // reading outlasts ctx by the farewell
	var others sync.WaitGroup
	others.Go(func() {
		if err := l.write(ctx, inner, conn); err != nil {
			sleep(inner, hearOut)
			cancel(fmt.Errorf("write to the stream: %w", err))
		}
	})
	others.Go(func() { l.catchUp(inner) })
	err = l.read(ctx, inner, conn)
	cancel(err)
	others.Wait()
	return context.Cause(inner)
}

// catchUp says Live once nothing waits for this mailbox any more. The stream itself does not mark the end of what had
// waited, so the relay is asked.
func (l *Line) catchUp(ctx context.Context) {
	for pause := firstLook; sleep(ctx, pause) && pause <= lastLook; pause *= 2 {
		info, err := l.device.Info(ctx)
		if err != nil || info.Pending == 0 {
			break // when it cannot be known, the open stream counts
		}
	}
	if ctx.Err() == nil {
		l.condition(Live, nil, 0)
	}
}

func (d *Device) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	h := http.Header{}
	d.relay.dress(h, d.token)
	conn, resp, err := websocket.Dial(ctx, d.relay.base.JoinPath("/v1/device/stream").String(),
		&websocket.DialOptions{HTTPClient: d.relay.http, HTTPHeader: h})
	switch {
	case err == nil:
		conn.SetReadLimit(maxFrame)
		return conn, nil
	case resp == nil:
		return nil, d.relay.unreachable(err)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, fmt.Errorf("open the stream: %w", err)
	}
	body, _ := io.ReadAll(resp.Body) // the library keeps the first kilobyte for us
	e := readError(resp, body)
	if e.Code == "" && e.Status < 300 {
		e.Message = d.relay.base.Host + " answers, but something on the way does not let WebSockets through"
	}
	return nil, e
}

// ProbeStream opens a stream, hears its first word and closes it again. It takes the place of a stream that this device has open.
func (d *Device) ProbeStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	conn, err := d.dial(ctx)
	if err != nil {
		return err
	}
	if _, _, err := conn.Read(ctx); err != nil {
		conn.CloseNow()
		return fmt.Errorf("the stream opens, but nothing comes over it: %w", err)
	}
	return conn.Close(websocket.StatusNormalClosure, "")
}

func (l *Line) read(ctx, inner context.Context, conn *websocket.Conn) error {
	for {
		kind, text, err := conn.Read(inner)
		if err != nil {
			return closing(err)
		}
		if kind != websocket.MessageText {
			continue
		}
		f, err := ReadFrame(text)
		if err != nil {
			l.unreadable(err, len(text))
			continue
		}
		if err := l.take(ctx, f, text); err != nil {
			return handlerError{err}
		}
	}
}

func closing(err error) error {
	switch websocket.CloseStatus(err) {
	case closeReplaced:
		return ErrReplaced
	case closeUnpaired:
		return ErrUnpaired
	}
	return fmt.Errorf("the stream broke: %w", err)
}

// unreadable tells the agent of a notification that nobody will see.
func (l *Line) unreadable(err error, size int) {
	l.opt.Log.Warn("frame not understood", "bytes", size)
	if bad, ok := errors.AsType[*BadNotification](err); ok {
		l.Report(Report{ID: bad.ID, Kind: Suppressed, Reason: "delivery-failed"})
	}
}

// take hands a frame over, and notes the acknowledgement in the same breath: a line that is put down by OnFrame itself
// still says it, and hands over nothing more.
func (l *Line) take(ctx context.Context, f Frame, raw jsontext.Value) error {
	l.calling.Lock()
	defer l.calling.Unlock()
	if ctx.Err() != nil {
		return nil // the line is being put down; the relay sends it again
	}
	n, isNotify := f.(Notified)
	if !isNotify || !l.seen.has(n.ID) {
		if err := l.opt.OnFrame(ctx, f, raw); err != nil {
			return err
		}
	}
	if isNotify {
		l.seen.add(n.ID)
		l.out.add(encode(ackMessage{"ack", n.ID}))
	}
	return nil
}

// write says hello, then what is to be said as it comes up.
func (l *Line) write(ctx, inner context.Context, conn *websocket.Conn) error {
	ping, keep := time.NewTicker(PingEvery), time.NewTicker(keepAlive)
	defer ping.Stop()
	defer keep.Stop()
	err := say(inner, conn, encode(stateMessage{"hello", l.opt.State()}))
	for err == nil {
		if err = l.flush(inner, conn); err != nil {
			break
		}
		select {
		case <-l.out.wake:
		case <-ping.C:
			err = say(inner, conn, []byte("ping"))
		case <-keep.C:
			err = within(inner, writeWithin, conn.Ping)
		case <-inner.Done():
			return nil
		case <-ctx.Done():
			return l.putDown(inner, conn)
		}
	}
	return err
}

func (l *Line) flush(ctx context.Context, conn *websocket.Conn) error {
	for {
		text, ok := l.out.next()
		if !ok {
			return nil
		}
		if err := say(ctx, conn, text); err != nil {
			return err
		}
		l.out.wrote(text, time.Now())
	}
}

func (l *Line) putDown(inner context.Context, conn *websocket.Conn) error {
	l.awaitCallback()
	err := within(inner, farewell, func(ctx context.Context) error { return l.flush(ctx, conn) })
	if err == nil {
		err = conn.Close(websocket.StatusNormalClosure, "")
	}
	return err
}

// awaitCallback returns when no callback runs: one that does may have something to say.
func (l *Line) awaitCallback() {
	l.calling.Lock()
	defer l.calling.Unlock()
}

func say(ctx context.Context, conn *websocket.Conn, text []byte) error {
	return within(ctx, writeWithin, func(ctx context.Context) error { return conn.Write(ctx, websocket.MessageText, text) })
}

func within(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return fn(ctx)
}

// recent remembers the latest ids, a bounded number of them.
type recent struct {
	ids  map[string]bool
	ring []string
	at   int
}

func newRecent(size int) recent {
	return recent{ids: make(map[string]bool), ring: make([]string, size)}
}

func (r *recent) has(id string) bool { return r.ids[id] }

func (r *recent) add(id string) {
	if r.ids[id] {
		return
	}
	delete(r.ids, r.ring[r.at])
	r.ring[r.at], r.ids[id] = id, true
	r.at = (r.at + 1) % len(r.ring)
}
