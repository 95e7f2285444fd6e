package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Consent is an app's request to become a connector of the mailbox.
type Consent struct {
	ID           string    `json:"id"` // 72 hex digits
	ClientID     string    `json:"clientId"`
	ClientName   string    `json:"clientName"`   // what the app calls itself; proves nothing
	RedirectHost string    `json:"redirectHost"` // where its browser goes afterwards, "" in the device flow
	Scope        string    `json:"scope"`
	Code         string    `json:"code"`   // six digits that approve on the app's page; for the person's eyes only
	Status       string    `json:"status"` // pending, approved, denied, superseded
	CreatedAt    time.Time `json:"createdAt"`
	ExpiresAt    time.Time `json:"expiresAt"`
	Flow         string    `json:"flow"`              // code or device
	UserCode     string    `json:"userCode,omitzero"` // device flow: what the app must show
}

// Asked is a frame: an app asks for approval, or asks again with fresh codes.
type Asked struct {
	Consent
	// Redelivered says that this device was shown the request before, on an earlier stream.
	Redelivered bool `json:"redelivered,omitzero"`
}

// Resolved is a frame: a request waits no longer.
type Resolved struct {
	ID     string `json:"id"`
	Status string `json:"status"` // approved, denied, superseded, expired
}

func (Asked) frame()    {}
func (Resolved) frame() {}

// Consents lists the requests of the last day, newest first, at most 20.
func (d *Device) Consents(ctx context.Context) ([]Consent, error) {
	var out struct {
		Consents []Consent `json:"consents"`
	}
	err := d.get(ctx, "/v1/device/consents", &out)
	return out.Consents, err
}

// Decide approves or denies a request. It is tried once: a second try would be refused as decided already. The result is
// the status, and where the app's browser is sent, if it came by one.
func (d *Device) Decide(ctx context.Context, id string, approve bool) (status, redirect string, err error) {
	decision := "deny"
	if approve {
		decision = "approve"
	}
	body := struct {
		ID       string `json:"id"`
		Decision string `json:"decision"`
	}{id, decision}
	var out struct {
		Status   string `json:"status"`
		Redirect string `json:"redirect"`
	}
	err = d.relay.do(ctx, call{method: http.MethodPost, path: "/v1/device/consent", token: d.token, body: body}, &out)
	return out.Status, out.Redirect, err
}

// Connector is an app that was approved and is not revoked.
type Connector struct {
	ID          string    `json:"id"` // of its key
	Name        string    `json:"name"`
	DisplayName string    `json:"displayName"`
	ClientID    string    `json:"clientId"`
	Scope       string    `json:"scope"`
	Tokens      int       `json:"tokens"` // access tokens that work
	CreatedAt   time.Time `json:"createdAt"`
	LastUsedAt  time.Time `json:"lastUsedAt,omitzero"`
}

// Connectors lists them, oldest first.
func (d *Device) Connectors(ctx context.Context) ([]Connector, error) {
	var out struct {
		Connectors []Connector `json:"connectors"`
	}
	err := d.get(ctx, "/v1/device/connectors", &out)
	return out.Connectors, err
}

// RevokeConnector ends one at once, with its tokens and subscriptions.
func (d *Device) RevokeConnector(ctx context.Context, id string) error {
	return d.delete(ctx, "/v1/device/connectors/"+url.PathEscape(id), nil)
}

// AuditEntry is one decision about a connector.
type AuditEntry struct {
	At         time.Time `json:"at"`
	Mailbox    string    `json:"deviceId"`
	Action     string    `json:"action"` // approved, denied, superseded, expired, revoked
	ClientID   string    `json:"clientId"`
	ClientName string    `json:"clientName"`
	ConsentID  string    `json:"consentId,omitzero"`
	KeyID      string    `json:"keyId,omitzero"`
	By         string    `json:"by"` // a device's id, page, client or relay
}

// Audit lists up to limit decisions of the mailbox's person, newest first.
func (d *Device) Audit(ctx context.Context, limit int) ([]AuditEntry, error) {
	var out struct {
		Entries []AuditEntry `json:"entries"`
	}
	err := d.relay.do(ctx, call{method: http.MethodGet, path: "/v1/device/audit", query: url.Values{"limit": {strconv.Itoa(limit)}}, token: d.token, repeatable: true}, &out)
	return out.Entries, err
}

// EventSubscriptions lists who is called when the person replies (contract section 6.8). The answer is the relay's own
// JSON: restrictedTo and subscriptions.
func (d *Device) EventSubscriptions(ctx context.Context) (jsontext.Value, error) {
	return d.read(ctx, "/v1/device/events")
}

// EndSubscription ends one and drops what waits for it. It may be repeated: ending what is not there succeeds.
func (d *Device) EndSubscription(ctx context.Context, id string) error {
	c := call{method: http.MethodDelete, path: "/v1/device/events/subscriptions/" + url.PathEscape(id), token: d.token, repeatable: true}
	return d.relay.do(ctx, c, nil)
}
