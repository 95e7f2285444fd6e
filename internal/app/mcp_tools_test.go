package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
)

func TestToolsDoWhatTheirRoutesDo(t *testing.T) {
	t.Parallel()
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		r := testkit.New(t, o)
		d := r.Pair("Mac")
		a := d.Agent("bot")
		s := d.Stream()
		sent, _ := callTool(a, "send_notification", `{"title":"Build finished","body":"All 214 tests passed.","speak":true,"expectReply":true,"notificationId":"build-214"}`)
		if got := structured(t, sent); got["notificationId"] != "build-214" || got["queued"] != true || got["duplicate"] != false || got["expectReply"] != true {
			t.Errorf("sent: %v", got)
		}
		again, _ := callTool(a, "send_notification", `{"title":"Build finished","notificationId":"build-214"}`)
		if structured(t, again)["duplicate"] != true {
			t.Errorf("sent again: %v", again)
		}
		f := s.Next()
		payload, _ := f["payload"].(map[string]any)
		if f.Text("notificationId") != "build-214" || payload["body"] != "All 214 tests passed." || payload["expectReply"] != true {
			t.Errorf("frame %v", f)
		}
		waited, _ := callTool(a, "wait_for_reply", `{"notificationId":"build-214","timeoutSeconds":0}`)
		if got := structured(t, waited); got["replied"] != false || got["timedOut"] != nil {
			t.Errorf("looked: %v", got)
		}
		d.Call("POST", "/v1/device/reply", map[string]any{"id": f.Text("id"), "text": "ship it"})
		waited, _ = callTool(a, "wait_for_reply", `{"notificationId":"build-214"}`)
		if got := structured(t, waited); got["replied"] != true || got["text"] != "ship it" || got["reply"] != "ship it" {
			t.Errorf("waited: %v", got)
		}
		receipt, _ := callTool(a, "get_receipt", `{"notificationId":"build-214"}`)
		rest := a.Call("GET", "/v1/receipts/build-214", nil)
		if fmt.Sprint(structured(t, receipt)) != fmt.Sprint(rest.Body) {
			t.Errorf("receipt by tool %v, by route %s", receipt, rest.Raw)
		}
	})
}

func TestToolsExplainWhatIsWrongWithTheirArguments(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	for _, tt := range []struct{ tool, arguments, want string }{
		{"get_receipt", `{}`, "notificationId"},
		{"get_receipt", `{"notificationId":7}`, "notificationId"},
		{"get_receipt", `{"notificationId":""}`, "notificationId"},
		{"get_receipt", `{"notificationId":"x","wait":5}`, "wait"},
		{"wait_for_reply", `{"notificationId":null}`, "notificationId"},
		{"wait_for_reply", `{"notificationId":"x","timeoutSeconds":"5"}`, "timeoutSeconds"},
		{"wait_for_reply", `{"notificationId":"x","timeoutSeconds":-1}`, "timeoutSeconds"},
		{"wait_for_reply", `{"notificationId":"x","notificationId":"y"}`, "notificationId"},
		{"herald_status", `{"verbose":true}`, "verbose"},
	} {
		result, answer := callTool(a, tt.tool, tt.arguments)
		content, _ := json.Marshal(result["content"])
		if result["isError"] != true || result["structuredContent"] != nil || !strings.Contains(string(content), tt.want) {
			t.Errorf("%s %s: %s, want one that names %s", tt.tool, tt.arguments, answer.Raw, tt.want)
		}
	}
	for _, tt := range []struct{ tool, arguments, code string }{
		{"get_receipt", `{"notificationId":"unknown"}`, "not_found"},
		{"wait_for_reply", `{"notificationId":"unknown"}`, "not_found"},
		{"send_notification", `{}`, "invalid_request"},
		{"send_notification", `{"title":"x","followUp":"y","exec":"z"}`, "forbidden_fields"},
		{"send_notification", `{"title":"x","title":"y"}`, "invalid_request"},
		{"send_notification", `{"title":"x","body":"` + strings.Repeat("x", 33_000) + `"}`, "too_large"},
	} {
		result, _ := callTool(a, tt.tool, tt.arguments)
		if got := structured(t, result); got["error"] != tt.code || result["isError"] != true {
			t.Errorf("%s %.60s: %v, want %s", tt.tool, tt.arguments, got, tt.code)
		}
	}
	missing := plain(a, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"herald_status"}}`)
	if missing.Status != 200 || !strings.Contains(string(missing.Raw), "quietHours") {
		t.Errorf("without arguments: %s", missing.Raw)
	}
}

// Public cases 66 and 84: a wait that runs out is neither an answer nor a refusal, and ends before clients give up.
func TestCase066AWaitThatRunsOutLeavesTheQuestionOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		a := d.Agent("bot")
		s := d.Stream()
		_, id := devNotified(a, s)
		for arguments, want := range map[string]time.Duration{
			`,"timeoutSeconds":300`: 55 * time.Second, `,"timeoutSeconds":5`: 5 * time.Second, ``: 30 * time.Second, `,"timeoutSeconds":null`: 30 * time.Second,
		} {
			agentID := devReceiptID(a)
			began := time.Now()
			result, _ := callTool(a, "wait_for_reply", `{"notificationId":"`+agentID+`"`+arguments+`}`)
			got := structured(t, result)
			if took := time.Since(began).Round(time.Second); took != want || got["timedOut"] != true || got["replied"] != false || result["isError"] != nil {
				t.Errorf("%s: after %s %v, want %s", arguments, took, got, want)
			}
		}
		d.Call("POST", "/v1/device/reply", map[string]any{"id": id, "text": "no"})
	})
}

// devReceiptID sends another question and returns its id.
func devReceiptID(a *testkit.Agent) string {
	a.T.Helper()
	return a.Send(map[string]any{"title": "Ship it?", "expectReply": true})
}

func TestAWaitingToolIsAnsweredOnAReplyAndOnRevocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("Mac")
		a, doomed := d.Agent("bot"), d.Agent("doomed")
		s := d.Stream()
		agentID, id := devNotified(a, s)
		doomedID, _ := devNotified(doomed, s)
		var wg sync.WaitGroup
		wg.Go(func() {
			got := modern(a, "tools/call", `"name":"wait_for_reply","arguments":{"notificationId":"`+agentID+`","timeoutSeconds":55}`, "Mcp-Name", "wait_for_reply")
			if got.Status != 200 || !strings.Contains(string(got.Raw), `"text":"go"`) || !strings.Contains(string(got.Raw), `"id":1,`) {
				t.Errorf("answered: %d %s", got.Status, got.Raw)
			}
		})
		wg.Go(func() {
			got := plain(doomed, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait_for_reply","arguments":{"notificationId":"`+doomedID+`"}}}`)
			if got.Status != 401 || !strings.Contains(got.Header.Get("WWW-Authenticate"), "resource_metadata") {
				t.Errorf("revoked: %d %s %v", got.Status, got.Raw, got.Header)
			}
		})
		time.Sleep(10 * time.Second)
		d.Call("POST", "/v1/device/reply", map[string]any{"id": id, "text": "go"})
		d.Call("DELETE", "/v1/device/keys/"+doomed.ID, nil)
		wg.Wait()
	})
}

// The schema that agents are shown is the whitelist that is enforced.
func TestTheToolsSchemaIsTheWhitelist(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema struct {
					Required             []string
					AdditionalProperties *bool
					Properties           map[string]struct {
						Type        any
						Description string
						Enum        []string
						MaxLength   int
						Maximum     float64
					}
				}
				OutputSchema map[string]any
				Annotations  map[string]bool
			}
		}
	}
	if err := json.Unmarshal(plain(a, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Raw, &list); err != nil {
		t.Fatal(err)
	}
	tools := list.Result.Tools
	if len(tools) != 4 {
		t.Fatalf("%d tools", len(tools))
	}
	for _, tool := range tools {
		if closed := tool.InputSchema.AdditionalProperties; closed == nil || *closed || tool.OutputSchema["type"] != "object" {
			t.Errorf("%s takes anything, or returns something else than an object", tool.Name)
		}
		if _, said := tool.Annotations["readOnlyHint"]; !said || tool.Annotations["openWorldHint"] {
			t.Errorf("%s: annotations %v", tool.Name, tool.Annotations)
		}
	}
	send := tools[0].InputSchema
	if len(send.Properties) != 25 || len(send.Required) != 1 || send.Required[0] != "title" {
		t.Errorf("send_notification has %d arguments, requires %v", len(send.Properties), send.Required)
	}
	for name, p := range send.Properties {
		if len(p.Description) < 10 || p.Type == nil {
			t.Errorf("%s: %+v", name, p)
		}
		try := func(value any, accepted bool) {
			t.Helper()
			data, _ := json.Marshal(map[string]any{"title": "x", name: value})
			result, _ := callTool(a, "send_notification", string(data))
			if refused := result["isError"] == true; refused == accepted {
				t.Errorf("%s: %.40v accepted = %v: %.300v", name, value, !refused, result)
			}
		}
		if name == "link" || name == "imageURL" || name == "sound" {
			continue // bounded, and of a form that a long word has not
		}
		if p.MaxLength > 0 {
			try(strings.Repeat("x", p.MaxLength), true)
			try(strings.Repeat("x", p.MaxLength+1), false)
		}
		for _, word := range p.Enum {
			try(word, true)
			try(word+"x", false)
		}
		if p.Maximum > 0 {
			try(p.Maximum, true)
			try(p.Maximum+1, false)
		}
	}
}
