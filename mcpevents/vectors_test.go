package mcpevents

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/internal/canonical"
)

// TestIdentityVector is contract e.2.
func TestIdentityVector(t *testing.T) {
	key := func(principal, url, arguments, ledger string) string {
		t.Helper()
		v, err := canonical.Parse([]byte(arguments))
		if err != nil {
			t.Fatal(err)
		}
		return subscriptionKey(principal, url, "incident.created", v.(map[string]any), ledger)
	}
	const url = "https://proxy.example.com/hooks/client123"
	base := key("user_1", url, `{"b":1,"a":{"y":[2,1],"x":null}}`, "")
	if got := (Identity{Digits: 32}).newID(base); got != "sub_c8d90d7c57cb385765c310b40832534c" {
		t.Errorf("id %s", got)
	}
	for name, same := range map[string]string{
		"key order and white space": key("user_1", url, ` { "a" : {"x":null, "y":[2,1]}, "b":1 }`, ""),
		"1.0 and 1e0":               key("user_1", url, `{"b":1.0,"a":{"y":[2e0,1],"x":null}}`, ""),
	} {
		if same != base {
			t.Errorf("%s make another key", name)
		}
	}
	for name, other := range map[string]string{
		"array order":     key("user_1", url, `{"b":1,"a":{"y":[1,2],"x":null}}`, ""),
		"null and absent": key("user_1", url, `{"b":1,"a":{"y":[2,1]}}`, ""),
		"principal":       key("user_2", url, `{"b":1,"a":{"y":[2,1],"x":null}}`, ""),
		"trailing slash":  key("user_1", url+"/", `{"b":1,"a":{"y":[2,1],"x":null}}`, ""),
		"ledger":          key("user_1", url, `{"b":1,"a":{"y":[2,1],"x":null}}`, "l"),
	} {
		if other == base {
			t.Errorf("another %s makes the same key", name)
		}
	}
}

// TestControlBodies pins the bytes whose signatures contract e.1 lists.
func TestControlBodies(t *testing.T) {
	revoked := (&Error{Meaning: Forbidden, Message: "Forbidden"}).with("reason", "Access revoked")
	for want, body := range map[string]any{
		`{"type":"verification","challenge":"n0nce-0123456789abcdef"}`:                                           Challenge{"verification", "n0nce-0123456789abcdef"},
		`{"type":"gap","cursor":"c100"}`:                                                                         gapBody{"gap", "c100"},
		`{"type":"terminated","error":{"code":-32012,"message":"Forbidden","data":{"reason":"Access revoked"}}}`: terminatedBody{"terminated", ErrorOf(revoked, DialectSketch)},
		`{"type":"terminated","error":{"code":-32024,"message":"Forbidden","data":{"reason":"Access revoked"}}}`: terminatedBody{"terminated", ErrorOf(revoked, DialectSEP)},
	} {
		if got := string(wireJSON(body)); got != want {
			t.Errorf("body %s, want %s", got, want)
		}
	}
	cursor := "c42"
	b1 := `{"eventId":"evt_789","name":"incident.created","timestamp":"2026-02-19T16:00:00.000Z","data":{"incidentId":"INC-1234","severity":"P1"},"cursor":"c42"}`
	got := render(placed{Occurrence{EventID: "evt_789", Name: "incident.created", Timestamp: stamp(time.Unix(1771516800, 0)),
		Data: json.RawMessage(`{"incidentId":"INC-1234","severity":"P1"}`)}, &cursor})
	if string(got) != b1 {
		t.Errorf("event body %s, want %s", got, b1)
	}
}

func TestCodesByMeaning(t *testing.T) {
	for m, want := range map[Meaning][2]int{InvalidParams: {-32602, -32602}, NotFound: {-32011, -32023}, Forbidden: {-32012, -32024},
		ResourceExhausted: {-32013, -32025}, Unsupported: {-32014, -32026}, CallbackEndpointError: {-32015, -32027}} {
		if got := [2]int{m.Code(DialectSketch), m.Code(DialectSEP)}; got != want {
			t.Errorf("%s has codes %v, want %v", m, got, want)
		}
		for _, code := range want {
			if MeaningOf(code) != m {
				t.Errorf("code %d means %s, want %s", code, MeaningOf(code), m)
			}
		}
	}
	if w := ErrorOf(errors.New("db password is x"), DialectSEP); w.Code != -32603 || w.Message != "internal error" {
		t.Errorf("an unknown error shows %+v", w)
	}
}

// TestOnlyTwoHundredsAreDone is public case 36, over every status and preset.
func TestOnlyTwoHundredsAreDone(t *testing.T) {
	for _, p := range []Policy{SEP(), Relay(), Ledger(), {Verdicts: Verdicts{Gone: End, TooLarge: End, TooEarly: Drop, Refused: End, Redirect: Drop}}} {
		for status := range 1000 {
			o := Outcome{Status: status}
			done := status >= 200 && status < 300
			if v := p.Verdicts.withDefaults().Judge(o); (v == Done) != done || v == "" {
				t.Errorf("%d is %q", status, v)
			}
		}
		if v := p.Verdicts.Judge(Outcome{Err: errors.New("x")}); v != Again {
			t.Errorf("no answer is %q", v)
		}
	}
}

func TestScheduleNeverWaitsLessThanAskedNorPastTheDeadline(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		s := Schedule{Base: time.Duration(1 + r.Int64N(int64(time.Hour))), Factor: 1 + 3*r.Float64(), Attempts: 1 + r.IntN(12), Jitter: r.Float64()}
		s.Max = s.Base * time.Duration(1+r.IntN(100))
		if r.IntN(3) == 0 {
			s.Delays = StandardWebhooks()
		}
		s = s.withDefaults()
		n, asked, now := 1+r.IntN(14), time.Duration(r.Int64N(int64(30*time.Hour))), time.Unix(1e9, 0)
		deadline := now.Add(time.Duration(r.Int64N(int64(40 * time.Hour))))
		next, ok := s.Next(n, now, asked, deadline, r.Float64())
		wait, more := s.Wait(n)
		switch {
		case ok && !more, ok && next.After(deadline), ok && next.Sub(now) < min(asked, s.MaxRetryAfter):
			t.Fatalf("%+v after %d, asked %v: next in %v", s, n, asked, next.Sub(now))
		case ok && float64(next.Sub(now)) < float64(wait)*(1-s.Jitter)-1:
			t.Fatalf("%+v after %d: waits %v, less than jitter allows", s, n, next.Sub(now))
		case n >= s.Attempts && more:
			t.Fatalf("%+v allows attempt %d", s, n+1)
		}
	}
}

func TestPresetSchedules(t *testing.T) {
	waits := func(s Schedule) (all []time.Duration) {
		for n := 1; ; n++ {
			w, ok := s.Wait(n)
			if !ok {
				return all
			}
			all = append(all, w)
		}
	}
	if got := waits(Ledger().Schedule); !slices.Equal(got, StandardWebhooks()) {
		t.Errorf("ledger waits %v", got)
	}
	var total time.Duration
	for _, w := range waits(Relay().Schedule) {
		total += w
	}
	if total != 123*time.Minute {
		t.Errorf("the relay's eighth attempt is %v after the first, want 123 minutes", total)
	}
	if got := waits(SEP().Schedule); len(got) != 4 {
		t.Errorf("sep waits %v, want 4 waits for 5 attempts", got)
	}
}

func TestZeroPolicyIsSEP(t *testing.T) {
	if a, b := (Policy{}).withDefaults(), SEP(); !reflect.DeepEqual(a, b) {
		t.Errorf("zero policy %+v, SEP %+v", a, b)
	}
	for name, p := range map[string]Policy{"zero": {}, "relay": Relay(), "ledger": Ledger()} {
		p = p.withDefaults()
		if err := p.validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPolicyProblemsAreAllNamed(t *testing.T) {
	p := Policy{Identity: Identity{Digits: 4}, Lifetime: Lifetime{Min: time.Hour, Default: time.Minute}, Timeout: time.Hour,
		Schedule: Schedule{Factor: 0.5}, Modes: map[Dialect][]Mode{"x": nil}}.withDefaults()
	err := p.validate()
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 5 {
		t.Errorf("problems: %v; want five", err)
	}
}

func TestCursors(t *testing.T) {
	h := driver.Head{Newest: 50, Forgotten: 10, Epoch: "ABC"}
	for _, c := range []struct {
		name   string
		replay Replay
		cursor string
		want   position
	}{
		{"its own", Replay{}, "ABC-20", position{20, false}},
		{"the end", Replay{}, "ABC-50", position{50, false}},
		{"the edge of what is kept", Replay{}, "ABC-10", position{10, false}},
		{"forgotten", Replay{}, "ABC-9", position{10, true}},
		{"beyond the end", Replay{}, "ABC-51", position{50, true}},
		{"another epoch", Replay{}, "ABD-20", position{50, true}},
		{"negative", Replay{}, "ABC--1", position{50, true}},
		{"sixteen digits", Replay{Digits: true, Lenient: true}, "1000000000000000", position{50, false}},
		{"fifteen digits beyond", Replay{Digits: true, Lenient: true}, "999999999999999", position{50, false}},
		{"digits", Replay{Digits: true, Lenient: true}, "41", position{41, false}},
		{"digits forgotten", Replay{Digits: true, Lenient: true}, "0", position{10, true}},
		{"not digits", Replay{Digits: true, Lenient: true}, "4x", position{50, false}},
	} {
		if got := c.replay.read(Cursor{c.cursor, true}, h); got != c.want {
			t.Errorf("%s: %q is %+v, want %+v", c.name, c.cursor, got, c.want)
		}
	}
	if got := (Replay{}).read(Cursor{}, h); got != (position{50, false}) {
		t.Errorf("null is %+v", got)
	}
	for _, r := range []Replay{{}, {Digits: true}} {
		if got := r.read(Cursor{r.write(33, "ABC"), true}, h); got != (position{33, false}) {
			t.Errorf("%+v reads its own cursor as %+v", r, got)
		}
	}
}

func TestBreaks(t *testing.T) {
	for _, c := range []struct {
		name      string
		kind      SchemaKind
		old, next string
		breaks    int
	}{
		{"the same", InputSchema, `{"type":"object"}`, `{"type":"object"}`, 0},
		{"another description", PayloadSchema, `{"description":"a"}`, `{"description":"b"}`, 0},
		{"an optional argument", InputSchema, `{"properties":{}}`, `{"properties":{"a":{"type":"string"}}}`, 0},
		{"a new payload member", PayloadSchema, `{"properties":{}}`, `{"properties":{"a":{"type":"string"}},"required":["a"]}`, 0},
		{"a removed member", PayloadSchema, `{"properties":{"a":{}}}`, `{"properties":{}}`, 1},
		{"another type", PayloadSchema, `{"properties":{"a":{"type":"string"}}}`, `{"properties":{"a":{"type":"number"}}}`, 1},
		{"a required argument", InputSchema, `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"required":["a"]}`, 1},
		{"a payload member no longer required", PayloadSchema, `{"required":["a"]}`, `{}`, 1},
		{"a narrower enum", InputSchema, `{"enum":["a","b"]}`, `{"enum":["a"]}`, 1},
		{"a wider enum", InputSchema, `{"enum":["a"]}`, `{"enum":["a","b"]}`, 0},
		{"a new bound", InputSchema, `{"type":"string"}`, `{"type":"string","maxLength":3}`, 1},
		{"a change deep inside", PayloadSchema, `{"properties":{"a":{"items":{"properties":{"b":{"type":"string"}}}}}}`, `{"properties":{"a":{"items":{"properties":{"b":{"type":"null"}}}}}}`, 1},
		{"arguments opened", InputSchema, `{"additionalProperties":false}`, `{}`, 0},
		{"arguments closed", InputSchema, `{}`, `{"additionalProperties":false}`, 1},
	} {
		if got := Breaks(c.kind, json.RawMessage(c.old), json.RawMessage(c.next)); len(got) != c.breaks {
			t.Errorf("%s: %v, want %d breaks", c.name, got, c.breaks)
		}
	}
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[]}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"events/list","params":{"_meta":{}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := readMessage(raw)
		if err == nil && !json.Valid(raw) {
			t.Errorf("message of %q", raw)
		}
		_ = m.checkRevision()
		if _, _, valid := readTTL(raw); valid && len(raw) > 0 && !json.Valid(raw) {
			t.Skip() // ttlMs is cut out of valid JSON
		}
		for _, r := range []Replay{{}, {Digits: true}} {
			if p := r.read(Cursor{string(raw), true}, driver.Head{Newest: 9, Forgotten: 3, Epoch: "E"}); p.after < 3 || p.after > 9 {
				t.Errorf("cursor %q is at %d", raw, p.after)
			}
		}
	})
}
