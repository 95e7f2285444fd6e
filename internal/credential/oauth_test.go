package credential_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/relay"
)

func TestSecretsOfOneKindAreNoOtherKind(t *testing.T) {
	t.Parallel()
	kinds := []credential.Kind{credential.RefreshToken, credential.AuthorizationCode, credential.DeviceCode, credential.AccessToken}
	for _, kind := range kinds {
		text, hash := credential.MintSecret(kind, box)
		for _, as := range kinds {
			m, h, ok := credential.ParseSecret(as, text)
			if ok != (as == kind) || ok && (m != box || h != hash) {
				t.Errorf("%s as %s: %v", kind, as, ok)
			}
		}
		for name, bad := range map[string]string{"shorter": text[:len(text)-1], "longer": text + "0", "capitals": strings.ToUpper(text), "another mailbox shape": strings.Replace(text, box, "g"+box[1:], 1),
			"no underscore": strings.Replace(text[4:], "_", "0", 1), "a line break": text[:len(text)-1] + "\n"} {
			if _, _, ok := credential.ParseSecret(kind, bad); ok {
				t.Errorf("%s, %s, is taken", kind, name)
			}
		}
		_, bearer := credential.Parse(text)
		if bearer != (kind == credential.AccessToken) {
			t.Errorf("%s is a bearer credential: %v", kind, bearer)
		}
	}
}

func TestDerivedTokensAreSteadyAndTheirOwn(t *testing.T) {
	t.Parallel()
	s, other := credential.NewSigner("one"), credential.NewSigner("two")
	id := relay.NewConsentID(s.NewMailboxID())
	seen := map[string]bool{}
	for _, kind := range []credential.Kind{credential.RefreshToken, credential.AuthorizationCode, credential.AccessToken} {
		text, hash := s.Derived(kind, id)
		again, _ := s.Derived(kind, id)
		foreign, _ := other.Derived(kind, id)
		elsewhere, _ := s.Derived(kind, relay.NewConsentID(id.Mailbox()))
		secret := text[len(text)-64:]
		if again != text || foreign == text || elsewhere == text || seen[secret] || hash != sha256.Sum256([]byte(secret)) {
			t.Errorf("%s: %s", kind, text)
		}
		if _, h, ok := credential.ParseSecret(kind, text); !ok || h != hash {
			t.Errorf("%s does not parse: %s", kind, text)
		}
		seen[secret] = true
	}
	if a := s.Shadow("eve"); !s.Signed(a) || a != s.Shadow("eve") || a == s.Shadow("Eve") || a == other.Shadow("eve") {
		t.Errorf("shadow %s", a)
	}
}

func FuzzParseSecret(f *testing.F) {
	f.Add("hrc_" + box + "_" + secret)
	f.Add("hrc_" + box + secret)
	f.Fuzz(func(t *testing.T, text string) {
		m, h, ok := credential.ParseSecret(credential.AuthorizationCode, text)
		if ok && (text != "hrc_"+string(m)+"_"+text[53:] || len(text) != 117 || h != sha256.Sum256([]byte(text[53:]))) {
			t.Errorf("%q becomes %s %s", text, m, hex.EncodeToString(h[:]))
		}
	})
}
