package credential_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/credential"
)

// FuzzParse holds that what Parse accepts is exactly what its parts spell, so that no two texts are one credential.
func FuzzParse(f *testing.F) {
	f.Add("hrd_" + box + "_" + secret)
	f.Add("hra_" + box + "_" + secret)
	f.Add("hrk_" + box + "_" + keyID + "_" + secret)
	f.Add("hrk_" + box + "__" + secret)
	f.Add("hrr_" + box + "_" + secret)
	f.Add("hrd_" + box + "_" + strings.ToUpper(secret))
	f.Add("_")
	f.Fuzz(func(t *testing.T, text string) {
		token, ok := credential.Parse(text)
		if !ok {
			return
		}
		spelt := string(token.Kind) + "_" + string(token.Mailbox) + "_"
		if token.Kind == credential.AgentKey {
			spelt += string(token.Key) + "_"
		}
		rest, found := strings.CutPrefix(text, spelt)
		if !found || len(rest) != 64 || token.Hash() != sha256.Sum256([]byte(rest)) {
			t.Errorf("Parse(%q) = %v, whose parts spell something else", text, token)
		}
		if strings.Contains(token.String(), rest[:16]) {
			t.Errorf("Parse(%q) shows its secret as %s", text, token)
		}
	})
}

// FuzzBearer holds that a token out of a header has nothing in it that separates tokens, and stood there as it is.
func FuzzBearer(f *testing.F) {
	for _, seed := range []string{"Bearer abc", "bearer  abc ", "Basic abc", "Bearer a b", "Bearer a,b", "Bearer", " Bearer x", "Bearer\tx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, ok := credential.Bearer(header)
		if !ok {
			return
		}
		if token == "" || strings.ContainsAny(token, " \t,") || !strings.HasSuffix(strings.TrimRight(header, " "), token) {
			t.Errorf("Bearer(%q) = %q", header, token)
		}
		if again, ok := credential.Bearer("BEARER " + token); !ok || again != token {
			t.Errorf("Bearer does not read back %q", token)
		}
	})
}
