// Package receive is a receiver of MCP Events for developers: it verifies what arrives as a careful receiver does, answers
// as a script says, and tells of each arrival.
//
// What it shows and saves came from strangers. Text passes through package screen; file names are numbers.
package receive

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/herald-relay/herald/mcpevents/eventstest"
	"github.com/herald-relay/herald/webhook"
)

const (
	maxBody      = 256 << 10 // as senders are bound to
	maxHeader    = 256       // bytes of an id that is taken for one
	maxKnown     = 10_000    // messages whose attempts are counted
	maxAtOnce    = 256       // requests in hand; more are turned away
	subscription = "X-Mcp-Subscription-Id"
)

// Verdict says what an arrival is worth.
type Verdict string

// The verdicts. All but Verified are refused, whatever the script says.
const (
	Verified     Verdict = "verified"
	BadSignature Verdict = "bad-signature" // 401: no secret made it
	Stale        Verdict = "stale"         // 401: its timestamp is out of tolerance
	BadHeaders   Verdict = "bad-headers"   // 400: one is missing or malformed
	Unknown      Verdict = "unknown-subscription"
	NotJSON      Verdict = "not-json"     // 400, or 415 by its content type
	TooLarge     Verdict = "too-large"    // 413: more than 256 KiB
	NotPost      Verdict = "not-post"     // 405
	Unreadable   Verdict = "unreadable"   // 400: it broke off
	TooMany      Verdict = "too-many-now" // 503
)

// Kinds of arrivals beside those that the body names itself, such as "gap".
const (
	KindEvent        = "event"
	KindVerification = "verification"
)

// Arrival is one request.
type Arrival struct {
	N       int // from 1
	At      time.Time
	Verdict Verdict
	// Reason says why it is refused, for a person.
	Reason string
	// Kind is KindEvent or the body's type; "" when it was not read.
	Kind string
	// ID is webhook-id, Subscription the subscription's.
	ID, Subscription string
	// EventID, Name and Cursor are the body's.
	EventID, Name string
	Cursor        *string
	// Attempt counts the verified arrivals of this message; 0 for others.
	Attempt int
	// Secret is the number, from 1, of the one that signed it; 0 for none.
	Secret int
	// Notes are faults of a message that verifies.
	Notes []string
	// Answer is the step of the script that answers it, and Status its status; 0 for none.
	Answer string
	Status int
	Header http.Header
	Body   []byte
}

// Options are what a Receiver works by.
type Options struct {
	// Secrets are those that a message may be signed with.
	Secrets []webhook.Secret
	// Subscriptions are the ids that are known. Empty knows all.
	Subscriptions []string
	Script        Script
	// Tell is told of each arrival before it is answered, one after the other.
	Tell func(Arrival)
}

// Receiver is an http.Handler.
type Receiver struct {
	opts Options
	free chan struct{}

	mu     sync.Mutex // guards what follows, and keeps what Tell is told in order
	script Script
	count  int
	known  map[string]*message
	order  []string
}

// message is what is kept of one that arrived.
type message struct {
	attempts int
	body     [sha256.Size]byte
}

// New makes a Receiver.
func New(opts Options) *Receiver {
	return &Receiver{opts: opts, script: opts.Script.clone(), free: make(chan struct{}, maxAtOnce), known: map[string]*message{}}
}

// ServeHTTP takes one request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	a := Arrival{At: time.Now(), Header: req.Header, ID: req.Header.Get(webhook.HeaderID), Subscription: req.Header.Get(subscription)}
	var challenge *string
	select {
	case r.free <- struct{}{}:
		defer func() { <-r.free }()
		challenge = r.read(&a, w, req)
	default:
		a.refuse(TooMany, http.StatusServiceUnavailable, "too many requests at once")
	}
	r.decide(&a, challenge).Answer(w, req)
}

// read judges a request by itself, and returns the challenge that it may hold.
func (r *Receiver) read(a *Arrival, w http.ResponseWriter, req *http.Request) (challenge *string) {
	if req.Method != http.MethodPost {
		a.refuse(NotPost, http.StatusMethodNotAllowed, "the method is "+req.Method)
		return nil
	}
	var err error
	if a.Body, err = io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody)); err != nil {
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			a.refuse(TooLarge, http.StatusRequestEntityTooLarge, "the body has more than 256 KiB")
		} else {
			a.refuse(Unreadable, http.StatusBadRequest, "the body broke off")
		}
		return nil
	}
	if kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		a.refuse(NotJSON, http.StatusUnsupportedMediaType, "the content type is not application/json")
		return nil
	}
	if r.verify(a); a.Verdict != Verified {
		return nil
	}
	return a.parse()
}

// refuse says no.
func (a *Arrival) refuse(v Verdict, status int, reason string) {
	a.Verdict, a.Status, a.Reason, a.Answer = v, status, reason, "refused"
}

// verify looks who signed it.
func (r *Receiver) verify(a *Arrival) {
	if a.Subscription == "" || len(a.Subscription) > maxHeader || len(a.ID) > maxHeader {
		a.refuse(BadHeaders, http.StatusBadRequest, "webhook-id or x-mcp-subscription-id is missing or too long")
		return
	}
	err := webhook.ErrSignature
	for i, s := range r.opts.Secrets {
		if _, err = webhook.Verify(a.Header, a.Body, a.At, s); err == nil {
			a.Secret = i + 1
			break
		}
		if !errors.Is(err, webhook.ErrSignature) {
			break
		}
	}
	switch {
	case errors.Is(err, webhook.ErrHeader):
		a.refuse(BadHeaders, http.StatusBadRequest, reason(err))
	case errors.Is(err, webhook.ErrTimestamp):
		a.refuse(Stale, http.StatusUnauthorized, reason(err))
	case err != nil:
		a.refuse(BadSignature, http.StatusUnauthorized, "no secret that is known here made its signature")
	case len(r.opts.Subscriptions) > 0 && !slices.Contains(r.opts.Subscriptions, a.Subscription):
		a.refuse(Unknown, http.StatusServiceUnavailable, "the subscription is none of those given")
	default:
		a.Verdict = Verified
	}
}

// body is any webhook's.
type body struct {
	Type      string          `json:"type"`
	Challenge *string         `json:"challenge"`
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
	Cursor    *string         `json:"cursor"`
}

// parse reads the body of a verified request, and returns the challenge of one that has it.
func (a *Arrival) parse() (challenge *string) {
	var b body
	if err := json.Unmarshal(a.Body, &b); err != nil {
		a.refuse(NotJSON, http.StatusBadRequest, "the body is no JSON object of an event")
		return nil
	}
	if a.Kind = b.Type; a.Kind == "" {
		a.Kind = KindEvent
	}
	a.EventID, a.Name, a.Cursor = b.EventID, b.Name, b.Cursor
	switch a.Kind {
	case KindEvent:
		a.Notes = b.faults(a.ID)
	case KindVerification:
		if b.Challenge == nil || *b.Challenge == "" {
			a.Notes = []string{"the challenge is missing"}
			empty := ""
			return &empty
		}
		return b.Challenge
	}
	return nil
}

// faults lists what receivers will not like about an event.
func (b *body) faults(id string) (notes []string) {
	note := func(bad bool, text string) {
		if bad {
			notes = append(notes, text)
		}
	}
	_, err := time.Parse(time.RFC3339, b.Timestamp)
	note(b.EventID == "", "eventId is missing")
	note(b.EventID != "" && b.EventID != id, "webhook-id is not the eventId, which ChatGPT and the AI SDK insist on")
	note(b.Name == "", "name is missing")
	note(err != nil, "timestamp is no date and time with a zone")
	note(len(b.Data) == 0 || b.Data[0] != '{', "data is no object")
	return notes
}

// decide counts an arrival, takes its answer from the script, and tells of it.
func (r *Receiver) decide(a *Arrival, challenge *string) eventstest.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	a.N = r.count
	step := eventstest.Status(a.Status)
	if a.Verdict == Verified {
		r.repeated(a)
		chosen := r.script.next(a.Kind == KindVerification)
		step = chosen.step(challenge, a.At)
		a.Answer, a.Status = chosen.text, step.Status
		if step.Hang || step.Abort {
			a.Status = 0
		}
	}
	if a.Verdict == NotPost {
		step.Header = map[string]string{"Allow": http.MethodPost}
	}
	if r.opts.Tell != nil {
		r.opts.Tell(*a)
	}
	return step
}

// repeated counts the attempts of one message, which are told by subscription and id.
func (r *Receiver) repeated(a *Arrival) {
	key, sum := a.Subscription+"\n"+a.ID, sha256.Sum256(a.Body)
	m := r.known[key]
	if m == nil {
		m = &message{body: sum}
		r.known[key] = m
		r.order = append(r.order, key)
		if len(r.order) > maxKnown {
			delete(r.known, r.order[0])
			r.order = r.order[1:]
		}
	}
	m.attempts++
	a.Attempt = m.attempts
	if m.body != sum {
		m.body = sum
		a.Notes = append(a.Notes, "the body differs from that of the attempt before")
	}
}

// reason is the part of an error of webhook's that is for people.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "webhook: ") }
