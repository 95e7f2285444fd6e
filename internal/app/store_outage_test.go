package app_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/storetest"
	"github.com/herald-relay/herald/internal/testkit"
)

// fickle is a store that can be away.
type fickle struct {
	store.Store
	away atomic.Bool
}

func (f *fickle) View(ctx context.Context, fn func(store.Tx) error) error {
	if f.away.Load() {
		return storetest.ErrInjected
	}
	return f.Store.View(ctx, fn)
}

func (f *fickle) Update(ctx context.Context, fn func(store.Tx) error) error {
	if f.away.Load() {
		return storetest.ErrInjected
	}
	return f.Store.Update(ctx, fn)
}

// fickleRelay runs a relay whose store can be away.
func fickleRelay(t *testing.T) (*testkit.Relay, *fickle) {
	f := &fickle{}
	return testkit.New(t, testkit.Options{Pipes: true, Wrap: func(s store.Store) store.Store {
		f.Store = s
		return f
	}}), f
}

// TestAStreamOutlivesAnOutageOfTheStore has a stream look into a store that is away. The stream used to be closed, and every
// device came back at once to ask the same store.
func TestAStreamOutlivesAnOutageOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := fickleRelay(t)
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		stream := d.Stream()
		f.away.Store(true)
		stream.Send(testkit.Frame{"type": "hello", "quietActive": true})
		if a := agent.Call("POST", "/v1/notify", map[string]any{"title": "t"}); a.Status != http.StatusServiceUnavailable || a.Code() != "unavailable" {
			t.Errorf("notify without a store: %d %s", a.Status, a.Raw)
		}
		if a := r.Do("GET", "/health", "", nil); a.Status != http.StatusOK {
			t.Errorf("health without a store: %d", a.Status)
		}
		time.Sleep(3 * time.Second)
		f.away.Store(false)
		time.Sleep(5 * time.Second)
		if a := agent.Call("GET", "/v1/status", nil); a.Body["online"] != true || a.Body["quietHours"].(map[string]any)["active"] != true {
			t.Errorf("status = %s, want what the device said during the outage", a.Raw)
		}
		id := agent.Send(map[string]any{"title": "after"})
		if got := stream.Next(); got.Text("notificationId") != id {
			t.Errorf("frame = %v, want %s", got, id)
		}
	})
}

// TestANotificationAcceptedJustBeforeAnOutageArrivesAfterIt loses the store between the acceptance and the look of the
// stream that is told of it.
func TestANotificationAcceptedJustBeforeAnOutageArrivesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &leaving{}
		r := testkit.New(t, testkit.Options{Pipes: true, Wrap: func(s store.Store) store.Store {
			f.Store = s
			return f
		}})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		stream := d.Stream()
		agent.Call("GET", "/v1/status", nil) // the key's first use is noted now
		f.leave.Store(true)
		id := agent.Send(map[string]any{"title": "t"})
		time.Sleep(time.Minute)
		f.away.Store(false)
		begin := time.Now()
		if got := stream.Next(); got.Text("notificationId") != id || time.Since(begin) > 4*time.Second {
			t.Errorf("after %s frame = %v, want %s soon", time.Since(begin), got, id)
		}
	})
}

// leaving is away from the next Update's commit on.
type leaving struct {
	fickle
	leave atomic.Bool
}

func (l *leaving) Update(ctx context.Context, fn func(store.Tx) error) error {
	err := l.fickle.Update(ctx, fn)
	if l.leave.CompareAndSwap(true, false) {
		l.away.Store(true)
	}
	return err
}

// TestAWaitDuringAnOutageIsRefusedAndCanBeRepeated parks a long-poll, and takes the store away when it is to look again.
func TestAWaitDuringAnOutageIsRefusedAndCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := fickleRelay(t)
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		stream := d.Stream()
		id := agent.Send(map[string]any{"title": "t", "expectReply": true})
		frame := stream.Next()
		time.AfterFunc(59*time.Second, func() { f.away.Store(true) })
		if a := agent.Call("GET", "/v1/replies/"+id+"?wait=60", nil); a.Status != http.StatusServiceUnavailable {
			t.Errorf("a wait whose end finds no store: %d %s", a.Status, a.Raw)
		}
		f.away.Store(false)
		stream.Send(testkit.Frame{"type": "receipt", "kind": "replied", "id": frame["id"], "text": "yes"})
		if a := agent.Call("GET", "/v1/replies/"+id+"?wait=60", nil); a.Text("reply") != "yes" {
			t.Errorf("the repeated wait: %d %s", a.Status, a.Raw)
		}
	})
}

// TestStoppingDuringAnOutageIsQuick stops a relay whose store is away while a device's report is being retried.
func TestStoppingDuringAnOutageIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := fickleRelay(t)
		stream := r.Pair("laptop").Stream()
		f.away.Store(true)
		stream.Send(testkit.Frame{"type": "status", "muted": true})
		time.Sleep(time.Second)
		begin := time.Now()
		r.Stop()
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
}
