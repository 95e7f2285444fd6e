package guard

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// neverInTheTree are shapes that no file of ours may hold. The patterns are put together so that they do not match
// themselves.
var neverInTheTree = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a Herald token", regexp.MustCompile(`\bhr[dkarcv]_[0-9a-f]{48}_(?:[0-9a-f]{8}_)?[0-9a-f]{64}`)},
	{"a private key", regexp.MustCompile(`-----BEGIN (?:[A-Z]+ )?PRIVATE ` + `KEY-----`)},
	{"a path of the machine it was written on", regexp.MustCompile(`(?:^|[^A-Za-z0-9_.-])/(?:wo` + `rk|ro` + `ot)/[a-z.]+`)},
	{"the address of a package registry", regexp.MustCompile(`GOPROXY=` + `http|"resolved": *` + `"https?:`)},
}

// published are findings that are meant to be there: test vectors that specifications print, by file.
var published = map[string]string{}

var notText = []string{".png", ".jpg", ".ico", ".webp", ".m4a", ".webm", ".ogg", ".mp4", ".woff2", ".db", ".gz", ".zip"}

func TestNothingInTheTreeIsSecretOrOfOneMachine(t *testing.T) {
	for _, name := range load(t).files {
		if slices.Contains(notText, path.Ext(name)) || name == "go.sum" || published[name] != "" {
			continue
		}
		text := read(t, name)
		for _, rule := range neverInTheTree {
			if m := rule.pattern.FindString(text); m != "" {
				t.Errorf("%s holds %s (%.14s…)", name, rule.what, strings.TrimSpace(m))
			}
		}
	}
}

func TestTheShapesAreRecognised(t *testing.T) {
	hex := func(n int) string { return strings.Repeat("a", n) }
	for i, text := range []string{
		"x hrk_" + hex(48) + "_" + hex(8) + "_" + hex(64),
		"-----BEGIN EC PRIVATE" + " KEY-----",
		"see /wo" + "rk/main/x",
		`"resolved": ` + `"https://registry.example/x.tgz"`,
	} {
		if !neverInTheTree[i].pattern.MatchString(text) {
			t.Errorf("%s is not recognised in %q", neverInTheTree[i].what, text)
		}
	}
}
