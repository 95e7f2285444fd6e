package conform_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/herald-relay/herald/internal/conform"
	"github.com/herald-relay/herald/mcpevents"
)

// mutant is the library's server with one thing wrong, and the rules that must find it.
type mutant struct {
	name    string
	want    []int
	dialect conform.Dialect // "" is sep
	ways    func() ways
	policy  func(p *mcpevents.Policy)
}

// TestBrokenServersFailTheRulesMeant shows that the checker can fail: for each mutant exactly the rules meant do.
func TestBrokenServersFailTheRulesMeant(t *testing.T) {
	var mu sync.Mutex
	found := map[int]bool{}
	t.Cleanup(func() {
		if rest := missing(found); !slices.Equal(rest, []int{317}) && !t.Failed() { // the canary has a test of its own
			t.Errorf("no mutant fails the rules %v, so they prove nothing", rest)
		}
	})
	for _, m := range slices.Concat(answerMutants, subscribeMutants, deliveryMutants, pullMutants, moreMutants) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			policy, dialect, w := mcpevents.SEP(), conform.SEP, ways{}
			if m.dialect != "" {
				dialect = m.dialect
			}
			if m.policy != nil {
				m.policy(&policy)
			}
			if m.ways != nil {
				w = m.ways()
			}
			var failed []int
			report := check(t, policy, dialect, w, nil)
			for _, res := range report.Passages[0].Results {
				if res.Outcome == conform.Fail {
					failed = append(failed, res.Rule.Number)
					mu.Lock()
					found[res.Rule.Number] = true
					mu.Unlock()
				}
			}
			slices.Sort(failed)
			if !slices.Equal(failed, m.want) {
				t.Errorf("rules %v fail, want %v", failed, m.want)
				for _, res := range report.Passages[0].Results {
					if slices.Contains(m.want, res.Rule.Number) != (res.Outcome == conform.Fail) {
						t.Logf("%d %s %s\nsent %s\nwant %s\ngot %s", res.Rule.Number, res.Outcome, res.Reason, res.Sent, res.Want, res.Got)
					}
				}
			}
		})
	}
}

func missing(found map[int]bool) (numbers []int) {
	for _, r := range conform.Rules() {
		if !found[r.Number] {
			numbers = append(numbers, r.Number)
		}
	}
	return numbers
}

// on makes a mutant of an answer's result.
func on(method string, change func(result tree)) func() ways {
	return func() ways { return answered(method, func(c *call) { change(c.result()) }) }
}

// failing changes errors of a method.
func failing(method string, change func(c *call, e tree)) func() ways {
	return func() ways {
		return answered(method, func(c *call) {
			if e := in(c.message, "error"); len(e) > 0 {
				change(c, e)
			}
		})
	}
}

// firstType changes the first descriptor of a list.
func firstType(change func(e tree)) func() ways {
	return on("events/list", func(r tree) {
		if list, _ := r["events"].([]any); len(list) > 0 {
			change(list[0].(tree))
		}
	})
}

var answerMutants = []mutant{
	{name: "a string id is lost", want: []int{1}, ways: func() ways {
		return answered("", func(c *call) {
			if _, isText := c.message["id"].(string); isText {
				c.message["id"] = "another"
			}
		})
	}},
	{name: "big ids are rounded", want: []int{2}, ways: func() ways {
		return answered("", func(c *call) {
			if fmt.Sprint(c.message["id"]) == "9007199254740993" {
				c.message["id"] = 9007199254740992
			}
		})
	}},
	{name: "notifications get 200", want: []int{5}, ways: func() ways {
		return answered("notifications/herald_check", func(c *call) { c.status = 200 })
	}},
	{name: "unknown methods get 200", want: []int{6}, ways: func() ways {
		return answered("events/herald_check", func(c *call) { c.status = 200 })
	}},
	{name: "GET is not told what is allowed", want: []int{11}, ways: func() ways {
		return ways{server: func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				h.ServeHTTP(w, r)
			})
		}}
	}},
	{name: "answers are text", want: []int{12}, ways: func() ways {
		return answered("events/list", func(c *call) { c.header.Set("Content-Type", "text/plain") })
	}},
	{name: "the revision is not named", want: []int{101}, ways: on("server/discover", func(r tree) { r["supportedVersions"] = []string{"2025-06-18"} })},
	{name: "no capability for sketch", want: []int{102}, dialect: conform.Sketch, ways: on("server/discover", func(r tree) { delete(in(r, "capabilities"), "events") })},
	{name: "no capability for sep", want: []int{103}, ways: on("server/discover", func(r tree) { delete(in(r, "capabilities"), "extensions") })},
	{name: "no capability at the top", want: []int{105}, ways: on("server/discover", func(r tree) { delete(in(r, "capabilities"), "events") })},
	{name: "listChanged is a word", want: []int{104}, ways: on("server/discover", func(r tree) { in(in(r, "capabilities"), "events")["listChanged"] = "yes" })},
	{name: "discovery cannot be cached", want: []int{106}, ways: on("server/discover", func(r tree) { delete(r, "ttlMs") })},
	{name: "listChanged is promised and not given", want: []int{108}, ways: on("server/discover", func(r tree) {
		delete(in(in(in(r, "capabilities"), "extensions"), "io.modelcontextprotocol/events"), "listChanged")
	})},
	{name: "a name is there twice", want: []int{202}, ways: on("events/list", func(r tree) {
		if list, _ := r["events"].([]any); len(list) > 0 {
			r["events"] = append(list, list[0])
		}
	})},
	{name: "a mode nobody knows", want: []int{203}, ways: firstType(func(e tree) { e["delivery"] = []string{"webhook", "pigeon"} })},
	{name: "no description", want: []int{206}, ways: firstType(func(e tree) { delete(e, "description") })},
	{name: "the order changes", want: []int{207}, ways: func() ways {
		var n atomic.Int64
		return answered("events/list", func(c *call) {
			if list, ok := c.result()["events"].([]any); ok && n.Add(1)%2 == 0 {
				slices.Reverse(list)
			}
		})
	}},
	{name: "pages do not end", want: []int{208}, ways: func() ways {
		return answered("events/list", func(c *call) {
			if c.result()["events"] != nil {
				c.result()["nextCursor"] = "again"
			}
			if c.params["cursor"] == "again" {
				c.message = tree{"jsonrpc": "2.0", "id": c.message["id"], "result": tree{"resultType": "complete", "events": []any{}, "nextCursor": "again"}}
			}
		})
	}},
	{name: "another resultType", want: []int{211}, ways: on("events/list", func(r tree) { r["resultType"] = "done" })},
	{name: "no webhooks for the sketch", want: []int{212}, dialect: conform.Sketch, policy: func(p *mcpevents.Policy) {
		p.Modes = map[mcpevents.Dialect][]mcpevents.Mode{mcpevents.DialectSketch: {mcpevents.Poll, mcpevents.Push}}
	}},
	{name: "errors say nothing", want: []int{911}, ways: failing("events/poll", func(_ *call, e tree) { e["message"] = "" })},
	{name: "errors crash", want: []int{913}, ways: failing("events/subscribe", func(c *call, _ tree) { c.status = 500 })},
	{name: "numbers of the other dialect", want: []int{318, 912}, ways: failing("events/subscribe", func(_ *call, e tree) {
		if fmt.Sprint(e["code"]) == "-32023" {
			e["code"] = -32011
		}
	})},
}

var subscribeMutants = []mutant{
	{name: "no resultType", want: []int{309}, ways: on("events/subscribe", func(r tree) { delete(r, "resultType") })},
	{name: "no id", want: []int{301}, ways: on("events/subscribe", func(r tree) { r["id"] = "" })},
	{name: "the grant is over", want: []int{302}, ways: on("events/subscribe", func(r tree) {
		if r["refreshBefore"] != nil {
			r["refreshBefore"] = "1999-01-01T00:00:00Z"
		}
	})},
	{name: "a grant without end that nobody asked for", want: []int{322}, ways: on("events/subscribe", func(r tree) {
		if r["id"] != nil {
			r["refreshBefore"] = nil
		}
	})},
	{name: "the cursor is a number", want: []int{303}, ways: on("events/subscribe", func(r tree) { r["cursor"] = 7 })},
	{name: "no truncated", want: []int{304}, ways: on("events/subscribe", func(r tree) { delete(r, "truncated") })},
	{name: "ids that change", want: []int{305, 306, 308, 404, 503}, ways: func() ways {
		var n atomic.Int64
		return answered("events/subscribe", func(c *call) {
			if c.result()["id"] != nil {
				c.result()["id"] = fmt.Sprint("sub_", n.Add(1))
			}
		})
	}},
	{name: "one id for all", want: []int{307}, ways: func() ways {
		w := sent(func(p *post) (*http.Response, error) {
			p.set("X-Mcp-Subscription-Id", "sub_all")
			return p.send()
		})
		asked, answers := w.server, answered("events/subscribe", func(c *call) {
			if c.result()["id"] != nil {
				c.result()["id"] = "sub_all"
			}
		}).server
		w.server = func(h http.Handler) http.Handler { return answers(asked(h)) }
		return w
	}},
	{name: "short secrets are taken", want: []int{311}, ways: func() ways {
		return asked("events/subscribe", func(c *call) {
			if s, _ := in(c.params, "delivery")["secret"].(string); strings.HasPrefix(s, "whsec_") && len(s) == 6+32 {
				in(c.params, "delivery")["secret"] = strings.Replace(s, "=", "A", 1) // 24 bytes instead of 23
			}
		})
	}},
	{name: "plain http is taken", want: []int{314}, ways: func() ways {
		return asked("events/subscribe", func(c *call) {
			if url, _ := in(c.params, "delivery")["url"].(string); strings.HasPrefix(url, "http://") {
				in(c.params, "delivery")["url"] = "https://" + receiverHost + "/nobody"
			}
		})
	}},
	{name: "private addresses are taken", want: []int{316}, ways: func() ways {
		return asked("events/subscribe", func(c *call) {
			if url, _ := in(c.params, "delivery")["url"].(string); strings.HasPrefix(url, "https://10.") {
				in(c.params, "delivery")["url"] = "https://" + receiverHost + "/nobody"
			}
		})
	}},
	{name: "NotFound does not say of what", want: []int{318}, ways: failing("events/subscribe", func(c *call, e tree) {
		if fmt.Sprint(e["code"]) == "-32023" {
			delete(e, "data")
		}
	})},
	{name: "the wrong code for a wrong mode", want: []int{319}, ways: failing("events/subscribe", func(_ *call, e tree) {
		if fmt.Sprint(e["code"]) == "-32026" {
			e["code"] = -32602
		}
	})},
	{name: "strict lifetimes", want: []int{326}, policy: func(p *mcpevents.Policy) { p.Lifetime.Strict = true }},
	{name: "an old cursor is an error", want: []int{327}, ways: func() ways {
		return asked("events/subscribe", func(c *call) {
			if c.params["cursor"] == "herald check" {
				c.params["cursor"] = strings.Repeat("x", 300)
			}
		})
	}},
	{name: "every refresh is challenged", want: []int{330}, policy: func(p *mcpevents.Policy) {
		p.Verification.Recheck, p.Verification.Remember = true, -1
	}},
	{name: "the secret is echoed", want: []int{914}, ways: func() ways {
		return answered("events/subscribe", func(c *call) {
			if c.result()["id"] != nil {
				c.result()["secret"] = in(c.params, "delivery")["secret"]
			}
		})
	}},
	{name: "no challenge", want: []int{401}, policy: func(p *mcpevents.Policy) {
		p.Verification.Allow = func(string, *url.URL) bool { return true }
	}},
	{name: "challenges are not signed", want: []int{403}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			if !p.isEvent() && parse(p.body)["type"] == "verification" {
				p.set("Webhook-Signature", "v1,AAAA")
			}
			return p.send()
		})
	}},
	{name: "one webhook-id for all challenges", want: []int{405}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			if parse(p.body)["type"] == "verification" {
				p.set("Webhook-Id", "msg_verification_1")
				p.resign()
			}
			return p.send()
		})
	}},
	{name: "redirects are followed", want: []int{410, 518}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			resp, err := p.send()
			if err != nil || resp.StatusCode != http.StatusTemporaryRedirect {
				return resp, err
			}
			_ = resp.Body.Close()
			next, err := p.request.URL.Parse(resp.Header.Get("Location"))
			if err != nil {
				return nil, err
			}
			p.request.URL = next
			return p.send()
		})
	}},
	{name: "a wrong echo is enough", want: []int{407, 408}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			resp, err := p.send()
			if err == nil && parse(p.body)["type"] == "verification" && resp.StatusCode == 200 {
				resp.Body = body(render(tree{"challenge": parse(p.body)["challenge"]}))
			}
			return resp, err
		})
	}},
	{name: "the status of an echo does not matter", want: []int{409}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			resp, err := p.send()
			if err == nil && parse(p.body)["type"] == "verification" && (resp.StatusCode == 404 || resp.StatusCode == 500) {
				resp.StatusCode, resp.Body = 200, body(render(tree{"challenge": parse(p.body)["challenge"]}))
			}
			return resp, err
		})
	}},
	{name: "the reason is another's", want: []int{411}, ways: failing("events/subscribe", func(_ *call, e tree) {
		if data := in(e, "data"); data["reason"] == "http_4xx" {
			data["reason"] = "bad_status"
		}
	})},
	{name: "what the endpoint said is told", want: []int{412}, ways: failing("events/subscribe", func(_ *call, e tree) {
		if fmt.Sprint(e["code"]) == "-32027" {
			e["message"] = "it answered herald-check-private-text"
		}
	})},
	{name: "a closed endpoint is a wrong echo", want: []int{414}, ways: failing("events/subscribe", func(_ *call, e tree) {
		if data := in(e, "data"); data["reason"] == "connection_refused" {
			data["reason"] = "challenge_failed"
		}
	})},
	{name: "unsubscribing without mode is refused", want: []int{602}, ways: func() ways {
		return asked("events/unsubscribe", func(c *call) {
			if d := in(c.params, "delivery"); d["mode"] == nil {
				d["url"] = "none"
			}
		})
	}},
	{name: "unsubscribing nothing is an error in the sketch", want: []int{603}, dialect: conform.Sketch, policy: func(p *mcpevents.Policy) {
		p.Unsubscribed = mcpevents.AlwaysNotFound
	}},
	{name: "unsubscribing nothing succeeds in sep", want: []int{604}, policy: func(p *mcpevents.Policy) { p.Unsubscribed = mcpevents.AlwaysOK }},
	{name: "unsubscribing does nothing", want: []int{606}, ways: func() ways {
		var there sync.Map
		seen := answered("events/subscribe", func(c *call) {
			if c.result()["id"] != nil {
				there.Store(in(c.params, "delivery")["url"], true)
			}
		}).server
		return ways{server: func(h http.Handler) http.Handler {
			return seen(instead(h, "events/unsubscribe", func(c *call) any {
				if _, is := there.Load(in(c.params, "delivery")["url"]); is {
					return tree{"resultType": "complete"}
				}
				return nil
			}))
		}}
	}},
	{name: "control bodies for the sketch", want: []int{905}, dialect: conform.Sketch, policy: func(p *mcpevents.Policy) { p.Control = mcpevents.ControlAll }},
	{name: "no control body", want: []int{902}, policy: func(p *mcpevents.Policy) { p.Control = mcpevents.ControlNone }},
}
