package mcpevents_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/eventstest"
)

// Public case 49.
func TestCapabilitiesStandInBothPlaces(t *testing.T) {
	w := newWorld(t, newMemory(), mcpevents.SEP(), func(_ *mcpevents.Family, o *mcpevents.Options) { o.ListChanged = true })
	c := map[string]any{"tools": map[string]any{}, "extensions": map[string]any{"other": 1}}
	w.srv.Capabilities(c)
	got, _ := json.Marshal(c)
	want := `{"events":{"listChanged":true},"extensions":{"io.modelcontextprotocol/events":{"listChanged":true},"other":1},"tools":{}}`
	if string(got) != want {
		t.Errorf("capabilities %s, want %s", got, want)
	}
}

func TestDialectOfARequest(t *testing.T) {
	for in, want := range map[string]mcpevents.Dialect{
		``: mcpevents.DialectSketch, `{}`: mcpevents.DialectSketch, `{"events":{}}`: mcpevents.DialectSketch, `[]`: mcpevents.DialectSketch,
		`{"extensions":{"other":{}}}`:                                         mcpevents.DialectSketch,
		`{"extensions":{"io.modelcontextprotocol/events":{}}}`:                mcpevents.DialectSEP,
		`{"tools":1,"extensions":{"io.modelcontextprotocol/events":{"x":1}}}`: mcpevents.DialectSEP,
	} {
		if got := mcpevents.DialectOf(json.RawMessage(in)); got != want {
			t.Errorf("DialectOf(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestListIsSortedAndPaged(t *testing.T) {
	var types []mcpevents.EventType
	for i := range 250 {
		types = append(types, mcpevents.EventType{Name: fmt.Sprintf("t%03d", (i*77)%250)})
	}
	catalog, err := mcpevents.NewCatalog(types...)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, newMemory(), mcpevents.SEP(), func(f *mcpevents.Family, _ *mcpevents.Options) { f.Catalog = catalog })
	var names []string
	params := `{}`
	for pages := 1; ; pages++ {
		r := w.must(w.call(mcpevents.DialectSEP, "events/list", "%s", params))
		for _, e := range r["events"].([]any) {
			names = append(names, e.(map[string]any)["name"].(string))
		}
		next, more := r["nextCursor"].(string)
		if !more {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
		params = fmt.Sprintf(`{"cursor":%q}`, next)
	}
	for i, name := range names {
		if name != fmt.Sprintf("t%03d", i) {
			t.Fatalf("name %d is %s", i, name)
		}
	}
	if len(names) != 250 {
		t.Errorf("%d names, want 250", len(names))
	}
	_, err = w.call(mcpevents.DialectSEP, "events/list", `{"cursor":"?"}`)
	wantError(t, err, mcpevents.DialectSEP, -32602, nil)
}

func TestListShowsADialectItsModes(t *testing.T) {
	w := newWorld(t, newMemory(), mcpevents.Relay(), nil)
	modes := func(d mcpevents.Dialect) string {
		r := w.must(w.call(d, "events/list", `{}`))
		for _, e := range r["events"].([]any) {
			if e := e.(map[string]any); e["name"] == "ticket.opened" {
				return fmt.Sprint(e["delivery"])
			}
		}
		return "none"
	}
	if got := modes(mcpevents.DialectSketch); got != "[webhook]" {
		t.Errorf("sketch sees %s", got)
	}
	if got := modes(mcpevents.DialectSEP); got != "[webhook poll push]" {
		t.Errorf("sep sees %s", got)
	}
}

// TestSubscribeRefusals is contract e.4, each bad input otherwise valid, under both dialects.
func TestSubscribeRefusals(t *testing.T) {
	const good = `"name":"ticket.opened","arguments":{},`
	delivery := func(mode, address, secret string) string {
		return fmt.Sprintf(`"delivery":{"mode":%q,"url":%q,"secret":%s}`, mode, address, secret)
	}
	q := func(s string) string { return `"` + s + `"` }
	ok := delivery("webhook", hookURL, q(secret1))
	for _, c := range []struct {
		name, params string
		sketch, sep  int
		data         map[string]any
	}{
		{"an unknown event", `"name":"nope","arguments":{},` + ok, -32011, -32023, map[string]any{"kind": "event"}},
		{"no name", `"arguments":{},` + ok, -32602, -32602, nil},
		{"mode poll", good + delivery("poll", hookURL, q(secret1)), -32014, -32026, map[string]any{"feature": "deliveryMode", "value": "poll"}},
		{"arguments against the schema", `"name":"ticket.opened","arguments":{"severity":"P9"},` + ok, -32602, -32602, nil},
		{"arguments that are extra", `"name":"ticket.opened","arguments":{"x":1},` + ok, -32602, -32602, nil},
		{"arguments that are no object", `"name":"ticket.opened","arguments":[],` + ok, -32602, -32602, nil},
		{"arguments with a repeated name", `"name":"ticket.opened","arguments":{"severity":"P1","severity":"P2"},` + ok, -32602, -32602, nil},
		{"repeated parameters", `"name":"ticket.opened",` + good + ok, -32602, -32602, nil},
		{"http", good + delivery("webhook", "http://agent.example.com/", q(secret1)), -32602, -32602, nil},
		{"credentials in the url", good + delivery("webhook", "https://u:p@agent.example.com/", q(secret1)), -32602, -32602, nil},
		{"a private address", good + delivery("webhook", "https://10.0.0.1/", q(secret1)), -32602, -32602, nil},
		{"a single label", good + delivery("webhook", "https://relay/", q(secret1)), -32602, -32602, nil},
		{"another port", good + delivery("webhook", "https://agent.example.com:8443/", q(secret1)), -32602, -32602, nil},
		{"no url", good + `"delivery":{"mode":"webhook","secret":"` + secret1 + `"}`, -32602, -32602, nil},
		{"a short secret", good + delivery("webhook", hookURL, q("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=")), -32602, -32602, nil},
		{"a long secret", good + delivery("webhook", hookURL, q("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A=")), -32602, -32602, nil},
		{"a secret without prefix", good + delivery("webhook", hookURL, q(secret1[6:])), -32602, -32602, nil},
		{"a number for a secret", good + delivery("webhook", hookURL, "7"), -32602, -32602, nil},
		{"null for a secret", good + delivery("webhook", hookURL, "null"), -32602, -32602, nil},
		{"no delivery", `"name":"ticket.opened"`, -32602, -32602, nil},
		{"a number for a cursor", good + ok + `,"cursor":7`, -32602, -32602, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for d, code := range map[mcpevents.Dialect]int{mcpevents.DialectSketch: c.sketch, mcpevents.DialectSEP: c.sep} {
				w := newWorld(t, newMemory(), mcpevents.SEP(), nil)
				w.receiver()
				_, err := w.call(d, "events/subscribe", "{%s}", c.params)
				wantError(t, err, d, code, c.data)
				if n := w.net.Calls("agent.example.com"); n != 0 {
					t.Errorf("%d requests were made before the refusal", n)
				}
			}
		})
	}
}

func TestSubscribingNeedsAPrincipal(t *testing.T) {
	w := newWorld(t, newMemory(), mcpevents.SEP(), nil)
	w.caller = mcpevents.Caller{}
	for d, code := range map[mcpevents.Dialect]int{mcpevents.DialectSketch: -32012, mcpevents.DialectSEP: -32024} {
		_, err := w.call(d, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":%q,"secret":%q}}`, hookURL, secret1)
		wantError(t, err, d, code, nil)
		_, err = w.call(d, "events/unsubscribe", `{"name":"ticket.opened","delivery":{"url":%q}}`, hookURL)
		wantError(t, err, d, code, nil)
	}
	w.must(w.call(mcpevents.DialectSEP, "events/poll", `{"name":"ticket.opened"}`))
}

// TestVerificationFailures is the second half of contract e.4: a category and nothing of what the endpoint said.
func TestVerificationFailures(t *testing.T) {
	status := func(s eventstest.Step) func(string) eventstest.Step { return func(string) eventstest.Step { return s } }
	for _, c := range []struct {
		name   string
		answer func(string) eventstest.Step
		reason string
	}{
		{"a wrong echo", status(eventstest.Echo("wrong")), "challenge_failed"},
		{"no echo", status(eventstest.Step{Status: 200, Body: `{}`}), "challenge_failed"},
		{"no JSON", status(eventstest.Step{Status: 200, Body: `PRIVATE TEXT`}), "challenge_failed"},
		{"an echo of another type", status(eventstest.Step{Status: 200, Body: `{"challenge":7}`}), "challenge_failed"},
		{"an oversized echo", func(c string) eventstest.Step {
			return eventstest.Step{Status: 200, Body: `{"challenge":"` + c + `","x":"` + strings.Repeat("x", 1<<17) + `"}`}
		}, "challenge_failed"},
		{"404", status(eventstest.Step{Status: 404, Body: "PRIVATE TEXT"}), "http_4xx"},
		{"500", status(eventstest.Step{Status: 500, Body: "PRIVATE TEXT"}), "http_5xx"},
		{"a redirect to an echoing address", status(eventstest.Step{Status: 302, Header: map[string]string{"Location": "https://echo.example.com/"}}), "http_4xx"},
		{"hanging", status(eventstest.Hang()), "timeout"},
		{"a broken connection", status(eventstest.Step{Abort: true}), "connection_refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, mcpevents.SEP(), func(w *world) {
				w.net.Handle("echo.example.com", eventstest.NewReceiver())
				w.receiver().Challenges(c.answer)
				_, err := w.trySubscribe()
				wantError(t, err, mcpevents.DialectSketch, -32015, map[string]any{"reason": c.reason})
				if text := fmt.Sprintf("%+v", mcpevents.ErrorOf(err, mcpevents.DialectSketch)); strings.Contains(text, "PRIVATE") {
					t.Errorf("the endpoint's text is in the reply: %s", text)
				}
				if subs, err := w.srv.Subscriptions(w.Context(), mcpevents.SubscriptionFilter{}); err != nil || len(subs) != 0 {
					t.Errorf("subscriptions %v, %v; want none", subs, err)
				}
				if n := w.net.Calls("echo.example.com"); n != 0 {
					t.Errorf("the redirect was followed")
				}
			})
		})
	}
}

// TestVerificationReasonsFollowThePolicy is public case 149: the number follows the dialect, the word the policy.
func TestVerificationReasonsFollowThePolicy(t *testing.T) {
	for _, c := range []struct {
		policy mcpevents.Policy
		answer eventstest.Step
		reason string
	}{
		{mcpevents.Relay(), eventstest.Echo("x"), "challenge_mismatch"},
		{mcpevents.Relay(), eventstest.Status(302), "bad_status"},
		{mcpevents.Relay(), eventstest.Hang(), "unreachable"},
		{mcpevents.Ledger(), eventstest.Echo("x"), "challenge_failed"},
		{mcpevents.Ledger(), eventstest.Hang(), "timeout"},
		{mcpevents.Ledger(), eventstest.Status(500), "challenge_failed"},
	} {
		bubble(t, c.policy, func(w *world) {
			w.receiver().Challenges(func(string) eventstest.Step { return c.answer })
			for d, code := range map[mcpevents.Dialect]int{mcpevents.DialectSketch: -32015, mcpevents.DialectSEP: -32027} {
				_, err := w.call(d, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":%q,"secret":%q}}`, hookURL, secret1)
				wantError(t, err, d, code, map[string]any{"reason": c.reason})
			}
		})
	}
}

func TestPresetRefusals(t *testing.T) {
	for _, c := range []struct {
		name, params string
		policy       mcpevents.Policy
		code         int
		data         map[string]any
	}{
		{"relay: unknown event", `"name":"x","delivery":{"url":"https://a.example.com/"}`, mcpevents.Relay(), -32602, nil},
		{"relay: bad ttl", `"name":"ticket.opened","ttlMs":0,"delivery":{"url":"https://a.example.com/","secret":"` + secret1 + `"}`, mcpevents.Relay(), -32602, nil},
		{"ledger: unknown event", `"name":"x"`, mcpevents.Ledger(), -32602, map[string]any{"reason": "unknown_event"}},
		{"ledger: arguments", `"name":"ticket.opened","arguments":{"x":1}`, mcpevents.Ledger(), -32602, map[string]any{"reason": "invalid_arguments"}},
		{"ledger: mode", `"name":"ticket.opened","delivery":{"mode":"push"}`, mcpevents.Ledger(), -32602, map[string]any{"reason": "delivery_mode"}},
		{"ledger: private address", `"name":"ticket.opened","delivery":{"url":"https://127.0.0.1/","secret":"x"}`, mcpevents.Ledger(), -32015, map[string]any{"reason": "url_rejected"}},
		{"ledger: malformed address", `"name":"ticket.opened","delivery":{"url":"x","secret":"x"}`, mcpevents.Ledger(), -32015, map[string]any{"reason": "url_rejected"}},
		{"ledger: secret", `"name":"ticket.opened","delivery":{"url":"https://a.example.com/","secret":"x"}`, mcpevents.Ledger(), -32602, map[string]any{"reason": "secret_invalid"}},
		{"ledger: ttl", `"name":"ticket.opened","ttlMs":1.5,"delivery":{"url":"https://a.example.com/","secret":"` + secret1 + `"}`, mcpevents.Ledger(), -32602, map[string]any{"reason": "invalid_arguments"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, newMemory(), c.policy, nil)
			_, err := w.call(mcpevents.DialectSketch, "events/subscribe", "{%s}", c.params)
			wantError(t, err, mcpevents.DialectSketch, c.code, c.data)
		})
	}
}

func TestQuotaIsCheckedBeforeAnythingIsContacted(t *testing.T) {
	p := mcpevents.SEP()
	p.Quotas.Subscriptions = 1
	bubble(t, p, func(w *world) {
		w.receiver()
		w.subscribe()
		w.subscribe() // a refresh is no new one
		_, err := w.trySubscribe(`"arguments":{"severity":"P1"}`)
		wantError(t, err, mcpevents.DialectSketch, -32013, map[string]any{"limit": "subscriptions", "max": 1})
		if n := w.net.Calls("agent.example.com"); n != 1 {
			t.Errorf("%d requests, want the first challenge only", n)
		}
		w.caller.Principal = "user_2"
		w.subscribe()
	})
}

// TestOneChallengeForManyArguments is public case 57.
func TestOneChallengeForManyArguments(t *testing.T) {
	p := mcpevents.SEP()
	p.Quotas.Subscriptions = -1
	bubble(t, p, func(w *world) {
		r := w.receiver()
		var all sync.WaitGroup
		for range 50 {
			for _, arguments := range []string{`{}`, `{"severity":"P1"}`, `{"severity":"P2"}`} {
				all.Go(func() { w.subscribe(`"arguments":` + arguments) })
			}
		}
		all.Wait()
		if n := len(r.Verifications()); n != 1 {
			t.Errorf("%d challenges for one principal and address, want 1", n)
		}
		w.caller.Principal = "user_2"
		w.subscribe()
		if n := len(r.Verifications()); n != 2 {
			t.Errorf("%d challenges with a second principal, want 2", n)
		}
		v := r.Verifications()[0]
		if !strings.HasPrefix(v.ID, "msg_verification_") || !reflect.DeepEqual(v.Secrets, []int{0}) || !strings.HasPrefix(v.Subscription, "sub_") {
			t.Errorf("challenge %+v, want it signed and named like a delivery", v)
		}
	})
}

func TestProbesOfOneHostAreLimited(t *testing.T) {
	p := mcpevents.SEP()
	p.Quotas.ProbesPerMinute = 3
	bubble(t, p, func(w *world) {
		w.receiver()
		for i := range 3 {
			w.must(w.call(mcpevents.DialectSketch, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":"https://agent.example.com/%d","secret":%q}}`, i, secret1))
		}
		try := func() error {
			_, err := w.call(mcpevents.DialectSketch, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":"https://agent.example.com/x","secret":%q}}`, secret1)
			return err
		}
		wantError(t, try(), mcpevents.DialectSketch, -32013, map[string]any{"limit": "verifications"})
		after(20 * time.Second)
		if err := try(); err != nil {
			t.Errorf("after a third of a minute: %v", err)
		}
	})
}

func TestWellKnownReceiverDocument(t *testing.T) {
	for _, c := range []struct {
		name, document, contentType string
		status                      int
		challenges                  int
	}{
		{"covers the path", `{"receivers":["/hooks"]}`, "application/json", 200, 0},
		{"covers a part of a segment only", `{"receivers":["/hoo"]}`, "application/json", 200, 1},
		{"has a wrong key", `{"receiver":["/hooks"]}`, "application/json", 200, 1},
		{"is too large", `{"receivers":["/hooks"],"x":"` + strings.Repeat("x", 65<<10) + `"}`, "application/json", 200, 1},
		{"is a redirect", `{"receivers":["/hooks"]}`, "application/json", 302, 1},
		{"is text", `{"receivers":["/hooks"]}`, "text/plain", 200, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mcpevents.SEP()
			p.Verification.WellKnown = true
			bubble(t, p, func(w *world) {
				r := eventstest.NewReceiver(secret1)
				mux := http.NewServeMux()
				mux.Handle("/hooks", r)
				mux.HandleFunc("GET /.well-known/mcp-webhook-receiver.json", func(rw http.ResponseWriter, _ *http.Request) {
					rw.Header().Set("Content-Type", c.contentType)
					rw.WriteHeader(c.status)
					_, _ = rw.Write([]byte(c.document))
				})
				w.net.Handle("agent.example.com", mux)
				w.subscribe()
				if n := len(r.Verifications()); n != c.challenges {
					t.Errorf("%d challenges, want %d", n, c.challenges)
				}
			})
		})
	}
}

func TestAllowedAddressesNeedNoProof(t *testing.T) {
	p := mcpevents.SEP()
	p.Verification.Allow = func(principal string, u *url.URL) bool { return u.Hostname() == "agent.example.com" }
	bubble(t, p, func(w *world) {
		w.subscribe() // nothing listens there
	})
}

func TestRecheckAsksAgainWhenTheProofIsOld(t *testing.T) {
	bubble(t, mcpevents.Ledger(), func(w *world) {
		r := w.receiver()
		w.subscribe()
		after(23 * time.Hour)
		w.subscribe()
		if n := len(r.Verifications()); n != 1 {
			t.Errorf("%d challenges within a day, want 1", n)
		}
		after(2 * time.Hour)
		w.subscribe()
		if n := len(r.Verifications()); n != 2 {
			t.Errorf("%d challenges after a day, want 2", n)
		}
	})
}

func TestResultAlwaysHasItsMembers(t *testing.T) {
	for name, p := range map[string]mcpevents.Policy{"sep": mcpevents.SEP(), "relay": mcpevents.Relay(), "ledger": mcpevents.Ledger()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, p, func(w *world) {
				w.receiver()
				r := w.subscribe(`"cursor":null`)
				for _, member := range []string{"id", "refreshBefore", "cursor", "truncated"} {
					if _, there := r[member]; !there {
						t.Errorf("%s is missing in %v", member, r)
					}
				}
				switch name {
				case "relay":
					if r["cursor"] != "0" || r["refreshBefore"] != "2009-12-29T00:00:00.000Z" || len(r["id"].(string)) != 24 {
						t.Errorf("relay grants %v", r)
					}
				case "ledger":
					if r["cursor"] != nil || r["refreshBefore"] != "2000-01-08T00:00:00.000Z" {
						t.Errorf("ledger grants %v", r)
					}
				}
				again := w.subscribe()
				if again["id"] != r["id"] {
					t.Errorf("a refresh changed the id")
				}
			})
		})
	}
}

// TestGrants is contract e.3 and public case 54, where the two differ the contract's.
func TestGrants(t *testing.T) {
	for _, c := range []struct {
		ttl     string
		durable bool
		forever bool
		want    time.Duration // 0 for null
	}{
		{"", false, false, 24 * time.Hour},
		{"3600000", false, false, time.Hour},
		{"1000", false, false, time.Hour},
		{"2592000000", false, false, 7 * 24 * time.Hour},
		{"1e18", false, false, 7 * 24 * time.Hour},
		{"null", false, false, 24 * time.Hour},
		{"null", false, true, 24 * time.Hour},
		{"null", true, false, 24 * time.Hour},
		{"null", true, true, 0},
		{"0", false, false, 24 * time.Hour}, {"-5", false, false, 24 * time.Hour}, {"1.5", false, false, 24 * time.Hour},
		{`"x"`, false, false, 24 * time.Hour}, {"1e400", false, false, 24 * time.Hour}, {"true", false, false, 24 * time.Hour},
	} {
		t.Run(fmt.Sprintf("%s durable=%t forever=%t", c.ttl, c.durable, c.forever), func(t *testing.T) {
			p := mcpevents.SEP()
			if c.forever {
				p.Lifetime.Null = mcpevents.NullForever
			}
			bubbleOn(t, c.durable, p, func(w *world) {
				w.receiver()
				var more []string
				if c.ttl != "" {
					more = append(more, `"ttlMs":`+c.ttl)
				}
				var want any
				if c.want != 0 {
					want = time.Now().Add(c.want).UTC().Format("2006-01-02T15:04:05.000Z07:00")
				}
				if got := w.subscribe(more...)["refreshBefore"]; got != want {
					t.Errorf("refreshBefore %v, want %v", got, want)
				}
				w.subscribe(`"ttlMs":7200000`)
				if got := w.subscribe(`"ttlMs":7200000`)["refreshBefore"]; got == nil {
					t.Errorf("a finite ttl after %s stays without end", c.ttl)
				}
			})
		})
	}
}

func TestUnsubscribeAnswers(t *testing.T) {
	w := newWorld(t, newMemory(), mcpevents.SEP(), nil)
	const params = `{"name":"ticket.opened","delivery":{"mode":"webhook","url":"https://agent.example.com/hooks"}}`
	if r := w.must(w.call(mcpevents.DialectSketch, "events/unsubscribe", params)); len(r) != 0 {
		t.Errorf("sketch: %v, want {}", r)
	}
	_, err := w.call(mcpevents.DialectSEP, "events/unsubscribe", params)
	wantError(t, err, mcpevents.DialectSEP, -32023, map[string]any{"kind": "subscription"})
}

func TestRevokingEndsEverything(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver()
		w.must(w.call(mcpevents.DialectSEP, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":%q,"secret":%q}}`, hookURL, secret1))
		if err := w.srv.Revoke(w.Context(), "user_1"); err != nil {
			t.Fatal(err)
		}
		w.emit("e1")
		after(time.Hour)
		if n := len(r.Deliveries()); n != 0 {
			t.Errorf("%d deliveries after revoking", n)
		}
		got := r.Control("terminated")
		if len(got) != 1 || !strings.Contains(string(got[0].Body), `"code":-32024`) || !strings.Contains(string(got[0].Body), `"reason":"revoked"`) {
			t.Errorf("terminated bodies %v, want one that says revoked", got)
		}
	})
}

func TestEndPostsTerminatedToThoseWhoKnowIt(t *testing.T) {
	for d, want := range map[mcpevents.Dialect]int{mcpevents.DialectSEP: 1, mcpevents.DialectSketch: 0} {
		bubble(t, mcpevents.SEP(), func(w *world) {
			r := w.receiver()
			id := w.must(w.call(d, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":%q,"secret":%q}}`, hookURL, secret1))["id"].(string)
			if err := w.srv.End(w.Context(), id, "withdrawn"); err != nil {
				t.Fatal(err)
			}
			after(time.Second)
			got := r.Control("terminated")
			if len(got) != want {
				t.Fatalf("%s: %d terminated bodies, want %d", d, len(got), want)
			}
			if want == 1 && !strings.Contains(string(got[0].Body), `"code":-32024`) {
				t.Errorf("body %s, want the dialect's Forbidden", got[0].Body)
			}
		})
	}
}

func TestRemovingATypeEndsItsSubscriptions(t *testing.T) {
	catalog := ticketCatalog(t)
	bubbleWith(t, mcpevents.SEP(), func(f *mcpevents.Family, o *mcpevents.Options) { f.Catalog, o.ListChanged = catalog, true }, func(w *world) {
		r := w.receiver()
		id := w.must(w.call(mcpevents.DialectSEP, "events/subscribe", `{"name":"ticket.opened","delivery":{"url":%q,"secret":%q}}`, hookURL, secret1))["id"].(string)
		changes, stop := w.srv.ListChanges()
		defer stop()
		change, err := catalog.Replace(mcpevents.EventType{Name: "other"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"hook.only", "ticket.closed", "ticket.opened", "tick"}, change.Removed, cmp.Transformer("set", func(s []string) map[string]bool {
			m := map[string]bool{}
			for _, x := range s {
				m[x] = true
			}
			return m
		})); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
		if err := w.srv.Announce(w.Context(), "test", "", change); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		select {
		case <-changes:
		default:
			t.Error("the list's listeners were not told")
		}
		got := r.Control("terminated")
		if len(got) != 1 || !strings.Contains(string(got[0].Body), `"kind":"event"`) {
			t.Errorf("terminated bodies %v, want one of NotFound, kind event", got)
		}
		if sub, _ := w.srv.Subscription(w.Context(), id); sub.Reason != mcpevents.ReasonRemoved {
			t.Errorf("subscription %s (%s)", sub.State, sub.Reason)
		}
	})
}

func TestFiltersChooseByArguments(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver()
		w.subscribe(`"arguments":{"severity":"P2"}`)
		w.emit("p1")
		w.emit("p2", func(e *mcpevents.Emission) { e.Data = rawMessage(`{"id":"x","severity":"P2"}`) })
		after(time.Second)
		if diff := cmp.Diff([]string{"p2"}, r.Events()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestAudienceKeepsEventsFromOthers(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver()
		w.subscribe()
		w.emit("mine", func(e *mcpevents.Emission) { e.Audience = "user_1" })
		w.emit("theirs", func(e *mcpevents.Emission) { e.Audience = "user_2" })
		w.emit("other", func(e *mcpevents.Emission) { e.Ledger = "elsewhere" })
		after(time.Second)
		if diff := cmp.Diff([]string{"mine"}, r.Events()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestEmittingTwiceChangesNothing(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver()
		w.subscribe()
		first := w.emit("e1")
		second := w.emit("e1")
		if first.Duplicate || !second.Duplicate || first.Event.Sequence != second.Event.Sequence {
			t.Errorf("first %+v, second %+v", first, second)
		}
		after(time.Second)
		if n := len(r.Deliveries()); n != 1 {
			t.Errorf("%d deliveries, want 1", n)
		}
	})
}

func TestEmitRefuses(t *testing.T) {
	w := newWorld(t, newMemory(), mcpevents.SEP(), nil)
	for name, e := range map[string]mcpevents.Emission{
		"an unknown type":                  {Name: "x", Data: rawMessage(`{}`)},
		"a payload against the schema":     {Name: "ticket.opened", Data: rawMessage(`{"id":7}`)},
		"a payload that is no object":      {Name: "ticket.opened", Data: rawMessage(`[]`)},
		"a payload with repeated names":    {Name: "ticket.opened", Data: rawMessage(`{"id":"a","id":"b"}`)},
		"a dot in the id":                  {Name: "ticket.opened", ID: "a.b", Data: rawMessage(`{"id":"a"}`)},
		"a body of more than 256 KiB":      {Name: "ticket.opened", Data: map[string]any{"id": strings.Repeat("x", 256<<10)}},
		"a meta member that is no object":  {Name: "ticket.opened", Data: rawMessage(`{"id":"a"}`), Meta: 7},
		"a payload that cannot be encoded": {Name: "ticket.opened", Data: make(chan int)},
	} {
		if _, err := w.srv.Emit(w.Context(), e); err == nil {
			t.Errorf("%s was emitted", name)
		}
	}
}

func TestRelayReplaysByCursor(t *testing.T) {
	bubble(t, mcpevents.Relay(), func(w *world) {
		for i := range 130 {
			w.emit(fmt.Sprint("e", i), func(e *mcpevents.Emission) { e.Audience = "user_1" })
		}
		r := w.receiver()
		w.subscribe(`"cursor":"10"`)
		after(time.Minute)
		ds := r.Deliveries()
		if len(ds) != 100 || ds[0].Cursor != "11" || ds[99].Cursor != "110" {
			t.Fatalf("%d replayed, from %q", len(ds), ds[0].Cursor)
		}
		next := w.subscribe(`"cursor":"110"`)
		after(time.Minute)
		if n := len(r.Deliveries()); n != 120 || next["truncated"] != false {
			t.Errorf("%d after going on, want all 120; %v", n, next)
		}
		if c := w.subscribe(`"cursor":"garbage"`); c["cursor"] != "130" || c["truncated"] != false {
			t.Errorf("garbage cursor: %v, want it ignored", c)
		}
	})
}

func TestHeldDeliveriesAreRecordedAndNeverSent(t *testing.T) {
	bubbleWith(t, mcpevents.Ledger(), func(f *mcpevents.Family, _ *mcpevents.Options) {
		f.Hold = func(string) string { return "test_workspace" }
	}, func(w *world) {
		r := w.receiver()
		id := w.subscribe()["id"].(string)
		w.emit("e1")
		after(time.Hour)
		log, err := w.srv.Deliveries(w.Context(), id, 0, 10)
		if err != nil || len(log) != 1 || log[0].State != "held" || log[0].Reason != "test_workspace" || len(r.Deliveries()) != 0 {
			t.Errorf("log %+v, %v, %d posts", log, err, len(r.Deliveries()))
		}
	})
}
