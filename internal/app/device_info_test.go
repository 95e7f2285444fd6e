package app_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/testkit"
)

func TestInfoSumsUpTheMailbox(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	devOK(t, d.Call("GET", "/v1/device/info", nil), 200, `{"online":false,"pending":0,"quietHours":{"active":false},"keys":0}`)
	agent := d.Agent("bot")
	d.Agent("other")
	for range 3 {
		agent.Send(map[string]any{"title": "x"})
	}
	devOK(t, d.Call("POST", "/v1/device/status", `{"quietActive":true,"quietUntil":"07:00","muted":true}`), 200, `{"ok":true}`)
	devOK(t, d.Call("GET", "/v1/device/info", nil), 200, `{"online":false,"pending":3,"quietHours":{"active":true,"until":"07:00"},"keys":2}`)
	d.Stream()
	devOK(t, d.Call("GET", "/v1/device/info", nil), 200,
		`{"online":true,"lastSeenAt":"<time>","pending":3,"quietHours":{"active":true,"until":"07:00"},"keys":2}`)
}

func TestStatusOverwritesTheWholeState(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	for _, test := range []struct{ body, quiet string }{
		{`{"quietActive":true,"quietUntil":"2026-10-02T07:00:00Z","muted":true}`, `{"active":true,"until":"2026-10-02T07:00:00Z"}`},
		{`{"muted":true}`, `{"active":false}`},
		{`{"quietActive":1,"quietUntil":false,"muted":"yes"}`, `{"active":false}`},
		{`{"quietActive":true,"quietUntil":"` + strings.Repeat("0", 41) + `"}`, `{"active":true,"until":"` + strings.Repeat("0", 40) + `"}`},
		{`{}`, `{"active":false}`},
	} {
		devOK(t, d.Call("POST", "/v1/device/status", test.body), 200, `{"ok":true}`)
		devOK(t, agent.Call("GET", "/v1/status", nil), 200, `{"online":false,"quietHours":`+test.quiet+`}`)
	}
	for _, body := range []string{``, `quiet`, `[]`, `{"muted":true} {}`, `{"muted":true,"muted":false}`} {
		if a := d.Call("POST", "/v1/device/status", body); a.Status != 400 || a.Code() != "invalid_request" {
			t.Errorf("%s: %d %s", body, a.Status, a.Raw)
		}
	}
}

func TestUsageHasExactlyTheDocumentedMembers(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	limits := `"limits":{"audioUploadsPerDay":40,"audioBytesPerDay":20971520,"requestsPerDay":5000,"freePlanRequestsPerDay":100000,` +
		`"notificationsPerDay":500,"pollSecondsPerDay":3000,"queueMax":100},"requestsPercent":<int>,"budgetExhausted":false}`
	usage := func(numbers string) {
		t.Helper()
		devOK(t, d.Call("GET", "/v1/device/usage", nil), 200, `{"day":"`+time.Now().UTC().Format("2006-01-02")+`",`+numbers+`,`+limits)
	}
	const nothing = `"requests":0,"wsMessages":0,"notifications":0,"pollSeconds":0,"audioUploads":0,"audioBytes":0,"queued":0,"storageBytes":0`
	usage(nothing)
	usage(nothing) // reading it counts for nothing
	d.Call("GET", "/v1/device/nothing", nil)
	s := d.Stream()
	devSettle(s) // neither does the stream, nor a ping
	usage(nothing)

	agent := d.Agent("bot")                                         // 1
	agentID, id := devNotified(agent, s)                            // 2
	s.Send(testkit.Frame{"type": "ack", "id": id})                  // wsMessages
	devSettle(s)                                                    //
	devReceipt(agent, agentID)                                      // 3
	agent.Call("POST", "/v1/notify", map[string]any{"body": "bad"}) // 4: refused, and counted as a request
	d.Call("POST", "/v1/device/receipt", `{"id":"x"}`)              // 5
	devOK(t, upload(d, id, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)
	agent.Send(map[string]any{"title": "waits"})                       // 7
	agent.Call("POST", "/v1/notify", map[string]any{"title": "again"}) // 8
	usage(`"requests":8,"wsMessages":1,"notifications":3,"pollSeconds":0,"audioUploads":1,"audioBytes":28,"queued":2,"storageBytes":<int>`)
	if got := devUsage(d, "storageBytes"); got < 28+2*len(`{"title":"x"}`) {
		t.Errorf("storageBytes = %d, want clip and payloads counted", got)
	}
}

func TestUsageNearItsBudget(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		requests, limit int
		percent         float64
		exhausted       bool
	}{{0, 8, 0, false}, {1, 8, 13, false}, {3, 8, 38, false}, {7, 8, 88, false}, {8, 8, 100, true}, {12, 8, 150, true}, {1, 3, 33, false}, {2, 3, 67, false}} {
		r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.RequestsPerDay = int64(test.limit) }})
		d := r.Pair("laptop")
		for range test.requests { // device routes are counted and never refused for it
			if a := d.Call("GET", "/v1/device/info", nil); a.Status != 200 {
				t.Errorf("info: %d %s", a.Status, a.Raw)
			}
		}
		a := d.Call("GET", "/v1/device/usage", nil)
		if a.Body["requestsPercent"] != test.percent || a.Body["budgetExhausted"] != test.exhausted || a.Body["requests"] != float64(test.requests) {
			t.Errorf("%d of %d: %s", test.requests, test.limit, a.Raw)
		}
	}
}

func TestUsageStartsAnewAtMidnightUTCAndSurvivesARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := testkit.New(t, testkit.Options{Pipes: true, Dir: dir})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		time.Sleep(12 * time.Hour)
		id := agent.Send(map[string]any{"title": "x"})
		agent.Call("GET", "/v1/replies/"+id+"?wait=2.5", nil)
		d.Stream().Text(`{"type":"hello"}`)
		synctest.Wait() // until it was counted
		devMatch(t, "usage", d.Call("GET", "/v1/device/usage", nil).Raw, `{"day":"2000-01-01","requests":3,"wsMessages":1,"notifications":1,"pollSeconds":3,"audioUploads":0,<rest>`)
		r.Stop()

		r = testkit.New(t, testkit.Options{Pipes: true, Dir: dir})
		d.Relay = r
		devMatch(t, "usage", d.Call("GET", "/v1/device/usage", nil).Raw, `{"day":"2000-01-01","requests":3,"wsMessages":1,"notifications":1,"pollSeconds":3,"audioUploads":0,<rest>`)
		time.Sleep(relay.UntilNextDay(time.Now()) - time.Millisecond)
		if got := d.Call("GET", "/v1/device/usage", nil).Text("day"); got != "2000-01-01" {
			t.Errorf("day = %s a millisecond before midnight", got)
		}
		time.Sleep(time.Millisecond)
		devMatch(t, "usage", d.Call("GET", "/v1/device/usage", nil).Raw, `{"day":"2000-01-02","requests":0,"wsMessages":0,"notifications":0,"pollSeconds":0,"audioUploads":0,<rest>`)
	})
}

func TestAMutedDeviceIsNobodysBusiness(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	d.Call("POST", "/v1/device/status", `{"muted":true}`)
	devOK(t, agent.Call("GET", "/v1/status", nil), 200, `{"online":false,"quietHours":{"active":false}}`)
	if a := agent.Call("POST", "/v1/notify", map[string]any{"title": "x"}); a.Status != 202 || fmt.Sprint(a.Body["suppressed"]) != "false" {
		t.Errorf("notify: %d %s, want it queued: the device decides", a.Status, a.Raw)
	}
}
