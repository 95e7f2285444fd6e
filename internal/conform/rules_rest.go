package conform

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

var unsubscribeRules = []Rule{
	{Number: 601, Group: Unsubscribe, Level: Must, Source: "SEP-3415, events/unsubscribe (a.8); AI SDK source (c)", Needs: everyone,
		Text: "Unsubscribing by name, arguments, address and mode succeeds.", check: func(r *run) error { return r.unsubscribes(true) }},
	{Number: 602, Group: Unsubscribe, Level: Must, Source: "SEP-3415, events/unsubscribe (a.8)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "It succeeds without the mode too.", check: func(r *run) error { return r.unsubscribes(false) }},
	{Number: 603, Group: Unsubscribe, Level: Must, Dialects: bySketch, Source: "OpenAI, MCP Events; AI SDK source (c)", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger},
		Text: "Unsubscribing what is not there succeeds.", check: (*run).absentIsFine},
	{Number: 604, Group: Unsubscribe, Level: Must, Dialects: bySEP, Source: "SEP-3415, errors (a.9)", Needs: []Consumer{ByText},
		Text: "Unsubscribing what is not there is refused with NotFound and data.kind subscription.", check: (*run).absentIsNotFound},
	{Number: 605, Group: Unsubscribe, Level: Must, Source: "SEP-3415, errors (a.9)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "Unsubscribing an address that is none is refused with -32602; in the sketch also with CallbackEndpointError.", check: (*run).unsubscribeChecksURL},
	{Number: 606, Group: Unsubscribe, Level: Must, Source: "SEP-3415, events/unsubscribe (b.5, c)", Needs: everyone,
		Text: "After unsubscribing nothing more arrives, a further attempt of an earlier event included.", check: (*run).unsubscribeIsFinal},
}

func (r *run) unsubscribes(mode bool) error {
	s, err := r.subscribe()
	if err != nil {
		return err
	}
	delivery := map[string]any{"url": s.url}
	if mode {
		delivery["mode"] = "webhook"
	}
	a, err := r.call("events/unsubscribe", params{"name": s.event.Name, "arguments": r.o.Arguments, "delivery": delivery})
	if err != nil {
		return err
	}
	if err := a.wantResult(); err != nil {
		return err
	}
	r.live = slices.DeleteFunc(r.live, func(x *sub) bool { return x == s })
	return nil
}

// unknown unsubscribes an address that was never subscribed.
func (r *run) unknown() (*answer, error) {
	p, err := r.sound()
	if err != nil {
		return nil, err
	}
	return r.call("events/unsubscribe", p.delivering("secret", absent{}).with("cursor", absent{}))
}

func (r *run) absentIsFine() error {
	a, err := r.unknown()
	if err != nil {
		return err
	}
	return a.wantResult()
}

func (r *run) absentIsNotFound() error {
	a, err := r.unknown()
	if err != nil {
		return err
	}
	if err := a.wantError(r.dialect.codes().notFound); err != nil {
		return err
	}
	return a.wantData("kind", "subscription")
}

func (r *run) unsubscribeChecksURL() error {
	p, err := r.sound()
	if err != nil {
		return err
	}
	wanted := []int{codeParams}
	if r.dialect == Sketch {
		wanted = append(wanted, r.dialect.codes().callback)
	}
	for _, url := range []any{"herald check", absent{}} {
		a, err := r.call("events/unsubscribe", p.delivering("url", url))
		if err != nil {
			return err
		}
		if err := a.wantError(wanted...); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) unsubscribeIsFinal() error {
	calm, err := r.calm()
	if err != nil {
		return err
	}
	s, err := r.subscribe()
	if err != nil {
		return err
	}
	s.respond(reply{status: 503, header: map[string]string{"Retry-After": "1"}}, reply{status: 503})
	if _, err := r.emit(s, 1); err != nil {
		r.drop(s)
		return err
	}
	a, err := r.end(s)
	if err != nil {
		return err
	}
	if a.wantResult() != nil {
		return cannot("unsubscribing did not work; rule 601 looks at it")
	}
	ended, _ := s.of("")
	if later := s.await(r.ctx, "", len(ended)+1, max(calm, 1500*time.Millisecond)); len(later) > len(ended) {
		return later[len(ended)].but("nothing after unsubscribing")
	}
	return nil
}

var controlRules = []Rule{
	{Number: 903, Group: Control, Level: Must, Source: "SEP-3415, control bodies (b.10, b.7)", Needs: []Consumer{ByText},
		Text: "A control body is signed, timed and bound like a delivery, and its webhook-id begins with msg_ and its type.", check: (*run).controlIsSigned},
	{Number: 904, Group: Control, Level: Must, Source: "SEP-3415, control bodies (b.10)", Needs: []Consumer{ByText},
		Text: "gap has a cursor, a string, and terminated an error with a code and a message.", check: (*run).controlIsShaped},
	{Number: 905, Group: Control, Level: Must, Dialects: bySketch, Source: "OpenAI, MCP Events (c)", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger},
		Text: "A client of the sketch is sent no control bodies, which ChatGPT does not know.", check: (*run).sketchHasNoControl},
}

// control are all requests with a type but challenges.
func (r *run) control() (all []*arrival) {
	for _, h := range r.hooks {
		h.mu.Lock()
		for _, a := range h.arrivals {
			if a.event["type"] != nil && a.kind != "verification" && a.event["eventId"] == nil {
				all = append(all, a)
			}
		}
		h.mu.Unlock()
	}
	return all
}

func (r *run) eachControl(wrong func(a *arrival) (want string)) error {
	all := r.control()
	if len(all) == 0 {
		return cannot("the server sent no control body")
	}
	for _, a := range all {
		if want := wrong(a); want != "" {
			return a.but(want)
		}
	}
	return nil
}

func (r *run) controlIsSigned() error {
	return r.eachControl(func(a *arrival) string {
		signed := slices.ContainsFunc(r.secrets, a.verify)
		_, timed := a.stamp()
		if !signed || !timed || a.header.Get("X-MCP-Subscription-Id") == "" || !strings.HasPrefix(a.header.Get("webhook-id"), "msg_"+a.kind) {
			return "the four headers, with a signature that holds and an id that begins with msg_ and the type"
		}
		return ""
	})
}

func (r *run) controlIsShaped() error {
	return r.eachControl(func(a *arrival) string {
		var e rpcError
		_ = json.Unmarshal(a.event["error"], &e) // what is no error has no code
		switch {
		case a.kind == "gap" && !isText(a.event["cursor"]):
			return "cursor: a string"
		case a.kind == "terminated" && (e.Code == statusNoMeaning || e.Message == ""):
			return "error with code and message"
		}
		return ""
	})
}

func (r *run) sketchHasNoControl() error {
	if _, err := r.main(); err != nil {
		return err
	}
	if all := r.control(); len(all) > 0 {
		return all[0].but("no control body")
	}
	return nil
}

var errorRules = []Rule{
	{Number: 911, Group: Errors, Level: Must, Source: "JSON-RPC 2.0, error object", Needs: everyone,
		Text: "Every error has a code, a whole number, and a message, a string that is not empty.", check: (*run).errorsAreShaped},
	{Number: 912, Group: Errors, Level: Must, Source: "error tables of both texts (0, a.9)", Needs: everyone,
		Text: "No error of the extension has the number of the other dialect.", check: (*run).errorsSpeakDialect},
	{Number: 913, Group: Errors, Level: Should, Source: "MCP 2026-07-28, Streamable HTTP", Needs: []Consumer{Relay, Ledger},
		Text: "What a method refuses is answered with HTTP 200 or 400, never with a 5xx.", check: (*run).errorsAreNoCrash},
	{Number: 914, Group: Errors, Level: Must, Source: "SEP-3415, secrets (b.7)", Needs: everyone,
		Text: "No answer repeats a signing secret.", check: (*run).secretsStayHidden},
}

// eachError checks all errors of the run. It makes one if there was none.
func (r *run) eachError(wrong func(a *answer) (want string)) error {
	if len(r.errors) == 0 {
		if _, err := r.call("events/poll", params{"name": "herald.check.unknown", "cursor": nil}); err != nil {
			return err
		}
	}
	for _, a := range r.errors {
		if want := wrong(a); want != "" {
			return a.but("%s", want)
		}
	}
	return nil
}

func (r *run) errorsAreShaped() error {
	return r.eachError(func(a *answer) string {
		if a.err.Code == statusNoMeaning || a.err.Message == "" {
			return "an error with code and message"
		}
		return ""
	})
}

func (r *run) errorsSpeakDialect() error {
	other := Sketch.codes()
	if r.dialect == Sketch {
		other = SEP.codes()
	}
	foreign := []int{other.notFound, other.forbidden, other.exhausted, other.unsupported, other.callback}
	return r.eachError(func(a *answer) string {
		if slices.Contains(foreign, a.err.Code) {
			return "a number of dialect " + string(r.dialect)
		}
		return ""
	})
}

func (r *run) errorsAreNoCrash() error {
	return r.eachError(func(a *answer) string {
		if a.status >= 500 {
			return "HTTP 200 or 400"
		}
		return ""
	})
}

func (r *run) secretsStayHidden() error {
	if len(r.secrets) == 0 {
		return cannot("no secret was sent")
	}
	if len(r.leaks) > 0 {
		return fail(r.leaks[0].sent, "an answer without the secret", "%s", r.redact([]byte(r.leaks[0].String())))
	}
	return nil
}
