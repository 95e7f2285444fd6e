package mcpevents_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/eventstest"
)

func TestAnEventArrivesSignedAndExact(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver()
		sub := w.subscribe()
		w.emit("evt_789")
		after(time.Second)
		got := r.Deliveries()
		if len(got) != 1 {
			t.Fatalf("%d deliveries, want 1", len(got))
		}
		d := got[0]
		if d.ID != "evt_789" || d.Event != d.ID || d.Subscription != sub["id"] || !slices.Equal(d.Secrets, []int{0}) {
			t.Errorf("webhook-id %q, event %q, subscription %q, secrets %v", d.ID, d.Event, d.Subscription, d.Secrets)
		}
		if c := w.subscribe()["cursor"]; d.Cursor != c {
			t.Errorf("body cursor %q, want the watermark %v", d.Cursor, c)
		}
	})
}

func TestPayloadBytesAreKept(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver()
		w.subscribe()
		payload := `{"id":"x", "b":1,"a": 1.0, "html":"<&>", "u":"Zoë ☃ 🚀"}`
		w.emit("e1", func(e *mcpevents.Emission) { e.Data = rawMessage(payload) })
		after(time.Second)
		if body := string(r.Deliveries()[0].Body); !strings.Contains(body, `"data":`+payload+`,"cursor":`) {
			t.Errorf("body %s does not hold the payload's bytes %s", body, payload)
		}
	})
}

func TestRetriesKeepTheIDAndSignAnew(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver().Script(eventstest.Statuses(500, 503, 200)...)
		w.subscribe()
		w.emit("e1")
		after(10 * time.Minute)
		ds := r.Deliveries()
		if len(ds) != 3 {
			t.Fatalf("%d posts, want 3", len(ds))
		}
		ids, stamps, signatures, bodies := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, d := range ds {
			ids[d.ID], stamps[d.Timestamp], signatures[d.Signature], bodies[string(d.Body)] = true, true, true, true
			if len(d.Secrets) != 1 {
				t.Errorf("attempt at %s verifies with secrets %v", d.Timestamp, d.Secrets)
			}
		}
		if len(ids) != 1 || len(stamps) != 3 || len(signatures) != 3 || len(bodies) != 1 {
			t.Errorf("%d ids, %d timestamps, %d signatures, %d bodies; want 1, 3, 3, 1", len(ids), len(stamps), len(signatures), len(bodies))
		}
	})
}

// TestOutcomes walks the table of contract b.8 under the three policies: how many posts the first event gets, whether the
// second event arrives, and whether the subscription lives.
// Public cases 46 and 47 are among the rows.
func TestOutcomes(t *testing.T) {
	policies := map[string]mcpevents.Policy{"sep": mcpevents.SEP(), "relay": mcpevents.Relay(), "ledger": mcpevents.Ledger()}
	for _, c := range []struct {
		policy string
		status int
		posts  int
		second bool
		lives  bool
	}{
		{"sep", 200, 1, true, true}, {"sep", 204, 1, true, true}, {"sep", 299, 1, true, true},
		{"sep", 410, 1, true, true}, {"sep", 413, 1, true, true},
		{"sep", 425, 2, true, true}, {"sep", 503, 2, true, true}, {"sep", 404, 2, true, true}, {"sep", 429, 2, true, true},
		{"sep", 301, 2, true, true}, {"sep", 500, 2, true, true},
		{"relay", 410, 1, false, false}, {"relay", 413, 1, true, true}, {"relay", 404, 1, true, true},
		{"relay", 408, 2, true, true}, {"relay", 429, 2, true, true}, {"relay", 302, 2, true, true}, {"relay", 500, 2, true, true},
		{"ledger", 410, 1, false, false}, {"ledger", 413, 1, true, true}, {"ledger", 404, 2, true, true}, {"ledger", 302, 2, true, true},
	} {
		t.Run(fmt.Sprint(c.policy, " ", c.status), func(t *testing.T) {
			bubble(t, policies[c.policy], func(w *world) {
				r := w.receiver().Script(eventstest.Status(c.status))
				id := w.subscribe()["id"].(string)
				first := w.emit("e1")
				after(2 * time.Minute)
				w.emit("e2")
				after(5 * time.Minute)
				counts := countEvents(r)
				name := func(e mcpevents.Emitted, upstream string) string {
					if c.policy == "relay" {
						return fmt.Sprintf("evt_%d_%s", e.Event.Sequence, strings.TrimPrefix(id, "sub_"))
					}
					return upstream
				}
				if got := counts[name(first, "e1")]; got != c.posts {
					t.Errorf("first event posted %d times, want %d (%v)", got, c.posts, counts)
				}
				if got := len(counts) == 2; got != c.second {
					t.Errorf("second event arrived: %t, want %t (%v)", got, c.second, counts)
				}
				sub, err := w.srv.Subscription(w.Context(), id)
				if err != nil || (sub.State == driver.Active) != c.lives {
					t.Errorf("subscription is %s (%s), %v; want alive %t", sub.State, sub.Reason, err, c.lives)
				}
				if r := w.net.Calls("internal.example.com"); r != 0 {
					t.Errorf("a redirect was followed")
				}
			})
		})
	}
}

func countEvents(r *eventstest.Receiver) map[string]int {
	counts := map[string]int{}
	for _, d := range r.Deliveries() {
		counts[d.Event]++
	}
	return counts
}

func TestStrictOrderWaitsForTheOldest(t *testing.T) {
	bubble(t, mcpevents.Relay(), func(w *world) {
		r := w.receiver().Script(eventstest.Statuses(500, 500, 200)...)
		w.subscribe()
		for i := range 5 {
			w.emit(fmt.Sprint("e", i))
		}
		after(30 * time.Second)
		if n := len(r.Events()); n != 1 {
			t.Errorf("%d different events before the first was delivered, want 1", n)
		}
		after(10 * time.Minute)
		var cursors []string
		for _, d := range r.Deliveries()[2:] {
			cursors = append(cursors, d.Cursor)
		}
		if diff := cmp.Diff([]string{"1", "2", "3", "4", "5"}, cursors); diff != "" {
			t.Errorf("cursors in order of delivery (-want +got):\n%s", diff)
		}
	})
}

func TestFreeOrderPassesAFailingEvent(t *testing.T) {
	bubble(t, mcpevents.Ledger(), func(w *world) {
		r := w.receiver().Script(eventstest.Status(500))
		w.subscribe()
		w.emit("e1")
		after(time.Second)
		w.emit("e2")
		after(time.Second)
		if diff := cmp.Diff(map[string]int{"e1": 1, "e2": 1}, countEvents(r)); diff != "" {
			t.Errorf("posts (-want +got):\n%s", diff)
		}
	})
}

// TestRelaySchedule pins the waits that the relay's page publishes: eight attempts, from a minute doubling to an hour.
func TestRelaySchedule(t *testing.T) {
	bubble(t, mcpevents.Relay(), func(w *world) {
		r := w.receiver().Always(eventstest.Status(500))
		w.subscribe()
		w.emit("e1")
		after(25 * time.Hour)
		if diff := cmp.Diff([]int{1, 2, 4, 8, 16, 32, 60}, minutesBetween(r)); diff != "" {
			t.Errorf("minutes between attempts (-want +got):\n%s", diff)
		}
	})
}

func minutesBetween(r *eventstest.Receiver) []int {
	var waits []int
	ds := r.Deliveries()
	for i := 1; i < len(ds); i++ {
		waits = append(waits, int(ds[i].At.Sub(ds[i-1].At).Round(time.Minute)/time.Minute))
	}
	return waits
}

func TestLedgerScheduleSpansSeventyFiveHours(t *testing.T) {
	seldom := func(_ *mcpevents.Family, o *mcpevents.Options) { o.Engine.PollEvery = time.Minute }
	bubbleWith(t, mcpevents.Ledger(), seldom, func(w *world) {
		r := w.receiver().Always(eventstest.Status(500))
		w.subscribe(`"ttlMs":2592000000`)
		w.emit("e1")
		after(5 * 24 * time.Hour)
		ds := r.Deliveries()
		if len(ds) != 10 {
			t.Fatalf("%d attempts, want 10", len(ds))
		}
		if span := ds[9].At.Sub(ds[0].At); span < 68*time.Hour || span > 84*time.Hour {
			t.Errorf("attempts span %v, want 75 h 35 min give or take a tenth", span)
		}
	})
}

func TestRetryAfterWinsWhenLonger(t *testing.T) {
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		name  string
		value func() string
		wait  time.Duration
	}{
		{"seconds", func() string { return "600" }, 10 * time.Minute},
		{"a date", func() string { return date(10 * time.Minute) }, 10 * time.Minute},
		{"shorter than the schedule", func() string { return "7" }, time.Minute},
		{"a date that is past", func() string { return date(-time.Hour) }, time.Minute},
		{"a fraction", func() string { return "900.5" }, time.Minute},
		{"negative", func() string { return "-900" }, time.Minute},
		{"an impossible date", func() string { return "Mon, 31 Feb 2027 00:00:00 GMT" }, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, mcpevents.Relay(), func(w *world) {
				r := w.receiver().Script(eventstest.Step{Status: 429, Header: map[string]string{"Retry-After": c.value()}})
				w.subscribe()
				w.emit("e1")
				after(20 * time.Minute)
				ds := r.Deliveries()
				if len(ds) != 2 {
					t.Fatalf("%d attempts, want 2", len(ds))
				}
				if got := ds[1].At.Sub(ds[0].At); got.Round(time.Second) != c.wait {
					t.Errorf("waited %v, want %v", got, c.wait)
				}
			})
		})
	}
}

func TestRetryAfterPastTheDeadlineDropsAtOnce(t *testing.T) {
	bubble(t, mcpevents.Relay(), func(w *world) {
		r := w.receiver().Script(eventstest.Step{Status: 503, Header: map[string]string{"Retry-After": "86500"}})
		id := w.subscribe()["id"].(string)
		w.emit("e1")
		w.emit("e2")
		after(time.Minute)
		if n := len(r.Events()); n != 2 {
			t.Errorf("%d events arrived within a minute, want both: the first cannot be tried again in its 24 h", n)
		}
		log, err := w.srv.Deliveries(w.Context(), id, 0, 10)
		if err != nil || len(log) != 2 || log[1].Reason != mcpevents.ReasonDeadline {
			t.Errorf("log %+v, %v; want the first dropped for its deadline", log, err)
		}
	})
}

func TestTimeoutIsTenSecondsAndDoesNotHoldOthersUp(t *testing.T) {
	bubble(t, mcpevents.Ledger(), func(w *world) {
		slow := eventstest.NewReceiver(secret1).Always(eventstest.Hang())
		w.net.Handle("slow.example.com", slow)
		quick := w.receiver()
		w.subscribe()
		w.must(w.call(mcpevents.DialectSketch, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":"https://slow.example.com/","secret":%q}}`, secret1))
		start := time.Now()
		w.emit("e1")
		after(time.Second)
		if n := len(quick.Deliveries()); n != 1 {
			t.Errorf("%d deliveries to the quick host, want 1", n)
		}
		after(20 * time.Second)
		ds := slow.Deliveries()
		if len(ds) != 2 || ds[1].At.Sub(start) < 14*time.Second || ds[1].At.Sub(start) > 17*time.Second {
			t.Errorf("attempts at the slow host: %d, want the second 10 s and about 5 s after the first", len(ds))
		}
	})
}

func TestTwentyFiveThousandWaitingForADeadHostCostOthersNothing(t *testing.T) {
	bubble(t, mcpevents.Ledger(), func(w *world) {
		dead := eventstest.NewReceiver(secret1)
		w.net.Handle("dead.example.com", dead)
		w.must(w.call(mcpevents.DialectSketch, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":"https://dead.example.com/","secret":%q}}`, secret1))
		dead.Always(eventstest.Hang())
		for i := range 25_000 {
			w.emit(fmt.Sprint("old", i))
		}
		r := w.receiver()
		w.subscribe()
		for i := range 100 {
			w.emit(fmt.Sprint("new", i))
		}
		after(2 * time.Second)
		if n := len(r.Deliveries()); n != 100 {
			t.Errorf("%d deliveries to the living host within 2 s, want 100", n)
		}
	})
}

func TestUnsubscribingBetweenAttemptsEndsThem(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver().Always(eventstest.Status(500))
		w.subscribe()
		w.emit("e1")
		after(time.Second)
		w.must(w.call(mcpevents.DialectSketch, "events/unsubscribe", `{"name":"ticket.opened","delivery":{"url":%q}}`, hookURL))
		r.Always(eventstest.Status(200))
		w.subscribe()
		after(time.Hour)
		if n := len(r.Deliveries()); n != 1 {
			t.Errorf("%d posts, want the one before unsubscribing: what was pending is not revived", n)
		}
		w.emit("e2")
		after(time.Second)
		if diff := cmp.Diff([]string{"e1", "e2"}, r.Events()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestExpiryEndsPendingDeliveries(t *testing.T) {
	bubble(t, mcpevents.Ledger(), func(w *world) {
		r := w.receiver().Always(eventstest.Status(500))
		id := w.subscribe(`"ttlMs":3600000`)["id"].(string)
		after(50 * time.Minute)
		w.emit("e1")
		after(24 * time.Hour)
		if n := len(r.Deliveries()); n != 3 { // at once, after 5 s, after 5 min; the next one would be after the end
			t.Errorf("%d posts, want 3", n)
		}
		if sub, err := w.srv.Subscription(w.Context(), id); err != nil || sub.State != driver.Ended || sub.Reason != mcpevents.ReasonLapsed {
			t.Errorf("subscription %s (%s), %v", sub.State, sub.Reason, err)
		}
	})
}

func TestRotationSignsTwiceForItsTime(t *testing.T) {
	bubble(t, mcpevents.Ledger(), func(w *world) {
		r := w.receiver()
		w.subscribe()
		rotate := func(secret string) {
			w.must(w.call(mcpevents.DialectSketch, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":%q,"secret":%q}}`, hookURL, secret))
		}
		after(10 * time.Hour)
		rotate(secret2)
		w.emit("e1")
		after(time.Hour)
		rotate(secret3)
		w.emit("e2")
		after(23*time.Hour + time.Minute)
		w.emit("e3") // the first secret's day is over, the second's is not
		after(2 * time.Hour)
		w.emit("e4")
		after(time.Second)
		var got [][]int
		for _, d := range r.Deliveries() {
			got = append(got, d.Secrets)
		}
		if diff := cmp.Diff([][]int{{0, 1}, {0, 1, 2}, {1, 2}, {2}}, got); diff != "" {
			t.Errorf("secrets that verify (-want +got):\n%s", diff)
		}
		if first := strings.Fields(r.Deliveries()[0].Signature); len(first) != 2 {
			t.Errorf("signature header %q, want two separated by one space", first)
		}
	})
}

func TestRelayRotatesAtOnce(t *testing.T) {
	bubble(t, mcpevents.Relay(), func(w *world) {
		r := w.receiver()
		w.subscribe()
		w.must(w.call(mcpevents.DialectSketch, "events/subscribe", `{"name":"ticket.opened","delivery":{"mode":"webhook","url":%q,"secret":%q}}`, hookURL, secret2))
		w.emit("e1")
		after(time.Second)
		if diff := cmp.Diff([]int{1}, r.Deliveries()[0].Secrets); diff != "" {
			t.Errorf("secrets that verify (-want +got):\n%s", diff)
		}
		if n := len(r.Verifications()); n != 1 {
			t.Errorf("%d challenges, want none for the renewal", n)
		}
	})
}

// TestWatermark is the sequence of contract e.5 and public case 56.
func TestWatermark(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver().Script(eventstest.Status(500))
		start := w.subscribe()["cursor"]
		w.emit("e1")
		after(time.Second)
		w.emit("e2")
		w.emit("e3")
		after(time.Second)
		if got := w.subscribe()["cursor"]; got != start {
			t.Errorf("cursor while the first is outstanding: %v, want %v", got, start)
		}
		ds := r.Deliveries()
		if ds[1].Cursor != start || ds[2].Cursor != start {
			t.Errorf("bodies of e2 and e3 carry %q and %q, want %v: nothing beyond an outstanding event", ds[1].Cursor, ds[2].Cursor, start)
		}
		after(time.Minute)
		got := w.subscribe()["cursor"].(string)
		if !strings.HasSuffix(got, "-3") {
			t.Errorf("cursor after all are delivered: %q, want the third event's", got)
		}
	})
}

func TestManualResendKeepsTheIDAndIsMarked(t *testing.T) {
	bubble(t, mcpevents.Ledger(), func(w *world) {
		r := w.receiver()
		id := w.subscribe()["id"].(string)
		w.emit("e1")
		after(time.Second)
		if err := w.srv.Resend(w.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		if diff := cmp.Diff(map[string]int{"e1": 2}, countEvents(r)); diff != "" {
			t.Errorf("posts (-want +got):\n%s", diff)
		}
		log, err := w.srv.Deliveries(w.Context(), id, 0, 10)
		if err != nil || len(log) != 1 || len(log[0].Log) != 2 || !log[0].Log[0].Manual || log[0].Log[1].Manual || log[0].Log[0].Number != 2 {
			t.Errorf("log %+v, %v; want two attempts, the newer manual", log, err)
		}
	})
}

func TestSuspensionRestsAndARefreshWakes(t *testing.T) {
	p := mcpevents.SEP()
	p.Suspension.MinAttempts = 10
	bubble(t, p, func(w *world) {
		r := w.receiver().Always(eventstest.Status(500))
		id := w.subscribe()["id"].(string)
		for i := range 6 {
			w.emit(fmt.Sprint("e", i))
		}
		after(5 * time.Minute)
		sub, _ := w.srv.Subscription(w.Context(), id)
		if sub.State != driver.Suspended {
			t.Fatalf("state %s after %d failures, want suspended", sub.State, len(r.Deliveries()))
		}
		before := len(r.Deliveries())
		w.emit("late")
		after(3 * time.Hour)
		if n := len(r.Deliveries()); n != before {
			t.Errorf("%d posts while suspended", n-before)
		}
		r.Always(eventstest.Status(200))
		status := w.subscribe()["deliveryStatus"].(map[string]any)
		if status["active"] != false || status["lastError"] != "http_5xx" || status["failedSince"] == nil {
			t.Errorf("deliveryStatus %v", status)
		}
		after(time.Minute)
		if got := r.Events(); !slices.Contains(got, "late") || len(got) != 7 {
			t.Errorf("events %v, want all seven: time spent suspended does not count", got)
		}
	})
}

func TestGracefulStopLetsAttemptsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMemory(), mcpevents.SEP(), nil)
		w.run()
		r := w.receiver().Always(eventstest.Step{After: 5 * time.Second, Status: 200})
		id := w.subscribe()["id"].(string)
		w.emit("e1")
		after(time.Second)
		w.halt()
		log, err := w.srv.Deliveries(w.Context(), id, 0, 1)
		if err != nil || log[0].State != driver.Delivered || len(r.Deliveries()) != 1 {
			t.Errorf("delivery %+v, %v after the stop; want it delivered once", log, err)
		}
	})
}

func TestStopGivesBackWhatOutlastsTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMemory(), mcpevents.SEP(), func(_ *mcpevents.Family, o *mcpevents.Options) { o.Engine.Grace = time.Second })
		w.run()
		r := w.receiver().Script(eventstest.Hang())
		id := w.subscribe()["id"].(string)
		w.emit("e1")
		after(time.Second)
		w.halt()
		log, _ := w.srv.Deliveries(w.Context(), id, 0, 1)
		if log[0].State != driver.Pending || log[0].Leased || len(log[0].Log) != 0 {
			t.Errorf("delivery %+v; want it pending, free and without an attempt on its record", log)
		}
		w.run()
		after(time.Second)
		w.halt()
		if n := len(r.Deliveries()); n != 2 {
			t.Errorf("%d posts, want one more by the next run at once", n)
		}
	})
}

func TestOverflowDropsTheOldestAndTellsAGap(t *testing.T) {
	p := mcpevents.SEP()
	p.Quotas.Waiting = 3
	bubble(t, p, func(w *world) {
		r := w.receiver().Always(eventstest.Status(500))
		w.must(w.call(mcpevents.DialectSEP, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":%q,"secret":%q}}`, hookURL, secret1))
		for i := range 5 {
			w.emit(fmt.Sprint("e", i))
		}
		after(time.Second)
		r.Always(eventstest.Status(200))
		after(10 * time.Minute)
		gaps := r.Control("gap")
		if len(gaps) != 1 || len(gaps[0].Secrets) != 1 || !strings.HasPrefix(gaps[0].ID, "msg_gap_") {
			t.Errorf("gap bodies %+v, want one, signed", gaps)
		}
		if tr := w.subscribe()["truncated"]; tr != false {
			t.Errorf("truncated %v at the refresh after the gap was told", tr)
		}
	})
}
