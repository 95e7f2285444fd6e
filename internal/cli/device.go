package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/relay"
)

type deviceCmd struct {
	List   deviceListCmd   `cmd:"" help:"List the pairings of the same person."`
	Prune  devicePruneCmd  `cmd:"" help:"Remove pairings that are doubles, lost their credentials, or were idle for 30 days."`
	Remove deviceRemoveCmd `cmd:"" help:"Remove another pairing that is removable."`
	Info   deviceInfoCmd   `cmd:"" help:"Sum up this device's mailbox."`
	Usage  deviceUsageCmd  `cmd:"" help:"Show what the mailbox used of its allowances today."`
	Unpair deviceUnpairCmd `cmd:"" help:"End this device's pairing and forget the profile."`
}

// table prints rows under a head, aligned. Cells must be safe.
func (w *World) table(head []string, rows [][]string) error {
	t := tabwriter.NewWriter(w.Out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		if _, err := t.Write([]byte(strings.TrimRight(strings.Join(row, "\t"), "\t ") + "\n")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// ago shows an instant as a person reads it.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type deviceListCmd struct {
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*deviceListCmd) Help() string { return "Example:\n  herald device list" }

// Run lists.
func (c *deviceListCmd) Run(ctx context.Context, w *World) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	list, err := d.Mailboxes(ctx)
	if err != nil {
		return err
	}
	return showMailboxes(w, list, c.JSON)
}

func showMailboxes(w *World, list client.Mailboxes, asJSON bool) error {
	if asJSON {
		return w.json(list)
	}
	rows := make([][]string, 0, len(list.Devices))
	for _, d := range list.Devices {
		name := screen.Line(d.Name)
		if d.ThisDevice {
			name += " (this one)"
		}
		rows = append(rows, []string{screen.Line(d.ID), name, yesNo(d.Online), ago(d.LastSeenAt), screen.Line(d.RemovableReason)})
	}
	for _, id := range list.Removed {
		w.say("removed %s", screen.Line(id))
	}
	return w.table([]string{"ID", "NAME", "ONLINE", "LAST SEEN", "REMOVABLE"}, rows)
}

type devicePruneCmd struct {
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*devicePruneCmd) Help() string { return "Example:\n  herald device prune" }

// Run prunes.
func (c *devicePruneCmd) Run(ctx context.Context, w *World) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	list, err := d.Prune(ctx)
	if err != nil {
		return err
	}
	if !c.JSON && len(list.Removed) == 0 {
		w.say("nothing had to go")
	}
	return showMailboxes(w, list, c.JSON)
}

type deviceRemoveCmd struct {
	ID string `arg:"" help:"The pairing's id, from herald device list: 48 hex digits."`
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*deviceRemoveCmd) Help() string {
	return "A pairing is removable when it has this device's name, lost its credentials, or was silent for 7 days.\n\nExample:\n  herald device remove 0123456789abcdef0123456789abcdef0123456789abcdef"
}

// Run removes.
func (c *deviceRemoveCmd) Run(ctx context.Context, w *World) error {
	if _, ok := relay.ParseMailboxID(c.ID); !ok {
		return misshapen(c.ID, "the id of a pairing", "48 hex digits, as herald device list shows them")
	}
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	if err := d.RemoveMailbox(ctx, c.ID); err != nil {
		return err
	}
	return w.removed(c.ID, c.JSON)
}

// misshapen refuses an argument that cannot be an id.
func misshapen(got, thing, shape string) error {
	return &outcome{status: statusUsage, text: fmt.Sprintf("%q is not %s", screen.Line(got), thing), hint: "it has " + shape}
}

// removed tells what was removed, in JSON as device prune does.
func (w *World) removed(what string, asJSON bool) error {
	if asJSON {
		return w.json(struct {
			Removed []string `json:"removed"`
		}{[]string{what}})
	}
	w.say("removed %s", screen.Line(what))
	return nil
}

type deviceInfoCmd struct {
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*deviceInfoCmd) Help() string { return "Example:\n  herald device info --json" }

// Run sums up.
func (c *deviceInfoCmd) Run(ctx context.Context, w *World) error {
	d, p, err := c.device(w)
	if err != nil {
		return err
	}
	info, err := d.Info(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return w.json(info)
	}
	return w.table([]string{"relay", screen.Line(p.Relay)}, [][]string{
		{"mailbox", screen.Line(p.DeviceID)},
		{"online", yesNo(info.Online)},
		{"last seen", ago(info.LastSeenAt)},
		{"waiting", count(info.Pending, "notification")},
		{"quiet hours", quietText(info.QuietHours)},
		{"agent keys", count(int64(info.Keys), "active key")},
	})
}

func quietText(q client.Quiet) string {
	switch {
	case !q.Active:
		return "no"
	case q.Until == "":
		return "yes"
	}
	return "yes, until " + screen.Line(q.Until)
}

type deviceUsageCmd struct {
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*deviceUsageCmd) Help() string { return "Example:\n  herald device usage" }

// Run shows.
func (c *deviceUsageCmd) Run(ctx context.Context, w *World) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	u, err := d.Usage(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return w.json(u)
	}
	return w.table([]string{"ON " + screen.Line(u.Day), "USED", "OF"}, [][]string{
		{"notifications", number(u.Notifications), number(u.Limits.NotificationsPerDay)},
		{"requests", number(u.Requests), number(u.Limits.RequestsPerDay)},
		{"seconds of waiting", number(u.PollSeconds), number(u.Limits.PollSecondsPerDay)},
		{"voice clips", number(u.AudioUploads), number(u.Limits.AudioUploadsPerDay)},
		{"bytes of voice", number(u.AudioBytes), number(u.Limits.AudioBytesPerDay)},
		{"waiting now", number(u.Queued), number(u.Limits.QueueMax)},
		{"stream messages", number(u.WSMessages), ""},
		{"bytes stored", number(u.StorageBytes), ""},
	})
}

type deviceUnpairCmd struct {
	profileFlags
	networkFlags
	Yes bool `help:"Really do it."`
	jsonFlag
}

// Help is shown below the flags.
func (*deviceUnpairCmd) Help() string {
	return `The device that paired a mailbox takes all of it along: every key, notification and linked device. A linked device only ends itself.

Example:
  herald device unpair --yes`
}

// Run unpairs.
func (c *deviceUnpairCmd) Run(ctx context.Context, w *World) error {
	flags := deviceFlags{c.profileFlags, c.networkFlags}
	d, p, err := flags.device(w)
	if err != nil {
		return err
	}
	if !c.Yes {
		return failed("add --yes to do it", "this ends the pairing with %s, and with it every agent key of this device's mailbox", screen.Line(p.Relay))
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	err = d.Unpair(ctx)
	gone := client.Code(err) == "unauthorized"
	if err != nil && !gone {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.JSON {
		return w.json(struct {
			Relay       string `json:"relay"`
			DeviceID    string `json:"deviceId"`
			GoneAlready bool   `json:"goneAlready"` // the relay did not know the device any more
		}{p.Relay, p.DeviceID, gone})
	}
	if gone {
		w.say("the relay does not know this device any more")
	}
	w.say("unpaired from %s", screen.Line(p.Relay))
	return nil
}

type linkCmd struct {
	Create linkCreateCmd `cmd:"" help:"Print a link that pairs one more device with this mailbox."`
	List   linkListCmd   `cmd:"" help:"List the devices of this mailbox."`
	Remove linkRemoveCmd `cmd:"" help:"End another device of this mailbox."`
}

type linkCreateCmd struct {
	Name string `placeholder:"NAME" help:"What the device will be called, unless it says so itself."`
	deviceFlags
	jsonFlag
	qrFlag
}

// Help is shown below the flags.
func (*linkCreateCmd) Help() string {
	return "The code works once, within ten minutes. Every device of a mailbox gets every notification; the first answer counts.\n\nExample:\n  herald link create --name phone"
}

// Run makes a link.
func (c *linkCreateCmd) Run(ctx context.Context, w *World) error {
	d, p, err := c.device(w)
	if err != nil {
		return err
	}
	code, err := d.StartLink(ctx, c.Name)
	if err != nil {
		return err
	}
	link := pairLink(p, code)
	if c.JSON {
		return w.json(invitation{Code: code.Code, Link: link, ExpiresInSeconds: code.ExpiresInSeconds})
	}
	w.print("%s", link)
	w.say("open it on the device within %d minutes, or run there: herald pair %s%s", minutes(code), link, named(c.Name))
	c.show(w, link)
	return nil
}

// named is the flag that keeps a name, since a machine otherwise says its own.
func named(name string) string {
	if name == "" {
		return ""
	}
	return " --name " + strconv.Quote(screen.Line(name))
}

type invitation struct {
	Code             string `json:"code"`
	Link             string `json:"link"`
	ExpiresInSeconds int    `json:"expiresInSeconds"`
}

// pairLink puts the code behind #, which browsers keep to themselves.
func pairLink(p profile.Profile, code client.PairingCode) string {
	return screen.Line(p.Relay) + "/pair#" + screen.Line(code.Code)
}

type linkListCmd struct {
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*linkListCmd) Help() string { return "Example:\n  herald link list" }

// Run lists.
func (c *linkListCmd) Run(ctx context.Context, w *World) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	links, err := d.Links(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return w.json(struct {
			Links []client.Link `json:"links"`
		}{links})
	}
	rows := make([][]string, 0, len(links))
	for _, l := range links {
		name := screen.Line(l.Name)
		if l.Owner {
			name += " (owner)"
		}
		if l.ThisDevice {
			name += " (this one)"
		}
		rows = append(rows, []string{screen.Line(l.ID), strings.TrimSpace(name), yesNo(l.Online), ago(l.LastSeenAt)})
	}
	return w.table([]string{"ID", "NAME", "ONLINE", "LAST SEEN"}, rows)
}

type linkRemoveCmd struct {
	ID string `arg:"" help:"The device's id, from herald link list: 16 hex digits."`
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*linkRemoveCmd) Help() string {
	return "Only the device that paired the mailbox may.\n\nExample:\n  herald link remove 0123456789abcdef"
}

// Run removes.
func (c *linkRemoveCmd) Run(ctx context.Context, w *World) error {
	if _, ok := relay.ParseDeviceID(c.ID); !ok {
		return misshapen(c.ID, "the id of a linked device", "16 hex digits, as herald link list shows them")
	}
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	if err := d.Unlink(ctx, c.ID); err != nil {
		return err
	}
	return w.removed(c.ID, c.JSON)
}
