package app_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/storetest"
	"github.com/herald-relay/herald/internal/testkit"
)

// insist repeats a request as long as the relay cannot take it now.
func insist(t *testing.T, do func() testkit.Answer) testkit.Answer {
	t.Helper()
	for range 5 {
		if a := do(); a.Status < 500 {
			return a
		}
	}
	t.Error("five tries, and the relay still cannot")
	return do()
}

// onFaulty runs a flow once to count its writes between arm and disarm, and then once for each of them and each way in
// which it can fail.
func onFaulty(t *testing.T, flow func(t *testing.T, r *testkit.Relay, arm func() (disarm func()))) {
	t.Helper()
	testkit.OnSQLite(t)
	run := func(t *testing.T, nth int, how storetest.Failure) (writes int) {
		synctest.Test(t, func(t *testing.T) {
			var faulty *storetest.Faulty
			r := testkit.New(t, testkit.Options{Pipes: true, Wrap: wrapFaulty(&faulty)})
			flow(t, r, func() func() {
				faulty.FailNth(nth, how)
				return func() {
					writes = faulty.Updates()
					faulty.FailNth(0, how)
				}
			})
		})
		return writes
	}
	writes := run(t, 0, storetest.NotPersisted)
	if writes == 0 {
		t.Fatal("the flow writes nothing")
	}
	for name, how := range map[string]storetest.Failure{"not persisted": storetest.NotPersisted, "persisted, answer lost": storetest.Persisted} {
		for nth := 1; nth <= writes; nth++ {
			t.Run(fmt.Sprintf("write %d of %d, %s", nth, writes, name), func(t *testing.T) {
				t.Parallel()
				run(t, nth, how)
			})
		}
	}
}

// TestTheLoopSurvivesEveryFailedWrite sends, shows, answers and reads while each write in turn fails, with and without
// having happened. Whoever was refused tries again, as agents and devices do. Nothing that was acknowledged is
// lost, and nothing is there twice.
func TestTheLoopSurvivesEveryFailedWrite(t *testing.T) {
	t.Parallel()
	for _, way := range receiptWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			onFaulty(t, func(t *testing.T, r *testkit.Relay, arm func() func()) {
				d := r.Pair("laptop")
				agent := d.Agent("bot")
				s := d.Stream()
				disarm := arm()
				send := func() testkit.Answer {
					return agent.Call("POST", "/v1/notify", map[string]any{"title": "Ship it?", "notificationId": "build-1"})
				}
				if a := insist(t, send); a.Status != 202 && (a.Status != 200 || a.Body["duplicate"] != true) {
					t.Fatalf("notify: %d %s", a.Status, a.Raw)
				}
				f := s.Next()
				if f.Text("notificationId") != "build-1" {
					t.Fatalf("frame = %v", f)
				}
				for _, report := range []string{`{"kind":"displayed"}`, `{"kind":"replied","text":"first"}`, `{"kind":"replied","text":"second"}`} {
					report := withID(t, report, f.Text("id"))
					if way.name == "http" {
						insist(t, func() testkit.Answer { return d.Call("POST", "/v1/device/receipt", report) })
					} else {
						way.say(t, d, s, report)
					}
				}
				devSettle(s) // no second frame of the notification
				disarm()
				want := wantFacts(t, `"displayed":true,"replied":true,"reply":"first","text":"first","expectReply":false`)
				if diff := cmp.Diff(want, factsOf(devReceipt(agent, "build-1").Body)); diff != "" {
					t.Errorf("receipt (-want +got):\n%s", diff)
				}
				if a := send(); a.Status != 200 || a.Body["duplicate"] != true {
					t.Errorf("sent again: %d %s, want the first one", a.Status, a.Raw)
				}
				if got := devUsage(d, "notifications"); got != 1 {
					t.Errorf("%d notifications are counted", got)
				}
				devSettle(d.Stream())
			})
		})
	}
}

func TestAVoiceReplySurvivesEveryFailedWrite(t *testing.T) {
	t.Parallel()
	onFaulty(t, func(t *testing.T, r *testkit.Relay, arm func() func()) {
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		agentID, id := devQueued(d, agent)
		disarm := arm()
		a := upload(d, id, "audio/mp4", mp4Bytes) // and whatever became of it, the device goes on
		insist(t, func() testkit.Answer {
			return d.Call("POST", "/v1/device/reply", map[string]any{"id": id, "transcript": "ship it"})
		})
		disarm()
		receipt := devReceipt(agent, agentID)
		if receipt.Text("transcript") != "ship it" {
			t.Errorf("receipt = %s", receipt.Raw)
		}
		link := receipt.Text("audioUrl")
		if a.Status == 200 && link == "" {
			t.Error("an acknowledged clip is lost")
		}
		if link != "" {
			if got := d.Do("GET", strings.TrimPrefix(link, r.URL), "", nil); got.Status != 200 || !bytes.Equal(got.Raw, mp4Bytes) {
				t.Errorf("the receipt promises a clip, and its link answers %d %s", got.Status, got.Raw)
			}
		}
	})
}

// Of two devices both learn of the notification, whatever fails.
func TestAllDevicesHearOfANotificationWhateverFails(t *testing.T) {
	t.Parallel()
	onFaulty(t, func(t *testing.T, r *testkit.Relay, arm func() func()) {
		m := newShared(r)
		streams := []*testkit.Stream{m.owner.Stream(), m.phone.Stream()}
		disarm := arm()
		insist(t, func() testkit.Answer {
			return m.agent.Call("POST", "/v1/notify", map[string]any{"title": "x", "notificationId": "one"})
		})
		for _, s := range streams {
			if f := s.Next(); f.Text("notificationId") != "one" {
				t.Errorf("frame = %v", f)
			}
			devSettle(s)
		}
		disarm()
	})
}

// A stream's opening and closing writes too. A device that is refused comes again and is brought everything.
func TestStreamsOpenAndCloseWhateverFails(t *testing.T) {
	t.Parallel()
	onFaulty(t, func(t *testing.T, r *testkit.Relay, arm func() func()) {
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		agentID := agent.Send(map[string]any{"title": "x"})
		disarm := arm()
		var s *testkit.Stream
		for try := 1; s == nil; try++ {
			var err error
			if s, err = d.Dial(); err != nil && try == 5 {
				t.Fatal(err)
			}
		}
		if f := s.Next(); f.Text("type") != "welcome" {
			t.Errorf("frame = %v", f)
		}
		f := s.Next()
		if f.Text("notificationId") != agentID {
			t.Errorf("frame = %v", f)
		}
		s.Send(testkit.Frame{"type": "hello"})
		s.Send(testkit.Frame{"type": "ack", "id": f["id"]})
		devSettle(s)
		s.Conn.CloseNow()
		synctest.Wait()
		disarm()
		next := d.Stream()
		devSettle(next)
		if got := d.Call("GET", "/v1/device/info", nil).Body["online"]; got != true {
			t.Errorf("online = %v", got)
		}
	})
}

// A pairing whose answer was lost is made good by pairing again under the same name.
func TestPairingSurvivesEveryFailedWrite(t *testing.T) {
	t.Parallel()
	onFaulty(t, func(t *testing.T, r *testkit.Relay, arm func() func()) {
		disarm := arm()
		var paired testkit.Answer
		for try := 0; paired.Status != 200 && try < 3; try++ {
			code := insist(t, func() testkit.Answer {
				return r.Do("POST", "/v1/pair/start", "", map[string]any{"deviceName": "laptop"})
			}).Text("code")
			paired = insist(t, func() testkit.Answer { return r.Do("POST", "/v1/pair", "", map[string]any{"code": code}) })
		}
		disarm()
		d := &testkit.Device{Relay: r, Mailbox: paired.Text("deviceId"), Token: paired.Text("deviceToken")}
		if diff := cmp.Diff([]string{"laptop -"}, reasons(d)); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
		devSettle(d.Stream())
	})
}

// A stream whose reports cannot be kept at all ends with "try again later" instead of swallowing them.
func TestAReportThatCannotBeStoredEndsTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &broken{}
		r := testkit.New(t, testkit.Options{Pipes: true, Wrap: b.wrap})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		s := d.Stream()
		agentID, id := devNotified(agent, s)
		b.down.Store(true)
		code := closing(s)
		s.Send(testkit.Frame{"type": "receipt", "id": id, "kind": "replied", "text": "yes"})
		if got := <-code; got != 1013 {
			t.Errorf("close code = %d, want 1013", got)
		}
		a := d.Call("POST", "/v1/device/reply", map[string]any{"id": id, "text": "yes"})
		devRefused(t, a, 503, "unavailable")
		b.down.Store(false)
		next := d.Stream()
		if f := next.Next(); f.Text("id") != id {
			t.Errorf("frame = %v, want what is not reported yet", f)
		}
		next.Send(testkit.Frame{"type": "receipt", "id": id, "kind": "replied", "text": "yes"})
		devSettle(next)
		if got := devReceipt(agent, agentID); got.Text("reply") != "yes" {
			t.Errorf("receipt = %s", got.Raw)
		}
	})
}
