package mcpapi

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/agentapi"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/strictjson"
	"github.com/herald-relay/herald/internal/web"
)

// toolCalls are the tools by name.
var toolCalls = map[string]func(c *call, w http.ResponseWriter, r *http.Request, arguments strictjson.Value) error{
	"send_notification": (*call).sendNotification,
	"get_receipt":       (*call).getReceipt,
	"wait_for_reply":    (*call).waitForReply,
	"herald_status":     (*call).heraldStatus,
}

// Waits of wait_for_reply (contract section 4.5): five seconds below the route's limit, so that a client that gives up
// after a minute is answered first.
const (
	defaultWait = 30 * time.Second
	longestWait = 55 * time.Second
)

func (c *call) sendNotification(w http.ResponseWriter, r *http.Request, arguments strictjson.Value) error {
	err := c.spent
	if err == nil {
		err = payload.Fits(arguments, c.MaxBody)
	}
	var in payload.Payload
	if err == nil {
		in, err = payload.FromValue(arguments)
	}
	var out agentapi.Sent
	if err == nil {
		out, err = c.Agents.Send(r.Context(), c.p, in, c.origin, c.now)
	}
	return c.answer(w, out, err)
}

func (c *call) getReceipt(w http.ResponseWriter, r *http.Request, arguments strictjson.Value) error {
	id, wrong := notificationID(arguments)
	if wrong != "" {
		return c.explain(w, wrong)
	}
	err := c.read()
	var out agentapi.Receipt
	if err == nil {
		out, err = c.Agents.Receipt(r.Context(), c.p, id, c.origin, c.now)
	}
	return c.answer(w, out, err)
}

func (c *call) waitForReply(w http.ResponseWriter, r *http.Request, arguments strictjson.Value) error {
	id, wrong := notificationID(arguments, "timeoutSeconds")
	patience := defaultWait
	if seconds, found := arguments.Number("timeoutSeconds"); found == strictjson.WrongType || seconds < 0 {
		wrong = "timeoutSeconds must be a number of seconds from 0 to 55"
	} else if found == strictjson.Present {
		patience = time.Duration(math.Min(seconds, longestWait.Seconds()) * float64(time.Second))
	}
	if wrong != "" {
		return c.explain(w, wrong)
	}
	if err := c.read(); err != nil {
		return c.answer(w, nil, err)
	}
	parked := &call{m: &message{id: slices.Clone(c.m.id), modern: c.m.modern}, origin: c.origin} // without the body
	return c.Agents.Await(w, r, c.p, id, patience, c.now, func(w http.ResponseWriter, out agentapi.Reply, err error) error {
		return parked.answer(w, out, err)
	})
}

func (c *call) heraldStatus(w http.ResponseWriter, r *http.Request, arguments strictjson.Value) error {
	if wrong := unexpected(arguments); wrong != "" {
		return c.explain(w, wrong)
	}
	err := c.spent
	var out agentapi.Status
	if err == nil {
		out, err = c.Agents.Status(r.Context(), c.p, c.now)
	}
	return c.answer(w, out, err)
}

// read admits a tool that the read limit covers.
func (c *call) read() error {
	if c.spent != nil {
		return c.spent
	}
	return c.Agents.AllowRead(c.p, c.now)
}

// notificationID takes the one required argument of the tools that read. wrong says what to mend.
func notificationID(arguments strictjson.Value, others ...string) (id, wrong string) {
	id, found := arguments.Text("notificationId")
	if found != strictjson.Present || id == "" {
		return "", "notificationId must be a string: the id of a notification that you sent"
	}
	return id, unexpected(arguments, append(others, "notificationId")...)
}

// unexpected names arguments that a tool does not take, or takes once.
func unexpected(arguments strictjson.Value, known ...string) (wrong string) {
	if names := arguments.Unknown("", known); len(names) > 0 {
		return "this tool does not take " + strings.Join(names, ", ")
	}
	if err := arguments.RefuseRepeats(known); err != nil {
		return fault.From(err).Detail
	}
	return ""
}

// answer writes the result of a tool: what its route answers, or would refuse with. Only what is wrong with the credential is
// an error of the request.
func (c *call) answer(w http.ResponseWriter, out any, err error) error {
	switch {
	case fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden):
		return challenge(w, c.origin, true, err)
	case web.HungUp(err):
		return err
	case err != nil:
		out = web.ErrorBody(err)
	}
	data, encoding := json.Marshal(out)
	if encoding != nil {
		return encoding
	}
	text, encoding := jsontext.AppendQuote(nil, data)
	if encoding != nil {
		return encoding
	}
	members := make([]byte, 0, 2*len(data)+len(text)+128)
	members = append(members, `"content":[{"type":"text","text":`...)
	members = append(members, text...)
	members = append(members, `}],"structuredContent":`...)
	members = append(members, data...)
	if err != nil {
		members = append(members, `,"isError":true`...)
	}
	writeResult(w, c.m, members)
	return err // for the log
}

// explain answers a call whose arguments reach no route.
func (c *call) explain(w http.ResponseWriter, wrong string) error {
	text, err := jsontext.AppendQuote(nil, wrong)
	if err != nil {
		return err
	}
	writeResult(w, c.m, append(append([]byte(`"content":[{"type":"text","text":`), text...), `}],"isError":true`...))
	return nil
}
