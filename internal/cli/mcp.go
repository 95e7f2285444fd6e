package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/herald-relay/herald/internal/cli/local"
	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/telemetry"
)

type mcpCmd struct{ deviceFlags }

// Help is shown below the flags.
func (*mcpCmd) Help() string {
	return `It speaks MCP on standard input and output, for agents on this machine such as Claude Code, Codex and VS Code, and ends with its input. Its tools look at the relay, make and revoke keys, list connectors and reply subscriptions and end them; docs/local-agents.md shows how it is set up. Nothing approves an app but the person.

Examples:
  claude mcp add herald -- herald mcp
  codex mcp add herald -- herald mcp`
}

// Run serves.
func (c *mcpCmd) Run(ctx context.Context, w *World) error {
	return c.local().ServeMCP(ctx, w.In, w.Out, telemetry.ReadBuild().Version)
}

// local is the device for other programs on this machine. They wait for their answer, so nothing is tried twice.
func (f *deviceFlags) local() *local.Local {
	transport := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	return local.New(local.Options{
		Open: func() (*client.Relay, profile.Profile, error) {
			p, err := f.load()
			if err != nil {
				return nil, p, err
			}
			r, err := client.New(p.Relay, &client.Options{HTTP: transport, UserAgent: "herald/" + telemetry.ReadBuild().Version, Insecure: f.Insecure, MaxWait: -1})
			return r, p, err
		},
		Explain: explain,
	})
}

// explain words an error for a program.
func explain(err error) *local.Problem {
	if p, ok := errors.AsType[*local.Problem](err); ok {
		return p
	}
	f := describe(err)
	if f.Code == "" {
		f.Code = "failed"
	}
	return &local.Problem{Code: f.Code, Message: f.Message, Fields: f.Fields, Hint: f.Hint, RetryAfterSeconds: f.RetryAfterSeconds}
}

// localFlags open the device to scripts on this machine.
type localFlags struct {
	LocalAPI   bool   `name:"local-api" env:"HERALD_LOCAL_API" help:"Also answer scripts on this machine over HTTP, at 127.0.0.1; docs/local-agents.md has the routes."`
	LocalPort  uint16 `name:"local-port" env:"HERALD_LOCAL_PORT" default:"48617" placeholder:"PORT" help:"Its port; 0 takes any that is free."`
	LocalToken string `name:"local-token" type:"path" env:"HERALD_LOCAL_TOKEN_FILE" placeholder:"FILE" help:"The file that holds its token; by default local-token beside the profile. It is made when missing."`
}

// serveLocal answers scripts until the returned function is called.
func (c *listenCmd) serveLocal(ctx context.Context, w *World) (stop func() error, err error) {
	path := c.LocalToken
	if path == "" {
		at, err := c.path()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(filepath.Dir(at), "local-token")
	}
	token, err := local.Token(path)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(c.LocalPort))))
	if err != nil {
		return nil, failed("another herald listen may have it; choose another with --local-port", "the local API cannot have its port: %v", err)
	}
	w.say("local API at http://%s, its token in %s", l.Addr(), path)
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	var served error
	serving.Go(func() { served = c.local().Serve(ctx, l, token) })
	return func() error {
		cancel()
		serving.Wait()
		return served
	}, nil
}
