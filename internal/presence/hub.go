// Package presence knows which devices are connected to this process and wakes whoever waits for a mailbox.
//
// Everything here is a hint. A waiter that is woken reads the store; a wake-up that is lost, repeated or late costs
// time, never truth: waiters of a store that other processes write to also look again every few seconds. One Watch
// costs a map entry and a channel of one, one Stream a map entry; none costs a goroutine or a timer.
package presence

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Stream is one device's open stream. Its methods must not block and may be called concurrently.
type Stream interface {
	// Wake says that notifications may wait.
	Wake()
	// Asked says that requests for approval began, changed or ended.
	Asked()
	// Queued says that the notification was accepted.
	Queued(relay.NotificationID)
	// Replied says that another device answered the notification first.
	Replied(relay.NotificationID)
	// Replaced says that the same device opened a newer stream.
	Replaced()
	// Unpaired says that the device no longer belongs to the mailbox.
	Unpaired()
	// LastHeard is when the device was last heard from.
	LastHeard() time.Time
	// ID names the stream; ids of streams opened later sort later, so of two that race exactly one replaces the other.
	ID() string
	// Device is the device it belongs to.
	Device() relay.DeviceID
}

const shards = 64

// lookAgain is how often waiters look for themselves when other processes write to the same store; for requests for
// approval, which are rare and live for minutes, only every sixth time.
const (
	lookAgain  = 5 * time.Second
	askedEvery = 6
)

// Hub is the meeting point of one process. The zero value is not ready; use New.
type Hub struct {
	bus   store.Bus // nil when there is no other process
	seed  maphash.Seed
	shard [shards]shard
}

type shard struct {
	mu      sync.Mutex                                   // guards both maps
	watches map[relay.NotificationID]map[*Watch]struct{} // by what they wait for
	streams map[relay.MailboxID][]Stream                 // by mailbox, oldest first
}

// New makes a hub. bus may be nil.
func New(bus store.Bus) *Hub {
	h := &Hub{bus: bus, seed: maphash.MakeSeed()}
	for i := range h.shard {
		h.shard[i].watches = map[relay.NotificationID]map[*Watch]struct{}{}
		h.shard[i].streams = map[relay.MailboxID][]Stream{}
	}
	return h
}

// Run passes on other processes' hints until ctx ends, or until the bus fails with what it returns. It returns nil at
// once when there is no bus.
func (h *Hub) Run(ctx context.Context) error {
	if h.bus == nil {
		return nil
	}
	var wg sync.WaitGroup
	looking, stop := context.WithCancel(ctx)
	wg.Go(func() { h.lookAgain(looking) })
	err := h.bus.Listen(ctx, h.deliver)
	stop()
	wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (h *Hub) lookAgain(ctx context.Context) {
	t := time.NewTicker(lookAgain)
	defer t.Stop()
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			h.wakeAll(round%askedEvery == 0)
		}
	}
}

// wakeAll wakes every waiter; with asked, for requests for approval too.
func (h *Hub) wakeAll(asked bool) {
	for i := range h.shard {
		s := &h.shard[i]
		s.mu.Lock()
		for _, set := range s.watches {
			for w := range set {
				w.wake()
			}
		}
		for _, list := range s.streams {
			for _, st := range list {
				st.Wake()
				if asked {
					st.Asked()
				}
			}
		}
		s.mu.Unlock()
	}
}

// Publish wakes the waiters of this process and, through the bus, of the others. Call it after the commit.
func (h *Hub) Publish(hints ...relay.Hint) {
	for _, hint := range hints {
		h.deliver(hint)
	}
	if h.bus != nil && len(hints) > 0 {
		h.bus.Publish(hints...)
	}
}

func (h *Hub) deliver(hint relay.Hint) {
	switch hint.Kind {
	case relay.HintReceipt, relay.HintReplied:
		h.wakeWatches(hint.Notification)
	case relay.HintUnpaired, relay.HintRevoked:
		h.wakeWatchesOf(hint.Mailbox)
	}
	for _, st := range h.streamsOf(hint.Mailbox) {
		switch hint.Kind {
		case relay.HintQueued:
			st.Queued(hint.Notification)
		case relay.HintReplied:
			if st.Device() != hint.Device {
				st.Replied(hint.Notification)
			}
		case relay.HintConsent:
			st.Asked()
		case relay.HintReplaced:
			if st.Device() == hint.Device && st.ID() < hint.Stream {
				st.Replaced()
			}
		case relay.HintUnpaired:
			if hint.Device == "" || st.Device() == hint.Device {
				st.Unpaired()
			}
		}
	}
}

func (h *Hub) wakeWatches(id relay.NotificationID) {
	s := h.at(string(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches[id] {
		w.wake()
	}
}

// wakeWatchesOf looks at every watch there is: it is for what happens seldom.
func (h *Hub) wakeWatchesOf(m relay.MailboxID) {
	for i := range h.shard {
		s := &h.shard[i]
		s.mu.Lock()
		for _, set := range s.watches {
			for w := range set {
				if w.mailbox == m {
					w.wake()
				}
			}
		}
		s.mu.Unlock()
	}
}

// Watch wakes one waiter for one notification.
type Watch struct {
	// C receives when the notification may have changed.
	C       chan struct{}
	hub     *Hub
	mailbox relay.MailboxID
	id      relay.NotificationID
}

func (w *Watch) wake() {
	select {
	case w.C <- struct{}{}:
	default:
	}
}

// Watch starts watching. Begin it before the first look at the store, or a change in between is missed. Close it.
func (h *Hub) Watch(m relay.MailboxID, id relay.NotificationID) *Watch {
	w := &Watch{C: make(chan struct{}, 1), hub: h, mailbox: m, id: id}
	s := h.at(string(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.watches[id]
	if set == nil {
		set = make(map[*Watch]struct{}, 1)
		s.watches[id] = set
	}
	set[w] = struct{}{}
	return w
}

// Close ends the watch.
func (w *Watch) Close() {
	s := w.hub.at(string(w.id))
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.watches[w.id]
	delete(set, w)
	if len(set) == 0 {
		delete(s.watches, w.id)
	}
}

// Attach makes a stream reachable. Older streams of the same device are told that they were replaced, here and in
// other processes; st itself is told when a newer one overtook it on its way here.
func (h *Hub) Attach(m relay.MailboxID, st Stream) {
	s := h.at(string(m))
	s.mu.Lock()
	overtaken := slices.ContainsFunc(s.streams[m], func(other Stream) bool {
		return other.Device() == st.Device() && other.ID() > st.ID()
	})
	s.streams[m] = append(s.streams[m], st)
	s.mu.Unlock()
	if overtaken {
		st.Replaced()
	}
	h.Publish(relay.Hint{Kind: relay.HintReplaced, Mailbox: m, Device: st.Device(), Stream: st.ID()})
}

// Detach forgets the stream.
func (h *Hub) Detach(m relay.MailboxID, st Stream) {
	s := h.at(string(m))
	s.mu.Lock()
	defer s.mu.Unlock()
	var rest []Stream
	for _, other := range s.streams[m] {
		if other != st {
			rest = append(rest, other)
		}
	}
	if len(rest) == 0 {
		delete(s.streams, m)
		return
	}
	s.streams[m] = rest
}

// LastHeard returns when this process last heard from an open stream of the mailbox; zero when it holds none.
func (h *Hub) LastHeard(m relay.MailboxID) (last time.Time) {
	for _, st := range h.streamsOf(m) {
		if t := st.LastHeard(); t.After(last) {
			last = t
		}
	}
	return last
}

// Each calls fn for every stream of this process, without holding any lock.
func (h *Hub) Each(fn func(Stream)) {
	for i := range h.shard {
		s := &h.shard[i]
		s.mu.Lock()
		var all []Stream
		for _, list := range s.streams {
			all = append(all, list...)
		}
		s.mu.Unlock()
		for _, st := range all {
			fn(st)
		}
	}
}

// Streams counts the open streams of this process.
func (h *Hub) Streams() (n int) {
	h.Each(func(Stream) { n++ })
	return n
}

// streamsOf returns the mailbox's streams; the slice is never written to again.
func (h *Hub) streamsOf(m relay.MailboxID) []Stream {
	s := h.at(string(m))
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.streams[m]
	return list[:len(list):len(list)]
}

func (h *Hub) at(key string) *shard {
	return &h.shard[maphash.String(h.seed, key)%shards]
}

// Waits counts the open watches of this process.
func (h *Hub) Waits() (n int) {
	for i := range h.shard {
		s := &h.shard[i]
		s.mu.Lock()
		for _, set := range s.watches {
			n += len(set)
		}
		s.mu.Unlock()
	}
	return n
}
