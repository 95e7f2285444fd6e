package e2e

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/herald-relay/herald/internal/testkit"
)

// TestAbortedWaitsAndVanishedStreamsLeaveNothingBehind parks 200 long-polls and opens 200 streams, takes their clients away
// without a word, and counts what the process still holds five seconds later.
func TestAbortedWaitsAndVanishedStreamsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	const many = 200
	s := serveWatched(t, t.TempDir(), plenty...)
	r := s.relay()
	r.HTTP.Transport.(*http.Transport).DisableKeepAlives = true
	laptop := r.Pair("laptop")
	agent := laptop.Agent("bot")
	id := agent.Send(map[string]any{"title": "t", "expectReply": true})
	phones := make([]*testkit.Device, 9) // a mailbox has ten devices
	for i := range phones {
		phones[i] = laptop.Link("")
	}
	tests := map[string]func(t *testing.T) (abort func()){
		"young waits":                 func(*testing.T) func() { return park(agent, id, many, time.Second) },
		"detached waits":              func(*testing.T) func() { return park(agent, id, many, 3*time.Second) },
		"streams that replace others": func(t *testing.T) func() { return openStreams(t, phones, many) },
		"streams of many devices":     func(t *testing.T) func() { return openStreams(t, pairedDevices(r, many), many) },
	}
	for name, begin := range tests {
		before := s.numbers()
		abort := begin(t)
		if during := s.numbers(); name != "streams that replace others" && during.files < before.files+many*9/10 {
			t.Errorf("%s: only %d files while they are open, %d before: this test proves nothing", name, during.files, before.files)
		}
		abort()
		s.settles(before, 5*time.Second)
	}
	s.stop(10 * time.Second)
}

// park begins long-polls, and aborts them.
func park(agent *testkit.Agent, id string, many int, settle time.Duration) (abort func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var waits sync.WaitGroup
	for range many {
		waits.Go(func() {
			if got, err := agent.Try(ctx, "GET", "/v1/replies/"+id+"?wait=60", agent.Token, nil); err == nil {
				agent.T.Errorf("a wait ended by itself: %d %s", got.Status, got.Raw)
			}
		})
	}
	time.Sleep(settle) // real processes: until they are parked
	return func() {
		cancel()
		waits.Wait()
	}
}

// pairedDevices pairs devices of many mailboxes.
func pairedDevices(r *testkit.Relay, many int) (list []*testkit.Device) {
	for range many {
		list = append(list, r.Pair(""))
	}
	return list
}

// openStreams opens many streams, of one device after the other, and cuts their connections below the WebSocket.
func openStreams(t *testing.T, devices []*testkit.Device, many int) (cut func()) {
	t.Helper()
	var mu sync.Mutex // guards lines
	var lines []net.Conn
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, conn)
		return conn, err
	}}}
	for i := range many {
		d := devices[i%len(devices)]
		conn, _, err := websocket.Dial(t.Context(), d.URL+"/v1/device/stream", &websocket.DialOptions{
			HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + d.Token}},
		})
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		if _, _, err := conn.Read(t.Context()); err != nil { // the welcome
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		for i, conn := range lines {
			if tcp, ok := conn.(*net.TCPConn); ok && i%2 == 0 {
				_ = tcp.SetLinger(0) // a reset instead of a goodbye
			}
			conn.Close()
		}
	}
}
