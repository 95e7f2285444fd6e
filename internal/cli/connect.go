package cli

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/telemetry"
)

// jsonFlag is embedded by every command that a script would want to read.
type jsonFlag struct {
	JSON bool `name:"json" help:"Print JSON."`
}

type networkFlags struct {
	Insecure bool `help:"Send credentials over plain http to other machines, where you trust the network."`
}

// profileFlags name the device.
type profileFlags struct {
	Profile string `type:"path" env:"HERALD_PROFILE" placeholder:"FILE" help:"The device's profile; by default herald/profile.json in your configuration directory."`
}

func (f *profileFlags) path() (string, error) {
	if f.Profile != "" {
		return f.Profile, nil
	}
	return profile.Path()
}

func (f *profileFlags) load() (profile.Profile, error) {
	path, err := f.path()
	if err != nil {
		return profile.Profile{}, err
	}
	return profile.Load(path)
}

// connect makes a client that says when it waits.
func connect(w *World, address string, insecure bool) (*client.Relay, error) {
	return client.New(address, &client.Options{
		UserAgent: "herald/" + telemetry.ReadBuild().Version,
		Insecure:  insecure,
		OnWait: func(d time.Duration, why error) {
			if d >= time.Second {
				w.say("%s; trying again in %s", screen.Line(why.Error()), inWords(d))
			}
		},
	})
}

// deviceFlags are those of commands that act as the device.
type deviceFlags struct {
	profileFlags
	networkFlags
}

func (f *deviceFlags) device(w *World) (*client.Device, profile.Profile, error) {
	p, err := f.load()
	if err != nil {
		return nil, p, err
	}
	r, err := connect(w, p.Relay, f.Insecure)
	if err != nil {
		return nil, p, err
	}
	return r.Device(p.Token), p, nil
}

// agentFlags are those of commands that act as an agent.
type agentFlags struct {
	profileFlags
	networkFlags
	Relay   string `env:"HERALD_RELAY" placeholder:"URL" help:"The relay's address; by default the profile's."`
	KeyFile string `env:"HERALD_KEY_FILE" placeholder:"FILE" help:"A file that holds the agent key, - for standard input; by default the variable HERALD_KEY holds it."`
}

func (f *agentFlags) agent(w *World) (*client.Agent, error) {
	key, err := f.key(w)
	if err != nil {
		return nil, err
	}
	address := f.Relay
	if address == "" {
		p, err := f.load()
		if errors.Is(err, profile.ErrNone) {
			return nil, failed("give its address with --relay or in HERALD_RELAY", "there is no relay to send to")
		}
		if err != nil {
			return nil, err
		}
		address = p.Relay
	}
	r, err := connect(w, address, f.Insecure)
	if err != nil {
		return nil, err
	}
	return r.Agent(key), nil
}

func (f *agentFlags) key(w *World) (string, error) {
	key := os.Getenv("HERALD_KEY")
	if f.KeyFile != "" {
		text, err := readSmall(w, f.KeyFile)
		if err != nil {
			return "", err
		}
		key = text
	}
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return "", failed("put it in a file and name that with --key-file, or in HERALD_KEY; herald key create makes one", "there is no agent key")
	case strings.ContainsAny(key, " \t\r\n"):
		return "", failed("the file must hold the key alone", "the agent key is not one word")
	}
	return key, nil
}

// maxSmall bounds files that hold one secret or one short text.
const maxSmall = 64 << 10

// readSmall reads a small text from a file, or from standard input for "-".
func readSmall(w *World, path string) (string, error) {
	in, name := w.In, "standard input"
	if path != "-" {
		name = path
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSmall+1))
	if err != nil {
		return "", err
	}
	switch {
	case len(data) > maxSmall:
		return "", failed("", "%s holds more than %d bytes", name, maxSmall)
	case !utf8.Valid(data):
		return "", failed("", "%s holds something else than UTF-8 text", name)
	}
	return string(data), nil
}
