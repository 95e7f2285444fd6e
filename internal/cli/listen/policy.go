package listen

import (
	"time"

	"github.com/herald-relay/herald/internal/cli/quiet"
	"github.com/herald-relay/herald/internal/cli/voice"
	"github.com/herald-relay/herald/internal/client"
)

// Why a device holds something back, as agents are told (contract section 2.3).
const (
	reasonMuted = "muted"
	reasonQuiet = "quiet-hours"
)

// Wishes are what the person wants of their device.
type Wishes struct {
	Muted bool        // show and speak nothing
	Hours quiet.Hours // hold back during these
	// QuietSpeech holds back only speech in quiet hours; cards are shown.
	QuietSpeech bool
	// UrgentRings lets urgent notifications through quiet hours. Nothing gets through Muted.
	UrgentRings bool
}

// state is what the relay is told of the wishes.
func (w Wishes) state(now time.Time) client.State {
	s := client.State{Muted: w.Muted}
	if active, until := w.Hours.At(now); active {
		s.QuietActive, s.QuietUntil = true, until.Format(time.RFC3339)
	}
	return s
}

// handling is what is done with one notification.
type handling struct {
	show, speak bool
	// reason and scope say what was held back; reason is "" when nothing was.
	reason, scope string
}

// handle decides. speaks tells that the notification asks for speech.
func (w Wishes) handle(priority string, speaks bool, now time.Time) handling {
	if w.Muted {
		return handling{reason: reasonMuted, scope: "all"}
	}
	active, _ := w.Hours.At(now)
	switch {
	case !active, w.UrgentRings && priority == "urgent":
		return handling{show: true, speak: speaks}
	case !w.QuietSpeech:
		return handling{reason: reasonQuiet, scope: "all"}
	case speaks:
		return handling{show: true, reason: reasonQuiet, scope: "speech"}
	}
	return handling{show: true}
}

// utterance is what a notification wants said. ok is false when it wants none.
func utterance(n *client.Notification) (u voice.Utterance, ok bool) {
	asked := n.Speak != nil || n.Voice != "" || n.Speed != 0 || n.Presentation == "voice" || n.Presentation == "both"
	if !asked || n.Speak != nil && n.Speak.Off {
		return u, false
	}
	u.Speed = n.Speed
	if s := n.Speak; s != nil {
		u.Text, u.Lang = s.Text, s.Lang
		if s.Speed != 0 {
			u.Speed = s.Speed
		}
	}
	if u.Text == "" {
		u.Text = n.Title + ".\n" + n.Body
	}
	return u, true
}
