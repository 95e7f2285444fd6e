package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/gen2brain/beeep"

	"github.com/herald-relay/herald/internal/cli/desk"
	"github.com/herald-relay/herald/internal/cli/listen"
	"github.com/herald-relay/herald/internal/cli/quiet"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/cli/voice"
)

type listenCmd struct {
	Mute        bool   `help:"Show and speak nothing; agents are told."`
	QuietHours  string `placeholder:"FROM-TO" help:"Quiet hours such as 23:00-06:00; agents are told."`
	Zone        string `placeholder:"ZONE" help:"Their time zone, such as Asia/Kathmandu; this machine's by default."`
	QuietSpeech bool   `help:"In quiet hours hold back speech only."`
	Urgent      bool   `help:"Let urgent notifications through quiet hours."`
	Desktop     string `enum:"auto,on,off" default:"auto" help:"Desktop notifications: ${enum}. auto shows them where there is a desktop."`
	Speech      string `enum:"auto,off,say,espeak-ng,espeak,spd-say" default:"auto" help:"What speaks: ${enum}. auto takes the first that is installed."`
	Count       int    `placeholder:"N" help:"End after N notifications were shown and those that expect it answered."`
	localFlags
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*listenCmd) Help() string {
	return `At a terminal, type an answer and press Enter. With several questions open begin with the number, as in #2 yes. /help lists the commands. What an app asks for is decided with /approve 1 or /deny 1.

When standard input is no terminal, each line of it answers the oldest open question, one line a question.

With --json every frame of the relay is one line, beside lines {"herald": ...} about the connection. A notification is then only acknowledged; say what became of it on standard input, one JSON object a line, shaped as the body of POST /v1/device/receipt. A request for approval is decided likewise, by a line shaped as the body of POST /v1/device/consent.

The command ends with status 1 when another stream of the same device takes its place, or when the device is unpaired.

Examples:
  herald listen
  herald listen --quiet-hours 22:30-07:00 --urgent
  echo yes | herald listen --count 1
  herald listen --json --mute
  herald listen --local-api`
}

// Run listens.
func (c *listenCmd) Run(ctx context.Context, w *World) (ended error) {
	wishes, err := c.wishes()
	if err != nil {
		return &outcome{status: statusUsage, text: err.Error()}
	}
	d, p, err := c.device(w)
	if err != nil {
		return err
	}
	speaker, err := c.speaker(w)
	if err != nil {
		return err
	}
	opt := listen.Options{
		Device: d, Wishes: wishes, Out: w.Out, Err: w.Err, JSON: c.JSON, Style: w.style(), Columns: w.columns,
		Desktop: c.desktop(), Speaker: speaker, Count: c.Count, Log: slog.New(slog.DiscardHandler),
	}
	if !c.JSON {
		w.say("%s at %s", screen.Line(p.Name), screen.Line(p.Relay))
	}
	if c.LocalAPI {
		stop, err := c.serveLocal(ctx, w)
		if err != nil {
			return err
		}
		defer func() { ended = errors.Join(ended, stop()) }()
	}
	return listenWith(ctx, w, opt)
}

// listenWith listens with the person's keyboard, or with what is piped in.
func listenWith(ctx context.Context, w *World, opt listen.Options) error {
	d := new(desk.Desk)
	release, err := attach(w, &opt, d)
	if err != nil {
		return err
	}
	defer release()
	return listen.New(opt, d).Run(ctx)
}

// attach lets answers come from the person's keyboard, or from what is piped in. Until release, all output to the
// terminal must go through opt.Out, which keeps it off the line being typed.
func attach(w *World, opt *listen.Options, d *desk.Desk) (release func(), err error) {
	switch {
	case w.interactive() && !opt.JSON:
		keys, err := listen.NewKeyboard(w.In, w.InTerminal, w.Out, d.Aim)
		if err != nil {
			return nil, err
		}
		opt.Keys, opt.Out, opt.Columns = keys, keys, keys.Columns
		return func() { _ = keys.Close() }, nil // nothing is left to do with a terminal that is gone
	case w.InTerminal < 0 || opt.JSON:
		opt.Piped = w.In
	}
	return func() {}, nil
}

func (c *listenCmd) wishes() (listen.Wishes, error) {
	wishes := listen.Wishes{Muted: c.Mute, QuietSpeech: c.QuietSpeech, UrgentRings: c.Urgent}
	if c.QuietHours == "" {
		return wishes, nil
	}
	var err error
	wishes.Hours, err = quiet.Parse(c.QuietHours, c.Zone)
	return wishes, err
}

// desktop returns what shows desktop notifications, or nil.
func (c *listenCmd) desktop() func(title, body string) error {
	if c.Desktop == "off" || c.JSON || c.Desktop == "auto" && !hasDesktop() {
		return nil
	}
	beeep.AppName = "Herald"
	return func(title, body string) error { return beeep.Notify(title, body, "") }
}

func hasDesktop() bool {
	switch runtime.GOOS {
	case "windows", "darwin":
		return true
	}
	return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

func (c *listenCmd) speaker(w *World) (listen.Speaker, error) {
	if c.Speech == "off" || c.JSON {
		return nil, nil
	}
	want := c.Speech
	if want == "auto" {
		want = ""
	}
	v := voice.Find(want, exec.LookPath)
	switch {
	case v != nil:
		return v, nil
	case want != "":
		return nil, failed("install it, or leave --speech out", "%s is not installed", want)
	}
	w.say("nothing here can speak; install one of %s to hear notifications", strings.Join(voice.Names(), ", "))
	return nil, nil
}
