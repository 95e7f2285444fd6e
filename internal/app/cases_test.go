package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/testkit"
)

// TestPublicCases holds the public cases of groups E, F and G that no other test of this package carries.
func TestPublicCases(t *testing.T) {
	t.Parallel()
	t.Run("case 076 a position of another mailbox means nothing here", func(t *testing.T) {
		t.Parallel()
		r := testkit.New(t, testkit.Options{})
		mine, other := r.Pair("phone"), r.Pair("laptop")
		mine.Agent("bot").Send(map[string]any{"title": "mine"})
		other.Agent("bot").Send(map[string]any{"title": "theirs"})
		stream, foreign := mine.Stream(), other.Stream()
		first, theirs := stream.Next(), foreign.Next()
		stream.Send(testkit.Frame{"type": "ack", "id": theirs["id"]})
		stream.Text("ping")
		if _, data, err := stream.Conn.Read(t.Context()); err != nil || string(data) != "pong" {
			t.Fatalf("after the foreign id: %s %v", data, err)
		}
		if answer := mine.Call("POST", "/v1/device/receipt", map[string]any{"id": theirs["id"], "kind": "displayed"}); answer.Status != http.StatusNotFound {
			t.Errorf("a foreign id answered %d, want 404", answer.Status)
		}
		again := other.Stream()
		if f := again.Next(); f["id"] != theirs["id"] {
			t.Errorf("the other mailbox resends %v, want %v still waiting", f["id"], theirs["id"])
		}
		if f := mine.Stream().Next(); f["id"] != first["id"] {
			t.Errorf("this mailbox resends %v, want %v", f["id"], first["id"])
		}
	})
	t.Run("case 079 one frame that is refused does not hurt its neighbours", func(t *testing.T) {
		t.Parallel()
		r := testkit.New(t, testkit.Options{})
		d := r.Pair("phone")
		agent := d.Agent("bot")
		id := agent.Send(map[string]any{"title": "one"})
		stream := d.Stream()
		frame := stream.Next()
		stream.Send(testkit.Frame{"type": "receipt", "id": "r_000000000000000000000000", "kind": "displayed"})
		stream.Send(testkit.Frame{"type": "receipt", "id": frame["id"], "kind": "nonsense"})
		stream.Send(testkit.Frame{"type": "receipt", "id": frame["id"], "kind": "replied", "text": "works"})
		if reply := agent.Call("GET", "/v1/replies/"+id+"?wait=20", nil); reply.Text("reply") != "works" {
			t.Errorf("reply = %s", reply.Raw)
		}
	})
	t.Run("case 087 a device that never told its presence is sent everything", func(t *testing.T) {
		t.Parallel()
		r := testkit.New(t, testkit.Options{})
		d := r.Pair("phone")
		agent := d.Agent("bot")
		stream := d.Stream()
		id := agent.Send(map[string]any{"title": "hello", "priority": "low"})
		if f := stream.Next(); f.Text("notificationId") != id {
			t.Errorf("frame = %v", f)
		}
	})
	t.Run("case 099 a clip of the largest size goes up whole, as bytes", func(t *testing.T) {
		t.Parallel()
		r := testkit.New(t, testkit.Options{})
		d := r.Pair("phone")
		agent := d.Agent("bot")
		id := agent.Send(map[string]any{"title": "say it", "expectReply": true})
		frame := d.Stream().Next()
		clip := append([]byte("\x00\x00\x00\x18ftypM4A "), make([]byte, 1<<20-12)...)
		up := d.Call("PUT", "/v1/device/reply/"+frame.Text("id")+"/audio", clip, "Content-Type", "audio/mp4")
		if up.Status != http.StatusOK || up.Body["bytes"] != float64(1<<20) {
			t.Fatalf("upload = %d %s", up.Status, up.Raw)
		}
		d.Call("POST", "/v1/device/reply", map[string]any{"id": frame["id"]})
		link := agent.Call("GET", "/v1/receipts/"+id, nil).Text("audioUrl")
		got := r.Do("GET", strings.TrimPrefix(link, r.URL), "", nil)
		if string(got.Raw) != string(clip) {
			t.Errorf("the clip came back as %d bytes, status %d", len(got.Raw), got.Status)
		}
	})
	t.Run("case 101 text at a limit is counted in characters, never cut inside one, and the sender is told", func(t *testing.T) {
		t.Parallel()
		r := testkit.New(t, testkit.Options{})
		d := r.Pair("phone")
		agent := d.Agent("bot")
		id := agent.Send(map[string]any{"title": strings.Repeat("ü", 200), "body": strings.Repeat("語", 8000)})
		if over := agent.Call("POST", "/v1/notify", map[string]any{"title": strings.Repeat("ü", 201)}); over.Status != http.StatusBadRequest || !strings.Contains(string(over.Raw), "title") {
			t.Errorf("201 characters answered %d %s", over.Status, over.Raw)
		}
		frame := d.Stream().Next()
		d.Call("POST", "/v1/device/reply", map[string]any{"id": frame["id"], "text": strings.Repeat("👩", 4001)})
		if got := agent.Call("GET", "/v1/receipts/"+id, nil).Text("text"); got != strings.Repeat("👩", 4000) {
			t.Errorf("the reply kept %d bytes, want 4000 whole characters", len(got))
		}
	})
}
