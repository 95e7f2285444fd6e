// Package agentapi is the edge that cloud agents call: notify, receipts, replies, status, health and clip links
// (contract section 2).
//
// An agent sees only what its own credential sent. Every answer that claims something is stored is sent after the
// commit.
package agentapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/allowance"
	"github.com/herald-relay/herald/internal/clips"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/mailbox"
	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/web"
)

// Limits of the reads of one key (contract section 10).
const (
	ReadsPerWindow  = 600
	readsRetryAfter = time.Minute
)

// clipLinkLife is how long a link to a clip works, counted from the read that made it.
const clipLinkLife = time.Hour

// API serves the agent routes. All fields are set once, before use.
type API struct {
	Auth    *credential.Authenticator
	Signer  *credential.Signer
	Mailbox *mailbox.Service
	Meter   *allowance.Meter
	Clips   *clips.Dir
	Origins *web.Origins
	Reads   *allowance.Window // per key
	MaxBody int               // of a notify request, icon apart
	// Health is what GET /health answers.
	Health Health
}

// Health is the answer of GET /health.
type Health struct {
	OK      bool   `json:"ok"`
	Service string `json:"service"`
	Bundle  string `json:"bundle,omitempty"`
	// Dev warns that the relay was started for development and may call plain http receivers on this machine.
	Dev bool `json:"dev,omitzero"`
}

// Register adds the routes.
func (a *API) Register(rt *web.Router) {
	rt.Handle("POST /v1/notify", a.notify)
	rt.Handle("GET /v1/receipts/{id}", a.receipt)
	rt.Handle("GET /v1/replies/{id}", a.reply)
	rt.Handle("GET /v1/status", a.status)
	rt.Handle("GET /health", a.health)
	rt.Handle("GET /healthz", a.health)
	rt.Handle("/{$}", a.health) // GET / is the page of another edge
	rt.Handle("GET /v1/audio/{mailbox}/{file}", a.clip)
}

// admitted proves the agent's credential and charges one request to its mailbox's daily budget.
func (a *API) admitted(r *http.Request, now time.Time) (credential.Principal, error) {
	p, err := a.Auth.Agent(r.Context(), web.Credential(r), now)
	if err != nil {
		return p, err
	}
	return p, a.Charge(r.Context(), p, now)
}

// Charge counts a request of a mailbox before it tests the budget: the request that reaches the limit is refused already.
func (a *API) Charge(ctx context.Context, p credential.Principal, now time.Time) error {
	a.Meter.Count(p.Mailbox, now, relay.Usage{Requests: 1})
	used, err := a.Meter.Used(ctx, p.Mailbox, now)
	if err != nil {
		return err
	}
	if limit := a.Mailbox.Limits.RequestsPerDay; used.Requests >= limit {
		return fault.New(fault.Unavailable, "budget_exhausted",
			"this mailbox used its %d requests of today; it takes more after midnight UTC", limit).
			WithRetry(relay.CeilSeconds(relay.UntilNextDay(now)), true)
	}
	return nil
}

// AllowRead counts a read of a key, or refuses it.
func (a *API) AllowRead(p credential.Principal, now time.Time) error {
	if !a.Reads.Allow(string(p.Mailbox)+string(p.Key), now) {
		return fault.New(fault.Exhausted, "rate_limited",
			"this key read %d times in the last 10 minutes, its limit; wait for replies with ?wait= instead of asking often", ReadsPerWindow).
			WithRetry(readsRetryAfter, true)
	}
	return nil
}

// readable is admitted for the routes that the read limit covers.
func (a *API) readable(r *http.Request, now time.Time) (credential.Principal, error) {
	p, err := a.admitted(r, now)
	if err != nil {
		return p, err
	}
	return p, a.AllowRead(p, now)
}

func (a *API) notify(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	p, err := a.admitted(r, now)
	if err != nil {
		return err
	}
	if err := web.RequireJSON(r); err != nil {
		return err
	}
	body, err := web.ReadBody(w, r, payload.Ceiling(a.MaxBody))
	if err != nil {
		return err
	}
	in, err := payload.Parse(body, a.MaxBody)
	if err != nil {
		return err
	}
	out, err := a.Send(r.Context(), p, in, a.Origins.Of(r), now)
	if err != nil {
		return err
	}
	status := http.StatusAccepted
	if out.Duplicate {
		status = http.StatusOK
	}
	return web.WriteJSON(w, status, out)
}

// Send stores a notification and says what became of it. Links in the answer begin with origin.
func (a *API) Send(ctx context.Context, p credential.Principal, in payload.Payload, origin string, now time.Time) (Sent, error) {
	n, duplicate, err := a.Mailbox.Send(ctx, p, in, now)
	if err != nil {
		return Sent{}, err
	}
	return Sent{a.view(origin, &n, now), duplicate}, nil
}

func (a *API) receipt(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	p, err := a.readable(r, now)
	if err != nil {
		return err
	}
	out, err := a.Receipt(r.Context(), p, r.PathValue("id"), a.Origins.Of(r), now)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// Receipt reads the receipt of a notification by its agent's id.
func (a *API) Receipt(ctx context.Context, p credential.Principal, id, origin string, now time.Time) (Receipt, error) {
	n, err := a.Mailbox.Receipt(ctx, p, id, now)
	if err != nil {
		return Receipt{}, err
	}
	return a.view(origin, &n, now), nil
}

func (a *API) reply(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	p, err := a.readable(r, now)
	if err != nil {
		return err
	}
	return a.Await(w, r, p, r.PathValue("id"), waitOf(r), now, func(w http.ResponseWriter, out Reply, err error) error {
		if err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, out)
	})
}

// attachedFor is how long a wait holds on to the server's connection; a longer one is detached from it.
const attachedFor = 2 * time.Second

// Await answers with the reply to a notification, for which it waits as long as said: see mailbox.Service.BeginWait. answer
// is called once, perhaps after Await has returned and with another writer; it should hold nothing large, for thousands
// can be parked.
func (a *API) Await(w http.ResponseWriter, r *http.Request, p credential.Principal, id string, patience time.Duration, now time.Time,
	answer func(w http.ResponseWriter, out Reply, err error) error) error {
	n, wait, err := a.Mailbox.BeginWait(r.Context(), p, id, patience, now)
	if err != nil {
		return answer(w, Reply{}, err)
	}
	origin := a.Origins.Of(r)
	if wait == nil {
		return answer(w, a.answer(origin, &mailbox.Outcome{Notification: n}, now), nil)
	}
	return a.park(w, r, wait, func(w http.ResponseWriter, out *mailbox.Outcome, err error) error {
		if err != nil {
			return answer(w, Reply{}, err)
		}
		return answer(w, a.answer(origin, out, time.Now()), nil)
	})
}

func (a *API) park(w http.ResponseWriter, r *http.Request, wait *mailbox.Wait,
	answer func(w http.ResponseWriter, out *mailbox.Outcome, err error) error) error {
	out, err := wait.For(r.Context(), attachedFor)
	if out == nil && err == nil {
		err = web.Detach(w, r, func(ctx context.Context, w http.ResponseWriter) error {
			defer wait.End()
			out, err := wait.For(ctx, mailbox.MaxWait)
			return answer(w, out, err)
		})
		if err == nil {
			return nil
		}
		out, err = wait.For(r.Context(), mailbox.MaxWait)
	}
	wait.End()
	return answer(w, out, err)
}

// waitOf reads ?wait= in seconds. Fractions count; junk, negative and missing values are zero.
func waitOf(r *http.Request) time.Duration {
	text := r.URL.Query().Get("wait")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0) || strings.ContainsAny(text, "_xX") { // ways to write numbers that only Go reads
		return 0
	}
	return time.Duration(min(seconds, mailbox.MaxWait.Seconds()) * float64(time.Second))
}

// Status is the answer of GET /v1/status: these three members and no other.
type Status struct {
	Online     bool   `json:"online"`
	LastSeenAt string `json:"lastSeenAt,omitempty"`
	QuietHours Quiet  `json:"quietHours"`
}

// Quiet tells whether the person's quiet hours are active, and until when as the device put it.
type Quiet struct {
	Active bool   `json:"active"`
	Until  string `json:"until,omitempty"`
}

// StatusOf renders a mailbox's presence.
func StatusOf(p mailbox.Presence) Status {
	out := Status{Online: p.Online, QuietHours: Quiet{Active: p.State.QuietActive, Until: p.State.QuietUntil}}
	if !p.LastSeenAt.IsZero() {
		out.LastSeenAt = relay.Timestamp(p.LastSeenAt)
	}
	return out
}

func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	p, err := a.admitted(r, now)
	if err != nil {
		return err
	}
	out, err := a.Status(r.Context(), p, now)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// Status tells whether the person can be reached.
func (a *API) Status(ctx context.Context, p credential.Principal, now time.Time) (Status, error) {
	presence, err := a.Mailbox.Presence(ctx, p.Mailbox, now)
	if err != nil {
		return Status{}, err
	}
	return StatusOf(presence), nil
}

func (a *API) health(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteJSON(w, http.StatusOK, a.Health)
}
