package client

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestDeviceRequests(t *testing.T) {
	at := time.Date(2026, 10, 1, 9, 30, 0, 0, time.UTC)
	const ok = `{"ok":true}`
	const subscriptions = `{"restrictedTo":[],"subscriptions":[{"id":"sub_3fa91c0de27b45a6d118","event":"notification.reply","host":"agent.example.com","key":{"id":"4e5f6a7b","name":"chatgpt","displayName":"ChatGPT"},"createdAt":"2026-10-02T08:05:00.000Z","pending":0}]}`
	seconds := 2.5
	for _, c := range []struct {
		name string
		x    exchange
		call func(context.Context, *Device) (any, error)
		want any
	}{
		{"info", exchange{method: "GET", path: "/v1/device/info", answer: `{"online":true,"pending":2,"quietHours":{"active":true,"until":"07:00"},"keys":3}`},
			func(ctx context.Context, d *Device) (any, error) { return d.Info(ctx) },
			Info{Online: true, Pending: 2, QuietHours: Quiet{true, "07:00"}, Keys: 3}},
		{"usage", exchange{method: "GET", path: "/v1/device/usage", answer: `{"day":"2026-10-01","requests":5,"limits":{"queueMax":100},"requestsPercent":1}`},
			func(ctx context.Context, d *Device) (any, error) { return d.Usage(ctx) },
			Usage{Day: "2026-10-01", Requests: 5, Limits: UsageLimits{QueueMax: 100}, RequestsPercent: 1}},
		{"status", exchange{method: "POST", path: "/v1/device/status", body: `{"quietActive":true,"quietUntil":"x","muted":false}`, answer: ok},
			func(ctx context.Context, d *Device) (any, error) {
				return nil, d.SetState(ctx, State{QuietActive: true, QuietUntil: "x"})
			}, nil},
		{"receipt", exchange{method: "POST", path: "/v1/device/receipt", body: `{"id":"r_1","kind":"suppressed","reason":"muted","scope":"all"}`, answer: ok},
			func(ctx context.Context, d *Device) (any, error) {
				return nil, d.Report(ctx, Report{ID: "r_1", Kind: Suppressed, Reason: "muted", Scope: "all"})
			}, nil},
		{"reply", exchange{method: "POST", path: "/v1/device/reply", body: `{"id":"r_1","kind":"replied","text":"a","transcript":"b","durationSeconds":2.5}`, answer: ok},
			func(ctx context.Context, d *Device) (any, error) {
				return nil, d.Reply(ctx, Report{ID: "r_1", Text: "a", Transcript: "b", DurationSeconds: &seconds})
			}, nil},
		{"clip", exchange{method: "PUT", path: "/v1/device/reply/r_1/audio", body: "\x00clip", header: map[string]string{"Content-Type": "audio/mp4"}, answer: `{"ok":true,"bytes":5}`},
			func(ctx context.Context, d *Device) (any, error) {
				return nil, d.UploadClip(ctx, "r_1", "audio/mp4", []byte("\x00clip"))
			}, nil},
		{"keys", exchange{method: "GET", path: "/v1/device/keys", answer: `{"keys":[{"id":"0a1b2c3d","name":"n","client":"claude","scope":"notify","kind":"static","createdAt":"2026-10-01T09:30:00.000Z"}]}`},
			func(ctx context.Context, d *Device) (any, error) { return d.Keys(ctx) },
			[]Key{{ID: "0a1b2c3d", Name: "n", Client: "claude", Scope: "notify", Kind: "static", CreatedAt: at}}},
		{"new key", exchange{method: "POST", path: "/v1/device/keys", body: `{"name":"n"}`, answer: `{"id":"0a1b2c3d","key":"hrk_x","createdAt":"2026-10-01T09:30:00.000Z"}`},
			func(ctx context.Context, d *Device) (any, error) { return d.CreateKey(ctx, "n", "") },
			Key{ID: "0a1b2c3d", Key: "hrk_x", CreatedAt: at}},
		{"revoke", exchange{method: "DELETE", path: "/v1/device/keys/0a1b2c3d", answer: `{"revoked":true}`},
			func(ctx context.Context, d *Device) (any, error) { return nil, d.RevokeKey(ctx, "0a1b2c3d", false) }, nil},
		{"purge", exchange{method: "DELETE", path: "/v1/device/keys/0a1b2c3d?purge=1", answer: `{"revoked":true,"purged":true}`},
			func(ctx context.Context, d *Device) (any, error) { return nil, d.RevokeKey(ctx, "0a1b2c3d", true) }, nil},
		{"device list", exchange{method: "GET", path: "/v1/device/devices", answer: `{"removed":[],"devices":[{"id":"a","name":null,"lastSeenAt":null,"createdAt":"2026-10-01T09:30:00.000Z","thisDevice":true}]}`},
			func(ctx context.Context, d *Device) (any, error) { return d.Mailboxes(ctx) },
			Mailboxes{Removed: []string{}, Devices: []Mailbox{{ID: "a", CreatedAt: at, ThisDevice: true}}}},
		{"prune", exchange{method: "POST", path: "/v1/device/prune", answer: `{"removed":["b"],"devices":[]}`},
			func(ctx context.Context, d *Device) (any, error) { return d.Prune(ctx) },
			Mailboxes{Removed: []string{"b"}, Devices: []Mailbox{}}},
		{"remove", exchange{method: "DELETE", path: "/v1/device/devices/b", answer: `{"removed":["b"]}`},
			func(ctx context.Context, d *Device) (any, error) { return nil, d.RemoveMailbox(ctx, "b") }, nil},
		{"unpair", exchange{method: "DELETE", path: "/v1/device", answer: `{"unpaired":true}`},
			func(ctx context.Context, d *Device) (any, error) { return nil, d.Unpair(ctx) }, nil},
		{"links", exchange{method: "GET", path: "/v1/device/links", answer: `{"links":[{"id":"l","name":"phone","owner":true,"createdAt":"2026-10-01T09:30:00.000Z"}]}`},
			func(ctx context.Context, d *Device) (any, error) { return d.Links(ctx) },
			[]Link{{ID: "l", Name: "phone", Owner: true, CreatedAt: at}}},
		{"new link", exchange{method: "POST", path: "/v1/device/links", body: `{"deviceName":"phone"}`, answer: `{"code":"ABCD-EFGH","expiresInSeconds":600}`},
			func(ctx context.Context, d *Device) (any, error) { return d.StartLink(ctx, "phone") },
			PairingCode{"ABCD-EFGH", 600}},
		{"unlink", exchange{method: "DELETE", path: "/v1/device/links/l", answer: `{"unlinked":true,"id":"l"}`},
			func(ctx context.Context, d *Device) (any, error) { return nil, d.Unlink(ctx, "l") }, nil},
		{"subscriptions", exchange{method: "GET", path: "/v1/device/events", answer: subscriptions},
			func(ctx context.Context, d *Device) (any, error) { return d.EventSubscriptions(ctx) }, jsontext.Value(subscriptions)},
		{"end of one", exchange{method: "DELETE", path: "/v1/device/events/subscriptions/sub_3fa91c0de27b45a6d118", answer: `{"removed":true}`},
			func(ctx context.Context, d *Device) (any, error) {
				return nil, d.EndSubscription(ctx, "sub_3fa91c0de27b45a6d118")
			}, nil},
		{"usage as it is", exchange{method: "GET", path: "/v1/device/usage", answer: ` { "later" : 1 } `},
			func(ctx context.Context, d *Device) (any, error) { return d.UsageJSON(ctx) }, jsontext.Value(`{"later":1}`)},
		{"keys as they are", exchange{method: "GET", path: "/v1/device/keys", answer: `{"keys":[]}`},
			func(ctx context.Context, d *Device) (any, error) { return d.KeysJSON(ctx) }, jsontext.Value(`{"keys":[]}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.x.token, c.x.status = token, 200
			got, err := c.call(t.Context(), fake(t, c.x).Device(token))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPairingStartsWithTheSecretInItsHeader(t *testing.T) {
	for _, secret := range []string{"", "correct horse"} {
		x := exchange{method: "POST", path: "/v1/pair/start", body: `{"deviceName":"desk"}`, status: 201,
			answer: `{"code":"ABCD-EFGH","expiresInSeconds":600}`, header: map[string]string{"X-Pairing-Secret": secret}}
		got, err := fake(t, x).StartPairing(t.Context(), secret, "desk")
		if err != nil || got != (PairingCode{"ABCD-EFGH", 600}) {
			t.Errorf("StartPairing = %+v, %v", got, err)
		}
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	x := exchange{method: "GET", path: "/v1/device/info", token: token, drop: true}
	_, err := fake(t, x, x, x).Device(token).Info(t.Context())
	if err == nil || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "/v1/") {
		t.Errorf("error = %v", err)
	}
}
