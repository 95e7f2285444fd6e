package app_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/herald-relay/herald/internal/testkit"
)

func TestAnAgentAsksAndAPersonAnswers(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("build-bot")
	stream := d.Stream()

	id := agent.Send(map[string]any{"title": "Ship it?", "expectReply": true})
	frame := stream.Next()
	if frame.Text("type") != "notify" || frame.Text("notificationId") != id {
		t.Fatalf("frame = %v, want notify of %s", frame, id)
	}
	answered := make(chan testkit.Answer, 1)
	go func() {
		a, err := r.Try(t.Context(), "GET", "/v1/replies/"+id+"?wait=30", agent.Token, nil)
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	stream.Send(testkit.Frame{"type": "receipt", "id": frame["id"], "kind": "displayed"})
	stream.Send(testkit.Frame{"type": "receipt", "id": frame["id"], "kind": "replied", "text": " Ship it. "})

	reply := <-answered
	if reply.Status != http.StatusOK || reply.Body["replied"] != true || reply.Text("reply") != "Ship it." {
		t.Errorf("reply = %d %s", reply.Status, reply.Raw)
	}
	receipt := agent.Call("GET", "/v1/receipts/"+id, nil)
	for _, fact := range []string{"received", "displayed", "replied", "expectReply"} {
		if receipt.Body[fact] != true {
			t.Errorf("receipt.%s = %v, want true: %s", fact, receipt.Body[fact], receipt.Raw)
		}
	}
	if receipt.Body["queued"] != false || receipt.Body["spoken"] != false {
		t.Errorf("receipt = %s, want neither queued nor spoken", receipt.Raw)
	}
}

func TestANewerStreamReplacesTheOlderAndCatchesUp(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	first := d.Stream()
	id := agent.Send(map[string]any{"title": "one"})
	first.Next()

	second := d.Stream()
	if code := first.Closed(); code != websocket.StatusCode(4000) {
		t.Errorf("older stream closed with %d, want 4000", code)
	}
	if f := second.Next(); f.Text("notificationId") != id {
		t.Errorf("newer stream got %v, want the unacknowledged %s", f, id)
	}
}

func TestAnExpiryWakesALongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		agent := r.Pair("laptop").Agent("bot")
		id := agent.Send(map[string]any{"title": "anyone?", "expectReply": true})
		time.Sleep(24*time.Hour - 30*time.Second)

		start := time.Now()
		reply := agent.Call("GET", "/v1/replies/"+id+"?wait=60", nil)
		if reply.Body["suppressed"] != true || reply.Text("reason") != "expired" {
			t.Errorf("reply = %s, want suppressed by expiry", reply.Raw)
		}
		if waited := time.Since(start); waited < 25*time.Second || waited > 55*time.Second {
			t.Errorf("woken after %s, want soon after the 24 hours were over", waited)
		}
	})
}

func TestALongWaitIsDetachedAndStillAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		stream := d.Stream()
		id := agent.Send(map[string]any{"title": "Ship it?", "expectReply": true})
		frame := stream.Next()
		answered := make(chan struct{})
		time.AfterFunc(30*time.Second, func() {
			defer close(answered)
			d.Call("POST", "/v1/device/reply", map[string]any{"id": frame["id"], "text": "yes"})
		})
		reply := agent.Call("GET", "/v1/replies/"+id+"?wait=60", nil, "Origin", "https://agent.example")
		<-answered
		if reply.Status != http.StatusOK || reply.Text("reply") != "yes" {
			t.Errorf("reply = %d %s", reply.Status, reply.Raw)
		}
		if reply.Header.Get("Access-Control-Allow-Origin") != "*" || reply.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("the detached answer lacks headers: %v", reply.Header)
		}
		used := d.Call("GET", "/v1/device/usage", nil)
		if seconds := used.Body["pollSeconds"]; seconds != 30.0 {
			t.Errorf("pollSeconds = %v, want the 30 that were waited", seconds)
		}
		if again := agent.Call("GET", "/v1/receipts/"+id, nil); again.Status != http.StatusOK {
			t.Errorf("the next request answered %d", again.Status)
		}
	})
}

func TestAKeyRevokedDuringAWaitEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		id := agent.Send(map[string]any{"title": "Ship it?", "expectReply": true})
		revoked := make(chan struct{})
		time.AfterFunc(10*time.Second, func() {
			defer close(revoked)
			d.Call("DELETE", "/v1/device/keys/"+agent.ID, nil)
		})
		start := time.Now()
		if reply := agent.Call("GET", "/v1/replies/"+id+"?wait=60", nil); reply.Status != http.StatusUnauthorized {
			t.Errorf("reply = %d %s, want 401", reply.Status, reply.Raw)
		}
		if waited := time.Since(start); waited > 11*time.Second {
			t.Errorf("the wait outlived the key by %s", waited-10*time.Second)
		}
		<-revoked
	})
}
