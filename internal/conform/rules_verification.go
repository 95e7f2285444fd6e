package conform

import (
	"bytes"
	"net/http"
	"strings"
	"time"
)

// marker is text of our endpoint that nobody else may ever see.
const marker = "herald-check-private-text"

var verificationRules = []Rule{
	{Number: 401, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6)", Needs: everyone,
		Text: "An address that was never seen is challenged before a subscription to it is granted.", check: func(r *run) error { _, err := r.challenge(); return owned(err) }},
	{Number: 402, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6)", Needs: everyone,
		Text: "A challenge is a POST of application/json with type verification and a challenge, a string that is not empty.", check: (*run).challengeIsShaped},
	{Number: 403, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6, b.7)", Needs: everyone,
		Text: "A challenge is signed with the secret of the call, over its exact bytes.", check: (*run).challengeIsSigned},
	{Number: 404, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6, b.7)", Needs: []Consumer{ChatGPT, AISDK, ByText},
		Text: "A challenge has the header X-MCP-Subscription-Id with the id that the call then grants.", check: (*run).challengeIsBound},
	{Number: 405, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6); Standard Webhooks", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger, ByText},
		Text: "Every challenge has a webhook-id of its own, without a full stop, and webhook-timestamp in Unix seconds.", check: (*run).challengeIsNumbered},
	{Number: 406, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6)", Needs: []Consumer{ByText, Relay, Ledger},
		Text: "Every challenge has a value of its own.", check: (*run).challengesDiffer},
	{Number: 407, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6, e.4)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "An endpoint that echoes another value is refused with CallbackEndpointError.", check: func(r *run) error { return r.refusesEcho("wrong") }},
	{Number: 408, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6, e.4)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "An endpoint that answers 200 with something else than JSON is refused with CallbackEndpointError.", check: func(r *run) error { return r.refusesEcho("text") }},
	{Number: 409, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6, e.4)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "An endpoint that echoes rightly with HTTP 404 or 500 is refused with CallbackEndpointError.", check: func(r *run) error {
			return first(r.refusesEcho("404"), r.refusesEcho("500"))
		}},
	{Number: 410, Group: Verification, Level: Must, Source: "SEP-3415, server-side request forgery (b.11, e.4)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "A challenge that is answered with a redirect is not followed, and refused with CallbackEndpointError.", check: (*run).challengeStays},
	{Number: 411, Group: Verification, Level: Must, Source: "SEP-3415, errors (a.9)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "The refusal says why in data.reason: in dialect sep challenge_failed, http_4xx and http_5xx; in the sketch a word.", check: (*run).reasonsAreWords},
	{Number: 412, Group: Verification, Level: Must, Source: "SEP-3415, server-side request forgery (b.11, e.4)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "Nothing that the endpoint answered is in the refusal.", check: (*run).refusalIsBlank},
	{Number: 413, Group: Verification, Level: Must, Dialects: bySEP, Source: "SEP-3415, endpoint verification (b.6, e.4)", Needs: []Consumer{ByText},
		Text: "After a failed verification there is no subscription: unsubscribing it is NotFound.", check: (*run).failureLeavesNothing},
	{Number: 414, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6, e.4)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "An endpoint that nobody listens at is refused with CallbackEndpointError; in dialect sep for connection_refused.", check: (*run).refusesClosed},
	{Number: 415, Group: Verification, Level: Must, Source: "SEP-3415, endpoint verification (b.6, e.4)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "An endpoint that does not answer is given up in time, with CallbackEndpointError; in dialect sep for timeout.", check: (*run).refusesHanging},
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// challenge is the first that came for the main subscription.
func (r *run) challenge() (*arrival, error) {
	return once(r, "challenge", func() (*arrival, error) {
		s, err := r.main()
		if err != nil {
			return nil, lean(err)
		}
		list, _ := s.of("verification")
		if len(list) == 0 {
			return nil, &refused{"there was no challenge", s.reply.but("a challenge before it")}
		}
		return list[0], nil
	})
}

func (r *run) challengeIsShaped() error {
	c, err := r.challenge()
	if err != nil {
		return err
	}
	if c.method != http.MethodPost || !strings.HasPrefix(c.header.Get("Content-Type"), "application/json") || !isWord(c.event["challenge"]) {
		return c.but("a POST of application/json with a challenge")
	}
	return nil
}

func (a *arrival) but(want string) error { return fail("the address of a subscription", want, "%s", a) }

func (r *run) challengeIsSigned() error {
	c, err := r.challenge()
	if err != nil {
		return err
	}
	if s, _ := r.main(); !c.verify(s.secret) {
		return c.but("a v1 signature with the secret of the subscribe call")
	}
	return nil
}

func (r *run) challengeIsBound() error {
	c, err := r.challenge()
	if err != nil {
		return err
	}
	s, err := r.named()
	if err != nil {
		return err
	}
	if c.header.Get("X-MCP-Subscription-Id") != s.id {
		return c.but("X-MCP-Subscription-Id: " + quote(s.id))
	}
	return nil
}

// challenges are all that came at any address.
func (r *run) challenges() (all []*arrival, err error) {
	if _, err := r.challenge(); err != nil {
		return nil, err
	}
	_, _ = r.echoed("wrong") // for a second one at least; rule 407 judges it
	for _, h := range r.hooks {
		list, _ := h.of("verification")
		all = append(all, list...)
	}
	return all, nil
}

func (r *run) challengeIsNumbered() error {
	all, err := r.challenges()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, c := range all {
		id := c.header.Get("webhook-id")
		at, ok := c.stamp()
		if id == "" || seen[id] || strings.Contains(id, ".") || !ok || c.at.Sub(at).Abs() > 5*time.Minute {
			return c.but("a webhook-id of its own without a full stop, and webhook-timestamp of now in Unix seconds")
		}
		seen[id] = true
	}
	return nil
}

func (r *run) challengesDiffer() error {
	all, err := r.challenges()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, c := range all {
		value := text(c.event["challenge"])
		if seen[value] {
			return c.but("another challenge than before")
		}
		seen[value] = true
	}
	return nil
}

// echoes are wrong ways to answer a challenge.
var echoes = map[string]func(challenge string) reply{
	"wrong": func(string) reply { r := echo(marker); return r },
	"text":  func(string) reply { return reply{status: 200, body: []byte(marker)} },
	"404": func(c string) reply {
		r := echo(c)
		r.status, r.body = 404, append(r.body, "\n"+marker...)
		return r
	},
	"500": func(c string) reply {
		r := echo(c)
		r.status, r.body = 500, append(r.body, "\n"+marker...)
		return r
	},
	"hang": func(string) reply { return reply{hang: true} },
}

// attempt is a subscribe call at an address of its own that answers its challenge in a certain way.
type attempt struct {
	*hook
	event *eventType
	*answer
}

func (r *run) echoed(way string) (*attempt, error) {
	return once(r, "echoed "+way, func() (*attempt, error) { return r.attempt(echoes[way]) })
}

func (r *run) attempt(way func(string) reply) (*attempt, error) {
	s, err := r.main()
	if err != nil {
		return nil, err
	}
	h := r.o.Receiver.open(r.secret(32))
	h.echo = way
	r.hooks = append(r.hooks, h)
	a, err := r.call("events/subscribe", r.want(s.event, h.url, h.secret))
	if err != nil {
		return nil, err
	}
	if a.result != nil {
		r.live = append(r.live, &sub{hook: h, event: s.event, reply: a})
	}
	return &attempt{h, s.event, a}, nil
}

// failed checks that the endpoint was asked, and that the call was refused because of it.
func (r *run) failed(t *attempt, err error) error {
	if err != nil {
		return err
	}
	if asked, _ := t.of("verification"); len(asked) == 0 && t.result != nil {
		return cannot("the server asked this endpoint nothing; rule 401 looks at that")
	}
	return t.wantError(r.dialect.codes().callback)
}

func (r *run) refusesEcho(way string) error { return r.failed(r.echoed(way)) }

func (r *run) challengeStays() error {
	elsewhere := r.hopeless()
	t, err := r.attempt(func(c string) reply {
		rep := echo(c)
		rep.status, rep.header["Location"] = 307, elsewhere.url
		return rep
	})
	if err := r.failed(t, err); err != nil {
		return err
	}
	if followed, _ := elsewhere.of("verification"); len(followed) > 0 {
		return followed[0].but("no request to where a redirect leads")
	}
	return nil
}

// hopeless is an address that nothing may ever come to.
func (r *run) hopeless() *hook {
	if r.o.Receiver == nil {
		return &hook{Receiver: &Receiver{}, changed: make(chan struct{})}
	}
	return r.o.Receiver.open("")
}

// refusals are the words that dialect SEP has for the ways of failing.
var refusals = map[string]string{"wrong": "challenge_failed", "text": "challenge_failed", "404": "http_4xx", "500": "http_5xx"}

func (r *run) reasonsAreWords() error {
	for _, way := range []string{"wrong", "text", "404", "500"} {
		t, err := r.echoed(way)
		if err != nil {
			return err
		}
		if t.err == nil || t.err.Code != r.dialect.codes().callback {
			return cannot("there was no such refusal; rules 407 to 409 look at that")
		}
		if err := r.reason(t.answer, refusals[way]); err != nil {
			return err
		}
	}
	return nil
}

// reason checks data.reason of a refusal.
func (r *run) reason(a *answer, word string) error {
	if r.dialect == SEP {
		return a.wantData("reason", word)
	}
	return a.wantData("reason")
}

func (r *run) refusalIsBlank() error {
	for _, way := range []string{"wrong", "text", "404", "500"} {
		t, err := r.echoed(way)
		if err != nil {
			return err
		}
		if bytes.Contains(t.raw, []byte(marker)) {
			return t.but("nothing of what the endpoint answered")
		}
	}
	return nil
}

func (r *run) failureLeavesNothing() error {
	t, err := r.echoed("wrong")
	if err != nil {
		return err
	}
	if t.err == nil {
		return cannot("the verification did not fail; rule 407 looks at that")
	}
	if r.absentIsNotFound() != nil {
		return cannot("what is not there is not NotFound; rule 604 looks at it")
	}
	a, err := r.end(&sub{hook: t.hook, event: t.event})
	if err != nil {
		return err
	}
	return a.wantError(r.dialect.codes().notFound)
}

func (r *run) refusesClosed() error {
	if _, err := r.challenge(); err != nil {
		return err
	}
	s, _ := r.main()
	if r.o.Closed == "" {
		return cannot("there is no address here that the server may call and nobody listens at")
	}
	a, err := r.call("events/subscribe", r.want(s.event, r.o.Closed, r.secret(32)))
	if err != nil {
		return err
	}
	if err := a.wantError(r.dialect.codes().callback); err != nil {
		return err
	}
	return r.reason(a, "connection_refused")
}

func (r *run) refusesHanging() error {
	t, err := r.echoed("hang")
	if err != nil {
		if _, lost := err.(*untestable); lost && r.ctx.Err() == nil && r.mainIsThere() {
			return fail("events/subscribe with an endpoint that hangs", "an answer within "+r.o.Timeout.String(), "%v", err)
		}
		return err
	}
	if err := r.failed(t, nil); err != nil {
		return err
	}
	return r.reason(t.answer, "timeout")
}

func (r *run) mainIsThere() bool { _, err := r.main(); return err == nil }
