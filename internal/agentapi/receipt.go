package agentapi

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/mailbox"
	"github.com/herald-relay/herald/internal/relay"
)

// transcriptNote accompanies every transcript.
const transcriptNote = "Transcribed on the person's device from speech; words may be wrong."

// Answer is the part of a receipt that appears once a person replied (contract section 2.3).
type Answer struct {
	Reply           string   `json:"reply,omitempty"`
	Text            string   `json:"text,omitempty"`
	Transcript      string   `json:"transcript,omitempty"`
	TranscriptNote  string   `json:"transcriptNote,omitempty"`
	AudioURL        string   `json:"audioUrl,omitempty"`
	AudioURLExpires int      `json:"audioUrlExpiresInSeconds,omitzero"`
	DurationSeconds *float64 `json:"durationSeconds,omitempty"`
}

// Receipt is what became of a notification, as its agent sees it. Times are RFC 3339 with milliseconds.
type Receipt struct {
	NotificationID  string `json:"notificationId"`
	Received        bool   `json:"received"`
	ReceivedAt      string `json:"receivedAt"`
	Queued          bool   `json:"queued"`
	Displayed       bool   `json:"displayed"`
	DisplayedAt     string `json:"displayedAt,omitempty"`
	Spoken          bool   `json:"spoken"`
	SpokenAt        string `json:"spokenAt,omitempty"`
	Replied         bool   `json:"replied"`
	RepliedAt       string `json:"repliedAt,omitempty"`
	Answer          `json:",inline"`
	ExpectReply     bool   `json:"expectReply"`
	Suppressed      bool   `json:"suppressed"`
	Reason          string `json:"reason,omitempty"`
	SuppressedScope string `json:"suppressedScope,omitempty"`
}

// Sent is the answer of POST /v1/notify.
type Sent struct {
	Receipt   `json:",inline"`
	Duplicate bool `json:"duplicate"`
}

// Reply is the answer of GET /v1/replies/{id}.
type Reply struct {
	NotificationID string `json:"notificationId"`
	Replied        bool   `json:"replied"`
	RepliedAt      string `json:"repliedAt,omitempty"`
	Answer         `json:",inline"`
	TimedOut       bool   `json:"timedOut,omitzero"`
	Suppressed     bool   `json:"suppressed"`
	Reason         string `json:"reason,omitempty"`
}

func (a *API) view(origin string, n *relay.Notification, now time.Time) Receipt {
	out := Receipt{
		NotificationID: n.AgentID,
		Received:       true, ReceivedAt: relay.Timestamp(n.CreatedAt),
		Queued:    n.AckedAt.IsZero() && !n.Suppressed,
		Displayed: !n.DisplayedAt.IsZero(), DisplayedAt: optionalTime(n.DisplayedAt),
		Spoken: !n.SpokenAt.IsZero(), SpokenAt: optionalTime(n.SpokenAt),
		Replied: n.Replied(), RepliedAt: optionalTime(n.RepliedAt),
		Answer:      a.replyPart(origin, n, now),
		ExpectReply: n.ExpectReply,
		Suppressed:  n.Suppressed,
	}
	if n.Suppressed {
		out.Reason, out.SuppressedScope = n.Reason, n.Scope
	}
	return out
}

func (a *API) answer(origin string, n *mailbox.Outcome, now time.Time) Reply {
	out := Reply{
		NotificationID: n.AgentID,
		Replied:        n.Replied(), RepliedAt: optionalTime(n.RepliedAt),
		Answer:   a.replyPart(origin, &n.Notification, now),
		TimedOut: n.TimedOut, Suppressed: n.Suppressed,
	}
	if n.Suppressed {
		out.Reason = n.Reason
	}
	return out
}

func (a *API) replyPart(origin string, n *relay.Notification, now time.Time) (out Answer) {
	if !n.Replied() {
		return out
	}
	out.Reply, out.Text, out.Transcript, out.DurationSeconds = n.ReplyText(), n.Text, n.Transcript, n.Duration
	if n.Transcript != "" {
		out.TranscriptNote = transcriptNote
	}
	if n.ClipBytes > 0 {
		out.AudioURL = a.clipLink(origin, n, now)
		out.AudioURLExpires = int(clipLinkLife.Seconds())
	}
	return out
}

func optionalTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return relay.Timestamp(t)
}

// clipLink makes a link whose signature is the credential.
func (a *API) clipLink(origin string, n *relay.Notification, now time.Time) string {
	exp := strconv.FormatInt(now.Add(clipLinkLife).Unix(), 10)
	return origin + "/v1/audio/" + string(n.Mailbox) + "/" + string(n.ID) + ".m4a?exp=" + exp +
		"&sig=" + a.Signer.ClipSignature(n.Mailbox, n.ID, exp)
}

// clip serves a clip to whoever holds a valid link: shape, then expiry, then signature, then the file.
func (a *API) clip(w http.ResponseWriter, r *http.Request) error {
	m, okMailbox := relay.ParseMailboxID(r.PathValue("mailbox"))
	name, okName := strings.CutSuffix(r.PathValue("file"), ".m4a")
	id, okID := relay.ParseNotificationID(name)
	if !okMailbox || !okName || !okID {
		return fault.NotFoundf("there is no voice clip at this address")
	}
	query := r.URL.Query()
	exp := query.Get("exp")
	seconds, err := strconv.ParseInt(exp, 10, 64)
	if err != nil || time.Now().Unix() > seconds {
		return fault.New(fault.Gone, "expired", "this link to a voice clip has run out; read the receipt again for a new one")
	}
	if !a.Signer.ValidClip(m, id, exp, query.Get("sig")) {
		return fault.New(fault.Forbidden, "forbidden", "this link to a voice clip was not made by this relay; read the receipt for a good one")
	}
	return a.sendClip(w, m, id)
}

func (a *API) sendClip(w http.ResponseWriter, m relay.MailboxID, id relay.NotificationID) error {
	f, kind, err := a.Clips.Read(m, id)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "private, no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	w.WriteHeader(http.StatusOK)
	_, _ = io.Copy(w, f) // a failure means that the reader is gone
	return nil
}
