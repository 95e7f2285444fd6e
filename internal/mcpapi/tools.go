package mcpapi

import (
	"bytes"
	_ "embed"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/strictjson"
	"github.com/herald-relay/herald/mcpevents"
)

// cached says for how long and for whom a stateless client may keep a list: it is the same for everybody and changes with
// the program only.
const cached = `,"ttlMs":3600000,"cacheScope":"public"`

// instructions teach an agent to use the tools well.
//
//go:embed instructions.txt
var instructions string

// toolsFile describes the tools, but for the arguments of send_notification, which package payload knows.
//
//go:embed tools.json
var toolsFile []byte

const argumentsHere = `"the fields of a notification"`

// listed holds the members of the result of tools/list, for both kinds of client.
var listed = sync.OnceValue(func() [2][]byte {
	tools := jsontext.Value(bytes.Replace(toolsFile, []byte(argumentsHere), notificationSchema(), 1))
	if err := tools.Compact(); err != nil {
		panic("mcpapi: tools.json: " + err.Error())
	}
	plain := append([]byte(`"tools":`), tools...)
	return [2][]byte{plain, append(slices.Clone(plain), cached...)}
})

func toolList(modern bool) []byte {
	if modern {
		return listed()[1]
	}
	return listed()[0]
}

// initialized holds the members of the result of initialize: the version that a client of the older kind goes on with.
func initialized(params strictjson.Value) []byte {
	version, _ := params.Text("protocolVersion")
	if version == Modern || !slices.Contains(versions, version) {
		version = versions[1]
	}
	out := quote([]byte(`"protocolVersion":`), version)
	out = append(out, `,"capabilities":{"tools":{"listChanged":false}},"serverInfo":`...)
	out = append(out, server...)
	return quote(append(out, `,"instructions":`...), instructions)
}

// discovery holds the members of the result of server/discover. Events are announced where each dialect looks.
func discovery(events *mcpevents.Server) []byte {
	supported, _ := json.Marshal(versions)
	capabilities := map[string]any{"tools": struct{}{}}
	events.Capabilities(capabilities)
	announced, err := json.Marshal(capabilities, json.Deterministic(true))
	if err != nil {
		panic("mcpapi: capabilities: " + err.Error())
	}
	out := append([]byte(`"supportedVersions":`), supported...)
	out = append(append(out, `,"capabilities":`...), announced...)
	out = append(append(out, `,"serverInfo":`...), server...)
	out = quote(append(out, `,"instructions":`...), instructions)
	return append(out, cached...)
}
