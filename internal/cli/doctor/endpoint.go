package doctor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The two kinds of MCP clients.
const (
	replyEvent = "notification.reply"

	sessionRevision   = "2025-06-18"
	statelessRevision = "2026-07-28"
	statelessMeta     = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + statelessRevision + `","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}`
)

// message is a JSON-RPC call: how it reads in a body, and in the headers that repeat it.
type message struct {
	method, params string // params without its braces
	name           string // of a tool
	stateless      bool
}

var (
	initialize = message{method: "initialize", params: `"protocolVersion":"` + sessionRevision + `","capabilities":{},"clientInfo":{"name":"herald doctor","version":"1"}`}
	discover   = message{method: "server/discover", stateless: true}
	statusTool = `"name":"herald_status","arguments":{}`
)

func (m message) asked(header map[string]string, token string) question {
	h := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	maps.Copy(h, header)
	params := m.params
	if m.stateless {
		h["MCP-Protocol-Version"], h["Mcp-Method"] = statelessRevision, m.method
		if m.name != "" {
			h["Mcp-Name"] = m.name
		}
		params = strings.Trim(params+","+statelessMeta, ",")
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + m.method + `","params":{` + params + `}}`
	return question{method: "POST", path: "/mcp", header: h, token: token, body: body}
}

// challenge looks how clients without a credential are sent to get one, and whether a credential arrives.
func (x *outside) challenge(ctx context.Context) {
	fix := x.fix(advice{
		general:    "pass POST /mcp to the relay, and its status and WWW-Authenticate header back: clients find the authorization server by it",
		nginx:      "no auth_basic or auth_request in front, no proxy_hide_header WWW-Authenticate",
		cloudflare: "let no challenge, bot rule or Access policy stand in front of /mcp",
	})
	for _, m := range []message{initialize, discover} {
		a := x.ask(ctx, m.asked(nil, ""))
		if a.status == http.StatusNotFound && (a.code() == "not_found" || x.pagesReplaced()) {
			x.shut = "this relay has no /mcp"
			x.warn("challenge", "there is no /mcp: chat applications cannot connect", "use a relay of a newer version")
			return
		}
		header := a.header.Get("WWW-Authenticate")
		if a.status != http.StatusUnauthorized || !challenges(header) {
			seen := "POST /mcp (" + m.method + ") without a token answers " + a.String()
			if a.status == http.StatusUnauthorized {
				seen += ", without a WWW-Authenticate that names resource_metadata"
			}
			if a.status != http.StatusUnauthorized {
				x.shut = "POST /mcp does not reach the relay"
			}
			x.fail("challenge", seen, fix)
			return
		}
		if at := metadataIn.FindStringSubmatch(header); at != nil {
			x.called("WWW-Authenticate resource_metadata", strings.TrimSuffix(at[1], "/mcp"), x.address+documents[0])
		}
	}
	x.pass("challenge", "both kinds of MCP client are told where to get a token")
	a := x.ask(ctx, initialize.asked(nil, "hra_doctor"))
	if !strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
		x.fail("authorization", "a request with a token is answered as one without: the Authorization header does not arrive", x.fix(advice{
			general: "pass the Authorization header to the relay", nginx: `proxy_set_header Authorization $http_authorization;`, cloudflare: "no transform rule that removes Authorization",
		}))
		return
	}
	x.pass("authorization", "the Authorization header arrives")
}

var metadataIn = regexp.MustCompile(`resource_metadata="([^"]*)"`)

func challenges(header string) bool {
	return strings.HasPrefix(header, "Bearer ") && metadataIn.MatchString(header)
}

// closed notes that a check is in vain while the endpoint cannot be reached.
func (x *outside) closed(check string) bool {
	if x.shut != "" {
		x.note(check, "not looked at, since "+x.shut)
	}
	return x.shut != ""
}

// slash asks the way that some clients write the endpoint.
func (x *outside) slash(ctx context.Context) {
	if x.closed("trailing slash") {
		return
	}
	for _, path := range []string{"/mcp/", "/mcp?x=1"} {
		q := initialize.asked(nil, "")
		q.path = path
		a := x.ask(ctx, q)
		switch {
		case a.redirects():
			x.fail("trailing slash", "POST "+path+" answers "+a.String()+", over which clients lose their body or their token", x.fix(advice{
				general: "pass /mcp/ to the relay as it is", nginx: "no rewrite or try_files for it; location / with proxy_pass http://127.0.0.1:8787; without a path", caddy: "no redir or uri strip_suffix for it",
			}))
			return
		case a.status != http.StatusUnauthorized:
			x.fail("trailing slash", "POST "+path+" answers "+a.String(), "pass /mcp/ and queries to the relay as they are")
			return
		}
	}
	x.pass("trailing slash", "/mcp/ and /mcp?x=1 are served like /mcp")
}

// rpcAnswer is a JSON-RPC response.
type rpcAnswer struct {
	Result struct {
		Version    string         `json:"protocolVersion"`
		Supported  []string       `json:"supportedVersions"`
		ServerInfo serverInfo     `json:"serverInfo"`
		Tools      []listed       `json:"tools"`
		Events     []listed       `json:"events"`
		Structured jsontext.Value `json:"structuredContent"`
		IsError    bool           `json:"isError"`
		Complete   string         `json:"resultType"`
		ID         string         `json:"id"` // of a subscription
	} `json:"result"`
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Reason string `json:"reason"`
		} `json:"data"`
	} `json:"error"`
}

type listed struct {
	Name     string   `json:"name"`
	Delivery []string `json:"delivery"`
}

type serverInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// call asks the endpoint with the agent's token and words what is wrong with the answer.
func (x *outside) call(ctx context.Context, m message, good func(*rpcAnswer) bool) (out rpcAnswer, wrong string) {
	a := x.ask(ctx, m.asked(nil, x.AgentToken))
	switch {
	case a.status != http.StatusOK || !a.read(&out):
		return out, m.method + " answers " + a.String()
	case out.Error.Code != 0:
		return out, fmt.Sprintf("%s answers error %d: %s", m.method, out.Error.Code, out.Error.Message)
	case !good(&out):
		return out, m.method + " answers something else than a relay"
	}
	return out, ""
}

// agent goes in with an agent's token.
func (x *outside) agent(ctx context.Context) {
	if x.AgentToken == "" {
		x.note("token", "none was given: what an agent meets behind the door was not looked at (--token-file)")
		return
	}
	if x.failed("authorization") {
		x.note("token", "not looked at, since credentials do not arrive")
		return
	}
	a := x.ask(ctx, question{method: "GET", path: "/v1/status", token: x.AgentToken})
	if a.status != http.StatusOK || !a.object() {
		x.fail("token", "GET /v1/status answers "+a.String()+" "+a.code(), "give a key that herald key create made at this relay and that is not revoked")
		return
	}
	x.pass("token", "the relay knows it")
	if x.closed("mcp") {
		return
	}
	x.session(ctx)
	x.stateless(ctx)
	x.events(ctx)
}

func hasStatusTool(r *rpcAnswer) bool {
	return slices.ContainsFunc(r.Result.Tools, func(t listed) bool { return t.Name == "herald_status" })
}

func isStatus(r *rpcAnswer) bool {
	var s struct {
		Online *bool `json:"online"`
	}
	return !r.Result.IsError && json.Unmarshal(r.Result.Structured, &s) == nil && s.Online != nil
}

// session plays a client that begins with initialize.
func (x *outside) session(ctx context.Context) {
	first, wrong := x.call(ctx, initialize, func(r *rpcAnswer) bool { return r.Result.Version == sessionRevision })
	if wrong == "" {
		_, wrong = x.call(ctx, message{method: "tools/list"}, hasStatusTool)
	}
	if wrong == "" {
		_, wrong = x.call(ctx, message{method: "tools/call", params: statusTool}, isStatus)
	}
	if wrong != "" {
		x.fail("mcp with initialize", wrong, "pass POST /mcp with its body and headers to the relay as they are")
		return
	}
	x.pass("mcp with initialize", "it can list and call the tools")
	x.pass("version", first.Result.ServerInfo.Name+" "+first.Result.ServerInfo.Version)
}

// stateless plays a client of the revision without sessions, which repeats in headers what it asks for.
func (x *outside) stateless(ctx context.Context) {
	complete := func(also func(*rpcAnswer) bool) func(*rpcAnswer) bool {
		return func(r *rpcAnswer) bool { return r.Result.Complete == "complete" && also(r) }
	}
	_, wrong := x.call(ctx, discover, complete(func(r *rpcAnswer) bool { return slices.Contains(r.Result.Supported, statelessRevision) }))
	if wrong == "" {
		_, wrong = x.call(ctx, message{method: "tools/list", stateless: true}, complete(hasStatusTool))
	}
	if wrong == "" {
		_, wrong = x.call(ctx, message{method: "tools/call", params: statusTool, name: "herald_status", stateless: true}, complete(isStatus))
	}
	if wrong != "" {
		x.fail("mcp without sessions", wrong, "pass POST /mcp with the headers MCP-Protocol-Version, Mcp-Method and Mcp-Name to the relay as they are")
		return
	}
	x.pass("mcp without sessions", "it can list and call the tools")
}

// events looks at what a relay with reply subscriptions does by itself.
func (x *outside) events(ctx context.Context) {
	list, wrong := x.call(ctx, message{method: "events/list", stateless: true}, func(*rpcAnswer) bool { return true })
	at := slices.IndexFunc(list.Result.Events, func(e listed) bool { return e.Name == replyEvent })
	if wrong != "" || at < 0 {
		x.note("streams", "this relay has no reply subscriptions")
		x.note("webhooks", "this relay has no reply subscriptions")
		return
	}
	x.streaming(ctx, slices.Contains(list.Result.Events[at].Delivery, "push"))
	x.webhooks(ctx)
}

// streaming opens a stream and waits for its first frame, which a proxy that buffers holds back.
func (x *outside) streaming(ctx context.Context, offered bool) {
	switch {
	case x.failed("http"):
		x.note("streams", "not looked at, since HTTP/1.0 has none")
		return
	case !offered:
		x.note("streams", "this relay offers none")
		return
	}
	switch first, err := x.firstFrame(ctx); {
	case err != nil:
		x.fail("streams", "the first frame of a stream did not come: "+err.Error(), x.fix(advice{
			general: "do not buffer or compress answers of POST /mcp", nginx: "proxy_buffering off; proxy_read_timeout 900s; and no gzip for text/event-stream", caddy: "flush_interval -1 in reverse_proxy where it was changed",
		}))
	case !strings.Contains(first, "events/active"):
		x.fail("streams", "a stream begins with something else than its frame", "look at what stands between")
	default:
		x.pass("streams", "the first frame of a stream comes at once")
	}
}

func (x *outside) firstFrame(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, x.Patience)
	defer cancel()
	q := message{method: "events/stream", params: `"name":"` + replyEvent + `"`, stateless: true}.asked(nil, x.AgentToken)
	req, err := q.request(ctx, x.address, x.UserAgent)
	if err != nil {
		return "", err
	}
	resp, err := x.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("nothing within %s", x.Patience)
		}
		return "", cause(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxAnswer))
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		if data, found := bytes.CutPrefix(lines.Bytes(), []byte("data:")); found {
			return string(data), nil
		}
		if resp.StatusCode != http.StatusOK {
			break
		}
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("nothing within %s", x.Patience)
	}
	return "", fmt.Errorf("it is answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}
