package cli

import (
	"context"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
)

type notifyCmd struct {
	fieldFlags
	ExpectReply bool `help:"Ask for a reply, and do not wait for it; herald await does, later."`
	agentFlags
	jsonFlag
}

// Help is shown below the flags.
func (*notifyCmd) Help() string {
	return `The notificationId is printed. What became of it is shown by herald receipt.

Examples:
  herald notify "Build done" "All 214 tests pass." --status done --project shop
  git log -1 --format=%B | herald notify "Pushed" - --tag git
  herald notify "Disk is full" --priority urgent --field 'tags=["ops"]'`
}

// Run sends.
func (c *notifyCmd) Run(ctx context.Context, w *World) error {
	n, err := c.notification(w)
	if err != nil {
		return err
	}
	n.ExpectReply = n.ExpectReply || c.ExpectReply
	a, err := c.agent(w)
	if err != nil {
		return err
	}
	sent, err := a.Notify(ctx, n)
	if err != nil {
		return err
	}
	if c.JSON {
		return w.json(sent)
	}
	w.print("%s", screen.Line(sent.NotificationID))
	if sent.Duplicate {
		w.say("it was sent before, so nothing was queued")
	}
	return nil
}

type askCmd struct {
	fieldFlags
	Timeout time.Duration `default:"5m" placeholder:"TIME" help:"How long to wait for the answer, such as 30s or 2h; ${default} by default."`
	agentFlags
	jsonFlag
}

// Help is shown below the flags.
func (*askCmd) Help() string {
	return `The answer alone is printed. A spoken answer without a transcript is printed as the link to its recording.

` + askStatuses + `

Examples:
  herald ask "Deploy to production?" --timeout 10m
  if [ "$(herald ask 'Proceed?' --timeout 1m)" = yes ]; then ./deploy; fi`
}

const askStatuses = `Exit status: 0 answered, 3 nobody answered in time (the question stays open: see herald await), 4 held back by the device or expired, 2 wrong usage, 1 anything else.`

// Run asks.
func (c *askCmd) Run(ctx context.Context, w *World) error {
	n, err := c.notification(w)
	if err != nil {
		return err
	}
	n.ExpectReply = true
	a, err := c.agent(w)
	if err != nil {
		return err
	}
	sent, err := a.Notify(ctx, n)
	if err != nil {
		return err
	}
	if w.interactive() {
		w.say("asked (%s); waiting up to %s for an answer", screen.Line(sent.NotificationID), c.Timeout)
	}
	return awaitAnswer(ctx, w, a, sent.NotificationID, c.Timeout, c.JSON)
}

type awaitCmd struct {
	ID      string        `arg:"" help:"The notificationId, from herald notify or herald ask."`
	Timeout time.Duration `default:"5m" placeholder:"TIME" help:"How long to wait, such as 30s or 2h; 0 only looks; ${default} by default."`
	agentFlags
	jsonFlag
}

// Help is shown below the flags.
func (*awaitCmd) Help() string {
	return `Only the key that sent a notification can read its answer, for a day.

` + askStatuses + `

Example:
  id=$(herald notify "Ship it?" --expect-reply) && herald await "$id" --timeout 1h`
}

// Run waits.
func (c *awaitCmd) Run(ctx context.Context, w *World) error {
	a, err := c.agent(w)
	if err != nil {
		return err
	}
	return awaitAnswer(ctx, w, a, c.ID, c.Timeout, c.JSON)
}

func awaitAnswer(ctx context.Context, w *World, a *client.Agent, id string, timeout time.Duration, asJSON bool) error {
	r, err := a.Await(ctx, id, timeout)
	if err != nil {
		return err
	}
	if asJSON {
		if err := w.json(r); err != nil {
			return err
		}
	} else if r.Replied {
		w.answer(answerText(r))
	}
	return unanswered(r, id, timeout, asJSON)
}

// answerText is what stands for the answer: its text, else the link to the recording.
func answerText(r client.Reply) string {
	if r.Reply == "" {
		return r.AudioURL
	}
	return r.Reply
}

// answer prints a person's text: as it is for programs, made safe for a terminal.
func (w *World) answer(text string) {
	if w.OutTerminal >= 0 {
		text = screen.Block(text)
	}
	w.print("%s", text)
}

// unanswered is the outcome of a wait that brought no answer; nil when it did. With JSON the answer printed says it all.
func unanswered(r client.Reply, id string, timeout time.Duration, quiet bool) error {
	o := &outcome{}
	switch {
	case r.Replied:
		return nil
	case r.Suppressed:
		o.status, o.code = statusSuppressed, "suppressed"
		o.text = "nobody was asked: the device held it back (" + screen.Line(r.Reason) + ")"
		if r.Reason == "expired" {
			o.text = "nobody was asked: no device came to take it in time (expired)"
		}
	default:
		o.status, o.code = statusTimedOut, "timed_out"
		o.text = "nobody answered within " + timeout.String()
		o.hint = "the question stays open; wait on with: herald await " + screen.Line(id)
	}
	if quiet {
		return &outcome{status: o.status}
	}
	return o
}

type receiptCmd struct {
	ID string `arg:"" help:"The notificationId, from herald notify or herald ask."`
	agentFlags
	jsonFlag
}

// Help is shown below the flags.
func (*receiptCmd) Help() string { return "Example:\n  herald receipt c_0123456789abcdef01234567" }

// Run shows.
func (c *receiptCmd) Run(ctx context.Context, w *World) error {
	a, err := c.agent(w)
	if err != nil {
		return err
	}
	r, err := a.Receipt(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return w.json(r)
	}
	return showReceipt(w, r)
}

func showReceipt(w *World, r client.Receipt) error {
	rows := [][]string{
		{"displayed", when(r.Displayed, r.DisplayedAt)},
		{"spoken", when(r.Spoken, r.SpokenAt)},
		{"replied", when(r.Replied, r.RepliedAt)},
	}
	if r.Suppressed {
		rows = append(rows, []string{"held back", strings.TrimSpace(screen.Line(r.Reason) + " (" + screen.Line(r.SuppressedScope) + ")")})
	}
	if r.Queued {
		rows = append(rows, []string{"waiting", "for a device"})
	}
	if r.Replied {
		rows = append(rows, []string{"answer", screen.Line(r.Reply)})
	}
	if r.AudioURL != "" {
		rows = append(rows, []string{"recording", screen.Line(r.AudioURL)})
	}
	return w.table([]string{"received", when(r.Received, r.ReceivedAt)}, rows)
}

func when(happened bool, at time.Time) string {
	if !happened {
		return "no"
	}
	return at.Local().Format("2006-01-02 15:04:05.000")
}

type statusCmd struct {
	agentFlags
	jsonFlag
}

// Help is shown below the flags.
func (*statusCmd) Help() string { return "Example:\n  herald status --json" }

// Run shows.
func (c *statusCmd) Run(ctx context.Context, w *World) error {
	a, err := c.agent(w)
	if err != nil {
		return err
	}
	s, err := a.Status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return w.json(s)
	}
	return w.table([]string{"online", yesNo(s.Online)}, [][]string{
		{"last seen", ago(s.LastSeenAt)},
		{"quiet hours", quietText(s.QuietHours)},
	})
}
