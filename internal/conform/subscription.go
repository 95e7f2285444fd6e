package conform

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// sub is a subscription that the server granted.
type sub struct {
	*hook
	event *eventType
	id    string
	reply *answer
}

// want are the parameters of a subscribe call that nothing is wrong with.
func (r *run) want(e *eventType, url, secret string) params {
	return params{"name": e.Name, "arguments": r.o.Arguments, "cursor": nil,
		"delivery": map[string]any{"mode": "webhook", "url": url, "secret": secret}}
}

// with returns a copy of p with other members; a value of type absent leaves its member out.
func (p params) with(name string, value any) params {
	c := params{}
	maps.Copy(c, p)
	if c[name] = value; value == (absent{}) {
		delete(c, name)
	}
	return c
}

// delivering returns a copy of p with another member of delivery.
func (p params) delivering(name string, value any) params {
	return p.with("delivery", map[string]any(params(p["delivery"].(map[string]any)).with(name, value)))
}

type absent struct{}

// secret makes a secret that is kept out of all findings.
func (r *run) secret(n int) string {
	s := newSecret(n)
	r.secrets = append(r.secrets, s)
	return s
}

// hookFor opens an address for one purpose.
func (r *run) hookFor() (*eventType, *hook, error) {
	e, err := r.offering("webhook")
	if err != nil {
		return nil, nil, err
	}
	if r.o.Receiver == nil {
		return nil, nil, cannot("there is no receiver that the server could reach: give a public address that leads here, by --callback and --listen")
	}
	h := r.o.Receiver.open(r.secret(32))
	r.hooks = append(r.hooks, h)
	return e, h, nil
}

// subscribe makes a subscription with an address of its own.
func (r *run) subscribe() (*sub, error) {
	e, h, err := r.hookFor()
	if err != nil {
		return nil, err
	}
	return r.subscribeAt(e, h)
}

func (r *run) subscribeAt(e *eventType, h *hook) (*sub, error) {
	a, err := r.call("events/subscribe", r.want(e, h.url, h.secret))
	if err != nil {
		return nil, err
	}
	if a.err != nil && h.Guessed {
		if challenges, _ := h.of("verification"); len(challenges) == 0 {
			return nil, cannot("the server does not deliver to a receiver on this machine (it answers %d, %s): give a public address that leads here, by --callback and --listen", a.err.Code, quote(a.err.Message))
		}
	}
	if err := a.wantResult(); err != nil {
		return nil, &refused{"there is no subscription", err}
	}
	s := &sub{hook: h, event: e, id: text(a.result["id"]), reply: a}
	r.live = append(r.live, s)
	return s, nil
}

// main is the subscription that most rules look at.
func (r *run) main() (*sub, error) { return once(r, "main", r.subscribe) }

// again subscribes with the same key and other members, which refreshes.
func (r *run) again(s *sub, change func(params) params) (*answer, error) {
	p := r.want(s.event, s.url, s.secret)
	if change != nil {
		p = change(p)
	}
	a, err := r.call("events/subscribe", p)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// end unsubscribes.
func (r *run) end(s *sub) (*answer, error) {
	r.live = slices.DeleteFunc(r.live, func(x *sub) bool { return x == s })
	return r.call("events/unsubscribe", params{"name": s.event.Name, "arguments": r.o.Arguments,
		"delivery": map[string]any{"mode": "webhook", "url": s.url}})
}

// drop unsubscribes what a rule subscribed only for itself.
func (r *run) drop(s *sub) { _, _ = r.end(s) } // what it answers is another rule's matter

// grant reads refreshBefore.
func grant(a *answer) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339, text(a.result["refreshBefore"]))
	return at, err == nil
}

// trigger makes the server emit an event, or lets its caller wait for one that happens by itself.
func (r *run) trigger(e *eventType) error {
	if r.o.Trigger == nil {
		if !r.o.Watch {
			return cannot("nothing makes an event happen: give a trigger, or a time to wait for one")
		}
		return nil
	}
	if err := r.o.Trigger(r.ctx, e.Name); err != nil {
		return cannot("the trigger failed: %v", err)
	}
	return nil
}

// missing is that an event did not come: the server's fault only if it was made to happen.
func (r *run) missing(found error) error {
	if r.o.Trigger == nil {
		return cannot("no event happened within %v", r.o.Wait)
	}
	return &refused{"the event did not come", found}
}

// occurrence checks the shape of an event, which is the same in every mode. It returns nil or what is wrong.
func (r *run) occurrence(e *eventType, o object) (want string) {
	data := o["data"]
	switch {
	case !isWord(o["eventId"]):
		return "eventId: a string that is not empty"
	case text(o["name"]) != e.Name:
		return "name: " + e.Name
	case !isObject(data):
		return "data: an object"
	case o["type"] != nil:
		return "no member type, which marks control bodies"
	}
	return ""
}

// zoned reports whether a text is a time with a zone.
func zoned(raw json.RawMessage) bool {
	_, err := time.Parse(time.RFC3339Nano, text(raw))
	return err == nil
}

// fits reports whether data fits the payload schema of its type; a type without a usable schema takes anything.
func (e *eventType) fits(data json.RawMessage) bool {
	s := schema(e.raw["payloadSchema"])
	return s == nil || valid(s, data)
}
