package local

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/mcpevents"
)

const instructions = "These tools look after the Herald relay that this machine is paired with: whether it works, who may send notifications to the person, and who is called when they reply. " +
	"They send no notification but the one of relay_test; an agent sends its own with a key from create_agent_key, or by connecting as relay_instructions tells. " +
	"Ask the person before you make or revoke keys or end subscriptions."

// ServeMCP is a stdio MCP server: one message a line, from in and to out, for clients of every revision. It ends with in, or
// with ctx.
func (l *Local) ServeMCP(ctx context.Context, in io.Reader, out io.Writer, version string) error {
	listed, err := json.Marshal(struct {
		Tools []tool `json:"tools"`
	}{tools})
	if err != nil {
		return err
	}
	opts := &mcpevents.HandlerOptions{
		Info:         mcpevents.Info{Name: "herald", Title: "Herald on this machine", Version: version},
		Instructions: instructions,
		Capabilities: map[string]any{"tools": map[string]any{"listChanged": false}},
		Methods: map[string]mcpevents.Method{
			"tools/list": func(context.Context, mcpevents.Caller, stdjson.RawMessage) (any, error) {
				return jsontext.Value(listed), nil
			},
			"tools/call": func(ctx context.Context, _ mcpevents.Caller, params stdjson.RawMessage) (any, error) {
				return l.callTool(ctx, jsontext.Value(params))
			},
		},
	}
	served := make(chan error, 1)
	// It may be stuck reading standard input, which nothing can interrupt: the process ends over it.
	go func() { served <- mcpevents.ServePipe(ctx, nil, in, out, mcpevents.Caller{}, opts) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return nil
	}
}

// callResult is what tools/call answers.
type callResult struct {
	Content    []text         `json:"content"`
	Structured jsontext.Value `json:"structuredContent,omitempty"`
	IsError    bool           `json:"isError,omitempty"`
}

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// callTool runs a tool. What goes wrong in it is a result, which the agent reads; only calls that make no sense are errors.
func (l *Local) callTool(ctx context.Context, params jsontext.Value) (any, error) {
	var p struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := json.Unmarshal(params, &p); err != nil || p.Name == "" {
		return nil, &mcpevents.Error{Meaning: mcpevents.InvalidParams, Message: "params must hold the name of a tool"}
	}
	t := toolNamed(p.Name)
	if t == nil {
		return nil, &mcpevents.Error{Meaning: mcpevents.InvalidParams, Message: fmt.Sprintf("there is no tool %.64q", p.Name)}
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	answer, err := t.call(l, ctx, p.Arguments)
	if err != nil {
		return l.refused(err)
	}
	raw, err := json.Marshal(answer)
	return callResult{Content: []text{{"text", string(raw)}}, Structured: raw}, err
}

// refused is a failed call. It has no structured content, which would have to fit the tool's outputSchema.
func (l *Local) refused(err error) (any, error) {
	raw, err := json.Marshal(l.opt.Explain(err))
	return callResult{Content: []text{{"text", string(raw)}}, IsError: true}, err
}
