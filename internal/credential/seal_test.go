package credential_test

import (
	"bytes"
	"testing"

	"github.com/herald-relay/herald/internal/credential"
)

func TestASealOpensForItsContextPurposeAndRelayOnly(t *testing.T) {
	t.Parallel()
	one, other := credential.NewSigner("one secret of a relay, long enough"), credential.NewSigner("another secret of a relay, also long")
	secret := []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	sealed, err := one.Sealer("events").Seal(secret, "sub_1")
	if err != nil || bytes.Contains(sealed, secret[6:]) {
		t.Fatalf("sealed %q, %v", sealed, err)
	}
	if got, err := one.Sealer("events").Open(sealed, "sub_1"); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("opened %q, %v", got, err)
	}
	again, _ := one.Sealer("events").Seal(secret, "sub_1")
	if bytes.Equal(sealed, again) {
		t.Error("two seals of one secret are the same")
	}
	bent := bytes.Clone(sealed)
	bent[len(bent)-1] ^= 1
	for name, try := range map[string]func() ([]byte, error){
		"another context": func() ([]byte, error) { return one.Sealer("events").Open(sealed, "sub_2") },
		"another purpose": func() ([]byte, error) { return one.Sealer("push").Open(sealed, "sub_1") },
		"another relay":   func() ([]byte, error) { return other.Sealer("events").Open(sealed, "sub_1") },
		"a bent bit":      func() ([]byte, error) { return one.Sealer("events").Open(bent, "sub_1") },
		"nothing":         func() ([]byte, error) { return one.Sealer("events").Open(nil, "sub_1") },
		"half of it":      func() ([]byte, error) { return one.Sealer("events").Open(sealed[:14], "sub_1") },
	} {
		if got, err := try(); err == nil {
			t.Errorf("with %s it opens: %q", name, got)
		}
	}
}
