package conform

import (
	"fmt"
	"strings"
	"time"
)

const maxDelivery = 256 << 10 // bytes of a webhook body

var deliveryRules = []Rule{
	{Number: 501, Group: Delivery, Level: Must, Source: "SEP-3415, webhook delivery (b.7)", Needs: everyone,
		Text: "An event that was emitted arrives at the address of a subscription.", check: func(r *run) error { _, err := r.delivery(); return owned(err) }},
	{Number: 502, Group: Delivery, Level: Must, Source: "SEP-3415, webhook delivery (b.7)", Needs: everyone,
		Text: "It is a POST with the content type application/json.", check: (*run).deliveryIsJSON},
	{Number: 503, Group: Delivery, Level: Must, Source: "SEP-3415, webhook delivery (b.7)", Needs: []Consumer{ChatGPT, AISDK, ByText},
		Text: "X-MCP-Subscription-Id is the id that was granted.", check: (*run).deliveryIsBound},
	{Number: 504, Group: Delivery, Level: Must, Source: "SEP-3415, webhook delivery (b.7); Standard Webhooks", Needs: everyone,
		Text: "webhook-signature has a v1 signature of the exact bytes with the secret that the client gave.", check: (*run).deliveryIsSigned},
	{Number: 505, Group: Delivery, Level: Must, Source: "SEP-3415, webhook delivery (b.7); Standard Webhooks", Needs: everyone,
		Text: "webhook-timestamp is the attempt's time in Unix seconds, within five minutes.", check: (*run).deliveryIsTimed},
	{Number: 506, Group: Delivery, Level: Must, Source: "OpenAI, MCP Events; AI SDK source; design sketch (b.7, 0.1)", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger},
		Text: "webhook-id is the eventId of the body.", check: (*run).deliveryIsNamed},
	{Number: 507, Group: Delivery, Level: Must, Source: "SEP-3415, event occurrence (a.4)", Needs: everyone,
		Text: "The body has an eventId, the name that was subscribed to, data that is an object, and no type.", check: (*run).deliveryIsShaped},
	{Number: 508, Group: Delivery, Level: Must, Source: "SEP-3415, event occurrence (a.4); AI SDK source (c)", Needs: everyone,
		Text: "The body's timestamp is an RFC 3339 time with a zone.", check: (*run).deliveryIsZoned},
	{Number: 509, Group: Delivery, Level: Must, Source: "SEP-3415, event occurrence (a.4)", Needs: everyone,
		Text: "data fits the payloadSchema that events/list shows.", check: (*run).deliveryFits},
	{Number: 510, Group: Delivery, Level: Must, Source: "SEP-3415, cursors (a.4, b.9)", Needs: everyone,
		Text: "The body's cursor is a string, null or absent.", check: (*run).deliveryHasCursor},
	{Number: 511, Group: Delivery, Level: Should, Source: "Standard Webhooks; event occurrence (a.4)", Needs: []Consumer{ByText},
		Text: "An eventId has no full stop and at most 256 characters.", check: (*run).idIsSafe},
	{Number: 512, Group: Delivery, Level: Must, Source: "SEP-3415, webhook outcomes (b.8)", Needs: everyone,
		Text: "An event that is answered with 503 is sent again.", check: func(r *run) error { _, err := r.retry(); return owned(err) }},
	{Number: 513, Group: Delivery, Level: Must, Source: "SEP-3415, webhook delivery (b.7)", Needs: everyone,
		Text: "The further attempt has the same webhook-id and eventId, by which receivers drop repetitions.", check: (*run).retryIsSame},
	{Number: 514, Group: Delivery, Level: Must, Source: "SEP-3415, webhook delivery (b.7)", Needs: everyone,
		Text: "Every attempt has a timestamp of its own time, and a signature that holds.", check: (*run).retryIsFresh},
	{Number: 515, Group: Delivery, Level: Should, Source: "RFC 9110, Retry-After; Standard Webhooks (b.7)", Needs: []Consumer{Relay, Ledger},
		Text: "After 429 with Retry-After, the next attempt does not come sooner than that.", check: (*run).retryWaits},
	{Number: 516, Group: Delivery, Level: Must, Source: "SEP-3415, webhook outcomes (b.8)", Needs: everyone,
		Text: "An event that is answered with 410 is not sent again.", check: func(r *run) error { return r.dropsAfter(reply{status: 410}) }},
	{Number: 517, Group: Delivery, Level: Must, Source: "SEP-3415, webhook outcomes (b.8)", Needs: everyone,
		Text: "An event that is answered with 413 is not sent again.", check: func(r *run) error { return r.dropsAfter(reply{status: 413}) }},
	{Number: 518, Group: Delivery, Level: Must, Source: "SEP-3415, server-side request forgery (b.11)", Needs: everyone,
		Text: "A redirect is not followed.", check: (*run).deliveryStays},
	{Number: 519, Group: Delivery, Level: Must, Source: "SEP-3415, upsert (b.5)", Needs: everyone,
		Text: "After a refresh with another secret, events are signed with that.", check: (*run).secretIsReplaced},
	{Number: 520, Group: Delivery, Level: Must, Source: "OpenAI, MCP Events; SEP-3415 (b.7)", Needs: []Consumer{ChatGPT, AISDK, ByText},
		Text: "No body is larger than 256 KiB.", check: (*run).bodiesAreSmall},
	{Number: 521, Group: Delivery, Level: Must, Source: "SEP-3415, webhook outcomes (b.8); Standard Webhooks", Needs: everyone,
		Text: "An event that is answered with 2xx is not sent again.", check: (*run).successIsFinal},
}

// delivery is the first event that arrived at the main subscription.
func (r *run) delivery() (*arrival, error) {
	return once(r, "delivery", func() (*arrival, error) {
		s, err := r.main()
		if err != nil {
			return nil, lean(err)
		}
		list, err := r.emit(s, 1)
		if err != nil {
			return nil, err
		}
		return list[0], nil
	})
}

// emit triggers an event and returns what arrived since at a subscription: n requests at least.
func (r *run) emit(s *sub, n int) ([]*arrival, error) {
	before, _ := s.of("")
	if err := r.trigger(s.event); err != nil {
		return nil, err
	}
	list := s.await(r.ctx, "", len(before)+n, r.o.Wait)[len(before):]
	if len(list) < n {
		got := "nothing"
		if len(list) > 0 {
			got = fmt.Sprintf("%d, the last being %s", len(list), list[len(list)-1])
		}
		return nil, r.missing(fail("the trigger", fmt.Sprintf("%d requests within %v", n, r.o.Wait), "%s", got))
	}
	return list, nil
}

// delivered checks the first delivery.
func (r *run) delivered(want string, ok func(s *sub, a *arrival) bool) error {
	a, err := r.delivery()
	if err != nil {
		return err
	}
	if s, _ := r.main(); !ok(s, a) {
		return a.but(want)
	}
	return nil
}

func (r *run) deliveryIsJSON() error {
	return r.delivered("a POST of application/json", func(_ *sub, a *arrival) bool {
		return a.method == "POST" && strings.HasPrefix(a.header.Get("Content-Type"), "application/json")
	})
}

func (r *run) deliveryIsBound() error {
	if _, err := r.named(); err != nil {
		return err
	}
	return r.delivered("the granted id in X-MCP-Subscription-Id", func(s *sub, a *arrival) bool {
		return a.header.Get("X-MCP-Subscription-Id") == s.id
	})
}

func (r *run) deliveryIsSigned() error {
	return r.delivered("a v1 signature with the subscription's secret", func(s *sub, a *arrival) bool { return a.verify(s.secret) })
}

func (r *run) deliveryIsTimed() error {
	return r.delivered("webhook-timestamp in Unix seconds, of now", func(_ *sub, a *arrival) bool {
		at, ok := a.stamp()
		return ok && a.at.Sub(at).Abs() < 5*time.Minute
	})
}

func (r *run) deliveryIsNamed() error {
	return r.delivered("webhook-id equal to eventId", func(_ *sub, a *arrival) bool {
		id := a.header.Get("webhook-id")
		return id != "" && id == text(a.event["eventId"])
	})
}

func (r *run) deliveryIsShaped() error {
	a, err := r.delivery()
	if err != nil {
		return err
	}
	s, _ := r.main()
	if want := r.occurrence(s.event, a.event); want != "" {
		return a.but(want)
	}
	return nil
}

func (r *run) deliveryIsZoned() error {
	return r.delivered("timestamp: an RFC 3339 time with a zone", func(_ *sub, a *arrival) bool { return zoned(a.event["timestamp"]) })
}

func (r *run) deliveryFits() error {
	return r.delivered("data that fits the payloadSchema", func(s *sub, a *arrival) bool {
		return !isObject(a.event["data"]) || s.event.fits(a.event["data"])
	})
}

func (r *run) deliveryHasCursor() error {
	return r.delivered("cursor: a string or null", func(_ *sub, a *arrival) bool {
		return isNull(a.event["cursor"]) || isText(a.event["cursor"])
	})
}

func (r *run) idIsSafe() error {
	return r.delivered("an eventId without a full stop, of at most 256 characters", func(_ *sub, a *arrival) bool {
		id := text(a.event["eventId"])
		return !strings.Contains(id, ".") && len(id) <= 256
	})
}

// retried are two attempts of one event.
type retried struct {
	*sub
	one, two *arrival
}

func (t *retried) gap() time.Duration { return t.two.at.Sub(t.one.at) }

// retry has the first attempt of an event answered with 503.
func (r *run) retry() (*retried, error) {
	return once(r, "retry", func() (*retried, error) {
		if _, err := r.delivery(); err != nil {
			return nil, lean(err)
		}
		s, _ := r.main()
		s.respond(reply{status: 503})
		return r.twice(s)
	})
}

// twice has an event happen, and waits for its second attempt. Others may come in between.
func (r *run) twice(s *sub) (*retried, error) {
	list, err := r.emit(s, 1)
	if err != nil {
		return nil, err
	}
	one := list[0]
	again := func(a *arrival) bool {
		same := isWord(a.event["eventId"]) && text(a.event["eventId"]) == text(one.event["eventId"])
		return a != one && (same || a.header.Get("webhook-id") == one.header.Get("webhook-id"))
	}
	two := s.find(r.ctx, again, r.o.Wait)
	if two == nil {
		return nil, &refused{"there was no further attempt", one.but("a further attempt within " + r.o.Wait.String())}
	}
	return &retried{s, one, two}, nil
}

func (r *run) retryIsSame() error {
	t, err := r.retry()
	if err != nil {
		return err
	}
	id := t.one.header.Get("webhook-id")
	if t.two.header.Get("webhook-id") != id || text(t.two.event["eventId"]) != text(t.one.event["eventId"]) {
		return t.two.but("the ids of the first attempt, " + quote(id))
	}
	return nil
}

// later has the first attempt of an event answered with 429 and a Retry-After that is longer than the server's own wait.
func (r *run) later() (*retried, time.Duration, error) {
	type postponed struct {
		*retried
		asked time.Duration
	}
	p, err := once(r, "later", func() (*postponed, error) {
		t, err := r.retry()
		if err != nil {
			return nil, err
		}
		seconds := int(t.gap().Seconds()*1.25) + 2
		asked := time.Duration(seconds) * time.Second
		if asked > r.o.Wait*3/4 {
			return nil, cannot("the server's own wait of %v leaves no room for a longer one", t.gap().Round(time.Second))
		}
		t.respond(reply{status: 429, header: map[string]string{"Retry-After": fmt.Sprint(seconds)}})
		later, err := r.twice(t.sub)
		if err != nil {
			return nil, err
		}
		return &postponed{later, asked}, nil
	})
	if err != nil {
		return nil, 0, err
	}
	return p.retried, p.asked, nil
}

// retryIsFresh compares the timestamps of attempts that came well apart with each other, so that clocks may differ.
func (r *run) retryIsFresh() error {
	if r.deliveryIsSigned() != nil {
		return cannot("deliveries are not signed; rule 504 looks at it")
	}
	t, _, err := r.later()
	if err != nil {
		if t, err = r.retry(); err != nil {
			return err
		}
	}
	if t.gap() < 1500*time.Millisecond {
		return cannot("the attempts came only %v apart", t.gap())
	}
	one, ok1 := t.one.stamp()
	two, ok2 := t.two.stamp()
	if !ok1 || !ok2 || !two.After(one) || !t.two.verify(t.secret) {
		return t.two.but(fmt.Sprintf("a timestamp after that of the first attempt, %s, which came %v before, and a signature that holds", t.one.header.Get("webhook-timestamp"), t.gap().Round(time.Second)))
	}
	return nil
}

func (r *run) retryWaits() error {
	t, asked, err := r.later()
	if err != nil {
		return err
	}
	if t.gap() < asked {
		return t.two.but(fmt.Sprintf("no attempt within the %v that Retry-After asked for; it came after %v", asked, t.gap().Round(time.Millisecond)))
	}
	return nil
}

// calm is how long to wait for an attempt that must not come: well beyond the server's own wait.
func (r *run) calm() (time.Duration, error) {
	t, err := r.retry()
	if err != nil {
		return 0, cannot("how long the server waits is not known, so that none comes would prove nothing; rule 512 looks at that")
	}
	return t.gap()*3/2 + 500*time.Millisecond, nil
}

// dropsAfter has an event at a subscription of its own answered once, and waits for an attempt that must not come.
func (r *run) dropsAfter(rep reply) error {
	calm, err := r.calm()
	if err != nil {
		return err
	}
	s, err := r.subscribe()
	if err != nil {
		return err
	}
	defer r.drop(s)
	s.respond(rep)
	list, err := r.emit(s, 1)
	if err != nil {
		return err
	}
	return r.noneAfter(s, list[0], 2, calm)
}

// noneAfter waits for the nth request since the one of an event; there must be none.
func (r *run) noneAfter(s *sub, one *arrival, n int, calm time.Duration) error {
	all, _ := s.of("")
	before := len(all)
	for i, a := range all {
		if a == one {
			before = i + n - 1
		}
	}
	for _, a := range s.await(r.ctx, "", before+1, calm)[before:] {
		if a.header.Get("webhook-id") == one.header.Get("webhook-id") {
			return a.but("no further attempt")
		}
	}
	return nil
}

func (r *run) deliveryStays() error {
	calm, err := r.calm()
	if err != nil {
		return err
	}
	s, err := r.subscribe()
	if err != nil {
		return err
	}
	defer r.drop(s)
	elsewhere := r.hopeless()
	s.respond(reply{status: 307, header: map[string]string{"Location": elsewhere.url}})
	if _, err := r.emit(s, 1); err != nil {
		return err
	}
	if list := elsewhere.await(r.ctx, "", 1, calm); len(list) > 0 {
		return list[0].but("no request to where a redirect leads")
	}
	return nil
}

func (r *run) secretIsReplaced() error {
	if _, err := r.delivery(); err != nil {
		return err
	}
	if r.deliveryIsSigned() != nil {
		return cannot("deliveries are not signed; rule 504 looks at it")
	}
	s, _ := r.main()
	next := r.secret(32)
	a, err := r.again(s, func(p params) params { return p.delivering("secret", next) })
	if err != nil {
		return err
	}
	if err := a.wantResult(); err != nil {
		return cannot("the refresh was refused: %s", a)
	}
	s.secret = next
	list, err := r.emit(s, 1)
	if err != nil {
		return err
	}
	if !list[0].verify(next) {
		return list[0].but("a v1 signature with the secret of the refresh")
	}
	return nil
}

func (r *run) bodiesAreSmall() error {
	if _, err := r.delivery(); err != nil {
		return err
	}
	for _, h := range r.hooks {
		list, _ := h.of("")
		for _, a := range list {
			if len(a.body) > maxDelivery {
				return a.but(fmt.Sprintf("at most %d bytes; it has %d", maxDelivery, len(a.body)))
			}
		}
	}
	return nil
}

// successIsFinal waits for a repetition of an event that was taken, at a subscription of its own.
func (r *run) successIsFinal() error { return r.dropsAfter(reply{status: 204}) }
