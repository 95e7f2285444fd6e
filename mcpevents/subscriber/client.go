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
	"time"

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

	headerSession = "Mcp-Session-Id"
)

// ClientOptions are what a Client can do without.
type ClientOptions struct {
	// HTTP makes the requests; it must have no overall timeout if streams are to last. Nil is a plain one.
	HTTP *http.Client
	// Authorize adds a credential to each request. Nil adds none.
	Authorize func(ctx context.Context, h http.Header) error
	// Dialect is how the client presents itself. Empty is DialectSEP, unless the server announces DialectSketch alone.
	Dialect mcpevents.Dialect
	// Patience bounds one Call, and the wait for the first byte of a Stream. Zero is 60 s: a subscribe call contains a
	// challenge.
	Patience time.Duration
}

// StatusError says that something answered that is no message: not an MCP endpoint, or one that refuses before it reads.
type StatusError struct {
	Method string
	Status int
	// Header is the answer's: Location and WWW-Authenticate tell more.
	Header http.Header
}

// Error describes the error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("subscriber: %s: HTTP %d without a message", e.Method, e.Status)
}

// Found is what a server tells of itself.
type Found struct {
	// Revision is the one that is spoken with it.
	Revision string
	// Announced are the dialects in whose place the server announces events.
	Announced []mcpevents.Dialect
	// Name and Version are the server's own words; "" when it says nothing.
	Name, Version string
}

// Client is a Conn over HTTP. It speaks the revision without sessions, and falls back to an older one that begins with
// initialize when a server knows no better.
type Client struct {
	url  string
	opts ClientOptions
	ids  atomic.Int64

	mu      sync.Mutex // guards found while the server is asked who it is; what follows is set before it and then fixed
	found   *Found
	dialect mcpevents.Dialect
	session string // of an older revision; "" for none
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
	if c.opts.Patience == 0 {
		c.opts.Patience = time.Minute
	}
	if c.dialect = c.opts.Dialect; c.dialect == "" {
		c.dialect = mcpevents.DialectSEP
	}
	return c
}

// Call makes a request.
func (c *Client) Call(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	found, err := c.Discover(ctx)
	if err != nil {
		return nil, err
	}
	return c.call(ctx, found.Revision, method, params)
}

// Discover finds out once which revision the server speaks and that it has events, in either place (contract a.1).
func (c *Client) Discover(ctx context.Context) (Found, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found != nil {
		return *c.found, nil
	}
	found := Found{Revision: modern}
	raw, err := c.call(ctx, modern, "server/discover", map[string]any{})
	if knowsNoBetter(err) {
		found.Revision = legacy
		raw, err = c.initialize(ctx)
	}
	if err != nil {
		return found, err
	}
	if err := found.read(raw); err != nil {
		return found, err
	}
	if c.opts.Dialect == "" && len(found.Announced) == 1 {
		c.dialect = found.Announced[0]
	}
	c.found = &found
	return found, nil
}

// knowsNoBetter reports a refusal by which a server of an older revision answers server/discover.
func knowsNoBetter(err error) bool {
	var refusal *mcpevents.Error
	var status *StatusError
	return errors.As(err, &refusal) || errors.As(err, &status) && refusesForm(status.Status)
}

// initialize begins as older revisions do.
func (c *Client) initialize(ctx context.Context) (json.RawMessage, error) {
	raw, err := c.call(ctx, legacy, "initialize", map[string]any{"protocolVersion": legacy, "capabilities": map[string]any{},
		"clientInfo": mcpevents.Info{Name: "mcpevents-subscriber", Version: "1"}})
	if err == nil {
		err = c.notify(ctx, "notifications/initialized")
	}
	return raw, err
}

// read takes what a server announces.
func (f *Found) read(raw json.RawMessage) error {
	var said struct {
		ServerInfo mcpevents.Info `json:"serverInfo"` // of older revisions
		Meta       struct {
			ServerInfo *mcpevents.Info `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
		Capabilities struct {
			Events     json.RawMessage            `json:"events"`
			Extensions map[string]json.RawMessage `json:"extensions"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return fmt.Errorf("subscriber: read the server's capabilities: %w", err)
	}
	if said.Meta.ServerInfo != nil {
		said.ServerInfo = *said.Meta.ServerInfo
	}
	f.Name, f.Version = said.ServerInfo.Name, said.ServerInfo.Version
	if said.Capabilities.Events != nil {
		f.Announced = append(f.Announced, mcpevents.DialectSketch)
	}
	if said.Capabilities.Extensions[mcpevents.Extension] != nil {
		f.Announced = append(f.Announced, mcpevents.DialectSEP)
	}
	if f.Announced == nil {
		return ErrNoEvents
	}
	return nil
}

// request builds a request in the form of a revision.
func (c *Client) request(ctx context.Context, version, method string, params map[string]any) (*http.Request, int64, error) {
	if params == nil {
		params = map[string]any{}
	}
	if version == modern {
		capabilities := map[string]any{}
		if c.dialect == mcpevents.DialectSEP {
			capabilities["extensions"] = map[string]any{mcpevents.Extension: map[string]any{}}
		}
		with := map[string]any{"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": modern,
			"io.modelcontextprotocol/clientCapabilities": capabilities}}
		maps.Copy(with, params)
		params = with
	}
	id := c.ids.Add(1)
	req, err := c.post(ctx, version, method, map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	return req, id, err
}

// post builds the HTTP request of a message.
func (c *Client) post(ctx context.Context, version, method string, message map[string]any) (*http.Request, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Method", method)
	if method != "initialize" {
		req.Header.Set("MCP-Protocol-Version", version)
	}
	if c.session != "" {
		req.Header.Set(headerSession, c.session)
	}
	if c.opts.Authorize != nil {
		err = c.opts.Authorize(ctx, req.Header)
	}
	return req, err
}

// notify sends a message that is not answered. Whatever the server thinks of it, the next request will tell.
func (c *Client) notify(ctx context.Context, method string) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Patience)
	defer cancel()
	req, err := c.post(ctx, legacy, method, map[string]any{"jsonrpc": "2.0", "method": method})
	if err != nil {
		return fmt.Errorf("subscriber: %s: %w", method, err)
	}
	resp, err := c.opts.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("subscriber: %s: %w", method, err)
	}
	return resp.Body.Close()
}

func (c *Client) call(ctx context.Context, version, method string, params map[string]any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Patience)
	defer cancel()
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
	found, err := c.Discover(ctx)
	if err != nil {
		return err
	}
	return c.exchange(ctx, found.Revision, method, params, func(m *answer) (bool, error) {
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
	late := errors.New("no answer within " + c.opts.Patience.String())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(c.opts.Patience, func() { cancel(late) })
	resp, err := c.opts.HTTP.Do(req.WithContext(ctx))
	patience.Stop()
	if err != nil {
		if context.Cause(ctx) == late {
			err = late
		}
		return fmt.Errorf("subscriber: %s: %w", method, err)
	}
	defer resp.Body.Close()
	if method == "initialize" {
		c.session = resp.Header.Get(headerSession)
	}
	next := messages(resp)
	for {
		raw, err := next()
		if err != nil {
			return fmt.Errorf("subscriber: %s: HTTP %d: %w", method, resp.StatusCode, err)
		}
		var m answer
		bad := json.Unmarshal(raw, &m) != nil
		switch {
		case !bad && m.Error != nil:
			return m.Error.Err()
		case bad, m.Method == "" && m.ID == nil:
			return &StatusError{Method: method, Status: resp.StatusCode, Header: resp.Header}
		case m.Method == "" && string(m.ID) != fmt.Sprint(id):
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
