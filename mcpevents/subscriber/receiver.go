package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/webhook"
)

// maxBody is the largest body that is read: 256 KiB, as senders are bound to.
const maxBody = 256 << 10

const headerSubscription = "X-Mcp-Subscription-Id"

// ReceivedRequest is a webhook as it came.
type ReceivedRequest struct {
	Header http.Header
	Body   []byte
}

// delivery is the body of any webhook.
type delivery struct {
	occurrence
	Type      string `json:"type"`
	Challenge string `json:"challenge"`
	Error     *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// ServeHTTP takes one webhook.
func (s *Subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "application/json only", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "body unreadable or larger than 256 KiB", status)
		return
	}
	status, answer := s.receive(r.Context(), ReceivedRequest{r.Header, body})
	if answer != nil {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the sender judges by the status
}

// receive finds whose message it is by who signed it, and then what it is.
func (s *Subscriber) receive(ctx context.Context, q ReceivedRequest) (status int, answer []byte) {
	id := q.Header.Get(headerSubscription)
	if id == "" || len(id) > 256 {
		return http.StatusBadRequest, nil
	}
	now := time.Now()
	if s.opts.Received != nil {
		now = s.opts.Received(q)
	}
	e, err := s.signer(q, id, now)
	switch {
	case errors.Is(err, webhook.ErrHeader):
		return http.StatusBadRequest, nil
	case err != nil:
		return http.StatusUnauthorized, nil
	}
	var d delivery
	if err := json.Unmarshal(q.Body, &d); err != nil {
		return http.StatusBadRequest, nil
	}
	if d.Type == "verification" {
		return s.echo(ctx, e, id, d.Challenge)
	}
	if e.record().ID != id {
		return http.StatusServiceUnavailable, nil // its subscribe call has not been answered yet
	}
	return s.take(ctx, e, &d)
}

// signer returns the subscription whose secret signed the message: the one with that id if there is one, else one that
// has no id yet or is just being subscribed.
func (s *Subscriber) signer(q ReceivedRequest, id string, now time.Time) (*entry, error) {
	known, unbound := s.candidates(id)
	if known != nil {
		unbound = []*entry{known}
	}
	err := webhook.ErrSignature
	for _, e := range unbound {
		rec := e.record()
		if _, err = webhook.Verify(q.Header, q.Body, now, rec.secrets(now)...); err == nil {
			return e, nil
		}
		if !errors.Is(err, webhook.ErrSignature) {
			return nil, err
		}
	}
	return nil, err
}

func (s *Subscriber) candidates(id string) (known *entry, unbound []*entry) {
	s.mu.Lock()
	entries := slices.Collect(maps.Values(s.entries))
	s.mu.Unlock()
	for _, e := range entries {
		rec := e.record()
		if rec.ID == id {
			return e, nil
		}
		if rec.ID == "" || e.asking.Load() {
			unbound = append(unbound, e)
		}
	}
	return nil, unbound
}

// echo answers a challenge, and binds the id to the secret that it proved to know.
func (s *Subscriber) echo(ctx context.Context, e *entry, id, challenge string) (int, []byte) {
	if challenge == "" || len(challenge) > 1024 {
		return http.StatusBadRequest, nil
	}
	if err := s.change(ctx, e, func(r *Record) { r.ID = id }); err != nil {
		s.log.Error("binding cannot be stored", "subscription", e.want.Key, "err", err)
		return http.StatusServiceUnavailable, nil
	}
	answer, err := json.Marshal(map[string]string{"challenge": challenge})
	if err != nil {
		return http.StatusBadRequest, nil
	}
	return http.StatusOK, answer
}

func (s *Subscriber) take(ctx context.Context, e *entry, d *delivery) (int, []byte) {
	var err error
	switch d.Type {
	case "":
		event, bad := d.event(e.want.Name, mcpevents.Webhook)
		if bad != nil {
			return http.StatusBadRequest, nil
		}
		err = s.accept(ctx, e, event, d.Cursor)
	case "gap":
		if err = s.moved(ctx, e, d.Cursor); err == nil {
			s.gap(e.want.Key)
		}
	case "terminated":
		err = s.terminated(ctx, e, d)
	default: // a kind of message from the future
	}
	if err != nil {
		s.log.Warn("webhook not taken", "subscription", e.want.Key, "err", err)
		return http.StatusServiceUnavailable, nil
	}
	return http.StatusNoContent, nil
}

// terminated stops a subscription that the server withdrew, and begins again one whose event type changed.
func (s *Subscriber) terminated(ctx context.Context, e *entry, d *delivery) error {
	meaning := mcpevents.Internal
	reason := "terminated by the server"
	if d.Error != nil {
		meaning, reason = mcpevents.MeaningOf(d.Error.Code), mcpevents.MeaningOf(d.Error.Code).String()
	}
	err := s.change(ctx, e, func(r *Record) { r.State, r.Reason, r.ID = Pending, reason, "" })
	if err != nil {
		return err
	}
	if meaning == mcpevents.Forbidden {
		s.stop(ctx, e, reason)
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.cancel != nil {
			e.cancel()
		}
		return nil
	}
	e.wake()
	return nil
}
