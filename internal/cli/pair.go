package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
)

type pairCmd struct {
	Code    string `arg:"" optional:"" name:"link" help:"The pairing link or code; - reads it from standard input. Without one the relay is asked for a code."`
	Relay   string `env:"HERALD_RELAY" placeholder:"URL" help:"The relay's address, unless a link names it."`
	Name    string `placeholder:"NAME" help:"What this device is called; the machine's name by default."`
	Replace bool   `help:"Pair although this machine is paired, and forget the earlier pairing."`
	profileFlags
	networkFlags
	jsonFlag
}

// Help is shown below the flags.
func (*pairCmd) Help() string {
	return `The link comes from herald serve, herald person link or herald link create. The device token that pairing gives is kept in the profile, which only you can read.

Without a link the relay itself is asked for a code, which it gives when it is open for pairing; a relay with a pairing secret takes it from the variable PAIRING_SECRET.

Examples:
  herald pair https://relay.example/pair#ABCD-EFGH
  herald pair ABCD-EFGH --relay https://relay.example --name laptop`
}

// Run pairs.
func (c *pairCmd) Run(ctx context.Context, w *World) error {
	path, err := c.free()
	if err != nil {
		return err
	}
	address, code, err := c.where(w)
	if err != nil {
		return err
	}
	if c.Name == "" {
		c.Name, _ = os.Hostname() // a device without a name is fine too
	}
	r, err := connect(w, address, c.Insecure)
	if err != nil {
		return err
	}
	if code == "" {
		started, err := r.StartPairing(ctx, os.Getenv("PAIRING_SECRET"), c.Name)
		if err != nil {
			return err
		}
		code = started.Code
	}
	paired, err := r.Pair(ctx, code, c.Name)
	if err != nil {
		return err
	}
	p := profile.Profile{Relay: r.Address(), DeviceID: paired.DeviceID, Token: paired.Token, Name: c.Name}
	if err := profile.Save(path, p); err != nil {
		return errors.Join(fmt.Errorf("this machine is paired, but the profile cannot be kept, so pair again: %w", err), r.Device(paired.Token).Unpair(ctx))
	}
	return c.tell(w, p, path)
}

// free returns where the profile goes, unless one is there that must not be lost.
func (c *pairCmd) free() (string, error) {
	path, err := c.path()
	if err != nil {
		return "", err
	}
	p, err := profile.Load(path)
	switch {
	case errors.Is(err, profile.ErrNone), c.Replace:
		return path, nil
	case err != nil:
		return "", err
	}
	return "", failed("use another profile with --profile, end that pairing with herald device unpair, or forget it with --replace",
		"this machine is paired with %s already", screen.Line(p.Relay))
}

func (c *pairCmd) where(w *World) (address, code string, err error) {
	text := c.Code
	if text == "-" {
		if text, err = readSmall(w, "-"); err != nil {
			return "", "", err
		}
	}
	if strings.TrimSpace(text) != "" {
		if address, code, err = readLink(text); err != nil {
			return "", "", err
		}
	}
	if address == "" {
		address = c.Relay
	}
	switch {
	case address == "" && code == "":
		return "", "", failed("give the link that herald serve or herald person link prints, or a relay's address with --relay", "there is no pairing link")
	case address == "":
		return "", "", failed("give the whole link, or the relay's address with --relay or in HERALD_RELAY", "a code alone does not say which relay")
	}
	return address, code, nil
}

// codeShape is a pairing code as people may type it: the relay compares without case and dash.
var codeShape = regexp.MustCompile(`^[A-Za-z2-9]{4}[- ]?[A-Za-z2-9]{4}$`)

var errLink = failed("it looks like https://relay.example/pair#ABCD-EFGH; a code alone looks like ABCD-EFGH", "this is neither a pairing link nor a code")

// readLink takes a pairing link apart, or a code by itself. The address is "" for the latter.
func readLink(text string) (address, code string, err error) {
	text = strings.TrimSpace(text)
	if codeShape.MatchString(text) {
		return "", text, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || strings.TrimSuffix(u.Path, "/") != "/pair" {
		return "", "", errLink
	}
	if code = u.Fragment; code == "" {
		code = u.Query().Get("code")
	}
	if !codeShape.MatchString(code) {
		return "", "", errLink
	}
	return u.Scheme + "://" + u.Host, code, nil
}

type pairedBody struct {
	Relay    string `json:"relay"`
	DeviceID string `json:"deviceId"`
	Name     string `json:"deviceName"`
	Profile  string `json:"profile"`
}

func (c *pairCmd) tell(w *World, p profile.Profile, path string) error {
	if c.JSON {
		return w.json(pairedBody{p.Relay, p.DeviceID, p.Name, path})
	}
	w.print("paired with %s as %s; the profile is %s", screen.Line(p.Relay), screen.Line(p.Name), path)
	w.print("next: herald listen shows notifications, herald key create NAME makes a key for an agent")
	return nil
}

// json prints a value for programs.
func (w *World) json(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Out.Write(append(screen.JSON(data), '\n'))
	return err
}

// minutes writes the life of a code.
func minutes(c client.PairingCode) int { return c.ExpiresInSeconds / 60 }
