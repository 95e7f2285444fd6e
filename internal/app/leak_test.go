package app_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/testkit"
)

// TestMain fails when a relay that was stopped leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Reuse(m)) }

// TestASleepingDeviceDoesNotHoldUpAStop stops a relay while a device neither reads nor says goodbye, as a laptop with its lid
// closed does. That used to take the whole grace period and end in an error, with the counters of the last minute lost.
func TestASleepingDeviceDoesNotHoldUpAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Dir: t.TempDir()})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		d.Stream()
		agent.Send(map[string]any{"title": "nobody reads this"})
		used := devUsage(d, "requests")
		synctest.Wait()
		begin := time.Now()
		r.Stop()
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("stopping took %s", took)
		}
		d.Relay = testkit.New(t, testkit.Options{Pipes: true, Dir: r.Dir})
		if again := devUsage(d, "requests"); again < used {
			t.Errorf("%d requests are counted after the stop, %d before", again, used)
		}
	})
}

func TestASleepingDevicesOldStreamIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		asleep := d.Stream()
		agent.Send(map[string]any{"title": "stuck in the first stream"})
		synctest.Wait()
		begin := time.Now()
		awake := d.Stream()
		if f := awake.Next(); f.Text("type") != "notify" {
			t.Errorf("frame = %v, want what the first stream never took", f)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the newer stream waited %s for the older", took)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if code := asleep.Closed(); code != -1 {
			t.Errorf("the older stream ended with %d, want it cut", code)
		}
		awake.Conn.Close(websocket.StatusNormalClosure, "")
	})
}
