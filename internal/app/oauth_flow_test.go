package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/testkit"
)

func read(t testing.TB, res *http.Response) testkit.Answer {
	t.Helper()
	a := testkit.Answer{Status: res.StatusCode, Header: res.Header}
	var err error
	if a.Raw, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(a.Raw, &a.Body) // pages are no JSON
	return a
}

func TestAConnectorIsApprovedOnADeviceAndThenNotifies(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("Studio")
		s := d.Stream()
		c := register(t, r, map[string]any{"client_name": "ChatGPT <b>"})
		rid := c.authorize(t)

		frame := s.Next()
		want := map[string]string{"type": "consent", "id": rid, "clientId": c.id, "clientName": "ChatGPT b", "redirectHost": "client.example",
			"scope": "notify", "status": "pending", "flow": "code"}
		for name, v := range want {
			if frame.Text(name) != v {
				t.Errorf("frame %s = %q, want %q", name, frame.Text(name), v)
			}
		}
		if len(frame.Text("code")) != 6 || frame["redelivered"] != nil || frame["userCode"] != nil {
			t.Errorf("frame = %v", frame)
		}
		if got := r.Do("GET", "/authorize/status?rid="+rid, "", nil); got.Text("status") != "pending" || got.Text("redirect") != "" {
			t.Errorf("status before = %s", got.Raw)
		}

		a := decide(d, rid, "approve")
		back := a.Text("redirect")
		if !strings.HasPrefix(back, redirectURI+"?code=hrc_"+d.Mailbox+"_") || !strings.Contains(back, "&state=st%26%C3%A4+te&iss="+strings.ReplaceAll(strings.ReplaceAll(r.URL, ":", "%3A"), "/", "%2F")) {
			t.Errorf("redirect = %s", back)
		}
		if f := s.Next(); f.Text("type") != "consent_resolved" || f.Text("id") != rid || f.Text("status") != "approved" {
			t.Errorf("frame = %v", f)
		}
		if got := r.Do("GET", "/authorize/status?rid="+rid, "", nil); got.Text("status") != "approved" || got.Text("redirect") != back {
			t.Errorf("status after = %s", got.Raw)
		}
		held := c.exchange(t, back[strings.Index(back, "hrc_"):strings.Index(back, "&")])

		sent := r.Do("POST", "/v1/notify", held.access, map[string]any{"title": "hello"})
		if sent.Status != http.StatusAccepted {
			t.Fatalf("notify: %d %s", sent.Status, sent.Raw)
		}
		if f := s.Next(); f.Text("type") != "notify" || f["key"].(map[string]any)["name"] != "chatgpt-b" {
			t.Errorf("frame = %v", f)
		}
		key := d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any)[0].(map[string]any)
		if key["kind"] != "oauth" || key["displayName"] != "ChatGPT b" || key["client"] != "other" || key["scope"] != "notify" {
			t.Errorf("key = %v", key)
		}
	})
}
