package listen

import (
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
)

// widest bounds a card on very wide terminals, where long lines are hard to read.
const widest = 100

// card draws a notification. number names it on the desk; hint says how to answer and is "" when no answer is expected.
func card(n *client.Notified, number string, hint string, columns int, style screen.Style, now time.Time) string {
	p := &n.Payload
	var b strings.Builder
	head := joined("  ", style.Bold(number), clock(n.CreatedAt, now), style.Cyan(sender(n)), place(p), urgency(p.Priority, style))
	b.WriteString(head + "\n")
	bar := barOf(p.Priority, style)
	write := func(text string, look func(string) string) {
		if text == "" {
			return
		}
		for _, line := range screen.Wrap(text, min(columns, widest)-4) {
			b.WriteString("  " + bar + " " + look(line) + "\n")
		}
	}
	plain := func(s string) string { return s }
	write(screen.Line(p.Title), style.Bold)
	write(screen.Line(p.Subtitle), style.Dim)
	write(screen.Block(p.Body), plain)
	write(details(p), style.Dim)
	write(screen.Line(p.Link), style.Cyan)
	write(hint, style.Green)
	return b.String()
}

// joined puts sep between the parts that are not empty.
func joined(sep string, parts ...string) string {
	kept := parts[:0:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, sep)
}

// clock shows when n was sent: the time of today, with the date when that was another day.
func clock(at, now time.Time) string {
	at = at.Local()
	if at.IsZero() {
		return ""
	}
	if y, m, d := now.Local().Date(); at.Year() == y && at.Month() == m && at.Day() == d {
		return at.Format("15:04")
	}
	return at.Format("2006-01-02 15:04")
}

func sender(n *client.Notified) string {
	name := screen.Line(n.Key.Name)
	if c := screen.Line(n.Key.Client); c != "" && c != "other" && c != name {
		name += " (" + c + ")"
	}
	return name
}

// place tells where in the agent's work it belongs.
func place(p *client.Notification) string {
	return joined(" / ", screen.Line(p.Project), screen.Line(p.Session), screen.Line(p.Task), screen.Line(p.Tool))
}

func details(p *client.Notification) string {
	tags := make([]string, 0, len(p.Tags))
	for _, t := range p.Tags {
		tags = append(tags, screen.Line(t))
	}
	image := ""
	if p.ImageURL != "" {
		image = "picture " + screen.Line(p.ImageURL)
	}
	return joined(" · ", screen.Line(p.Status), screen.Line(p.Duration), strings.Join(tags, ", "), image)
}

func urgency(priority string, style screen.Style) string {
	switch priority {
	case "urgent":
		return style.Red("URGENT")
	case "high":
		return style.Yellow("high")
	case "low":
		return style.Dim("low")
	}
	return ""
}

func barOf(priority string, style screen.Style) string {
	switch priority {
	case "urgent":
		return style.Red("┃")
	case "high":
		return style.Yellow("┃")
	}
	return style.Dim("┃")
}
