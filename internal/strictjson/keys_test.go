package strictjson_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/strictjson"
)

var known = []string{"title", "expectReply", "speak"}

func TestUnknownMembersAreRefusedTogetherBeforeAnythingElseAboutKeys(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in     string
		fields []string
	}{
		"one":                              {`{"title":"t","command":"x"}`, []string{"command"}},
		"three spellings of one idea":      {`{"followUp":1,"follow_up":1,"followup":1}`, []string{"followUp", "follow_up", "followup"}},
		"one sent twice is named once":     {`{"b":1,"a":1,"b":2}`, []string{"b", "a"}},
		"a repeated known one is not said": {`{"title":1,"title":2,"cmd":1}`, []string{"cmd"}},
		"a case variant is not said":       {`{"Title":1,"cmd":1}`, []string{"cmd"}},
		"null counts":                      {`{"cmd":null}`, []string{"cmd"}},
		"an empty name":                    {`{"":1}`, []string{""}},
		"a name that would not print":      {`{"a\u0000\n\u202eb\u200bc":1}`, []string{"a\ufffd\ufffd\ufffdb\ufffdc"}},
		"a long name is cut":               {`{"` + strings.Repeat("ä", 500) + `":1}`, []string{strings.Repeat("ä", 64) + "…"}},
		"a long plain name is cut":         {`{"` + strings.Repeat("a", 500) + `":1}`, []string{strings.Repeat("a", 64) + "…"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := parse(t, test.in).RefuseUnknown(known)
			wantFault(t, err, "forbidden_fields", strings.Join(test.fields, ", "), test.fields)
		})
	}
}

func TestARefusalNamesABoundedNumberOfMembers(t *testing.T) {
	t.Parallel()
	err := fault.From(parse(t, object(strictjson.MaxMembers)).RefuseUnknown(known))
	if len(err.Fields) != strictjson.MaxNamesShown || len(err.Detail) > 4096 || !strings.Contains(err.Detail, "and more") {
		t.Errorf("%d fields and a message of %d bytes: %s", len(err.Fields), len(err.Detail), err.Detail)
	}
}

func TestRepeatsAndCaseVariantsOfKnownMembersAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, part, field string }{
		"the same name twice":             {`{"title":1,"speak":2,"title":1}`, "title is sent more than once", "title"},
		"twice, once escaped":             {`{"title":1,"\u0074itle":1}`, "title is sent more than once", "title"},
		"twice, once null":                {`{"title":1,"title":null}`, "title is sent more than once", "title"},
		"a variant alone":                 {`{"Title":1}`, "Title is not accepted; write it as title", "Title"},
		"a variant beside the right one":  {`{"expectReply":1,"expectreply":1}`, "expectreply is not accepted; write it as expectReply", "expectreply"},
		"a variant by Unicode case rules": {`{"ſpeak":1}`, "write it as speak", "\u017fpeak"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := parse(t, test.in)
			wantInvalid(t, v.RefuseUnknown(known), test.part, []string{test.field})
			wantInvalid(t, v.RefuseRepeats(known), test.part, []string{test.field})
		})
	}
}

func TestTolerantRoutesRefuseOnlyAmbiguity(t *testing.T) {
	t.Parallel()
	ok := parse(t, `{"title":1,"anything":{"a":1,"a":2},"else":null}`)
	if err := ok.RefuseRepeats(known); err != nil {
		t.Errorf("unknown members were refused: %v", err)
	}
	wantInvalid(t, parse(t, `{"x":1,"x":2}`).RefuseRepeats(known), "x is sent more than once", []string{"x"})
	wantInvalid(t, parse(t, `{"x":1,"y":1,"X":2}`).RefuseRepeats(known), "x and X differ only in case", []string{"X"})
	wantInvalid(t, parse(t, `{"x":1,"X":2}`).RefuseRepeatsAt("speak.", nil), "speak.x and speak.X differ", []string{"speak.X"})
	wantInvalid(t, parse(t, `{"Title":1}`).RefuseRepeatsAt("in.", known), "in.Title is not accepted; write it as in.title", []string{"in.Title"})

	many := parse(t, strings.TrimSuffix(object(500), "}")+`,"K77":0}`)
	wantInvalid(t, many.RefuseRepeats(known), "k77 and K77 differ only in case", []string{"K77"})
	if err := parse(t, object(500)).RefuseRepeats(known); err != nil {
		t.Errorf("500 different members were refused: %v", err)
	}
}

func TestRepeatsInsideAreFoundByPath(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, field string }{
		"at the top":         {`{"id":1,"ID":1}`, "ID"},
		"one level down":     {`{"params":{"name":1,"name":2}}`, "params.name"},
		"below an array":     {`{"params":[0,{"x":{"k":1,"k":2}}]}`, "params.x.k"},
		"in a top-level one": {`[{"k":1,"K":1}]`, "K"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, parse(t, test.in).RefuseRepeatsDeep(), test.field, []string{test.field})
		})
	}
	if err := parse(t, `{"a":{"k":1},"b":{"k":1},"c":[{"k":1},{"k":2}]}`).RefuseRepeatsDeep(); err != nil {
		t.Errorf("the same name in different objects was refused: %v", err)
	}
	deep := strings.Repeat(`{"`+strings.Repeat("n", 200)+`":`, 60) + `{"a":1,"a":1}` + strings.Repeat("}", 60)
	if got := fault.From(parse(t, deep).RefuseRepeatsDeep()); len(got.Fields) != 1 || len(got.Fields[0]) > 512 {
		t.Errorf("a deep path is shown as %v", got.Fields)
	}
}

func TestLookupsTellAbsentFromWrong(t *testing.T) {
	t.Parallel()
	v := parse(t, `{"s":" x ","n":2.5,"b":true,"z":null,"big":1e999,"o":{"k":1}}`)
	type outcome struct {
		Value any
		Found strictjson.Found
	}
	at := func(value any, found strictjson.Found) outcome { return outcome{value, found} }
	s, sFound := v.Text("s")
	n, nFound := v.Number("n")
	b, bFound := v.Flag("b")
	_, absent := v.Text("missing")
	_, null := v.Flag("z")
	_, wrong := v.Text("n")
	_, wrongFlag := v.Flag("s")
	_, infinite := v.Number("big")
	_, wrongKind := v.Typed("o", strictjson.Array)
	got := []outcome{at(s, sFound), at(n, nFound), at(b, bFound), at("absent", absent), at("null", null),
		at("wrong", wrong), at("wrong flag", wrongFlag), at("infinite", infinite), at("wrong kind", wrongKind)}
	want := []outcome{{" x ", strictjson.Present}, {2.5, strictjson.Present}, {true, strictjson.Present},
		{"absent", strictjson.Absent}, {"null", strictjson.Absent}, {"wrong", strictjson.WrongType},
		{"wrong flag", strictjson.WrongType}, {"infinite", strictjson.WrongType}, {"wrong kind", strictjson.WrongType}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lookups differ (-want +got):\n%s", diff)
	}
	if m, ok := v.Member("z"); !ok || m.Kind != strictjson.Null {
		t.Errorf("a null member is %v, %v", m, ok)
	}
}

func TestOptionalLookupsRefuseAWrongTypeByName(t *testing.T) {
	t.Parallel()
	v := parse(t, `{"s":"x","n":0,"b":true,"z":null}`)
	if s, err := v.OptionalText("s"); s != "x" || err != nil {
		t.Errorf("text = %q, %v", s, err)
	}
	if s, err := v.OptionalText("z"); s != "" || err != nil {
		t.Errorf("null text = %q, %v", s, err)
	}
	if n, err := v.OptionalNumber("n"); n == nil || *n != 0 || err != nil {
		t.Errorf("number = %v, %v", n, err)
	}
	if n, err := v.OptionalNumber("none"); n != nil || err != nil {
		t.Errorf("absent number = %v, %v", n, err)
	}
	if b, err := v.OptionalFlag("b"); !b || err != nil {
		t.Errorf("flag = %v, %v", b, err)
	}
	_, textErr := v.OptionalText("b")
	wantInvalid(t, textErr, "b must be a string", []string{"b"})
	_, numberErr := v.OptionalNumber("s")
	wantInvalid(t, numberErr, "s must be a number", []string{"s"})
	_, flagErr := v.OptionalFlag("n")
	wantInvalid(t, flagErr, "n must be a boolean", []string{"n"})
}

func parse(t *testing.T, in string) strictjson.Value {
	t.Helper()
	v, err := strictjson.Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
