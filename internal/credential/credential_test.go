package credential_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/relay"
)

const (
	box    = "0123456789abcdef0123456789abcdef0123456789abcdef" // 48 digits
	keyID  = "0a1b2c3d"
	secret = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff" // 64 digits
)

func TestTokensOfGoodShapeAreRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind credential.Kind
		key  relay.KeyID
	}{
		"hrd_" + box + "_" + secret:                     {credential.DeviceToken, ""},
		"hra_" + box + "_" + secret:                     {credential.AccessToken, ""},
		"hrk_" + box + "_" + keyID + "_" + secret:       {credential.AgentKey, keyID},
		"hrk_" + box + "_00000000_" + secret:            {credential.AgentKey, "00000000"},
		"hrd_" + strings.Repeat("f", 48) + "_" + secret: {credential.DeviceToken, ""},
	}
	for text, want := range tests {
		got, ok := credential.Parse(text)
		if !ok {
			t.Errorf("Parse(%q) refuses it", text)
			continue
		}
		if got.Kind != want.kind || got.Key != want.key || string(got.Mailbox) != text[4:52] {
			t.Errorf("Parse(%q) = kind %s, mailbox %s, key %s", text, got.Kind, got.Mailbox, got.Key)
		}
		if got.Hash() != sha256.Sum256([]byte(secret)) {
			t.Errorf("Parse(%q) hashes something else than the 64 digits", text)
		}
	}
}

func TestTokensOfAnyOtherShapeAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"nothing":                        "",
		"no underscore":                  "hrd",
		"a prefix alone":                 "hrd_",
		"a kind in capitals":             "HRD_" + box + "_" + secret,
		"an unknown kind":                "hrx_" + box + "_" + secret,
		"a refresh token":                "hrr_" + box + "_" + secret,
		"an authorization code":          "hrc_" + box + "_" + secret,
		"a device code":                  "hrv_" + box + "_" + secret,
		"a device token with a key id":   "hrd_" + box + "_" + keyID + "_" + secret,
		"an access token with a key id":  "hra_" + box + "_" + keyID + "_" + secret,
		"an agent key without a key id":  "hrk_" + box + "_" + secret,
		"a key id of seven digits":       "hrk_" + box + "_0a1b2c3_" + secret,
		"a key id of nine digits":        "hrk_" + box + "_0a1b2c3d4_" + secret,
		"a key id in capitals":           "hrk_" + box + "_0A1B2C3D_" + secret,
		"a mailbox of 47 digits":         "hrd_" + box[1:] + "_" + secret,
		"a mailbox of 49 digits":         "hrd_" + box + "0_" + secret,
		"a mailbox in capitals":          "hrd_" + strings.ToUpper(box) + "_" + secret,
		"a mailbox with a letter past f": "hrd_g" + box[1:] + "_" + secret,
		"a secret of 63 digits":          "hrd_" + box + "_" + secret[1:],
		"a secret of 65 digits":          "hrd_" + box + "_" + secret + "0",
		"a secret in capitals":           "hrd_" + box + "_" + strings.ToUpper(secret),
		"a secret with a byte of UTF-8":  "hrd_" + box + "_" + secret[2:] + "ä",
		"an empty secret":                "hrd_" + box + "_",
		"a part too many":                "hrd_" + box + "_" + secret + "_",
		"white space before":             " hrd_" + box + "_" + secret,
		"a newline behind":               "hrd_" + box + "_" + secret + "\n",
		"a NUL behind":                   "hrd_" + box + "_" + secret + "\x00",
		"a very long one":                "hrd_" + box + "_" + strings.Repeat("a", 1<<20),
		"very many parts":                "hrk_" + strings.Repeat("_", 1<<20),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, ok := credential.Parse(text); ok {
				t.Errorf("Parse accepts %v", got)
			}
		})
	}
}

func TestATokenNeverShowsItsSecret(t *testing.T) {
	t.Parallel()
	token, _ := credential.Parse("hrk_" + box + "_" + keyID + "_" + secret)
	shown := fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, token)
	if strings.Contains(shown, secret[:8]) {
		t.Errorf("printed as %s", shown)
	}
	if !strings.Contains(shown, "hrk_"+box[:8]) {
		t.Errorf("printed as %s, want enough of its public part to tell tokens apart", shown)
	}
	if shown := fmt.Sprint(credential.Token{}); strings.Contains(shown, "PANIC") {
		t.Errorf("the zero token prints as %s", shown)
	}
	if shown := fmt.Sprintf("%v %+v", credential.NewSigner("hunter2"), credential.NewSigner("hunter2")); strings.Contains(shown, "hunter2") {
		t.Errorf("a signer prints as %s", shown)
	}
}

func TestTheAuthorizationHeaderHoldsOneToken(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"Bearer abc":   "abc",
		"bearer abc":   "abc",
		"BEARER abc":   "abc",
		"bEaReR abc":   "abc",
		"Bearer  abc":  "abc",
		"Bearer abc  ": "abc",
	}
	for header, want := range good {
		if got, ok := credential.Bearer(header); !ok || got != want {
			t.Errorf("Bearer(%q) = %q, %v, want %q", header, got, ok, want)
		}
	}
	for _, header := range []string{
		"", "Bearer", "Bearer ", "Bearer   ", "abc", " Bearer abc", "Basic abc", "Bearerabc", "Bearer:abc", "Token abc",
		"Bearer abc def", "Bearer abc, Bearer def", "Bearer abc,def", "Bearer\tabc", "Bearer a\tbc", "Bearer abc\t",
	} {
		if got, ok := credential.Bearer(header); ok {
			t.Errorf("Bearer(%q) = %q, want a refusal", header, got)
		}
	}
}

func TestMintedTokensHaveTheDocumentedShape(t *testing.T) {
	t.Parallel()
	m := credential.NewSigner("s").NewMailboxID()
	if !regexp.MustCompile(`^[0-9a-f]{48}$`).MatchString(string(m)) {
		t.Errorf("mailbox id %q is not 48 lower-case hex digits", m)
	}
	token, hash := credential.MintDeviceToken(m)
	if !regexp.MustCompile(`^hrd_[0-9a-f]{48}_[0-9a-f]{64}$`).MatchString(token) {
		t.Errorf("device token has the shape of %q", token)
	}
	wantReads(t, token, credential.DeviceToken, m, "", hash)

	key, id, hash := credential.MintAgentKey(m)
	if !regexp.MustCompile(`^hrk_[0-9a-f]{48}_[0-9a-f]{8}_[0-9a-f]{64}$`).MatchString(key) {
		t.Errorf("agent key has the shape of %q", key)
	}
	wantReads(t, key, credential.AgentKey, m, id, hash)

	again, _ := credential.MintDeviceToken(m)
	if again == token || again[53:] == token[53:] {
		t.Error("two tokens of a mailbox are the same")
	}
}

func wantReads(t *testing.T, text string, kind credential.Kind, m relay.MailboxID, id relay.KeyID, hash relay.Hash) {
	t.Helper()
	got, ok := credential.Parse(text)
	if !ok || got.Kind != kind || got.Mailbox != m || got.Key != id || !credential.Equal(got.Hash(), hash) {
		t.Errorf("Parse(%q) = %v, %v; want it to read back what was minted", text, got, ok)
	}
}

// TestIDsAndLinksAreSignedAsTheWireSays computes the signatures of the contract's sections 1 and 2.8 from their words.
func TestIDsAndLinksAreSignedAsTheWireSays(t *testing.T) {
	t.Parallel()
	const relaySecret = "a secret of a relay, long enough for it"
	s := credential.NewSigner(relaySecret)
	sign := func(text string) string {
		h := hmac.New(sha256.New, []byte(relaySecret))
		h.Write([]byte(text))
		return hex.EncodeToString(h.Sum(nil))
	}
	head := strings.Repeat("0f", 16)
	good := relay.MailboxID(head + sign("device:" + head)[:16])
	if !s.Signed(good) {
		t.Errorf("an id signed by the rule is refused: %s", good)
	}
	for i := range good { // any one digit changed
		digit := byte('0')
		if good[i] == '0' {
			digit = '1'
		}
		forged := good[:i] + relay.MailboxID(digit) + good[i+1:]
		if s.Signed(forged) {
			t.Errorf("digit %d forged, and the id still counts as signed", i)
		}
	}
	if id := s.NewMailboxID(); !s.Signed(id) || credential.NewSigner("another").Signed(id) {
		t.Errorf("id %s is not recognised by its own relay alone", id)
	}

	const id, exp = relay.NotificationID("r_0123456789abcdef01234567"), "1790000000"
	want := sign("audio:" + string(good) + "/" + string(id) + ".m4a:" + exp)
	if got := s.ClipSignature(good, id, exp); got != want {
		t.Errorf("clip signature = %s, want %s", got, want)
	}
	if !s.ValidClip(good, id, exp, want) {
		t.Error("a good clip signature is refused")
	}
	other := s.NewMailboxID()
	for name, valid := range map[string]bool{
		"another mailbox":      s.ValidClip(other, id, exp, want),
		"another notification": s.ValidClip(good, "r_0123456789abcdef01234568", exp, want),
		"another expiry":       s.ValidClip(good, id, "1790000001", want),
		"a cut signature":      s.ValidClip(good, id, exp, want[:63]),
		"no signature":         s.ValidClip(good, id, exp, ""),
		"capitals":             s.ValidClip(good, id, exp, strings.ToUpper(want)),
	} {
		if valid {
			t.Errorf("%s is accepted with the signature of the first link", name)
		}
	}
}

func TestStoredHashesAreKeyedAndDiffer(t *testing.T) {
	t.Parallel()
	a, b := credential.NewSigner("one"), credential.NewSigner("two")
	if a.PairCodeHash("ABCD2345") == b.PairCodeHash("ABCD2345") {
		t.Error("a pairing code hashes alike on two relays, so its hash can be searched for")
	}
	if a.AddressHash("192.0.2.1") == b.AddressHash("192.0.2.1") {
		t.Error("an address hashes alike on two relays")
	}
	if a.AddressHash("192.0.2.1") == a.AddressHash("192.0.2.2") || a.PairCodeHash("A") == a.PairCodeHash("B") {
		t.Error("different inputs share a hash")
	}
	if h := a.AddressHash("x"); strings.HasPrefix(hex.EncodeToString(sum(a.PairCodeHash("x"))), h) {
		t.Error("the two purposes share a key")
	}
	if !credential.EqualText("abc", "abc") || credential.EqualText("abc", "abcd") || credential.EqualText("", "a") {
		t.Error("EqualText does not compare")
	}
}

func sum(h relay.Hash) []byte { return h[:] }
