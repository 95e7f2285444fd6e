package mcpevents_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/eventstest"
)

const dripURL = "https://slow.example.com/hooks"

// dripping is an answer whose body takes a quarter of an hour.
func dripping(status int) eventstest.Step {
	return eventstest.Step{Status: status, Body: strings.Repeat("x", 900), Drip: time.Second}
}

// What an answer means is known by its status; its body is read no longer than an attempt may take, and holds up nobody else.
func TestAReceiverThatAnswersAByteASecondHoldsOneAttempt(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			p := mcpevents.Relay()
			p.Quotas.Subscriptions = 10
			bubble(t, p, func(w *world) {
				quick := w.receiver()
				slow := eventstest.NewReceiver(secret1)
				w.net.Handle("slow.example.com", slow)
				w.subscribe()
				w.must(w.call(mcpevents.DialectSketch, "events/subscribe", `{"name":"ticket.opened","delivery":{"mode":"webhook","url":%q,"secret":%q}}`, dripURL, secret1))
				slow.Always(dripping(status))
				began := time.Now()
				for i := range 3 {
					w.emit(fmt.Sprint("e", i))
				}
				after(0)
				if n := len(quick.Deliveries()); n != 3 {
					t.Errorf("%d deliveries beside the slow receiver, want 3", n)
				}
				after(35 * time.Second)
				got := slow.Deliveries()
				for i, d := range got {
					if at := d.At.Sub(began); at > time.Duration(i)*11*time.Second {
						t.Errorf("attempt %d began after %s", i, at)
					}
				}
				if want := map[int]int{200: 3, 503: 1}[status]; len(got) != want {
					t.Errorf("%d attempts within 35 s, want %d", len(got), want)
				}
			})
		})
	}
}

func TestAChallengeAnsweredByteByByteRunsOut(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		w.receiver().Challenges(func(challenge string) eventstest.Step {
			return eventstest.Step{Status: 200, Body: `{"challenge":"` + challenge + `"}`, Drip: time.Second}
		})
		began := time.Now()
		_, err := w.trySubscribe()
		wantError(t, err, mcpevents.DialectSketch, -32015, map[string]any{"reason": "timeout"})
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %s, want 10s", took)
		}
	})
}
