package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/herald-relay/herald/internal/admin"
	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/cli/voice"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/config"
)

type doctorCmd struct {
	jsonFlag
	settingFlags
	profileFlags
	networkFlags
	Relay string `env:"HERALD_RELAY" placeholder:"URL" help:"A relay to examine from outside; by default the profile's."`
}

// Help is shown below the flags.
func (*doctorCmd) Help() string {
	return `It looks at the configuration, the data directory and the database of a relay on this machine, at this machine's profile, and at the relay from outside: does it answer, do the clocks agree, is the device token good, do WebSockets get through. Nothing is changed, and a running herald listen is not disturbed.

The exit status is 1 when something is broken. Warnings do not count.

Examples:
  herald doctor
  herald doctor --data /var/lib/herald --json
  herald doctor --relay https://relay.example`
}

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, note, warning, broken
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitzero"` // what to change; set when State is warning or broken
}

// The states of a finding.
const (
	findOK      = "ok"
	findNote    = "note"
	findWarning = "warning"
	findBroken  = "broken"
)

// examination gathers findings.
type examination struct {
	w        *World
	findings []Finding
}

func (x *examination) add(check, state, detail, fix string) {
	x.findings = append(x.findings, Finding{check, state, screen.Line(detail), screen.Line(fix)})
}

// Run examines.
func (c *doctorCmd) Run(ctx context.Context, k *kong.Context, w *World) error {
	x := &examination{w: w}
	cfg, err := configuration(k)
	if x.configuration(cfg, err); err == nil {
		x.relayHere(ctx, cfg)
	}
	p := x.profile(&c.profileFlags)
	if c.Relay != "" && c.Relay != p.Relay {
		p = profile.Profile{Relay: c.Relay} // its token is another relay's
	}
	if p.Relay != "" {
		x.relayThere(ctx, p, c.Insecure)
	}
	x.senses()
	return c.show(w, x.findings)
}

func (c *doctorCmd) show(w *World, findings []Finding) error {
	broken := false
	for _, f := range findings {
		broken = broken || f.State == findBroken
	}
	var err error
	if c.JSON {
		err = w.json(struct {
			OK       bool      `json:"ok"`
			Findings []Finding `json:"findings"`
		}{!broken, findings})
	} else {
		printFindings(w, findings)
	}
	if err == nil && broken {
		err = &outcome{status: statusFailed}
	}
	return err
}

func printFindings(w *World, findings []Finding) {
	style := w.style()
	looks := map[string]func(string) string{findOK: style.Green, findNote: style.Dim, findWarning: style.Yellow, findBroken: style.Red}
	for _, f := range findings {
		w.print("%s %s: %s", looks[f.State](padded(f.State)), f.Check, f.Detail)
		if f.Fix != "" {
			w.print("%s %s", strings.Repeat(" ", len(findWarning)), style.Bold(f.Fix))
		}
	}
}

func padded(state string) string { return state + strings.Repeat(" ", len(findWarning)-len(state)) }

func (x *examination) configuration(cfg config.Config, err error) {
	var bad *badConfig
	switch {
	case errors.As(err, &bad) && len(config.Problems(bad.err)) > 0:
		for _, p := range config.Problems(bad.err) {
			x.add("configuration", findBroken, p.Key+": "+p.Detail, p.Hint)
		}
	case err != nil:
		x.add("configuration", findBroken, err.Error(), "herald config check tells more")
	default:
		x.add("configuration", findOK, "it can be read and makes sense", "")
	}
	for _, note := range cfg.Notes() {
		x.add("configuration", findNote, note, "")
	}
}

// relayHere looks at a relay of this machine, when there is one.
func (x *examination) relayHere(ctx context.Context, cfg config.Config) {
	info, err := os.Stat(cfg.Data)
	if errors.Is(err, fs.ErrNotExist) {
		x.add("data directory", findNote, cfg.Data+" is not there: no relay has run here yet", "")
		x.port(cfg.Listen, findWarning) // perhaps none ever shall
		return
	}
	if !x.directory(cfg.Data, info, err) {
		return
	}
	x.secret(cfg)
	if x.running(ctx, cfg) {
		return
	}
	x.database(ctx, cfg)
	x.port(cfg.Listen, findBroken)
}

func (x *examination) directory(path string, info fs.FileInfo, err error) bool {
	switch {
	case err != nil:
		x.add("data directory", findBroken, err.Error(), "make it readable for the user that runs the relay")
		return false
	case !info.IsDir():
		x.add("data directory", findBroken, path+" is a file", "name a directory with --data")
		return false
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		x.add("data directory", findWarning, path+" can be entered by others", "chmod 700 "+path)
	default:
		x.add("data directory", findOK, path, "")
	}
	probe, err := os.CreateTemp(path, ".doctor-*")
	if err != nil {
		x.add("data directory", findBroken, "nothing can be written there: "+err.Error(), "give it to the user that runs the relay, and see that the disk is not full")
		return false
	}
	_ = errors.Join(probe.Close(), os.Remove(probe.Name()))
	return true
}

func (x *examination) secret(cfg config.Config) {
	path := filepath.Join(cfg.Data, config.SecretFile)
	info, err := os.Stat(path)
	switch {
	case cfg.RelaySecret.Reveal() != "": // the file is not read
		x.add("relay secret", findOK, "it is in the configuration", "")
	case errors.Is(err, fs.ErrNotExist):
		if keptIn(cfg) { // else serve makes one
			x.add("relay secret", findBroken, path+" is missing beside the database, and any device that has paired is known by it",
				"restore the file, or give the RELAY_SECRET that the relay had before; with a new one every device must pair again")
		}
	case err != nil:
		x.add("relay secret", findBroken, err.Error(), "make it readable for the user that runs the relay")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o027 != 0: // as serve has it: its group may read
		x.add("relay secret", findBroken, path+" can be read by others", "chmod 600 "+path)
	default:
		x.add("relay secret", findOK, "it is closed to others", "")
	}
}

// keptIn reports whether the embedded database is there.
func keptIn(cfg config.Config) bool {
	_, err := os.Stat(filepath.Join(cfg.Data, app.DatabaseFile))
	return cfg.Embedded() && err == nil
}

// running asks a relay that runs on the data directory, which proves its database too.
func (x *examination) running(ctx context.Context, cfg config.Config) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	a, err := admin.Dial(ctx, cfg.Data)
	if errors.Is(err, admin.ErrNotRunning) {
		x.add("relay here", findNote, "it is not running", "")
		return false
	}
	if err != nil {
		x.add("relay here", findBroken, err.Error(), "restart it")
		return true
	}
	defer a.Close()
	people, err := a.People(ctx)
	if err != nil {
		x.add("relay here", findBroken, err.Error(), "its log tells the cause")
		return true
	}
	mailboxes := 0
	for _, p := range people {
		mailboxes += p.Mailboxes
	}
	x.add("relay here", findOK, "it is running, with "+count(int64(len(people)), "person")+" and "+count(int64(mailboxes), "paired device"), "")
	return true
}

func (x *examination) database(ctx context.Context, cfg config.Config) {
	if !cfg.Embedded() {
		x.postgres(ctx, cfg.Database.Reveal())
		return
	}
	path := filepath.Join(cfg.Data, app.DatabaseFile)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		x.add("database", findNote, "there is none yet", "")
		return
	}
	if err != nil {
		x.add("database", findBroken, err.Error(), "give it to the user that runs the relay")
		return
	}
	defer f.Close()
	head := make([]byte, 16)
	if n, _ := f.Read(head); n > 0 && string(head) != "SQLite format 3\x00" {
		x.add("database", findBroken, path+" is no SQLite database", "restore it from a backup")
		return
	}
	x.add("database", findOK, path, "")
}

func (x *examination) postgres(ctx context.Context, database string) {
	u, err := url.Parse(database)
	if err != nil {
		x.add("database", findBroken, "HERALD_DATABASE is no URL", "it looks like postgres://user:password@host/name")
		return
	}
	address := net.JoinHostPort(u.Hostname(), u.Port())
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "5432")
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		x.add("database", findBroken, "PostgreSQL does not answer: "+err.Error(), "start it, or correct HERALD_DATABASE")
		return
	}
	_ = conn.Close()
	x.add("database", findOK, "PostgreSQL answers at "+address, "")
}

// port looks whether a relay could listen there; busy is what it is when it cannot.
func (x *examination) port(address, busy string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		x.add("port", busy, err.Error(), "stop what holds it, or choose another address with --listen")
		return
	}
	_ = l.Close()
	x.add("port", findOK, address+" is free", "")
}

func (x *examination) profile(flags *profileFlags) profile.Profile {
	p, err := flags.load()
	switch {
	case errors.Is(err, profile.ErrNone):
		x.add("profile", findNote, "this machine is not paired", "")
	case err != nil:
		x.add("profile", findBroken, err.Error(), "mend it, or pair again with herald pair LINK --replace")
	default:
		x.add("profile", findOK, "paired with "+p.Relay+" as "+p.Name, "")
	}
	return p
}

// senses tells what this machine can do as a device.
func (x *examination) senses() {
	if v := voice.Find("", exec.LookPath); v != nil {
		x.add("speech", findOK, v.Name, "")
	} else {
		x.add("speech", findNote, "nothing here can speak; "+strings.Join(voice.Names(), ", ")+" would do", "")
	}
	if hasDesktop() {
		x.add("desktop", findOK, "there is one to show notifications on", "")
	} else {
		x.add("desktop", findNote, "there is none; notifications are shown in the terminal only", "")
	}
}

// relayThere looks at a relay from outside.
func (x *examination) relayThere(ctx context.Context, p profile.Profile, insecure bool) {
	r, err := client.New(p.Relay, &client.Options{Insecure: insecure, MaxWait: -1})
	if err != nil {
		x.add("relay", findBroken, err.Error(), describe(err).Hint)
		return
	}
	if !x.answers(ctx, r) || p.Token == "" {
		return
	}
	d := r.Device(p.Token)
	if _, err := d.Info(ctx); err != nil {
		x.add("device token", findBroken, err.Error(), fixFor(err, "pair again with herald pair LINK --replace", "unauthorized", "wrong_credential"))
		return
	}
	x.add("device token", findOK, "the relay knows this device", "")
	x.stream(ctx, d)
}

// fixFor is the fix when err has one of the codes; any other refusal is the relay's own trouble.
func fixFor(err error, fix string, codes ...string) string {
	if slices.Contains(codes, client.Code(err)) {
		return fix
	}
	return "the relay's log tells the cause; herald doctor on its machine looks closer"
}

// skewAllowed is how far clocks may differ without anybody noticing.
const skewAllowed = 30 * time.Second

func (x *examination) answers(ctx context.Context, r *client.Relay) bool {
	h, date, err := r.Health(ctx)
	switch {
	case err != nil:
		x.add("relay", findBroken, describe(err).Message, "start the relay, or correct the address; a firewall or proxy on the way may refuse too")
		return false
	case h.Service != "herald-relay" || !h.OK:
		x.add("relay", findBroken, r.Address()+" answers, but is no relay", "correct the address")
		return false
	}
	x.add("relay", findOK, r.Address()+" answers", "")
	if h.Dev {
		x.add("relay", findWarning, "it runs for development and may call plain http receivers", "start it without --dev")
	}
	if skew := time.Since(date).Abs(); !date.IsZero() && skew > skewAllowed {
		x.add("clock", findWarning, "this machine's clock and the relay's differ by "+inWords(skew), "set both by NTP")
	} else if !date.IsZero() {
		x.add("clock", findOK, "it agrees with the relay's", "")
	}
	return true
}

// stream learns whether WebSockets get through, without taking the place of a stream that is open.
func (x *examination) stream(ctx context.Context, d *client.Device) {
	links, err := d.Links(ctx)
	if err == nil {
		for _, l := range links {
			if l.ThisDevice && l.Online {
				x.add("stream", findOK, "this device is connected", "")
				return
			}
		}
	} else if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusNotFound {
		x.add("stream", findWarning, err.Error(), "try again")
		return
	}
	if err := d.ProbeStream(ctx); err != nil {
		x.add("stream", findBroken, err.Error(), fixFor(err, "let the proxy in front of the relay pass WebSockets: Upgrade and Connection headers, and long idle times", "", "upgrade_required"))
		return
	}
	x.add("stream", findOK, "WebSockets get through", "")
}
