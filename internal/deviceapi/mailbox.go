package deviceapi

import (
	"math"
	"net/http"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/mailbox"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/strictjson"
	"github.com/herald-relay/herald/internal/web"
)

type quietBody struct {
	Active bool   `json:"active"`
	Until  string `json:"until,omitempty"`
}

type infoBody struct {
	Online     bool      `json:"online"`
	LastSeenAt string    `json:"lastSeenAt,omitempty"`
	Pending    int64     `json:"pending"`
	QuietHours quietBody `json:"quietHours"`
	Keys       int       `json:"keys"`
}

func (a *API) info(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	o, err := a.Mailbox.Overview(r.Context(), p.Mailbox, now)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, infoBody{
		Online: o.Online, LastSeenAt: optionalTime(o.LastSeenAt), Pending: o.Waiting,
		QuietHours: quietBody{o.State.QuietActive, o.State.QuietUntil}, Keys: o.ActiveKeys,
	})
}

type limitsBody struct {
	AudioUploadsPerDay     int64 `json:"audioUploadsPerDay"`
	AudioBytesPerDay       int64 `json:"audioBytesPerDay"`
	RequestsPerDay         int64 `json:"requestsPerDay"`
	FreePlanRequestsPerDay int64 `json:"freePlanRequestsPerDay"`
	NotificationsPerDay    int   `json:"notificationsPerDay"`
	PollSecondsPerDay      int64 `json:"pollSecondsPerDay"`
	QueueMax               int   `json:"queueMax"`
}

type usageBody struct {
	Day             string     `json:"day"`
	Requests        int64      `json:"requests"`
	WSMessages      int64      `json:"wsMessages"`
	Notifications   int64      `json:"notifications"`
	PollSeconds     int64      `json:"pollSeconds"`
	AudioUploads    int64      `json:"audioUploads"`
	AudioBytes      int64      `json:"audioBytes"`
	Queued          int64      `json:"queued"`
	StorageBytes    int64      `json:"storageBytes"`
	Limits          limitsBody `json:"limits"`
	RequestsPercent int64      `json:"requestsPercent"`
	BudgetExhausted bool       `json:"budgetExhausted"`
}

// freePlanRequests is a figure of the original's hosting that apps show; it limits nothing here.
const freePlanRequests = 100_000

func (a *API) usage(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	u, err := a.Mailbox.Usage(r.Context(), p.Mailbox, now)
	if err != nil {
		return err
	}
	limits := a.Mailbox.Limits
	return web.WriteJSON(w, http.StatusOK, usageBody{
		Day: u.Day, Requests: u.Requests, WSMessages: u.WSMessages, Notifications: u.Notifications,
		PollSeconds: u.PollSeconds, AudioUploads: u.AudioUploads, AudioBytes: u.AudioBytes,
		Queued: u.Waiting, StorageBytes: u.StorageBytes, Limits: limitsOf(limits),
		RequestsPercent: int64(math.Round(100 * float64(u.Requests) / float64(limits.RequestsPerDay))),
		BudgetExhausted: u.Requests >= limits.RequestsPerDay,
	})
}

func limitsOf(l mailbox.Limits) limitsBody {
	return limitsBody{
		AudioUploadsPerDay: l.ClipsPerDay, AudioBytesPerDay: l.ClipBytesPerDay,
		RequestsPerDay: l.RequestsPerDay, FreePlanRequestsPerDay: freePlanRequests,
		NotificationsPerDay: l.Admission.PerDay, PollSecondsPerDay: l.PollSecondsPerDay, QueueMax: l.Admission.Queue,
	}
}

type keyBody struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Client      string `json:"client"`
	Scope       string `json:"scope"`
	Kind        string `json:"kind"`
	DisplayName string `json:"displayName,omitempty"`
	Key         string `json:"key,omitempty"` // on creation only
	CreatedAt   string `json:"createdAt"`
	LastUsedAt  string `json:"lastUsedAt,omitempty"`
	RevokedAt   string `json:"revokedAt,omitempty"`
}

func keyOf(k relay.Key) keyBody {
	return keyBody{
		ID: string(k.ID), Name: k.Name, Client: k.Client, Scope: k.Scope, Kind: k.Kind, DisplayName: k.DisplayName,
		CreatedAt: relay.Timestamp(k.CreatedAt), LastUsedAt: optionalTime(k.LastUsedAt), RevokedAt: optionalTime(k.RevokedAt),
	}
}

type keysBody struct {
	Keys []keyBody `json:"keys"`
}

func (a *API) keys(w http.ResponseWriter, r *http.Request, p credential.Principal, _ time.Time) error {
	list, err := a.Mailbox.Keys(r.Context(), p.Mailbox)
	if err != nil {
		return err
	}
	out := keysBody{Keys: make([]keyBody, 0, len(list))}
	for _, k := range list {
		out.Keys = append(out.Keys, keyOf(k))
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

func (a *API) createKey(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	if err := web.RequireJSON(r); err != nil {
		return err
	}
	data, err := web.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	v, err := strictjson.ParseObject(data)
	if err != nil {
		return err
	}
	in, err := keyRequest(v)
	if err != nil {
		return err
	}
	k, secret, err := a.Mailbox.CreateKey(r.Context(), p.Mailbox, in, now)
	if err != nil {
		return err
	}
	body := keyOf(k)
	body.Key = secret
	return web.WriteJSON(w, http.StatusCreated, body)
}

// keyRequest judges the scope whole before the name and the client, as the contract's section 6.6 orders.
func keyRequest(v strictjson.Value) (in mailbox.KeyRequest, err error) {
	if err = v.RefuseUnknown([]string{"name", "client", "scope"}); err != nil {
		return in, err
	}
	if scope, found := v.Text("scope"); found != strictjson.Absent {
		if err = mailbox.CheckScope(scope); err != nil {
			return in, err
		}
	}
	if in.Name, err = v.OptionalText("name"); err != nil {
		return in, err
	}
	in.Client, err = v.OptionalText("client")
	return in, err
}

type revokedBody struct {
	Revoked bool   `json:"revoked"`
	ID      string `json:"id"`
	Purged  bool   `json:"purged,omitzero"`
}

func (a *API) revokeKey(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	id, ok := relay.ParseKeyID(r.PathValue("id"))
	if !ok {
		return noSuchEndpoint()
	}
	purge := r.URL.Query().Get("purge") == "1"
	if err := a.Mailbox.RevokeKey(r.Context(), p.Mailbox, id, purge, p.Device, now); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, revokedBody{true, string(id), purge})
}

func optionalTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return relay.Timestamp(t)
}
