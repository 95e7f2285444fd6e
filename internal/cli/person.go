package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/alecthomas/kong"

	"github.com/herald-relay/herald/internal/admin"
	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/cli/screen"
)

type personCmd struct {
	Add    personAddCmd    `cmd:"" help:"Add a person and print a pairing link for them."`
	List   personListCmd   `cmd:"" help:"List the people."`
	Link   personLinkCmd   `cmd:"" help:"Print a new pairing link for a person."`
	Remove personRemoveCmd `cmd:"" help:"Remove a person with everything of theirs."`
}

const whereAdmin = `A running relay is asked over the socket in its data directory; otherwise its database is opened. Give the same --data or --database as to herald serve.`

// withAdmin opens the operator's side of a relay for fn.
func withAdmin(ctx context.Context, k *kong.Context, fn func(admin.Admin) error) error {
	cfg, err := configuration(k)
	if err != nil {
		return err
	}
	a, err := app.OpenAdmin(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return errors.Join(fn(a), a.Close())
}

type personAddCmd struct {
	Name string `arg:"" help:"What the person is called: 1 to 32 of a-z, 0-9 and -."`
	jsonFlag
	qrFlag
	placeFlags
}

// Help is shown below the flags.
func (*personAddCmd) Help() string {
	return "People see nothing of each other: devices, notifications and limits are their own.\n\n" + whereAdmin + "\n\nExample:\n  herald person add ada"
}

// Run adds.
func (c *personAddCmd) Run(ctx context.Context, k *kong.Context, w *World) error {
	return withAdmin(ctx, k, func(a admin.Admin) error {
		inv, err := a.AddPerson(ctx, c.Name)
		if err != nil {
			return err
		}
		return showInvitation(w, inv, c.JSON, &c.qrFlag)
	})
}

func showInvitation(w *World, inv admin.Invitation, asJSON bool, qr *qrFlag) error {
	if asJSON {
		return w.json(inv)
	}
	w.print("%s", inv.Link)
	w.say("%s opens it on a device within 10 minutes, or runs there: herald pair %s", screen.Line(inv.Person), inv.Link)
	qr.show(w, inv.Link)
	return nil
}

type personListCmd struct {
	jsonFlag
	placeFlags
}

// Help is shown below the flags.
func (*personListCmd) Help() string { return whereAdmin + "\n\nExample:\n  herald person list" }

// Run lists.
func (c *personListCmd) Run(ctx context.Context, k *kong.Context, w *World) error {
	return withAdmin(ctx, k, func(a admin.Admin) error {
		people, err := a.People(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return w.json(struct {
				People []admin.Person `json:"people"`
			}{people})
		}
		rows := make([][]string, 0, len(people))
		for _, p := range people {
			rows = append(rows, []string{screen.Line(p.Name), number(int64(p.Mailboxes)), since(p.CreatedAt)})
		}
		return w.table([]string{"NAME", "DEVICES", "ADDED"}, rows)
	})
}

// since shows an instant of the relay as the other lists do, or as it came.
func since(instant string) string {
	t, err := time.Parse(time.RFC3339, instant)
	if err != nil {
		return screen.Line(instant)
	}
	return ago(t)
}

type personLinkCmd struct {
	Name string `arg:"" help:"Whose device will be paired."`
	jsonFlag
	qrFlag
	placeFlags
}

// Help is shown below the flags.
func (*personLinkCmd) Help() string {
	return "The link works once, within ten minutes.\n\n" + whereAdmin + "\n\nExample:\n  herald person link owner"
}

// Run invites.
func (c *personLinkCmd) Run(ctx context.Context, k *kong.Context, w *World) error {
	return withAdmin(ctx, k, func(a admin.Admin) error {
		inv, err := a.Invite(ctx, c.Name)
		if err != nil {
			return err
		}
		return showInvitation(w, inv, c.JSON, &c.qrFlag)
	})
}

type personRemoveCmd struct {
	Name string `arg:"" help:"Who is removed."`
	Yes  bool   `help:"Really do it."`
	jsonFlag
	placeFlags
}

// Help is shown below the flags.
func (*personRemoveCmd) Help() string {
	return "Every device, key, notification and recording of the person goes too.\n\n" + whereAdmin + "\n\nExample:\n  herald person remove ada --yes"
}

// Run removes.
func (c *personRemoveCmd) Run(ctx context.Context, k *kong.Context, w *World) error {
	if !c.Yes {
		return failed("add --yes to do it", "this removes %s with every device, key and notification", screen.Line(c.Name))
	}
	return withAdmin(ctx, k, func(a admin.Admin) error {
		if err := a.RemovePerson(ctx, c.Name); err != nil {
			return err
		}
		return w.removed(c.Name, c.JSON)
	})
}
