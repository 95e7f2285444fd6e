package app_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

// TestHEADOnTheStreamIsNoStream: the route table takes HEAD wherever it takes GET, but nothing upgrades on it, so the
// device is not to be recorded as having come.
func TestHEADOnTheStreamIsNoStream(t *testing.T) {
	t.Parallel()
	d := testkit.New(t, testkit.Options{}).Pair("laptop")
	a := d.Call("HEAD", "/v1/device/stream", nil, handshake...)
	if a.Status != 404 || !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("HEAD: %d %v", a.Status, a.Header)
	}
	if seen, there := d.Call("GET", "/v1/device/info", nil).Body["lastSeenAt"]; there {
		t.Errorf("the device counts as seen at %v, without a stream", seen)
	}
}

// TestWaitsAreDecimal: numbers that only Go reads are junk, and junk does not wait.
func TestWaitsAreDecimal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := testkit.New(t, testkit.Options{Pipes: true}).Pair("laptop")
		q := ask(d, d.Agent("bot"))
		for wait, want := range map[string]time.Duration{
			"1_0": 0, "0x1p3": 0, "0X9p0": 0, "NaN": 0, "5s": 0, "-1": 0, "": 0,
			"2": 2 * time.Second, ".5": time.Second / 2, "1e0": time.Second, "61": time.Minute,
		} {
			if a, took := q.wait("?wait=" + wait); a.Status != 200 || took != want {
				t.Errorf("wait=%s: %d after %s, want %s", wait, a.Status, took, want)
			}
		}
	})
}

// TestDeviceNamesCannotReorderOrCommand: strangers name devices, and a person reads the names.
func TestDeviceNamesCannotReorderOrCommand(t *testing.T) {
	t.Parallel()
	owner := testkit.New(t, testkit.Options{}).Pair("laptop")
	for name, want := range map[string]string{
		"a\u202eb": "a b", "\u2066x\u2069": "x", "\u009b31mred": "31mred", "\x1b[2Jx": "[2Jx", "a\x00b": "a b", "שלום\u200f": "שלום\u200f",
	} {
		code := owner.Call("POST", "/v1/device/links", map[string]any{"deviceName": name}).Text("code")
		owner.Relay.Redeem(code, "")
		links := owner.Call("GET", "/v1/device/links", nil).Raw
		if want = `"name":"` + want + `"`; !strings.Contains(string(links), want) {
			t.Errorf("%+q: %s, want %s", name, links, want)
		}
	}
}

// TestALostSecretIsNotReplacedInSilence: another one would unpair every device and void every key.
func TestALostSecretIsNotReplacedInSilence(t *testing.T) {
	t.Parallel()
	if os.Getenv(testkit.StoreVariable) != "" {
		t.Skip("only the embedded store keeps a secret beside it")
	}
	cfg := config.Default()
	cfg.Data, cfg.Listen = t.TempDir(), "127.0.0.1:0"
	r := testkit.New(t, testkit.Options{Dir: cfg.Data}) // with a secret of its own, so the directory holds none
	r.Pair("laptop")
	r.Stop()
	log := slog.New(slog.DiscardHandler)
	if _, err := app.New(t.Context(), cfg, log); err == nil || !strings.Contains(err.Error(), "RELAY_SECRET") {
		t.Errorf("err = %v, want one that says how to keep the devices", err)
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, config.SecretFile)); !os.IsNotExist(err) {
		t.Errorf("a new secret was made: %v", err)
	}
	cfg.RelaySecret = testkit.Secret
	a, err := app.New(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestTheOperatorDoesNotFoundARelayByATypo: a mistyped directory is no relay, and must not become one.
func TestTheOperatorDoesNotFoundARelayByATypo(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Data = filepath.Join(t.TempDir(), "typo")
	if _, err := app.OpenAdmin(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("err = %v, want one that names --data", err)
	}
	if _, err := os.Stat(cfg.Data); !os.IsNotExist(err) {
		t.Errorf("the directory was made: %v", err)
	}
}

func TestDevelopmentModeIsLoud(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := testkit.New(t, testkit.Options{
		Config: func(c *config.Config) { c.Dev = true },
		Log:    slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	r.Stop()
	if !strings.Contains(log.String(), "DEVELOPMENT MODE") {
		t.Errorf("the log says %q", log.String())
	}
}
