package strictjson_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/strictjson"
)

type (
	value  = strictjson.Value
	member = strictjson.Member
)

func TestParseKeepsEveryValueAndItsPlace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   string
		want value
	}{
		"null":                       {`null`, value{Kind: strictjson.Null, Size: 4}},
		"true":                       {` true `, value{Kind: strictjson.Bool, Bool: true, Size: 4}},
		"false":                      {`false`, value{Kind: strictjson.Bool, Size: 5}},
		"a plain string":             {`"Grüße 👩‍👩‍👧‍👦"`, text("Grüße 👩‍👩‍👧‍👦", len(`"Grüße 👩‍👩‍👧‍👦"`))},
		"a string with escapes":      {`"a\n\u00e9\/\ud83d\ude00"`, text("a\né/😀", 25)},
		"an escaped NUL":             {`"\u0000"`, text("\x00", 8)},
		"an integer":                 {`42`, number("42", 42)},
		"a number beyond float64":    {`1e999`, number("1e999", math.Inf(1))},
		"a number below float64":     {`-1e999`, number("-1e999", math.Inf(-1))},
		"a number too small for one": {`1e-999`, number("1e-999", 0)},
		"a number as it was written": {`1.50E+1`, number("1.50E+1", 15)},
		"an empty object":            {`{ }`, value{Kind: strictjson.Object, Size: 3}},
		"an empty array":             {"[\t]", value{Kind: strictjson.Array, Size: 3}},
		"repeated members, both in order": {`{"a":1,"\u0061":2}`, value{Kind: strictjson.Object, Size: 18,
			Members: []member{{Name: "a", Value: number("1", 1)}, {Name: "a", Value: number("2", 2)}}}},
		"what is nested": {" [ {\"k\" : [true]} , \"\" ]\r\n", value{Kind: strictjson.Array, Size: 23, Items: []value{
			{Kind: strictjson.Object, Size: 14, Members: []member{{Name: "k", Value: value{Kind: strictjson.Array, Size: 6,
				Items: []value{{Kind: strictjson.Bool, Bool: true, Size: 4}}}}}},
			text("", 2)}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := strictjson.Parse([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("tree differs (-want +got):\n%s", diff)
			}
		})
	}
}

func text(s string, size int) value {
	return value{Kind: strictjson.String, Str: s, Size: int32(size)}
}

func number(literal string, n float64) value {
	return value{Kind: strictjson.Number, Str: literal, Num: n, Size: int32(len(literal))}
}

func TestParseRefusesWithASentenceThatSaysWhere(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want string }{
		"nothing":                        {"", "there is no JSON here"},
		"only white space":               {" \n", "there is no JSON here"},
		"an object without its end":      {`{"a":1`, "ends too early, at byte 6"},
		"half a literal":                 {`tru`, "ends too early, at byte 3"},
		"a member without a value":       {`{"a":}`, "malformed at byte 5"},
		"a comma before the end":         {`{"a":1,}`, "malformed at byte 6"},
		"a name that is a number":        {`{1:2}`, "malformed at byte 1"},
		"a name that is an object":       {`{{`, "malformed at byte 1"},
		"brackets that do not match":     {`[}`, "malformed at byte 1"},
		"a closing bracket":              {`]`, "malformed at byte 0"},
		"two items without a comma":      {`[1 2]`, "malformed at byte 3"},
		"a raw newline inside a string":  {"\"a\nb\"", "malformed at byte 2"},
		"an escape that does not exist":  {`"\q"`, "malformed at byte 1"},
		"a byte order mark":              {"\ufeff{}", "malformed at byte 0"},
		"a comment":                      {"{} // done", "more data at byte 3"},
		"a second value":                 {"{}\n{}", "more data at byte 3"},
		"a number with a leading zero":   {`01`, "more data at byte 1"},
		"NaN":                            {`NaN`, "malformed at byte 0"},
		"bytes that are not UTF-8":       {"[\"a\",\"\xff\"]", "not valid Unicode at byte 6"},
		"an overlong encoding":           {"\"\xc0\xaf\"", "not valid Unicode at byte 1"},
		"an encoded surrogate":           {"\"\xed\xa0\x80\"", "not valid Unicode at byte 1"},
		"half of a surrogate pair":       {`"\ud800"`, "not valid Unicode at byte 1"},
		"a surrogate pair turned around": {`"\ude00\ud83d"`, "not valid Unicode at byte 1"},
		"bad UTF-8 in a member name":     {"{\"\xff\":1}", "not valid Unicode at byte 2"},
		"65 levels":                      {nested(65), "nests deeper than 64 levels at byte 64"},
		"10,000 levels":                  {strings.Repeat("[", 10_000), "nests deeper than 64 levels at byte 64"},
		"10,000 levels of objects":       {strings.Repeat(`{"a":`, 10_000), "nests deeper than 64 levels at byte 320"},
		"too many values":                {"[" + strings.Repeat("0,", strictjson.MaxValues-1) + "0]", "more than 10000 values"},
		"too many members":               {object(strictjson.MaxMembers + 1), "more than 1000 members"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := strictjson.Parse([]byte(test.in))
			wantInvalid(t, err, test.want, nil)
		})
	}
}

func TestParseAcceptsWhatIsExactlyAtABound(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"64 levels":      nested(64),
		"10,000 values":  "[" + strings.Repeat("0,", strictjson.MaxValues-2) + "0]",
		"1,000 members":  object(strictjson.MaxMembers),
		"a long string":  `"` + strings.Repeat("x", 1<<20) + `"`,
		"a wide integer": strings.Repeat("9", 300),
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := strictjson.Parse([]byte(in)); err != nil {
				t.Error(err)
			}
		})
	}
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func object(members int) string {
	parts := make([]string, members)
	for i := range parts {
		parts[i] = `"k` + strconv.Itoa(i) + `":0`
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestParseObjectRefusesOtherValuesByKind(t *testing.T) {
	t.Parallel()
	tests := map[string]string{`null`: "null", `[]`: "an array", `"{}"`: "a string", `7`: "a number", `true`: "a boolean"}
	for in, kind := range tests {
		_, err := strictjson.ParseObject([]byte(in))
		wantInvalid(t, err, "must be an object, in braces; this is "+kind, nil)
	}
	if v, err := strictjson.ParseObject([]byte(`{"a":1}`)); err != nil || len(v.Members) != 1 {
		t.Errorf("an object was read as %v, %v", v, err)
	}
}

func TestParseKeepsNothingOfItsInput(t *testing.T) {
	t.Parallel()
	in := []byte(`{"name":"value"}`)
	v, err := strictjson.Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		in[i] = '#'
	}
	if s, _ := v.Text("name"); s != "value" {
		t.Errorf("after the input changed the value reads %q", s)
	}
}

func TestARefusalLeavesTheNextParseUntouched(t *testing.T) {
	t.Parallel()
	for range 100 {
		if _, err := strictjson.Parse([]byte(`{"a":[1,2,{"b":tru`)); err == nil {
			t.Fatal("half an object was accepted")
		}
		v, err := strictjson.Parse([]byte(`{"c":[3]}`))
		if err != nil || len(v.Members) != 1 || v.Members[0].Name != "c" || len(v.Members[0].Value.Items) != 1 {
			t.Fatalf("after a refusal an object was read as %v, %v", v, err)
		}
	}
}

func TestRefusalsNeverQuoteValues(t *testing.T) {
	t.Parallel()
	for _, in := range []string{`{"a":"hrk_secret" "b"}`, `{"a":hrk_secret}`, `["hrk_secret`, `{"hrk_secret":1} hrk_secret`} {
		_, err := strictjson.Parse([]byte(in))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("refusal of %s reads %v", in, err)
		}
	}
}

// wantInvalid checks for an invalid_request whose sentence holds part and whose fields are exactly fields.
func wantInvalid(t *testing.T, err error, part string, fields []string) {
	t.Helper()
	wantFault(t, err, "invalid_request", part, fields)
}

func wantFault(t *testing.T, err error, code, part string, fields []string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want %s with %q", code, part)
	}
	got := fault.From(err)
	if got.Kind != fault.Invalid || got.Code != code || !strings.Contains(got.Detail, part) {
		t.Errorf("refused as %v %v, want %s with %q", got.Kind, got, code, part)
	}
	if diff := cmp.Diff(fields, got.Fields); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
}

func TestALentTreeEqualsAnOwnedOne(t *testing.T) {
	t.Parallel()
	for _, in := range []string{`{}`, `{"a":1}`, `{"a":{"b":{"c":[1,[2,{"d":3}],{"e":4}]},"f":{}},"g":[{"h":1},{"i":2},{"j":3,"k":4}]}`, object(600),
		`{"a":` + object(300) + `,"b":` + object(300) + `}`} {
		want, err := strictjson.ParseObject([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			err = strictjson.WithObject([]byte(in), func(got value) error {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("trees of %.40s differ (-owned +lent):\n%s", in, diff)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWithObjectReturnsTheErrorOfUseAndCallsItForObjectsOnly(t *testing.T) {
	t.Parallel()
	cause := errors.New("refused by the caller")
	if err := strictjson.WithObject([]byte(`{}`), func(value) error { return cause }); !errors.Is(err, cause) {
		t.Errorf("error = %v, want the caller's", err)
	}
	for in, part := range map[string]string{`[]`: "must be an object", `{"a"`: "ends too early", `{} 1`: "more data"} {
		err := strictjson.WithObject([]byte(in), func(value) error {
			t.Errorf("use was called for %s", in)
			return nil
		})
		wantInvalid(t, err, part, nil)
	}
}

func TestStringsOfALentTreeMayBeKept(t *testing.T) {
	t.Parallel()
	var kept []string
	for i := range 50 {
		in := []byte(`{"k":"value ` + strconv.Itoa(i) + `","e":"\u0076` + strconv.Itoa(i) + `"}`)
		err := strictjson.WithObject(in, func(v value) error {
			kept = append(kept, v.Members[0].Value.Str, v.Members[1].Value.Str)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		clear(in)
	}
	for i := range 50 {
		if kept[2*i] != "value "+strconv.Itoa(i) || kept[2*i+1] != "v"+strconv.Itoa(i) {
			t.Fatalf("string %d has become %q and %q", i, kept[2*i], kept[2*i+1])
		}
	}
}
