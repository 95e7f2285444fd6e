package receive

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents/eventstest"
)

var atNoon = time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)

// played is what a script answers to so many deliveries, or to challenges that say "nonce".
func played(t *testing.T, text string, challenges bool, n int) (steps []eventstest.Step) {
	t.Helper()
	s, err := ParseScript(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for range n {
		a := s.next(challenges)
		var challenge *string
		if challenges {
			challenge = new("nonce")
		}
		steps = append(steps, a.step(challenge, atNoon))
	}
	return steps
}

func TestAScriptAnswersDeliveriesInOrder(t *testing.T) {
	ok := eventstest.Status(204)
	for text, want := range map[string][]eventstest.Step{
		"":                              {ok, ok},
		" ":                             {ok, ok},
		"410":                           {{Status: 410}, ok},
		"503*2, 413 , ok":               {{Status: 503}, {Status: 503}, {Status: 413}, ok, ok},
		"500*":                          {{Status: 500}, {Status: 500}, {Status: 500}},
		"200,echo,599":                  {{Status: 200}, {Status: 599}, ok},
		"429=7":                         {{Status: 429, Header: map[string]string{"Retry-After": "7"}}},
		"503=date+90s":                  {{Status: 503, Header: map[string]string{"Retry-After": "Mon, 30 Nov 2026 12:01:30 GMT"}}},
		`429="soon, *3"*2`:              {{Status: 429, Header: map[string]string{"Retry-After": "soon, *3"}}, {Status: 429, Header: map[string]string{"Retry-After": "soon, *3"}}, ok},
		`429=""`:                        {{Status: 429}, ok},
		"slow=10s":                      {{Status: 204, After: 10 * time.Second}},
		"slow=1m30s+503*2":              {{Status: 503, After: 90 * time.Second}, {Status: 503, After: 90 * time.Second}, ok},
		"slow=1s+429=date+2s":           {{Status: 429, After: time.Second, Header: map[string]string{"Retry-After": "Mon, 30 Nov 2026 12:00:02 GMT"}}},
		"drip=1s":                       {{Status: 200, Drip: time.Second, Body: "OK\n"}},
		"slow=2s+drip=1s+500":           {{Status: 500, After: 2 * time.Second, Drip: time.Second, Body: "Internal Server Error\n"}},
		"drip=1s+204":                   {{Status: 204, Drip: time.Second}},
		"redirect=http://127.0.0.1:9/x": {{Status: 302, Header: map[string]string{"Location": "http://127.0.0.1:9/x"}}},
		`redirect="https://a.example/?a=1,2*3",drop`: {{Status: 302, Header: map[string]string{"Location": "https://a.example/?a=1,2*3"}}, {Status: 204, Abort: true}},
		"hang,challenge:500":                         {{Status: 204, Hang: true}, ok},
		"wrong-echo,echo*":                           {ok, ok},
	} {
		if diff := cmp.Diff(want, played(t, text, false, len(want))); diff != "" {
			t.Errorf("%q (-want +have):\n%s", text, diff)
		}
	}
}

func TestAScriptAnswersChallengesApart(t *testing.T) {
	good, bad := eventstest.Echo("nonce"), eventstest.Echo("not-nonce")
	slow := good
	slow.After = time.Second
	dripping := good
	dripping.Drip = time.Second
	for text, want := range map[string][]eventstest.Step{
		"":                               {good, good},
		"500*":                           {good, good},
		"wrong-echo,503,echo,wrong-echo": {bad, good, bad, good},
		"challenge:404*2":                {{Status: 404}, {Status: 404}, good},
		"challenge:slow=1s,slow=1s+wrong-echo*2": {slow, {Status: 200, Header: bad.Header, Body: bad.Body, After: time.Second},
			{Status: 200, Header: bad.Header, Body: bad.Body, After: time.Second}, good},
		"challenge:drip=1s,challenge:redirect=http://127.0.0.1/": {dripping, {Status: 302, Header: map[string]string{"Location": "http://127.0.0.1/"}}},
		"challenge:drop,challenge:ok*":                           {{Status: 204, Abort: true}, good, good},
	} {
		if diff := cmp.Diff(want, played(t, text, true, len(want))); diff != "" {
			t.Errorf("%q (-want +have):\n%s", text, diff)
		}
	}
}

func TestABadScriptIsToldWhereAndWhy(t *testing.T) {
	for text, want := range map[string]string{
		"ok,,ok":                         `step 2 of the script, "": it is empty; known are ok, echo`,
		"ok,":                            `step 2 of the script, ""`,
		"yes":                            `step 1 of the script, "yes": that is no answer; known are ok, echo`,
		"OK":                             "that is no answer",
		"100":                            "a status is 200 to 599",
		"600":                            "a status is 200 to 599",
		"0503":                           "that is no answer",
		"+503":                           "that is no answer",
		"-503":                           "a status is 200 to 599",
		"500*0":                          "after * stands how often",
		"500*+2":                         "after * stands how often",
		"500*100001":                     "after * stands how often",
		"500*x":                          "after * stands how often",
		"500*,ok":                        "the step before, 500*, is for all the rest",
		"echo*,wrong-echo":               "is for all the rest",
		"*3":                             "it is empty",
		"429=":                           "after 429= stands a Retry-After",
		"429=7s":                         "after 429= stands a Retry-After",
		"429=-5":                         "after 429= stands a Retry-After",
		"429=soon":                       "after 429= stands a Retry-After",
		"429=\"a\x07\"":                  "after 429= stands a Retry-After",
		"429=date+":                      "after date+ stands a time",
		"429=date+-5s":                   "after date+ stands a time",
		"429=date+9000h":                 "after date+ stands a time",
		`429="7`:                         "never closed",
		"slow":                           "slow takes a time",
		"slow=":                          "slow takes a time",
		"slow=10":                        "slow takes a time",
		"slow=-1s":                       "slow takes a time",
		"slow=2h":                        "slow takes a time",
		"slow=1s+":                       "it is empty",
		"slow=1s+drop":                   "cannot be with drop",
		"slow=1s+slow=2s":                "slow stands twice",
		"drip=1s+hang":                   "cannot be with drop or hang",
		"drop=1":                         "that is no answer",
		"redirect":                       "redirect takes an address",
		"redirect=":                      "redirect takes an address",
		"redirect=http://[::1":           "redirect takes an address",
		"challenge:":                     "it is empty",
		strings.Repeat(" ", maxScript+1): "more than 16384 bytes",
	} {
		if _, err := ParseScript(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
}

// FuzzParseScript holds every script that is taken to its own spelling, and to headers and statuses that HTTP allows.
func FuzzParseScript(f *testing.F) {
	for _, text := range []string{"ok,echo,wrong-echo,410,413", "429=7*3,503=date+30s,429=\"soon, *\"", "slow=10s+503*2,drip=1s,drop,hang*", "redirect=\"http://a/,*\",challenge:500*", "challenge:slow=1s+echo"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScript(text)
		if err != nil {
			return
		}
		again, err := ParseScript(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is written %q, which reads as %q, %v", text, s, again, err)
		}
		if diff := cmp.Diff(s, again, cmp.AllowUnexported(Script{}, step{}, answer{})); diff != "" {
			t.Fatalf("%q is written %q and reads otherwise:\n%s", text, s, diff)
		}
		for i := range 20 {
			a := s.next(i%2 == 0)
			step := a.step(nil, atNoon)
			if step.Status < 200 || step.Status > 599 || step.After < 0 || step.After > maxSlow {
				t.Errorf("%q answers %+v", text, step)
			}
			for name, value := range step.Header {
				if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%q sends %s: %q", text, name, value)
				}
			}
		}
	})
}
