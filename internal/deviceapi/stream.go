package deviceapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/mailbox"
	"github.com/herald-relay/herald/internal/oauth"
	"github.com/herald-relay/herald/internal/presence"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/web"
)

// Close codes of the stream (contract section 6.2).
const (
	closeReplaced = websocket.StatusCode(4000)
	closeUnpaired = websocket.StatusCode(4001)
)

// Why streams end, for those who count.
const (
	EndedGone     = "gone"     // the device hung up or vanished
	EndedReplaced = "replaced" // the device opened a newer one
	EndedUnpaired = "unpaired"
	EndedSlow     = "slow" // the device did not take what was sent
	EndedSilent   = "silent"
	EndedStopping = "stopping"
	EndedStore    = "store" // reports could not be stored
)

const (
	// writeWithin is how long a device may take to accept one frame before its stream is closed.
	writeWithin = 20 * time.Second
	// silentClosed is how long a stream may be silent before the relay gives it up: apps ping every five minutes.
	silentClosed = 33 * time.Minute
	// heardEvery is how often signs of life reach the store at most.
	heardEvery = time.Minute
	// storeRetry is about how long a stream leaves the store alone that could not tell it what waits.
	storeRetry = 2 * time.Second
	// goodbyeWithin is how long a device may take to be told why its stream ends and to say goodbye in turn; then the
	// connection is cut, so that a sleeping laptop holds up neither a stop nor the stream that replaces this one.
	goodbyeWithin = 3 * time.Second
	// pumpBatch bounds the notifications held in memory for one stream.
	pumpBatch = 4
	// hintsMax bounds the ids of each kind that wait for one stream's attention; more are dropped.
	hintsMax = 128
)

// stream is one device's open WebSocket. It has one goroutine that reads, for as long as it is open, and one that
// writes, only while there is something to write. A stream that the same device opens later replaces it (close code
// 4000); one whose device was unpaired closes with 4001.
type stream struct {
	api     *API // set once, as the next five
	conn    *websocket.Conn
	line    net.Conn // below conn
	id      string
	mailbox relay.MailboxID
	device  relay.DeviceID

	heard     atomic.Int64 // Unix milliseconds of the last sign of life
	unpaired  atomic.Bool  // what the device still says counts no more
	persisted int64        // what the store knows of it; owned by the reader
	lastSeq   int64        // how far notifications were sent; owned by the pump
	told      oauth.Told   // requests for approval that the device was shown; owned by the pump

	mu       sync.Mutex    // guards the rest
	pumping  bool          // a pump runs
	closing  bool          // no pump may start any more
	later    bool          // a timer will have the store looked at
	why      string        // the stream ends, when the relay ends it
	farewell chan struct{} // made when the relay begins to say goodbye, closed when it has
	todo     todo          // for the pump's next round
}

// todo is what a stream may have to tell its device.
type todo struct {
	look    bool                   // whether notifications wait
	asked   bool                   // whether requests for approval changed
	fresh   []relay.NotificationID // accepted since the stream is open
	replied []relay.NotificationID // answered first by another device
}

func (t *todo) empty() bool { return !t.look && !t.asked && len(t.replied) == 0 }

func (a *API) stream(w http.ResponseWriter, r *http.Request) error {
	p, err := a.Auth.Device(r.Context(), web.Credential(r))
	if err != nil {
		return err
	}
	if r.Method != http.MethodGet { // the route takes HEAD too, as every GET route does
		return noSuchEndpoint()
	}
	if err := checkUpgrade(w.Header(), r); err != nil {
		return err
	}
	a.streams.Add(1) // the server's own stop forgets connections once they are taken over
	defer a.streams.Done()
	s, err := a.open(w, r, p)
	if err != nil {
		return err
	}
	a.streams.Go(s.run) // the handler returns, and with it goes all that served the upgrade
	return nil
}

// checkUpgrade judges the handshake before anything is recorded, so that a refusal leaves the device's open stream alone
// and is worded like every other.
func checkUpgrade(answer http.Header, r *http.Request) error {
	switch key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(r.Header.Get("Sec-WebSocket-Key"))); {
	case !hasToken(r.Header, "Upgrade", "websocket") || !hasToken(r.Header, "Connection", "upgrade") || !r.ProtoAtLeast(1, 1):
		return upgradeRequired("the stream is a WebSocket; connect with Upgrade: websocket")
	case r.Header.Get("Sec-WebSocket-Version") != webSocketVersion:
		answer.Set("Sec-WebSocket-Version", webSocketVersion)
		return upgradeRequired("the stream speaks version 13 of WebSocket; send Sec-WebSocket-Version: 13")
	case err != nil || len(key) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) > 1:
		return fault.InvalidRequest("", "the header Sec-WebSocket-Key must hold 16 random bytes in base64")
	}
	return nil
}

const webSocketVersion = "13"

func upgradeRequired(detail string) error {
	return fault.New(fault.UpgradeRequired, "upgrade_required", detail)
}

// hasToken reports whether a list header holds the token, in any case.
func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for item := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// open records the stream in the store, upgrades, and says welcome before anyone can reach the stream.
func (a *API) open(w http.ResponseWriter, r *http.Request, p credential.Principal) (*stream, error) {
	now := time.Now()
	id, err := a.Mailbox.OpenStream(r.Context(), p.Mailbox, p.Device, now)
	if err != nil {
		return nil, err
	}
	s := &stream{api: a, mailbox: p.Mailbox, device: p.Device, id: id, persisted: now.UnixMilli()}
	s.heard.Store(now.UnixMilli())
	hijacker := &smallBuffers{ResponseWriter: w}
	conn, err := websocket.Accept(hijacker, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // a bearer token is no ambient authority: no page can lend it
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil { // Accept has answered
		s.forget()
		return nil, fault.InvalidRequest("", "the WebSocket handshake failed").Because(err)
	}
	s.conn, s.line = conn, hijacker.line
	conn.SetReadLimit(-1) // what is too long is read past, not kept
	if err := s.write(welcome(a.Mailbox.Limits.QueueTTL)); err != nil {
		s.forget()
		conn.CloseNow()
		return nil, fault.InvalidRequest("", "the WebSocket closed during the handshake").Because(err)
	}
	return s, nil
}

// smallBuffers gives a hijacked connection buffers of its own size: the server's are eight times what an idle stream
// needs. It remembers the connection.
type smallBuffers struct {
	http.ResponseWriter
	line net.Conn
}

const hijackBuffer = 512

// Hijack takes the connection over with what the client has already sent.
func (w *smallBuffers) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.line = conn
	early := make([]byte, rw.Reader.Buffered())
	if _, err := io.ReadFull(rw.Reader, early); err != nil {
		return nil, nil, err
	}
	small := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(early), conn), max(hijackBuffer, len(early)))
	if _, err := small.Peek(len(early)); err != nil { // the upgrade looks for them in the buffer
		return nil, nil, err
	}
	return conn, bufio.NewReadWriter(small, bufio.NewWriterSize(conn, hijackBuffer)), nil
}

// run attaches the stream, reads until it ends, and leaves nothing behind.
func (s *stream) run() {
	s.api.Hub.Attach(s.mailbox, s)
	if s.api.stopping.Load() {
		s.stop()
	}
	s.ask(func(t *todo) { t.look, t.asked = true, true })
	s.read()
	s.api.Hub.Detach(s.mailbox, s)
	if why := s.end(EndedGone); s.api.Closed != nil {
		s.api.Closed(why)
	}
	s.hangUp()
	s.forget()
}

// hangUp lets a goodbye come to its end: the device must learn why it is turned away.
func (s *stream) hangUp() {
	s.mu.Lock()
	farewell := s.farewell
	s.mu.Unlock()
	if farewell != nil {
		<-farewell
	}
	s.conn.CloseNow()
}

// end lets no pump start any more and returns why the stream ends: the first reason given counts.
func (s *stream) end(why string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	if s.why == "" {
		s.why = why
	}
	return s.why
}

// forget tells the store that the stream is gone. It is best effort: the 11-minute rule corrects a lost word.
func (s *stream) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	if err := s.api.Mailbox.CloseStream(ctx, s.mailbox, s.device, s.id, s.LastHeard()); err != nil {
		s.api.Log.Debug("stream not closed in the store", "mailbox", s.mailbox, "err", err)
	}
}

// ID names the stream.
func (s *stream) ID() string { return s.id }

// Device is the device it belongs to.
func (s *stream) Device() relay.DeviceID { return s.device }

// LastHeard is when the device last gave a sign of life.
func (s *stream) LastHeard() time.Time { return time.UnixMilli(s.heard.Load()).UTC() }

// Wake has the store looked at for notifications.
func (s *stream) Wake() { s.ask(func(t *todo) { t.look = true }) }

// Asked has the device told of requests for approval.
func (s *stream) Asked() { s.ask(func(t *todo) { t.asked = true }) }

// Queued has the device told of a new notification.
func (s *stream) Queued(id relay.NotificationID) {
	s.ask(func(t *todo) { t.look, t.fresh = true, appendHint(t.fresh, id) })
}

// Replied has the device told that another one answered a notification.
func (s *stream) Replied(id relay.NotificationID) {
	s.ask(func(t *todo) { t.replied = appendHint(t.replied, id) })
}

func appendHint(list []relay.NotificationID, id relay.NotificationID) []relay.NotificationID {
	if len(list) == hintsMax {
		return list
	}
	return append(list, id)
}

// ask starts the pump, or lets the running one go round again.
func (s *stream) ask(note func(*todo)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	note(&s.todo)
	if s.pumping {
		return
	}
	s.pumping = true
	s.api.streams.Go(s.pump)
}

// pump writes what waits and ends when nothing does, or when the device takes nothing any more.
func (s *stream) pump() {
	for {
		next, more := s.take()
		if !more {
			return
		}
		if err := s.work(next); err != nil {
			s.api.Log.Debug("stream gave up writing", "mailbox", s.mailbox, "err", err)
			s.end(EndedSlow)
			s.conn.CloseNow() // the reader notices and cleans up
			return
		}
	}
}

func (s *stream) take() (next todo, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, s.todo = s.todo, todo{}
	s.pumping = !next.empty() && !s.closing
	return next, s.pumping
}

// work tells of answers last: a device should know of a notification before it hears that it was answered.
func (s *stream) work(next todo) error {
	if next.look {
		if err := s.deliver(next.fresh); err != nil {
			return err
		}
	}
	if next.asked {
		if err := s.tellConsents(); err != nil {
			return err
		}
	}
	for _, id := range next.replied {
		if err := s.write(repliedFrame(id)); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends every notification that waits or is fresh, and that this stream has not sent, in order. When the store
// cannot be asked, the stream stays: closing it would only bring the device back to ask the same store.
func (s *stream) deliver(fresh []relay.NotificationID) error {
	for {
		list, err := s.owed(fresh)
		if err != nil {
			s.api.Log.Debug("stream looks again later", "mailbox", s.mailbox, "err", err)
			s.lookLater(fresh)
			return nil
		}
		for i := range list {
			if err := s.write(notifyFrame(&list[i])); err != nil {
				return err
			}
			s.lastSeq = list[i].Seq
		}
		if len(list) < pumpBatch {
			return nil
		}
	}
}

// lookLater keeps in mind what is fresh and has the store looked at in a while; not all streams at once.
func (s *stream) lookLater(fresh []relay.NotificationID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range fresh {
		s.todo.fresh = appendHint(s.todo.fresh, id)
	}
	if s.later || s.closing {
		return
	}
	s.later = true
	time.AfterFunc(storeRetry/2+rand.N(storeRetry), func() {
		s.ask(func(t *todo) { s.later, t.look, t.asked = false, true, true })
	})
}

func (s *stream) owed(fresh []relay.NotificationID) ([]store.Waiting, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	at := mailbox.Place{After: s.lastSeq, Fresh: fresh}
	list, err := s.api.Mailbox.Owed(ctx, s.mailbox, s.device, at, pumpBatch, time.Now())
	if s.disowned(err) {
		return nil, nil
	}
	return list, err
}

func (s *stream) write(frame []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, frame)
}

// Replaced closes the stream because the same device opened a newer one.
func (s *stream) Replaced() {
	s.close(EndedReplaced, closeReplaced, "replaced by a newer stream of this device")
}

// Unpaired closes the stream because the device no longer belongs to the mailbox.
func (s *stream) Unpaired() {
	s.unpaired.Store(true)
	s.close(EndedUnpaired, closeUnpaired, "unpaired")
}

// close says why and hangs up, without holding up whoever calls.
func (s *stream) close(why string, code websocket.StatusCode, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	s.closing, s.why, s.farewell = true, why, make(chan struct{})
	s.api.streams.Go(func() {
		defer close(s.farewell)
		cut := time.AfterFunc(goodbyeWithin, func() { _ = s.line.Close() })
		defer cut.Stop()
		_ = s.conn.Close(code, reason) // fails only when the device is gone already
	})
}

// CloseAll ends every stream of this process because the relay stops, those included that are just opening.
func (a *API) CloseAll() {
	a.stopping.Store(true)
	a.Hub.Each(func(st presence.Stream) {
		if s, ok := st.(*stream); ok {
			s.stop()
		}
	})
}

func (s *stream) stop() {
	s.close(EndedStopping, websocket.StatusGoingAway, "the relay is restarting; connect again in a moment")
}

// CloseSilent ends streams that gave no sign of life for a long time: their devices are gone without a word.
func (a *API) CloseSilent(now time.Time) {
	a.Hub.Each(func(st presence.Stream) {
		if s, ok := st.(*stream); ok && now.Sub(s.LastHeard()) > silentClosed {
			s.close(EndedSilent, websocket.StatusGoingAway, "silent for too long; connect again")
		}
	})
}
