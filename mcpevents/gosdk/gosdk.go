// Package gosdk adds MCP Events to a server built on the official Go SDK, and to its client.
//
//	sdk := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1"}, nil)
//	gosdk.Announce(sdk, events)
//	base := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk }, nil)
//	http.Handle("/mcp", gosdk.NewHandler(events, base, authenticate, nil))
//
// The SDK (v1.8.0) has no events and cannot carry all of them, so what it cannot do is done around it:
//
//   - It has no field for the top-level capability that ChatGPT and the AI SDK look for: Announce is a middleware that
//     adds it to what initialize and server/discover answer.
//   - It cannot send notifications of others, which a stream consists of, nor answer a custom method with a stream, nor put
//     resultType into a custom result: NewHandler and Transport take the extension's messages off the wire before the SDK
//     sees them, and answer them with the library's own endpoint. Everything else passes through untouched.
//   - It ends the process when a handler panics. The extension's messages never reach its handlers.
//   - Its fixed filter of subscriptions/listen does not know eventsListChanged: clients re-list instead.
package gosdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/herald-relay/herald/mcpevents"
)

// Announce has an SDK server announce the extension, in both places, to clients of every revision.
func Announce(server *mcp.Server, events *mcpevents.Server) {
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			if err != nil {
				return result, err
			}
			switch r := result.(type) {
			case *mcp.InitializeResult:
				return &initialized{r, events}, nil
			case *mcp.DiscoverResult:
				return &discovered{r, events}, nil
			}
			return result, nil
		}
	})
}

// initialized and discovered are the SDK's results with the capabilities that it has no fields for.
type (
	initialized struct {
		*mcp.InitializeResult
		events *mcpevents.Server
	}
	discovered struct {
		*mcp.DiscoverResult
		events *mcpevents.Server
	}
)

// MarshalJSON encodes the SDK's result and adds to its capabilities.
func (r *initialized) MarshalJSON() ([]byte, error) { return announce(r.InitializeResult, r.events) }

// MarshalJSON encodes the SDK's result and adds to its capabilities.
func (r *discovered) MarshalJSON() ([]byte, error) { return announce(r.DiscoverResult, r.events) }

func announce(result any, events *mcpevents.Server) ([]byte, error) {
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	capabilities, _ := all["capabilities"].(map[string]any)
	if capabilities == nil {
		capabilities = map[string]any{}
		all["capabilities"] = capabilities
	}
	events.Capabilities(capabilities)
	return json.Marshal(all)
}

// ours reports whether a method belongs to the extension.
func ours(method string) bool { return slices.Contains(mcpevents.Methods(), method) }

// maxBody bounds what is read of a request to see whose it is.
const maxBody = 4 << 20

// NewHandler serves the extension's requests and passes all others to the SDK's handler. authenticate is asked for the
// extension's only: protect both with middleware in front where needed.
func NewHandler(events *mcpevents.Server, sdk http.Handler, authenticate mcpevents.Authenticate, opts *mcpevents.HandlerOptions) http.Handler {
	own := mcpevents.NewHandler(events, authenticate, opts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			sdk.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, "body unreadable or larger than 4 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		var message struct {
			Method string `json:"method"`
		}
		if json.Unmarshal(body, &message) == nil && ours(message.Method) {
			own.ServeHTTP(w, r)
			return
		}
		sdk.ServeHTTP(w, r)
	})
}

// Transport wraps the transport of an SDK server, such as mcp.StdioTransport: it serves the extension's requests from one
// caller and passes all other messages on.
type Transport struct {
	mcp.Transport
	Events *mcpevents.Server
	Caller mcpevents.Caller
	// Options are for the extension's answers; nil is fine.
	Options *mcpevents.HandlerOptions
}

// Connect connects the wrapped transport.
func (t *Transport) Connect(ctx context.Context) (mcp.Connection, error) {
	inner, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &connection{Connection: inner, endpoint: mcpevents.NewEndpoint(t.Events, t.Options), caller: t.Caller,
		calls: map[any]context.CancelFunc{}}
	c.ctx, c.leave = context.WithCancel(context.WithoutCancel(ctx))
	return c, nil
}

// connection takes the extension's messages out of a connection.
type connection struct {
	mcp.Connection
	endpoint *mcpevents.Endpoint
	caller   mcpevents.Caller
	ctx      context.Context // until Close
	leave    context.CancelFunc
	under    sync.WaitGroup

	mu    sync.Mutex // guards calls
	calls map[any]context.CancelFunc
}

// Read returns the next message that is not the extension's.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			return m, err
		}
		req, is := m.(*jsonrpc.Request)
		switch {
		case is && ours(req.Method) && req.ID.IsValid():
			c.begin(req)
		case is && req.Method == "notifications/cancelled" && c.cancel(req.Params):
		default:
			return m, nil
		}
	}
}

func (c *connection) begin(req *jsonrpc.Request) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	c.calls[req.ID.Raw()] = cancel
	c.mu.Unlock()
	c.under.Go(func() {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.calls, req.ID.Raw())
			cancel()
		}()
		raw, err := jsonrpc.EncodeMessage(req)
		if err != nil {
			return // it was decoded, so it can be encoded
		}
		if answer := c.endpoint.Answer(ctx, raw, c.caller, func(n []byte) error { return c.write(ctx, n) }); answer != nil {
			_ = c.write(ctx, answer) // a broken connection ends by its Read
		}
	})
}

func (c *connection) write(ctx context.Context, raw []byte) error {
	m, err := jsonrpc.DecodeMessage(raw)
	if err != nil {
		return err
	}
	return c.Connection.Write(ctx, m)
}

// cancel ends a call of the extension; it reports whether there was one.
func (c *connection) cancel(params json.RawMessage) bool {
	var p struct {
		RequestID any `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return false
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cancel := c.calls[id.Raw()]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

// Close ends the extension's calls and closes the connection.
func (c *connection) Close() error {
	c.leave()
	err := c.Connection.Close()
	c.under.Wait()
	return err
}

// params and result carry the extension's JSON through the SDK's client.
type (
	params struct {
		mcp.ParamsBase
		members map[string]any
	}
	result struct {
		mcp.ResultBase
		raw json.RawMessage
	}
)

// MarshalJSON writes the members beside the SDK's own _meta.
func (p *params) MarshalJSON() ([]byte, error) {
	all := maps.Clone(p.members)
	if all == nil {
		all = map[string]any{}
	}
	if len(p.Meta) > 0 {
		all["_meta"] = p.Meta
	}
	return json.Marshal(all)
}

// UnmarshalJSON keeps what came.
func (r *result) UnmarshalJSON(raw []byte) error {
	r.raw = bytes.Clone(raw)
	return nil
}

// Register readies an SDK client for Conn. Call it before the client connects.
func Register(client *mcp.Client) error {
	var errs []error
	for _, method := range []string{mcpevents.MethodList, mcpevents.MethodPoll, mcpevents.MethodSubscribe, mcpevents.MethodUnsubscribe} {
		errs = append(errs, mcp.AddSendingCustomMethod[*params, *result](client, method))
	}
	return errors.Join(errs...)
}

// Conn is a subscriber.Conn over a session of an SDK client that was readied with Register. It polls and subscribes; it
// cannot stream, because the SDK's client drops notifications that it does not know.
type Conn struct{ Session *mcp.ClientSession }

// Call makes a request.
func (c Conn) Call(ctx context.Context, method string, members map[string]any) (json.RawMessage, error) {
	r, err := mcp.CallCustomMethod[*params, *result](ctx, c.Session, method, &params{members: members})
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		e := &mcpevents.Error{Meaning: mcpevents.MeaningOf(int(wire.Code)), Message: wire.Message}
		_ = json.Unmarshal(wire.Data, &e.Data) // data of another shape is not needed
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return r.raw, nil
}
