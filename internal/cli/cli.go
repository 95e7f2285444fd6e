// Package cli is the command line: it parses what a person types, calls the relay or runs one, and prints.
//
// Standard output carries what was asked for and nothing else, so that scripts can use it; everything said beside it
// goes to standard error. Secrets come from files or the environment, never from arguments, and are printed once, when
// they are made.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"golang.org/x/term"

	"github.com/herald-relay/herald/internal/cli/screen"
)

// World is what a command may touch beside its flags, the environment and the network.
type World struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminals are the file descriptors of In and Out where those are terminals, else -1.
	InTerminal, OutTerminal int
}

// Process is the world of this process.
func Process() *World {
	w := &World{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, InTerminal: -1, OutTerminal: -1}
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		w.InTerminal = fd
	}
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		w.OutTerminal = fd
	}
	return w
}

// interactive reports whether a person sits at both ends.
func (w *World) interactive() bool { return w.InTerminal >= 0 && w.OutTerminal >= 0 }

// style colours what goes to a terminal, unless NO_COLOR is set or the terminal is dumb.
func (w *World) style() screen.Style {
	return screen.NewStyle(w.OutTerminal >= 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// columns is the width of the terminal that Out is, or 80.
func (w *World) columns() int {
	if w.OutTerminal >= 0 {
		if columns, _, err := term.GetSize(w.OutTerminal); err == nil {
			return columns
		}
	}
	return 80
}

// say prints a line on standard error.
func (w *World) say(format string, args ...any) { fmt.Fprintf(w.Err, format+"\n", args...) }

// print prints a line on standard output.
func (w *World) print(format string, args ...any) { fmt.Fprintf(w.Out, format+"\n", args...) }

// commands is the whole command line.
type commands struct {
	Demo demoCmd `cmd:"" group:"start" help:"Run relay, device and agent in this terminal and play one question through."`

	Serve  serveCmd  `cmd:"" group:"relay" help:"Run the relay."`
	Person personCmd `cmd:"" group:"relay" help:"See, add, invite and remove the people of a relay."`
	Config configCmd `cmd:"" group:"relay" help:"Check a relay's configuration."`
	Doctor doctorCmd `cmd:"" group:"relay" help:"Look for what is wrong with a relay or a device on this machine."`

	Pair       pairCmd       `cmd:"" group:"device" help:"Make this machine a device of a relay."`
	Listen     listenCmd     `cmd:"" group:"device" help:"Show notifications in this terminal and answer them."`
	Key        keyCmd        `cmd:"" group:"device" help:"Make, list and revoke the keys of agents."`
	Connectors connectorsCmd `cmd:"" group:"device" help:"See, approve, deny and revoke the apps that ask to be connected."`
	Audit      auditCmd      `cmd:"" group:"device" help:"Show what was decided about apps."`
	Device     deviceCmd     `cmd:"" group:"device" help:"See and tidy up the devices of the same person, and this one's mailbox."`
	MCP        mcpCmd        `cmd:"" name:"mcp" group:"device" help:"Let agents on this machine look after the device, over MCP."`
	Link       linkCmd       `cmd:"" group:"device" help:"Let more devices share this device's mailbox."`

	Notify  notifyCmd  `cmd:"" group:"agent" help:"Send a notification."`
	Ask     askCmd     `cmd:"" group:"agent" help:"Send a question, wait, and print the answer."`
	Await   awaitCmd   `cmd:"" group:"agent" help:"Wait for the answer to something sent before, and print it."`
	Receipt receiptCmd `cmd:"" group:"agent" help:"Show what became of a notification."`
	Status  statusCmd  `cmd:"" group:"agent" help:"Show whether a device is there to be notified."`

	Events eventsCmd `cmd:"" group:"events" help:"Tools for MCP Events, for any server that has them."`

	Version    versionCmd                `cmd:"" group:"other" help:"Print which build this is."`
	Completion kongcompletion.Completion `cmd:"" group:"other" help:"Print how to switch on tab completion in a shell."`
}

var groups = kong.ExplicitGroups([]kong.Group{
	{Key: "start", Title: "Start here"},
	{Key: "relay", Title: "The relay"},
	{Key: "device", Title: "A device"},
	{Key: "agent", Title: "An agent"},
	{Key: "events", Title: "Events"},
	{Key: "other", Title: "Other"},
	{Key: "field", Title: "The notification"},
	{Key: settingsGroup, Title: "Settings of the relay"},
})

const description = `Herald is a relay between agents and a person: an agent sends a notification or a question, the person's devices show it, and the answer goes back.`

// exit carries a status out of kong, which would end the process.
type exit int

func newParser(c *commands, w *World) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("herald"), kong.Description(description), groups,
		kong.Writers(w.Out, w.Err), kong.Exit(func(code int) { panic(exit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.Bind(w),
	)
}

// Main runs one command line and returns its exit status.
func Main(ctx context.Context, args []string, w *World) (status int) {
	defer func() {
		if p := recover(); p != nil {
			code, ours := p.(exit)
			if !ours {
				panic(p)
			}
			status = int(code)
		}
	}()
	var c commands
	parser, err := newParser(&c, w)
	if err != nil {
		panic(err) // the grammar itself is wrong
	}
	kongcompletion.Register(parser)
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return usage(w, err)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return w.report(ctx, parsed, parsed.Run())
}

// usage tells what is wrong with a command line.
func usage(w *World, err error) int {
	command := "herald"
	var p *kong.ParseError
	if errors.As(err, &p) && p.Context != nil && p.Context.Selected() != nil {
		command = p.Context.Selected().FullPath()
	}
	w.say("herald: %s", screen.Line(err.Error()))
	w.say("  %s --help shows how it is used", command)
	return statusUsage
}
