package conform

import (
	"fmt"
	"strings"
)

var everyone = []Consumer{ChatGPT, AISDK, Relay, Ledger, ByText}

// basicRules are the base protocol's, as far as a server of events cannot do without.
var basicRules = []Rule{
	{Number: 1, Group: Basics, Level: Must, Source: "JSON-RPC 2.0; MCP 2026-07-28, messages", Needs: everyone,
		Text:  "A response is JSON-RPC 2.0 and repeats an id that is a string.",
		check: func(r *run) error { return r.echoes(`"herald check \"1\""`) }},
	{Number: 2, Group: Basics, Level: Must, Source: "JSON-RPC 2.0; MCP 2026-07-28, messages", Needs: everyone,
		Text:  "An id that is a number comes back as the same digits, even beyond what a float can hold.",
		check: func(r *run) error { return r.echoes(`9007199254740993`) }},
	{Number: 3, Group: Basics, Level: Must, Source: "MCP 2026-07-28, Streamable HTTP; JSON-RPC 2.0, errors", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A body that is not JSON is answered with HTTP 400 and -32700.",
		check: func(r *run) error {
			return r.refuses(request{method: "events/list", body: `{"jsonrpc":`}, 400, codeParse)
		}},
	{Number: 4, Group: Basics, Level: Must, Source: "MCP 2026-07-28, Streamable HTTP", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A batch is refused with HTTP 400 and -32600; none of its parts is carried out.",
		check: func(r *run) error {
			return r.refuses(request{method: "events/list", body: "[" + string(r.envelope(request{method: "events/list", id: "1"})) + "]"}, 400, codeRequest)
		}},
	{Number: 5, Group: Basics, Level: Must, Source: "MCP 2026-07-28, Streamable HTTP", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A notification is answered with HTTP 202 and no body.", check: (*run).takesNotification},
	{Number: 6, Group: Basics, Level: Must, Source: "MCP 2026-07-28, Streamable HTTP", Needs: []Consumer{Relay, Ledger, ByText},
		Text:  "An unknown method is answered with HTTP 404 and -32601.",
		check: func(r *run) error { return r.refuses(request{method: "events/herald_check", id: "1"}, 404, codeMethod) }},
	{Number: 7, Group: Basics, Level: Must, Source: "MCP 2026-07-28, per-request metadata (0.1)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A request whose _meta lacks the client's capabilities is refused with HTTP 400 and -32602.",
		check: func(r *run) error {
			return r.refuses(request{method: "events/list", id: "1", params: params{"_meta": map[string]any{metaKey + "protocolVersion": revision}}}, 400, codeParams)
		}},
	{Number: 8, Group: Basics, Level: Must, Source: "MCP 2026-07-28, version negotiation (0.1)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A revision that the server does not know is refused with HTTP 400 and -32022, and data.supported lists those it knows.", check: (*run).namesRevisions},
	{Number: 9, Group: Basics, Level: Must, Source: "MCP 2026-07-28, Streamable HTTP headers (0.1)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A header Mcp-Method that differs from the body is refused with HTTP 400 and -32020.",
		check: func(r *run) error {
			return r.refuses(request{method: "events/list", id: "1", header: map[string]string{"Mcp-Method": "tools/list"}}, 400, codeHeader)
		}},
	{Number: 10, Group: Basics, Level: Must, Source: "MCP 2026-07-28, Streamable HTTP headers (0.1)", Needs: []Consumer{Relay, Ledger, ByText},
		Text: "A header MCP-Protocol-Version that differs from the body is refused with HTTP 400 and -32020, or -32022 where the server does not know the older revision.",
		check: func(r *run) error {
			return r.refuses(request{method: "events/list", id: "1", header: map[string]string{"MCP-Protocol-Version": "2025-06-18"}}, 400, codeHeader, codeRevision)
		}},
	{Number: 11, Group: Basics, Level: Should, Source: "MCP 2026-07-28, Streamable HTTP", Needs: []Consumer{Relay, Ledger},
		Text: "GET is answered with HTTP 405 and an Allow header that names POST.", check: (*run).refusesGet},
	{Number: 12, Group: Basics, Level: Must, Source: "MCP 2026-07-28, Streamable HTTP", Needs: everyone,
		Text: "A response that is no stream has the content type application/json.", check: (*run).answersJSON},
	{Number: 13, Group: Basics, Level: Must, Source: "MCP 2026-07-28, authorization", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger, ByText},
		Text: "Without its credential a client is answered with HTTP 401 and WWW-Authenticate, unless events are for everybody.", check: (*run).wantsCredential},
}

// echoes checks the id of a response.
func (r *run) echoes(id string) error {
	a, err := r.do(request{method: "events/list", id: id})
	if err != nil {
		return err
	}
	if string(a.message["id"]) != id || text(a.message["jsonrpc"]) != "2.0" {
		return a.but(`a response with "jsonrpc":"2.0" and "id":%s`, id)
	}
	return nil
}

func (r *run) refuses(q request, status int, codes ...int) error {
	a, err := r.do(q)
	if err != nil {
		return err
	}
	return a.wantStatus(status, codes...)
}

func (r *run) takesNotification() error {
	a, err := r.do(request{method: "notifications/herald_check"})
	if err != nil {
		return err
	}
	if a.status != 202 || len(a.raw) != 0 {
		return a.but("HTTP 202 without a body")
	}
	return nil
}

func (r *run) namesRevisions() error {
	meta := r.meta()
	meta[metaKey+"protocolVersion"] = "1900-01-01"
	a, err := r.do(request{method: "events/list", id: "1", params: params{"_meta": meta},
		header: map[string]string{"MCP-Protocol-Version": "1900-01-01"}})
	if err != nil {
		return err
	}
	if err := a.wantStatus(400, codeRevision); err != nil {
		return err
	}
	if !strings.Contains(string(a.err.Data), `"`+revision+`"`) {
		return a.but("data.supported with %s", revision)
	}
	return nil
}

func (r *run) refusesGet() error {
	a, err := r.do(request{method: "events/list", verb: "GET"})
	if err != nil {
		return err
	}
	if a.status != 405 || !strings.Contains(a.header.Get("Allow"), "POST") {
		return fail("GET", "HTTP 405 with Allow: POST", "HTTP %d, Allow: %s", a.status, a.header.Get("Allow"))
	}
	return nil
}

func (r *run) answersJSON() error {
	a, err := r.call("events/list", nil)
	if err != nil {
		return err
	}
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return fail(a.sent, "content type application/json", "%s", fmt.Sprintf("content type %q", kind))
	}
	return nil
}

func (r *run) wantsCredential() error {
	if r.o.Authorize == nil {
		return cannot("the check runs without a credential itself")
	}
	a, err := r.do(request{method: "events/list", id: "1", anon: true})
	if err != nil {
		return err
	}
	switch {
	case a.status == 401 && a.header.Get("WWW-Authenticate") != "":
		return nil
	case a.status != 401 && a.err == nil && a.result != nil:
		return cannot("events/list is open to everybody; rule 331 looks at subscribing")
	}
	return fail(a.sent+" without a credential", "HTTP 401 with WWW-Authenticate", "%s, WWW-Authenticate: %q", a, a.header.Get("WWW-Authenticate"))
}
