package client

import (
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of an outbox.
const (
	maxOutbox = 512
	// doubtFor is how long a written message may still have been lost: longer than it takes to notice a dead peer.
	doubtFor = 2 * time.Minute
)

// outbox holds what a device has to say until it is said, and a while longer: what was written shortly before a stream
// broke is written again on the next one. Everything in it may be repeated without harm. When it is full the oldest
// message goes; acknowledgements, the most of them, are then asked for again by a resend.
type outbox struct {
	wake chan struct{} // holds one token while there is something to write

	mu      sync.Mutex // guards what follows
	waiting []jsontext.Value
	written []writtenMessage
}

type writtenMessage struct {
	text jsontext.Value
	at   time.Time
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

func (o *outbox) add(text jsontext.Value) {
	o.mu.Lock()
	o.waiting = bounded(append(o.waiting, text))
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// next returns the oldest unwritten message without removing it.
func (o *outbox) next() (jsontext.Value, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		return nil, false
	}
	return o.waiting[0], true
}

// wrote moves text, which next returned, to the written ones.
func (o *outbox) wrote(text jsontext.Value, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) > 0 && &o.waiting[0][0] == &text[0] { // add may have dropped it meanwhile
		o.waiting = o.waiting[1:]
	}
	o.settle(now)
	o.written = bounded(append(o.written, writtenMessage{text, now}))
}

// settle forgets written messages that are past doubt.
func (o *outbox) settle(now time.Time) {
	for len(o.written) > 0 && now.Sub(o.written[0].at) > doubtFor {
		o.written = o.written[1:]
	}
}

// restart puts what may have been lost with the last stream back in front.
func (o *outbox) restart(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle(now)
	again := make([]jsontext.Value, 0, len(o.written)+len(o.waiting))
	for _, w := range o.written {
		again = append(again, w.text)
	}
	o.waiting, o.written = bounded(append(again, o.waiting...)), nil
}

func bounded[T any](list []T) []T {
	if over := len(list) - maxOutbox; over > 0 {
		list = list[over:]
	}
	return list
}
