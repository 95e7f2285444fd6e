package strictjson_test

import (
	"testing"

	"github.com/herald-relay/herald/internal/strictjson"
)

func TestCanonicalTellsValuesNotSpellings(t *testing.T) {
	t.Parallel()
	same := [][2]string{
		{`{"b":1,"a":[true,null]}`, " {\n\"a\": [ true, null ], \"b\": 1 }"},
		{`"A\/é"`, `"\u0041/\u00e9"`},
		{`1.50`, `15e-1`},
	}
	for _, s := range same {
		if a, b := string(strictjson.Canonical([]byte(s[0]))), string(strictjson.Canonical([]byte(s[1]))); a != b {
			t.Errorf("%s and %s are %s and %s", s[0], s[1], a, b)
		}
	}
	other := [][2]string{{`9007199254740993`, `9007199254740992`}, {`[1,2]`, `[2,1]`}, {`"a"`, `"A"`}, {`{"a":null}`, `{}`}}
	for _, s := range other {
		if a, b := string(strictjson.Canonical([]byte(s[0]))), string(strictjson.Canonical([]byte(s[1]))); a == b {
			t.Errorf("%s and %s are both %s", s[0], s[1], a)
		}
	}
	if got := string(strictjson.Canonical([]byte(`{"a"`))); got != `{"a"` {
		t.Errorf("what is no JSON became %s", got)
	}
}
