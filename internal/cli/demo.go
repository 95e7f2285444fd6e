package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/cli/desk"
	"github.com/herald-relay/herald/internal/cli/listen"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/config"
)

type demoCmd struct {
	Auto bool `help:"Let the device answer by itself, as it does where no person sits at a terminal."`
}

// Help is shown below the flags.
func (*demoCmd) Help() string {
	return `Everything is real: a relay with its own database in a temporary directory, HTTP and a WebSocket on this machine, a paired device, an agent with a key. Nothing stays behind.

Example:
  herald demo`
}

// How long the demo waits for a person, and for itself.
const (
	personWithin = 10 * time.Minute
	autoWithin   = 30 * time.Second
)

// Run plays the demo.
func (c *demoCmd) Run(ctx context.Context, w *World) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &show{w: w, out: w.Out, auto: c.Auto || !w.interactive()}
	dir, err := os.MkdirTemp("", "herald-demo-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	relay, stop, err := s.startRelay(ctx, dir)
	if err != nil {
		return err
	}
	err = s.play(ctx, relay)
	return errors.Join(err, stop())
}

// show is one run of the demo.
type show struct {
	w    *World
	out  io.Writer // while somebody types, what keeps steps off their line
	auto bool
	step int
}

func (s *show) tell(format string, args ...any) {
	s.step++
	fmt.Fprintf(s.out, "%s %s\n", s.w.style().Bold(fmt.Sprintf("%d.", s.step)), fmt.Sprintf(format, args...))
}

func (s *show) startRelay(ctx context.Context, dir string) (*app.App, func() error, error) {
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.Grace = dir, "127.0.0.1:0", 5*time.Second
	a, err := app.New(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it stops after everybody else
	running := start(func() error { return a.Run(ctx) })
	stop := func() error {
		cancel()
		return running.wait()
	}
	select {
	case <-a.Ready():
	case <-running.done:
		cancel()
		return nil, nil, running.wait()
	}
	s.tell("a relay runs at %s, with its database in %s", a.Origin(), dir)
	return a, stop, nil
}

func (s *show) play(ctx context.Context, a *app.App) error {
	device, err := s.pair(ctx, a)
	if err != nil {
		return err
	}
	key, err := device.CreateKey(ctx, "demo-agent", "other")
	if err != nil {
		return err
	}
	s.tell("an agent got a key of its own: %s, shown once and kept as a hash", key.Name)
	r, err := client.New(a.Origin(), nil)
	if err != nil {
		return err
	}
	return s.loop(ctx, device, r.Agent(key.Key))
}

func (s *show) pair(ctx context.Context, a *app.App) (*client.Device, error) {
	people, err := a.Admin().People(ctx)
	if err != nil {
		return nil, err
	}
	inv, err := a.Admin().Invite(ctx, people[0].Name)
	if err != nil {
		return nil, err
	}
	address, code, err := readLink(inv.Link)
	if err != nil {
		return nil, err
	}
	r, err := client.New(address, nil)
	if err != nil {
		return nil, err
	}
	paired, err := r.Pair(ctx, code, "demo-terminal")
	if err != nil {
		return nil, err
	}
	s.tell("this terminal paired with it by the one-time link %s", inv.Link)
	return r.Device(paired.Token), nil
}

// loop lets the device listen while the agent asks and waits.
func (s *show) loop(ctx context.Context, device *client.Device, agent *client.Agent) error {
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	listening, stop := context.WithCancel(ctx)
	defer stop()
	live := make(chan struct{})
	opt, d := s.options(device, sync.OnceFunc(func() { close(live) })), new(desk.Desk)
	world := *s.w
	if s.auto {
		world.In, world.InTerminal = strings.NewReader("Yes, ship it.\n"), -1
	}
	release, err := attach(&world, &opt, d)
	if err != nil {
		return err
	}
	s.out = opt.Out
	listener := start(func() error {
		err := listen.New(opt, d).Run(listening)
		if len(d.Open()) > 0 { // the person left
			giveUp()
		} else {
			time.AfterFunc(patience, giveUp) // an answer that was given is with the agent by then
		}
		return err
	})
	reply, err := s.ask(asking, agent, live)
	if reply.Replied {
		time.AfterFunc(patience, stop) // the terminal has yet to learn that its answer arrived, and ends by itself
	} else {
		stop()
	}
	heard := listener.wait()
	release()
	s.out = s.w.Out
	switch {
	case heard != nil:
		return heard
	case reply.Replied:
		return s.receipt(ctx, agent, reply)
	case ctx.Err() == nil && asking.Err() == nil:
		return err
	}
	s.w.print("you left before answering; run herald demo again to see the rest")
	return nil
}

// patience is how long one side goes on once the other has ended.
const patience = 2 * time.Second

func (s *show) options(device *client.Device, onLive func()) listen.Options {
	return listen.Options{
		Device: device, Out: s.w.Out, Err: s.w.Err, Style: s.w.style(), Columns: s.w.columns, Count: 1, OnLive: onLive,
	}
}

// ask is the agent's part: one question, one wait. It lets the device connect first, so that the steps are seen in order.
func (s *show) ask(ctx context.Context, agent *client.Agent, live <-chan struct{}) (client.Reply, error) {
	select {
	case <-live:
	case <-ctx.Done():
		return client.Reply{}, ctx.Err()
	}
	within := personWithin
	if s.auto {
		within = autoWithin
	}
	s.tell("the agent asks, and waits for the answer; the terminal shows the question:")
	sent, err := agent.Notify(ctx, client.Notification{
		Title: "Ship version 2.1?", Body: "All 214 tests pass. Deploying takes about two minutes.",
		Project: "shop", Tool: "herald demo", Tags: []string{"demo"}, ExpectReply: true,
	})
	if err != nil {
		return client.Reply{}, err
	}
	return agent.Await(ctx, sent.NotificationID, within)
}

func (s *show) receipt(ctx context.Context, agent *client.Agent, reply client.Reply) error {
	s.tell("the agent reads the answer: %s", s.w.style().Bold(screen.Line(answerText(reply))))
	r, err := agent.Receipt(ctx, reply.NotificationID)
	if err != nil {
		return err
	}
	s.tell("what the relay recorded:")
	if err := showReceipt(s.w, r); err != nil {
		return err
	}
	s.w.print("that is the whole loop. next: herald serve runs a relay that stays")
	return nil
}
