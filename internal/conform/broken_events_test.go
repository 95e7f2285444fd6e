package conform_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/herald-relay/herald/mcpevents"
)

// posted changes what is sent of each event.
func posted(change func(p *post)) func() ways {
	return func() ways {
		return sent(func(p *post) (*http.Response, error) {
			if p.isEvent() {
				change(p)
			}
			return p.send()
		})
	}
}

func event(change func(e tree)) func() ways { return func() ways { return altered(change) } }

// taken changes how the server understands an answer to an event.
func taken(change func(resp *http.Response, p *post)) func() ways {
	return func() ways {
		return sent(func(p *post) (*http.Response, error) {
			resp, err := p.send()
			if err == nil && p.isEvent() {
				change(resp, p)
			}
			return resp, err
		})
	}
}

var deliveryMutants = []mutant{
	{name: "events are not JSON by name", want: []int{502}, ways: posted(func(p *post) { p.set("Content-Type", "text/plain") })},
	{name: "no subscription id", want: []int{503}, ways: posted(func(p *post) { p.set("X-Mcp-Subscription-Id", "") })},
	{name: "the signature is over other bytes", want: []int{504}, ways: posted(func(p *post) { p.body = append(p.body, ' ') })},
	{name: "timestamps in milliseconds", want: []int{505}, ways: posted(func(p *post) {
		p.set("Webhook-Timestamp", p.get("webhook-timestamp")+"000")
		p.resign()
	})},
	{name: "webhook-id is not the event's", want: []int{506}, ways: posted(func(p *post) {
		p.set("Webhook-Id", "msg_"+p.get("webhook-id"))
		p.resign()
	})},
	{name: "no eventId", want: []int{506, 507}, ways: event(func(e tree) { delete(e, "eventId") })},
	{name: "no zone", want: []int{508}, ways: event(func(e tree) { e["timestamp"] = "2026-01-02T03:04:05" })},
	{name: "data that the schema does not allow", want: []int{509}, ways: event(func(e tree) { e["data"] = tree{"ticket": 7} })},
	{name: "the cursor of an event is a number", want: []int{510}, ways: event(func(e tree) { e["cursor"] = 7 })},
	{name: "a full stop in the eventId", want: []int{511}, ways: posted(func(p *post) {
		e := parse(p.body)
		e["eventId"] = strings.Replace(e["eventId"].(string), "_", ".", 1)
		p.body = render(e)
		p.set("Webhook-Id", e["eventId"].(string))
		p.resign()
	})},
	{name: "events do not arrive", want: []int{501}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			if p.isEvent() {
				return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}, nil
			}
			return p.send()
		})
	}},
	{name: "503 is taken for success", want: []int{512}, ways: taken(func(resp *http.Response, _ *post) {
		if resp.StatusCode == 503 {
			resp.StatusCode = 204
		}
	})},
	{name: "another webhook-id on each attempt", want: []int{513}, ways: func() ways {
		var n atomic.Int64
		return posted(func(p *post) {
			if n.Add(1) > 1 {
				p.set("Webhook-Id", "msg_"+string(rune('a'+n.Load()%26)))
				p.resign()
			}
		})()
	}},
	{name: "the timestamp of the first attempt on all", want: []int{514}, ways: func() ways {
		var first sync.Map
		return posted(func(p *post) {
			at, _ := first.LoadOrStore(p.get("webhook-id"), p.get("webhook-timestamp"))
			p.set("Webhook-Timestamp", at.(string))
			p.resign()
		})()
	}},
	{name: "the signature of the first attempt on all", want: []int{514}, ways: func() ways {
		var first sync.Map
		return posted(func(p *post) {
			signature, _ := first.LoadOrStore(p.get("webhook-id")+p.request.URL.Path, p.get("webhook-signature"))
			p.set("Webhook-Signature", signature.(string))
		})()
	}},
	{name: "Retry-After is not heeded", want: []int{515}, ways: taken(func(resp *http.Response, _ *post) { resp.Header.Del("Retry-After") })},
	{name: "410 is tried again", want: []int{516}, policy: func(p *mcpevents.Policy) { p.Verdicts.Gone = mcpevents.Again }},
	{name: "413 is tried again", want: []int{517}, ways: taken(func(resp *http.Response, _ *post) {
		if resp.StatusCode == 413 {
			resp.StatusCode = 500
		}
	})},
	{name: "the first secret is kept", want: []int{519}, ways: func() ways {
		var first sync.Map
		return asked("events/subscribe", func(c *call) {
			d := in(c.params, "delivery")
			if s, ok := d["secret"].(string); ok && strings.HasPrefix(s, "whsec_") {
				d["secret"], _ = first.LoadOrStore(d["url"], s)
			}
		})
	}},
	{name: "bodies too large", want: []int{520}, ways: event(func(e tree) { e["_meta"] = tree{"pad": strings.Repeat("x", 300<<10)} })},
	{name: "2xx is sent again", want: []int{521}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			resp, err := p.send()
			if err == nil && p.isEvent() && resp.StatusCode == 204 {
				_ = resp.Body.Close()
				return p.send()
			}
			return resp, err
		})
	}},
	{name: "control bodies are named as events are", want: []int{903}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			if parse(p.body)["type"] == "terminated" {
				p.set("Webhook-Id", "evt_1")
				p.resign()
			}
			return p.send()
		})
	}},
	{name: "terminated without an error", want: []int{904}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			if parse(p.body)["type"] == "terminated" {
				p.body = render(tree{"type": "terminated"})
				p.resign()
			}
			return p.send()
		})
	}},
}

// onStream changes notifications of a method on streams.
func onStream(method string, change func(m tree, request *call) string) func() ways {
	return func() ways {
		return streamed(func(m tree, request *call) string {
			if m["method"] == method {
				return change(m, request)
			}
			return data(m)
		})
	}
}

var pullMutants = []mutant{
	{name: "poll: no resultType", want: []int{705}, ways: on("events/poll", func(r tree) { delete(r, "resultType") })},
	{name: "poll: nothing instead of an empty list", want: []int{702}, ways: on("events/poll", func(r tree) {
		if list, _ := r["events"].([]any); len(list) == 0 {
			delete(r, "events")
		}
	})},
	{name: "poll: no nextPollMs", want: []int{703}, ways: on("events/poll", func(r tree) { delete(r, "nextPollMs") })},
	{name: "poll: an unknown cursor is no gap", want: []int{706}, ways: on("events/poll", func(r tree) { r["truncated"] = false })},
	{name: "poll: the wrong code for an unknown event", want: []int{708}, ways: failing("events/poll", func(_ *call, e tree) {
		if in(e, "data")["kind"] == "event" {
			e["code"] = -32602
		}
	})},
	{name: "poll: the wrong code for the wrong mode", want: []int{709}, ways: failing("events/poll", func(_ *call, e tree) {
		if in(e, "data")["feature"] == "deliveryMode" {
			e["code"] = -32602
		}
	})},
	{name: "poll: arguments are not checked", want: []int{710}, ways: func() ways {
		return asked("events/poll", func(c *call) {
			if a := in(c.params, "arguments"); len(a) == 1 {
				c.params["arguments"] = tree{}
			}
		})
	}},
	{name: "poll: no events", want: []int{711}, ways: on("events/poll", func(r tree) {
		if r["events"] != nil {
			r["events"] = []any{}
		}
	})},
	{name: "poll: events of another name", want: []int{712}, ways: polledEvent(func(e tree) { e["name"] = "other" })},
	{name: "poll: no zone", want: []int{713}, ways: polledEvent(func(e tree) { e["timestamp"] = "2026-01-02 03:04:05" })},
	{name: "poll: data that the schema does not allow", want: []int{714}, ways: polledEvent(func(e tree) { e["data"] = tree{} })},
	{name: "poll: events come once", want: []int{715}, ways: func() ways {
		var seen sync.Map
		return answered("events/poll", func(c *call) {
			list, _ := c.result()["events"].([]any)
			if _, again := seen.LoadOrStore(c.params["cursor"], true); again && len(list) == 1 && c.params["maxEvents"] == nil {
				c.result()["events"] = []any{}
			} else if len(list) == 0 {
				seen.Delete(c.params["cursor"])
			}
		})
	}},
	{name: "poll: the cursor goes back", want: []int{716}, ways: func() ways {
		return answered("events/poll", func(c *call) {
			if list, _ := c.result()["events"].([]any); len(list) > 0 {
				c.result()["cursor"] = c.params["cursor"]
			}
		})
	}},
	{name: "poll: maxEvents is ignored", want: []int{717}, ways: func() ways {
		return asked("events/poll", func(c *call) { delete(c.params, "maxEvents") })
	}},
	{name: "stream: no active", want: []int{801}, ways: onStream("notifications/events/active", func(tree, *call) string { return ": began" })},
	{name: "stream: active without truncated", want: []int{802}, ways: onStream("notifications/events/active", func(m tree, _ *call) string {
		delete(in(m, "params"), "truncated")
		return data(m)
	})},
	{name: "stream: a number comes back as text", want: []int{803}, ways: streamID("7")},
	{name: "stream: text comes back as a number", want: []int{804}, ways: streamID(7)},
	{name: "stream: others' notifications", want: []int{805}, ways: onStream("notifications/events/event", func(m tree, _ *call) string {
		return data(tree{"jsonrpc": "2.0", "method": "notifications/message", "params": m["params"]}) + "\n\n" + data(m)
	})},
	{name: "stream: heartbeats are comments", want: []int{806}, ways: onStream("notifications/events/heartbeat", func(tree, *call) string { return ": ping" })},
	{name: "stream: heartbeats without cursor", want: []int{806}, ways: onStream("notifications/events/heartbeat", func(m tree, _ *call) string {
		delete(in(m, "params"), "cursor")
		return data(m)
	})},
	{name: "stream: no events", want: []int{810}, ways: onStream("notifications/events/event", func(tree, *call) string { return ": something" })},
	{name: "stream: no eventId", want: []int{811}, ways: onStream("notifications/events/event", func(m tree, _ *call) string {
		in(m, "params")["eventId"] = ""
		return data(m)
	})},
	{name: "stream: no zone", want: []int{812}, ways: onStream("notifications/events/event", func(m tree, _ *call) string {
		in(m, "params")["timestamp"] = "2026-01-02 03:04:05"
		return data(m)
	})},
	{name: "stream: data that the schema does not allow", want: []int{813}, ways: onStream("notifications/events/event", func(m tree, _ *call) string {
		in(m, "params")["data"] = tree{"ticket": false}
		return data(m)
	})},
	{name: "stream: a cursor is a gap", want: []int{814}, ways: onStream("notifications/events/active", func(m tree, request *call) string {
		in(m, "params")["truncated"] = request.params["cursor"] != nil
		return data(m)
	})},
	{name: "stream: cursors are forgotten", want: []int{815}, ways: func() ways {
		return asked("events/stream", func(c *call) { c.params["cursor"] = nil })
	}},
	{name: "stream: a dozen block the rest", want: []int{816}, ways: func() ways {
		var open atomic.Int64
		return ways{server: func(h http.Handler) http.Handler {
			counted := instead(h, "events/list", func(*call) any {
				if open.Load() > 10 {
					return "busy"
				}
				return nil
			})
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Mcp-Method") == "events/stream" {
					open.Add(1)
					defer open.Add(-1)
				}
				counted.ServeHTTP(w, r)
			})
		}}
	}},
	{name: "stream: proxies may buffer", want: []int{817}, ways: func() ways {
		return ways{server: func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&unmarked{w}, r) })
		}}
	}},
	{name: "stream: no terminated", want: []int{901}, ways: onStream("notifications/events/terminated", func(tree, *call) string { return ": over" })},
	{name: "stream: no result", want: []int{906}, ways: func() ways {
		return streamed(func(m tree, _ *call) string {
			if m["result"] != nil {
				return ": over"
			}
			return data(m)
		})
	}},
}

func polledEvent(change func(e tree)) func() ways {
	return on("events/poll", func(r tree) {
		list, _ := r["events"].([]any)
		for _, e := range list {
			change(e.(tree))
		}
	})
}

// streamID puts an id into every notification of streams whose own reads the same but is of the other type.
func streamID(id any) func() ways {
	return func() ways {
		return streamed(func(m tree, _ *call) string {
			meta := in(in(m, "params"), "_meta")
			if have := meta["io.modelcontextprotocol/subscriptionId"]; have != nil && strings.Trim(string(render(have)), `"`) == "7" {
				meta["io.modelcontextprotocol/subscriptionId"] = id
			}
			return data(m)
		})
	}
}

// unmarked takes the word for proxies out of an answer.
type unmarked struct{ http.ResponseWriter }

func (u *unmarked) Flush() { _ = http.NewResponseController(u.ResponseWriter).Flush() } // in memory

func (u *unmarked) WriteHeader(status int) {
	u.Header().Del("X-Accel-Buffering")
	u.ResponseWriter.WriteHeader(status)
}

func (u *unmarked) Write(p []byte) (int, error) {
	u.Header().Del("X-Accel-Buffering")
	return u.ResponseWriter.Write(p)
}
