package npm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
)

func TestTheConformanceSuiteOnTheRelay(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	runScenarios(t, withCredential(t, r.mcp(), r.key), readConformance(t).Relay)
}

// tools are those of the relay, in their order.
var tools = []string{"send_notification", "get_receipt", "wait_for_reply", "herald_status"}

func checkTools(t *testing.T, list []tool) {
	t.Helper()
	var names []string
	for _, x := range list {
		names = append(names, x.Name)
		if x.Title == "" || len(x.Description) < 40 || x.InputSchema["additionalProperties"] != false || x.OutputSchema["type"] != "object" || x.Annotations["readOnlyHint"] == nil {
			t.Errorf("%s lacks something: %+v", x.Name, x)
		}
	}
	if diff := cmp.Diff(tools, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

func TestTheOfficialClientsUseTheRelay(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	for i, o := range officials {
		t.Run(o.name, func(t *testing.T) {
			s := start(t, o.script)
			o.connect(t, s, r)
			var list []tool
			s.must("tools", nil, &list)
			checkTools(t, list)
			sendAndWait(t, s, r, fmt.Sprintf("question-%d", i))
			o.checkEdges(t, s)
			var troubles []string
			if s.must("troubles", nil, &troubles); len(troubles) > 0 {
				t.Errorf("the client reports %q", troubles)
			}
			s.must("close", nil, nil)
		})
	}
}

func (o official) connect(t *testing.T, s *script, r *relay) {
	t.Helper()
	err := s.try("connect", map[string]any{"url": r.mcp(), "headers": bearer("hrk_none"), "mode": o.mode}, nil)
	if err == nil || !strings.Contains(err.Error(), "401") && !strings.Contains(err.Error(), "unauthorized") {
		t.Errorf("connecting without a credential: %v", err)
	}
	var hello struct {
		Era, Version, Instructions string
		Server                     struct{ Name, Title, Version string }
		Capabilities               map[string]any
	}
	s.must("connect", map[string]any{"url": r.mcp(), "headers": bearer(r.key), "mode": o.mode}, &hello)
	if hello.Era != o.era || hello.Version != o.version || hello.Server.Name != "herald-relay" || hello.Capabilities["tools"] == nil {
		t.Errorf("connected as %+v", hello)
	}
	if !strings.Contains(hello.Instructions, "send_notification") {
		t.Errorf("instructions: %q", hello.Instructions)
	}
}

// sendAndWait asks the person a question, and waits for the answer while it is given.
func sendAndWait(t *testing.T, s *script, r *relay, id string) {
	t.Helper()
	var sent, receipt, reply result
	s.must("call", map[string]any{"name": "herald_status", "args": map[string]any{}}, &sent)
	if status := sent.check(t, false); status["online"] == nil {
		t.Errorf("status %v", status)
	}
	sent = result{}
	s.must("call", map[string]any{"name": "send_notification", "args": map[string]any{
		"title": "Kůň 👍🏽?", "body": "Say yes.", "expectReply": true, "notificationId": id}}, &sent)
	if got := sent.check(t, false); got["notificationId"] != id || got["received"] != true || got["duplicate"] != false {
		t.Errorf("sent: %v", got)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := r.answer(id, "ano, 日本")
		answered <- err
	}()
	s.must("call", map[string]any{"name": "wait_for_reply", "args": map[string]any{"notificationId": id, "timeoutSeconds": 30}}, &reply)
	if got := reply.check(t, false); got["replied"] != true || got["text"] != "ano, 日本" {
		t.Errorf("reply: %v", got)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	s.must("call", map[string]any{"name": "get_receipt", "args": map[string]any{"notificationId": id}}, &receipt)
	if got := receipt.check(t, false); got["replied"] != true {
		t.Errorf("receipt: %v", got)
	}
}

// checkEdges makes the calls that are refused, each in its own way.
func (o official) checkEdges(t *testing.T, s *script) {
	t.Helper()
	var refused result
	s.must("call", map[string]any{"name": "send_notification", "args": map[string]any{"title": "x", "command": "rm"}}, &refused)
	if got := refused.check(t, true); got["error"] != "forbidden_fields" {
		t.Errorf("refused: %v", got)
	}
	codeOf := func(err error) any {
		var thrown *scriptError
		if !errors.As(err, &thrown) {
			return err
		}
		return thrown.Code
	}
	if code := codeOf(s.try("call", map[string]any{"name": "no_such_tool", "args": map[string]any{}}, nil)); code != -32602.0 {
		t.Errorf("an unknown tool: %v", code)
	}
	var listed struct{ Events []struct{ Name string } }
	err := s.try("request", map[string]any{"method": "events/list", "params": map[string]any{}}, &listed)
	switch {
	case o.era == "legacy" && codeOf(err) != -32601.0:
		t.Errorf("events of a session-less client: %v", err)
	case o.era == "modern" && (err != nil || len(listed.Events) != 1 || listed.Events[0].Name != replyEvent):
		t.Errorf("events: %+v, %v", listed, err)
	}
	if o.era == "legacy" {
		s.must("ping", nil, nil)
	}
}

// TestTheOfficialClientsAreApproved has them find out by themselves whom to ask: 401, metadata, registration, PKCE, approval,
// token, tools.
func TestTheOfficialClientsAreApproved(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	for _, o := range officials {
		t.Run(o.name, func(t *testing.T) {
			s := start(t, o.script)
			var address, token string
			s.must("ask", map[string]any{"url": r.mcp(), "mode": o.mode, "redirect": callback}, &address)
			browse(t, address)
			var hello struct{ Era, Version string }
			s.must("admitted", map[string]string{"url": r.decide("approve")}, &hello)
			if hello.Era != o.era || hello.Version != o.version {
				t.Errorf("connected as %+v", hello)
			}
			var status result
			s.must("call", map[string]any{"name": "herald_status", "args": map[string]any{}}, &status)
			status.check(t, false)
			if s.must("token", nil, &token); !strings.HasPrefix(token, "hra_") {
				t.Errorf("the token begins %.4q", token)
			}
			s.must("close", nil, nil)
		})
	}
}

const replyEvent = "notification.reply"

// TestTheAISDKIsToldOfReplies is a cloud agent from end to end: it asks, goes away, and is called back.
func TestTheAISDKIsToldOfReplies(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	s := start(t, "ai-sdk")
	var port int
	s.must("listen", map[string]any{}, &port)
	s.must("connect", map[string]any{"url": r.mcp(), "headers": bearer(r.key)}, nil)
	var list []tool
	s.must("tools", nil, &list)
	checkTools(t, list)
	var sub subscription
	s.must("subscribe", map[string]any{"name": replyEvent, "delivery": map[string]any{"mode": "webhook",
		"url": fmt.Sprintf("http://127.0.0.1:%d/hooks/herald", port), "allowInsecureLocalhost": true}}, &sub)
	if end := sub.until(t); !strings.HasPrefix(sub.ID, "sub_") || time.Until(end) < 9*365*24*time.Hour || sub.Truncated || sub.Cursor == nil {
		t.Errorf("subscribed: %+v", sub)
	}
	s.askAndBeTold(r, sub.ID, "build-1")

	var renewed subscription
	s.must("refresh", map[string]string{"id": sub.ID}, &renewed)
	if renewed.ID != sub.ID {
		t.Errorf("%s was renewed as %s", sub.ID, renewed.ID)
	}
	s.askAndBeTold(r, sub.ID, "build-2")

	s.must("unsubscribe", map[string]string{"id": sub.ID}, nil)
	subscriptions := r.must("GET", "/v1/device/events", r.device, nil)
	if left, _ := subscriptions["subscriptions"].([]any); len(left) != 0 {
		t.Errorf("the device still sees %v", subscriptions)
	}
}

// askAndBeTold sends a question with a tool, has it answered, and reads the event and then the answer that it speaks of.
func (s *script) askAndBeTold(r *relay, sub, id string) {
	s.t.Helper()
	var sent, reply result
	s.must("call", map[string]any{"name": "send_notification", "args": map[string]any{"title": "Deploy?", "expectReply": true, "notificationId": id}}, &sent)
	sent.check(s.t, false)
	own, err := r.answer(id, "yes")
	if err != nil {
		s.t.Fatal(err)
	}
	var a arrival
	s.must("next", nil, &a)
	want := map[string]any{"notificationId": id, "id": own, "kind": "text"}
	if diff := cmp.Diff(want, a.Event.Data); diff != "" || a.Subscription.ID != sub || a.Event.Name != replyEvent {
		s.t.Errorf("told of %+v (-want +got):\n%s", a, diff)
	}
	s.must("call", map[string]any{"name": "wait_for_reply", "args": map[string]any{"notificationId": id}}, &reply)
	if got := reply.check(s.t, false); got["text"] != "yes" {
		s.t.Errorf("the answer is %v", got)
	}
}

// TestTheInspectorUsesTheRelay runs the inspector's command line, as a person would who tries out a server.
func TestTheInspectorUsesTheRelay(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	for _, era := range []string{"legacy", "auto", "modern"} {
		t.Run(era, func(t *testing.T) {
			inspect := func(args ...string) (out string, code int) {
				t.Helper()
				args = append([]string{"node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", r.mcp(), "--transport", "http",
					"--header", "Authorization: Bearer " + r.key, "--protocol-era", era, "--format", "json", "--stored-auth-only"}, args...)
				cmd := exec.CommandContext(t.Context(), node(t), args...)
				cmd.Env = environment(t.TempDir())
				raw, err := cmd.Output()
				if exit := new(exec.ExitError); errors.As(err, &exit) {
					return string(raw) + string(exit.Stderr), exit.ExitCode()
				}
				if err != nil {
					t.Fatal(err)
				}
				return string(raw), 0
			}
			out, code := inspect("--method", "tools/list", "--strict")
			var listed struct{ Result struct{ Tools []tool } }
			if err := json.Unmarshal([]byte(out), &listed); err != nil || code != 0 {
				t.Fatalf("tools/list: %v, exit %d: %s", err, code, out)
			}
			checkTools(t, listed.Result.Tools)
			out, code = inspect("--method", "tools/call", "--tool-name", "herald_status")
			if code != 0 || !strings.Contains(out, "online") {
				t.Errorf("herald_status: exit %d: %s", code, out)
			}
			out, code = inspect("--method", "tools/call", "--tool-name", "get_receipt", "--tool-arg", "notificationId=nothing")
			if code != 5 || !strings.Contains(out, "not_found") {
				t.Errorf("a receipt of nothing: exit %d, want 5: %s", code, out)
			}
		})
	}
}

// answer plays the person at the device: it connects, waits for a notification and replies to it. It returns the relay's
// own id of the notification. Unlike most of this file it may be called from any goroutine.
func (r *relay) answer(notification, text string) (id string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	header := http.Header{"Authorization": {"Bearer " + r.device}}
	conn, _, err := websocket.Dial(ctx, r.url+"/v1/device/stream", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		return "", err
	}
	defer conn.CloseNow()
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return "", fmt.Errorf("wait for %s: %w", notification, err)
		}
		var frame struct{ Type, ID, NotificationID string }
		if json.Unmarshal(data, &frame) != nil || frame.Type != "notify" || frame.NotificationID != notification {
			continue
		}
		_, err = r.call(ctx, "POST", "/v1/device/reply", r.device, map[string]any{"id": frame.ID, "text": text})
		return frame.ID, err
	}
}
