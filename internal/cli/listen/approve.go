package listen

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
)

// requests are what apps ask for approval, by the number under which they were shown. A number is never given twice, not
// even to the same request with fresh codes, so that a late decision reaches what the person saw or nothing.
type requests struct {
	last int
	open map[int]client.Consent
}

func (r *requests) put(q client.Consent) int {
	if r.open == nil {
		r.open = map[int]client.Consent{}
	}
	r.settle(q.ID)
	r.last++
	r.open[r.last] = q
	return r.last
}

// settle forgets a request and returns its number, 0 when it is not here.
func (r *requests) settle(id string) int {
	for n, q := range r.open {
		if q.ID == id {
			delete(r.open, n)
			return n
		}
	}
	return 0
}

// asked shows an app's request.
func (l *Listener) asked(f client.Asked) error {
	l.mu.Lock()
	number := l.requests.put(f.Consent)
	text := requestCard(f.Consent, number, l.opt.Keys != nil, l.opt.Columns(), l.opt.Style, time.Now())
	if l.opt.Keys != nil && !f.Redelivered {
		text = "\a" + text
	}
	_, err := io.WriteString(l.opt.Out, text)
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("show a request for approval: %w", err)
	}
	if !f.Redelivered {
		l.alerts.desktop("An app asks for approval", "It calls itself "+screen.Line(f.ClientName))
	}
	return nil
}

// requestCard draws a request. The name is the app's claim; where it goes and what it shows are facts.
func requestCard(q client.Consent, number int, decides bool, columns int, style screen.Style, now time.Time) string {
	var b strings.Builder
	b.WriteString(style.Bold(fmt.Sprintf("approval %d", number)) + "  " + clock(q.CreatedAt, now) + "\n")
	write := func(text string, look func(string) string) {
		for _, line := range screen.Wrap(text, min(columns, widest)-4) {
			b.WriteString("  " + style.Yellow("?") + " " + look(line) + "\n")
		}
	}
	plain := func(s string) string { return s }
	write("An app that calls itself \u201c"+screen.Line(q.ClientName)+"\u201d wants to send you notifications and read your answers.", plain)
	if q.UserCode != "" {
		write("It must show you the code "+screen.Line(q.UserCode)+"; if it does not, deny.", plain)
	} else {
		write("Your browser goes to "+screen.Line(q.RedirectHost)+" afterwards.", plain)
	}
	write(fmt.Sprintf("Code for its page: %s (until %s). Tell it to nobody.", screen.Line(q.Code), clock(q.ExpiresAt, now)), style.Dim)
	hint := "herald connectors approve " + screen.Line(q.ID[max(0, len(q.ID)-8):])
	if decides {
		hint = fmt.Sprintf("type /approve %d or /deny %d", number, number)
	}
	write(hint, style.Green)
	return b.String()
}

// resolved tells that a request waits no longer, once: a decision comes back as an answer and as a frame, in either order.
func (l *Listener) resolved(f client.Resolved) {
	l.mu.Lock()
	number := l.requests.settle(f.ID)
	l.mu.Unlock()
	if number > 0 {
		l.say("approval %d: %s", number, screen.Line(f.Status))
	}
}

// decide carries out /approve and /deny. The number must be given: of two requests that follow each other, the one meant is
// not the one that happens to be open.
func (l *Listener) decide(ctx context.Context, number string, approve bool) {
	n, err := strconv.Atoi(strings.TrimSpace(number))
	l.mu.Lock()
	q, open := l.requests.open[n]
	l.mu.Unlock()
	switch {
	case err != nil:
		l.say("say which request, as in /approve 1")
		return
	case !open:
		l.say("approval %d does not wait, or asks anew under another number", n)
		return
	}
	status, _, err := l.opt.Device.Decide(ctx, q.ID, approve)
	if err != nil {
		l.say("%s", screen.Line(err.Error()))
		return
	}
	l.resolved(client.Resolved{ID: q.ID, Status: status})
}
