package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/testkit"
)

// at answers for a device at a relay, "" for a machine that is not paired.
func at(address, token string) *Local {
	return New(Options{
		Open: func() (*client.Relay, profile.Profile, error) {
			if address == "" {
				return nil, profile.Profile{}, profile.ErrNone
			}
			r, err := client.New(address, &client.Options{MaxWait: -1, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
			return r, profile.Profile{Relay: address, DeviceID: "mailbox", Name: "desk", Token: token}, err
		},
		Explain: func(err error) *Problem {
			if p, ok := errors.AsType[*Problem](err); ok {
				return p
			}
			code := client.Code(err)
			if errors.Is(err, profile.ErrNone) {
				code = "not_paired"
			} else if code == "" {
				code = "unreachable"
			}
			return &Problem{Code: code, Message: err.Error()}
		},
	})
}

// session connects the official SDK's client, as one kind of client or the other.
func session(t *testing.T, l *Local, version string) *mcp.ClientSession {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := l.ServeMCP(t.Context(), in, out, "1"); err != nil {
			t.Errorf("ServeMCP = %v", err)
		}
		_ = out.Close()
	})
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = toServer.Close()
		serving.Wait()
	})
	return s
}

// called is a tool's answer: its structured content, or the problem.
type called struct {
	fields  map[string]any
	isError bool
}

func call(t *testing.T, s *mcp.ClientSession, name string, arguments map[string]any) called {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	c := called{isError: r.IsError}
	text := r.Content[0].(*mcp.TextContent).Text
	if err := json.Unmarshal([]byte(text), &c.fields); err != nil {
		t.Fatalf("%s answered %s", name, text)
	}
	if !r.IsError {
		if diff := cmp.Diff(c.fields, r.StructuredContent); diff != "" {
			t.Errorf("%s: text and structured content differ:\n%s", name, diff)
		}
		fits(t, name, r.StructuredContent)
	} else if r.StructuredContent != nil {
		t.Errorf("%s: a problem in structured content, which need not fit the schema", name)
	}
	return c
}

func fits(t *testing.T, name string, answer any) {
	t.Helper()
	var schema jsonschema.Schema
	if err := json.Unmarshal(toolNamed(name).OutputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err == nil {
		err = resolved.Validate(answer)
	}
	if err != nil {
		t.Errorf("%s: the answer does not fit its outputSchema: %v", name, err)
	}
}

var kinds = []string{"2025-06-18", "2026-07-28"}

func TestBothKindsOfClientLookAfterTheDevice(t *testing.T) {
	for _, version := range kinds {
		t.Run(version, func(t *testing.T) {
			r := testkit.New(t, testkit.Options{})
			d := r.Pair("desk")
			s := session(t, at(r.URL, d.Token), version)
			if got := s.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("revision %s", got)
			}

			if got := call(t, s, "relay_status", nil).fields; got["state"] != "offline" || got["paired"] != true || got["keys"] != 0.0 {
				t.Errorf("relay_status: %v", got)
			}
			made := call(t, s, "create_agent_key", map[string]any{"name": "bot", "client": "codex"}).fields
			key, id := made["key"].(string), made["id"].(string)
			if answer := r.Do("GET", "/v1/status", key, nil); answer.Status != http.StatusOK {
				t.Errorf("the new key: %d %s", answer.Status, answer.Raw)
			}
			if again := call(t, s, "create_agent_key", map[string]any{"name": "bot"}); !again.isError || again.fields["error"] != "name_taken" {
				t.Errorf("a second key of the name: %v", again)
			}
			usage := call(t, s, "relay_usage", nil).fields
			if usage["notifications"] != 0.0 {
				t.Errorf("relay_usage: %v", usage)
			}
			revoked := call(t, s, "revoke_agent_key", map[string]any{"id": id, "purge": true}).fields
			if diff := cmp.Diff(map[string]any{"revoked": true, "id": id, "purged": true}, revoked); diff != "" {
				t.Errorf("revoke_agent_key (-want +got):\n%s", diff)
			}
			if answer := r.Do("GET", "/v1/status", key, nil); answer.Status != http.StatusUnauthorized {
				t.Errorf("the revoked key: %d", answer.Status)
			}
			for kind := range ways {
				steps := call(t, s, "relay_instructions", map[string]any{"client": kind}).fields
				if text := strings.Join(texts(steps["steps"]), "\n"); !strings.Contains(text, r.URL) || steps["mcpUrl"] != r.URL+"/mcp" {
					t.Errorf("relay_instructions %s: %v", kind, steps)
				}
			}
		})
	}
}

func texts(list any) (out []string) {
	for _, v := range list.([]any) {
		out = append(out, v.(string))
	}
	return out
}

func TestATrialGoesTheWholeWayAndLeavesNothing(t *testing.T) {
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("desk")
	s := session(t, at(r.URL, d.Token), "")
	away := call(t, s, "relay_test", nil).fields
	if away["ok"] != false || away["state"] != "queued" || !strings.Contains(away["message"].(string), "herald listen") {
		t.Errorf("with nobody there: %v", away)
	}
	stream := d.Stream()
	for _, c := range []struct{ kind, state string }{{"displayed", "displayed"}, {"suppressed", "suppressed"}} {
		var watching sync.WaitGroup
		watching.Go(func() {
			f, err := stream.TryNext(testPatience)
			if err != nil || f.Text("type") != "notify" {
				t.Errorf("the device got %v, %v", f, err)
				return
			}
			stream.Send(testkit.Frame{"type": "receipt", "id": f.Text("id"), "kind": c.kind, "reason": "muted"})
		})
		if got := call(t, s, "relay_test", nil).fields; got["ok"] != true || got["state"] != c.state {
			t.Errorf("%s: %v", c.kind, got)
		}
		watching.Wait()
	}
	if keys := d.Call("GET", "/v1/device/keys", nil); string(keys.Raw) != `{"keys":[]}` {
		t.Errorf("keys after the trials: %s", keys.Raw)
	}
	if info := d.Call("GET", "/v1/device/info", nil); info.Body["pending"] != 0.0 {
		t.Errorf("after the trials: %s", info.Raw)
	}
}

func TestConnectorsNeverShowTheDigitsThatApprove(t *testing.T) {
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("desk")
	app := r.Do("POST", "/register", "", map[string]any{"client_name": "ChatGPT", "grant_types": []string{"urn:ietf:params:oauth:grant-type:device_code"}})
	asked := form(t, r, "/device_authorization", "client_id="+app.Text("client_id"))
	s := session(t, at(r.URL, d.Token), "")
	got := call(t, s, "list_connectors", nil).fields
	waiting := got["waiting"].([]any)[0].(map[string]any)
	if waiting["clientName"] != "ChatGPT" || waiting["userCode"] != asked["user_code"] {
		t.Errorf("waiting: %v", waiting)
	}
	consents := d.Call("GET", "/v1/device/consents", nil)
	code := regexp.MustCompile(`"code":"(\d{6})"`).FindStringSubmatch(string(consents.Raw))
	if text, _ := json.Marshal(got); code == nil || strings.Contains(string(text), code[1]) {
		t.Errorf("the digits %v are in %s", code, text)
	}
	id := regexp.MustCompile(`"id":"([0-9a-f]{72})"`).FindStringSubmatch(string(consents.Raw))[1]
	d.Call("POST", "/v1/device/consent", map[string]any{"id": id, "decision": "approve"})
	got = call(t, s, "list_connectors", nil).fields
	connector := got["connectors"].([]any)[0].(map[string]any)
	if connector["displayName"] != "ChatGPT" || connector["name"] != "chatgpt" || len(got["waiting"].([]any)) != 0 {
		t.Errorf("approved: %v", got)
	}
	call(t, s, "revoke_agent_key", map[string]any{"id": connector["id"]})
	if got = call(t, s, "list_connectors", nil).fields; len(got["connectors"].([]any)) != 0 {
		t.Errorf("revoked: %v", got)
	}
}

func form(t *testing.T, r *testkit.Relay, path, body string) (out map[string]any) {
	t.Helper()
	res, err := r.HTTP.Post(r.URL+path, "application/x-www-form-urlencoded", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatGoesWrongIsSaid(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("desk")
	for _, c := range []struct {
		name      string
		l         *Local
		tool      string
		arguments map[string]any
		code      string
	}{
		{"not paired", at("", ""), "relay_usage", nil, "not_paired"},
		{"not paired, instructions", at("", ""), "relay_instructions", map[string]any{"client": "claude"}, "not_paired"},
		{"a relay that is away", at(gone.URL, "x"), "list_connectors", nil, "unreachable"},
		{"a relay that forgot us", at(r.URL, strings.Replace(d.Token, "hrd_", "hrx_", 1)), "relay_usage", nil, "unauthorized"},
		{"an argument too many", at(r.URL, d.Token), "relay_status", map[string]any{"verbose": true}, "invalid_request"},
		{"an argument of another type", at(r.URL, d.Token), "create_agent_key", map[string]any{"name": 5}, "invalid_request"},
		{"no name", at(r.URL, d.Token), "create_agent_key", nil, "invalid_request"},
		{"a name that the relay refuses", at(r.URL, d.Token), "create_agent_key", map[string]any{"name": "-"}, "invalid_request"},
		{"no key", at(r.URL, d.Token), "revoke_agent_key", map[string]any{"id": "00000000"}, "not_found"},
		{"no key id", at(r.URL, d.Token), "revoke_agent_key", map[string]any{"id": "../info"}, "invalid_request"},
		{"no subscription id", at(r.URL, d.Token), "relay_remove_event_subscription", map[string]any{"id": "sub_1"}, "invalid_request"},
		{"an unknown client", at(r.URL, d.Token), "relay_instructions", map[string]any{"client": "hal"}, "invalid_request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := call(t, session(t, c.l, ""), c.tool, c.arguments)
			if !got.isError || got.fields["error"] != c.code || got.fields["message"] == "" {
				t.Errorf("got %v, want %s", got, c.code)
			}
		})
	}
	s := session(t, at(gone.URL, "x"), "")
	if got := call(t, s, "relay_status", nil); got.isError || got.fields["state"] != "error" || got.fields["paired"] != true {
		t.Errorf("the status of a relay that is away: %v", got)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "send_money"}); err == nil || !strings.Contains(err.Error(), "send_money") {
		t.Errorf("an unknown tool: %v", err)
	}
}

func TestTheToolsDescribeThemselves(t *testing.T) {
	for _, version := range kinds {
		s := session(t, at("", ""), version)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			if tool.Title == "" || tool.Description == "" || tool.InputSchema == nil || tool.OutputSchema == nil || tool.Annotations == nil {
				t.Errorf("%s lacks a part", tool.Name)
			}
			if destructive := *tool.Annotations.DestructiveHint; destructive != (tool.Name == "revoke_agent_key" || tool.Name == "relay_remove_event_subscription") {
				t.Errorf("%s: destructive %t", tool.Name, destructive)
			}
		}
		want := []string{"relay_status", "relay_usage", "relay_test", "create_agent_key", "revoke_agent_key", "list_connectors",
			"relay_instructions", "relay_events", "relay_remove_event_subscription"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
	}
}

func FuzzToolCalls(f *testing.F) {
	for _, s := range []string{`{"name":"relay_status"}`, `{"name":"revoke_agent_key","arguments":{"id":1}}`, `{"name":"create_agent_key","arguments":null}`, `[]`, `{"name":"relay_test","arguments":[]}`, ``} {
		f.Add(s)
	}
	l := at("", "")
	f.Fuzz(func(t *testing.T, params string) {
		result, err := l.callTool(context.Background(), []byte(params))
		if r, ok := result.(callResult); err == nil && (!ok || len(r.Content) != 1 || !json.Valid([]byte(r.Content[0].Text))) {
			t.Errorf("callTool(%s) = %v", params, result)
		}
	})
}
