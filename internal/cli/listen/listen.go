package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/cli/desk"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/cli/voice"
	"github.com/herald-relay/herald/internal/client"
)

// Speaker says something and returns nil only when all of it was said.
type Speaker interface {
	Say(ctx context.Context, u voice.Utterance) error
}

// Options set a Listener up. Device, Out and Err are required.
type Options struct {
	Device *client.Device
	Wishes Wishes
	Out    io.Writer // cards, or JSON lines
	Err    io.Writer // what is not for programs, when Out is
	JSON   bool
	Style  screen.Style
	// Columns is asked for the width of Out; nil means 80.
	Columns func() int
	// Keys is the person's keyboard, Piped what a program answers. At most one is set.
	Keys  *Keyboard
	Piped io.Reader
	// Desktop shows a desktop notification; nil when the machine has none.
	Desktop func(title, body string) error
	// Speaker speaks; nil when the machine cannot.
	Speaker Speaker
	// Count ends listening after that many notifications were shown and, where they expect a reply, answered; 0 never.
	Count int
	Log   *slog.Logger
	// Jitter spreads reconnects; nil means at random.
	Jitter func() float64
	// OnLive is called each time nothing waits any more after connecting; nil is fine.
	OnLive func()
}

// Listener is a device in the terminal. Make it with New, use it once.
type Listener struct {
	opt    Options
	line   *client.Line
	Desk   *desk.Desk
	alerts *alerts
	opened chan struct{} // holds one token when a question may have opened

	mu       sync.Mutex // guards what follows, and writing to Out
	wishes   Wishes
	requests requests
	left     int // notifications until Count is reached
	end      context.CancelCauseFunc
}

// errEnough ends listening without an error.
var errEnough = errors.New("listened enough")

// New makes a listener. d may be nil.
func New(opt Options, d *desk.Desk) *Listener {
	if d == nil {
		d = new(desk.Desk)
	}
	if opt.Columns == nil {
		opt.Columns = func() int { return 80 }
	}
	l := &Listener{opt: opt, Desk: d, wishes: opt.Wishes, left: opt.Count, opened: make(chan struct{}, 1)}
	l.line = opt.Device.Line(client.LineOptions{State: l.state, OnFrame: l.frame, OnCondition: l.condition, Log: opt.Log, Jitter: opt.Jitter})
	l.alerts = newAlerts(opt.Desktop, opt.Speaker, l.line.Report)
	return l
}

// Run listens until ctx ends, the person quits, or the relay says that this device may not listen; only the last is an
// error.
func (l *Listener) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l.end = end
	var helpers sync.WaitGroup
	helpers.Go(func() { l.alerts.run(ctx) })
	helpers.Go(func() { l.keepHours(ctx) })
	go l.answers(ctx) // may be stuck reading standard input, which nothing can interrupt: the process ends over it
	err := l.line.Run(ctx)
	end(err)
	helpers.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, errEnough) && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

func (l *Listener) state() client.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wishes.state(time.Now())
}

// keepHours tells the relay when quiet hours begin and end.
func (l *Listener) keepHours(ctx context.Context) {
	for {
		_, change := l.opt.Wishes.Hours.At(time.Now())
		if change.IsZero() {
			return
		}
		timer := time.NewTimer(time.Until(change))
		select {
		case <-timer.C:
			l.line.StateChanged()
			l.say("quiet hours: %s", onOff(l.state().QuietActive))
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (l *Listener) frame(_ context.Context, f client.Frame, raw jsontext.Value) error {
	if l.opt.JSON {
		return l.jsonFrame(f, raw)
	}
	switch f := f.(type) {
	case client.Notified:
		return l.notified(&f)
	case client.RepliedElsewhere:
		l.elsewhere(f)
	case client.Asked:
		return l.asked(f)
	case client.Resolved:
		l.resolved(f)
	}
	return nil
}

// notified deals with one notification. An error means that it could not be shown, and ends the line.
func (l *Listener) notified(n *client.Notified) error {
	now := time.Now()
	u, speaks := utterance(&n.Payload)
	l.mu.Lock()
	h := l.wishes.handle(n.Payload.Priority, speaks, now)
	l.mu.Unlock()
	if h.show {
		if err := l.show(n, now); err != nil {
			return fmt.Errorf("show a notification: %w", err)
		}
		l.line.Report(client.Report{ID: n.ID, Kind: client.Displayed})
		l.alerts.desktop(sender(n)+": "+screen.Line(n.Payload.Title), screen.Block(n.Payload.Body))
	} else {
		l.say("held back a notification from %s (%s)", sender(n), h.reason)
	}
	if h.reason != "" {
		l.line.Report(client.Report{ID: n.ID, Kind: client.Suppressed, Reason: h.reason, Scope: h.scope})
	}
	if h.speak {
		l.alerts.speak(n.ID, u)
	}
	if !h.show || !n.Payload.ExpectReply {
		l.dealtWith()
	}
	return nil
}

func (l *Listener) show(n *client.Notified, now time.Time) error {
	expects := n.Payload.ExpectReply
	number := fmt.Sprintf("#%d", l.Desk.Put(n.ID, screen.Line(n.Payload.Title), expects))
	hint := ""
	if expects {
		hint = l.hint(number)
	}
	text := card(n, number, hint, l.opt.Columns(), l.opt.Style, now)
	if l.opt.Keys != nil && rings(&n.Payload) {
		text = "\a" + text
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.WriteString(l.opt.Out, text); err != nil {
		return err
	}
	if expects {
		l.wakeAnswers()
	}
	return nil
}

func (l *Listener) hint(number string) string {
	switch {
	case l.opt.Keys == nil:
		return "a reply is expected"
	case len(l.Desk.Open()) > 1:
		return "type " + number + " and your answer"
	}
	return "type your answer and press Enter"
}

func rings(p *client.Notification) bool {
	return p.Sound != "" && p.Sound != "none" || p.Priority == "urgent"
}

// wakeAnswers lets piped answers look again.
func (l *Listener) wakeAnswers() {
	select {
	case l.opened <- struct{}{}:
	default:
	}
}

func (l *Listener) elsewhere(f client.RepliedElsewhere) {
	it, found := l.Desk.Settle(f.ID, desk.Elsewhere)
	where := "on another device"
	if by := screen.Line(f.By); by != "" {
		where = "on " + by
	}
	switch {
	case !found || it.State == desk.Elsewhere:
	case it.State == desk.Answered:
		l.say("#%d had been answered %s before; that answer counts", it.Number, where)
	default:
		l.say("#%d was answered %s", it.Number, where)
	}
	if found && it.State == desk.Open {
		l.dealtWith()
	}
}

// dealtWith counts a notification for Count.
func (l *Listener) dealtWith() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opt.Count == 0 {
		return
	}
	if l.left--; l.left == 0 {
		l.alerts.finish(func() { l.end(errEnough) })
	}
}

func (l *Listener) condition(c client.Condition, err error, retry time.Duration) {
	if c == client.Live && l.opt.OnLive != nil {
		defer l.opt.OnLive()
	}
	if l.opt.JSON {
		l.jsonCondition(c, err, retry)
		return
	}
	switch c {
	case client.Live:
		l.say("live: waiting for notifications")
	case client.Lost:
		l.say("%s; connecting again in %s", screen.Line(err.Error()), retry.Round(100*time.Millisecond))
	}
}

// say shows a remark of the program's own. What strangers wrote must have passed through package screen.
func (l *Listener) say(format string, args ...any) {
	text := l.opt.Style.Dim(fmt.Sprintf(format, args...)) + "\n"
	w := l.opt.Out
	if l.opt.JSON {
		w = l.opt.Err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(w, text) // a remark that cannot be shown is not worth ending for; the next card tells
}
