package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// fact is what the relay has acknowledged about one notification.
type fact struct {
	id        string // the agent's
	relayID   string // the relay's, once seen on the stream
	displayed bool
	reply     string
}

// book is what the world outside believes, across the deaths of the process.
type book struct {
	mu    sync.Mutex // guards facts
	facts []*fact
}

func (b *book) add(f *fact) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.facts = append(b.facts, f)
}

func (b *book) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// some returns up to n facts, the newest included.
func (b *book) some(n int) (list []fact) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.facts) - 1; i >= 0 && len(list) < n; i-- {
		list = append(list, *b.facts[i])
	}
	return list
}

// TestWhatWasAcknowledgedSurvivesBeingKilled kills the binary at random moments under load, round after round on one data
// directory, and holds it to everything it acknowledged.
func TestWhatWasAcknowledgedSurvivesBeingKilled(t *testing.T) {
	const rounds = 50
	dir := t.TempDir()
	known := &book{}
	first := serve(t, dir, plenty...)
	device, key := first.pair("phone")
	first.kill()
	for round := range rounds {
		s := serve(t, dir, plenty...)
		s.verify(known.some(200), key)
		stop := s.load(known, device, key, fmt.Sprintf("round-%d", round))
		time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond)
		s.kill()
		stop()
	}
	last := serve(t, dir, plenty...)
	all := known.some(1 << 20)
	if len(all) < rounds {
		t.Fatalf("only %d notifications were acknowledged in %d rounds", len(all), rounds)
	}
	t.Logf("%d notifications acknowledged", len(all))
	last.verify(all, key)
	last.noneTwice(all, device, key)
	last.stop(10 * time.Second)
}

// load has agents and a device at work until the process dies, or until stop is called, which waits for their end.
func (s *server) load(known *book, device, key, prefix string) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var workers sync.WaitGroup
	for worker := range 6 {
		workers.Go(func() { s.send(ctx, known, key, fmt.Sprintf("%s-%d", prefix, worker)) })
	}
	workers.Go(func() { s.answer(ctx, known, device) })
	return func() {
		cancel()
		workers.Wait()
	}
}

// send sends notifications until the relay dies, and books what was acknowledged.
func (s *server) send(ctx context.Context, known *book, key, prefix string) {
	for n := 0; ; n++ {
		id := fmt.Sprintf("%s-%d", prefix, n)
		status, _, err := s.call(ctx, "POST", "/v1/notify", key, map[string]any{"title": "t", "notificationId": id, "expectReply": true})
		if err != nil {
			return
		}
		if status != http.StatusAccepted {
			s.t.Errorf("notify %s answered %d", id, status)
			return
		}
		known.add(&fact{id: id})
	}
}

// answer plays the device: it reports over HTTP, where an answer says that the report is durable.
func (s *server) answer(ctx context.Context, known *book, device string) {
	conn, _, err := websocket.Dial(ctx, s.URL+"/v1/device/stream", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + device}},
	})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return
		}
		var frame struct{ Type, ID, NotificationID string }
		if json.Unmarshal(data, &frame) != nil || frame.Type != "notify" {
			continue
		}
		if !s.report(ctx, known, device, frame.ID, frame.NotificationID) {
			return
		}
	}
}

func (s *server) report(ctx context.Context, known *book, device, relayID, id string) bool {
	status, _, err := s.call(ctx, "POST", "/v1/device/receipt", device, map[string]any{"id": relayID, "kind": "displayed"})
	if err != nil || status != http.StatusOK {
		return false
	}
	f := &fact{id: id, relayID: relayID, displayed: true}
	known.add(f)
	text := "answer to " + id
	status, _, err = s.call(ctx, "POST", "/v1/device/reply", device, map[string]any{"id": relayID, "text": text})
	if err != nil || status != http.StatusOK {
		return false
	}
	known.set(func() { f.reply = text })
	return true
}

// verify holds the relay to what it acknowledged.
func (s *server) verify(facts []fact, key string) {
	s.t.Helper()
	for _, f := range facts {
		status, got, err := s.call(s.t.Context(), "GET", "/v1/receipts/"+f.id, key, nil)
		for err == nil && status == http.StatusTooManyRequests { // 600 reads in ten minutes: a restart forgives
			s.kill()
			again := serve(s.t, s.dir, s.env...)
			s.cmd, s.URL, s.done = again.cmd, again.URL, again.done
			status, got, err = s.call(s.t.Context(), "GET", "/v1/receipts/"+f.id, key, nil)
		}
		switch {
		case err != nil || status != http.StatusOK:
			s.t.Errorf("acknowledged notification %s is gone: %d %v %v", f.id, status, got, err)
		case f.displayed && got["displayed"] != true:
			s.t.Errorf("acknowledged receipt of %s is gone: %v", f.id, got)
		case f.reply != "" && got["reply"] != f.reply:
			s.t.Errorf("acknowledged reply to %s is gone: %v", f.id, got)
		}
	}
}

// noneTwice checks that no acknowledged notification exists more than once: what still waits is sent once each, and
// sending any of them again meets the first.
func (s *server) noneTwice(facts []fact, device, key string) {
	s.t.Helper()
	ids := map[string]string{} // relay's id by the agent's
	for _, f := range facts {
		if f.relayID == "" {
			continue
		}
		if other, ok := ids[f.id]; ok && other != f.relayID {
			s.t.Errorf("notification %s exists twice: %s and %s", f.id, other, f.relayID)
		}
		ids[f.id] = f.relayID
	}
	for _, f := range facts[:min(300, len(facts))] {
		status, got, err := s.call(s.t.Context(), "POST", "/v1/notify", key, map[string]any{"title": "t", "notificationId": f.id})
		if err != nil || status != http.StatusOK || got["duplicate"] != true {
			s.t.Errorf("sending %s again answered %d %v %v, want the first", f.id, status, got, err)
		}
	}
	seen := map[string]bool{}
	for _, id := range s.waiting(device) {
		if seen[id] {
			s.t.Errorf("notification %s waits twice", id)
		}
		seen[id] = true
	}
}

// waiting returns the ids of what the stream resends, in order.
func (s *server) waiting(device string) (ids []string) {
	s.t.Helper()
	pending := int(s.must("GET", "/v1/device/info", device, nil)["pending"].(float64))
	conn, _, err := websocket.Dial(s.t.Context(), s.URL+"/v1/device/stream", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + device}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.CloseNow()
	for len(ids) < pending {
		ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
		_, data, err := conn.Read(ctx)
		cancel()
		if err != nil {
			s.t.Fatalf("after %d of %d waiting notifications: %v", len(ids), pending, err)
		}
		var frame struct{ Type, NotificationID string }
		if err := json.Unmarshal(data, &frame); err != nil {
			s.t.Fatal(err)
		}
		if frame.Type == "notify" {
			ids = append(ids, frame.NotificationID)
		}
	}
	return ids
}
