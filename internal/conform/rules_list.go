package conform

import (
	"bytes"
	"slices"
)

var listRules = []Rule{
	{Number: 201, Group: List, Level: Must, Source: "SEP-3415, events/list (a.2)", Needs: everyone,
		Text: "events/list answers with the array events.", check: func(r *run) error { _, err := r.list(); return owned(err) }},
	{Number: 202, Group: List, Level: Must, Source: "SEP-3415, event descriptors (a.2)", Needs: everyone,
		Text: "Every event type has a name, and no name is there twice, over all pages.", check: (*run).namesAreUnique},
	{Number: 203, Group: List, Level: Must, Source: "SEP-3415, event descriptors (a.2)", Needs: everyone,
		Text: "delivery is a list of poll, push and webhook that is not empty and repeats none.", check: (*run).modesAreKnown},
	{Number: 204, Group: List, Level: Must, Source: "SEP-3415, event descriptors (a.2)", Needs: everyone,
		Text:  "inputSchema, where there is one, is a JSON Schema.",
		check: func(r *run) error { return r.schemaIsUsable("inputSchema") }},
	{Number: 205, Group: List, Level: Must, Source: "SEP-3415, event descriptors (a.2)", Needs: everyone,
		Text:  "payloadSchema, where there is one, is a JSON Schema.",
		check: func(r *run) error { return r.schemaIsUsable("payloadSchema") }},
	{Number: 206, Group: List, Level: Should, Source: "SEP-3415, event descriptors (a.2)", Needs: []Consumer{ChatGPT, ByText},
		Text: "Every event type has a description, by which an agent chooses.", check: (*run).typesAreDescribed},
	{Number: 207, Group: List, Level: Should, Source: "experience of other servers (a.2)", Needs: []Consumer{ChatGPT},
		Text: "Two calls show the event types in the same order.", check: (*run).orderIsStable},
	{Number: 208, Group: List, Level: Must, Source: "MCP, pagination; AI SDK source (c)", Needs: []Consumer{ChatGPT, AISDK, ByText},
		Text: "Following nextCursor comes to an end, and no page cursor comes twice.", check: (*run).pagesEnd},
	{Number: 209, Group: List, Level: Should, Source: "MCP, pagination", Needs: []Consumer{ByText},
		Text: "A page cursor that the server never gave is refused with -32602.", check: (*run).badPageIsRefused},
	{Number: 210, Group: List, Level: Must, Source: "cursors (a)", Needs: everyone,
		Text: "A page cursor that is null is the same as none.", check: (*run).nullPageIsFirst},
	{Number: 211, Group: List, Level: Must, Dialects: bySEP, Source: "MCP 2026-07-28, results (a)", Needs: []Consumer{ByText},
		Text: `Every page has "resultType": "complete".`, check: (*run).pagesAreComplete},
	{Number: 212, Group: List, Level: Should, Dialects: bySketch, Source: "OpenAI, MCP Events; AI SDK source (c)", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger},
		Text: "At least one event type can be had by webhook, the only mode of ChatGPT and the AI SDK.", check: (*run).hasWebhooks},
}

// eachType checks all event types; wrong returns what is wanted, or "".
func (r *run) eachType(wrong func(e *eventType) string) error {
	c, err := r.list()
	if err != nil {
		return err
	}
	if len(c.types) == 0 {
		return cannot("there is no event type")
	}
	for i := range c.types {
		if want := wrong(&c.types[i]); want != "" {
			return fail(c.first.sent, want, "event type %q: %s", c.types[i].Name, encode(c.types[i].raw))
		}
	}
	return nil
}

func (r *run) namesAreUnique() error {
	seen := map[string]bool{}
	return r.eachType(func(e *eventType) string {
		if e.Name == "" || seen[e.Name] {
			return "a name of its own"
		}
		seen[e.Name] = true
		return ""
	})
}

func (r *run) modesAreKnown() error {
	return r.eachType(func(e *eventType) string {
		seen := map[string]bool{}
		for _, mode := range e.Delivery {
			if seen[mode] || !slices.Contains([]string{"poll", "push", "webhook"}, mode) {
				return "delivery: poll, push and webhook, each once at most"
			}
			seen[mode] = true
		}
		if len(seen) == 0 {
			return "delivery: a list that is not empty"
		}
		return ""
	})
}

func (r *run) schemaIsUsable(member string) error {
	return r.eachType(func(e *eventType) string {
		raw := e.raw[member]
		s := schema(raw)
		switch {
		case len(raw) == 0:
			return ""
		case s == nil:
			return member + ": a JSON Schema"
		}
		return ""
	})
}

func (r *run) typesAreDescribed() error {
	return r.eachType(func(e *eventType) string {
		if !isWord(e.raw["description"]) {
			return "a description"
		}
		return ""
	})
}

func (r *run) orderIsStable() error {
	c, err := r.list()
	if err != nil {
		return err
	}
	for range 2 {
		a, err := r.call("events/list", nil)
		if err != nil {
			return err
		}
		if !bytes.Equal(a.result["events"], c.first.result["events"]) {
			return a.but("the same as before: %s", quote(string(c.first.raw)))
		}
	}
	return nil
}

func (r *run) pagesEnd() error {
	c, err := r.list()
	if err != nil {
		return err
	}
	if c.loop != nil {
		return c.loop.but("a nextCursor that is new, or the last page within %d", maxPages)
	}
	if len(c.pages) == 1 {
		return cannot("there is only one page")
	}
	return nil
}

func (r *run) badPageIsRefused() error {
	a, err := r.call("events/list", params{"cursor": "herald check: no such page"})
	if err != nil {
		return err
	}
	return a.wantError(codeParams)
}

func (r *run) nullPageIsFirst() error {
	c, err := r.list()
	if err != nil {
		return err
	}
	a, err := r.call("events/list", params{"cursor": nil})
	if err != nil {
		return err
	}
	if err := a.wantResult(); err != nil {
		return err
	}
	if len(a.result["events"]) != len(c.first.result["events"]) {
		return a.but("the first page")
	}
	return nil
}

func (r *run) pagesAreComplete() error {
	c, err := r.list()
	if err != nil {
		return err
	}
	for _, a := range c.pages {
		if err := a.complete(); err != nil {
			return err
		}
	}
	return nil
}

// complete checks what dialect SEP wants of every result.
func (a *answer) complete() error {
	if text(a.result["resultType"]) != "complete" {
		return a.but(`"resultType": "complete"`)
	}
	return nil
}

func (r *run) hasWebhooks() error {
	c, err := r.list()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(c.types, func(e eventType) bool { return e.offers("webhook") }) {
		return c.first.but("an event type with webhook in delivery")
	}
	return nil
}
