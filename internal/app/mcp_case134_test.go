package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/testkit"
)

// publishedTools is what clients have read and keep until somebody has them read again: tools may gain optional arguments,
// and nothing here may go, change its type or become required.
var publishedTools = map[string]struct{ required, arguments string }{
	"send_notification": {
		required: "title",
		arguments: "allowVoiceReply:boolean body:string duration:string|number expectReply:boolean group:string icon:string " +
			"imageURL:string link:string notificationId:string persistent:boolean presentation:string priority:string " +
			"project:string session:string sound:string speak:boolean|string|object speed:number status:string " +
			"subtitle:string tags:array task:string timeoutSeconds:number title:string tool:string voice:string",
	},
	"get_receipt": {
		required:  "notificationId",
		arguments: "notificationId:string",
	},
	"wait_for_reply": {
		required:  "notificationId",
		arguments: "notificationId:string timeoutSeconds:integer",
	},
	"herald_status": {
		required:  "",
		arguments: "",
	},
}

// toolSchema is what a tool takes.
type toolSchema struct {
	Required   []string
	Properties map[string]struct{ Type any }
}

func TestCase134ToolsChangeOnlyByAddition(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	a := r.Pair("Mac").Agent("bot")
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema toolSchema
			}
		}
	}
	if err := json.Unmarshal(plain(a, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Raw, &list); err != nil {
		t.Fatal(err)
	}
	in := map[string]toolSchema{}
	for _, tool := range list.Result.Tools {
		in[tool.Name] = tool.InputSchema
	}
	for name, published := range publishedTools {
		if got := strings.Join(in[name].Required, " "); got != published.required {
			t.Errorf("%s requires %q, published was %q", name, got, published.required)
		}
		for argument := range strings.FieldsSeq(published.arguments) {
			key, kind, _ := strings.Cut(argument, ":")
			if p, there := in[name].Properties[key]; !there || kinds(p.Type) != kind {
				t.Errorf("%s takes %s as %v, published was %s", name, key, p.Type, kind)
			}
		}
	}
	var hello struct {
		Result struct{ ServerInfo struct{ Version string } }
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	if err := json.Unmarshal(plain(a, initialize).Raw, &hello); err != nil || hello.Result.ServerInfo.Version == "" {
		t.Errorf("no version tells that there is something new to read: %v", err)
	}
}

// kinds writes the types of a schema.
func kinds(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		list := make([]string, len(v))
		for i, kind := range v {
			list[i], _ = kind.(string)
		}
		return strings.Join(list, "|")
	}
	return ""
}
