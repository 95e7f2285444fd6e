package app_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/testkit"
)

// transcriptNote is what the relay says of every transcript.
const transcriptNote = "Transcribed on the person's device from speech; words may be wrong."

// clipLink computes a link to a clip from the words of the contract's section 2.8.
func clipLink(mailbox, id string, expires time.Time) string {
	exp := strconv.FormatInt(expires.Unix(), 10)
	h := hmac.New(sha256.New, []byte(testkit.Secret))
	h.Write([]byte("audio:" + mailbox + "/" + id + ".m4a:" + exp))
	return "/v1/audio/" + mailbox + "/" + id + ".m4a?exp=" + exp + "&sig=" + hex.EncodeToString(h.Sum(nil))
}

// clip is the smallest thing that passes for a recording.
const clip = "\x00\x00\x00\x18ftypM4A voice"

// report is one thing a device does with a notification, a second after the one before.
type report map[string]any

// TestReceiptsTellExactlyWhatHappened holds the contract's section 2.3: which members are there, and when.
func TestReceiptsTellExactlyWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent, stream := d.Agent("bot"), d.Stream()
		duration := 3.5
		tests := []struct {
			name    string
			sent    map[string]any
			reports []report
			want    map[string]any // beside what every receipt has; a number stands for seconds after the send
		}{
			{name: "queued", want: map[string]any{"queued": true}},
			{name: "a question", sent: map[string]any{"expectReply": true}, want: map[string]any{"queued": true, "expectReply": true}},
			{name: "acknowledged", reports: []report{{"type": "ack"}}},
			{name: "displayed", reports: []report{{"kind": "displayed"}}, want: map[string]any{"displayed": true, "displayedAt": 1}},
			{
				name: "displayed, then spoken", reports: []report{{"kind": "displayed"}, {"kind": "spoken"}, {"kind": "displayed"}},
				want: map[string]any{"displayed": true, "displayedAt": 1, "spoken": true, "spokenAt": 2},
			},
			{
				name: "answered in writing", reports: []report{{"kind": "displayed"}, {"kind": "replied", "text": " yes "}, {"kind": "replied", "text": "no"}},
				want: map[string]any{"displayed": true, "displayedAt": 1, "replied": true, "repliedAt": 2, "reply": "yes", "text": "yes"},
			},
			{
				name: "answered by voice, without a clip", reports: []report{{"kind": "replied", "transcript": "yes", "durationSeconds": duration}},
				want: map[string]any{"replied": true, "repliedAt": 1, "reply": "yes", "transcript": "yes", "transcriptNote": transcriptNote, "durationSeconds": duration},
			},
			{
				name: "answered by voice, with a clip", reports: []report{{"clip": clip}, {"kind": "replied", "transcript": "yes", "durationSeconds": 0}},
				want: map[string]any{
					"replied": true, "repliedAt": 2, "reply": "yes", "transcript": "yes", "transcriptNote": transcriptNote, "durationSeconds": 0.0,
					"audioUrl": true, "audioUrlExpiresInSeconds": 3600.0,
				},
			},
			{
				name: "a clip without words", reports: []report{{"clip": clip}, {"kind": "replied"}},
				want: map[string]any{"replied": true, "repliedAt": 2, "audioUrl": true, "audioUrlExpiresInSeconds": 3600.0},
			},
			{name: "a clip without a reply", reports: []report{{"clip": clip}}, want: map[string]any{"queued": true}},
			{
				name: "answered by voice, then in writing", reports: []report{{"kind": "replied", "transcript": "yes"}, {"kind": "replied", "text": "typed"}},
				want: map[string]any{
					"replied": true, "repliedAt": 1, "reply": "typed", "text": "typed", "transcript": "yes", "transcriptNote": transcriptNote,
				},
			},
			{
				name: "muted", reports: []report{{"kind": "suppressed", "reason": "muted"}},
				want: map[string]any{"suppressed": true, "reason": "muted", "suppressedScope": "all"},
			},
			{
				name: "shown in quiet hours", reports: []report{{"kind": "suppressed", "reason": "quiet-hours", "scope": "speech"}, {"kind": "displayed"}},
				want: map[string]any{"displayed": true, "displayedAt": 2, "suppressed": true, "reason": "quiet-hours", "suppressedScope": "speech"},
			},
			{
				name: "suppressed for no reason", reports: []report{{"kind": "suppressed", "reason": "BECAUSE"}},
				want: map[string]any{"suppressed": true, "reason": "suppressed", "suppressedScope": "all"},
			},
			{
				name: "answered although suppressed", reports: []report{{"kind": "suppressed", "reason": "delivery-failed"}, {"kind": "replied", "text": "late"}},
				want: map[string]any{
					"replied": true, "repliedAt": 2, "reply": "late", "text": "late", "suppressed": true, "reason": "delivery-failed", "suppressedScope": "all",
				},
			},
		}
		for _, test := range tests {
			fields := map[string]any{"title": "x"}
			maps.Copy(fields, test.sent)
			start := time.Now()
			id := agent.Send(fields)
			f := stream.Next()
			for _, rep := range test.reports {
				time.Sleep(time.Second)
				tell(stream, f.Text("id"), rep)
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			link := "http://127.0.0.1" + clipLink(d.Mailbox, f.Text("id"), time.Now().Add(time.Hour))
			want := map[string]any{
				"notificationId": id, "received": true, "receivedAt": relay.Timestamp(start), "queued": false, "displayed": false, "spoken": false,
				"replied": false, "expectReply": false, "suppressed": false,
			}
			for name, v := range test.want {
				switch v := v.(type) {
				case int:
					want[name] = relay.Timestamp(start.Add(time.Duration(v) * time.Second))
				default:
					want[name] = v
				}
			}
			if want["audioUrl"] == true {
				want["audioUrl"] = link
			}
			t.Log(test.name)
			wantBody(t, agent.Call("GET", "/v1/receipts/"+id, nil), 200, want)
			wantBody(t, agent.Call("GET", "/v1/replies/"+id, nil), 200, replyOf(want))
		}
	})
}

// tell has the device report over its stream, or upload a clip.
func tell(s *testkit.Stream, id string, rep report) {
	s.T.Helper()
	if data, is := rep["clip"].(string); is {
		if a := s.Call("PUT", "/v1/device/reply/"+id+"/audio", []byte(data), "Content-Type", "audio/mp4"); a.Status != 200 {
			s.T.Fatalf("upload: %d %s", a.Status, a.Raw)
		}
		return
	}
	f := testkit.Frame{"type": "receipt", "id": id}
	maps.Copy(f, rep)
	s.Send(f)
}

// replyOf is what GET /v1/replies tells of a receipt (the contract's section 2.5).
func replyOf(receipt map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range []string{
		"notificationId", "replied", "repliedAt", "reply", "text", "transcript", "transcriptNote", "audioUrl", "audioUrlExpiresInSeconds",
		"durationSeconds", "suppressed", "reason",
	} {
		if v, there := receipt[name]; there {
			out[name] = v
		}
	}
	return out
}

func TestReceiptsOfNothing(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	agent.Send(map[string]any{"title": "x", "notificationId": "a"})
	for name, id := range map[string]string{
		"an id never sent":           "b",
		"an id in another case":      "A",
		"a made id never made":       "n_0123456789abcdef01234567",
		"the relay's own id":         "r_0123456789abcdef01234567",
		"NUL":                        "%00",
		"NUL behind a good id":       "a%00",
		"bytes that are no UTF-8":    "%ff%fe",
		"a slash":                    "a%2fb",
		"white space":                "%20a",
		"another script":             "%E5%AE%8C",
		"a wildcard":                 "%25",
		"quotes":                     "%27%20OR%201=1--",
		"129 characters":             strings.Repeat("a", 129),
		"as long as a header can be": strings.Repeat("a", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, agent.Call("GET", "/v1/receipts/"+id, nil), 404, "not_found")
			wantRefusal(t, agent.Call("GET", "/v1/replies/"+id+"?wait=60", nil), 404, "not_found")
		})
	}
}

// TestARelaysIDLeadsNowhere: the relay's id is for devices; an agent that learnt it may not read by it.
func TestARelaysIDLeadsNowhere(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent, stream := d.Agent("bot"), d.Stream()
	agent.Send(map[string]any{"title": "x", "notificationId": "a"})
	id := stream.Next().Text("id")
	wantRefusal(t, agent.Call("GET", "/v1/receipts/"+id, nil), 404, "not_found")
	// Nor may it guess the id that the relay would have made.
	wantRefusal(t, agent.Call("GET", "/v1/receipts/n_"+strings.TrimPrefix(id, "r_"), nil), 404, "not_found")
}
