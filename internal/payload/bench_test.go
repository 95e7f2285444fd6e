package payload_test

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/strictjson"
)

const maxBody = 32 << 10

// typical is a notification as an agent at work sends it: 370 bytes.
const typical = `{"title":"Build finished","subtitle":"main · 3f2c9e1","body":"All 214 tests passed on main after 6 minutes and ` +
	`12 seconds. Deploy to production now?","project":"herald","session":"s-20261002-1","task":"release 1.4",` +
	`"status":"success","priority":"high","tags":["ci","main"],"expectReply":true,"timeoutSeconds":120,` +
	`"notificationId":"build-214","speak":{"text":"Build done."}}`

func BenchmarkParse(b *testing.B) {
	b.SetBytes(int64(len(typical)))
	in := []byte(typical)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := payload.Parse(in, maxBody); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUnmarshalOnly is the yardstick: go-json-experiment reading the same bytes into a struct, with nothing
// checked and nothing written.
func BenchmarkUnmarshalOnly(b *testing.B) {
	type notify struct {
		Title          string   `json:"title"`
		Subtitle       string   `json:"subtitle"`
		Body           string   `json:"body"`
		Project        string   `json:"project"`
		Session        string   `json:"session"`
		Task           string   `json:"task"`
		Status         string   `json:"status"`
		Priority       string   `json:"priority"`
		Tags           []string `json:"tags"`
		ExpectReply    bool     `json:"expectReply"`
		TimeoutSeconds float64  `json:"timeoutSeconds"`
		NotificationID string   `json:"notificationId"`
		Speak          struct {
			Text string `json:"text"`
		} `json:"speak"`
	}
	b.SetBytes(int64(len(typical)))
	in := []byte(typical)
	b.ReportAllocs()
	for b.Loop() {
		var n notify
		if err := json.Unmarshal(in, &n, json.RejectUnknownMembers(true)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTree(b *testing.B) {
	in := []byte(typical)
	b.ReportAllocs()
	for b.Loop() {
		if err := strictjson.WithObject(in, func(strictjson.Value) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
