package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Health is what a relay says of itself to anybody.
type Health struct {
	OK      bool   `json:"ok"`
	Service string `json:"service"`
	Bundle  string `json:"bundle,omitzero"`
	Dev     bool   `json:"dev,omitzero"`
}

// Health asks whether a relay answers at the address. date is what the answer says the time is; zero when it does not.
func (r *Relay) Health(ctx context.Context) (out Health, date time.Time, err error) {
	err = r.do(ctx, call{method: http.MethodGet, path: "/health", repeatable: true, date: &date}, &out)
	return out, date, err
}

// PairingCode is typed on the device that is to be paired. It works once.
type PairingCode struct {
	Code             string `json:"code"`
	ExpiresInSeconds int    `json:"expiresInSeconds"`
}

type deviceName struct {
	DeviceName string `json:"deviceName,omitzero"`
}

// StartPairing asks for a code. secret is the relay's pairing secret, "" when it has none.
func (r *Relay) StartPairing(ctx context.Context, secret, name string) (out PairingCode, err error) {
	c := call{method: http.MethodPost, path: "/v1/pair/start", body: deviceName{name}}
	if secret != "" {
		c.header = http.Header{"X-Pairing-Secret": {secret}}
	}
	err = r.do(ctx, c, &out)
	return out, err
}

// Paired is what a device gets for a code. Token is shown this once.
type Paired struct {
	DeviceID string `json:"deviceId"`
	Token    string `json:"deviceToken"`
}

// Pair exchanges a code. It is tried once: the code works once.
func (r *Relay) Pair(ctx context.Context, code, name string) (out Paired, err error) {
	body := struct {
		Code string `json:"code"`
		deviceName
	}{code, deviceName{name}}
	err = r.do(ctx, call{method: http.MethodPost, path: "/v1/pair", body: body}, &out)
	return out, err
}

// Device is a relay spoken to with a device token.
type Device struct {
	relay *Relay
	token string
}

// Device binds a device token, hrd_.
func (r *Relay) Device(token string) *Device { return &Device{r, token} }

func (d *Device) get(ctx context.Context, path string, out any) error {
	return d.relay.do(ctx, call{method: http.MethodGet, path: path, token: d.token, repeatable: true}, out)
}

// read returns an answer as the relay wrote it, without blanks, for programs that pass it on whole.
func (d *Device) read(ctx context.Context, path string) (jsontext.Value, error) {
	var raw jsontext.Value
	err := d.get(ctx, path, &raw)
	if err == nil {
		err = raw.Compact()
	}
	return raw, err
}

// UsageJSON is Usage as the relay wrote it.
func (d *Device) UsageJSON(ctx context.Context) (jsontext.Value, error) {
	return d.read(ctx, "/v1/device/usage")
}

// KeysJSON is the list of keys as the relay wrote it.
func (d *Device) KeysJSON(ctx context.Context) (jsontext.Value, error) {
	return d.read(ctx, "/v1/device/keys")
}

// delete is tried once: of most things a second removal is refused, which would hide that the first succeeded.
func (d *Device) delete(ctx context.Context, path string, query url.Values) error {
	return d.relay.do(ctx, call{method: http.MethodDelete, path: path, query: query, token: d.token}, nil)
}

// Info sums up the mailbox.
type Info struct {
	Online     bool      `json:"online"`
	LastSeenAt time.Time `json:"lastSeenAt,omitzero"`
	Pending    int64     `json:"pending"` // notifications that wait for a device
	QuietHours Quiet     `json:"quietHours"`
	Keys       int       `json:"keys"` // active ones
}

// Info reads the mailbox's summary.
func (d *Device) Info(ctx context.Context) (out Info, err error) {
	err = d.get(ctx, "/v1/device/info", &out)
	return out, err
}

// Usage is what the mailbox used of its allowances on a UTC day.
type Usage struct {
	Day             string      `json:"day"`
	Requests        int64       `json:"requests"`
	WSMessages      int64       `json:"wsMessages"`
	Notifications   int64       `json:"notifications"`
	PollSeconds     int64       `json:"pollSeconds"`
	AudioUploads    int64       `json:"audioUploads"`
	AudioBytes      int64       `json:"audioBytes"`
	Queued          int64       `json:"queued"`
	StorageBytes    int64       `json:"storageBytes"`
	Limits          UsageLimits `json:"limits"`
	RequestsPercent int64       `json:"requestsPercent"`
	BudgetExhausted bool        `json:"budgetExhausted"`
}

// UsageLimits are the allowances that Usage counts against.
type UsageLimits struct {
	AudioUploadsPerDay     int64 `json:"audioUploadsPerDay"`
	AudioBytesPerDay       int64 `json:"audioBytesPerDay"`
	RequestsPerDay         int64 `json:"requestsPerDay"`
	FreePlanRequestsPerDay int64 `json:"freePlanRequestsPerDay"`
	NotificationsPerDay    int64 `json:"notificationsPerDay"`
	PollSecondsPerDay      int64 `json:"pollSecondsPerDay"`
	QueueMax               int64 `json:"queueMax"`
}

// Usage reads today's use.
func (d *Device) Usage(ctx context.Context) (out Usage, err error) {
	err = d.get(ctx, "/v1/device/usage", &out)
	return out, err
}

// State is what a device says of itself. The relay stores it whole.
type State struct {
	QuietActive bool   `json:"quietActive"`
	QuietUntil  string `json:"quietUntil,omitzero"` // an instant, shown to agents as it is
	Muted       bool   `json:"muted"`
}

// SetState stores what the device says of itself, where no stream is open to say it.
func (d *Device) SetState(ctx context.Context, s State) error {
	return d.relay.do(ctx, call{method: http.MethodPost, path: "/v1/device/status", token: d.token, body: s, repeatable: true}, nil)
}

// Report is one fact about a notification (contract section 6.3). All of them may be repeated: the first time counts.
type Report struct {
	ID              string   `json:"id"`   // the relay's, r_…
	Kind            string   `json:"kind"` // displayed, spoken, replied, suppressed
	Text            string   `json:"text,omitzero"`
	Transcript      string   `json:"transcript,omitzero"`
	DurationSeconds *float64 `json:"durationSeconds,omitzero"`
	Reason          string   `json:"reason,omitzero"` // suppressed: muted, quiet-hours, delivery-failed, …
	Scope           string   `json:"scope,omitzero"`  // suppressed: all or speech
}

// Kinds of reports.
const (
	Displayed  = "displayed"
	Spoken     = "spoken"
	Replied    = "replied"
	Suppressed = "suppressed"
)

// Report records a fact; when it returns without error the relay has stored it.
func (d *Device) Report(ctx context.Context, r Report) error {
	return d.relay.do(ctx, call{method: http.MethodPost, path: "/v1/device/receipt", token: d.token, body: r, repeatable: true}, nil)
}

// Reply answers a notification. A reply that came first from elsewhere stays, and the relay does not say so here: it
// sends a Replied frame to the other devices.
func (d *Device) Reply(ctx context.Context, r Report) error {
	body := r
	body.Kind = Replied
	return d.relay.do(ctx, call{method: http.MethodPost, path: "/v1/device/reply", token: d.token, body: body, repeatable: true}, nil)
}

// UploadClip stores the voice of a reply, before the reply itself. kind is its media type.
func (d *Device) UploadClip(ctx context.Context, id, kind string, clip []byte) error {
	return d.relay.do(ctx, call{
		method: http.MethodPut, path: "/v1/device/reply/" + url.PathEscape(id) + "/audio",
		token: d.token, raw: clip, kind: kind, repeatable: true, within: 2 * time.Minute,
	}, nil)
}

// Key is an agent's right to use the mailbox.
type Key struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Client      string    `json:"client"` // claude, codex, other
	Scope       string    `json:"scope"`
	Kind        string    `json:"kind"` // static, or oauth for a connector
	DisplayName string    `json:"displayName,omitzero"`
	Key         string    `json:"key,omitzero"` // the secret, on creation only
	CreatedAt   time.Time `json:"createdAt"`
	LastUsedAt  time.Time `json:"lastUsedAt,omitzero"`
	RevokedAt   time.Time `json:"revokedAt,omitzero"`
}

// Active reports whether the key still works.
func (k Key) Active() bool { return k.RevokedAt.IsZero() }

// Keys lists the keys, oldest first, revoked ones included.
func (d *Device) Keys(ctx context.Context) ([]Key, error) {
	var out struct {
		Keys []Key `json:"keys"`
	}
	err := d.get(ctx, "/v1/device/keys", &out)
	return out.Keys, err
}

// CreateKey makes a key. It is tried once; client "" means other.
func (d *Device) CreateKey(ctx context.Context, name, client string) (out Key, err error) {
	body := struct {
		Name   string `json:"name"`
		Client string `json:"client,omitzero"`
	}{name, client}
	err = d.relay.do(ctx, call{method: http.MethodPost, path: "/v1/device/keys", token: d.token, body: body}, &out)
	return out, err
}

// RevokeKey ends a key at once. purge also removes it from the list, with everything it sent.
func (d *Device) RevokeKey(ctx context.Context, id string, purge bool) error {
	var query url.Values
	if purge {
		query = url.Values{"purge": {"1"}}
	}
	return d.delete(ctx, "/v1/device/keys/"+url.PathEscape(id), query)
}

// Mailbox is one row of the device list: each pairing of the same person.
type Mailbox struct {
	ID              string    `json:"id"`
	Name            string    `json:"name"`
	Online          bool      `json:"online"`
	LastSeenAt      time.Time `json:"lastSeenAt"`
	CreatedAt       time.Time `json:"createdAt"`
	ThisDevice      bool      `json:"thisDevice"`
	Removable       bool      `json:"removable"`
	RemovableReason string    `json:"removableReason,omitzero"` // same_name, credentials_rotated, idle
}

// Mailboxes is the device list, and what was removed from it.
type Mailboxes struct {
	Removed []string  `json:"removed"`
	Devices []Mailbox `json:"devices"`
}

// Mailboxes lists the person's pairings, oldest first.
func (d *Device) Mailboxes(ctx context.Context) (out Mailboxes, err error) {
	err = d.get(ctx, "/v1/device/devices", &out)
	return out, err
}

// Prune drops pairings that have the same name, lost their credentials, or were idle for 30 days.
func (d *Device) Prune(ctx context.Context) (out Mailboxes, err error) {
	err = d.relay.do(ctx, call{method: http.MethodPost, path: "/v1/device/prune", token: d.token, repeatable: true}, &out)
	return out, err
}

// RemoveMailbox drops another, removable pairing.
func (d *Device) RemoveMailbox(ctx context.Context, id string) error {
	return d.delete(ctx, "/v1/device/devices/"+url.PathEscape(id), nil)
}

// Unpair ends this device. The owner of the mailbox takes it along with everything in it.
func (d *Device) Unpair(ctx context.Context) error { return d.delete(ctx, "/v1/device", nil) }

// Link is one device of this mailbox.
type Link struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Owner      bool      `json:"owner"`
	Online     bool      `json:"online"`
	LastSeenAt time.Time `json:"lastSeenAt"`
	CreatedAt  time.Time `json:"createdAt"`
	ThisDevice bool      `json:"thisDevice"`
}

// Links lists the devices of this mailbox, the owner first.
func (d *Device) Links(ctx context.Context) ([]Link, error) {
	var out struct {
		Links []Link `json:"links"`
	}
	err := d.get(ctx, "/v1/device/links", &out)
	return out.Links, err
}

// StartLink asks for a code that pairs one more device with this mailbox.
func (d *Device) StartLink(ctx context.Context, name string) (out PairingCode, err error) {
	err = d.relay.do(ctx, call{method: http.MethodPost, path: "/v1/device/links", token: d.token, body: deviceName{name}}, &out)
	return out, err
}

// Unlink ends another device of this mailbox.
func (d *Device) Unlink(ctx context.Context, id string) error {
	return d.delete(ctx, "/v1/device/links/"+url.PathEscape(id), nil)
}
