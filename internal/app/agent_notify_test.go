package app_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/testkit"
)

// TestWhatADeviceGetsIsExactlyWhatWasValidated sends one notification of each sort through relay and stream. Package
// payload holds the tables of every field.
func TestWhatADeviceGetsIsExactlyWhatWasValidated(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent, stream := d.Agent("bot"), d.Stream()
	tests := []struct {
		name, sent string
		want       map[string]any
	}{
		{"a title alone", `{"title":"x"}`, map[string]any{"title": "x", "expectReply": false}},
		{
			"white space and null", `{"title":" x ","body":"  ","subtitle":null,"tags":null,"expectReply":null,"speak":null}`,
			map[string]any{"title": "x", "expectReply": false},
		},
		{"a question", `{"title":"x","expectReply":true,"allowVoiceReply":false}`, map[string]any{"title": "x", "expectReply": true, "allowVoiceReply": false}},
		{"case 102: other scripts", `{"title":"Grüße 👩‍👩‍👧‍👦 完成"}`, map[string]any{"title": "Grüße 👩‍👩‍👧‍👦 完成", "expectReply": false}},
		{"case 102: an encoded word is text", `{"title":"=?UTF-8?B?R3LDvMOfZQ==?="}`, map[string]any{"title": "=?UTF-8?B?R3LDvMOfZQ==?=", "expectReply": false}},
		{"case 104: line breaks in a title", `{"title":"a\r\nX-Evil: 1"}`, map[string]any{"title": "a X-Evil: 1", "expectReply": false}},
		{"a duration that is a number", `{"title":"x","duration":12.50}`, map[string]any{"title": "x", "duration": "12.5", "expectReply": false}},
		{"tags", `{"title":"x","tags":["b ","a","b"]}`, map[string]any{"title": "x", "tags": []any{"b", "a"}, "expectReply": false}},
		{"a status", `{"title":"x","status":"OK_1-a"}`, map[string]any{"title": "x", "status": "ok_1-a", "expectReply": false}},
		{"text to speak", `{"title":"x","speak":"y"}`, map[string]any{"title": "x", "speak": map[string]any{"text": "y"}, "expectReply": false}},
		{
			"a voice beside what is spoken", `{"title":"x","voice":"af_heart","speed":1.5,"speak":{"text":"y","speed":1}}`,
			map[string]any{"title": "x", "speak": map[string]any{"text": "y", "voice": "af_heart", "speed": 1.0}, "expectReply": false},
		},
		{"silence beats everything", `{"title":"x","presentation":"both","voice":"v","speak":false}`, map[string]any{"title": "x", "presentation": "both", "speak": false, "expectReply": false}},
		{
			"every field at once", `{"title":"t","body":"b\nc","subtitle":"s","status":"done","project":"p","session":"q","task":"k","tool":"o","group":"g",
			"duration":"3 min","link":"https://example.com/a","notificationId":"deploy:17","tags":["one"],"priority":"urgent","persistent":true,"timeoutSeconds":30,
			"sound":"Glass","presentation":"voice","icon":"data:image/png;base64,AAAA","imageURL":"https://example.com/i.png","speak":{"text":"w","lang":"en-us"},
			"voice":"v","speed":0.5,"expectReply":true,"allowVoiceReply":true}`,
			map[string]any{
				"title": "t", "body": "b\nc", "subtitle": "s", "status": "done", "project": "p", "session": "q", "task": "k", "tool": "o", "group": "g",
				"duration": "3 min", "link": "https://example.com/a", "notificationId": "deploy:17", "tags": []any{"one"}, "priority": "urgent",
				"persistent": true, "timeoutSeconds": 30.0, "sound": "Glass", "presentation": "voice", "icon": "data:image/png;base64,AAAA",
				"imageURL": "https://example.com/i.png", "speak": map[string]any{"text": "w", "lang": "en-us", "voice": "v", "speed": 0.5},
				"expectReply": true, "allowVoiceReply": true,
			},
		},
	}
	for _, test := range tests { // one after the other: they share the stream
		a := agent.Call("POST", "/v1/notify", test.sent)
		if a.Status != http.StatusAccepted {
			t.Errorf("%s: %d %s", test.name, a.Status, a.Raw)
			continue
		}
		f := stream.Next()
		if diff := cmp.Diff(test.want, f["payload"]); diff != "" {
			t.Errorf("%s: payload (-want +got):\n%s", test.name, diff)
		}
		if f.Text("notificationId") != a.Text("notificationId") || f.Text("createdAt") != a.Text("receivedAt") {
			t.Errorf("%s: frame %v is not of %s", test.name, f, a.Raw)
		}
	}
}

func TestANewNotificationIsAcceptedWithItsReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		agent := r.Pair("laptop").Agent("bot")
		want := func(id string) map[string]any {
			return map[string]any{
				"notificationId": id, "received": true, "receivedAt": relay.Timestamp(time.Now()), "queued": true, "displayed": false, "spoken": false,
				"replied": false, "expectReply": false, "suppressed": false, "duplicate": false,
			}
		}
		a := agent.Call("POST", "/v1/notify", map[string]any{"title": "x"})
		if !regexp.MustCompile(`^n_[0-9a-f]{24}$`).MatchString(a.Text("notificationId")) {
			t.Errorf("the relay made the id %q", a.Text("notificationId"))
		}
		wantBody(t, a, 202, want(a.Text("notificationId")))
		longest := strings.Repeat("aZ0._:-", 19)[:128]
		for _, id := range []string{"a", "7", "deploy:17", "A.b_c-D", longest} {
			time.Sleep(time.Second)
			wantBody(t, agent.Call("POST", "/v1/notify", map[string]any{"title": "x", "notificationId": id}), 202, want(id))
		}
	})
}

// dangerous are the names that the contract's section 2.1 singles out.
const dangerous = `command commands cmd script scripts shortcut shortcuts exec run callback callbacks webhook url path open openApp buttons
	actions actionIds action reminder snooze audio image template templateName layout app appId metadata accentColor followUp follow_up followup`

func TestFieldsThatAreNotListedRefuseTheWholeNotification(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	names := strings.Fields(dangerous)
	all := map[string]any{"title": "x"}
	for _, name := range names {
		wantRefusal(t, agent.Call("POST", "/v1/notify", map[string]any{"title": "x", name: "y"}), 400, "forbidden_fields", name)
		all[name] = nil
	}
	a := agent.Call("POST", "/v1/notify", all)
	if a.Code() != "forbidden_fields" || !slices.Equal(slices.Sorted(slices.Values(textsOf(a.Body["fields"]))), slices.Sorted(slices.Values(names))) {
		t.Errorf("all of them at once: %s", a.Raw)
	}
	for _, field := range []string{"title", "speak", "expectReply", "notificationId", "timeoutSeconds"} {
		if !strings.Contains(a.Text("message"), field) {
			t.Errorf("the message does not say that %s is accepted: %s", field, a.Text("message"))
		}
	}
	tests := map[string]struct {
		sent   string
		fields []string
	}{
		"decision 30: three spellings": {`{"title":"x","followUp":1,"follow_up":1,"followup":1}`, []string{"followUp", "follow_up", "followup"}},
		"before a missing title":       {`{"exec":1}`, []string{"exec"}},
		"before a bad value":           {`{"title":7,"exec":1}`, []string{"exec"}},
		"before a repeated field":      {`{"title":"x","title":"y","exec":1}`, []string{"exec"}},
		"inside speak":                 {`{"title":"x","speak":{"text":"y","ssml":"z","rate":2}}`, []string{"speak.ssml", "speak.rate"}},
		"inside speak and outside":     {`{"title":"x","exec":1,"speak":{"ssml":"z"}}`, []string{"exec", "speak.ssml"}},
		"an empty name":                {`{"title":"x","":1}`, []string{""}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, agent.Call("POST", "/v1/notify", test.sent), 400, "forbidden_fields", test.fields...)
		})
	}
	if n := pending(d); n != 0 {
		t.Errorf("%v notifications wait, all of which were refused", n)
	}
}

func TestBadValuesAreNamed(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	tests := map[string]struct {
		sent   string
		fields []string
	}{
		"no title":               {`{"body":"x"}`, []string{"title"}},
		"an empty title":         {`{"title":"  "}`, []string{"title"}},
		"a title of null":        {`{"title":null}`, []string{"title"}},
		"a title of a number":    {`{"title":7}`, []string{"title"}},
		"a title too long":       {`{"title":"` + strings.Repeat("ä", 201) + `"}`, []string{"title"}},
		"a body too long":        {`{"title":"x","body":"` + strings.Repeat("a", 8001) + `"}`, []string{"body"}},
		"a link without TLS":     {`{"title":"x","link":"http://example.com"}`, []string{"link"}},
		"an unknown priority":    {`{"title":"x","priority":"critical"}`, []string{"priority"}},
		"text for a flag":        {`{"title":"x","expectReply":"yes"}`, []string{"expectReply"}},
		"a timeout of 0":         {`{"title":"x","timeoutSeconds":0}`, []string{"timeoutSeconds"}},
		"a sound that is a path": {`{"title":"x","sound":"../a.wav"}`, []string{"sound"}},
		"an id with a slash":     {`{"title":"x","notificationId":"a/b"}`, []string{"notificationId"}},
		"an id of 129":           {`{"title":"x","notificationId":"` + strings.Repeat("a", 129) + `"}`, []string{"notificationId"}},
		"eleven tags":            {`{"title":"x","tags":["a","a","a","a","a","a","a","a","a","a","a"]}`, []string{"tags"}},
		"a speed inside speak":   {`{"title":"x","speak":{"speed":3}}`, []string{"speak.speed"}},
		"an icon that is no picture": {
			`{"title":"x","icon":"data:text/html;base64,PHNjcmlwdD4="}`, []string{"icon"},
		},
		"several at once": {`{"title":"","priority":1,"voice":"a b"}`, []string{"title", "priority", "voice"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := agent.Call("POST", "/v1/notify", test.sent)
			wantRefusal(t, a, 400, "invalid_request", test.fields...)
			for _, field := range test.fields {
				if !strings.Contains(a.Text("message"), field) {
					t.Errorf("the message does not name %s: %s", field, a.Text("message"))
				}
			}
		})
	}
	if n := pending(d); n != 0 {
		t.Errorf("%v notifications wait, all of which were refused", n)
	}
}

func TestARepeatedSendIsADuplicateOfTheFirst(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent, other := d.Agent("bot"), d.Agent("other")
	stream := d.Stream()
	first := agent.Call("POST", "/v1/notify", map[string]any{"title": "one", "notificationId": "a"})
	f := stream.Next()

	again := agent.Call("POST", "/v1/notify", map[string]any{"title": "another", "notificationId": "a", "expectReply": true})
	want := first.Body
	want["duplicate"] = true
	wantBody(t, again, 200, want)

	// The receipt of a duplicate is the first one's as it is now.
	stream.Send(testkit.Frame{"type": "receipt", "id": f["id"], "kind": "replied", "text": "yes"})
	if reply := agent.Call("GET", "/v1/replies/a?wait=10", nil); reply.Text("reply") != "yes" {
		t.Fatalf("reply = %s", reply.Raw)
	}
	again = agent.Call("POST", "/v1/notify", map[string]any{"title": "another", "notificationId": "a"})
	if again.Status != 200 || again.Body["duplicate"] != true || again.Text("reply") != "yes" || again.Body["queued"] != false {
		t.Errorf("a duplicate after the reply: %d %s", again.Status, again.Raw)
	}

	// It was queued once: what the device sees next is what came after it.
	other.Send(map[string]any{"title": "two", "notificationId": "a"})
	if next := stream.Next(); next["payload"].(map[string]any)["title"] != "two" {
		t.Errorf("next frame = %v, want the other key's", next)
	}
}

func TestAnIDIsKnownForADayAndThenNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		agent := r.Pair("laptop").Agent("bot")
		send := func() testkit.Answer {
			return agent.Call("POST", "/v1/notify", map[string]any{"title": "x", "notificationId": "a"})
		}
		first := send()
		time.Sleep(24 * time.Hour)
		if a := send(); a.Status != 200 || a.Text("receivedAt") != first.Text("receivedAt") || a.Body["duplicate"] != true {
			t.Errorf("24 hours later: %d %s, want the first one's receipt", a.Status, a.Raw)
		}
		time.Sleep(time.Millisecond)
		wantRefusal(t, agent.Call("GET", "/v1/receipts/a", nil), 404, "not_found")
		wantRefusal(t, agent.Call("GET", "/v1/replies/a", nil), 404, "not_found")
		second := send()
		if second.Status != 202 || second.Text("receivedAt") != relay.Timestamp(time.Now()) || second.Body["duplicate"] != false {
			t.Errorf("after 24 hours: %d %s, want a new notification", second.Status, second.Raw)
		}
		if a := agent.Call("GET", "/v1/receipts/a", nil); a.Text("receivedAt") != second.Text("receivedAt") || a.Body["queued"] != true {
			t.Errorf("the id now names %s, want the new notification", a.Raw)
		}
		if a := send(); a.Status != 200 || a.Text("receivedAt") != second.Text("receivedAt") {
			t.Errorf("a repeat of the new one: %d %s", a.Status, a.Raw)
		}
	})
}

// TestParallelSends holds decision 38 and the sending half of public case 39.
func TestParallelSends(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	send := func(id func(int) string) map[int][]testkit.Answer {
		var mu sync.Mutex
		var wg sync.WaitGroup
		byStatus := map[int][]testkit.Answer{}
		for i := range 50 {
			wg.Go(func() {
				a, err := r.Try(t.Context(), "POST", "/v1/notify", agent.Token, map[string]any{"title": "x", "notificationId": id(i)})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				byStatus[a.Status] = append(byStatus[a.Status], a)
			})
		}
		wg.Wait()
		return byStatus
	}
	same := send(func(int) string { return "same" })
	if len(same[202]) != 1 || len(same[200]) != 49 {
		t.Fatalf("fifty sends of one id: %d accepted, %d duplicates", len(same[202]), len(same[200]))
	}
	for _, a := range same[200] {
		if a.Text("receivedAt") != same[202][0].Text("receivedAt") || a.Body["duplicate"] != true {
			t.Errorf("a duplicate has another receipt: %s", a.Raw)
		}
	}
	if n := pending(d); n != 1 {
		t.Errorf("%v notifications wait, want one", n)
	}
	agent = d.Agent("second")
	if all := send(func(i int) string { return fmt.Sprint(i) }); len(all[202]) != 50 {
		t.Errorf("fifty different ids: %d accepted", len(all[202]))
	}
	if n := pending(d); n != 51 {
		t.Errorf("%v notifications wait, want 51", n)
	}
}

func icon(bytes int) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(make([]byte, bytes))
}

func TestABodyHas32KBAndAnIconOnTop(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	const limit, most = 32768, 256 << 10
	plain := map[string]any{"title": "x"}
	with := func(icon string) map[string]any { return map[string]any{"title": "x", "icon": icon} }
	biggest := icon(most)
	tests := map[string]struct {
		body   string
		status int
		code   string
		fields []string
	}{
		"32768 bytes":                        {padded(t, plain, limit), 202, "", nil},
		"32769 bytes":                        {padded(t, plain, limit+1), 413, "too_large", nil},
		"the largest icon":                   {padded(t, with(biggest), len(biggest)+100), 202, "", nil},
		"the largest icon and 32768 bytes":   {padded(t, with(biggest), len(biggest)+2+limit), 202, "", nil},
		"the largest icon and 32769 bytes":   {padded(t, with(biggest), len(biggest)+2+limit+1), 413, "too_large", nil},
		"an icon of one byte too many":       {padded(t, with(icon(most+1)), most*4/3+200), 400, "invalid_request", []string{"icon"}},
		"a much larger icon":                 {padded(t, with(icon(400<<10)), 600<<10), 413, "too_large", nil},
		"an icon's bytes in another field":   {padded(t, map[string]any{"title": "x", "imageURL": biggest}, len(biggest)+100), 413, "too_large", nil},
		"an icon that is a long link":        {padded(t, with("https://example.com/"+strings.Repeat("a", limit)), limit+200), 413, "too_large", nil},
		"an icon in an array, which is none": {padded(t, map[string]any{"title": "x", "icon": []string{biggest}}, len(biggest)+100), 413, "too_large", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := agent.Call("POST", "/v1/notify", test.body)
			if test.status == 202 {
				if a.Status != 202 {
					t.Errorf("answer = %d %.300s, want 202", a.Status, a.Raw)
				}
				return
			}
			wantRefusal(t, a, test.status, test.code, test.fields...)
		})
	}
	if n := pending(d); n != 3 {
		t.Errorf("%v notifications wait, want the 3 that were accepted", n)
	}
}

func TestTheBodyLimitIsTheOperatorsToSet(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.MaxBodyBytes = 100 }})
	agent := r.Pair("laptop").Agent("bot")
	if a := agent.Call("POST", "/v1/notify", padded(t, map[string]any{"title": "x"}, 100)); a.Status != 202 {
		t.Errorf("100 bytes: %d %s", a.Status, a.Raw)
	}
	wantRefusal(t, agent.Call("POST", "/v1/notify", padded(t, map[string]any{"title": "x"}, 101)), 413, "too_large")
}
