package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/herald-relay/herald/internal/testkit"
)

func TestTheBareWordPingIsAnsweredByTheBareWordPong(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	s := d.Stream()
	s.Text("ping")
	s.Text("ping")
	for range 2 {
		if got := devRaw(s); got != "pong" {
			t.Errorf("answer = %q, want pong", got)
		}
	}
	for _, other := range []string{"PING", "ping\n", `"ping"`, "pong", ""} {
		s.Text(other)
	}
	devSettle(s)
	if got := devUsage(d, "wsMessages"); got != 0 {
		t.Errorf("wsMessages = %d, want pings not counted", got)
	}
}

// Each of these is ignored without a word, and the stream goes on.
func TestWhatTheStreamIgnores(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	agentID, id := devQueued(d, agent)
	s := d.Stream()
	s.Next()
	other := r.Pair("other")
	_, foreign := devQueued(other, other.Agent("bot"))

	counted := 0
	tests := []struct {
		name, text string
		counts     bool // as a wsMessages message
	}{
		{"not JSON", "hello", false},
		{"half a value", `{"type":"ack"`, false},
		{"two values", `{"type":"ack","id":"` + id + `"} {}`, false},
		{"an array", `[{"type":"ack","id":"` + id + `"}]`, false},
		{"null", `null`, false},
		{"invalid UTF-8", "{\"type\":\"ack\",\"id\":\"" + id + "\",\"x\":\"\xff\"}", false},
		{"nested too deep", `{"type":"ack","id":"` + id + `","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", false},
		{"no type", `{"id":"` + id + `"}`, true},
		{"an unknown type", `{"type":"purge","id":"` + id + `"}`, true},
		{"a type that is no string", `{"type":7,"id":"` + id + `"}`, true},
		{"a type in other case", `{"type":"ACK","id":"` + id + `"}`, true},
		{"an ack without id", `{"type":"ack"}`, true},
		{"an ack of a malformed id", `{"type":"ack","id":"` + agentID + `"}`, true},
		{"an ack of an unknown id", `{"type":"ack","id":"r_000000000000000000000000"}`, true},
		{"an ack of another mailbox's", `{"type":"ack","id":"` + foreign + `"}`, true},
		{"an ack with the id twice", `{"type":"ack","id":"` + id + `","id":"` + id + `"}`, true},
		{"an ack with the id in two cases", `{"type":"ack","id":"` + id + `","ID":"` + id + `"}`, true},
		{"a receipt without id", `{"type":"receipt","kind":"displayed"}`, true},
		{"a receipt without kind", `{"type":"receipt","id":"` + id + `"}`, true},
		{"a receipt of unknown kind", `{"type":"receipt","id":"` + id + `","kind":"read"}`, true},
		{"a receipt of a kind in other case", `{"type":"receipt","id":"` + id + `","kind":"Displayed"}`, true},
		{"a receipt of an unknown id", `{"type":"receipt","id":"r_000000000000000000000000","kind":"displayed"}`, true},
		{"a receipt of another mailbox's", `{"type":"receipt","id":"` + foreign + `","kind":"displayed"}`, true},
		{"a reply without content", `{"type":"receipt","id":"` + id + `","kind":"replied"}`, true},
		{"a reply of blanks", `{"type":"receipt","id":"` + id + `","kind":"replied","text":" \n ","transcript":"\t"}`, true},
		{"a reply of wrong types", `{"type":"receipt","id":"` + id + `","kind":"replied","text":7,"transcript":["x"]}`, true},
	}
	for _, test := range tests {
		s.Text(test.text)
		devSettle(s)
		if test.counts {
			counted++
		}
		if got := devUsage(d, "wsMessages"); got != counted {
			t.Errorf("%s: wsMessages = %d, want %d", test.name, got, counted)
			counted = got
		}
		if got := devReceipt(agent, agentID); got.Body["queued"] != true || got.Body["displayed"] != false || got.Body["replied"] != false {
			t.Fatalf("%s changed the receipt: %s", test.name, got.Raw)
		}
	}
	for kind, data := range map[string][]byte{
		"a binary ack": []byte(`{"type":"ack","id":"` + id + `"}`), "a binary ping": []byte("ping"), "binary zeros": make([]byte, 5000),
	} {
		if err := s.Conn.Write(t.Context(), websocket.MessageBinary, data); err != nil {
			t.Fatal(err)
		}
		devSettle(s)
		if devUsage(d, "wsMessages") != counted || devReceipt(agent, agentID).Body["queued"] != true {
			t.Errorf("%s was not ignored", kind)
		}
	}
	if got := other.Call("GET", "/v1/device/info", nil); got.Body["pending"] != 1.0 {
		t.Errorf("another mailbox's notification was touched: %s", got.Raw)
	}
}

// The limit is 16 K characters as JavaScript counts them: a character beyond the basic plane is two.
func TestAMessageOfMoreThan16KCharactersIsIgnored(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	s := d.Stream()
	// fill makes an ack of exactly that many UTF-16 units, its filler of the given character.
	fill := func(id, char string, units int) string {
		frame := `{"type":"ack","id":"` + id + `","x":"`
		each := len(utf16(char))
		n := (units - len(frame) - 2) / each
		rest := units - len(frame) - 2 - n*each
		return frame + strings.Repeat(char, n) + strings.Repeat("x", rest) + `"}`
	}
	for _, char := range []string{"x", "é", "完", "🎉"} {
		for _, test := range []struct {
			units int
			heard bool
		}{{16384, true}, {16385, false}, {16384 * 3, false}, {16384*3 + 2, false}, {3 << 20, false}} {
			agentID, id := devNotified(agent, s)
			s.Text(fill(id, char, test.units))
			devSettle(s)
			if got := devReceipt(agent, agentID).Body["queued"] == false; got != test.heard {
				t.Errorf("%d units of %s: heard = %v, want %v", test.units, char, got, test.heard)
			}
			s.Send(testkit.Frame{"type": "ack", "id": id})
			devSettle(s)
		}
	}
	if got := devUsage(d, "wsMessages"); got != 4*(5+1) {
		t.Errorf("wsMessages = %d, want those within the limit alone", got)
	}
}

func utf16(s string) []rune {
	var out []rune
	for _, r := range s {
		if out = append(out, r); r > 0xffff {
			out = append(out, r)
		}
	}
	return out
}

func TestHelloAndStatusStoreWhatTheDeviceSaysOfItselfWhole(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	s := d.Stream()
	tests := []struct{ name, frame, quiet string }{
		{"hello", `{"type":"hello","quietActive":true,"quietUntil":"2026-10-02T07:00:00Z","muted":true}`, `{"active":true,"until":"2026-10-02T07:00:00Z"}`},
		{"a status overwrites all of it", `{"type":"status","quietActive":true}`, `{"active":true}`},
		{"an empty status too", `{"type":"status"}`, `{"active":false}`},
		{"what is not true is false", `{"type":"status","quietActive":"true","quietUntil":7,"muted":1}`, `{"active":false}`},
		{"the first 40 characters of the time", `{"type":"hello","quietUntil":"` + strings.Repeat("é", 50) + `"}`, `{"active":false,"until":"` + strings.Repeat("é", 40) + `"}`},
		{"null counts as absent", `{"type":"hello","quietActive":null,"quietUntil":null}`, `{"active":false}`},
	}
	for _, test := range tests {
		s.Text(test.frame)
		devSettle(s)
		devOK(t, agent.Call("GET", "/v1/status", nil), 200, `{"online":true,"lastSeenAt":"<time>","quietHours":`+test.quiet+`}`)
		devOK(t, d.Call("GET", "/v1/device/info", nil), 200,
			`{"online":true,"lastSeenAt":"<time>","pending":0,"quietHours":`+test.quiet+`,"keys":1}`)
	}
}

// receiptWay is one of the ways in which a device reports.
type receiptWay struct {
	name string
	say  func(t *testing.T, d *testkit.Device, s *testkit.Stream, report map[string]any)
}

// receiptWays are the stream and HTTP: a report means the same on both (contract sections 6.2 and 6.3).
var receiptWays = []receiptWay{
	{"stream", func(t *testing.T, _ *testkit.Device, s *testkit.Stream, report map[string]any) {
		frame := testkit.Frame{"type": "receipt"}
		maps.Copy(frame, report)
		s.Send(frame)
		devSettle(s)
	}},
	{"http", func(t *testing.T, d *testkit.Device, _ *testkit.Stream, report map[string]any) {
		if a := d.Call("POST", "/v1/device/receipt", report); a.Status == http.StatusOK {
			devOK(t, a, 200, `{"ok":true}`)
		}
	}},
}

// TestAReceiptMeansTheSameOverStreamAndHTTP walks through the rules of section 6.3, each step a report and what the
// agent then reads.
func TestAReceiptMeansTheSameOverStreamAndHTTP(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("完", 4001)
	tests := []struct {
		name    string
		reports []string // without id
		want    string   // members of the receipt, times and note taken out
	}{
		{"displayed", []string{`{"kind":"displayed"}`}, `"displayed":true`},
		{"spoken", []string{`{"kind":"spoken"}`}, `"spoken":true`},
		{"a typed reply, trimmed", []string{`{"kind":"replied","text":"  Ship it.\n"}`}, `"replied":true,"reply":"Ship it.","text":"Ship it."`},
		{"a spoken reply", []string{`{"kind":"replied","transcript":" ship it ","durationSeconds":2.5}`},
			`"replied":true,"reply":"ship it","transcript":"ship it","durationSeconds":2.5`},
		{"text wins over the transcript", []string{`{"kind":"replied","text":"a","transcript":"b"}`},
			`"replied":true,"reply":"a","text":"a","transcript":"b"`},
		{"the first text stays", []string{`{"kind":"replied","text":"first"}`, `{"kind":"replied","text":"second"}`},
			`"replied":true,"reply":"first","text":"first"`},
		{"the first transcript stays", []string{`{"kind":"replied","transcript":"first"}`, `{"kind":"replied","transcript":"second"}`},
			`"replied":true,"reply":"first","transcript":"first"`},
		{"text and transcript are each filled once", []string{`{"kind":"replied","transcript":"spoken"}`, `{"kind":"replied","text":"typed"}`},
			`"replied":true,"reply":"typed","text":"typed","transcript":"spoken"`},
		{"the first 4000 characters count", []string{`{"kind":"replied","text":"` + long + `"}`},
			`"replied":true,"reply":"` + long[:4000*3] + `","text":"` + long[:4000*3] + `"`},
		{"a duration of 0", []string{`{"kind":"replied","text":"a","durationSeconds":0}`}, `"replied":true,"reply":"a","text":"a","durationSeconds":0`},
		{"a duration of 600", []string{`{"kind":"replied","text":"a","durationSeconds":600}`}, `"replied":true,"reply":"a","text":"a","durationSeconds":600`},
		{"a duration beyond", []string{`{"kind":"replied","text":"a","durationSeconds":600.1}`}, `"replied":true,"reply":"a","text":"a"`},
		{"a negative duration", []string{`{"kind":"replied","text":"a","durationSeconds":-1}`}, `"replied":true,"reply":"a","text":"a"`},
		{"a duration that is no number", []string{`{"kind":"replied","text":"a","durationSeconds":"3"}`}, `"replied":true,"reply":"a","text":"a"`},
		{"a duration beyond all numbers", []string{`{"kind":"replied","text":"a","durationSeconds":1e999}`}, `"replied":true,"reply":"a","text":"a"`},
		{"a later valid duration replaces", []string{`{"kind":"replied","text":"a","durationSeconds":3}`, `{"kind":"replied","text":"b","durationSeconds":4}`},
			`"replied":true,"reply":"a","text":"a","durationSeconds":4`},
		{"a later invalid one does not", []string{`{"kind":"replied","text":"a","durationSeconds":3}`, `{"kind":"replied","text":"b","durationSeconds":601}`},
			`"replied":true,"reply":"a","text":"a","durationSeconds":3`},
		{"suppressed", []string{`{"kind":"suppressed"}`}, `"suppressed":true,"reason":"suppressed","suppressedScope":"all"`},
		{"suppressed with reason and scope", []string{`{"kind":"suppressed","reason":"quiet-hours","scope":"speech"}`},
			`"suppressed":true,"reason":"quiet-hours","suppressedScope":"speech"`},
		{"a reason in capitals", []string{`{"kind":"suppressed","reason":"Muted"}`}, `"suppressed":true,"reason":"suppressed","suppressedScope":"all"`},
		{"a reason of 40 characters", []string{`{"kind":"suppressed","reason":"` + strings.Repeat("a", 40) + `"}`},
			`"suppressed":true,"reason":"` + strings.Repeat("a", 40) + `","suppressedScope":"all"`},
		{"a reason of 41", []string{`{"kind":"suppressed","reason":"` + strings.Repeat("a", 41) + `"}`},
			`"suppressed":true,"reason":"suppressed","suppressedScope":"all"`},
		{"a scope that is none", []string{`{"kind":"suppressed","reason":"muted","scope":"video"}`},
			`"suppressed":true,"reason":"muted","suppressedScope":"all"`},
		{"a later suppressed overwrites", []string{`{"kind":"suppressed","reason":"quiet-hours","scope":"speech"}`, `{"kind":"suppressed","reason":"muted"}`},
			`"suppressed":true,"reason":"muted","suppressedScope":"all"`},
		{"reason and scope are for suppressed alone", []string{`{"kind":"displayed","reason":"muted","scope":"speech","text":"a"}`}, `"displayed":true`},
		{"shown, spoken, answered", []string{`{"kind":"displayed"}`, `{"kind":"spoken"}`, `{"kind":"replied","text":"a"}`},
			`"displayed":true,"spoken":true,"replied":true,"reply":"a","text":"a"`},
		{"an unknown kind changes nothing", []string{`{"kind":"displayed"}`, `{"kind":"dismissed"}`}, `"displayed":true`},
	}
	for _, way := range receiptWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.New(t, testkit.Options{})
			d := r.Pair("laptop")
			agent := d.Agent("bot")
			s := d.Stream()
			for _, test := range tests {
				agentID, id := devNotified(agent, s)
				for _, report := range test.reports {
					way.say(t, d, s, withID(t, report, id))
				}
				got := devReceipt(agent, agentID)
				facts, want := factsOf(got.Body), wantFacts(t, test.want)
				if got, want := fmt.Sprint(facts), fmt.Sprint(want); got != want {
					t.Errorf("%s: receipt = %s\nwant %s", test.name, got, want)
				}
			}
			if got := d.Call("GET", "/v1/device/info", nil).Body["pending"]; got != 0.0 {
				t.Errorf("pending = %v, want every receipt to acknowledge", got)
			}
		})
	}
}

func withID(t *testing.T, report, id string) map[string]any {
	t.Helper()
	return map[string]any(mergeJSON(t, report, `"id":"`+id+`"`))
}

// mergeJSON adds members to an object. Numbers stay as written.
func mergeJSON(t *testing.T, object, members string) map[string]any {
	t.Helper()
	out := map[string]any{}
	dec := json.NewDecoder(strings.NewReader(strings.TrimSuffix(object, "}") + "," + members + "}"))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	return out
}

// factsOf is a receipt without what the tests of single members look at: ids, times, the note.
func factsOf(receipt map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range receipt {
		if !strings.HasSuffix(k, "At") && k != "notificationId" && k != "transcriptNote" {
			out[k] = v
		}
	}
	return out
}

func wantFacts(t *testing.T, members string) map[string]any {
	t.Helper()
	base := `{"received":true,"queued":false,"displayed":false,"spoken":false,"replied":false,"expectReply":true,"suppressed":false}`
	out := map[string]any{}
	for _, s := range []string{base, "{" + members + "}"} {
		if err := json.Unmarshal([]byte(s), &out); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return out
}
