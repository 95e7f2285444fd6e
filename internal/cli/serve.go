package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/alecthomas/kong"
	"github.com/mdp/qrterminal/v3"

	"github.com/herald-relay/herald/internal/admin"
	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/telemetry"
)

// qrFlag chooses whether a link is drawn as a QR code.
type qrFlag struct {
	QR string `name:"qr" enum:"auto,on,off" default:"auto" help:"Draw the link as a QR code: ${enum}. auto draws it on terminals."`
}

// show draws link, below the text that says it.
func (f *qrFlag) show(w *World, link string) {
	if f.QR == "on" || f.QR == "auto" && w.OutTerminal >= 0 {
		qrterminal.GenerateHalfBlock(link, qrterminal.L, w.Out)
	}
}

type serveCmd struct {
	settingFlags
	qrFlag
}

// Help is shown below the flags.
func (*serveCmd) Help() string {
	return `Without any flag the relay keeps everything in one directory of yours and answers on this machine only. As long as nobody has paired, a pairing link is printed; it works once, within ten minutes.

A line with the word ready and the address is printed once requests are answered. SIGINT or SIGTERM stops the relay gently; a second one at once. Logs go to standard error.

Settings may also stand in the environment or in a file; flags win. docs/configuration.md lists them all.

Examples:
  herald serve
  herald serve --listen 0.0.0.0:443 --tls-domain relay.example
  herald serve --config /etc/herald.conf`
}

// Run serves.
func (c *serveCmd) Run(ctx context.Context, k *kong.Context, w *World) error {
	cfg, err := configuration(k)
	if err != nil {
		return err
	}
	log := telemetry.NewLog(w.Err, cfg.LogFormat, cfg.LogLevel)
	for _, note := range cfg.Notes() {
		log.Warn(note)
	}
	a, err := app.New(ctx, cfg, log)
	if err != nil {
		return err
	}
	log.Info("starting", "build", telemetry.ReadBuild().String(), "config", cfg)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	relay := start(func() error { return a.Run(ctx) })
	select {
	case <-relay.done:
		return relay.wait()
	case <-a.Ready():
	}
	log.Info("ready", "origin", a.Origin(), "address", a.Addr())
	if err := c.welcome(ctx, w, a); err != nil {
		cancel()
		return errors.Join(err, relay.wait())
	}
	err = relay.wait()
	if err == nil { // else the error is said
		log.Info("stopped")
	}
	return err
}

// job is something that runs beside.
type job struct {
	done chan struct{} // closed at its end
	wg   sync.WaitGroup
	err  error // readable after wg
}

func start(fn func() error) *job {
	j := &job{done: make(chan struct{})}
	j.wg.Go(func() {
		defer close(j.done)
		j.err = fn()
	})
	return j
}

// wait returns how it ended.
func (j *job) wait() error {
	j.wg.Wait()
	return j.err
}

// welcome says where the relay is, and how to pair as long as nobody has. The ready line comes last.
func (c *serveCmd) welcome(ctx context.Context, w *World, a *app.App) error {
	people, err := a.Admin().People(ctx)
	if err != nil {
		return err
	}
	if person, nobody := unpaired(people); nobody {
		inv, err := a.Admin().Invite(ctx, person)
		if err != nil {
			return err
		}
		w.print("pair your first device within 10 minutes, in another terminal:")
		w.print("  herald pair %s", inv.Link)
		c.show(w, inv.Link)
	} else {
		w.print("pair another person's device with: herald person link NAME")
	}
	w.print("ready: the relay answers on %s (listening on %s)", a.Origin(), a.Addr())
	return nil
}

// unpaired returns the first person when nobody has a mailbox.
func unpaired(people []admin.Person) (name string, nobody bool) {
	for _, p := range people {
		if p.Mailboxes > 0 {
			return "", false
		}
	}
	if len(people) == 0 {
		return "", false
	}
	return people[0].Name, true
}
