package listen

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/cli/desk"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
)

// maxAnswer is how many characters of an answer the relay keeps.
const maxAnswer = 4000

// answers turns lines into replies until they end.
func (l *Listener) answers(ctx context.Context) {
	switch {
	case l.opt.JSON && l.opt.Piped != nil:
		l.jsonAnswers(ctx)
	case l.opt.Keys != nil:
		l.typed(ctx)
	case l.opt.Piped != nil:
		l.piped(ctx)
	}
}

// typed serves a person at the keyboard. The end of input ends listening.
func (l *Listener) typed(ctx context.Context) {
	for {
		line, aim, err := l.opt.Keys.next()
		if err != nil {
			l.end(errEnough)
			return
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if l.command(ctx, line) {
			continue
		}
		it, text, err := l.Desk.Resolve(strings.TrimPrefix(line, "\\"), aim)
		if err != nil {
			l.complain(err)
			continue
		}
		if err := l.reply(ctx, it, text); err != nil && ctx.Err() == nil {
			l.complain(err)
		}
	}
}

func (l *Listener) complain(err error) {
	l.say("%s", screen.Line(err.Error()))
	var several *desk.SeveralError
	if errors.As(err, &several) {
		l.list(several.Items)
	}
}

// piped answers one question with each line, the oldest open one first; a line waits for its question.
func (l *Listener) piped(ctx context.Context) {
	lines := newPipe(l.opt.Piped)
	for {
		line, err := lines.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				l.say("no more answers can be read: %v", err)
			}
			return
		}
		for !l.answerNext(ctx, line) {
			select {
			case <-l.opened:
			case <-ctx.Done():
				return
			}
		}
	}
}

// answerNext answers the oldest open question, or the one that line names. It reports false when there is none yet.
func (l *Listener) answerNext(ctx context.Context, line string) bool {
	open := l.Desk.Open()
	if len(open) == 0 {
		return false
	}
	it, text, err := l.Desk.Resolve(line, desk.Aim{})
	if errors.Is(err, desk.ErrNothingOpen) { // it names no question
		it, text = open[0], strings.TrimPrefix(line, "#")
		if !strings.HasPrefix(line, "##") {
			text = line
		}
	} else if err != nil {
		l.complain(err)
		return true
	}
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		err := l.reply(ctx, it, text)
		var lost *client.Unreachable
		switch {
		case err == nil || ctx.Err() != nil:
			return true
		case !errors.As(err, &lost):
			l.complain(err)
			l.settled(it, desk.Ended)
			return true
		}
		l.say("%s; the answer is kept and tried again", screen.Line(err.Error()))
		if !wait(ctx, pause) {
			return true
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// reply sends an answer and returns when the relay has stored it.
func (l *Listener) reply(ctx context.Context, it desk.Item, text string) error {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if cut := firstChars(text, maxAnswer); cut != text {
		text = cut
		l.say("your answer is longer than %d characters; the rest is left off", maxAnswer)
	}
	if err := l.opt.Device.Reply(ctx, client.Report{ID: it.ID, Text: text}); err != nil {
		return err
	}
	if l.settled(it, desk.Answered) == desk.Elsewhere {
		l.say("#%d had been answered on another device before; that answer counts", it.Number)
	} else {
		l.say("answered #%d", it.Number)
	}
	return nil
}

// settled ends an item and returns the state it had before.
func (l *Listener) settled(it desk.Item, to desk.State) desk.State {
	before, found := l.Desk.Settle(it.ID, to)
	if found && before.State == desk.Open {
		l.dealtWith()
	}
	return before.State
}

func firstChars(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

const help = `type an answer and press Enter; with several questions open begin with the number, as in #2 yes
/approve 1  /deny 1  decide what an app asks for
/list  the open questions    /mute  show and speak nothing    /unmute  show again    /quit  end
a line that begins with / or # is sent as text when you put \ or another # in front`

// command carries out a line that is no answer, and reports whether it was one.
func (l *Listener) command(ctx context.Context, line string) bool {
	if word, number, _ := strings.Cut(line, " "); word == "/approve" || word == "/deny" {
		l.decide(ctx, number, word == "/approve")
		return true
	}
	switch line {
	case "/list":
		l.list(l.Desk.Open())
	case "/mute":
		l.mute(true)
	case "/unmute":
		l.mute(false)
	case "/quit", "/exit":
		l.end(errEnough)
	case "/help", "/?":
		l.say(help)
	default:
		if !strings.HasPrefix(line, "/") {
			return false
		}
		l.say("there is no command %s; /help lists them", screen.Line(line))
	}
	return true
}

func (l *Listener) list(items []desk.Item) {
	if len(items) == 0 {
		l.say("no question waits for an answer")
	}
	for _, it := range items {
		l.say("#%d %s", it.Number, it.Title)
	}
}

func (l *Listener) mute(on bool) {
	l.mu.Lock()
	l.wishes.Muted = on
	l.mu.Unlock()
	l.line.StateChanged()
	l.say("muted: %s", onOff(on))
}
