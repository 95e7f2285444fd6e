package canonical

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestTransform(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"members are sorted at every depth", `{"b":1,"a":{"y":[2,1],"x":null}}`, `{"a":{"x":null,"y":[2,1]},"b":1}`},
		{"white space goes", " { \"a\" : [ 1 , 2 ] } ", `{"a":[1,2]}`},
		{"1, 1.0 and 1e0 are one number", `[1,1.0,1e0]`, `[1,1,1]`},
		{"numbers as ECMAScript writes them", `[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001,-0,1e21,1e-7]`,
			`[333333333.3333333,1e+30,4.5,0.002,1e-27,0,1e+21,1e-7]`},
		{"escapes are minimal", `"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/\b\t\f\r"`, "\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\\b\\t\\f\\r\""},
		{"names are ordered by UTF-16 units", `{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"1":4}`, "{\"1\":4,\"€\":3,\"😀\":2,\"\ufb33\":1}"},
		{"names that look like prototypes stay", `{"__proto__":1,"constructor":2}`, `{"__proto__":1,"constructor":2}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Transform([]byte(c.in))
			if err != nil || string(got) != c.want {
				t.Errorf("Transform = %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"repeated names", `{"a":1,"a":1}`, ErrRepeated},
		{"names repeated through an escape", `{"a":1,"\u0061":1}`, ErrRepeated},
		{"trailing data", `{} {}`, ErrTrailing},
		{"nothing", ``, ErrSyntax},
		{"half an object", `{"a":`, ErrSyntax},
		{"a comma too many", `[1,]`, ErrSyntax},
		{"huge numbers", `1e400`, ErrNumber},
		{"a lone surrogate", `"\ud83d"`, ErrText},
		{"a reversed pair", `"\ude00\ud83d"`, ErrText},
		{"broken UTF-8", "\"\xff\"", ErrText},
		{"depth", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), ErrDeep},
	} {
		t.Run(c.name, func(t *testing.T) {
			if v, err := Parse([]byte(c.in)); !errors.Is(err, c.want) {
				t.Errorf("Parse = %v, %v; want %v", v, err, c.want)
			}
		})
	}
}

func FuzzTransform(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":{"y":[2,1],"x":null}}`, `"\ud83d\ude00"`, `1e-7`, `[true,false,null,""]`, `"\\ud83d"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := Transform(in)
		if err != nil {
			return
		}
		twice, err := Transform(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("canonical form %q of %q is not stable: %q, %v", once, in, twice, err)
		}
	})
}
