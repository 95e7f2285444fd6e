package mcpevents_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/herald-relay/herald/mcpevents"
)

// The validator follows references without end, until the process has no stack left.
func TestASchemaThatLeadsBackToItselfIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, schema, want string }{
		{"itself", `{"$ref":"#"}`, "without going into the value"},
		{"in allOf", `{"allOf":[{"type":"object"},{"$ref":"#"}]}`, "without going into the value"},
		{"two of them", `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, "without going into the value"},
		{"below a property", `{"properties":{"enum":{"if":{"$ref":"#/properties/enum"}}}}`, "without going into the value"},
		{"by anchor", `{"properties":{"x":{"$anchor":"x","oneOf":[{"$ref":"#x"}]}}}`, "without going into the value"},
		{"escaped", `{"$defs":{"a/b c":{"then":{"$ref":"#/$defs/a~1b%20c"}}}}`, "without going into the value"},
		{"dependent", `{"dependentSchemas":{"x":{"$ref":"#"}}}`, "without going into the value"},
		{"another document inside", `{"properties":{"x":{"$id":"https://schemas.example/x","type":"string"}}}`, "$id stands at the root only"},
		{"another document outside", `{"$ref":"https://schemas.example/x"}`, ""},
	}
	for _, tt := range tests {
		_, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "x", PayloadSchema: json.RawMessage(tt.schema)})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	fine := []string{
		`{"$id":"https://schemas.example/tree","type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}},"$id":{"type":"string"}}}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"next":{"$ref":"#/$defs/a"}}}}}`,
		`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object"}}}`,
	}
	for _, schema := range fine {
		if _, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "x", PayloadSchema: json.RawMessage(schema)}); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

func TestAPayloadErrorNamesTheValueThatDoesNotFit(t *testing.T) {
	t.Parallel()
	c, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "x", PayloadSchema: json.RawMessage(`{"type":"object","required":["a"],"additionalProperties":false,
		"properties":{"a":{"type":"object","properties":{"b":{"type":"integer"},"p/q":{"enum":["x"]}}},"l":{"type":"array","items":{"type":"object","properties":{"n":{"maxLength":2}}}}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for data, want := range map[string]string{
		`{"a":{"b":7}}`:                 "fits",
		`{}`:                            "",
		`[]`:                            "",
		`{"a":1,"a":2}`:                 "",
		`{"a":{},"z":1}`:                "",
		`{"a":7}`:                       "/a",
		`{"a":{"b":"validating /x: "}}`: "/a/b",
		`{"a":{"p/q":1}}`:               "/a/p~1q",
		`{"a":{},"l":[{},{"n":"abc"}]}`: "/l",
	} {
		err := c.Lookup("x").Check(json.RawMessage(data))
		var wrong *mcpevents.PayloadError
		if errors.As(err, &wrong) != (want != "fits") || (wrong != nil && (wrong.Pointer != want || strings.HasPrefix(wrong.Err.Error(), "validating"))) {
			t.Errorf("%s: %v, want it at %q", data, err, want)
		}
	}
}
