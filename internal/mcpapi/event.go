package mcpapi

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/mcpevents"
)

// event hands a method to the events engine. All but the one that lists count as reads of the key.
func (c *call) event(w http.ResponseWriter, r *http.Request) error {
	if c.m.method != mcpevents.MethodList {
		if c.spent != nil {
			return limited(c.spent)
		}
		if err := c.Agents.AllowRead(c.p, c.now); err != nil {
			return limited(err)
		}
	}
	if c.m.method == mcpevents.MethodStream {
		return c.stream(w, r)
	}
	request, err := c.request()
	if err != nil {
		return err
	}
	result, err := c.Events.Call(r.Context(), request)
	switch {
	case err == nil:
		writeResult(w, c.m, result[1:len(result)-1])
		return nil
	case r.Context().Err() != nil:
		return context.Cause(r.Context())
	}
	wire := mcpevents.ErrorOf(err, request.Dialect)
	refusal := &rpcError{code: wire.Code, status: http.StatusOK, text: wire.Message}
	if wire.Data != nil {
		refusal.data = wire.Data
	}
	if wire.Code == codeInternal {
		refusal.cause = err
	}
	return refusal
}

// request is c's message as the engine takes it: its parameters byte for byte, and the dialect that they declare.
func (c *call) request() (mcpevents.Request, error) {
	var body struct {
		Params jsontext.Value `json:"params"`
	}
	var params struct {
		Meta struct {
			Capabilities jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
	lenient := jsontext.AllowDuplicateNames(true) // the engine refuses them
	if err := json.Unmarshal(c.body, &body, lenient); err != nil {
		return mcpevents.Request{}, err
	}
	if err := json.Unmarshal(body.Params, &params, lenient); err != nil {
		return mcpevents.Request{}, err
	}
	return mcpevents.Request{Method: c.m.method, ID: []byte(c.m.id), Params: []byte(body.Params),
		Dialect: mcpevents.DialectOf([]byte(params.Meta.Capabilities)), Caller: c.Caller(c.p)}, nil
}

// stream answers with what happens, for as long as the client listens and the relay runs.
func (c *call) stream(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.Stopping, cancel)()
	c.events.ServeMessage(w, r.WithContext(ctx), c.body, c.Caller(c.p))
	return nil
}
