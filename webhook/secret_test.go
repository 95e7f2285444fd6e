package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/herald-relay/herald/webhook"
)

// Secrets of the vectors: the bytes 00 to 1f, and 20 to 3f.
const (
	text1 = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	text2 = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
)

func secret(t testing.TB, text string) webhook.Secret {
	t.Helper()
	s, err := webhook.ParseSecret(text)
	if err != nil {
		t.Fatalf("ParseSecret(%q): %v", text, err)
	}
	return s
}

func ofSize(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, n))
}

var goodSecrets = []string{
	text1, text2,
	"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",                                                         // 24 bytes
	"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==", // 64 bytes
	"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw",
	"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",             // the specification's own example
	"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",  // case 21: 43 characters
	"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", // bits that no byte uses
	ofSize(25), ofSize(26), ofSize(63),
}

var badSecrets = map[string]string{
	"case 22 empty":                 "",
	"case 22 prefix only":           "whsec_",
	"case 22 bare base64":           strings.TrimPrefix(text1, "whsec_"),
	"case 22 23 bytes":              "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=",
	"case 22 65 bytes":              "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A=",
	"65 bytes, no padding":          "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A",
	"case 21 URL-safe alphabet":     strings.NewReplacer("+", "-", "/", "_").Replace(ofSize(32)),
	"upper-case prefix":             strings.Replace(text1, "whsec_", "WHSEC_", 1),
	"other prefix":                  strings.Replace(text1, "whsec_", "whpk_", 1),
	"prefix twice":                  "whsec_" + text1,
	"space before":                  " " + text1,
	"space after":                   text1 + " ",
	"space inside":                  text1[:20] + " " + text1[20:],
	"line end after":                text1 + "\n",
	"line end inside":               text1[:20] + "\n" + text1[20:],
	"line end after, no padding":    strings.TrimSuffix(text1, "=") + "\r",
	"padding inside":                text1[:20] + "=" + text1[20:],
	"half of the padding":           strings.TrimSuffix(ofSize(25), "="),
	"padding where none is":         ofSize(24) + "=",
	"padding of a whole group":      ofSize(24) + "====",
	"too much padding":              text1 + "=",
	"one character over":            ofSize(24) + "A",
	"non-ASCII":                     text1[:20] + "é" + text1[20:],
	"null":                          "null",
	"a megabyte":                    ofSize(1 << 20),
	"standard base64 by percentage": strings.ReplaceAll(text1, "=", "%3D"),
}

func TestParseSecret(t *testing.T) {
	for _, text := range goodSecrets {
		s, err := webhook.ParseSecret(text)
		if err != nil {
			t.Errorf("ParseSecret(%q): %v", text, err)
			continue
		}
		again, err := webhook.ParseSecret(s.Reveal())
		if err != nil || !again.Equal(s) || s.IsZero() {
			t.Errorf("ParseSecret(%q) reveals %q: %v", text, s.Reveal(), err)
		}
	}
	for name, text := range badSecrets {
		if s, err := webhook.ParseSecret(text); !errors.Is(err, webhook.ErrSecret) || !s.IsZero() {
			t.Errorf("%s: ParseSecret(%.80q) = %q, %v, want ErrSecret", name, text, s.Reveal(), err)
		} else if len(text) > 8 && strings.Contains(err.Error(), text[8:]) {
			t.Errorf("%s: the error repeats the text: %v", name, err)
		}
	}
}

func TestPaddingDoesNotMatter(t *testing.T) {
	padded, bare := secret(t, text1), secret(t, strings.TrimSuffix(text1, "="))
	if !padded.Equal(bare) || bare.Reveal() != text1 {
		t.Errorf("without padding it is %q", bare.Reveal())
	}
}

func TestNewSecretsDiffer(t *testing.T) {
	a, b := webhook.NewSecret(), webhook.NewSecret()
	if a.Equal(b) || len(a.Reveal()) != len(text1) {
		t.Errorf("%q and %q", a.Reveal(), b.Reveal())
	}
	if _, err := webhook.ParseSecret(a.Reveal()); err != nil {
		t.Error(err)
	}
}

func TestEqual(t *testing.T) {
	one, two, zero := secret(t, text1), secret(t, text2), webhook.Secret{}
	for _, c := range []struct {
		a, b webhook.Secret
		want bool
	}{{one, secret(t, text1), true}, {one, two, false}, {one, zero, false}, {zero, one, false}, {zero, zero, true}} {
		if got := c.a.Equal(c.b); got != c.want {
			t.Errorf("%q equals %q: %v", c.a.Reveal(), c.b.Reveal(), got)
		}
	}
}

// Whatever is done to a secret short of Reveal, neither its text nor the bytes of its key come out.
func TestSecretsDoNotShow(t *testing.T) {
	s := secret(t, text2) // the key is ` !"#$%&'()*+,-./0123456789:;<=>?`
	inner := struct{ hidden webhook.Secret }{s}
	shown := []string{s.String(), s.GoString(), s.LogValue().String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%b", "%o"} {
		shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, inner), fmt.Sprintf(verb, &inner),
			fmt.Sprintf(verb, []webhook.Secret{s}), fmt.Sprintf(verb, map[string]any{"s": s}))
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("secret", "s", s, "inner", inner, "list", []webhook.Secret{s})
	}
	encoded, err := json.Marshal(map[string]any{"s": s, "list": []webhook.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	shown = append(shown, log.String(), string(encoded))
	for _, text := range shown {
		for _, leak := range []string{"ICEi", "!\"#", "202122", "32 33 34", "32, 33", "0x20, 0x21", "100000 100001", "40 41 42"} {
			if strings.Contains(text, leak) {
				t.Errorf("%q holds %q", text, leak)
			}
		}
	}
	if !strings.Contains(log.String(), "s=whsec_[redacted]") || s.GoString() != `webhook.Secret("whsec_[redacted]")` {
		t.Errorf("no placeholder: %s %s", log.String(), s.GoString())
	}
	var zero webhook.Secret
	if text := zero.String() + zero.Reveal(); text != "" {
		t.Errorf("the zero secret shows %q", text)
	}
}
