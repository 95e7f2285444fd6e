package conform

import (
	"encoding/json"
	"net"
	"slices"
	"time"
)

var subscribeRules = []Rule{
	{Number: 301, Group: Subscribe, Level: Must, Source: "SEP-3415, events/subscribe (a.7)", Needs: everyone,
		Text: "A subscribe call that nothing is wrong with is answered with an id, a string that is not empty.", check: (*run).grantsID},
	{Number: 302, Group: Subscribe, Level: Must, Source: "SEP-3415, events/subscribe (a.7); AI SDK source (c)", Needs: everyone,
		Text: "refreshBefore is always there: null, or a time with a zone that is still to come.", check: (*run).grantsTime},
	{Number: 303, Group: Subscribe, Level: Must, Source: "SEP-3415, cursors (a.7, b.1)", Needs: everyone,
		Text: "cursor is a string, null or absent.", check: (*run).cursorIsText},
	{Number: 304, Group: Subscribe, Level: Must, Source: "SEP-3415, events/subscribe (a.7); AI SDK source (c)", Needs: []Consumer{AISDK, Relay, Ledger},
		Text: "truncated is there, true or false.", check: (*run).saysTruncated},
	{Number: 305, Group: Subscribe, Level: Must, Source: "SEP-3415, subscription identity (b.5)", Needs: everyone,
		Text: "Subscribing again with the same principal, address, name and arguments refreshes: the id stays.", check: (*run).idIsIdempotent},
	{Number: 306, Group: Subscribe, Level: Must, Source: "SEP-3415, subscription identity (b.5)", Needs: []Consumer{ChatGPT, AISDK, ByText},
		Text: "How arguments are written does not matter: with members in another order, or absent instead of {}, the id stays.", check: (*run).idIsCanonical},
	{Number: 307, Group: Subscribe, Level: Must, Source: "SEP-3415, subscription identity (b.5)", Needs: everyone,
		Text: "Another address is another subscription, with another id.", check: (*run).idIsOfAddress},
	{Number: 308, Group: Subscribe, Level: Must, Source: "SEP-3415, subscription identity (b.5); OpenAI, MCP Events", Needs: []Consumer{ChatGPT, ByText},
		Text: "The id is a function of its key: after unsubscribing, the same call gives the same id.", check: (*run).idIsDerived},
	{Number: 309, Group: Subscribe, Level: Must, Dialects: bySEP, Source: "MCP 2026-07-28, results (a)", Needs: []Consumer{ByText},
		Text: `The result has "resultType": "complete".`, check: (*run).subscribeIsComplete},

	{Number: 310, Group: Subscribe, Level: Must, Source: "SEP-3415, secrets (a.7, e.1)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A call without a secret, or with one that is no string, is refused with -32602.",
		check: func(r *run) error {
			return r.refusesEach("secret", []any{absent{}, nil, 7, ""}, codeParams)
		}},
	{Number: 311, Group: Subscribe, Level: Must, Source: "SEP-3415, secrets (a.7, e.1)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A secret of less than 24 or more than 64 bytes is refused with -32602.",
		check: func(r *run) error {
			return r.refusesEach("secret", []any{r.secret(23), r.secret(65)}, codeParams)
		}},
	{Number: 312, Group: Subscribe, Level: Must, Source: "SEP-3415, secrets (a.7, e.1)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A secret without whsec_, with it in capitals, or with white space inside is refused with -32602.", check: (*run).refusesOddSecrets},
	{Number: 313, Group: Subscribe, Level: Must, Source: "SEP-3415, secrets (a.7, e.1)", Needs: everyone,
		Text: "Secrets of 24 and of 64 bytes are taken.", check: (*run).takesAllSizes},

	{Number: 314, Group: Subscribe, Level: Must, Source: "SEP-3415, callback addresses (a.7, b.11)", Needs: everyone,
		Text:  "An address that does not begin with https is refused.",
		check: func(r *run) error { return r.refusesURLs("http://example.com/hook", "ftp://example.com/hook") }},
	{Number: 315, Group: Subscribe, Level: Must, Source: "SEP-3415, callback addresses (a.9, e.4)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "An address that is none, has credentials in it, or is no string is refused.",
		check: func(r *run) error {
			return r.refusesURLs("herald check", "https://user:pass@example.com/hook", "https://", 7, nil)
		}},
	{Number: 316, Group: Subscribe, Level: Must, Source: "SEP-3415, server-side request forgery (b.11, e.6)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text:  "An address inside a network is refused: private, link-local, shared, reserved, multicast and embedded ones, and names that only a network knows.",
		check: func(r *run) error { return r.refusesURLs(inner()...) }},
	{Number: 317, Group: Subscribe, Level: Must, Source: "SEP-3415, server-side request forgery (b.11, e.4)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "A refused address is not connected to, however it is written.", check: (*run).leavesCanaryAlone},
	{Number: 318, Group: Subscribe, Level: Must, Source: "SEP-3415, errors (a.9)", Needs: []Consumer{ChatGPT, ByText},
		Text:  "An event type that is not there is refused: NotFound with data.kind event in dialect sep; NotFound or -32602 in the sketch, as its products do.",
		check: func(r *run) error { return r.refusesUnknownEvent("events/subscribe") }},
	{Number: 319, Group: Subscribe, Level: Must, Source: "SEP-3415, errors (a.9)", Needs: []Consumer{ByText},
		Text: "A delivery mode other than webhook is refused: Unsupported with data.feature deliveryMode in dialect sep; Unsupported or -32602 in the sketch.", check: (*run).refusesOtherMode},
	{Number: 320, Group: Subscribe, Level: Must, Source: "SEP-3415, errors (a.9)", Needs: []Consumer{ByText},
		Text: "Arguments that are no object are refused with -32602.", check: (*run).refusesNoObject},
	{Number: 321, Group: Subscribe, Level: Must, Source: "SEP-3415, errors (a.9)", Needs: []Consumer{ChatGPT, ByText},
		Text:  "Arguments that the inputSchema does not allow are refused with -32602.",
		check: func(r *run) error { return r.refusesMisfit("events/subscribe", "webhook") }},
	{Number: 322, Group: Subscribe, Level: Must, Source: "SEP-3415, subscription lifetime (b.5)", Needs: everyone,
		Text: "refreshBefore is null only where the client sent ttlMs null.", check: (*run).nullIsAsked},
	{Number: 323, Group: Subscribe, Level: Must, Source: "SEP-3415, subscription lifetime (b.5)", Needs: everyone,
		Text:  "ttlMs null is taken, and granted without end or with one.",
		check: func(r *run) error { return r.takesTTL(nil) }},
	{Number: 324, Group: Subscribe, Level: Must, Source: "SEP-3415, subscription lifetime (b.5, e.3)", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger, ByText},
		Text:  "A ttlMs shorter or longer than the server grants is taken and clamped, not refused.",
		check: func(r *run) error { return r.takesTTL(1, 1000, int64(40*365*24*time.Hour/time.Millisecond)) }},
	{Number: 325, Group: Subscribe, Level: Should, Source: "SEP-3415, subscription lifetime (b.5)", Needs: []Consumer{ChatGPT, ByText},
		Text: "No more is granted than ttlMs asks for, but for the server's minimum, which is granted to whoever asks for less.", check: (*run).grantsNoMore},
	{Number: 326, Group: Subscribe, Level: Must, Dialects: bySEP, Source: "SEP-3415, subscription lifetime (b.5, e.3)", Needs: []Consumer{ByText},
		Text:  "No value of ttlMs is refused: zero, a negative number, a fraction and what is no number are granted the default.",
		check: func(r *run) error { return r.takesTTL(0, -5, 1.5, "x", json.RawMessage("1e400")) }},
	{Number: 327, Group: Subscribe, Level: Must, Source: "SEP-3415, cursors (b.1)", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger, ByText},
		Text: "A cursor that the server does not know, or does not know any more, is no error.", check: (*run).takesAnyCursor},
	{Number: 328, Group: Subscribe, Level: Must, Source: "cursors (a)", Needs: everyone,
		Text: "An absent cursor is the same as null.", check: (*run).takesNoCursor},
	{Number: 329, Group: Subscribe, Level: Should, Source: "SEP-3415, cursors (b.1)", Needs: []Consumer{ChatGPT, AISDK, ByText},
		Text: "The cursor of a subscription is null at every call or at none.", check: (*run).cursorIsConsistent},
	{Number: 330, Group: Subscribe, Level: Must, Source: "SEP-3415, endpoint verification (b.6)", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger, ByText},
		Text: "A refresh of a live subscription right after it was made is not challenged again.", check: (*run).refreshIsQuiet},
	{Number: 331, Group: Subscribe, Level: Must, Source: "SEP-3415, authorization (b.5)", Needs: []Consumer{ChatGPT, Relay, Ledger, ByText},
		Text: "Whoever proved to be nobody cannot subscribe: HTTP 401 or 403, or Forbidden.", check: (*run).refusesNobody},
	{Number: 332, Group: Subscribe, Level: Must, Source: "SEP-3415, deliveryStatus (a.7)", Needs: []Consumer{ByText},
		Text: "deliveryStatus, where a refresh has it, says active, and its lastError is null or one of the six words.", check: (*run).statusIsClosed},
}

// inner are addresses that must not be called (contract e.6). Loopback is left to the canary: a server under development may
// allow it.
func inner() []any {
	hosts := []string{"0.0.0.0", "10.1.2.3", "100.64.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.2.1",
		"192.168.0.1", "198.18.0.1", "203.0.113.1", "224.0.0.1", "255.255.255.255", "[::]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]",
		"[2001:db8::1]", "[fc00::1]", "[fe80::1]", "[ff02::1]", "router", "x.local", "x.internal", "x.home.arpa"}
	var urls []any
	for _, host := range hosts {
		urls = append(urls, "https://"+host+"/hook")
	}
	return urls
}

func (r *run) grantsID() error {
	s, err := r.main()
	if err != nil {
		return owned(err)
	}
	if s.id == "" {
		return s.reply.but("id: a string that is not empty")
	}
	return nil
}

func (r *run) grantsTime() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	raw, has := s.reply.result["refreshBefore"]
	at, ok := grant(s.reply)
	if !has || !(string(raw) == "null" || ok && at.After(time.Now())) {
		return s.reply.but("refreshBefore: null, or an RFC 3339 time to come")
	}
	return nil
}

func (r *run) cursorIsText() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	if raw := s.reply.result["cursor"]; !isNull(raw) && !isText(raw) {
		return s.reply.but("cursor: a string or null")
	}
	return nil
}

func (r *run) saysTruncated() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	if !isBool(s.reply.result["truncated"]) {
		return s.reply.but("truncated: true or false")
	}
	return nil
}

// named is the main subscription, if it has an id.
func (r *run) named() (*sub, error) {
	s, err := r.main()
	if err == nil && s.id == "" {
		return nil, cannot("the subscription has no id; rule 301 looks at it")
	}
	return s, err
}

// sameID refreshes the main subscription by a call that is written in another way.
func (r *run) sameID(change func(params) params) error {
	s, err := r.named()
	if err != nil {
		return err
	}
	a, err := r.again(s, change)
	if err != nil {
		return err
	}
	if id := text(a.result["id"]); id != s.id {
		return a.but("the id of the first call, %s", quote(s.id))
	}
	return nil
}

func (r *run) idIsIdempotent() error { return r.sameID(nil) }

func (r *run) idIsCanonical() error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(r.o.Arguments, &given); err != nil {
		return cannot("the arguments are no object")
	}
	switch {
	case len(given) == 0:
		return r.sameID(func(p params) params { return p.with("arguments", absent{}) })
	case len(given) == 1:
		return cannot("one argument has no order")
	}
	return r.sameID(func(p params) params { return p.with("arguments", reversed(given)) })
}

// reversed writes an object with its members in the opposite order and with white space.
func reversed(o map[string]json.RawMessage) json.RawMessage {
	var names []string
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	slices.Reverse(names)
	b := []byte("{ ")
	for i, name := range names {
		if i > 0 {
			b = append(b, " , "...)
		}
		b = append(append(append(b, encode(name)...), " : "...), o[name]...)
	}
	return append(b, " }"...)
}

func (r *run) idIsOfAddress() error {
	s, err := r.named()
	if err != nil {
		return err
	}
	other, err := r.subscribe()
	if err != nil {
		return err
	}
	defer r.drop(other)
	if other.id == s.id {
		return other.reply.but("another id than %s", quote(s.id))
	}
	return nil
}

func (r *run) idIsDerived() error {
	first, err := r.subscribe()
	if err != nil {
		return err
	}
	if a, err := r.end(first); err != nil || a.wantResult() != nil {
		return cannot("unsubscribing did not work; rule 601 looks at it")
	}
	second, err := r.subscribeAt(first.event, first.hook)
	if err != nil {
		return err
	}
	defer r.drop(second)
	if second.id != first.id {
		return second.reply.but("the id of before, %s", quote(first.id))
	}
	return nil
}

func (r *run) subscribeIsComplete() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	return s.reply.complete()
}

// sound are the parameters of a subscribe call of which one thing will be made wrong, so that nothing is ever subscribed.
func (r *run) sound() (params, error) {
	e, err := r.offering("webhook")
	if err != nil {
		return nil, err
	}
	url := "https://example.com/herald-check"
	if r.o.Receiver != nil {
		url = r.o.Receiver.URL + "/nobody"
	}
	return r.want(e, url, r.secret(32)), nil
}

// refusesEach checks that each value of a member of delivery is refused.
func (r *run) refusesEach(member string, values []any, codes ...int) error {
	p, err := r.sound()
	if err != nil {
		return err
	}
	for _, v := range values {
		a, err := r.call("events/subscribe", p.delivering(member, v))
		if err != nil {
			return err
		}
		if err := a.wantError(codes...); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) refusesOddSecrets() error {
	s := r.secret(32)
	r.secrets = append(r.secrets, s[6:])
	return r.refusesEach("secret", []any{s[6:], "WHSEC_" + s[6:], s[:16] + " " + s[16:]}, codeParams)
}

func (r *run) takesAllSizes() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	for _, size := range []int{24, 64, 0} {
		secret := s.secret // back to the first one at the end
		if size > 0 {
			secret = r.secret(size)
		}
		a, err := r.again(s, func(p params) params { return p.delivering("secret", secret) })
		if err != nil {
			return err
		}
		if err := a.wantResult(); err != nil {
			return err
		}
	}
	return nil
}

// refusesURLs checks that addresses are refused. In the sketch some products call that a failed verification.
func (r *run) refusesURLs(urls ...any) error {
	if r.dialect == Sketch {
		return r.refusesEach("url", urls, codeParams, r.dialect.codes().callback)
	}
	return r.refusesEach("url", urls, codeParams)
}

func (r *run) leavesCanaryAlone() error {
	if r.o.Canary == nil {
		return cannot("the server is not on this machine, so no listener here would see it")
	}
	p, err := r.sound()
	if err != nil {
		return err
	}
	if r.o.Receiver != nil && r.o.Receiver.Guessed && r.mainIsThere() {
		return cannot("the server is set to deliver to this machine, as in development")
	}
	addr := r.o.Canary.listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr) // a listener's address has one
	before, err := r.o.Canary.strangers()
	if err != nil {
		return cannot("the listener here cannot be reached: %v", err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::1]", "[::ffff:127.0.0.1]"} {
		url := "https://" + host + ":" + port + "/hook"
		a, err := r.call("events/subscribe", p.delivering("url", url))
		if err != nil {
			return err
		}
		if n, _ := r.o.Canary.strangers(); n > before {
			return fail(a.sent, "no connection", "%d connections to %s", n-before, addr)
		}
	}
	return nil
}

// refusesUnknownEvent checks how a method refuses an event type that is not there.
func (r *run) refusesUnknownEvent(method string) error {
	p, err := r.sound()
	if err != nil && method == "events/subscribe" {
		return err
	}
	if method != "events/subscribe" {
		p = params{"arguments": map[string]any{}, "cursor": nil}
	}
	a, err := r.call(method, p.with("name", "herald.check.unknown"))
	if err != nil {
		return err
	}
	if r.dialect == Sketch {
		return a.wantError(r.dialect.codes().notFound, codeParams)
	}
	if err := a.wantError(r.dialect.codes().notFound); err != nil {
		return err
	}
	return a.wantData("kind", "event")
}

func (r *run) refusesOtherMode() error {
	p, err := r.sound()
	if err != nil {
		return err
	}
	for _, mode := range []string{"poll", "herald_check"} {
		a, err := r.call("events/subscribe", p.delivering("mode", mode))
		if err != nil {
			return err
		}
		if err := r.isUnsupported(a); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) isUnsupported(a *answer) error {
	if r.dialect == Sketch {
		return a.wantError(r.dialect.codes().unsupported, codeParams)
	}
	if err := a.wantError(r.dialect.codes().unsupported); err != nil {
		return err
	}
	return a.wantData("feature", "deliveryMode")
}

func (r *run) refusesNoObject() error {
	p, err := r.sound()
	if err != nil {
		return err
	}
	for _, arguments := range []any{"x", 7, []any{}} {
		a, err := r.call("events/subscribe", p.with("arguments", arguments))
		if err != nil {
			return err
		}
		if err := a.wantError(codeParams); err != nil {
			return err
		}
	}
	return nil
}

// refusesMisfit checks that a method holds arguments against the schema.
func (r *run) refusesMisfit(method, mode string) error {
	e, err := r.offering(mode)
	if err != nil {
		return err
	}
	wrong := misfit(e.raw["inputSchema"])
	if wrong == nil {
		return cannot("the inputSchema of %s refuses nothing that could be made up", quote(e.Name))
	}
	p := params{"name": e.Name, "cursor": nil}
	if method == "events/subscribe" {
		if p, err = r.sound(); err != nil {
			return err
		}
	}
	a, err := r.call(method, p.with("arguments", wrong))
	if err != nil {
		return err
	}
	return a.wantError(codeParams)
}
