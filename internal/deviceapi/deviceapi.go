// Package deviceapi is the edge that a person's devices call: pairing, the stream, receipts and replies, clips, keys and
// the device list (contract sections 6 and 7).
//
// # The stream
//
// Each device holds one WebSocket. Exactly: every notification that waits when the stream opens, and every one accepted
// while it is open, is sent on it in order of acceptance; one that no device acknowledges is sent again on each later
// stream. Plainly: the stream never carries data of its own. It remembers how far it has sent and reads what comes next
// from the store whenever it is woken, so nothing queues up for a device that does not read, nothing is lost when a
// wake-up is, and a device that reconnects catches up by the same path as every day. An idle stream costs one parked
// goroutine, no timer and no queue.
//
// The one thing a wake-up carries is the id of what was accepted: of a notification that another device acknowledged
// within moments, the store would no longer say that it waits. Should such a hint be lost, which takes a second
// process and a broken bus, this device is not told of what the other one already has.
package deviceapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/herald-relay/herald/internal/allowance"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/events"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/lifecycle"
	"github.com/herald-relay/herald/internal/mailbox"
	"github.com/herald-relay/herald/internal/oauth"
	"github.com/herald-relay/herald/internal/pairing"
	"github.com/herald-relay/herald/internal/presence"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/strictjson"
	"github.com/herald-relay/herald/internal/web"
)

// API serves the device routes. All exported fields are set once, before use.
type API struct {
	Auth    *credential.Authenticator
	Mailbox *mailbox.Service
	Pairing *pairing.Service
	OAuth   *oauth.Service
	Events  *events.Service
	Meter   *allowance.Meter
	Hub     *presence.Hub
	Origins *web.Origins
	Log     *slog.Logger
	// Closed is told why a stream ended, by one of the Ended constants; it may be nil.
	Closed func(reason string)

	streams  sync.WaitGroup // every goroutine of every stream
	stopping atomic.Bool    // set for good by CloseAll
}

// Register adds the routes.
func (a *API) Register(rt *web.Router) {
	rt.Handle("POST /v1/pair/start", a.pairStart)
	rt.Handle("POST /v1/pair", a.pair)

	rt.Handle("GET /v1/device/stream", a.stream)
	rt.Handle("POST /v1/device/receipt", a.counted(a.receipt))
	rt.Handle("POST /v1/device/reply", a.counted(a.reply))
	rt.Handle("PUT /v1/device/reply/{id}/audio", a.counted(a.audio))
	rt.Handle("POST /v1/device/status", a.counted(a.status))
	rt.Handle("GET /v1/device/info", a.counted(a.info))
	rt.Handle("GET /v1/device/usage", a.known(a.usage))

	rt.Handle("GET /v1/device/keys", a.counted(a.keys))
	rt.Handle("POST /v1/device/keys", a.counted(a.createKey))
	rt.Handle("DELETE /v1/device/keys/{id}", a.counted(a.revokeKey))

	rt.Handle("GET /v1/device/consents", a.counted(a.consents))
	rt.Handle("POST /v1/device/consent", a.counted(a.decide))
	rt.Handle("GET /v1/device/connectors", a.counted(a.connectors))
	rt.Handle("DELETE /v1/device/connectors/{id}", a.counted(a.endConnector))
	rt.Handle("GET /v1/device/audit", a.counted(a.audit))

	rt.Handle("GET /v1/device/events", a.counted(a.events))
	rt.Handle("DELETE /v1/device/events/subscriptions/{id}", a.counted(a.endSubscription))

	rt.Handle("GET /v1/device/devices", a.counted(a.devices))
	rt.Handle("POST /v1/device/prune", a.counted(a.prune))
	rt.Handle("DELETE /v1/device/devices/{id}", a.counted(a.removeDevice))
	rt.Handle("DELETE /v1/device", a.counted(a.unpair))

	rt.Handle("GET /v1/device/links", a.counted(a.links))
	rt.Handle("POST /v1/device/links", a.counted(a.startLink))
	rt.Handle("DELETE /v1/device/links/{id}", a.counted(a.unlink))

	rt.Fallback("/v1/device", a.known(func(http.ResponseWriter, *http.Request, credential.Principal, time.Time) error {
		return noSuchEndpoint()
	}))
}

// noSuchEndpoint answers whatever no device route matches, a path parameter of the wrong shape included.
func noSuchEndpoint() error { return fault.NotFoundf("no such device endpoint") }

// handler answers a proven device.
type handler func(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error

// known proves the device first, so that a bad token learns nothing, not even which paths exist.
func (a *API) known(h handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, err := a.Auth.Device(r.Context(), web.Credential(r))
		if err != nil {
			return err
		}
		return h(w, r, p, time.Now())
	}
}

// counted is known for the routes that count toward the daily request budget. Devices are never refused for it.
func (a *API) counted(h handler) web.Handler {
	return a.known(func(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
		a.Meter.Count(p.Mailbox, now, relay.Usage{Requests: 1})
		return h(w, r, p, now)
	})
}

// maxBody bounds the JSON bodies of devices: two texts of 4000 characters, escaped, with room.
const maxBody = 256 << 10

// object reads a JSON object. Unknown members are the business of newer apps and pass; ambiguous ones do not.
func object(w http.ResponseWriter, r *http.Request, known ...string) (strictjson.Value, error) {
	if err := web.RequireJSON(r); err != nil {
		return strictjson.Value{}, err
	}
	return anyTypeObject(w, r, known...)
}

func anyTypeObject(w http.ResponseWriter, r *http.Request, known ...string) (v strictjson.Value, err error) {
	data, err := web.ReadBody(w, r, maxBody)
	if err != nil {
		return v, err
	}
	if v, err = strictjson.ParseObject(data); err != nil {
		return v, err
	}
	return v, v.RefuseRepeats(known)
}

type okBody struct {
	OK bool `json:"ok"`
}

func (a *API) receipt(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	v, err := object(w, r, receiptKeys...)
	if err != nil {
		return err
	}
	return a.record(w, r, p, v, receiptOf(v), now)
}

func (a *API) reply(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	v, err := object(w, r, receiptKeys...)
	if err != nil {
		return err
	}
	report := receiptOf(v)
	report.Kind = relay.KindReplied
	return a.record(w, r, p, v, report, now)
}

func (a *API) record(w http.ResponseWriter, r *http.Request, p credential.Principal, v strictjson.Value, report relay.Receipt, now time.Time) error {
	id, ok := reportedID(v)
	if !ok {
		return fault.NotFoundf("id must be the relay's id of a notification, r_ and 24 hex digits")
	}
	if err := a.Mailbox.Record(r.Context(), p.Mailbox, p.Device, id, report, now); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okBody{true})
}

var receiptKeys = []string{"type", "id", "notificationId", "kind", "text", "transcript", "durationSeconds", "reason", "scope"}

// reportedID finds the relay's id in a report; notificationId is accepted in its place.
func reportedID(v strictjson.Value) (relay.NotificationID, bool) {
	text, found := v.Text("id")
	if found == strictjson.Absent {
		text, _ = v.Text("notificationId")
	}
	return relay.ParseNotificationID(text)
}

// receiptOf reads a report leniently, as the contract's section 6.3 wants: what is not usable counts as not sent.
func receiptOf(v strictjson.Value) (r relay.Receipt) {
	r.Kind, _ = v.Text("kind")
	r.Text, _ = v.Text("text")
	r.Transcript, _ = v.Text("transcript")
	r.Reason, _ = v.Text("reason")
	r.Scope, _ = v.Text("scope")
	if seconds, found := v.Number("durationSeconds"); found == strictjson.Present {
		r.Duration = &seconds
	}
	return r
}

type audioBody struct {
	OK    bool  `json:"ok"`
	Bytes int64 `json:"bytes"`
}

// clipWithin is how long an upload may take: a megabyte over a poor phone line.
const clipWithin = 2 * time.Minute

func (a *API) audio(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	id, ok := relay.ParseNotificationID(r.PathValue("id"))
	if !ok {
		return noSuchEndpoint()
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(now.Add(clipWithin)) // a transport without deadlines is a test's
	up := mailbox.Upload{Declared: r.ContentLength, Label: r.Header.Get("Content-Type"), Body: r.Body}
	size, err := a.Mailbox.StoreClip(r.Context(), p.Mailbox, id, up, now)
	if err != nil { // the deadline stays: what did not arrive of the body is still to be read past
		return err
	}
	_ = control.SetReadDeadline(time.Time{})
	return web.WriteJSON(w, http.StatusOK, audioBody{true, size})
}

func (a *API) status(w http.ResponseWriter, r *http.Request, p credential.Principal, _ time.Time) error {
	v, err := object(w, r, stateKeys...)
	if err != nil {
		return err
	}
	if err := a.Mailbox.SetState(r.Context(), p.Mailbox, stateOf(v)); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okBody{true})
}

var stateKeys = []string{"type", "quietActive", "quietUntil", "muted"}

func stateOf(v strictjson.Value) (s relay.State) {
	s.QuietActive, _ = v.Flag("quietActive")
	s.QuietUntil, _ = v.Text("quietUntil")
	s.Muted, _ = v.Flag("muted")
	return s
}

// Wait returns when every stream's goroutines have ended, or with ctx's cause.
func (a *API) Wait(ctx context.Context) error { return lifecycle.Await(ctx, &a.streams) }
