package local

import (
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// tool is one of the MCP server's tools.
type tool struct {
	Name         string         `json:"name"`
	Title        string         `json:"title"`
	Description  string         `json:"description"`
	InputSchema  jsontext.Value `json:"inputSchema"`
	OutputSchema jsontext.Value `json:"outputSchema"`
	Annotations  hints          `json:"annotations"`

	call func(*Local, context.Context, jsontext.Value) (any, error)
}

// hints are the annotations, all of them said, since their defaults assume the worst.
type hints struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

var (
	reads    = hints{ReadOnly: true, Idempotent: true}
	adds     = hints{}
	destroys = hints{Destructive: true, Idempotent: true}
)

const nothing = `{"type":"object","properties":{},"additionalProperties":false}`

// tools in the order in which they are listed.
var tools = []tool{
	{Name: "relay_status", Title: "Relay status",
		Description: "Tells whether this machine is paired with a Herald relay, whether the relay answers and a device is connected, how many notifications wait and whether quiet hours are on. Never fails: what is wrong is in problem.",
		InputSchema: jsontext.Value(nothing), OutputSchema: jsontext.Value(statusSchema), Annotations: reads,
		call: func(l *Local, ctx context.Context, raw jsontext.Value) (any, error) {
			return l.Status(ctx), none(raw)
		}},
	{Name: "relay_usage", Title: "Relay usage",
		Description: "Shows what this device's mailbox used of its daily allowances at the relay, and the allowances.",
		InputSchema: jsontext.Value(nothing), OutputSchema: jsontext.Value(usageSchema), Annotations: reads,
		call: func(l *Local, ctx context.Context, raw jsontext.Value) (any, error) {
			return ifNone(raw, func() (any, error) { return l.Usage(ctx) })
		}},
	{Name: "relay_test", Title: "Test the relay",
		Description: "Sends a test notification through the relay to the person's devices and waits up to ten seconds until one shows it. The person sees it. Nothing else is left behind.",
		InputSchema: jsontext.Value(nothing), OutputSchema: jsontext.Value(trialSchema), Annotations: adds,
		call: func(l *Local, ctx context.Context, raw jsontext.Value) (any, error) {
			return ifNone(raw, func() (any, error) { return l.Test(ctx) })
		}},
	{Name: "create_agent_key", Title: "Make an agent key",
		Description: "Makes a key with which an agent sends notifications to the person and reads their replies. The key is in this answer only and cannot be read again: hand it to the agent at once, and do not repeat it elsewhere. At most 20 keys and connectors are active.",
		InputSchema: jsontext.Value(newKeySchema), OutputSchema: jsontext.Value(madeSchema), Annotations: adds,
		call: func(l *Local, ctx context.Context, raw jsontext.Value) (any, error) {
			a, err := read[struct {
				Name   string `json:"name"`
				Client string `json:"client"`
			}](raw, "name")
			if err != nil {
				return nil, err
			}
			return l.CreateKey(ctx, a.Name, a.Client)
		}},
	{Name: "revoke_agent_key", Title: "Revoke an agent key or connector",
		Description: "Ends an agent key or a connector at once, with its tokens and subscriptions. It cannot be undone. What it queued before is still delivered, unless purge is true, which also removes it from the list with everything it sent.",
		InputSchema: jsontext.Value(revokeSchema), OutputSchema: jsontext.Value(revokedSchema), Annotations: destroys,
		call: func(l *Local, ctx context.Context, raw jsontext.Value) (any, error) {
			a, err := read[struct {
				ID    string `json:"id"`
				Purge bool   `json:"purge"`
			}](raw, "id")
			if err != nil {
				return nil, err
			}
			return l.RevokeKey(ctx, a.ID, a.Purge)
		}},
	{Name: "list_connectors", Title: "List connectors",
		Description: "Lists the apps that the person approved, and those that wait for approval. Only the person approves, on a device; the digits for it are in no answer.",
		InputSchema: jsontext.Value(nothing), OutputSchema: jsontext.Value(connectorsSchema), Annotations: reads,
		call: func(l *Local, ctx context.Context, raw jsontext.Value) (any, error) {
			return ifNone(raw, func() (any, error) { return l.Connectors(ctx) })
		}},
	{Name: "relay_instructions", Title: "How to connect an agent",
		Description: "Gives the steps that connect an agent to this relay: chatgpt, claude, codex, or device for an agent without a browser.",
		InputSchema: jsontext.Value(wayOfSchema), OutputSchema: jsontext.Value(instructionsSchema), Annotations: reads,
		call: func(l *Local, ctx context.Context, raw jsontext.Value) (any, error) {
			a, err := read[struct {
				Client string `json:"client"`
			}](raw, "client")
			if err != nil {
				return nil, err
			}
			return l.Instructions(ctx, a.Client)
		}},
	{Name: "relay_events", Title: "List reply subscriptions",
		Description: "Lists who is called when the person replies: which connector, which host, and how many events wait to be delivered. Paths and secrets are never shown.",
		InputSchema: jsontext.Value(nothing), OutputSchema: jsontext.Value(eventsSchema), Annotations: reads,
		call: func(l *Local, ctx context.Context, raw jsontext.Value) (any, error) {
			return ifNone(raw, func() (any, error) { return l.Events(ctx) })
		}},
	{Name: "relay_remove_event_subscription", Title: "End a reply subscription",
		Description: "Ends a reply subscription and drops the events that wait for it. The connector stays approved and may subscribe again. Ending one that is not there succeeds.",
		InputSchema: jsontext.Value(endSchema), OutputSchema: jsontext.Value(removedSchema), Annotations: destroys,
		call: func(l *Local, ctx context.Context, raw jsontext.Value) (any, error) {
			a, err := read[struct {
				ID string `json:"id"`
			}](raw, "id")
			if err != nil {
				return nil, err
			}
			return l.EndSubscription(ctx, a.ID)
		}},
}

func toolNamed(name string) *tool {
	i := slices.IndexFunc(tools, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &tools[i]
}

// read decodes arguments strictly: what a tool does not know must not be taken for done. required must be there.
func read[T any](raw jsontext.Value, required ...string) (a T, err error) {
	if len(raw) == 0 || raw.Kind() == 'n' {
		raw = jsontext.Value("{}")
	}
	if err := json.Unmarshal(raw, &a, json.RejectUnknownMembers(true)); err != nil {
		return a, misfit(err)
	}
	var there map[string]jsontext.Value
	if err := json.Unmarshal(raw, &there); err != nil {
		return a, misfit(err)
	}
	for _, name := range required {
		if v := there[name]; len(v) == 0 || v.Kind() == 'n' {
			return a, malformed(name, name+" is missing")
		}
	}
	return a, nil
}

func misfit(err error) *Problem {
	p := &Problem{Code: "invalid_request", Message: "the arguments do not fit the tool's inputSchema"}
	if e, ok := errors.AsType[*json.SemanticError](err); ok && e.JSONPointer != "" {
		name := e.JSONPointer.LastToken()
		p.Fields = []string{name}
		p.Message = "the argument " + name + " is not one that the tool takes"
	}
	return p
}

func none(raw jsontext.Value) error {
	_, err := read[struct{}](raw)
	return err
}

func ifNone(raw jsontext.Value, then func() (any, error)) (any, error) {
	if err := none(raw); err != nil {
		return nil, err
	}
	return then()
}
