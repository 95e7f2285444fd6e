package presence_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/presence"
	"github.com/herald-relay/herald/internal/relay"
)

// stream writes down what it is told.
type stream struct {
	id     string
	device relay.DeviceID
	heard  time.Time

	mu   sync.Mutex // guards told
	told []string
}

func (s *stream) tell(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
}

func (s *stream) Wake()                           { s.tell("wake") }
func (s *stream) Asked()                          { s.tell("asked") }
func (s *stream) Queued(id relay.NotificationID)  { s.tell("queued " + string(id)) }
func (s *stream) Replied(id relay.NotificationID) { s.tell("replied " + string(id)) }
func (s *stream) Replaced()                       { s.tell("replaced") }
func (s *stream) Unpaired()                       { s.tell("unpaired") }
func (s *stream) LastHeard() time.Time            { return s.heard }
func (s *stream) ID() string                      { return s.id }
func (s *stream) Device() relay.DeviceID          { return s.device }

// take returns what the stream was told since it was asked last.
func (s *stream) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.told
	s.told = nil
	return told
}

func wantTold(t *testing.T, name string, s *stream, want ...string) {
	t.Helper()
	if got := s.take(); !slices.Equal(got, want) {
		t.Errorf("%s was told %v, want %v", name, got, want)
	}
}

func woken(w *presence.Watch) bool {
	select {
	case <-w.C:
		return true
	default:
		return false
	}
}

func TestHintsReachWhomTheyConcern(t *testing.T) {
	t.Parallel()
	const note = relay.NotificationID("r_1")
	tests := map[string]struct {
		hint                 relay.Hint
		phone, laptop, other []string
		woken                bool // the watch of the notification
	}{
		"queued tells every device of the mailbox": {
			hint:  relay.Hint{Kind: relay.HintQueued, Mailbox: "m", Notification: note},
			phone: []string{"queued r_1"}, laptop: []string{"queued r_1"},
		},
		"a receipt wakes the waits alone": {
			hint:  relay.Hint{Kind: relay.HintReceipt, Mailbox: "m", Notification: note},
			woken: true,
		},
		"a receipt of another notification wakes nobody": {
			hint: relay.Hint{Kind: relay.HintReceipt, Mailbox: "m", Notification: "r_2"},
		},
		"a reply wakes the waits and tells the other devices": {
			hint:   relay.Hint{Kind: relay.HintReplied, Mailbox: "m", Device: "phone", Notification: note},
			laptop: []string{"replied r_1"}, woken: true,
		},
		"a newer stream replaces an older one of its device alone": {
			hint:  relay.Hint{Kind: relay.HintReplaced, Mailbox: "m", Device: "phone", Stream: "2"},
			phone: []string{"replaced"},
		},
		"a stream does not replace itself": {
			hint: relay.Hint{Kind: relay.HintReplaced, Mailbox: "m", Device: "phone", Stream: "1"},
		},
		"an older stream replaces no newer one": {
			hint: relay.Hint{Kind: relay.HintReplaced, Mailbox: "m", Device: "phone", Stream: "0"},
		},
		"one device is unpaired": {
			hint:   relay.Hint{Kind: relay.HintUnpaired, Mailbox: "m", Device: "laptop"},
			laptop: []string{"unpaired"}, woken: true,
		},
		"the whole mailbox is unpaired": {
			hint:  relay.Hint{Kind: relay.HintUnpaired, Mailbox: "m"},
			phone: []string{"unpaired"}, laptop: []string{"unpaired"}, woken: true,
		},
		"a revoked key wakes the waits of its mailbox": {
			hint:  relay.Hint{Kind: relay.HintRevoked, Mailbox: "m"},
			woken: true,
		},
		"a revoked key of another mailbox wakes nobody": {
			hint: relay.Hint{Kind: relay.HintRevoked, Mailbox: "another mailbox"},
		},
		"a mailbox without streams": {
			hint: relay.Hint{Kind: relay.HintQueued, Mailbox: "nobody"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := presence.New(nil)
			phone, laptop, other := &stream{id: "1", device: "phone"}, &stream{id: "1", device: "laptop"}, &stream{id: "1", device: "phone"}
			h.Attach("m", phone)
			h.Attach("m", laptop)
			h.Attach("another mailbox", other)
			w := h.Watch("m", note)
			defer w.Close()
			h.Publish(test.hint)
			wantTold(t, "the phone", phone, test.phone...)
			wantTold(t, "the laptop", laptop, test.laptop...)
			wantTold(t, "another mailbox's phone", other, test.other...)
			if got := woken(w); got != test.woken {
				t.Errorf("the wait was woken: %v", got)
			}
		})
	}
}

func TestOfTwoStreamsThatRaceTheNewerStays(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"1", "2"}, {"2", "1"}} {
		h := presence.New(nil)
		all := map[string]*stream{"1": {id: "1", device: "d"}, "2": {id: "2", device: "d"}}
		for _, id := range order {
			h.Attach("m", all[id])
		}
		h.Publish(relay.Hint{Kind: relay.HintReplaced, Mailbox: "m", Device: "d", Stream: "2"}) // a late repeat
		if got := all["2"].take(); len(got) != 0 {
			t.Errorf("attached as %v: the newer stream was told %v", order, got)
		}
		if order[0] == "1" && len(all["1"].take()) == 0 {
			t.Error("the older stream was not told that it is replaced")
		}
	}
}

// TestAStreamThatAttachesLateLearnsThatItIsReplaced is the race the other way round: the newer stream is there first.
func TestAStreamThatAttachesLateLearnsThatItIsReplaced(t *testing.T) {
	t.Parallel()
	h := presence.New(nil)
	newer, older := &stream{id: "2", device: "d"}, &stream{id: "1", device: "d"}
	h.Attach("m", newer)
	h.Attach("m", older)
	wantTold(t, "the newer stream", newer)
	wantTold(t, "the older stream", older, "replaced")
}

func TestAWatchIsWokenForWhatHappenedBeforeItsFirstLook(t *testing.T) {
	t.Parallel()
	h := presence.New(nil)
	w := h.Watch("m", "r_1")
	h.Publish(relay.Hint{Kind: relay.HintReceipt, Notification: "r_1"})
	h.Publish(relay.Hint{Kind: relay.HintReceipt, Notification: "r_1"})
	if !woken(w) {
		t.Error("a change between the start of the watch and the first look was missed")
	}
	if woken(w) {
		t.Error("two changes woke a waiter twice that had not looked in between")
	}
	w.Close()
	h.Publish(relay.Hint{Kind: relay.HintReceipt, Notification: "r_1"})
	if woken(w) || h.Waits() != 0 {
		t.Errorf("a closed watch was woken, or is still held (%d are)", h.Waits())
	}
}

func TestEveryWatchOfANotificationIsWoken(t *testing.T) {
	t.Parallel()
	h := presence.New(nil)
	var all []*presence.Watch
	for range 50 {
		all = append(all, h.Watch("m", "r_1"))
	}
	if h.Waits() != 50 {
		t.Errorf("%d waits are counted, want 50", h.Waits())
	}
	all[0].Close()
	h.Publish(relay.Hint{Kind: relay.HintReplied, Notification: "r_1"})
	for i, w := range all[1:] {
		if !woken(w) {
			t.Errorf("watch %d was not woken", i+1)
		}
		w.Close()
	}
	if h.Waits() != 0 {
		t.Errorf("%d watches are left", h.Waits())
	}
}

func TestADetachedStreamIsForgotten(t *testing.T) {
	t.Parallel()
	h := presence.New(nil)
	a := &stream{id: "1", device: "a", heard: time.UnixMilli(1000)}
	b := &stream{id: "1", device: "b", heard: time.UnixMilli(2000)}
	if !h.LastHeard("m").IsZero() {
		t.Error("a mailbox without streams was heard from")
	}
	h.Attach("m", a)
	h.Attach("m", b)
	if got := h.LastHeard("m"); !got.Equal(b.heard) || h.Streams() != 2 {
		t.Errorf("last heard %v of %d streams, want the latest of 2", got, h.Streams())
	}
	a.take()
	b.take()
	h.Detach("m", b)
	h.Publish(relay.Hint{Kind: relay.HintQueued, Mailbox: "m", Notification: "r_1"})
	wantTold(t, "the detached stream", b)
	wantTold(t, "the other", a, "queued r_1")
	if got := h.LastHeard("m"); !got.Equal(a.heard) {
		t.Errorf("last heard %v, want the remaining stream's", got)
	}
	h.Detach("m", a)
	h.Detach("m", a)
	if h.Streams() != 0 {
		t.Errorf("%d streams are left", h.Streams())
	}
}

// bus hands hints to a test and takes some from it.
type bus struct {
	out chan relay.Hint
	in  chan relay.Hint
	err error
}

func (b *bus) Publish(hints ...relay.Hint) {
	for _, h := range hints {
		b.out <- h
	}
}

func (b *bus) Listen(ctx context.Context, fn func(relay.Hint)) error {
	for {
		select {
		case h := <-b.in:
			fn(h)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if b.err != nil {
			return b.err
		}
	}
}

func TestHintsTravelBetweenProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{out: make(chan relay.Hint, 9), in: make(chan relay.Hint)}
		h := presence.New(b)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()

		w, st := h.Watch("m", "r_1"), &stream{id: "1", device: "d"}
		h.Attach("m", st)
		if got, want := <-b.out, (relay.Hint{Kind: relay.HintReplaced, Mailbox: "m", Device: "d", Stream: "1"}); got != want {
			t.Errorf("other processes learn %+v, want %+v", got, want)
		}
		b.in <- relay.Hint{Kind: relay.HintReplied, Mailbox: "m", Notification: "r_1"}
		synctest.Wait()
		if !woken(w) {
			t.Error("a hint of another process woke nobody")
		}
		wantTold(t, "the stream", st, "replied r_1")
		if len(b.out) != 0 {
			t.Errorf("a hint of another process was sent back: %+v", <-b.out)
		}
		h.Publish()
		if len(b.out) != 0 {
			t.Error("nothing was published, and the bus was given something")
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("a deliberate stop returned %v", err)
		}
	})
}

func TestALostHintCostsFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := presence.New(&bus{out: make(chan relay.Hint, 9)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		w, st := h.Watch("m", "r_1"), &stream{id: "1", device: "d"}
		h.Attach("m", st)

		time.Sleep(5*time.Second - time.Millisecond)
		synctest.Wait()
		if woken(w) {
			t.Error("woken before the five seconds were over")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !woken(w) {
			t.Error("nobody looks for what other processes wrote")
		}
		wantTold(t, "the stream", st, "wake")
		time.Sleep(25 * time.Second)
		synctest.Wait()
		wantTold(t, "the stream after half a minute", st, "wake", "wake", "wake", "wake", "wake", "asked")
		stop()
		<-done
	})
}

func TestARequestForApprovalReachesTheMailboxsStreams(t *testing.T) {
	t.Parallel()
	h := presence.New(nil)
	mine, linked, other := &stream{id: "1", device: "d"}, &stream{id: "2", device: "e"}, &stream{id: "3", device: "f"}
	h.Attach("m", mine)
	h.Attach("m", linked)
	h.Attach("n", other)
	h.Publish(relay.Hint{Kind: relay.HintConsent, Mailbox: "m"})
	wantTold(t, "a stream", mine, "asked")
	wantTold(t, "a linked device's", linked, "asked")
	wantTold(t, "another mailbox's", other)
}

func TestABusThatBreaksEndsTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{in: make(chan relay.Hint, 1), err: errors.New("broken")}
		b.in <- relay.Hint{}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		start := time.Now()
		if err := presence.New(b).Run(ctx); !errors.Is(err, b.err) || time.Since(start) > 0 {
			t.Errorf("Run returned %v after %s, want the bus's error at once", err, time.Since(start))
		}
	})
}

func TestAHubWithoutABusHasNothingToRun(t *testing.T) {
	t.Parallel()
	if err := presence.New(nil).Run(t.Context()); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// TestManyAtOnce is for the race detector, and for counts that end at zero.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	h := presence.New(nil)
	var wg sync.WaitGroup
	var wakes atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				st := &stream{id: string(rune('a' + i)), device: relay.DeviceID(rune('a' + i)), heard: time.UnixMilli(int64(i))}
				h.Attach("m", st)
				w := h.Watch("m", "r_1")
				h.Publish(relay.Hint{Kind: relay.HintReplied, Mailbox: "m", Notification: "r_1"})
				if woken(w) {
					wakes.Add(1)
				}
				h.LastHeard("m")
				w.Close()
				h.Detach("m", st)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff([]int{0, 0}, []int{h.Streams(), h.Waits()}); diff != "" {
		t.Errorf("streams and waits left (-want +got):\n%s", diff)
	}
	if wakes.Load() != 1600 {
		t.Errorf("%d of 1600 waits were woken", wakes.Load())
	}
}
