package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/subscriber"
)

type eventsTailCmd struct {
	endpointFlags
	wishFlags
	startFlags
	Mode    string        `enum:"auto,push,poll" default:"auto" help:"How to follow: ${enum}. auto is push where it is offered."`
	State   string        `type:"path" placeholder:"FILE" help:"Keep the position in this file, and go on from it next time."`
	Count   int           `placeholder:"N" help:"End after N events."`
	Timeout time.Duration `placeholder:"TIME" help:"End after this time, such as 30s."`
	jsonFlag
}

// Help is shown below the flags.
func (*eventsTailCmd) Help() string {
	return `What breaks is begun again after a second to five minutes, spread at random. An event is printed once, also over several runs with the same --state; only a crash between printing and keeping the position shows it again. Without a position it begins with what happens from now on.

With --json each event is one line. A line {"herald":"gap"} says that events before it are lost.

Exit status: 0 as many came as --count says, or the time is over and no --count was given; 3 the time is over and fewer came; 1 the server refuses for good; 130 interrupted.

Examples:
  herald events tail https://mcp.example.com/mcp ticket.opened
  herald events tail https://mcp.example.com/mcp ticket.opened --arg severity=P1 --state tickets.json --json
  herald events tail http://127.0.0.1:8080/mcp ticket.opened --count 1 --timeout 1m`
}

// Run follows.
func (c *eventsTailCmd) Run(ctx context.Context, w *World) error {
	if c.Count < 0 || c.Timeout < 0 {
		return &outcome{status: statusUsage, text: "--count and --timeout must not be negative"}
	}
	arguments, err := c.arguments()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	server, err := c.dial(w)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, c.Timeout, errTooLong)
		defer stop()
	}
	t := &tail{w: w, json: c.JSON, want: c.Count, end: cancel}
	return t.result(ctx, c.follow(ctx, t, server, arguments))
}

// follow runs until ctx ends, and returns why it could not begin.
func (c *eventsTailCmd) follow(ctx context.Context, t *tail, server *subscriber.Client, arguments json.RawMessage) error {
	store, err := openTail(ctx, c.State, position{Server: c.URL, Name: c.Name, Arguments: arguments, Cursor: c.cursor()})
	if err == nil {
		err = c.offered(ctx, server)
	}
	if err != nil {
		return err
	}
	store.noted = t.noted
	sub := subscriber.New(store, t.show, &subscriber.Options{Modes: c.modes(), Gap: t.gap, Lost: t.lost, Stopped: t.stopped})
	wish := subscriber.Want{Key: tailKey, Server: server, Name: c.Name, Arguments: arguments, Cursor: c.cursor(), MaxAge: c.MaxAge}
	if err := sub.Add(ctx, wish); err != nil {
		return err
	}
	return sub.Run(ctx)
}

func (c *eventsTailCmd) modes() []mcpevents.Mode {
	switch c.Mode {
	case "push":
		return []mcpevents.Mode{mcpevents.Push}
	case "poll":
		return []mcpevents.Mode{mcpevents.Poll}
	}
	return []mcpevents.Mode{mcpevents.Push, mcpevents.Poll}
}

// offered finds at once what no waiting would mend.
func (c *eventsTailCmd) offered(ctx context.Context, server subscriber.Conn) error {
	var names []string
	for t, err := range subscriber.Types(ctx, server) {
		if err != nil {
			return err
		}
		if t.Name != c.Name {
			names = append(names, screen.Line(t.Name))
			continue
		}
		for _, mode := range c.modes() {
			if slices.Contains(t.Delivery, mode) {
				return nil
			}
		}
		return fmt.Errorf("%w: %s offers %v", subscriber.ErrNoMode, t.Name, t.Delivery)
	}
	hint := "it lists none to whoever asked; perhaps a token is needed"
	if names != nil {
		hint = "it lists " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	return &outcome{status: statusFailed, code: mcpevents.NotFound.String(), text: "the server does not list " + screen.Line(c.Name), hint: hint}
}

// tail prints what comes.
type tail struct {
	w    *World
	json bool
	want int
	came int
	end  context.CancelCauseFunc
}

// eventShown is an event as a program reads it.
type eventShown struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
	Mode      mcpevents.Mode  `json:"mode"`
}

// show prints an event. What follows the last that was asked for is not taken, so a later run with the same file shows it.
func (t *tail) show(ctx context.Context, e subscriber.Event) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if t.want > 0 && t.came >= t.want {
		return errEnough
	}
	text, err := t.format(e)
	if err == nil {
		_, err = t.w.Out.Write(text)
	}
	if err != nil {
		t.end(err) // nobody reads any more
		return err
	}
	t.came++
	return nil
}

// noted ends a tail whose last event is printed and kept.
func (t *tail) noted() {
	if t.want > 0 && t.came >= t.want {
		t.end(errEnough)
	}
}

func (t *tail) format(e subscriber.Event) ([]byte, error) {
	if t.json {
		line, err := json.Marshal(eventShown{e.ID, e.Name, e.Time, e.Data, e.Meta, e.Mode})
		return append(screen.JSON(line), '\n'), err
	}
	var body bytes.Buffer
	if err := json.Indent(&body, e.Data, "  ", "  "); err != nil {
		return nil, err
	}
	style := t.w.style()
	return fmt.Appendf(nil, "%s  %s  %s\n  %s\n\n", e.Time.Local().Format("2006-01-02 15:04:05.000"), style.Bold(screen.Line(e.Name)),
		screen.Line(e.ID), screen.Block(string(screen.JSON(body.Bytes())))), nil
}

func (t *tail) gap(string) {
	if t.json {
		t.w.print(`{"herald":"gap"}`)
		return
	}
	t.w.say("events before this point are lost; read the state of things by other means")
}

// lost tells why it broke. What is for good ends the tail.
func (t *tail) lost(_ string, err error, again time.Duration) {
	if errors.Is(err, errEnough) {
		return
	}
	if again == 0 {
		t.end(err)
		return
	}
	f := describe(err)
	if t.json {
		line, err := json.Marshal(map[string]any{"herald": "lost", "error": f.Message, "code": f.Code, "retrySeconds": again.Seconds()})
		if err == nil {
			t.w.say("%s", screen.JSON(line))
		}
		return
	}
	t.w.say("%s; trying again in %s", f.Message, inWords(again))
}

// stopped ends a tail that the server ended.
func (t *tail) stopped(r subscriber.Record) { t.end(errors.New("the server ended it: " + r.Reason)) }

// result turns how it ended, or why it did not begin, into an exit status.
func (t *tail) result(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err != nil && cause == nil:
		return err
	case cause == nil || errors.Is(cause, errEnough):
		return nil
	case errors.Is(cause, errTooLong) && t.want > 0 && t.came < t.want:
		return &outcome{status: statusTimedOut, code: "timed_out", text: fmt.Sprintf("%d of %d events came in time", t.came, t.want)}
	case errors.Is(cause, errTooLong):
		return nil
	}
	return cause
}
