package e2e

import (
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestAGracefulStopDrainsWaitsAndStreams asks a busy relay to stop: parked long-polls are answered, streams closed with a
// code that says come back, and the process ends well within its grace time.
func TestAGracefulStopDrainsWaitsAndStreams(t *testing.T) {
	s := serve(t, t.TempDir(), plenty...)
	device, key := s.pair("phone")
	s.must("POST", "/v1/notify", key, map[string]any{"title": "t", "notificationId": "q", "expectReply": true})
	conn, _, err := websocket.Dial(t.Context(), s.URL+"/v1/device/stream", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + device}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()

	const parked = 50
	var waits sync.WaitGroup
	for range parked {
		waits.Go(func() {
			status, got, err := s.call(t.Context(), "GET", "/v1/replies/q?wait=60", key, nil)
			if err != nil || status != http.StatusOK || got["replied"] != false {
				t.Errorf("a parked wait ended with %d %v %v", status, got, err)
			}
		})
	}
	time.Sleep(300 * time.Millisecond) // real processes: until the waits are parked
	begin := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for {
		if _, _, err = conn.Read(t.Context()); err != nil {
			break
		}
	}
	if code := websocket.CloseStatus(err); code != websocket.StatusGoingAway {
		t.Errorf("the stream closed with %v (%v), want going away", code, err)
	}
	waits.Wait()
	err = <-s.done
	s.done <- err
	if err != nil {
		t.Errorf("herald serve stopped with %v:\n%s", err, s.text())
	}
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("stopping took %s", took)
	}
}
