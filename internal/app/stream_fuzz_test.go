package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

// FuzzStreamFrames says anything at all on a stream. Whatever it is, the stream stays open and answers the next ping,
// nothing but a pong comes back, it counts as one message at most, and the notification that waits is only touched by
// a frame that names it.
func FuzzStreamFrames(f *testing.F) {
	const id = "ID" // stands for the waiting notification
	for _, seed := range []string{
		"ping", "pong", "", "hello", "null", "[]", "{}", `{"type":"hello"}`, `{"type":"status","quietActive":true,"quietUntil":"07:00","muted":false}`,
		`{"type":"ack","id":"ID"}`, `{"type":"ack","notificationId":"ID"}`, `{"type":"ack","id":"ID","id":"ID"}`, `{"type":"ack","Id":"ID"}`,
		`{"type":"receipt","id":"ID","kind":"displayed"}`, `{"type":"receipt","id":"ID","kind":"spoken"}`,
		`{"type":"receipt","id":"ID","kind":"replied","text":"yes","transcript":"yes","durationSeconds":1.5}`,
		`{"type":"receipt","id":"ID","kind":"replied","text":"\u0000\ud800"}`, `{"type":"receipt","id":"ID","kind":"replied","durationSeconds":1e999}`,
		`{"type":"receipt","id":"ID","kind":"suppressed","reason":"quiet-hours","scope":"speech"}`, `{"type":"receipt","id":"ID","kind":"read"}`,
		`{"type":"purge","id":"ID"}`, `{"type":["ack"],"id":"ID"}`, "\xff\xfe", strings.Repeat("[", 100), `{"a":` + strings.Repeat(`{"a":`, 70) + `1`,
	} {
		f.Add([]byte(seed))
	}
	relay := testkit.New(f, testkit.Options{Config: func(c *config.Config) {
		c.RateLimitPerKey, c.NotificationsPerDay, c.RequestsPerDay = 1<<20, 1<<20, 1<<40
	}})
	device := relay.Pair("laptop")
	agent := device.Agent("bot")
	stream := device.Stream()
	_, waiting := devNotified(agent, stream)

	f.Fuzz(func(t *testing.T, data []byte) {
		r := *relay
		r.T = t
		d := &testkit.Device{Relay: &r, Mailbox: device.Mailbox, Token: device.Token}
		a := &testkit.Agent{Relay: &r, ID: agent.ID, Token: agent.Token}
		s := &testkit.Stream{Device: d, Conn: stream.Conn}
		text := strings.ReplaceAll(string(data), id, waiting)
		before := devUsage(d, "wsMessages")
		s.Text(text)
		if text == "ping" {
			if got := devRaw(s); got != "pong" {
				t.Fatalf("ping was answered by %q", got)
			}
		}
		devSettle(s)
		switch counted := devUsage(d, "wsMessages") - before; {
		case counted != 0 && counted != 1:
			t.Errorf("counted as %d messages", counted)
		case counted == 1 && (!json.Valid([]byte(text)) || strings.TrimLeft(text, " \t\r\n")[0] != '{'):
			t.Error("counted as a message, and is no JSON object")
		}
		if d.Call("GET", "/v1/device/info", nil).Body["pending"] == 1.0 {
			return
		}
		if !strings.Contains(text, waiting) && !strings.Contains(text, `\u`) {
			t.Error("the notification was touched")
		}
		_, waiting = devNotified(a, s)
	})
}
