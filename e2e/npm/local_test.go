package npm

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTheOfficialClientsStartHeraldAndUseItsDevice has each client run herald mcp on a paired machine.
func TestTheOfficialClientsStartHeraldAndUseItsDevice(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	binary, err := heraldBinary()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	profile := filepath.Join(home, "profile.json")
	code := r.must("POST", "/v1/device/links", r.device, map[string]any{"deviceName": "desk"})["code"].(string)
	pair := exec.Command(binary, "pair", r.url+"/pair#"+code, "--profile", profile, "--name", "desk")
	pair.Env = environment(home)
	if out, err := pair.CombinedOutput(); err != nil {
		t.Fatalf("herald pair: %v\n%s", err, out)
	}
	for _, o := range officials {
		t.Run(o.name, func(t *testing.T) {
			s := start(t, o.script)
			var hello struct{ Era string }
			s.must("connect", map[string]any{"mode": o.mode, "process": map[string]any{
				"command": binary, "args": []string{"mcp", "--profile", profile}, "env": map[string]string{"HOME": home}}}, &hello)
			if hello.Era != o.era {
				t.Errorf("connected as %+v", hello)
			}
			var list []tool
			if s.must("tools", nil, &list); len(list) != 9 {
				t.Errorf("%d tools", len(list))
			}
			for _, tool := range list {
				if tool.Title == "" || tool.Description == "" || tool.OutputSchema["type"] != "object" || tool.Annotations["destructiveHint"] == nil {
					t.Errorf("%s lacks a part: %+v", tool.Name, tool)
				}
			}
			call := func(name string, args map[string]any, isError bool) map[string]any {
				t.Helper()
				var got result
				s.must("call", map[string]any{"name": name, "args": args}, &got)
				if isError {
					if !got.IsError || len(got.Content) != 1 || got.StructuredContent != nil {
						t.Errorf("%s: %+v", name, got)
					}
					return nil
				}
				return got.check(t, false)
			}
			if status := call("relay_status", nil, false); status["state"] != "offline" || status["relay"] != r.url {
				t.Errorf("relay_status: %v", status)
			}
			made := call("create_agent_key", map[string]any{"name": "bot"}, false)
			if answer := r.must("GET", "/v1/status", made["key"].(string), nil); answer["online"] != false {
				t.Errorf("with the new key: %v", answer)
			}
			call("create_agent_key", map[string]any{"name": "bot"}, true)
			call("revoke_agent_key", map[string]any{"id": made["id"]}, false)
			var troubles []string
			if s.must("troubles", nil, &troubles); len(troubles) > 0 {
				t.Errorf("the client reports %q", troubles)
			}
			s.must("close", nil, nil)
		})
	}
}
