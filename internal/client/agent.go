package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"math"
	mrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Agent is a relay spoken to with an agent key or access token.
type Agent struct {
	relay *Relay
	token string
}

// Agent binds a credential, hrk_ or hra_.
func (r *Relay) Agent(token string) *Agent { return &Agent{r, token} }

// Answer is what a person replied. All of it is zero before that.
type Answer struct {
	Reply           string   `json:"reply,omitzero"`      // what was typed, else the transcript
	Text            string   `json:"text,omitzero"`       // typed
	Transcript      string   `json:"transcript,omitzero"` // spoken
	TranscriptNote  string   `json:"transcriptNote,omitzero"`
	AudioURL        string   `json:"audioUrl,omitzero"` // the voice itself, for an hour
	AudioURLExpires int      `json:"audioUrlExpiresInSeconds,omitzero"`
	DurationSeconds *float64 `json:"durationSeconds,omitzero"`
}

// Receipt is what became of a notification (contract section 2.3).
type Receipt struct {
	NotificationID  string    `json:"notificationId"`
	Received        bool      `json:"received"`
	ReceivedAt      time.Time `json:"receivedAt"`
	Queued          bool      `json:"queued"`
	Displayed       bool      `json:"displayed"`
	DisplayedAt     time.Time `json:"displayedAt,omitzero"`
	Spoken          bool      `json:"spoken"`
	SpokenAt        time.Time `json:"spokenAt,omitzero"`
	Replied         bool      `json:"replied"`
	RepliedAt       time.Time `json:"repliedAt,omitzero"`
	Answer          `json:",embed"`
	ExpectReply     bool   `json:"expectReply"`
	Suppressed      bool   `json:"suppressed"`
	Reason          string `json:"reason,omitzero"`          // muted, quiet-hours, expired, …
	SuppressedScope string `json:"suppressedScope,omitzero"` // all, or speech when the banner was shown
}

// Sent is the answer to a notification.
type Sent struct {
	Receipt   `json:",embed"`
	Duplicate bool `json:"duplicate"` // its notificationId was sent before; the receipt is the first one's
}

// Reply is the state of a notification's reply (contract section 2.5).
type Reply struct {
	NotificationID string    `json:"notificationId"`
	Replied        bool      `json:"replied"`
	RepliedAt      time.Time `json:"repliedAt,omitzero"`
	Answer         `json:",embed"`
	TimedOut       bool   `json:"timedOut,omitzero"`
	Suppressed     bool   `json:"suppressed"`
	Reason         string `json:"reason,omitzero"`
}

// Status is what an agent may know of a mailbox's devices.
type Status struct {
	Online     bool      `json:"online"`
	LastSeenAt time.Time `json:"lastSeenAt,omitzero"`
	QuietHours Quiet     `json:"quietHours"`
}

// Quiet tells whether quiet hours are active, and until when as the device put it.
type Quiet struct {
	Active bool   `json:"active"`
	Until  string `json:"until,omitzero"`
}

// Notify sends a notification. One without an id is given one, so that it can be sent again when the answer is lost
// without being queued twice.
func (a *Agent) Notify(ctx context.Context, n Notification) (out Sent, err error) {
	if n.NotificationID == "" && n.Extra["notificationId"] == nil {
		n.NotificationID = newNotificationID()
	}
	err = a.relay.do(ctx, call{method: http.MethodPost, path: "/v1/notify", token: a.token, body: n, repeatable: true}, &out)
	return out, err
}

// newNotificationID makes an id that no relay makes itself: those begin with n_ and r_.
func newNotificationID() string {
	var b [12]byte
	rand.Read(b[:])
	return "c_" + hex.EncodeToString(b[:])
}

// Receipt reads what became of a notification that this credential sent in the last day.
func (a *Agent) Receipt(ctx context.Context, id string) (out Receipt, err error) {
	err = a.relay.do(ctx, call{method: http.MethodGet, path: "/v1/receipts/" + url.PathEscape(id), token: a.token, repeatable: true}, &out)
	return out, err
}

// Reply reads the reply to a notification, waiting up to wait (rounded up to seconds, at most 60 are granted) for it.
func (a *Agent) Reply(ctx context.Context, id string, wait time.Duration) (out Reply, err error) {
	c := call{method: http.MethodGet, path: "/v1/replies/" + url.PathEscape(id), token: a.token, repeatable: true}
	if wait > 0 {
		c.query = url.Values{"wait": {strconv.Itoa(int(math.Ceil(wait.Seconds())))}}
		c.within = wait + answerWithin
	}
	err = a.relay.do(ctx, c, &out)
	return out, err
}

// Status reads whether a device is there.
func (a *Agent) Status(ctx context.Context) (out Status, err error) {
	err = a.relay.do(ctx, call{method: http.MethodGet, path: "/v1/status", token: a.token, repeatable: true}, &out)
	return out, err
}

// The pace of Await. One long-poll stays below the minute at which many proxies and clients give up.
const (
	longPoll     = 50 * time.Second
	shortestRest = 2 * time.Second // after a poll that came back early with nothing
	longestRest  = 30 * time.Second
)

// Await waits for the reply by long-polls until it is there, the notification was suppressed whole, or timeout is over,
// which TimedOut then says. It rides out lost connections, restarts of the relay and refusals that pass in time.
func (a *Agent) Await(ctx context.Context, id string, timeout time.Duration) (Reply, error) {
	deadline := time.Now().Add(timeout)
	rest := shortestRest
	for {
		asked := time.Now()
		left := max(deadline.Sub(asked), 0)
		wait := min(left, longPoll)
		r, err := a.Reply(ctx, id, wait)
		if err == nil && r.Suppressed && !r.Replied && !r.TimedOut {
			r.Suppressed, err = a.suppressedWhole(ctx, id)
		}
		pause, end := awaitStep(r, err, r.TimedOut && time.Since(asked) > wait/2, rest)
		if end || ctx.Err() != nil {
			return r, err
		}
		if left = time.Until(deadline); left <= 0 {
			r.TimedOut = err == nil
			return r, err
		}
		if pause > 0 {
			rest = min(2*rest, longestRest)
		} else {
			rest = shortestRest
		}
		if pause = min(pause, left); !sleep(ctx, pause) {
			return r, context.Cause(ctx)
		}
	}
}

// awaitStep judges one poll. full tells that it lasted, rather than came back early with nothing.
func awaitStep(r Reply, err error, full bool, rest time.Duration) (pause time.Duration, end bool) {
	if err != nil {
		e, refused := errors.AsType[*Error](err)
		switch {
		case refused && e.RetryAfter > 0:
			return e.RetryAfter, e.RetryAfter > 5*time.Minute // a daily allowance is not waited for
		case refused && passing(e.Status), isUnreachable(err):
			return jittered(rest, mrand.Float64()), false
		}
		return 0, true
	}
	switch {
	case r.Replied, r.Suppressed && !r.TimedOut:
		return 0, true
	case full:
		return 0, false
	}
	return jittered(rest, mrand.Float64()), false // the day's waiting time is spent, or the relay is stopping
}

// suppressedWhole asks the receipt, because a reply does not tell the scope: a notification whose speech alone was held
// back can still be answered.
func (a *Agent) suppressedWhole(ctx context.Context, id string) (bool, error) {
	r, err := a.Receipt(ctx, id)
	return r.Suppressed && r.SuppressedScope != "speech", err
}
