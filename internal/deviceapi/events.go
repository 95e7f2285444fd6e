package deviceapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/web"
)

// subscriptions is the answer of GET /v1/device/events.
type subscriptions struct {
	RestrictedTo  []string       `json:"restrictedTo"`
	Subscriptions []subscription `json:"subscriptions"`
}

type subscription struct {
	ID        string        `json:"id"`
	Event     string        `json:"event"`
	Host      string        `json:"host"` // no path, port or secret
	Key       subscribedKey `json:"key"`
	CreatedAt string        `json:"createdAt"`
	Pending   int           `json:"pending"`
	LastError string        `json:"lastError,omitempty"` // ours
}

type subscribedKey struct {
	ID          relay.KeyID `json:"id"`
	Name        string      `json:"name"`
	DisplayName string      `json:"displayName,omitempty"`
}

func (a *API) events(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	list, err := a.Events.List(r.Context(), p.Mailbox, now)
	if err != nil {
		return err
	}
	out := subscriptions{append([]string{}, a.Events.Hosts()...), []subscription{}}
	for _, s := range list {
		host, _, _ := strings.Cut(s.Host, ":")
		out.Subscriptions = append(out.Subscriptions, subscription{ID: s.ID, Event: s.Event, Host: host,
			Key: subscribedKey{s.Key.ID, s.Key.Name, s.Key.DisplayName}, CreatedAt: relay.Timestamp(s.CreatedAt),
			Pending: s.Pending, LastError: s.LastError})
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// removed is the answer of DELETE /v1/device/events/subscriptions/{id}.
type removed struct {
	Removed bool   `json:"removed"`
	ID      string `json:"id"`
}

func (a *API) endSubscription(w http.ResponseWriter, r *http.Request, p credential.Principal, _ time.Time) error {
	id := r.PathValue("id")
	digits, is := strings.CutPrefix(id, "sub_")
	if !is || len(digits) != 20 || !relay.IsHex(digits) {
		return noSuchEndpoint()
	}
	if err := a.Events.End(r.Context(), p.Mailbox, id); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, removed{true, id})
}
