package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/herald-relay/herald/internal/cli/doctor"
	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/cli/voice"
	"github.com/herald-relay/herald/internal/telemetry"
)

type doctorCmd struct {
	URL            string `arg:"" optional:"" help:"A relay to examine from outside alone; without it this machine is examined too."`
	Token          string `placeholder:"TOKEN" help:"An agent key or access token, to look behind the door. Other users of this machine may see it; better is --token-file."`
	TokenFile      string `placeholder:"FILE" help:"A file that holds it, - for standard input. Without either, HERALD_KEY_FILE or HERALD_KEY is used for the relay of HERALD_RELAY or the profile, and for no other."`
	Callback       string `placeholder:"URL" help:"A public https address that leads to this machine; the relay is asked to call it, which is undone again. Needs a token."`
	CallbackListen string `placeholder:"ADDR" help:"Where the callback arrives on this machine; 127.0.0.1:8788 by default."`
	jsonFlag
	settingFlags
	profileFlags
	networkFlags
}

// Help is shown below the flags.
func (*doctorCmd) Help() string {
	return `With a URL it plays the clients that will come to that relay, through every proxy in between: it reads the discovery documents, asks to register what must be refused, calls the MCP endpoint as clients of both kinds, asks for leave as a browser does, announces a large body, and looks at TLS, the clock, redirects, error pages, headers and compression. With an agent's token it also calls the tools and opens a stream; on a machine that is paired with the relay it opens a WebSocket.

Without a URL it looks at the configuration, the data directory and the database of a relay on this machine and at this machine's profile, and then from outside at the relay of HERALD_RELAY or the profile.

Each finding is pass, note, warn or fail, with what was seen and what to change. Nothing is changed but with --callback, whose subscription is ended again, and a running herald listen is not disturbed. The exit status is 1 when something failed.

Examples:
  herald doctor
  herald doctor https://relay.example --token-file agent.key
  herald doctor https://relay.example --token-file agent.key --callback https://me.example/hook
  herald doctor --data /var/lib/herald --json`
}

// Run examines.
func (c *doctorCmd) Run(ctx context.Context, k *kong.Context, w *World) error {
	r := &doctor.Report{}
	target := doctor.Target{Address: c.URL, Public: c.URL != "", Insecure: c.Insecure, UserAgent: "herald/" + telemetry.ReadBuild().Version,
		Callback: c.Callback, CallbackListen: c.CallbackListen}
	p, err := c.load()
	if c.URL == "" {
		cfg, bad := configuration(k)
		if b, ok := errors.AsType[*badConfig](bad); ok {
			bad = b.err
		}
		r.Here(ctx, cfg, bad)
		r.Profile(p, err)
		if target.Address = os.Getenv("HERALD_RELAY"); target.Address == "" {
			target.Address = p.Relay
		}
	}
	if err := c.tokens(w, &target, p); err != nil {
		return err
	}
	if target.Address != "" {
		if doctor.Outside(ctx, r, target); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if c.URL == "" {
		speaker := ""
		if v := voice.Find("", exec.LookPath); v != nil {
			speaker = v.Name
		}
		r.Senses(speaker, strings.Join(voice.Names(), ", "), hasDesktop())
	}
	return c.show(w, r)
}

// tokens finds what may be used to get in. A profile's token goes to the profile's relay and nowhere else; so does what the
// environment holds, to the relay of HERALD_RELAY or the profile.
func (c *doctorCmd) tokens(w *World, t *doctor.Target, p profile.Profile) error {
	address := strings.TrimSuffix(t.Address, "/")
	if address != "" && address == p.Relay {
		t.DeviceToken = p.Token
	}
	file, token := c.TokenFile, strings.TrimSpace(c.Token)
	known := address != "" && (address == p.Relay || address == strings.TrimSuffix(os.Getenv("HERALD_RELAY"), "/"))
	if file == "" && token == "" && known {
		file = os.Getenv("HERALD_KEY_FILE")
	}
	if file == "" && token == "" && (!known || os.Getenv("HERALD_KEY") == "") {
		return nil
	}
	if token == "" {
		flags := agentFlags{KeyFile: file}
		var err error
		if token, err = flags.key(w); err != nil {
			return err
		}
	}
	if strings.HasPrefix(token, "hrd_") {
		t.DeviceToken = token
	} else {
		t.AgentToken = token
	}
	return nil
}

func (c *doctorCmd) show(w *World, r *doctor.Report) error {
	var err error
	if c.JSON {
		err = w.json(struct {
			OK       bool             `json:"ok"`
			Findings []doctor.Finding `json:"findings"`
		}{r.OK(), r.Findings})
	} else {
		printFindings(w, r.Findings)
	}
	if err == nil && !r.OK() {
		err = &outcome{status: statusFailed}
	}
	return err
}

func printFindings(w *World, findings []doctor.Finding) {
	style := w.style()
	looks := map[doctor.State]func(string) string{doctor.Pass: style.Green, doctor.Note: style.Dim, doctor.Warn: style.Yellow, doctor.Fail: style.Red}
	for _, f := range findings {
		w.print("%s %s: %s", looks[f.State](string(f.State)), f.Check, f.Seen)
		if f.Fix != "" {
			w.print("     %s", style.Bold(f.Fix))
		}
	}
}
