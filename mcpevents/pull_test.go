package mcpevents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
)

func (w *world) poll(params string, args ...any) map[string]any {
	w.Helper()
	return w.must(w.call(mcpevents.DialectSEP, "events/poll", params, args...))
}

func eventIDs(r map[string]any) []string {
	var ids []string
	for _, e := range r["events"].([]any) {
		ids = append(ids, e.(map[string]any)["eventId"].(string))
	}
	return ids
}

// TestPoll is contract e.7.
func TestPoll(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		w.emit("old")
		first := w.poll(`{"name":"ticket.opened","cursor":null,"maxAgeMs":1000000}`)
		if len(first["events"].([]any)) != 0 || first["truncated"] != false || first["hasMore"] != false || first["nextPollMs"] != 5000.0 {
			t.Errorf("bootstrap: %v", first)
		}
		cursor := first["cursor"].(string)
		for i := range 5 {
			w.emit(fmt.Sprint("e", i))
		}
		var got []string
		for _, want := range []struct {
			n    int
			more bool
		}{{2, true}, {2, true}, {1, false}} {
			r := w.poll(`{"name":"ticket.opened","cursor":%q,"maxEvents":2}`, cursor)
			if len(eventIDs(r)) != want.n || r["hasMore"] != want.more {
				t.Errorf("batch %v, want %d events, more %t", r, want.n, want.more)
			}
			if again := w.poll(`{"name":"ticket.opened","cursor":%q,"maxEvents":2}`, cursor); !cmp.Equal(r, again) {
				t.Errorf("the same cursor gives %v, then %v", r, again)
			}
			got = append(got, eventIDs(r)...)
			cursor = r["cursor"].(string)
		}
		if diff := cmp.Diff([]string{"e0", "e1", "e2", "e3", "e4"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		w.emit("other", func(e *mcpevents.Emission) { e.Name, e.Data = "ticket.closed", struct{}{} })
		quiet := w.poll(`{"name":"ticket.opened","cursor":%q}`, cursor)
		if quiet["cursor"] == cursor || len(eventIDs(quiet)) != 0 {
			t.Errorf("the cursor must move in quiet times: %v", quiet)
		}
		for _, garbage := range []string{"garbage", "", "x-5", cursor + "9"} {
			r := w.poll(`{"name":"ticket.opened","cursor":%q}`, garbage)
			if r["truncated"] != true || r["cursor"] != quiet["cursor"] {
				t.Errorf("cursor %q: %v, want truncated and a fresh cursor", garbage, r)
			}
		}
	})
}

// Public case 51.
func TestPollAnswersAnEmptyListAndNotNull(t *testing.T) {
	w := newWorld(t, newMemory(), mcpevents.SEP(), nil)
	raw, err := w.srv.Call(w.Context(), mcpevents.Request{Method: "events/poll", Params: rawMessage(`{"name":"ticket.opened"}`)})
	if err != nil || !strings.Contains(string(raw), `"events":[]`) || !strings.Contains(string(raw), `"hasMore":false`) {
		t.Errorf("poll = %s, %v", raw, err)
	}
}

// Public case 52.
func TestPollWantsTheMode(t *testing.T) {
	w := newWorld(t, newMemory(), mcpevents.SEP(), nil)
	for _, name := range []string{"tick", "hook.only"} {
		_, err := w.call(mcpevents.DialectSEP, "events/poll", `{"name":%q}`, name)
		wantError(t, err, mcpevents.DialectSEP, -32026, map[string]any{"feature": "deliveryMode", "value": "poll"})
	}
}

func TestPollFloorAndForgottenEventsAreGaps(t *testing.T) {
	p := mcpevents.SEP()
	p.Retention.Events = 3 * time.Hour
	bubble(t, p, func(w *world) {
		start := w.poll(`{"name":"ticket.opened"}`)["cursor"]
		w.emit("e1")
		time.Sleep(time.Hour)
		w.emit("e2")
		r := w.poll(`{"name":"ticket.opened","cursor":%q,"maxAgeMs":60000}`, start)
		if diff := cmp.Diff([]string{"e2"}, eventIDs(r)); diff != "" || r["truncated"] != true {
			t.Errorf("with a floor: %v", r)
		}
		time.Sleep(2*time.Hour + 30*time.Minute)
		if err := w.srv.Sweep(w.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		r = w.poll(`{"name":"ticket.opened","cursor":%q}`, start)
		if diff := cmp.Diff([]string{"e2"}, eventIDs(r)); diff != "" || r["truncated"] != true {
			t.Errorf("after forgetting: %v", r)
		}
	})
}

func TestPollNarrowsToASubject(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		start := w.poll(`{"name":"ticket.closed"}`)["cursor"]
		for i := range 4 {
			w.emit(fmt.Sprint("e", i), func(e *mcpevents.Emission) {
				e.Name, e.Subject, e.Data = "ticket.closed", fmt.Sprint("ticket/", i%2), struct{}{}
			})
		}
		r := w.poll(`{"name":"ticket.closed","arguments":{"subject":"ticket/1"},"cursor":%q}`, start)
		if diff := cmp.Diff([]string{"e1", "e3"}, eventIDs(r)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestLongPoll(t *testing.T) {
	p := mcpevents.SEP()
	p.Polling.Hold = time.Minute
	bubble(t, p, func(w *world) {
		cursor := w.poll(`{"name":"ticket.opened"}`)["cursor"]
		go func() {
			time.Sleep(300 * time.Millisecond)
			w.emit("e1")
		}()
		start := time.Now()
		r := w.poll(`{"name":"ticket.opened","cursor":%q,"timeoutMs":5000}`, cursor)
		if took := time.Since(start); took != 300*time.Millisecond || len(eventIDs(r)) != 1 {
			t.Errorf("answered after %v with %v", took, r)
		}
		start = time.Now()
		r = w.poll(`{"name":"ticket.opened","cursor":%q,"timeoutMs":5000}`, r["cursor"])
		if took := time.Since(start); took != 5*time.Second || len(eventIDs(r)) != 0 {
			t.Errorf("answered after %v with %v", took, r)
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_, err := w.srv.Call(ctx, mcpevents.Request{Method: "events/poll", Params: rawMessage(fmt.Sprintf(`{"name":"ticket.opened","cursor":%q,"timeoutMs":50000}`, r["cursor"]))})
		if err == nil || time.Since(start) != time.Second {
			t.Errorf("a client that left was held until %v, %v", time.Since(start), err)
		}
	})
}

func TestTimeoutMsIsIgnoredUnlessSwitchedOn(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		start := time.Now()
		w.poll(`{"name":"ticket.opened","cursor":%q,"timeoutMs":5000}`, w.poll(`{"name":"ticket.opened"}`)["cursor"])
		if took := time.Since(start); took != 0 {
			t.Errorf("held for %v", took)
		}
	})
}

// tape is what one stream sent.
type tape struct {
	*testing.T
	notes  []mcpevents.Notification
	result json.RawMessage
	err    error
	cancel context.CancelFunc
	done   chan struct{}
}

func (w *world) stream(id, params string, args ...any) *tape {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	s := &tape{T: w.T, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.result, s.err = w.srv.Stream(ctx, mcpevents.Request{ID: rawMessage(id), Params: rawMessage(fmt.Sprintf(params, args...)),
			Dialect: mcpevents.DialectSEP, Caller: w.caller}, func(n mcpevents.Notification) error {
			s.notes = append(s.notes, n)
			return nil
		})
	}()
	synctest.Wait()
	return s
}

// methods returns the last part of each notification's method.
func (s *tape) methods() []string {
	var names []string
	for _, n := range s.notes {
		names = append(names, n.Method[strings.LastIndex(n.Method, "/")+1:])
	}
	return names
}

func (s *tape) params(i int) map[string]any {
	s.Helper()
	var m map[string]any
	if i >= len(s.notes) || json.Unmarshal(s.notes[i].Params, &m) != nil {
		s.Fatalf("no notification %d in %v", i, s.methods())
	}
	return m
}

// TestStream is contract e.8.
func TestStream(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		s := w.stream("7", `{"name":"ticket.opened","cursor":null}`)
		other := w.stream(`"7"`, `{"name":"ticket.opened"}`)
		w.emit("e1", func(e *mcpevents.Emission) { e.Meta = map[string]int{"trace": 1} })
		synctest.Wait()
		after(35 * time.Second)
		if diff := cmp.Diff([]string{"active", "event", "heartbeat"}, s.methods()); diff != "" {
			t.Errorf("notifications (-want +got):\n%s", diff)
		}
		if a := s.params(0); a["truncated"] != false || a["cursor"] == nil {
			t.Errorf("active %v", a)
		}
		e := s.params(1)
		meta := e["_meta"].(map[string]any)
		if e["eventId"] != "e1" || meta["io.modelcontextprotocol/subscriptionId"] != 7.0 || meta["trace"] != 1.0 || e["cursor"] != s.params(2)["cursor"] {
			t.Errorf("event %v, heartbeat %v", e, s.params(2))
		}
		if m := other.params(1)["_meta"].(map[string]any); m["io.modelcontextprotocol/subscriptionId"] != "7" {
			t.Errorf("the other stream's id is %v, want the string", m)
		}
		s.cancel()
		other.cancel()
		<-s.done
		<-other.done
		if !errors.Is(s.err, context.Canceled) || s.result != nil {
			t.Errorf("a cancelled stream ended with %s, %v", s.result, s.err)
		}
		again := w.stream("8", `{"name":"ticket.opened","cursor":%q}`, s.params(2)["cursor"])
		w.emit("e2")
		synctest.Wait()
		if diff := cmp.Diff([]string{"active", "event"}, again.methods()); diff != "" || again.params(0)["truncated"] != false || again.params(1)["eventId"] != "e2" {
			t.Errorf("after reconnecting: %v", again.notes)
		}
	})
}

func TestStreamReplaysThenFollows(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		start := w.poll(`{"name":"ticket.opened"}`)["cursor"].(string)
		for i := range 250 { // more than one batch
			w.emit(fmt.Sprint("e", i))
		}
		s := w.stream("1", `{"name":"ticket.opened","cursor":%q}`, start)
		w.emit("last")
		synctest.Wait()
		if n := len(s.notes); n != 252 || s.params(251)["eventId"] != "last" || s.params(0)["cursor"] != start {
			t.Errorf("%d notifications, active at %v; want active at %v and 251 events", n, s.params(0)["cursor"], start)
		}
	})
}

func TestStreamIsToldOfAGap(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		s := w.stream("1", `{"name":"ticket.opened","cursor":"garbage"}`)
		if s.params(0)["truncated"] != true {
			t.Errorf("active %v, want truncated", s.params(0))
		}
	})
}

func TestStreamOfATypeWithoutReplayHasNullCursors(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		s := w.stream("1", `{"name":"tick","cursor":"garbage"}`)
		w.emit("t1", func(e *mcpevents.Emission) { e.Name, e.Data = "tick", struct{}{} })
		after(30 * time.Second)
		if diff := cmp.Diff([]string{"active", "event", "heartbeat"}, s.methods()); diff != "" {
			t.Fatalf("notifications (-want +got):\n%s", diff)
		}
		for i := range 3 {
			if c, there := s.params(i)["cursor"]; c != nil || !there {
				t.Errorf("notification %d has cursor %v", i, c)
			}
		}
		if s.params(0)["truncated"] != false {
			t.Error("a type without replay is truncated")
		}
	})
}

func TestStreamRefusalsComeBeforeTheStream(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		for params, code := range map[string]int{`{"name":"nope"}`: -32023, `{"name":"hook.only"}`: -32026, `{"name":"ticket.opened","arguments":{"x":1}}`: -32602} {
			s := w.stream("1", "%s", params)
			<-s.done
			wantError(t, s.err, mcpevents.DialectSEP, code, nil)
			if len(s.notes) != 0 {
				t.Errorf("%s: %d notifications before the refusal", params, len(s.notes))
			}
		}
	})
}

func TestRevokedStreamIsTerminated(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		s := w.stream("1", `{"name":"ticket.opened"}`)
		if err := w.srv.Revoke(w.Context(), "user_1"); err != nil {
			t.Fatal(err)
		}
		<-s.done
		if diff := cmp.Diff([]string{"active", "terminated"}, s.methods()); diff != "" {
			t.Errorf("notifications (-want +got):\n%s", diff)
		}
		if code := s.params(1)["error"].(map[string]any)["code"]; code != -32024.0 {
			t.Errorf("terminated with %v", code)
		}
		if want := `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`; string(s.result) != want || s.err != nil {
			t.Errorf("final result %s, %v; want %s", s.result, s.err, want)
		}
	})
}

func TestAccessIsCheckedAgainWhileAStreamIsOpen(t *testing.T) {
	var refused atomic.Bool
	bubbleWith(t, mcpevents.SEP(), func(f *mcpevents.Family, _ *mcpevents.Options) {
		f.Authorize = func(context.Context, mcpevents.Caller, mcpevents.Ask) error {
			if !refused.Load() {
				return nil
			}
			return &mcpevents.Error{Meaning: mcpevents.Forbidden, Message: "no"}
		}
	}, func(w *world) {
		s := w.stream("1", `{"name":"ticket.opened"}`)
		refused.Store(true)
		after(time.Minute)
		if diff := cmp.Diff([]string{"active", "terminated"}, s.methods()); diff != "" {
			t.Errorf("notifications (-want +got):\n%s", diff)
		}
	})
}

func TestStreamsOfOnePrincipalAreLimited(t *testing.T) {
	p := mcpevents.SEP()
	p.Quotas.Streams = 1
	bubble(t, p, func(w *world) {
		first := w.stream("1", `{"name":"ticket.opened"}`)
		second := w.stream("2", `{"name":"ticket.opened"}`)
		<-second.done
		wantError(t, second.err, mcpevents.DialectSEP, -32025, map[string]any{"limit": "streams"})
		first.cancel()
		<-first.done
		third := w.stream("3", `{"name":"ticket.opened"}`)
		if len(third.notes) != 1 {
			t.Errorf("after the first ended: %v, %v", third.notes, third.err)
		}
	})
}

func TestStopGivesStreamsTheirResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMemory(), mcpevents.SEP(), nil)
		w.run()
		s := w.stream("1", `{"name":"ticket.opened"}`)
		w.halt()
		<-s.done
		if s.result == nil || s.err != nil || len(s.notes) != 1 {
			t.Errorf("result %s, %v after %v", s.result, s.err, s.methods())
		}
	})
}

// TestStreamLearnsOfOtherProcesses has a second server on the same store emit: there is no wake-up between the two.
func TestStreamLearnsOfOtherProcesses(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		s := w.stream("1", `{"name":"ticket.opened"}`)
		other := newWorld(t, w.db, mcpevents.SEP(), nil)
		other.emit("e1")
		after(2 * time.Second)
		if diff := cmp.Diff([]string{"active", "event"}, s.methods()); diff != "" {
			t.Errorf("notifications (-want +got):\n%s", diff)
		}
	})
}
