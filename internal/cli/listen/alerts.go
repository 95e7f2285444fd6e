package listen

import (
	"context"
	"strings"

	"github.com/herald-relay/herald/internal/cli/voice"
	"github.com/herald-relay/herald/internal/client"
)

// waitingAlerts bounds what waits to be spoken or to pop up; what finds no room is not spoken, and not reported so.
const waitingAlerts = 32

// alerts speak and pop up in their own time, so that neither holds up the stream.
type alerts struct {
	show    func(title, body string) error
	speaker Speaker
	report  func(client.Report)

	popUps chan [2]string
	speech chan spoken
}

// spoken is one turn of the speaker: an utterance, or something to do once the turns before it are over.
type spoken struct {
	id   string
	u    voice.Utterance
	then func()
}

func newAlerts(show func(title, body string) error, speaker Speaker, report func(client.Report)) *alerts {
	return &alerts{show: show, speaker: speaker, report: report,
		popUps: make(chan [2]string, waitingAlerts), speech: make(chan spoken, waitingAlerts)}
}

func (a *alerts) desktop(title, body string) {
	if a.show == nil {
		return
	}
	select {
	case a.popUps <- [2]string{plain(title), plain(body)}:
	default:
	}
}

// plain keeps desktops from reading markup or an option into a text.
func plain(s string) string {
	s = strings.NewReplacer("<", "‹", ">", "›").Replace(s)
	if strings.HasPrefix(s, "-") {
		s = " " + s
	}
	return s
}

func (a *alerts) speak(id string, u voice.Utterance) {
	if a.speaker == nil {
		return
	}
	select {
	case a.speech <- spoken{id: id, u: u}:
	default:
	}
}

// finish calls then once everything accepted was spoken.
func (a *alerts) finish(then func()) {
	select {
	case a.speech <- spoken{then: then}:
	default:
		then()
	}
}

// run pops up and speaks until ctx ends.
func (a *alerts) run(ctx context.Context) {
	go func() { // may be stuck in a desktop that does not answer
		for {
			select {
			case p := <-a.popUps:
				_ = a.show(p[0], p[1]) // the card is shown anyway
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case s := <-a.speech:
			a.turn(ctx, s)
		case <-ctx.Done():
			return
		}
	}
}

func (a *alerts) turn(ctx context.Context, s spoken) {
	if s.then != nil {
		s.then()
		return
	}
	if a.speaker.Say(ctx, s.u) == nil {
		a.report(client.Report{ID: s.id, Kind: client.Spoken})
	}
}
