package subscriber

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/herald-relay/herald/mcpevents"
)

// Conn is the way to a server. An error that the server answered is a *mcpevents.Error, by meaning whatever its dialect.
type Conn interface {
	// Call makes a request and returns its result.
	Call(ctx context.Context, method string, params map[string]any) (json.RawMessage, error)
}

// Streamer is a Conn that can follow events/stream.
type Streamer interface {
	Conn
	// Stream makes a request and calls each for every notification that belongs to it, one after the other. It returns
	// nil after the final result, else why it ended; an error of each ends it.
	Stream(ctx context.Context, method string, params map[string]any, each func(method string, params json.RawMessage) error) error
}

// ErrNoEvents says that a server does not announce the extension in either place.
var ErrNoEvents = errors.New("subscriber: the server does not announce events")

const (
	maxAnswer = 8 << 20 // bytes of an answer, or of one frame of a stream
	modern    = "2026-07-28"
	legacy    = "2025-06-18"
)

// ClientOptions are what a Client can do without.
type ClientOptions struct {
	// HTTP makes the requests; it must have no overall timeout if streams are to last. Nil is a plain one.
	HTTP *http.Client
	// Authorize adds a credential to each request. Nil adds none.
	Authorize func(ctx context.Context, h http.Header) error
	// Dialect is how the client presents itself. Empty is DialectSEP.
	Dialect mcpevents.Dialect
}

// Client is a Conn over HTTP. It speaks the revision without sessions, and falls back to an older one that begins with
// initialize when a server knows no better.
type Client struct {
	url  string
	opts ClientOptions
	ids  atomic.Int64

	mu      sync.Mutex // guards what follows, while the server is asked who it is
	version string
}

// Dial returns a Client of the MCP endpoint at url. Nothing is sent before the first call, which also finds out whether
// the server has events.
func Dial(url string, opts *ClientOptions) *Client {
	c := &Client{url: url}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.HTTP == nil {
		c.opts.HTTP = &http.Client{}
	}
	if c.opts.Dialect == "" {
		c.opts.Dialect = mcpevents.DialectSEP
	}
	return c
}

// Call makes a request.
func (c *Client) Call(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	version, err := c.ready(ctx)
	if err != nil {
		return nil, err
	}
	return c.call(ctx, version, method, params)
}

// ready finds out once which revision the server speaks and that it has events (contract a.1: in either place).
func (c *Client) ready(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != "" {
		return c.version, nil
	}
	version := modern
	raw, err := c.call(ctx, modern, "server/discover", map[string]any{})
	var refusal *mcpevents.Error
	if errors.As(err, &refusal) {
		version = legacy
		raw, err = c.call(ctx, legacy, "initialize", map[string]any{"protocolVersion": legacy, "capabilities": map[string]any{},
			"clientInfo": mcpevents.Info{Name: "mcpevents-subscriber", Version: "1"}})
	}
	if err != nil {
		return "", err
	}
	var found struct {
		Capabilities struct {
			Events     json.RawMessage            `json:"events"`
			Extensions map[string]json.RawMessage `json:"extensions"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(raw, &found); err != nil {
		return "", fmt.Errorf("subscriber: read the server's capabilities: %w", err)
	}
	if found.Capabilities.Events == nil && found.Capabilities.Extensions[mcpevents.Extension] == nil {
		return "", ErrNoEvents
	}
	c.version = version
	return version, nil
}

// request builds a request in the form of a revision.
func (c *Client) request(ctx context.Context, version, method string, params map[string]any) (*http.Request, int64, error) {
	if params == nil {
		params = map[string]any{}
	}
	if version == modern {
		capabilities := map[string]any{}
		if c.opts.Dialect == mcpevents.DialectSEP {
			capabilities["extensions"] = map[string]any{mcpevents.Extension: map[string]any{}}
		}
		with := map[string]any{"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": modern,
			"io.modelcontextprotocol/clientCapabilities": capabilities}}
		maps.Copy(with, params)
		params = with
	}
	id := c.ids.Add(1)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Method", method)
	if method != "initialize" {
		req.Header.Set("MCP-Protocol-Version", version)
	}
	if c.opts.Authorize != nil {
		err = c.opts.Authorize(ctx, req.Header)
	}
	return req, id, err
}

func (c *Client) call(ctx context.Context, version, method string, params map[string]any) (json.RawMessage, error) {
	var result json.RawMessage
	err := c.exchange(ctx, version, method, params, func(m *answer) (bool, error) {
		if m.Method != "" {
			return false, nil
		}
		result = m.Result
		return true, nil
	})
	return result, err
}

// Stream follows events/stream.
func (c *Client) Stream(ctx context.Context, method string, params map[string]any, each func(string, json.RawMessage) error) error {
	version, err := c.ready(ctx)
	if err != nil {
		return err
	}
	return c.exchange(ctx, version, method, params, func(m *answer) (bool, error) {
		if m.Method == "" {
			return true, nil
		}
		return false, each(m.Method, m.Params)
	})
}

// answer is any message from a server.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *mcpevents.Wire `json:"error"`
}

// exchange sends a request and hands on what comes back, until take says that it was the last.
func (c *Client) exchange(ctx context.Context, version, method string, params map[string]any, take func(*answer) (last bool, err error)) error {
	req, id, err := c.request(ctx, version, method, params)
	if err != nil {
		return fmt.Errorf("subscriber: %s: %w", method, err)
	}
	resp, err := c.opts.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("subscriber: %s: %w", method, err)
	}
	defer resp.Body.Close()
	next := messages(resp)
	for {
		raw, err := next()
		if err != nil {
			return fmt.Errorf("subscriber: %s: HTTP %d: %w", method, resp.StatusCode, err)
		}
		var m answer
		if err := json.Unmarshal(raw, &m); err != nil {
			if refusesForm(resp.StatusCode) {
				return &mcpevents.Error{Meaning: mcpevents.InvalidRequest, Message: fmt.Sprintf("HTTP %d", resp.StatusCode)}
			}
			return fmt.Errorf("subscriber: %s: HTTP %d: not a message: %w", method, resp.StatusCode, err)
		}
		if m.Error != nil {
			return &mcpevents.Error{Meaning: mcpevents.MeaningOf(m.Error.Code), Message: m.Error.Message, Data: m.Error.Data}
		}
		if m.Method == "" && string(m.ID) != fmt.Sprint(id) {
			return fmt.Errorf("subscriber: %s: HTTP %d: an answer to another request", method, resp.StatusCode)
		}
		last, err := take(&m)
		if last || err != nil {
			return err
		}
	}
}

// refusesForm reports a status by which servers of older revisions refuse, in plain text, what they do not know.
func refusesForm(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusNotAcceptable ||
		status == http.StatusUnsupportedMediaType
}

// messages reads the messages of a response: one, or a stream of server-sent events.
func messages(resp *http.Response) func() ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "text/event-stream" {
		done := false
		return func() ([]byte, error) {
			if done {
				return nil, io.ErrUnexpectedEOF
			}
			done = true
			return io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		}
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4096), maxAnswer)
	return func() ([]byte, error) { return nextFrame(lines) }
}

// nextFrame joins the data lines up to a blank line. Comments and other fields are passed over.
func nextFrame(lines *bufio.Scanner) ([]byte, error) {
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if value, found := bytes.CutPrefix(line, []byte("data:")); found {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
			if len(data) > maxAnswer {
				return nil, bufio.ErrTooLong
			}
		}
		if len(line) == 0 && data != nil {
			return data, nil
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF
}
