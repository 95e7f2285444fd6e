package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/telemetry"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/subscriber"
)

// eventsCmd holds the tools for MCP Events. None of them needs a relay.
type eventsCmd struct {
	List        eventsListCmd        `cmd:"" help:"List the event types of a server."`
	Tail        eventsTailCmd        `cmd:"" help:"Follow events of one type and print them."`
	Subscribe   eventsSubscribeCmd   `cmd:"" help:"Have events of one type sent to an address, or go on having it."`
	Unsubscribe eventsUnsubscribeCmd `cmd:"" help:"End what herald events subscribe began."`
	Receive     eventsReceiveCmd     `cmd:"" help:"Receive deliveries on this machine, answer them as a script says, and show them."`
	Check       eventsCheckCmd       `cmd:"" help:"Check a server against the rules of MCP Events."`
}

// endpointFlags say which server is meant and who asks it.
type endpointFlags struct {
	URL          string            `arg:"" name:"url" help:"The server's MCP endpoint, such as https://mcp.example.com/mcp."`
	Dialect      string            `enum:"auto,sketch,sep" default:"auto" help:"How to present oneself: ${enum}. auto is sep, unless the server announces sketch alone."`
	Token        string            `placeholder:"TOKEN" help:"A bearer token. Other users of this machine may see it; better is the variable HERALD_TOKEN, or --token-file."`
	TokenFile    string            `env:"HERALD_TOKEN_FILE" placeholder:"FILE" help:"A file that holds the bearer token, - for standard input."`
	Header       map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"A header to send with each request; give the flag again for more."`
	InsecureHTTP bool              `name:"insecure-http" help:"Speak plain http with another machine, where you trust the network."`
	profileFlags
}

// dial makes a client of the endpoint. Nothing is sent yet.
func (f *endpointFlags) dial(w *World) (*subscriber.Client, error) {
	address, err := endpointURL(f.URL, f.InsecureHTTP)
	if err != nil {
		return nil, err
	}
	head, err := f.headers(w, address)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	return subscriber.Dial(address.String(), &subscriber.ClientOptions{
		// A credential goes to the address that it was given for.
		HTTP: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Authorize: func(_ context.Context, h http.Header) error {
			maps.Copy(h, head)
			return nil
		},
		Dialect: map[string]mcpevents.Dialect{"sketch": mcpevents.DialectSketch, "sep": mcpevents.DialectSEP}[f.Dialect],
	}), nil
}

// endpointURL reads an address that requests with credentials may go to.
func endpointURL(text string, insecure bool) (*url.URL, error) {
	wrong := func(why string) error {
		return &outcome{status: statusUsage, text: why, hint: "an endpoint looks like https://mcp.example.com/mcp"}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, wrong("the address is no http or https URL")
	case u.User != nil:
		return nil, wrong("the address must not hold a name and password; give a --header instead")
	case u.Fragment != "":
		return nil, wrong("the address must not have a fragment")
	case u.Scheme == "http" && !insecure && !loopback(u.Hostname()):
		return nil, &outcome{status: statusUsage, text: client.ErrPlain.Error(), hint: "use https, or --insecure-http where you trust the network"}
	}
	return u, nil
}

// loopback reports a host that is this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// headers are those of every request.
func (f *endpointFlags) headers(w *World, address *url.URL) (http.Header, error) {
	head := http.Header{"User-Agent": {"herald/" + telemetry.ReadBuild().Version}}
	token, err := f.token(w, address)
	if err != nil {
		return nil, err
	}
	if token != "" {
		head.Set("Authorization", "Bearer "+token)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Header)) {
		if !headerName.MatchString(name) || !headerValue(f.Header[name]) {
			return nil, &outcome{status: statusUsage, text: fmt.Sprintf("--header %q is no header", name), hint: "it looks like --header X-Team=blue"}
		}
		if token != "" && http.CanonicalHeaderKey(name) == "Authorization" {
			return nil, &outcome{status: statusUsage, text: "there are two credentials: a token, and the header Authorization"}
		}
		head.Set(name, f.Header[name])
	}
	return head, nil
}

// headerName matches a token of RFC 9110.
var headerName = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

// headerValue reports whether text may stand in a header: no control characters.
func headerValue(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// token is the bearer token, "" for none: given, or this machine's own when the server is the relay that it belongs to.
func (f *endpointFlags) token(w *World, address *url.URL) (string, error) {
	token := f.Token
	if token == "" && f.TokenFile != "" {
		var err error
		if token, err = readSmall(w, f.TokenFile); err != nil {
			return "", err
		}
	}
	if token == "" {
		token = os.Getenv("HERALD_TOKEN")
	}
	if token == "" && !f.authorized() {
		var err error
		if token, err = f.own(w, address); err != nil {
			return "", err
		}
	}
	token = strings.TrimSpace(token)
	if strings.ContainsAny(token, " \t\r\n") || !headerValue(token) {
		return "", &outcome{status: statusUsage, text: "the token is not one word", hint: "the file or variable must hold the token alone"}
	}
	return token, nil
}

// authorized reports whether the headers hold a credential already.
func (f *endpointFlags) authorized() bool {
	for name := range f.Header {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return true
		}
	}
	return false
}

// own is the agent key or device token of this machine for the relay at an address, "" when it has none.
func (f *endpointFlags) own(w *World, address *url.URL) (string, error) {
	p, err := f.load()
	if err != nil && !errors.Is(err, profile.ErrNone) {
		return "", err
	}
	if name := os.Getenv("HERALD_RELAY"); name != "" && sameOrigin(name, address) || sameOrigin(p.Relay, address) {
		a := agentFlags{KeyFile: os.Getenv("HERALD_KEY_FILE")}
		if a.KeyFile != "" || os.Getenv("HERALD_KEY") != "" {
			return a.key(w)
		}
	}
	if sameOrigin(p.Relay, address) {
		return p.Token, nil
	}
	return "", nil
}

// sameOrigin reports whether a relay's address and an endpoint are one server.
func sameOrigin(relay string, endpoint *url.URL) bool {
	u, err := url.Parse(relay)
	return err == nil && relay != "" && u.Scheme == endpoint.Scheme && strings.EqualFold(hostPort(u), hostPort(endpoint))
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
