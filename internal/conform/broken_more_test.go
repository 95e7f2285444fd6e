package conform_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// refusal makes any answer an error.
func (c *call) refuse(code int) {
	c.message = tree{"jsonrpc": "2.0", "id": c.message["id"], "error": tree{"code": code, "message": "no"}}
}

// lenient hides from the server what is wrong with a delivery that a client asks for.
func lenient(member string, wrong func(value any) bool, right any) func() ways {
	return func() ways {
		return asked("events/subscribe", func(c *call) {
			if d := in(c.params, "delivery"); wrong(d[member]) {
				d[member] = right
			}
		})
	}
}

// picky has the server refuse calls that it takes.
func picky(method string, when func(c *call) bool) func() ways {
	return func() ways {
		return asked(method, func(c *call) {
			if when(c) {
				c.params["name"] = 7
			}
		})
	}
}

const goodSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

// statused changes the HTTP status of errors with a code.
func statused(code string) func() ways {
	return func() ways {
		return answered("", func(c *call) {
			if e := in(c.message, "error"); len(e) > 0 && e["code"] == json.Number(code) {
				c.status = 200
			}
		})
	}
}

var moreMutants = []mutant{
	{name: "what is not JSON gets 200", want: []int{3}, ways: statused("-32700")},
	{name: "batches get 200", want: []int{4}, ways: statused("-32600")},
	{name: "missing metadata gets 200", want: []int{7}, ways: statused("-32602")},
	{name: "known revisions are not named", want: []int{8}, ways: failing("events/list", func(_ *call, e tree) {
		if e["code"] == json.Number("-32022") {
			delete(e, "data")
		}
	})},
	{name: "headers that differ get 200", want: []int{9, 10}, ways: statused("-32020")},
	{name: "401 says nothing", want: []int{13}, ways: func() ways {
		return ways{server: func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				h.ServeHTTP(w, r)
			})
		}}
	}},
	{name: "nobody is somebody", want: []int{331}, ways: func() ways {
		return ways{server: func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Set("Authorization", "Bearer good")
				h.ServeHTTP(w, r)
			})
		}}
	}},
	{name: "initialize promises too much", want: []int{107}, ways: func() ways {
		return answered("events/list", func(c *call) {
			if c.params["_meta"] == nil && c.message["result"] != nil {
				c.refuse(-32601)
			}
		})
	}},
	{name: "no list", want: []int{201}, ways: on("events/list", func(r tree) { delete(r, "events") })},
	{name: "an inputSchema that is none", want: []int{204}, ways: firstType(func(e tree) { e["inputSchema"] = 7 })},
	{name: "a payloadSchema that is none", want: []int{205}, ways: firstType(func(e tree) { e["payloadSchema"] = "x" })},
	{name: "any page cursor will do", want: []int{209}, ways: func() ways {
		return asked("events/list", func(c *call) {
			if c.params["cursor"] == "herald check: no such page" {
				delete(c.params, "cursor")
			}
		})
	}},
	{name: "a page cursor null is refused", want: []int{210}, ways: func() ways {
		return answered("events/list", func(c *call) {
			if cursor, has := c.params["cursor"]; has && cursor == nil {
				c.refuse(-32602)
			}
		})
	}},
	{name: "secrets are made up", want: []int{310}, ways: lenient("secret", func(v any) bool { return v == nil }, goodSecret)},
	{name: "secrets in capitals", want: []int{312}, ways: lenient("secret", func(v any) bool {
		s, _ := v.(string)
		return strings.HasPrefix(s, "WHSEC_")
	}, goodSecret)},
	{name: "64 bytes are too many", want: []int{313}, ways: lenient("secret", func(v any) bool {
		s, _ := v.(string)
		return len(s) == 6+88 && strings.HasSuffix(s, "==")
	}, "whsec_")},
	{name: "any text is an address", want: []int{315}, ways: lenient("url", func(v any) bool { return v == "herald check" }, "https://"+receiverHost+"/nobody")},
	{name: "arguments need be no object", want: []int{320}, ways: func() ways {
		return asked("events/subscribe", func(c *call) {
			if _, is := c.params["arguments"].(tree); !is {
				c.params["arguments"] = tree{}
			}
		})
	}},
	{name: "arguments are not checked", want: []int{321}, ways: func() ways {
		return asked("events/subscribe", func(c *call) {
			if len(in(c.params, "arguments")) == 1 {
				c.params["arguments"] = tree{}
			}
		})
	}},
	{name: "ttlMs null is refused", want: []int{323}, ways: picky("events/subscribe", func(c *call) bool {
		ttl, has := c.params["ttlMs"]
		return has && ttl == nil
	})},
	{name: "a short ttlMs is refused", want: []int{324}, ways: picky("events/subscribe", func(c *call) bool { return c.params["ttlMs"] == json.Number("1") })},
	{name: "more is granted than was asked", want: []int{325}, ways: func() ways {
		return answered("events/subscribe", func(c *call) {
			if c.params["ttlMs"] == json.Number("7200000") {
				c.result()["refreshBefore"] = "2100-01-01T00:00:00Z"
			}
		})
	}},
	{name: "an absent cursor is refused", want: []int{328}, ways: picky("events/subscribe", func(c *call) bool { _, has := c.params["cursor"]; return !has })},
	{name: "cursors come and go", want: []int{329}, ways: func() ways {
		var n atomic.Int64
		return answered("events/subscribe", func(c *call) {
			if c.result()["id"] != nil && n.Add(1)%2 == 0 {
				c.result()["cursor"] = nil
			}
		})
	}},
	{name: "a status in words of its own", want: []int{332}, ways: on("events/subscribe", func(r tree) {
		r["deliveryStatus"] = tree{"active": true, "lastError": "dial tcp: no route"}
	})},
	{name: "challenges are not JSON by name", want: []int{402}, ways: challenged(func(p *post) { p.set("Content-Type", "text/plain") })},
	{name: "one challenge for all", want: []int{406}, ways: func() ways {
		return sent(func(p *post) (*http.Response, error) {
			challenge := parse(p.body)
			if challenge["type"] != "verification" {
				return p.send()
			}
			p.body = render(tree{"type": "verification", "challenge": "same"})
			p.resign()
			resp, err := p.send()
			if err != nil {
				return nil, err
			}
			echo, err := io.ReadAll(resp.Body)
			if parse(echo)["challenge"] == "same" && err == nil {
				echo = render(tree{"challenge": challenge["challenge"]})
			}
			resp.Body = body(echo)
			return resp, err
		})
	}},
	{name: "a failed verification leaves something", want: []int{413}, ways: func() ways {
		var refused sync.Map
		seen := answered("events/subscribe", func(c *call) {
			if in(c.message, "error")["code"] == json.Number("-32027") {
				refused.Store(in(c.params, "delivery")["url"], true)
			}
		}).server
		return ways{server: func(h http.Handler) http.Handler {
			return seen(instead(h, "events/unsubscribe", func(c *call) any {
				if _, is := refused.Load(in(c.params, "delivery")["url"]); is {
					return tree{"resultType": "complete"}
				}
				return nil
			}))
		}}
	}},
	{name: "a hanging endpoint is a wrong echo", want: []int{415}, ways: failing("events/subscribe", func(_ *call, e tree) {
		if data := in(e, "data"); data["reason"] == "timeout" {
			data["reason"] = "challenge_failed"
		}
	})},
	{name: "unsubscribing with the mode fails", want: []int{601}, ways: func() ways {
		var there sync.Map
		seen := answered("events/subscribe", func(c *call) {
			if c.result()["id"] != nil {
				there.Store(in(c.params, "delivery")["url"], true)
			}
		}).server
		strict := asked("events/unsubscribe", func(c *call) {
			d := in(c.params, "delivery")
			if _, is := there.Load(d["url"]); is && d["mode"] != nil {
				d["url"] = "none"
			}
		}).server
		return ways{server: func(h http.Handler) http.Handler { return seen(strict(h)) }}
	}},
	{name: "any address can be unsubscribed", want: []int{605}, ways: func() ways {
		return ways{server: func(h http.Handler) http.Handler {
			return instead(h, "events/unsubscribe", func(c *call) any {
				if in(c.params, "delivery")["url"] == "herald check" {
					return tree{"resultType": "complete"}
				}
				return nil
			})
		}}
	}},
	{name: "poll: it fails", want: []int{701}, ways: func() ways {
		return answered("events/poll", func(c *call) {
			if c.message["result"] != nil {
				c.refuse(-32603)
			}
		})
	}},
	{name: "poll: without cursor from the start", want: []int{704}, ways: pollFinds(func(c *call) bool { _, has := c.params["cursor"]; return !has })},
	{name: "poll: maxAgeMs replays", want: []int{707}, ways: pollFinds(func(c *call) bool { return c.params["maxAgeMs"] != nil })},
	{name: "poll: cursors come and go", want: []int{718}, ways: func() ways {
		var n atomic.Int64
		return answered("events/poll", func(c *call) {
			if c.params["cursor"] == nil && c.result()["cursor"] != nil && n.Add(1) > 1 {
				c.result()["cursor"] = nil
			}
		})
	}},
	{name: "stream: unknown events begin", want: []int{807}, ways: streamOf(func(c *call) bool { return c.params["name"] == "herald.check.unknown" })},
	{name: "stream: modes are not checked", want: []int{808}, ways: streamOf(func(c *call) bool { return c.params["name"] == "ticket.closed" })},
	{name: "stream: arguments are not checked", want: []int{809}, ways: streamOf(func(c *call) bool { return len(in(c.params, "arguments")) == 1 })},
}

// challenged changes what is sent of each challenge.
func challenged(change func(p *post)) func() ways {
	return func() ways {
		return sent(func(p *post) (*http.Response, error) {
			if parse(p.body)["type"] == "verification" {
				change(p)
			}
			return p.send()
		})
	}
}

// pollFinds has polls answered with an event where there is none.
func pollFinds(when func(c *call) bool) func() ways {
	return func() ways {
		return answered("events/poll", func(c *call) {
			if when(c) && c.message["result"] != nil {
				c.result()["events"] = []any{tree{"eventId": "t_0"}}
			}
		})
	}
}

// streamOf opens a stream of something else than was asked for.
func streamOf(when func(c *call) bool) func() ways {
	return func() ways {
		return asked("events/stream", func(c *call) {
			if when(c) {
				c.params["name"], c.params["arguments"] = "ticket.opened", tree{}
			}
		})
	}
}
