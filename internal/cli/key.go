package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
)

type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Make a key for an agent. It is shown once."`
	List   keyListCmd   `cmd:"" help:"List the keys and connectors of this mailbox."`
	Revoke keyRevokeCmd `cmd:"" help:"End a key at once."`
}

type keyCreateCmd struct {
	Name   string `arg:"" help:"What the agent is called: 1 to 32 of a-z, 0-9 and -."`
	Client string `enum:"claude,codex,other" default:"other" help:"What kind of agent it is: ${enum}."`
	Out    string `type:"path" placeholder:"FILE" help:"Write the key to this new file, which only you can read, instead of printing it."`
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*keyCreateCmd) Help() string {
	return `The relay keeps only a hash of the key: one that is lost cannot be read again, only replaced.

Examples:
  herald key create build-bot --out build-bot.key
  HERALD_KEY=$(herald key create build-bot) herald ask "Ship it?"`
}

// Run makes a key.
func (c *keyCreateCmd) Run(ctx context.Context, w *World) error {
	if c.Out != "" {
		if _, err := os.Stat(c.Out); !errors.Is(err, fs.ErrNotExist) {
			return failed("name another file, or remove this one", "%s is there already", c.Out)
		}
	}
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	k, err := d.CreateKey(ctx, c.Name, c.Client)
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := profile.Keep(c.Out, []byte(k.Key+"\n")); err != nil {
			return errors.Join(fmt.Errorf("the key cannot be kept and is revoked: %w", err), d.RevokeKey(ctx, k.ID, true))
		}
		k.Key = "" // it is in the file
	}
	switch {
	case c.JSON:
		return w.json(k)
	case c.Out != "":
		w.say("made key %s (%s); it is in %s", screen.Line(k.Name), screen.Line(k.ID), c.Out)
	default:
		w.print("%s", screen.Line(k.Key))
		w.say("made key %s (%s); it is shown only now, so keep it", screen.Line(k.Name), screen.Line(k.ID))
	}
	return nil
}

type keyListCmd struct {
	All bool `help:"Also those that were revoked."`
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*keyListCmd) Help() string { return "Example:\n  herald key list --all" }

// Run lists.
func (c *keyListCmd) Run(ctx context.Context, w *World) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	all, err := d.Keys(ctx)
	if err != nil {
		return err
	}
	keys := all[:0:0]
	for _, k := range all {
		if c.All || k.Active() {
			keys = append(keys, k)
		}
	}
	if c.JSON {
		return w.json(struct {
			Keys []client.Key `json:"keys"`
		}{keys})
	}
	rows := make([][]string, 0, len(keys))
	for _, k := range keys {
		state := "active"
		if !k.Active() {
			state = "revoked " + ago(k.RevokedAt)
		}
		name := screen.Line(k.Name)
		if k.DisplayName != "" {
			name += " (" + screen.Line(k.DisplayName) + ")"
		}
		rows = append(rows, []string{screen.Line(k.ID), name, screen.Line(k.Client), screen.Line(k.Kind), ago(k.LastUsedAt), state})
	}
	return w.table([]string{"ID", "NAME", "CLIENT", "KIND", "LAST USED", "STATE"}, rows)
}

type keyRevokeCmd struct {
	Key   string `arg:"" help:"The key's id, or the name of an active one."`
	Purge bool   `help:"Also remove it from the list, with everything it sent."`
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*keyRevokeCmd) Help() string {
	return "What the key queued before is still delivered, unless it is purged.\n\nExamples:\n  herald key revoke build-bot\n  herald key revoke 0a1b2c3d --purge"
}

// Run revokes.
func (c *keyRevokeCmd) Run(ctx context.Context, w *World) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	keys, err := d.Keys(ctx)
	if err != nil {
		return err
	}
	k, err := pick(keys, c.Key)
	if err != nil {
		return err
	}
	if err := d.RevokeKey(ctx, k.ID, c.Purge); err != nil {
		return err
	}
	if c.JSON {
		return w.json(struct {
			ID     string `json:"id"`
			Name   string `json:"name"`
			Purged bool   `json:"purged"`
		}{k.ID, k.Name, c.Purge})
	}
	w.say("revoked key %s (%s)", screen.Line(k.Name), screen.Line(k.ID))
	return nil
}

// pick finds a key by id, or an active one by name.
func pick(keys []client.Key, want string) (client.Key, error) {
	for _, k := range keys {
		if k.ID == want {
			return k, nil
		}
	}
	for _, k := range keys {
		if k.Name == want && k.Active() {
			return k, nil
		}
	}
	return client.Key{}, failed("herald key list shows the keys", "there is no key %q", want)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// count writes "1 key" and "2 keys".
func count(n int64, thing string) string {
	switch {
	case n == 1:
	case thing == "person":
		thing = "people"
	default:
		thing += "s"
	}
	return number(n) + " " + thing
}
