package webhook_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/webhook"
)

// Signatures of message 2: right with the first secret, right with the second, and of the right shape only.
var (
	good  = vectors[1].want
	other = vectors[2].want
	wrong = vectors[3].want
)

// The list cases of contract/mcp-events.md, e.1, and of the public cases.
func TestVerifySignatureLists(t *testing.T) {
	for name, c := range map[string]struct {
		list string
		want error
	}{
		"one":                               {good, nil},
		"old and new secret":                {other + " " + good, nil},
		"unknown version first":             {"v1a,AAAA " + good, nil},
		"no base64 first":                   {"v1,!!! " + good, nil},
		"two spaces":                        {wrong + "  " + good, nil},
		"spaces around":                     {" " + good + " ", nil},
		"case 019 wrong first":              {"v1,AAA " + good, nil},
		"case 019 comma and two spaces":     {"v1,AAA,  " + good, nil},
		"case 019 unknown version":          {"v1a,x " + good, nil},
		"comma alone between":               {wrong + "," + good, webhook.ErrSignature},
		"comma after":                       {good + ", v1,AAA", nil},
		"the last that counts":              {strings.Repeat("v1,AAA ", webhook.MaxSignatures-1) + good, nil},
		"one too many":                      {strings.Repeat("v1,AAA ", webhook.MaxSignatures) + good, webhook.ErrSignature},
		"one too many of another version":   {strings.Repeat("v2,AAA ", webhook.MaxSignatures) + good, webhook.ErrSignature},
		"version alone":                     {"v1", webhook.ErrSignature},
		"version and comma":                 {"v1,", webhook.ErrSignature},
		"empty":                             {"", webhook.ErrSignature},
		"commas":                            {", , ,,", webhook.ErrSignature},
		"other version":                     {"v2" + strings.TrimPrefix(good, "v1"), webhook.ErrSignature},
		"asymmetric version":                {"v1a" + strings.TrimPrefix(good, "v1"), webhook.ErrSignature},
		"upper-case version":                {strings.ToUpper(good[:2]) + good[2:], webhook.ErrSignature},
		"no version":                        {strings.TrimPrefix(good, "v1,"), webhook.ErrSignature},
		"no padding":                        {strings.TrimSuffix(good, "="), webhook.ErrSignature},
		"unused bits set":                   {strings.Replace(good, "cI=", "cJ=", 1), webhook.ErrSignature},
		"text after":                        {good + "x", webhook.ErrSignature},
		"tab between":                       {wrong + "\t" + good, nil},
		"of another attempt":                {wrong, webhook.ErrSignature},
		"with another secret":               {other, webhook.ErrSignature},
		"vector 10 literal text as the key": {literalKey, webhook.ErrSignature},
	} {
		verified, err := webhook.Verify(headers("evt_789", "1771516800", c.list), []byte(body1), time.Unix(at1, 0), secret(t, text1))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if verified.ID != "" && err != nil {
			t.Errorf("%s: both an error and %+v", name, verified)
		}
	}
}

func TestVerifyTriesEverySecret(t *testing.T) {
	one, two, third := secret(t, text1), secret(t, text2), webhook.NewSecret()
	for _, c := range []struct {
		secrets []webhook.Secret
		want    int // -1: none
	}{
		{[]webhook.Secret{one}, 0},
		{[]webhook.Secret{two, one}, 1},
		{[]webhook.Secret{{}, third, two, one, one}, 3},
		{[]webhook.Secret{two, third}, -1},
		{[]webhook.Secret{{}}, -1},
		{nil, -1},
	} {
		verified, err := webhook.Verify(headers("evt_789", "1771516800", good), []byte(body1), time.Unix(at1, 0), c.secrets...)
		if c.want < 0 {
			if !errors.Is(err, webhook.ErrSignature) {
				t.Errorf("%d secrets, none of them right: %v", len(c.secrets), err)
			}
		} else if err != nil || verified.Secret != c.want {
			t.Errorf("secret %d of %d: %v, %d", c.want, len(c.secrets), err, verified.Secret)
		}
	}
}

func TestVerifyTimestamps(t *testing.T) {
	s := secret(t, text1)
	for name, c := range map[string]struct {
		timestamp string
		age       time.Duration // of the message, when it arrives
		want      error
	}{
		"fresh":                        {"1771516800", 0, nil},
		"case 027 299 s old":           {"1771516800", 299 * time.Second, nil},
		"300 s old":                    {"1771516800", 300 * time.Second, nil},
		"case 027 301 s old":           {"1771516800", 301 * time.Second, webhook.ErrTimestamp},
		"300 s ahead":                  {"1771516800", -300 * time.Second, nil},
		"case 027 301 s ahead":         {"1771516800", -301 * time.Second, webhook.ErrTimestamp},
		"zero":                         {"0", 0, webhook.ErrTimestamp},
		"milliseconds":                 {"177151680000", 0, webhook.ErrTimestamp},
		"case 027 NaN":                 {"NaN", 0, webhook.ErrHeader},
		"case 027 negative":            {"-1771516800", 0, webhook.ErrHeader},
		"case 027 20 digits":           {"17715168001771516800", 0, webhook.ErrHeader},
		"19 digits":                    {"9223372036854775807", 0, webhook.ErrHeader},
		"exponent":                     {"17715168e2", 0, webhook.ErrHeader},
		"sign":                         {"+1771516800", 0, webhook.ErrHeader},
		"empty":                        {"", 0, webhook.ErrHeader},
		"leading zero":                 {"01771516800", 0, webhook.ErrHeader},
		"fraction":                     {"1771516800.0", 0, webhook.ErrHeader},
		"spaces":                       {" 1771516800", 0, webhook.ErrHeader},
		"hexadecimal":                  {"0x69973280", 0, webhook.ErrHeader},
		"separators":                   {"1_771_516_800", 0, webhook.ErrHeader},
		"digits of another script":     {"１７７１５１６８００", 0, webhook.ErrHeader},
		"negative zero":                {"-0", 0, webhook.ErrHeader},
		"date":                         {"2026-02-19T16:00:00Z", 0, webhook.ErrHeader},
		"299.9 s old, in whole ones":   {"1771516800", 299*time.Second + 999*time.Millisecond, nil},
		"300.9 s old, in whole ones":   {"1771516800", 300*time.Second + 999*time.Millisecond, nil},
		"300.9 s ahead, in whole ones": {"1771516800", -301*time.Second + 100*time.Millisecond, webhook.ErrTimestamp},
	} {
		_, err := webhook.Verify(headers("evt_789", c.timestamp, good), []byte(body1), time.Unix(at1, 0).Add(c.age), s)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestVerifyHeaders(t *testing.T) {
	fresh := func() http.Header { return headers("evt_789", "1771516800", good) }
	for name, c := range map[string]struct {
		change func(h http.Header)
		want   error
	}{
		"as sent":                       {func(http.Header) {}, nil},
		"no id":                         {func(h http.Header) { h.Del("webhook-id") }, webhook.ErrHeader},
		"no timestamp":                  {func(h http.Header) { h.Del("webhook-timestamp") }, webhook.ErrHeader},
		"no signature":                  {func(h http.Header) { h.Del("webhook-signature") }, webhook.ErrHeader},
		"two ids":                       {func(h http.Header) { h.Add("webhook-id", "evt_789") }, webhook.ErrHeader},
		"two ids, one in lower case":    {func(h http.Header) { h["webhook-id"] = []string{"evt_789"} }, webhook.ErrHeader},
		"two timestamps":                {func(h http.Header) { h.Add("webhook-timestamp", "1771516800") }, webhook.ErrHeader},
		"two lines of signatures":       {func(h http.Header) { h["Webhook-Signature"] = []string{wrong, good} }, nil},
		"empty id":                      {func(h http.Header) { h.Set("webhook-id", "") }, webhook.ErrHeader},
		"long id":                       {func(h http.Header) { h.Set("webhook-id", strings.Repeat("x", webhook.MaxID+1)) }, webhook.ErrHeader},
		"unprintable id":                {func(h http.Header) { h.Set("webhook-id", "evt\x00") }, webhook.ErrHeader},
		"id of another message":         {func(h http.Header) { h.Set("webhook-id", "evt_790") }, webhook.ErrSignature},
		"timestamp of another attempt":  {func(h http.Header) { h.Set("webhook-timestamp", "1771516801") }, webhook.ErrSignature},
		"id and timestamp, moved apart": {func(h http.Header) { h.Set("webhook-id", "evt_789.1771516800") }, webhook.ErrSignature},
	} {
		h := fresh()
		c.change(h)
		before := h.Clone()
		if _, err := webhook.Verify(h, []byte(body1), time.Unix(at1, 0), secret(t, text1)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if diff := cmp.Diff(before, h); diff != "" {
			t.Errorf("%s: Verify changed the headers (-want +got):\n%s", name, diff)
		}
	}
}

// Other senders have full stops in their ids. The signature was made with OpenSSL.
func TestVerifyTakesIDsWithFullStops(t *testing.T) {
	h := headers("msg.1", "1771516800", "v1,CC/zhXUU4I/b96A9BL3HYxMw4kD+sF+Vs4n4oQU6MJw=")
	if verified, err := webhook.Verify(h, []byte(`{}`), time.Unix(at1, 0), secret(t, text1)); err != nil || verified.ID != "msg.1" {
		t.Errorf("%+v, %v", verified, err)
	}
}
