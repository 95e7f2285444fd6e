package eventstest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/herald-relay/herald/webhook"
)

// Step is how a Receiver answers one delivery.
type Step struct {
	// Status is the answer's; zero is 204.
	Status int
	// Header is added to the answer, such as Retry-After or Location.
	Header map[string]string
	// Body is the answer's.
	Body string
	// After waits before answering. A sender that gives up earlier is not answered.
	After time.Duration
	// Drip waits before each byte of Body; the status goes out at once.
	Drip time.Duration
	// Hang reads the request and never answers.
	Hang bool
	// Abort breaks the connection.
	Abort bool
}

// Status is a Step that answers with a status.
func Status(code int) Step { return Step{Status: code} }

// Statuses is a script of statuses.
func Statuses(codes ...int) []Step {
	steps := make([]Step, len(codes))
	for i, code := range codes {
		steps[i] = Status(code)
	}
	return steps
}

// Hang is a Step that never answers.
func Hang() Step { return Step{Hang: true} }

// Request is one that a Receiver got.
type Request struct {
	At           time.Time
	Path         string
	ID           string // webhook-id
	Timestamp    string // webhook-timestamp
	Signature    string // webhook-signature
	Subscription string // x-mcp-subscription-id
	// Type is the body's top-level type: "verification", "gap", "terminated"; "" for an event.
	Type string
	// Event is the body's eventId, Name its name and Cursor its cursor, "" for null.
	Event, Name, Cursor string
	Body                []byte
	// Secrets are the indexes of the receiver's secrets that verify the request; empty when none does.
	Secrets []int
}

// Receiver answers challenges rightly and deliveries as its script says, and remembers all. The zero Receiver verifies
// nothing and accepts everything. It is safe for concurrent use.
type Receiver struct {
	mu       sync.Mutex // guards what follows
	secrets  []webhook.Secret
	script   []Step
	always   *Step
	echo     func(challenge string) Step
	requests []Request
	watch    func(Request)
}

// NewReceiver returns a receiver that checks signatures by those secrets, in their text form. A malformed one panics.
func NewReceiver(secrets ...string) *Receiver {
	r := &Receiver{}
	for _, text := range secrets {
		s, err := webhook.ParseSecret(text)
		if err != nil {
			panic("eventstest: " + err.Error())
		}
		r.secrets = append(r.secrets, s)
	}
	return r
}

// Script sets how the next deliveries are answered, one step each; then Always' step counts again. It returns r.
func (r *Receiver) Script(steps ...Step) *Receiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = steps
	return r
}

// Always sets how deliveries are answered once the script is over. It returns r.
func (r *Receiver) Always(s Step) *Receiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.always = &s
	return r
}

// Challenges sets how challenges are answered; nil answers rightly. It returns r.
func (r *Receiver) Challenges(answer func(challenge string) Step) *Receiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.echo = answer
	return r
}

// Watch has fn called with each request as it arrives, before it is answered. It returns r.
func (r *Receiver) Watch(fn func(Request)) *Receiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch = fn
	return r
}

// Requests returns all requests so far, challenges and control bodies included.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Deliveries returns the requests that carried events.
func (r *Receiver) Deliveries() []Request { return r.ofType("") }

// Verifications returns the challenges.
func (r *Receiver) Verifications() []Request { return r.ofType("verification") }

// Control returns control bodies of a type: "gap" or "terminated".
func (r *Receiver) Control(kind string) []Request { return r.ofType(kind) }

// Events returns the ids of the events that arrived, each once, in the order of their first arrival.
func (r *Receiver) Events() []string {
	var ids []string
	for _, d := range r.Deliveries() {
		if !slices.Contains(ids, d.Event) {
			ids = append(ids, d.Event)
		}
	}
	return ids
}

func (r *Receiver) ofType(kind string) []Request {
	return slices.DeleteFunc(r.Requests(), func(q Request) bool { return q.Type != kind })
}

// ServeHTTP answers one request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	q, challenge := r.read(req, body)
	r.next(q, challenge).Answer(w, req)
}

// Answer answers a request, whose body was read, as the step says.
func (s Step) Answer(w http.ResponseWriter, req *http.Request) {
	if s.Abort {
		panic(http.ErrAbortHandler)
	}
	if s.Hang {
		<-req.Context().Done()
		return
	}
	if !pause(req, s.After) {
		return
	}
	for name, value := range s.Header {
		w.Header().Set(name, value)
	}
	if s.Status == 0 {
		s.Status = http.StatusNoContent
	}
	w.WriteHeader(s.Status)
	if s.Drip == 0 {
		_, _ = io.WriteString(w, s.Body) // whoever left does not want it
		return
	}
	s.drip(w, req)
}

// drip writes the body a byte at a time, until the sender leaves.
func (s Step) drip(w http.ResponseWriter, req *http.Request) {
	control := http.NewResponseController(w)
	for i := range len(s.Body) {
		if control.Flush() != nil || !pause(req, s.Drip) {
			return
		}
		if _, err := io.WriteString(w, s.Body[i:i+1]); err != nil {
			return
		}
	}
}

func pause(req *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-req.Context().Done():
		return false
	}
}

func (r *Receiver) read(req *http.Request, body []byte) (q Request, challenge string) {
	var parts struct {
		Type, Challenge, EventID, Name string
		Cursor                         *string
	}
	_ = json.Unmarshal(body, &parts) // what is no JSON has no parts
	q = Request{At: time.Now(), Path: req.URL.Path, Body: body, Type: parts.Type, Event: parts.EventID, Name: parts.Name,
		ID: req.Header.Get(webhook.HeaderID), Timestamp: req.Header.Get(webhook.HeaderTimestamp),
		Signature: req.Header.Get(webhook.HeaderSignature), Subscription: req.Header.Get("X-MCP-Subscription-Id")}
	if parts.Cursor != nil {
		q.Cursor = *parts.Cursor
	}
	for i, s := range r.secrets {
		if _, err := webhook.Verify(req.Header, body, q.At, s); err == nil {
			q.Secrets = append(q.Secrets, i)
		}
	}
	return q, parts.Challenge
}

// next remembers a request and decides how it is answered.
func (r *Receiver) next(q Request, challenge string) Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q)
	if r.watch != nil {
		r.watch(q)
	}
	switch {
	case q.Type == "verification" && r.echo != nil:
		return r.echo(challenge)
	case q.Type == "verification":
		return Echo(challenge)
	case q.Type == "" && len(r.script) > 0:
		step := r.script[0]
		r.script = r.script[1:]
		return step
	case q.Type == "" && r.always != nil:
		return *r.always
	}
	return Step{}
}

// Echo is the right answer to a challenge.
func Echo(challenge string) Step {
	body, _ := json.Marshal(map[string]string{"challenge": challenge}) // strings always encode
	return Step{Status: http.StatusOK, Header: map[string]string{"Content-Type": "application/json"}, Body: string(body)}
}
