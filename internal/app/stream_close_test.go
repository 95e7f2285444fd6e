package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/testkit"
)

const (
	replaced = websocket.StatusCode(4000)
	unpaired = websocket.StatusCode(4001)
)

func wantClosed(t *testing.T, s *testkit.Stream, want websocket.StatusCode) {
	t.Helper()
	if got := s.Closed(); got != want {
		t.Errorf("close code = %d, want %d", got, want)
	}
}

// closing reads the stream for as long as it is open and yields its close code.
func closing(s *testkit.Stream) <-chan websocket.StatusCode {
	code := make(chan websocket.StatusCode, 1)
	go func() {
		for {
			if _, _, err := s.Conn.Read(s.T.Context()); err != nil {
				code <- websocket.CloseStatus(err)
				return
			}
		}
	}()
	return code
}

func TestANewerStreamReplacesTheSameDevicesAlone(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	owner := r.Pair("laptop")
	phone, stranger := owner.Link("phone"), r.Pair("other")
	first, phones, strangers := owner.Stream(), phone.Stream(), stranger.Stream()
	second := owner.Stream()
	wantClosed(t, first, replaced)
	phone.Stream()
	wantClosed(t, phones, replaced)
	for _, s := range []*testkit.Stream{second, strangers} {
		devSettle(s)
	}
}

// Case 77 of the public cases: of streams that open in the same moment exactly one stays, and it works.
func TestCase077OfStreamsThatOpenAtOnceOneStays(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	const streams = 8
	var mu sync.Mutex
	var all []*testkit.Stream
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			s, err := d.Dial()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, s)
		})
	}
	wg.Wait()
	id := agent.Send(map[string]any{"title": "who is there?"})
	got, ended := 0, 0
	for _, s := range all {
		wg.Go(func() {
			heard, err := frameOrEnd(s, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case heard:
				got++
			case websocket.CloseStatus(err) == replaced:
				ended++
			default:
				t.Errorf("a stream ended with %v", err)
			}
		})
	}
	wg.Wait()
	// One that is being replaced may still have been told of the notification.
	if got < 1 || got+ended != streams {
		t.Errorf("%d streams heard of it and %d were replaced, want each of %d to be one of them", got, ended, streams)
	}
	if n := openStreams(all); n != 1 {
		t.Errorf("%d streams stay open, want one", n)
	}
}

// frameOrEnd reads until the notification comes or the stream ends.
func frameOrEnd(s *testkit.Stream, agentID string) (bool, error) {
	for {
		f, err := s.TryNext(10 * time.Second)
		if err != nil {
			return false, err
		}
		if f.Text("notificationId") == agentID {
			return true, nil
		}
	}
}

// openStreams counts those that answer a ping.
func openStreams(all []*testkit.Stream) (n int) {
	for _, s := range all {
		ctx, cancel := context.WithTimeout(s.T.Context(), 10*time.Second)
		if err := s.Conn.Write(ctx, websocket.MessageText, []byte("ping")); err == nil {
			for {
				_, data, err := s.Conn.Read(ctx)
				if err != nil {
					break
				}
				if string(data) == "pong" {
					n++
					break
				}
			}
		}
		cancel()
	}
	return n
}

func TestOfStreamsOpenedInTheSameMillisecondTheLaterStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		s := d.Stream()
		for range 20 { // no time passes in a bubble
			next := d.Stream()
			wantClosed(t, s, replaced)
			devSettle(next)
			s = next
		}
	})
}

func TestUnpairingClosesTheStreamsOfTheMailbox(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	owner := r.Pair("laptop")
	phone, other := owner.Link("phone"), r.Pair("other")
	streams := []*testkit.Stream{owner.Stream(), phone.Stream()}
	others := other.Stream()
	devOK(t, owner.Call("DELETE", "/v1/device", nil), 200, `{"unpaired":true}`)
	for _, s := range streams {
		wantClosed(t, s, unpaired)
	}
	devSettle(others)
	for _, d := range []*testkit.Device{owner, phone} {
		devRefused(t, d.Do("GET", "/v1/device/stream", d.Token, nil, handshake...), 401, "unauthorized")
	}
}

func TestALinkedDeviceThatUnpairsTakesItsOwnStreamAlone(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	owner := r.Pair("laptop")
	phone := owner.Link("phone")
	agent := owner.Agent("bot")
	owners, phones := owner.Stream(), phone.Stream()
	agentID := agent.Send(map[string]any{"title": "still there?"})
	id := phones.Next().Text("id")
	owners.Next()
	devOK(t, phone.Call("DELETE", "/v1/device", nil), 200, `{"unpaired":true}`)
	wantClosed(t, phones, unpaired)
	owners.Send(testkit.Frame{"type": "receipt", "id": id, "kind": "replied", "text": "yes"})
	devSettle(owners)
	if got := devReceipt(agent, agentID); got.Text("reply") != "yes" {
		t.Errorf("receipt = %s, want the owner's reply", got.Raw)
	}
}

// Case 139 of the public cases: devices are removed while their streams are busy. It is for the race detector too.
func TestCase139UnpairingWhileStreamsAreBusy(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) {
		c.MaxDevices, c.PairStartsPerHour = 50, 100
	}})
	const devices = 6
	var wg sync.WaitGroup
	for i := range devices {
		d := r.Pair(fmt.Sprint("laptop ", i))
		phone := d.Link("phone")
		agent := d.Agent("bot")
		streams := []*testkit.Stream{d.Stream(), phone.Stream()}
		stop := make(chan struct{})
		wg.Go(func() { // an agent that never stops sending
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = r.Try(t.Context(), "POST", "/v1/notify", agent.Token, map[string]any{"title": "x"})
				}
			}
		})
		for _, s := range streams {
			wg.Go(func() {
				for {
					f, err := s.TryNext(10 * time.Second)
					if err != nil {
						if got := websocket.CloseStatus(err); got != unpaired {
							t.Errorf("a stream ended with %v, want the code 4001", err)
						}
						return
					}
					data := `{"type":"receipt","kind":"displayed","id":"` + f.Text("id") + `"}`
					_ = s.Conn.Write(t.Context(), websocket.MessageText, []byte(data)) // fails once the stream is closed
				}
			})
		}
		wg.Go(func() {
			if _, err := r.Try(t.Context(), "DELETE", "/v1/device", d.Token, nil); err != nil {
				t.Error(err)
			}
			close(stop)
			a, err := r.Try(t.Context(), "POST", "/v1/notify", agent.Token, map[string]any{"title": "x"})
			if err != nil || a.Status != 401 {
				t.Errorf("after the unpairing the agent got %d, %v; want 401", a.Status, err)
			}
		})
	}
	wg.Wait()
}

// A device is unpaired at the very moment at which its stream opens: whatever comes first, the stream does not stay.
func TestAStreamThatOpensWhileItsDeviceIsUnpairedDoesNotStay(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	owner := r.Pair("laptop")
	for range 20 {
		phone := owner.Link("phone")
		var wg sync.WaitGroup
		wg.Go(func() {
			s, err := phone.Dial()
			if err != nil {
				return // unpaired before
			}
			for err == nil {
				_, err = s.TryNext(10 * time.Second)
			}
			if got := websocket.CloseStatus(err); got != unpaired {
				t.Errorf("the stream of an unpaired device ended with %v, want the code 4001", err)
			}
		})
		wg.Go(func() {
			if _, err := r.Try(t.Context(), "DELETE", "/v1/device", phone.Token, nil); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
	}
}

func TestAStoppingRelayTellsItsStreamsToComeBack(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	closed := closing(r.Pair("laptop").Stream())
	r.Stop()
	if got := <-closed; got != websocket.StatusGoingAway {
		t.Errorf("close code = %d, want 1001", got)
	}
}

// A handshake that is under way when the relay stops is still answered; its stream must not stay behind the farewells.
func TestAStreamThatOpensWhileTheRelayStopsIsToldAtOnce(t *testing.T) {
	t.Parallel()
	var gate *beforeUpdate
	r := testkit.New(t, testkit.Options{Wrap: func(s store.Store) store.Store {
		gate = &beforeUpdate{Store: s}
		return gate
	}})
	d := r.Pair("laptop")
	told := closing(d.Link("phone").Stream())
	reached, release := make(chan struct{}), make(chan struct{})
	hold := func() {
		close(reached)
		<-release
	}
	gate.armed.Store(&hold)
	opened := make(chan *testkit.Stream, 1)
	go func() {
		s, err := d.Dial()
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	<-reached
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Stop()
	}()
	if got := <-told; got != websocket.StatusGoingAway {
		t.Errorf("close code of the open stream = %d, want 1001", got)
	}
	close(release)
	if s := <-opened; s != nil {
		select {
		case got := <-closing(s):
			if got != websocket.StatusGoingAway {
				t.Errorf("close code of the late stream = %d, want 1001", got)
			}
		case <-stopped:
			t.Error("the late stream was told nothing")
			_ = s.Conn.CloseNow()
		}
	}
	<-stopped
}

// Case 82 of the public cases: devices that vanish without a word are given up after missed heartbeats.
func TestCase082SilentStreamsAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		owner := r.Pair("laptop")
		listening := closing(owner.Stream())
		vanished := owner.Link("vanished").Stream() // takes nothing, not even the farewell
		alive := owner.Link("alive").Stream()
		for range 12 {
			time.Sleep(5 * time.Minute)
			devSettle(alive)
		}
		if got := <-listening; got != websocket.StatusGoingAway {
			t.Errorf("close code = %d, want 1001", got)
		}
		wantClosed(t, vanished, -1)
		links := owner.Call("GET", "/v1/device/links", nil)
		if got := strings.Count(string(links.Raw), `"online":true`); got != 1 {
			t.Errorf("%d devices are online, want the one that pings: %s", got, links.Raw)
		}
	})
}

// Case 81 of the public cases: a device that stops reading is given up after 20 seconds and holds up nobody.
func TestCase081ADeviceThatStopsReadingIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		owner := r.Pair("laptop")
		agent := owner.Agent("bot")
		s := owner.Stream() // and never reads again: a pipe holds nothing
		start := time.Now()
		id := agent.Send(map[string]any{"title": "one"})
		agent.Send(map[string]any{"title": "two"})
		if waited := time.Since(start); waited > time.Second {
			t.Errorf("the agent was held up for %s", waited)
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		links := owner.Call("GET", "/v1/device/links", nil)
		if !strings.Contains(string(links.Raw), `"online":false`) {
			t.Errorf("the stream is still there: %s", links.Raw)
		}
		s.Conn.CloseNow()
		if f := owner.Stream().Next(); f.Text("notificationId") != id {
			t.Errorf("the next stream begins with %v, want %s", f, id)
		}
	})
}

// unread opens a stream on real sockets, sends more than the system's buffers hold, and reads none of it.
func unread(t *testing.T, d *testkit.Device, agent *testkit.Agent, sent int) {
	t.Helper()
	_, br, _ := rawStream(t, d.Relay, d.Token, "")
	rawMessage(t, br) // welcome, and then nothing more is read
	icon := "data:image/png;base64," + strings.Repeat("AAAA", 60000)
	for i := range sent {
		agent.Send(map[string]any{"title": fmt.Sprint(i), "icon": icon})
	}
}

func manyNotifications(c *config.Config) {
	c.QueueMax, c.RateLimitPerKey, c.NotificationsPerDay = 2000, 2000, 2000
}

// What a device does not take stays in the store, not in memory. The test is not parallel: it measures.
func TestADeviceThatStopsReadingHoldsNoMemory(t *testing.T) {
	r := testkit.New(t, testkit.Options{Config: manyNotifications})
	d := r.Pair("laptop")
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	unread(t, d, d.Agent("bot"), 80)
	if grown := int64(heap()) - int64(before); grown > 6<<20 {
		t.Errorf("the heap grew by %d KB while 19 MB wait for a device that does not read", grown>>10)
	}
}

func TestADeviceThatStopsReadingIsGivenUpOnRealSocketsToo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the 20 seconds that a device has for one frame")
	}
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: manyNotifications})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	const sent = 40
	unread(t, d, agent, sent)
	id := agent.Send(map[string]any{"title": "the last one"})
	agent.Call("GET", "/v1/replies/"+id+"?wait=25", nil) // nobody answers: the time passes without polling
	devMatch(t, "info", d.Call("GET", "/v1/device/info", nil).Raw,
		fmt.Sprintf(`{"online":false,"lastSeenAt":"<time>","pending":%d,"quietHours":{"active":false},"keys":1}`, sent+1))
}

func TestAPeerThatSendsBrokenFramesIsCutOff(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	for name, bytes := range map[string]string{
		"unmasked":           "\x81\x04ping",
		"a reserved opcode":  "\x83\x80\x00\x00\x00\x00",
		"a reserved bit":     "\xc1\x84\x00\x00\x00\x00ping",
		"a huge ping":        "\x89\xfe\x01\x00\x00\x00\x00\x00" + strings.Repeat("x", 256),
		"continuing nothing": "\x80\x84\x00\x00\x00\x00ping",
	} {
		conn, br, _ := rawStream(t, r, d.Token, "")
		rawMessage(t, br)
		if _, err := conn.Write([]byte(bytes)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1024)
		var err error
		for err == nil {
			_, err = br.Read(buf)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the stream stays open", name)
		}
	}
	devSettle(d.Stream())
}
