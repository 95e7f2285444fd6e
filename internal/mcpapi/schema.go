package mcpapi

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/payload"
)

// bounds are the rules of fields that JSON Schema can say, so that a model keeps to them; package payload enforces all.
var bounds = map[string]string{
	"title": `"maxLength":200`, "body": `"maxLength":8000`, "subtitle": `"maxLength":200`, "status": `"pattern":"^[A-Za-z0-9_-]{1,32}$"`,
	"project": `"maxLength":100`, "session": `"maxLength":100`, "task": `"maxLength":100`, "tool": `"maxLength":100`, "group": `"maxLength":100`,
	"link": `"format":"uri","maxLength":2048`, "imageURL": `"format":"uri","maxLength":2048`,
	"notificationId": `"pattern":"^[A-Za-z0-9._:-]{1,128}$"`,
	"tags":           `"maxItems":10,"items":{"type":"string","minLength":1,"maxLength":32}`,
	"priority":       `"enum":["low","normal","high","urgent"]`,
	"presentation":   `"enum":["banner","voice","both"]`,
	"timeoutSeconds": `"minimum":1,"maximum":3600`,
	"sound":          `"maxLength":40`,
	"voice":          `"pattern":"^[A-Za-z0-9_]{1,40}$"`,
	"speed":          `"minimum":0.5,"maximum":2`,
	"text":           `"maxLength":2000`,
	"lang":           `"pattern":"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?$"`,
}

// notificationSchema is the JSON Schema of what may be sent.
func notificationSchema() []byte {
	out := []byte(`{"type":"object","required":["title"],"properties":{`)
	for i, f := range payload.Fields() {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendField(out, f)
	}
	return append(out, `},"additionalProperties":false}`...)
}

func appendField(out []byte, f payload.Field) []byte {
	out = append(quote(out, f.Name), `:{"type":`...)
	if len(f.Types) == 1 {
		out = quote(out, f.Types[0])
	} else {
		types, _ := json.Marshal(f.Types)
		out = append(out, types...)
	}
	out = quote(append(out, `,"description":`...), f.Use+". Must be "+f.Need+".")
	if extra := bounds[f.Name]; extra != "" {
		out = append(append(out, ','), extra...)
	}
	if f.Name == "speak" {
		out = append(out, `,"properties":{`...)
		for i, inner := range payload.SpeakFields() {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendField(out, inner)
		}
		out = append(out, `},"additionalProperties":false`...)
	}
	return append(out, '}')
}

func quote(out []byte, s string) []byte {
	out, err := jsontext.AppendQuote(out, s)
	if err != nil {
		panic("mcpapi: " + err.Error())
	}
	return out
}
