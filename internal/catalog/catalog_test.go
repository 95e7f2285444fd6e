package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/catalog"
)

func TestTheDefaultHasFourteenTypesAndReadsItself(t *testing.T) {
	t.Parallel()
	c := catalog.Default()
	if n := len(c.Types()); n != 14 {
		t.Errorf("%d types, want 14", n)
	}
	again, err := catalog.Read(c.JSON())
	if err != nil {
		t.Fatal(err)
	}
	if string(again.JSON()) != string(c.JSON()) {
		t.Error("the default is not what it reads of itself")
	}
	for _, typ := range c.Types() {
		if typ.Subject != "opportunity" || len(typ.Description) < 60 || c.Engine().Lookup(typ.Name) == nil {
			t.Errorf("%s: subject %q, description %q", typ.Name, typ.Subject, typ.Description)
		}
	}
	moved := json.RawMessage(`{"opportunityId":"7b2c","from":"Proposal","to":"Won","movedBy":"ana"}`)
	if err := c.Engine().Lookup("opportunity.moved").Check(moved); err != nil {
		t.Error(err)
	}
}

const deal = `{"name":"deal.won","description":"A deal was won.","subject":"deal","payloadSchema":{"type":"object"}}`

func TestACatalogThatIsWrongSaysWhere(t *testing.T) {
	t.Parallel()
	with := func(old, next string) string { return `{"events":[` + strings.Replace(deal, old, next, 1) + `]}` }
	tests := []struct{ name, file, want string }{
		{"no JSON", `{"events":[`, ""},
		{"no object", `[]`, ""},
		{"an unknown key", `{"events":[` + deal + `],"types":[]}`, "types"},
		{"a repeated key", `{"events":[],"events":[` + deal + `]}`, "events"},
		{"no list", `{"events":{}}`, "events must be a list"},
		{"nothing in it", `{"events":[]}`, "1 to 200"},
		{"nothing at all", `{}`, "1 to 200"},
		{"no type", `{"events":[7]}`, "events[0]"},
		{"an unknown key of a type", with(`"subject"`, `"kind":"x","subject"`), "kind"},
		{"a name with blanks", with("deal.won", "deal won"), "name must be"},
		{"a name in capitals", with("deal.won", "Deal.Won"), "name must be"},
		{"a name of the relay's", with("deal.won", "notification.reply"), "belong to the relay"},
		{"a number as name", with(`"deal.won"`, "7"), "must be strings"},
		{"no description", with("A deal was won.", " "), "description must"},
		{"a long description", with("A deal was won.", strings.Repeat("x", 4001)), "description must"},
		{"a subject that is an id", with(`"subject":"deal"`, `"subject":"deal/1"`), "subject must be"},
		{"no schema", with(`,"payloadSchema":{"type":"object"}`, ``), "payloadSchema must be"},
		{"a schema of something else", with(`{"type":"object"}`, `{"type":"array"}`), `"type": "object"`},
		{"a schema that is none", with(`{"type":"object"}`, `{"type":"object","properties":7}`), "payloadSchema"},
		{"a schema without end", with(`{"type":"object"}`, `{"type":"object","allOf":[{"$ref":"#"}]}`), "without going into the value"},
		{"one name twice", `{"events":[` + deal + `,` + deal + `]}`, "named twice"},
		{"too big", `{"events":[` + deal + `],"x":"` + strings.Repeat("x", catalog.MaxFile) + `"}`, "at most"},
	}
	for _, tt := range tests {
		if _, err := catalog.Read([]byte(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	two := `{"events":[` + strings.Replace(deal, "deal.won", "A", 1) + `,` + strings.Replace(deal, "deal.won", "B", 1) + `]}`
	if _, err := catalog.Read([]byte(two)); err == nil || !strings.Contains(err.Error(), "events[0]") || !strings.Contains(err.Error(), "events[1]") {
		t.Errorf("of two that are wrong it names %v", err)
	}
}

func TestYAMLIsReadWhenItIsPlain(t *testing.T) {
	t.Parallel()
	good := "# deals\nevents:\n  - name: deal.won\n    subject: deal\n    description: >-\n      A deal\n      was won.\n    payloadSchema: {type: object, required: [b, a]}\n"
	data, err := catalog.FromYAML([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Types()[0]; got.Description != "A deal was won." || string(got.PayloadSchema) != `{"type": "object", "required": ["b", "a"]}` {
		t.Errorf("read %+v, schema %s", got, got.PayloadSchema)
	}
	for name, file := range map[string]string{
		"a repeated key":  "events: []\nevents: []\n",
		"an alias":        "a: &a [x, x]\nevents: [*a, *a]\n",
		"two documents":   good + "---\n" + good,
		"nothing":         "",
		"a broken list":   "events: [\n",
		"a tab":           "events:\n\t- x\n",
		"a complex key":   "? [a]\n: b\n",
		"not a number":    "events: .nan\n",
		"more than a lot": "events: " + strings.Repeat("x", catalog.MaxFile) + "\n",
	} {
		data, err := catalog.FromYAML([]byte(file))
		if err == nil {
			_, err = catalog.Read(data)
		}
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestOnlyAdditiveChangesAreNoBreaks(t *testing.T) {
	t.Parallel()
	read := func(subject, schema string, more ...string) *catalog.Catalog {
		all := append([]string{`{"name":"deal.won","description":"x","subject":"` + subject + `","payloadSchema":` + schema + `}`}, more...)
		c, err := catalog.Read([]byte(`{"events":[` + strings.Join(all, ",") + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := read("deal", `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`)
	lost := strings.Replace(deal, "deal.won", "deal.lost", 1)
	tests := []struct {
		name string
		next *catalog.Catalog
		want string
	}{
		{"nothing", old, ""},
		{"another type", read("deal", `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`, lost), ""},
		{"another member", read("deal", `{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer"}}}`), ""},
		{"prose", read("deal", `{"type":"object","required":["a"],"properties":{"a":{"type":"string","description":"x"}}}`), ""},
		{"a type that is gone", read("deal", `{"type":"object"}`), "no longer required"},
		{"another kind of member", read("deal", `{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}`), "/properties/a"},
		{"another subject", read("contract", `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`), `its subject was "deal"`},
	}
	for _, tt := range tests {
		got := strings.Join(old.Breaks(tt.next), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := read("deal", `{"type":"object"}`, lost).Breaks(read("deal", `{"type":"object"}`)); len(got) != 1 || !strings.HasPrefix(got[0], "deal.lost: removed") {
		t.Errorf("a name that is gone: %q", got)
	}
}

func TestSubscriptionsTakeASubjectOfTheirKind(t *testing.T) {
	t.Parallel()
	shown, err := json.Marshal(catalog.Default().Engine().Lookup("opportunity.won").InputSchema)
	if err != nil || !strings.Contains(string(shown), `"subject"`) || !strings.Contains(string(shown), "opportunity/") {
		t.Errorf("input schema %s, %v", shown, err)
	}
}

func FuzzFiles(f *testing.F) {
	f.Add([]byte(`{"events":[` + deal + `]}`))
	f.Add([]byte("events:\n  - name: a\n    payloadSchema: {type: object}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if data, err := catalog.FromYAML(file); err == nil {
			catalog.Read(data)
		}
		c, err := catalog.Read(file)
		if err != nil {
			return
		}
		again, err := catalog.Read(c.JSON())
		if err != nil || len(c.Breaks(again)) > 0 {
			t.Errorf("reads differently the second time: %v", err)
		}
	})
}
