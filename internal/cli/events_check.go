package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/conform"
)

type eventsCheckCmd struct {
	endpointFlags
	Name     string        `placeholder:"EVENT" help:"The event type to check with; by default one that takes the arguments and offers most."`
	Arg      []string      `sep:"none" placeholder:"NAME=VALUE" help:"An argument for it, as text, or as JSON after :=; give the flag again for more."`
	Rules    string        `placeholder:"WHICH" help:"Check these rules only: numbers, ranges, webhook, poll or push, such as 1,201-212,poll."`
	Client   string        `enum:",chatgpt,ai-sdk,relay,ledger,sep" default:"" placeholder:"WHO" help:"Check only what one client leans on: chatgpt, ai-sdk, sep, or those of the published relay and ledger."`
	Callback string        `placeholder:"URL" help:"A public https address that leads to --listen, for a server that does not deliver to this machine."`
	Listen   string        `placeholder:"ADDR" help:"Address and port to receive webhooks on; by default a free port of 127.0.0.1."`
	Trigger  string        `placeholder:"CMD" help:"A shell command that makes one event happen. It finds the event type in HERALD_EVENT_NAME."`
	End      string        `placeholder:"CMD" help:"A shell command that makes the server end all subscriptions of the event type for good, such as by removing it. It runs last."`
	Wait     time.Duration `placeholder:"TIME" help:"How long an event or a further attempt may take, 90s by default. Without --trigger, wait that long for an event that happens by itself."`
	Limit    time.Duration `default:"10m" placeholder:"TIME" help:"How long each dialect may take; ${default} by default."`
	Strict   bool          `help:"Let rules that only recommend fail the check too."`
	All      bool          `help:"Show the rules that pass, too."`
	JSON     string        `name:"json" placeholder:"FILE" help:"Write the report as JSON, - for standard output."`
	JUnit    string        `name:"junit" placeholder:"FILE" help:"Write the report as JUnit XML, - for standard output."`
}

// Help is shown below the flags.
func (*eventsCheckCmd) Help() string {
	return `Each rule passes, fails, or is not testable for a reason that is shown. docs/conformance.md has them all. Subscriptions that the check makes are ended again.

Webhooks are received on this machine unless --callback is given. Rules about deliveries need events: --trigger makes them, or --wait waits for them.

Exit status: 0 no rule fails; 1 a rule fails; 2 wrong usage, or the server cannot be checked at all; 130 interrupted.

Examples:
  herald events check http://127.0.0.1:8080/mcp --trigger 'curl -sS -X POST localhost:8080/test'
  herald events check https://mcp.example.com/mcp --token-file token --callback https://me.example/hook --listen 127.0.0.1:8790 --wait 5m
  herald events check https://mcp.example.com/mcp --client chatgpt --junit report.xml`
}

// Run checks.
func (c *eventsCheckCmd) Run(ctx context.Context, w *World) error {
	o, err := c.options(w)
	if err != nil {
		return err
	}
	bench, err := c.setUp(o)
	if err != nil {
		return err
	}
	report, err := conform.Run(ctx, *o)
	bench.close()
	switch {
	case ctx.Err() != nil:
		return context.Canceled
	case errors.Is(err, conform.ErrDenied):
		return &outcome{status: statusUsage, code: "denied", text: "the server wants another credential", hint: "give one with --token-file, HERALD_TOKEN or --header"}
	case err != nil:
		return &outcome{status: statusUsage, code: "unreachable", text: screen.Line(err.Error()), hint: "does the server run, and is this its MCP endpoint?"}
	}
	if err := c.write(w, report); err != nil {
		return err
	}
	return c.verdict(report)
}

// verdict chooses the exit status.
func (c *eventsCheckCmd) verdict(report *conform.Report) error {
	must, should := 0, 0
	for _, p := range report.Passages {
		must, should = must+p.Failed(conform.Must), should+p.Failed(conform.Should)
	}
	if must > 0 || c.Strict && should > 0 {
		return &outcome{status: statusFailed, code: "rules_fail", text: fmt.Sprintf("rules that fail: %d, and %d recommendations", must, should)}
	}
	return nil
}

func (c *eventsCheckCmd) options(w *World) (*conform.Options, error) {
	address, err := endpointURL(c.URL, c.InsecureHTTP)
	if err != nil {
		return nil, err
	}
	head, err := c.headers(w, address)
	if err != nil {
		return nil, err
	}
	wish := wishFlags{Arg: c.Arg}
	arguments, err := wish.arguments()
	if err != nil {
		return nil, err
	}
	chosen, err := c.chosen()
	if err != nil {
		return nil, err
	}
	if c.Wait < 0 || c.Limit <= 0 {
		return nil, &outcome{status: statusUsage, text: "--wait and --limit must not be negative"}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	o := &conform.Options{URL: address.String(), HTTP: transport, UserAgent: head.Get("User-Agent"), Dialects: c.dialects(),
		Event: c.Name, Arguments: arguments, Chosen: chosen, Wait: c.Wait, Watch: c.Wait > 0, Limit: c.Limit}
	if len(head) > 1 { // the user agent is no credential
		o.Authorize = func(h http.Header) { maps.Copy(h, head) }
	}
	if c.Trigger != "" {
		o.Trigger = shell(c.Trigger)
	}
	if c.End != "" {
		o.End = shell(c.End)
	}
	return o, nil
}

func (c *eventsCheckCmd) chosen() (func(*conform.Rule) bool, error) {
	byNumber, err := conform.ParseChoice(c.Rules)
	if err != nil {
		return nil, &outcome{status: statusUsage, text: "--rules: " + screen.Line(err.Error()), hint: "it looks like --rules 1,201-212,poll"}
	}
	return func(r *conform.Rule) bool {
		return byNumber(r) && (c.Client == "" || slices.Contains(r.Needs, conform.Consumer(c.Client)))
	}, nil
}

func (c *eventsCheckCmd) dialects() []conform.Dialect {
	switch {
	case c.Dialect != "auto":
		return []conform.Dialect{conform.Dialect(c.Dialect)}
	case c.Client != "":
		return []conform.Dialect{conform.Consumer(c.Client).Dialect()}
	}
	return nil
}

// shell runs a person's own command.
func shell(command string) func(ctx context.Context, event string) error {
	return func(ctx context.Context, event string) error {
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Env = append(os.Environ(), "HERALD_EVENT_NAME="+event)
		cmd.WaitDelay = 10 * time.Second
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w: %s", err, screen.Line(said.String()))
		}
		return nil
	}
}

// checkBench is what a check needs on this machine.
type checkBench struct {
	server *http.Server
	serves sync.WaitGroup
	canary *conform.Canary
}

// setUp serves a receiver, and tells the check of it.
func (c *eventsCheckCmd) setUp(o *conform.Options) (*checkBench, error) {
	listen := c.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, &outcome{status: statusUsage, text: err.Error(), hint: "choose another --listen"}
	}
	receiver := &conform.Receiver{URL: c.Callback, Guessed: c.Callback == ""}
	if receiver.Guessed {
		receiver.URL = "http://" + l.Addr().String()
		o.Closed = closedAddress()
	}
	o.Receiver = receiver
	b := &checkBench{server: &http.Server{Handler: receiver, ReadTimeout: 30 * time.Second, ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes: 64 << 10, ErrorLog: log.New(io.Discard, "", 0)}}
	b.serves.Go(func() { _ = b.server.Serve(l) }) // it ends when it is closed
	if u, err := url.Parse(o.URL); err == nil && loopback(u.Hostname()) {
		if b.canary, err = conform.ListenCanary(); err != nil {
			b.close()
			return nil, err
		}
		o.Canary = b.canary
	}
	return b, nil
}

// closedAddress is one of this machine that nobody listens at, "" if none is found.
func closedAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return ""
	}
	defer l.Close()
	return "http://" + l.Addr().String() + "/closed"
}

func (b *checkBench) close() {
	_ = b.server.Close() // whoever still sends is told by the connection
	b.serves.Wait()
	if b.canary != nil {
		b.canary.Close()
	}
}

// write shows the report and writes it to files.
func (c *eventsCheckCmd) write(w *World, report *conform.Report) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{{c.JSON, report.WriteJSON}, {c.JUnit, report.WriteJUnit}} {
		var err error
		switch f.name {
		case "":
		case "-":
			err = f.write(w.Out)
		default:
			err = writeWhole(f.name, f.write)
		}
		if err != nil {
			return err
		}
	}
	if c.JSON != "-" && c.JUnit != "-" {
		c.show(w, report)
	}
	return nil
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".herald-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is gone once it was renamed
	if err := errors.Join(f.Chmod(0o644), write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// show prints the report for a person.
func (c *eventsCheckCmd) show(w *World, report *conform.Report) {
	style := w.style()
	for _, p := range report.Passages {
		event := ""
		if p.Event != "" {
			event = ", event type " + screen.Line(p.Event)
		}
		w.print("%s", style.Bold(fmt.Sprintf("Dialect %s%s: %d pass, %d fail, %d are not testable", p.Dialect, event,
			p.Count(conform.Pass), p.Count(conform.Fail), p.Count(conform.NotTestable))))
		for _, res := range p.Results {
			c.showResult(w, res)
		}
		for _, u := range untested(p.Results) {
			w.print("  %s %s: %s", style.Yellow("not testable"), ranges(u.numbers), screen.Line(u.reason))
		}
		w.print("")
	}
	for _, s := range report.Standings() {
		mark := style.Green("pass")
		if !s.OK {
			mark = style.Red("fail")
		}
		text := fmt.Sprintf("%-8s %s  %d pass, %d are not testable", s.Consumer, mark, s.Passed, s.NotTestable)
		if len(s.Failed) > 0 {
			text += ", these fail: " + ranges(s.Failed)
		}
		w.print("%s", text)
	}
}

func (c *eventsCheckCmd) showResult(w *World, res conform.Result) {
	style := w.style()
	switch {
	case res.Outcome == conform.Pass && c.All:
		w.print("  %s %d %s", style.Green("pass"), res.Rule.Number, res.Rule.Text)
	case res.Outcome == conform.Fail:
		mark := style.Red("FAIL")
		if res.Rule.Level == conform.Should {
			mark = style.Yellow("fail (recommended)")
		}
		w.print("  %s %d %s", mark, res.Rule.Number, res.Rule.Text)
		w.print("       %s", style.Dim(res.Rule.Source))
		for _, part := range [][2]string{{"sent", res.Sent}, {"want", res.Want}, {"got", res.Got}} {
			w.print("       %-4s %s", part[0], screen.Line(part[1]))
		}
	}
}

// reasoned are rules that are not testable for one reason.
type reasoned struct {
	reason  string
	numbers []int
}

func untested(results []conform.Result) (list []reasoned) {
	for _, res := range results {
		if res.Outcome != conform.NotTestable {
			continue
		}
		i := slices.IndexFunc(list, func(r reasoned) bool { return r.reason == res.Reason })
		if i < 0 {
			i, list = len(list), append(list, reasoned{reason: res.Reason})
		}
		list[i].numbers = append(list[i].numbers, res.Rule.Number)
	}
	return list
}

// ranges writes numbers as --rules takes them.
func ranges(numbers []int) string {
	numbers = slices.Sorted(slices.Values(numbers))
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		switch {
		case i == j:
			parts = append(parts, fmt.Sprint(numbers[i]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
