package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/mcpevents/subscriber"
)

// wishFlags say which events are meant.
type wishFlags struct {
	Name string   `arg:"" help:"The event type, as herald events list shows it."`
	Arg  []string `sep:"none" placeholder:"NAME=VALUE" help:"An argument that narrows it down, as text, or as JSON after :=, such as --arg limit:=5; give the flag again for more."`
}

// arguments makes an object of what was typed.
func (f *wishFlags) arguments() (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, text := range f.Arg {
		name, value, err := parseArgument(text)
		if err != nil {
			return nil, &outcome{status: statusUsage, text: fmt.Sprintf("--arg %s: %s", screen.Line(text), err), hint: "it looks like --arg severity=P1 or --arg limit:=5"}
		}
		if all[name] != nil {
			return nil, &outcome{status: statusUsage, text: fmt.Sprintf("--arg %s stands twice", screen.Line(name))}
		}
		all[name] = value
	}
	return json.Marshal(all)
}

// parseArgument reads NAME=TEXT or NAME:=JSON.
func parseArgument(text string) (name string, value json.RawMessage, err error) {
	name, rest, found := strings.Cut(text, "=")
	if !found {
		return "", nil, errors.New("it has no =")
	}
	if typed, isJSON := strings.CutSuffix(name, ":"); isJSON {
		if !json.Valid([]byte(rest)) {
			return "", nil, errors.New("what follows := is not JSON")
		}
		name, value = typed, json.RawMessage(rest)
	} else if value, err = json.Marshal(rest); err != nil {
		return "", nil, err
	}
	if name == "" {
		return "", nil, errors.New("the name is missing")
	}
	return name, value, nil
}

// startFlags say where to begin.
type startFlags struct {
	Cursor string        `placeholder:"CURSOR" help:"The position to go on from; by default now."`
	MaxAge time.Duration `placeholder:"TIME" help:"Leave out what is older, such as 1h; it counts with a position only."`
}

func (f *startFlags) cursor() *string {
	if f.Cursor == "" {
		return nil
	}
	return &f.Cursor
}

func (f *startFlags) check() error {
	if f.MaxAge < 0 {
		return &outcome{status: statusUsage, text: "--max-age must not be negative"}
	}
	return nil
}

type eventsSubscribeCmd struct {
	endpointFlags
	wishFlags
	To  string `required:"" placeholder:"URL" help:"The https address that events are sent to. A receiver must answer there already."`
	TTL string `name:"ttl" placeholder:"TIME" help:"How long it should last, such as 24h, or never for no end; by default as the server likes."`
	startFlags
	secretFlags
	jsonFlag
}

// Help is shown below the flags.
func (*eventsSubscribeCmd) Help() string {
	return `The server sends a challenge to the address before it answers. Subscribing again with the same address, name and arguments refreshes: it extends the time, changes the secret, and shows how deliveries went.

Examples:
  herald events subscribe https://mcp.example.com/mcp ticket.opened --arg severity=P1 --to https://agent.example/hook --secret-file secret
  herald events subscribe https://mcp.example.com/mcp ticket.opened --to https://agent.example/hook --secret-file secret --cursor c41 --ttl 24h --json`
}

// Run subscribes.
func (c *eventsSubscribeCmd) Run(ctx context.Context, w *World) error {
	s, err := c.subscription(w)
	if err != nil {
		return err
	}
	server, err := c.dial(w)
	if err != nil {
		return err
	}
	g, err := subscriber.Subscribe(ctx, server, s)
	if err != nil {
		return err
	}
	if c.JSON {
		return w.json(grantOf(g))
	}
	return showGrant(w, g)
}

func (c *eventsSubscribeCmd) subscription(w *World) (subscriber.Subscription, error) {
	s := subscriber.Subscription{Name: c.Name, URL: c.To, Cursor: c.cursor(), MaxAge: c.MaxAge}
	secrets, err := c.secrets(w)
	if err != nil {
		return s, err
	}
	if len(secrets) > 1 {
		return s, &outcome{status: statusUsage, text: "a subscription has one secret", hint: "the server signs with the one before as well for a while after a change, if it does that at all"}
	}
	s.Secret = secrets[0].Reveal()
	if err := errors.Join(c.check(), checkTarget(c.To)); err != nil {
		return s, err
	}
	if s.Arguments, err = c.arguments(); err != nil {
		return s, err
	}
	switch d, err := time.ParseDuration(c.TTL); {
	case c.TTL == "never":
		s.Endless = true
	case c.TTL != "" && (err != nil || d <= 0):
		return s, &outcome{status: statusUsage, text: "--ttl is no time", hint: "it looks like 24h or 30m, or is the word never"}
	default:
		s.TTL = d
	}
	return s, nil
}

// checkTarget finds what any server would refuse. Whether it may call the address is for the server to say.
func checkTarget(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return &outcome{status: statusUsage, text: "--to is no https address", hint: "it looks like --to https://agent.example/hook"}
	}
	return nil
}

// grantShown is how a grant is printed for programs.
type grantShown struct {
	ID            string             `json:"id"`
	RefreshBefore *time.Time         `json:"refreshBefore"`
	Cursor        *string            `json:"cursor"`
	Truncated     bool               `json:"truncated"`
	Status        *subscriber.Status `json:"deliveryStatus,omitempty"`
}

func grantOf(g subscriber.Grant) grantShown {
	s := grantShown{ID: g.ID, Cursor: g.Cursor, Truncated: g.Truncated, Status: g.Status}
	if !g.RefreshBefore.IsZero() {
		s.RefreshBefore = &g.RefreshBefore
	}
	return s
}

func showGrant(w *World, g subscriber.Grant) error {
	ends, cursor := "never", "none"
	if !g.RefreshBefore.IsZero() {
		ends = g.RefreshBefore.Local().Format("2006-01-02 15:04:05") + ", unless it is refreshed"
	}
	if g.Cursor != nil {
		cursor = screen.Line(*g.Cursor)
	}
	rows := [][]string{{"ends", ends}, {"cursor", cursor}}
	if g.Truncated {
		rows = append(rows, []string{"truncated", "yes: events before this cursor are lost"})
	}
	if g.Status != nil {
		rows = append(rows, []string{"deliveries", statusText(g.Status)})
	}
	return w.table([]string{"subscription", screen.Line(g.ID)}, rows)
}

// statusText sums up how deliveries go.
func statusText(s *subscriber.Status) string {
	var parts []string
	if !s.Active {
		parts = append(parts, "they were suspended until now")
	}
	if s.LastDeliveryAt != nil {
		parts = append(parts, "the last at "+s.LastDeliveryAt.Local().Format("2006-01-02 15:04:05"))
	}
	if s.LastError != nil {
		parts = append(parts, "the last error is "+screen.Line(*s.LastError))
	}
	if s.FailedSince != nil {
		parts = append(parts, "failing since "+s.FailedSince.Local().Format("2006-01-02 15:04:05"))
	}
	if s.Throttled {
		parts = append(parts, "slowed down for "+inWords(time.Duration(s.RetryAfterMs)*time.Millisecond))
	}
	if parts == nil {
		return "none yet"
	}
	return strings.Join(parts, "; ")
}

type eventsUnsubscribeCmd struct {
	endpointFlags
	wishFlags
	To string `required:"" placeholder:"URL" help:"The address that it was subscribed for."`
	jsonFlag
}

// Help is shown below the flags.
func (*eventsUnsubscribeCmd) Help() string {
	return `Address, name and arguments tell which one; they must be those that it was made with. Servers of dialect sep say when there was none, others do not.

Example:
  herald events unsubscribe https://mcp.example.com/mcp ticket.opened --arg severity=P1 --to https://agent.example/hook`
}

// Run unsubscribes.
func (c *eventsUnsubscribeCmd) Run(ctx context.Context, w *World) error {
	arguments, err := c.arguments()
	if err == nil {
		err = checkTarget(c.To)
	}
	if err != nil {
		return err
	}
	server, err := c.dial(w)
	if err != nil {
		return err
	}
	if err := subscriber.Unsubscribe(ctx, server, subscriber.Subscription{Name: c.Name, Arguments: arguments, URL: c.To}); err != nil {
		return err
	}
	if c.JSON {
		return w.json(struct{}{})
	}
	w.say("nothing is sent to %s for %s any more", screen.Line(c.To), screen.Line(c.Name))
	return nil
}
