package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
)

type connectorsCmd struct {
	List    connectorsListCmd    `cmd:"" default:"withargs" help:"List approved apps, and the requests that wait."`
	Approve connectorsApproveCmd `cmd:"" help:"Approve a request."`
	Deny    connectorsDenyCmd    `cmd:"" help:"Deny a request."`
	Revoke  connectorsRevokeCmd  `cmd:"" help:"End an approved app at once."`
}

type connectorsListCmd struct {
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*connectorsListCmd) Help() string {
	return "An app names itself as it likes: look at where its browser goes, and at the code it shows.\n\nExample:\n  herald connectors"
}

// Run lists.
func (c *connectorsListCmd) Run(ctx context.Context, w *World) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	connectors, err := d.Connectors(ctx)
	if err != nil {
		return err
	}
	asked, err := d.Consents(ctx)
	if err != nil {
		return err
	}
	waiting := waitingOf(asked)
	if c.JSON {
		return w.json(struct {
			Connectors []client.Connector `json:"connectors"`
			Waiting    []client.Consent   `json:"waiting"`
		}{orEmpty(connectors), orEmpty(waiting)})
	}
	rows := make([][]string, 0, len(connectors))
	for _, k := range connectors {
		rows = append(rows, []string{screen.Line(k.ID), screen.Line(k.Name), screen.Line(k.DisplayName), screen.Line(k.Scope), ago(k.CreatedAt), ago(k.LastUsedAt)})
	}
	if err := w.table([]string{"ID", "NAME", "CALLS ITSELF", "SCOPE", "APPROVED", "LAST USED"}, rows); err != nil || len(waiting) == 0 {
		return err
	}
	w.print("")
	rows = rows[:0]
	for _, q := range waiting {
		rows = append(rows, []string{shortID(q.ID), screen.Line(q.ClientName), screen.Line(goesTo(q)), screen.Line(q.Code), inWords(time.Until(q.ExpiresAt))})
	}
	return w.table([]string{"REQUEST", "CALLS ITSELF", "GOES TO", "CODE", "WAITS"}, rows)
}

// orEmpty makes a list that is shown as [] when it holds nothing.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func waitingOf(asked []client.Consent) []client.Consent {
	return slices.DeleteFunc(slices.Clone(asked), func(q client.Consent) bool { return q.Status != "pending" })
}

// goesTo is what tells one request from another beside the name that the app gave itself.
func goesTo(q client.Consent) string {
	if q.UserCode != "" {
		return "shows " + q.UserCode
	}
	return q.RedirectHost
}

// shortID is the end of a request's id, which differs; its beginning is the mailbox's.
func shortID(id string) string { return screen.Line(id[max(0, len(id)-8):]) }

type decideFlags struct {
	Request string `arg:"" help:"The request: the end of its id, or the code that the app shows."`
	deviceFlags
	jsonFlag
}

type connectorsApproveCmd struct{ decideFlags }

// Help is shown below the flags.
func (*connectorsApproveCmd) Help() string {
	return `The app may then send notifications to this mailbox and read the answers to them, until you revoke it. An earlier approval of the same app ends.

Examples:
  herald connectors approve ddeeff00
  herald connectors approve BDFG-HJKM`
}

// Run approves.
func (c *connectorsApproveCmd) Run(ctx context.Context, w *World) error {
	return c.decide(ctx, w, true)
}

type connectorsDenyCmd struct{ decideFlags }

// Help is shown below the flags.
func (*connectorsDenyCmd) Help() string { return "Example:\n  herald connectors deny ddeeff00" }

// Run denies.
func (c *connectorsDenyCmd) Run(ctx context.Context, w *World) error {
	return c.decide(ctx, w, false)
}

func (c *decideFlags) decide(ctx context.Context, w *World, approve bool) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	asked, err := d.Consents(ctx)
	if err != nil {
		return err
	}
	q, err := pickRequest(waitingOf(asked), c.Request)
	if err != nil {
		return err
	}
	status, _, err := d.Decide(ctx, q.ID, approve)
	if err != nil {
		return err
	}
	if c.JSON {
		return w.json(struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		}{q.ID, status})
	}
	w.say("%s %s (%s)", screen.Line(status), screen.Line(q.ClientName), screen.Line(goesTo(q)))
	return nil
}

// shortest is how much of a request's id must be given, so that a slip approves nothing.
const shortest = 6

// pickRequest finds the one request that is meant.
func pickRequest(waiting []client.Consent, want string) (client.Consent, error) {
	var found []client.Consent
	for _, q := range waiting {
		byCode := q.UserCode != "" && strings.EqualFold(strings.ReplaceAll(want, "-", ""), strings.ReplaceAll(q.UserCode, "-", ""))
		if byCode || len(want) >= shortest && strings.HasSuffix(q.ID, want) {
			found = append(found, q)
		}
	}
	if len(found) != 1 {
		return client.Consent{}, failed("herald connectors shows those that wait", "there is no single waiting request %q", want)
	}
	return found[0], nil
}

type connectorsRevokeCmd struct {
	Connector string `arg:"" help:"The connector's id or name."`
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*connectorsRevokeCmd) Help() string {
	return "Its tokens and subscriptions end with it. What it queued before is still delivered.\n\nExample:\n  herald connectors revoke chatgpt"
}

// Run revokes.
func (c *connectorsRevokeCmd) Run(ctx context.Context, w *World) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	list, err := d.Connectors(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(k client.Connector) bool { return k.ID == c.Connector })
	if i < 0 {
		i = slices.IndexFunc(list, func(k client.Connector) bool { return k.Name == c.Connector })
	}
	if i < 0 {
		return failed("herald connectors shows them", "there is no connector %q", c.Connector)
	}
	if err := d.RevokeConnector(ctx, list[i].ID); err != nil {
		return err
	}
	if c.JSON {
		return w.json(struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		}{list[i].ID, list[i].Name})
	}
	w.say("revoked %s (%s)", screen.Line(list[i].Name), screen.Line(list[i].ID))
	return nil
}

type auditCmd struct {
	Limit int `default:"50" help:"How many entries to show, at most 200."`
	deviceFlags
	jsonFlag
}

// Help is shown below the flags.
func (*auditCmd) Help() string {
	return "Every decision about an app that asked for approval, on any mailbox of yours, newest first, for 400 days.\n\nExample:\n  herald audit --limit 10"
}

// Run shows decisions.
func (c *auditCmd) Run(ctx context.Context, w *World) error {
	d, _, err := c.device(w)
	if err != nil {
		return err
	}
	list, err := d.Audit(ctx, c.Limit)
	if err != nil {
		return err
	}
	if c.JSON {
		return w.json(struct {
			Entries []client.AuditEntry `json:"entries"`
		}{orEmpty(list)})
	}
	rows := make([][]string, 0, len(list))
	for _, e := range list {
		rows = append(rows, []string{e.At.Local().Format("2006-01-02 15:04:05"), screen.Line(e.Action), screen.Line(e.ClientName), screen.Line(e.ClientID), screen.Line(e.By)})
	}
	return w.table([]string{"WHEN", "WHAT", "CALLS ITSELF", "CLIENT", "BY"}, rows)
}
