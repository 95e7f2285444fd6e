package local

import (
	"context"
	"encoding/hex"
	"errors"
	"regexp"
	"time"

	"crypto/rand"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/client"
)

// Problem is why there is no answer, for programs and for those who read what they say.
type Problem struct {
	Code    string   `json:"error"`
	Message string   `json:"message"`
	Fields  []string `json:"fields,omitzero"`
	Hint    string   `json:"hint,omitzero"`
	// RetryAfterSeconds is how long waiting would take to help.
	RetryAfterSeconds float64 `json:"retryAfterSeconds,omitzero"`
}

// Error is the message.
func (p *Problem) Error() string { return p.Message }

// Options say how the device is found. Both are required.
type Options struct {
	// Open finds the paired device; profile.ErrNone when there is none.
	Open func() (*client.Relay, profile.Profile, error)
	// Explain words an error; it keeps a *Problem as it is.
	Explain func(error) *Problem
}

// Local answers for this machine's device. It is safe for concurrent use.
type Local struct{ opt Options }

// New makes one.
func New(opt Options) *Local { return &Local{opt} }

// callWithin bounds one question, the relay's answer included.
const callWithin = 25 * time.Second

// instant is how the wire writes times.
const instant = "2006-01-02T15:04:05.000Z07:00"

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(instant)
}

func (l *Local) device() (*client.Device, profile.Profile, error) {
	r, p, err := l.opt.Open()
	if err != nil {
		return nil, p, err
	}
	return r.Device(p.Token), p, nil
}

// Status is how the device stands. The zero value is a machine that is not paired.
type Status struct {
	Paired bool `json:"paired"`
	// State is unpaired, online while a device of the mailbox is connected, offline while none is, or error.
	State      string        `json:"state"`
	Relay      string        `json:"relay,omitzero"`
	DeviceID   string        `json:"deviceId,omitzero"`
	DeviceName string        `json:"deviceName,omitzero"`
	LastSeenAt string        `json:"lastSeenAt,omitzero"`
	Pending    *int64        `json:"pending,omitzero"` // notifications that wait for a device
	QuietHours *client.Quiet `json:"quietHours,omitzero"`
	Keys       *int          `json:"keys,omitzero"` // active ones
	Problem    *Problem      `json:"problem,omitzero"`
}

// Status never fails: what is wrong is part of the answer.
func (l *Local) Status(ctx context.Context) Status {
	d, p, err := l.device()
	if errors.Is(err, profile.ErrNone) {
		return Status{State: "unpaired", Problem: l.opt.Explain(err)}
	}
	s := Status{Paired: err == nil, State: "error", Relay: p.Relay, DeviceID: p.DeviceID, DeviceName: p.Name}
	var info client.Info
	if err == nil {
		info, err = d.Info(ctx)
	}
	if err != nil {
		s.Problem = l.opt.Explain(err)
		return s
	}
	s.State = "offline"
	if info.Online {
		s.State = "online"
	}
	s.LastSeenAt, s.Pending, s.QuietHours, s.Keys = stamp(info.LastSeenAt), &info.Pending, &info.QuietHours, &info.Keys
	return s
}

// Usage is what the mailbox used of its allowances today, as the relay wrote it.
func (l *Local) Usage(ctx context.Context) (jsontext.Value, error) {
	return l.read(ctx, (*client.Device).UsageJSON)
}

// Keys lists agent keys and connectors, as the relay wrote it.
func (l *Local) Keys(ctx context.Context) (jsontext.Value, error) {
	return l.read(ctx, (*client.Device).KeysJSON)
}

// Events lists the reply subscriptions, as the relay wrote it.
func (l *Local) Events(ctx context.Context) (jsontext.Value, error) {
	return l.read(ctx, (*client.Device).EventSubscriptions)
}

func (l *Local) read(ctx context.Context, what func(*client.Device, context.Context) (jsontext.Value, error)) (jsontext.Value, error) {
	d, _, err := l.device()
	if err != nil {
		return nil, err
	}
	return what(d, ctx)
}

// Connectors are the apps that a person approved, and those that ask.
type Connectors struct {
	Connectors []Connector `json:"connectors"`
	Waiting    []Request   `json:"waiting"`
}

// Connector is an approved app.
type Connector struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Scope       string `json:"scope"`
	CreatedAt   string `json:"createdAt"`
	LastUsedAt  string `json:"lastUsedAt,omitzero"`
}

// Request is an app that waits for approval, without the digits that would approve it.
type Request struct {
	ClientName   string `json:"clientName"`
	RedirectHost string `json:"redirectHost"`
	Flow         string `json:"flow"`
	UserCode     string `json:"userCode,omitzero"`
	CreatedAt    string `json:"createdAt"`
	ExpiresAt    string `json:"expiresAt"`
}

// Connectors lists them from what every relay has: its keys and its requests.
func (l *Local) Connectors(ctx context.Context) (Connectors, error) {
	list := Connectors{[]Connector{}, []Request{}}
	d, _, err := l.device()
	if err != nil {
		return list, err
	}
	keys, err := d.Keys(ctx)
	if err != nil {
		return list, err
	}
	for _, k := range keys {
		if k.Kind == "oauth" && k.Active() {
			list.Connectors = append(list.Connectors, Connector{k.ID, k.Name, k.DisplayName, k.Scope, stamp(k.CreatedAt), stamp(k.LastUsedAt)})
		}
	}
	asked, err := d.Consents(ctx)
	if err != nil {
		return list, err
	}
	for _, q := range asked {
		if q.Status == "pending" {
			list.Waiting = append(list.Waiting, Request{q.ClientName, q.RedirectHost, q.Flow, q.UserCode, stamp(q.CreatedAt), stamp(q.ExpiresAt)})
		}
	}
	return list, nil
}

// Made is a new key. This is the only time that Key is shown.
type Made struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Client    string `json:"client"`
	Scope     string `json:"scope"`
	Kind      string `json:"kind"`
	Key       string `json:"key"`
	CreatedAt string `json:"createdAt"`
	Relay     string `json:"relay"` // the address to use it at
}

// CreateKey makes an agent key; kind "" means other.
func (l *Local) CreateKey(ctx context.Context, name, kind string) (Made, error) {
	d, p, err := l.device()
	if err != nil {
		return Made{}, err
	}
	k, err := d.CreateKey(ctx, name, kind)
	return Made{k.ID, k.Name, k.Client, k.Scope, k.Kind, k.Key, stamp(k.CreatedAt), p.Relay}, err
}

// Revoked tells which key ended.
type Revoked struct {
	Revoked bool   `json:"revoked"`
	ID      string `json:"id"`
	Purged  bool   `json:"purged,omitzero"`
}

var keyID = regexp.MustCompile(`^[0-9a-f]{8}$`)

// RevokeKey ends an agent key or a connector.
func (l *Local) RevokeKey(ctx context.Context, id string, purge bool) (Revoked, error) {
	if !keyID.MatchString(id) {
		return Revoked{}, malformed("id", "the id of a key has 8 hex digits")
	}
	d, _, err := l.device()
	if err == nil {
		err = d.RevokeKey(ctx, id, purge)
	}
	return Revoked{true, id, purge}, err
}

// Removed tells which subscription ended.
type Removed struct {
	Removed bool   `json:"removed"`
	ID      string `json:"id"`
}

var subscriptionID = regexp.MustCompile(`^sub_[0-9a-f]{20}$`)

// EndSubscription ends a reply subscription; one that is not there counts as ended.
func (l *Local) EndSubscription(ctx context.Context, id string) (Removed, error) {
	if !subscriptionID.MatchString(id) {
		return Removed{}, malformed("id", "the id of a subscription is sub_ and 20 hex digits")
	}
	d, _, err := l.device()
	if err == nil {
		err = d.EndSubscription(ctx, id)
	}
	return Removed{true, id}, err
}

func malformed(field, message string) *Problem {
	return &Problem{Code: "invalid_request", Message: message, Fields: []string{field}}
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
