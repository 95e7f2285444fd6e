package app_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/testkit"
)

// hostile are texts that some database, index or terminal chokes on. The last is too long for the index of a page.
var hostile = map[string]string{
	"NUL":                      "a\x00b",
	"NUL alone":                "\x00",
	"bytes that are no UTF-8":  "a\xff\xfeb",
	"a surrogate in UTF-8":     "a\xed\xa0\x80b",
	"a right-to-left override": "a\u202eb",
	"quotes and backslashes":   `'";--\' \x00 %s {}`,
	"16 thousand characters":   strings.Repeat("ä", 8_000) + strings.Repeat("😀", 2_000),
}

// TestNoTextBreaksTheDatabase sends hostile text through everything a stranger, an agent or a device can write or look up:
// whatever the relay makes of it, it is never a failure of its own.
func TestNoTextBreaksTheDatabase(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]testkit.Options{"SQLite": {}, "PostgreSQL": {Postgres: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := testkit.New(t, o).Pair("laptop")
			for what, text := range hostile {
				t.Run(what, func(t *testing.T) { sendEverywhere(t, d, text) })
			}
		})
	}
}

func sendEverywhere(t *testing.T, d *testkit.Device, text string) {
	agent, stream := d.Agent("bot"), d.Stream()
	defer d.Call("DELETE", "/v1/device/keys/"+agent.ID+"?purge=1", nil)
	agent.Send(map[string]any{"title": "x"})
	id := stream.Next().Text("id")
	raw := rawJSON(text)
	escaped := url.PathEscape(text)
	calls := []struct {
		method, path, token string
		body                any
		header              []string
	}{
		{"GET", "/v1/receipts/" + escaped, agent.Token, nil, nil},
		{"GET", "/v1/replies/" + escaped + "?wait=" + url.QueryEscape(text), agent.Token, nil, nil},
		{"GET", "/v1/audio/" + escaped + "/" + escaped + ".m4a?exp=" + url.QueryEscape(text) + "&sig=" + url.QueryEscape(text), "", nil, nil},
		{"POST", "/v1/notify", agent.Token, `{"title":` + raw + `}`, nil},
		{"POST", "/v1/notify", agent.Token, `{"title":"x","body":` + raw + `,"group":` + raw + `,"notificationId":` + raw + `}`, nil},
		{"POST", "/v1/notify", agent.Token, `{"title":"x",` + raw + `:1}`, nil},
		{"POST", "/v1/pair/start", "", `{"deviceName":` + raw + `}`, nil},
		{"POST", "/v1/pair", "", `{"code":` + raw + `,"deviceName":` + raw + `}`, nil},
		{"POST", "/v1/device/links", d.Token, `{"deviceName":` + raw + `}`, nil},
		{"POST", "/v1/device/status", d.Token, `{"quietActive":true,"quietUntil":` + raw + `}`, nil},
		{"POST", "/v1/device/keys", d.Token, `{"name":` + raw + `,"client":` + raw + `}`, nil},
		{"POST", "/v1/device/receipt", d.Token, `{"id":` + raw + `,"kind":` + raw + `}`, nil},
		{"POST", "/v1/device/receipt", d.Token, `{"id":"` + id + `","kind":"suppressed","reason":` + raw + `,"scope":` + raw + `}`, nil},
		{"POST", "/v1/device/reply", d.Token, `{"id":"` + id + `","text":` + raw + `,"transcript":` + raw + `}`, nil},
		{"PUT", "/v1/device/reply/" + escaped + "/audio", d.Token, []byte(text), []string{"Content-Type", "audio/mp4"}},
		{"DELETE", "/v1/device/keys/" + escaped, d.Token, nil, nil},
		{"DELETE", "/v1/device/devices/" + escaped, d.Token, nil, nil},
		{"DELETE", "/v1/device/links/" + escaped, d.Token, nil, nil},
		{"GET", "/" + escaped, "", nil, nil},
	}
	for _, c := range calls {
		if a := d.Do(c.method, c.path, c.token, c.body, c.header...); a.Status >= 500 {
			t.Errorf("%s %.60s: %d %.200s", c.method, c.path, a.Status, a.Raw)
		}
	}
	stream.Text(`{"type":"receipt","id":"` + id + `","kind":"replied","text":` + raw + `}`)
	stream.Text(`{"type":"status","quietUntil":` + raw + `}`)
	stream.Text("ping")
	for data := []byte(nil); string(data) != "pong"; { // notifications that were accepted come first
		var err error
		if _, data, err = stream.Conn.Read(t.Context()); err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
	}
	if a := agent.Call("GET", "/v1/status", nil); a.Status != 200 {
		t.Errorf("status afterwards: %d %s", a.Status, a.Raw)
	}
}

// rawJSON puts a text in quotes with nothing escaped but what JSON must have escaped, broken UTF-8 included as it is.
func rawJSON(text string) string {
	s := strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`)
	return `"` + strings.ReplaceAll(s, "\x00", `\u0000`) + `"`
}
