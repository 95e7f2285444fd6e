package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/subscriber"
)

// describeEvents shows what goes wrong with servers of MCP Events, whose words are strangers'.
func describeEvents(err error) (f failure, ours bool) {
	if e, ok := errors.AsType[*mcpevents.Error](err); ok {
		return eventsRefusal(e), true
	}
	if e, ok := errors.AsType[*subscriber.StatusError](err); ok {
		return notAnEndpoint(e), true
	}
	switch {
	case errors.Is(err, subscriber.ErrNoEvents):
		return failure{Message: "the server announces no events", Code: "no_events",
			Hint: "it needs capabilities.events, or io.modelcontextprotocol/events in capabilities.extensions; is this its MCP endpoint?"}, true
	case errors.Is(err, subscriber.ErrNoMode):
		return failure{Message: screen.Line(strings.TrimPrefix(err.Error(), "subscriber: ")), Code: "no_mode",
			Hint: "herald events subscribe sends such events to a webhook; herald events receive shows them"}, true
	}
	text := err.Error()
	if e, ok := errors.AsType[*url.Error](err); ok && strings.HasPrefix(text, "subscriber: ") {
		host := e.URL
		if u, err := url.Parse(e.URL); err == nil {
			host = u.Host
		}
		return failure{Message: screen.Line(host + " cannot be reached: " + e.Err.Error()), Code: "unreachable",
			Hint: "does the server run, and is this its address?"}, true
	}
	if text, ours = strings.CutPrefix(text, "subscriber: "); ours {
		return failure{Message: screen.Line(text)}, true
	}
	return failure{}, false
}

// maxShownData bounds what is shown of an error's data.
const maxShownData = 500

// eventsRefusal shows an error that a server answered: its words, what its code means in either table, what to do.
func eventsRefusal(e *mcpevents.Error) failure {
	f := failure{Message: screen.Line(e.Message), Code: e.Meaning.String(), Number: e.Code, Hint: eventsAdvice[e.Meaning]}
	if f.Message == "" {
		f.Message = "the server refuses and does not say why"
	}
	if e.Data == nil {
		return f
	}
	reason, _ := e.Data["reason"].(string)
	if e.Meaning == mcpevents.CallbackEndpointError && callbackAdvice[reason] != "" {
		f.Hint = callbackAdvice[reason]
	}
	data, err := json.Marshal(e.Data)
	if err == nil && len(data) <= maxShownData {
		f.Data = screen.JSON(data)
	}
	return f
}

const echoAdvice = "the receiver must repeat the challenge: has it the same secret? herald events receive --secret-file does it"

var eventsAdvice = map[mcpevents.Meaning]string{
	mcpevents.Internal:              "the server is in trouble, or answers with a code that neither dialect knows; its log tells more",
	mcpevents.InvalidParams:         "herald events list shows which arguments the event type takes",
	mcpevents.NotFound:              "herald events list shows what there is; an unsubscribe must repeat name, arguments and address exactly",
	mcpevents.Forbidden:             "give a token of somebody who may: --token-file, or the variable HERALD_TOKEN",
	mcpevents.ResourceExhausted:     "end what is not needed any more with herald events unsubscribe, or ask the server's operator for more",
	mcpevents.Unsupported:           "herald events list shows which ways of delivery the event type offers",
	mcpevents.CallbackEndpointError: "the server called the address while it was asked, and got no right answer; herald events receive gives one",
	mcpevents.MethodNotFound:        "the server has no events at this address, or another dialect of them",
	mcpevents.HeaderMismatch:        "something on the way changes the headers MCP-Protocol-Version or Mcp-Method",
	mcpevents.UnsupportedVersion:    "the server speaks other revisions of MCP only",
}

// callbackAdvice is for the reasons of CallbackEndpointError: the extension's, and those of the two products that the dialect
// sketch is spoken by.
var callbackAdvice = map[string]string{
	"connection_refused": "nothing answers there from where the server is: start the receiver first, and see that its name and port are public",
	"timeout":            "the address answers too late: is a firewall dropping the request, or the receiver slow?",
	"tls_error":          "the address needs a certificate that the server trusts, for that very name",
	"http_4xx":           "the address answers, but not as a receiver: is the path right?",
	"http_5xx":           "what answers there is in trouble, or its proxy finds no receiver behind it",
	"unreachable":        "nothing answers there in time from where the server is: start the receiver first, and see that its name, port and certificate are public",
	"bad_status":         "what answers there refuses the challenge: is the path right, and the receiver running?",
	"url_rejected":       "servers send to public https addresses only, on the default port",
	"challenge_mismatch": echoAdvice,
	"challenge_failed":   echoAdvice,
}

// notAnEndpoint shows an answer that is no message.
func notAnEndpoint(e *subscriber.StatusError) failure {
	f := failure{Message: fmt.Sprintf("the address answers %d %s, and no JSON-RPC", e.Status, http.StatusText(e.Status)), Code: fmt.Sprintf("http_%d", e.Status),
		Hint: "is this the server's MCP endpoint, path included?"}
	switch {
	case e.Status == http.StatusUnauthorized:
		f.Message, f.Hint = "the server wants to know who asks", "give a token: --token-file, or the variable HERALD_TOKEN"
	case e.Status == http.StatusForbidden:
		f.Message, f.Hint = "the server refuses whoever asks", "give a token of somebody who may: --token-file, or the variable HERALD_TOKEN"
	case e.Status >= 300 && e.Status < 400 && e.Header.Get("Location") != "":
		f.Hint = "redirects are not followed; it points to " + screen.Line(e.Header.Get("Location"))
	case e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable:
		f.Hint = "try again later"
		if after := e.Header.Get("Retry-After"); after != "" {
			f.Hint = "try again later; it says Retry-After: " + screen.Line(after)
		}
	case e.Status >= 500:
		f.Hint = "the server is in trouble, or what stands before it finds none"
	}
	return f
}
