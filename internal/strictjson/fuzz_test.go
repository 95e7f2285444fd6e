package strictjson

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
)

// FuzzParse holds Parse to encoding/json: whatever it accepts is valid there too and means the same values, and
// whatever it refuses is invalid there or breaks one of the documented stricter rules.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[]`, `{"a":1,"a":2}`, ` {"title" : "x\u00e9\n", "n":[1.5e-7,-0,1e999]} `, `"\ud83d\ude00"`, `"\ud800"`,
		"\"\xff\"", `{"a":}`, `{"speak":{"text":"\"\\\/"}}`, `[[[[[[[[]]]]]]]]`, `{"a":1} x`, strings.Repeat("[", 70), `[1,]`, "\ufeff1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data)
		valid := json.Valid(data)
		switch {
		case err != nil:
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Kind != fault.Invalid || e.Detail == "" || len(e.Detail) > 200 {
				t.Errorf("refused as %v", err)
			}
			if valid && !stricter(data) {
				t.Errorf("refused what encoding/json takes: %v", err)
			}
		case !valid:
			t.Error("accepted what encoding/json refuses")
		default:
			sameMeaning(t, data, v)
			sameLent(t, data, v)
		}
	})
}

// sameLent checks that the tree lent to a caller is the one that Parse returns.
func sameLent(t *testing.T, data []byte, want Value) {
	t.Helper()
	if want.Kind != Object {
		return
	}
	err := WithObject(data, func(got Value) error {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the lent tree differs (-owned +lent):\n%s", diff)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// stricter tells whether data may break a rule of ours that encoding/json does not have.
func stricter(data []byte) bool {
	brackets := strings.Count(string(data), "[") + strings.Count(string(data), "{")
	commas := strings.Count(string(data), ",") + strings.Count(string(data), ":")
	return !utf8.Valid(data) || surrogate.Match(data) || brackets > MaxDepth || commas >= MaxMembers
}

// sameMeaning compares v with what encoding/json makes of data, where that can hold it.
func sameMeaning(t *testing.T, data []byte, v Value) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var want any
	if err := dec.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if got := plain(v); !equal(want, got) {
		t.Errorf("read %#v, encoding/json reads %#v", got, want)
	}
}

// plain turns a tree into encoding/json's shapes, the last of repeated members winning as there.
func plain(v Value) any {
	switch v.Kind {
	case Bool:
		return v.Bool
	case String:
		return v.Str
	case Number:
		return json.Number(v.Str)
	case Array:
		items := make([]any, len(v.Items))
		for i := range v.Items {
			items[i] = plain(v.Items[i])
		}
		return items
	case Object:
		members := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			members[m.Name] = plain(m.Value)
		}
		return members
	default:
		return nil
	}
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			if other, ok := b[k]; !ok || !equal(a[k], other) {
				return false
			}
		}
		return true
	default:
		return a == b
	}
}

// FuzzFirstRepeat holds the two ways of finding a repeat to the same answer.
func FuzzFirstRepeat(f *testing.F) {
	f.Add("a,b,A")
	f.Add("ſ,s,K,k,\u212a")
	f.Add("σ,ς,Σ")
	f.Fuzz(func(t *testing.T, list string) {
		if !utf8.ValidString(list) {
			return // Parse lets no such name through
		}
		var members []Member
		for name := range strings.SplitSeq(list, ",") {
			members = append(members, Member{Name: name})
		}
		if len(members) > pairwiseMax {
			members = members[:pairwiseMax]
		}
		_, pairwise, found := firstRepeat(members)
		_, mapped, foundMapped := firstRepeatMapped(members)
		if pairwise != mapped || found != foundMapped {
			t.Errorf("pairwise %q %v, mapped %q %v", pairwise, found, mapped, foundMapped)
		}
	})
}
