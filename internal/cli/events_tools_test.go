package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/subscriber"
	"github.com/herald-relay/herald/webhook"
)

func TestParseArgument(t *testing.T) {
	for text, want := range map[string][2]string{
		"severity=P1":  {"severity", `"P1"`},
		"a=":           {"a", `""`},
		"a==b":         {"a", `"=b"`},
		"a=b:=c":       {"a", `"b:=c"`},
		"n:=5":         {"n", "5"},
		`o:={"x":[1]}`: {"o", `{"x":[1]}`},
		"ü=\"":         {"ü", `"\""`},
		"a,b=1,2":      {"a,b", `"1,2"`},
	} {
		name, value, err := parseArgument(text)
		if err != nil || name != want[0] || string(value) != want[1] {
			t.Errorf("%q: %q, %s, %v, want %q", text, name, value, err, want)
		}
	}
	for text, want := range map[string]string{"": "no =", "a": "no =", "=b": "name is missing", ":=1": "name is missing", "a:=": "not JSON", "a:=P1": "not JSON"} {
		if _, _, err := parseArgument(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	f := wishFlags{Arg: []string{"b=1", "a:=[2,1]"}}
	if have, err := f.arguments(); err != nil || string(have) != `{"a":[2,1],"b":"1"}` {
		t.Errorf("together: %s, %v", have, err)
	}
	f.Arg = append(f.Arg, "b:=2")
	if have, err := f.arguments(); err == nil {
		t.Errorf("twice the same name: %s", have)
	}
}

func FuzzParseArgument(f *testing.F) {
	for _, text := range []string{"a=b", "a:=5", "a:=", ":=1", `a:={"b":[1,2]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, value, err := parseArgument(text)
		if err == nil && (name == "" || !json.Valid(value)) {
			t.Errorf("%q: %q, %s", text, name, value)
		}
	})
}

// TestASecretIsNeverRepeated looks at what malformed secrets cause.
func TestASecretIsNeverRepeated(t *testing.T) {
	alone(t)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("whsec_hush hushhush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := webhook.NewSecret().Reveal()
	for name, args := range map[string][]string{
		"an argument":   {"receive", "--secret", "whsec_hush"},
		"a second":      {"receive", "--secret", good, "--secret", "hushhush"},
		"a file":        {"receive", "--secret-file", file},
		"subscribing":   {"subscribe", "https://mcp.example/mcp", "x", "--to", "https://a.example/", "--secret", "whsec_hush"},
		"two at once":   {"subscribe", "https://mcp.example/mcp", "x", "--to", "https://a.example/", "--secret", good, "--secret", webhook.NewSecret().Reveal()},
		"none":          {"receive"},
		"a bad script":  {"receive", "--secret", good, "--script", "whsec"},
		"half a TLS":    {"receive", "--secret", good, "--tls-cert", file},
		"a bad time":    {"subscribe", "https://mcp.example/mcp", "x", "--to", "https://a.example/", "--secret", good, "--ttl", "soon"},
		"a bad address": {"subscribe", "https://mcp.example/mcp", "x", "--to", "a.example", "--secret", good},
	} {
		status, out, errs := run(t, append([]string{"events"}, args...)...)
		if status != statusUsage || out != "" || strings.Contains(errs, "hush") || strings.Contains(errs, good[6:]) {
			t.Errorf("%s: status %d, %q, %q", name, status, out, errs)
		}
	}
	t.Setenv("HERALD_EVENT_SECRET", good+" whsec_hush")
	if status, _, errs := run(t, "events", "receive"); status != statusUsage || !strings.Contains(errs, "secret 2 is none") {
		t.Errorf("the environment: status %d, %q", status, errs)
	}
}

// certificate writes a certificate of 127.0.0.1 and its key.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return cert, key, pool
}

// lines hands on what is written, a line at a time.
type lines struct {
	rest bytes.Buffer
	to   chan string
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest.Write(p)
	for {
		line, err := l.rest.ReadString('\n')
		if err != nil {
			l.rest.WriteString(line)
			return len(p), nil
		}
		l.to <- strings.TrimSuffix(line, "\n")
	}
}

func TestEventsReceiveOverTLS(t *testing.T) {
	alone(t)
	cert, key, pool := certificate(t)
	secret := webhook.NewSecret()
	w, out, _ := world(secret.Reveal())
	said := &lines{to: make(chan string, 10)}
	w.Err = said
	ended := make(chan int, 1)
	go func() {
		ended <- Main(t.Context(), []string{"events", "receive", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--secret-file", "-", "--count", "1", "--json"}, w)
	}()
	var ready struct{ Herald, URL string }
	if err := json.Unmarshal([]byte(<-said.to), &ready); err != nil || !strings.HasPrefix(ready.URL, "https://127.0.0.1:") {
		t.Fatalf("%+v, %v", ready, err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	post := func(secret webhook.Secret) int {
		body := `{"eventId":"e1","name":"n","timestamp":"2026-11-30T12:00:00Z","data":{}}`
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ready.URL+"hook", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Mcp-Subscription-Id", "sub_1")
		if err := webhook.SetHeaders(q.Header, "e1", time.Now(), []byte(body), secret); err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if bad, good := post(webhook.NewSecret()), post(secret); bad != 401 || good != 204 {
		t.Errorf("answers %d and %d, want 401 and 204", bad, good)
	}
	if status := <-ended; status != statusFailed || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("status %d after a refusal, want %d: %s", status, statusFailed, out)
	}
	if last := <-said.to; !strings.Contains(last, `"error":"refused"`) {
		t.Errorf("it ends with %q", last)
	}
}

func TestAGrantIsShown(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.Local)
	for name, c := range map[string]struct {
		grant subscriber.Grant
		want  string
	}{
		"endless": {subscriber.Grant{ID: "sub_1"}, "subscription  sub_1\nends          never\ncursor        none\n"},
		"in full": {subscriber.Grant{ID: "sub_1\x1b", RefreshBefore: at, Cursor: new("c1"), Truncated: true, Status: &subscriber.Status{LastDeliveryAt: &at,
			LastError: new("http_5xx"), FailedSince: &at, Throttled: true, RetryAfterMs: 7000}},
			"subscription  sub_1�\nends          2026-12-01 12:00:00, unless it is refreshed\ncursor        c1\ntruncated     yes: events before this cursor are lost\n" +
				"deliveries    they were suspended until now; the last at 2026-12-01 12:00:00; the last error is http_5xx; failing since 2026-12-01 12:00:00; slowed down for 7 seconds\n"},
		"quiet": {subscriber.Grant{ID: "s", Status: &subscriber.Status{Active: true}}, "subscription  s\nends          never\ncursor        none\ndeliveries    none yet\n"},
	} {
		w, out, _ := world("")
		if err := showGrant(w, c.grant); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("%s (-want +have):\n%s", name, diff)
		}
	}
}

// TestATailGoesOnFromItsFile plays what a subscriber does with the file of a tail, over two runs.
func TestATailGoesOnFromItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	wish := position{Server: "https://mcp.example/mcp", Name: "n", Arguments: json.RawMessage(`{}`)}
	ctx := t.Context()
	first, err := openTail(ctx, path, wish)
	if err != nil {
		t.Fatal(err)
	}
	r := subscriber.Record{Key: tailKey, Name: "n", Arguments: wish.Arguments}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(first.Put(ctx, r))
	for i := range 2*keptRecent + 1 { // a batch, whose position comes after it
		must(first.Received(ctx, tailKey, "e"+string(rune('0'+i)), nil))
	}
	if n := len(first.at.Recent); n != 2*keptRecent+1 {
		t.Errorf("%d ids of a batch are kept, want all", n)
	}
	r.Cursor = new("c7")
	must(first.Put(ctx, r))
	second, err := openTail(ctx, path, wish)
	must(err)
	records, err := second.Records(ctx)
	must(err)
	if len(records) != 1 || *records[0].Cursor != "c7" || len(second.at.Recent) != keptRecent {
		t.Errorf("records %+v, %d ids", records, len(second.at.Recent))
	}
	if seen, err := second.Seen(ctx, tailKey, second.at.Recent[0]); !seen || err != nil {
		t.Errorf("seen %t, %v", seen, err)
	}
	wish.Cursor = new("c1")
	if _, err := openTail(ctx, path, wish); err == nil {
		t.Error("two positions at once are taken")
	}
	must(os.WriteFile(path, []byte("{}"), 0o600))
	if _, err := openTail(ctx, path, wish); err == nil {
		t.Error("a foreign file is taken")
	}
	if _, err := openTail(ctx, t.TempDir(), wish); err == nil {
		t.Error("a directory is taken")
	}
}

// brokenPipe is an output that nobody reads any more.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestATailEndsWhenNobodyReadsIt(t *testing.T) {
	alone(t)
	address, events := eventServer(t, mcpevents.SEP(), mcpevents.EventType{Name: "n"})
	if _, err := events.Emit(t.Context(), mcpevents.Emission{Name: "n", ID: "e1", Data: map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	status, out, _ := run(t, "events", "tail", address, "n", "--cursor", "unknown", "--count", "1", "--timeout", "200ms", "--json", "--mode", "poll")
	if status != statusTimedOut || !strings.Contains(out, `{"herald":"gap"}`) {
		t.Errorf("an unknown position: status %d, %s", status, out)
	}
	w, _, errs := world("")
	w.Out = brokenPipe{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	started := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(started, []byte(`{"server":"`+address+`","name":"n","arguments":{},"cursor":`+cursorBefore(t, address)+`,"recent":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := events.Emit(ctx, mcpevents.Emission{Name: "n", ID: "e2", Data: map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	if status := Main(ctx, []string{"events", "tail", address, "n", "--state", started}, w); status != statusFailed || !strings.Contains(errs.String(), "closed") {
		t.Errorf("status %d, %s", status, errs)
	}
}

// cursorBefore is the server's position now, as JSON.
func cursorBefore(t *testing.T, address string) string {
	t.Helper()
	raw, err := subscriber.Dial(address, nil).Call(t.Context(), mcpevents.MethodPoll, map[string]any{"name": "n"})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Cursor json.RawMessage }
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	return string(got.Cursor)
}
