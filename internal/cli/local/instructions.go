package local

import (
	"context"
	"strings"
)

// Instructions tell how an agent of some kind is connected to the relay.
type Instructions struct {
	Client string   `json:"client"`
	Relay  string   `json:"relay"`
	MCPURL string   `json:"mcpUrl"`
	Steps  []string `json:"steps"`
}

const approve = "Herald asks on this device: check who asks and where its browser goes, then approve there, with /approve 1 in herald listen, or with herald connectors approve."

// ways are the steps by kind of client; MCP stands for the endpoint and RELAY for the address.
var ways = map[string][]string{
	"chatgpt": {
		"In ChatGPT open Settings and then Connectors, switch developer mode on under Advanced, and choose Create.",
		"Enter MCP as the server's address, choose OAuth, and leave the client id and secret empty.",
		approve,
		"A conversation can use it once it is switched on there. It stays bound to this address: another address means adding it again.",
	},
	"claude": {
		"In the Claude apps open Settings and then Connectors, choose Add custom connector and enter MCP.",
		"In Claude Code run: claude mcp add --transport http herald MCP, then /mcp in a session to sign in.",
		approve,
		`Where no browser is at hand use a key instead: create_agent_key with client "claude", then claude mcp add --transport http herald MCP --header "Authorization: Bearer KEY".`,
	},
	"codex": {
		`Make a key with create_agent_key and client "codex", and put it into the environment variable HERALD_KEY.`,
		"Add to ~/.codex/config.toml: [mcp_servers.herald], below it url = \"MCP\" and bearer_token_env_var = \"HERALD_KEY\".",
		"Or sign in by browser: leave bearer_token_env_var out and run codex mcp login herald.",
		approve,
	},
	"device": {
		"For an agent without a browser. Register it: POST RELAY/register with JSON that holds client_name and the grant type urn:ietf:params:oauth:grant-type:device_code.",
		"Begin: POST RELAY/device_authorization with the form field client_id. Show the person user_code and verification_uri.",
		approve,
		"Meanwhile POST RELAY/token every interval seconds with grant_type, client_id and device_code. Until the approval it answers authorization_pending; then it holds the access token.",
		"Call MCP, or the routes of RELAY/v1, with the access token as bearer.",
	},
}

// Instructions returns the steps for a kind of client: chatgpt, claude, codex or device.
func (l *Local) Instructions(_ context.Context, kind string) (Instructions, error) {
	steps, known := ways[kind]
	if !known {
		return Instructions{}, malformed("client", "client is one of chatgpt, claude, codex and device")
	}
	_, p, err := l.opt.Open()
	if err != nil {
		return Instructions{}, err
	}
	out := Instructions{Client: kind, Relay: p.Relay, MCPURL: p.Relay + "/mcp"}
	fill := strings.NewReplacer("MCP", out.MCPURL, "RELAY", p.Relay)
	for _, step := range steps {
		out.Steps = append(out.Steps, fill.Replace(step))
	}
	return out, nil
}
