package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const goodSecret = "0123456789abcdef0123456789abcdef"

// env makes sources of an environment and flags, with a home of its own.
func env(vars map[string]string, flags ...string) Sources {
	if vars["HOME"] == "" {
		vars["HOME"] = "/home/someone"
	}
	src := Sources{
		Env: func(k string) (string, bool) { v, ok := vars[k]; return v, ok },
		Environ: func() (list []string) {
			for k, v := range vars {
				list = append(list, k+"="+v)
			}
			return list
		},
		Flags: map[string]string{},
	}
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		src.Flags[name] = value
	}
	return src
}

func write(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "herald.conf")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, src Sources) Config {
	t.Helper()
	c, err := Load(src)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

func TestNothingSaidGivesTheDocumentedDefaults(t *testing.T) {
	got := load(t, env(map[string]string{"HOME": "/home/ada"}))
	want := Default()
	want.Data = "/home/ada/.local/share/herald"
	if got.String() != "config{}" || len(got.Notes()) != 0 {
		t.Errorf("String = %s, Notes = %q; want nothing to tell", got, got.Notes())
	}
	got.sources, got.notes = nil, nil
	if diff := cmp.Diff(want.Describe(), got.Describe()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// The contract's section 10 fixes these numbers.
func TestLimitsDefaultToTheContract(t *testing.T) {
	want := map[string]string{
		"DEVICE_NOTIFICATIONS_PER_DAY": "500", "DEVICE_QUEUE_MAX": "100", "QUEUE_TTL_HOURS": "24",
		"DEVICE_REQUESTS_PER_DAY": "5000", "DEVICE_AUDIO_UPLOADS_PER_DAY": "40", "DEVICE_AUDIO_BYTES_PER_DAY": "20971520",
		"DEVICE_POLL_SECONDS_PER_DAY": "3000", "MAX_BODY_BYTES": "32768", "RATE_LIMIT_PER_KEY": "60", "MAX_DEVICES": "5",
		"PAIR_STARTS_PER_HOUR": "6", "PAIR_STARTS_GLOBAL_PER_HOUR": "300", "REGISTER_PER_HOUR": "30",
	}
	got := map[string]string{}
	for _, s := range Default().Describe() {
		if want[s.Key] != "" {
			got[s.Key] = s.Value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestLaterSourcesWin(t *testing.T) {
	src := env(map[string]string{"MAX_DEVICES": "7", "HERALD_GRACE": "20s"}, "grace=30s")
	src.File = write(t, 0o644, "MAX_DEVICES=6\nHERALD_GRACE = 15s\nQUEUE_TTL_HOURS=\"0.5\"\n# a comment\n\nBUNDLE_HASH='ab # c'\n")
	_, err := Load(src)
	if err == nil || !strings.Contains(err.Error(), "BUNDLE_HASH (file)") {
		t.Fatalf("Load = %v, want the blank in BUNDLE_HASH refused: quotes keep a # as it is", err)
	}
	src.File = write(t, 0o644, "\uFEFFMAX_DEVICES=6\r\nHERALD_GRACE = 15s\r\nQUEUE_TTL_HOURS=\"0.5\"\r\n")
	c := load(t, src)
	if c.MaxDevices != 7 || c.Grace != 30*time.Second || c.QueueTTL != 30*time.Minute {
		t.Errorf("MaxDevices %d, Grace %v, QueueTTL %v; want 7, 30s, 30m", c.MaxDevices, c.Grace, c.QueueTTL)
	}
	from := map[string]string{}
	for _, s := range c.Describe() {
		from[s.Key] = s.Source
	}
	if from["MAX_DEVICES"] != "environment" || from["HERALD_GRACE"] != "flag" || from["QUEUE_TTL_HOURS"] != "file" || from["HERALD_LISTEN"] != "default" {
		t.Errorf("sources = %v", from)
	}
}

func TestTheFileMayBeNamedInThreeWays(t *testing.T) {
	path := write(t, 0o644, "MAX_DEVICES=6\n")
	byField := env(map[string]string{})
	byField.File = path
	for name, src := range map[string]Sources{
		"field": byField, "flag": env(map[string]string{}, "config="+path), "environment": env(map[string]string{"HERALD_CONFIG": path}),
	} {
		if c := load(t, src); c.MaxDevices != 6 || c.File != path {
			t.Errorf("named by %s: MaxDevices %d, File %q", name, c.MaxDevices, c.File)
		}
	}
	if _, err := Load(env(map[string]string{"HERALD_CONFIG": path + ".gone"})); len(Problems(err)) != 1 {
		t.Errorf("a missing file: Load = %v, want one problem", err)
	}
}

func TestEveryProblemIsToldAtOnce(t *testing.T) {
	src := env(map[string]string{
		"MAX_DEVICES": "many", "HERALD_ORIGN": "https://relay.example", "HERALD_LISTEN": "8787", "RELAY_SECRET": "short",
	}, "dev=perhaps", "listne=:1")
	src.File = write(t, 0o644, "DEVICE_QUEU_MAX=3\nnonsense\nMAX_DEVICES=2\nMAX_DEVICES=3\nHERALD_CONFIG=/etc/other\nPAIRING_SECRET=12345678\nHERALD_GRACE=\"1s\n")
	_, err := Load(src)
	var got []string
	for _, p := range Problems(err) {
		got = append(got, p.Key+"|"+p.Source)
		if p.Hint == "" {
			t.Errorf("%v: no hint", p)
		}
	}
	want := []string{"line 2|file", "MAX_DEVICES|file", "HERALD_GRACE|file", "DEVICE_QUEU_MAX|file", "HERALD_CONFIG|file",
		"PAIRING_SECRET|file", "HERALD_LISTEN|environment", "RELAY_SECRET|environment", "MAX_DEVICES|environment",
		"HERALD_ORIGN|environment", "--listne|flag", "HERALD_DEV|flag"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s\n%v", diff, err)
	}
	for _, hint := range []string{"did you mean HERALD_ORIGIN?", "did you mean DEVICE_QUEUE_MAX?"} {
		if !strings.Contains(err.Error(), hint) {
			t.Errorf("the problems do not ask %q", hint)
		}
	}
}

// valueCases feed one setting each. A want of "" with no problem means that the default stays.
var valueCases = []struct {
	key, raw string
	want     string // as Describe shows it
	problem  string // part of the message; empty when the value is fine
}{
	{"HERALD_LISTEN", ":8787", ":8787", ""},
	{"HERALD_LISTEN", "[::1]:0", "[::1]:0", ""},
	{"HERALD_LISTEN", "127.0.0.1:08787", "127.0.0.1:8787", ""},
	{"HERALD_LISTEN", "127.0.0.1", "", "not an address and port"},
	{"HERALD_LISTEN", "127.0.0.1:http", "", "not an address and port"},
	{"HERALD_LISTEN", "127.0.0.1:65536", "", "not an address and port"},
	{"HERALD_LISTEN", "http://127.0.0.1:80", "", "not an address and port"},
	{"HERALD_ORIGIN", "https://Relay.Example:443/", "https://relay.example", ""},
	{"HERALD_ORIGIN", "https://relay.example:8443", "https://relay.example:8443", ""},
	{"HERALD_ORIGIN", "http://localhost:8787", "http://localhost:8787", ""},
	{"HERALD_ORIGIN", "http://[::1]:8787", "http://[::1]:8787", ""},
	{"HERALD_ORIGIN", "http://relay.example", "", "must be https"},
	{"HERALD_ORIGIN", "https://relay.example/herald", "", "more than an origin"},
	{"HERALD_ORIGIN", "https://me:pw@relay.example", "", "more than an origin"},
	{"HERALD_ORIGIN", "https://relay.example?x", "", "more than an origin"},
	{"HERALD_ORIGIN", "https://relay.example#", "", "more than an origin"},
	{"HERALD_ORIGIN", "https://relay.example:99999", "", "no valid port"},
	{"HERALD_ORIGIN", "https://bücher.example", "", "not a host name"},
	{"HERALD_ORIGIN", "https://under_score.example", "", "not a host name"},
	{"HERALD_ORIGIN", "relay.example", "", "not a web address"},
	{"HERALD_ORIGIN", "ftp://relay.example", "", "not a web address"},
	{"HERALD_TLS_DOMAIN", "under_score.example", "", "not a public host name"},
	{"HERALD_TLS_DOMAIN", "93.184.216.34", "", "is an address"},
	{"HERALD_TLS_DOMAIN", ",", "", "not a public host name"},
	{"HERALD_TRUSTED_PROXIES", "10.0.0.7, 10.1.2.3/8,::1,::ffff:10.0.0.9", "10.0.0.7/32,10.0.0.0/8,::1/128,10.0.0.9/32", ""},
	{"HERALD_TRUSTED_PROXIES", "0.0.0.0/0", "", "trust every address"},
	{"HERALD_TRUSTED_PROXIES", "proxy.internal", "", "not an address or range"},
	{"HERALD_TRUSTED_PROXIES", "fe80::1%eth0", "", "not an address or range"},
	{"HERALD_PRIVATE_LISTEN", "OFF", "", ""},
	{"HERALD_PRIVATE_LISTEN", "127.0.0.1:9187", "127.0.0.1:9187", ""},
	{"HERALD_GRACE", "0s", "0s", ""},
	{"HERALD_GRACE", "10", "", "not a time"},
	{"HERALD_GRACE", "-1s", "", "not a time"},
	{"HERALD_GRACE", "61m", "", "not a time"},
	{"HERALD_LOG_FORMAT", "JSON", "json", ""},
	{"HERALD_LOG_FORMAT", "logfmt", "", "write one of: text, json"},
	{"HERALD_LOG_LEVEL", "Debug", "debug", ""},
	{"HERALD_LOG_LEVEL", "loud", "", "not a level"},
	{"HERALD_DEV", "1", "true", ""},
	{"HERALD_DEV", "yes", "", "neither true nor false"},
	{"PAIRING_SECRET", "eight888", "[redacted]", ""},
	{"PAIRING_SECRET", "seven77", "", "shorter than 8"},
	{"PAIRING_SECRET", "eight\x07888", "", "control characters"},
	{"RELAY_SECRET", goodSecret, "[redacted]", ""},
	{"RELAY_SECRET", goodSecret[1:], "", "shorter than 32"},
	{"DEVICE_QUEUE_MAX", "3", "3", ""},
	{"DEVICE_QUEUE_MAX", "0", "100", ""},
	{"DEVICE_QUEUE_MAX", "-3", "100", ""},
	{"DEVICE_QUEUE_MAX", "  ", "100", ""},
	{"DEVICE_QUEUE_MAX", "3.5", "", "not a whole number"},
	{"DEVICE_QUEUE_MAX", "three", "", "not a whole number"},
	{"MAX_BODY_BYTES", "32KB", "", "not a whole number"},
	{"MAX_BODY_BYTES", "99999999999999999999", "", "not a whole number"},
	{"QUEUE_TTL_HOURS", "0.25", "0.25", ""},
	{"QUEUE_TTL_HOURS", "0", "24", ""},
	{"QUEUE_TTL_HOURS", "-Inf", "24", ""},
	{"QUEUE_TTL_HOURS", "NaN", "", "not a number of hours"},
	{"QUEUE_TTL_HOURS", "1e9", "", "not a number of hours"},
	{"QUEUE_TTL_HOURS", "24h", "", "not a number of hours"},
	{"EVENT_CALLBACK_HOSTS", " Hooks.Example. ,, 93.184.216.34 ,2606:2800:220:1::1", "hooks.example,93.184.216.34,2606:2800:220:1::1", ""},
	{"EVENT_CALLBACK_HOSTS", "localhost", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "db.internal", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "printer.local", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "router.home.arpa", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "intranet", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "10.0.0.1", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "100.64.0.1", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "192.0.2.1", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "::ffff:93.184.216.34", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "64:ff9b::808:808", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "127.1", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "*.example.com", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "https://hooks.example", "", "not a public host"},
	{"EVENT_CALLBACK_HOSTS", "hooks.example:8443", "", "not a public host"},
	{"BUNDLE_HASH", "sha256-ab12", "sha256-ab12", ""},
	{"BUNDLE_HASH", "two words", "", "not a short word"},
}

func TestValues(t *testing.T) {
	for _, c := range valueCases {
		t.Run(c.key+"="+c.raw, func(t *testing.T) {
			got, err := Load(env(map[string]string{c.key: c.raw}))
			if c.problem != "" {
				if list := Problems(err); len(list) != 1 || list[0].Key != c.key || !strings.Contains(list[0].Error(), c.problem) {
					t.Fatalf("Load = %v, want one problem of %s with %q", err, c.key, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range got.Describe() {
				if s.Key == c.key && s.Value != c.want {
					t.Errorf("value = %q, want %q", s.Value, c.want)
				}
			}
		})
	}
}

func TestNumbersThatDoNotCountAreNoted(t *testing.T) {
	c := load(t, env(map[string]string{"MAX_DEVICES": "0", "DEVICE_QUEU_MAX": "3"}))
	notes := strings.Join(c.Notes(), "\n")
	if !strings.Contains(notes, "MAX_DEVICES is not positive") || !strings.Contains(notes, "DEVICE_QUEUE_MAX is") {
		t.Errorf("notes = %q", notes)
	}
}

func TestRulesBetweenSettings(t *testing.T) {
	for _, c := range []struct {
		name    string
		vars    map[string]string
		problem string // empty: fine
	}{
		{"dev on loopback", map[string]string{"HERALD_DEV": "true"}, ""},
		{"dev with an origin on localhost", map[string]string{"HERALD_DEV": "true", "HERALD_ORIGIN": "http://localhost:8787"}, ""},
		{"dev with a public origin", map[string]string{"HERALD_DEV": "true", "HERALD_ORIGIN": "https://relay.example"}, "HERALD_DEV"},
		{"dev that others can reach", map[string]string{"HERALD_DEV": "true", "HERALD_LISTEN": ":8787"}, "HERALD_DEV"},
		{"dev with a certificate", map[string]string{"HERALD_DEV": "true", "HERALD_TLS_DOMAIN": "relay.example"}, "HERALD_DEV"},
		{"a certificate", map[string]string{"HERALD_TLS_DOMAIN": "relay.example"}, ""},
		{"a certificate behind a forwarded port", map[string]string{"HERALD_TLS_DOMAIN": "relay.example", "HERALD_LISTEN": ":8443"}, ""},
		{"a certificate on loopback", map[string]string{"HERALD_TLS_DOMAIN": "relay.example", "HERALD_LISTEN": "127.0.0.1:443"}, "HERALD_TLS_DOMAIN"},
		{"a certificate for another host than the origin's", map[string]string{"HERALD_TLS_DOMAIN": "relay.example", "HERALD_ORIGIN": "https://other.example"}, "HERALD_ORIGIN"},
		{"a certificate for an inner name", map[string]string{"HERALD_TLS_DOMAIN": "relay.local"}, "HERALD_TLS_DOMAIN"},
		{"metrics in public", map[string]string{"HERALD_LISTEN": "127.0.0.1:8787", "HERALD_PRIVATE_LISTEN": "127.0.0.1:8787"}, "HERALD_PRIVATE_LISTEN"},
		{"postgres", map[string]string{"HERALD_DATABASE": "postgres://u:hunter2@db/herald", "RELAY_SECRET": goodSecret}, ""},
		{"postgres without a shared secret", map[string]string{"HERALD_DATABASE": "postgres://u:hunter2@db/herald"}, "RELAY_SECRET"},
		{"another database", map[string]string{"HERALD_DATABASE": "mysql://u:hunter2@db/herald"}, "HERALD_DATABASE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Load(env(c.vars))
			list := Problems(err)
			if (c.problem == "") != (err == nil) || (c.problem != "" && (len(list) != 1 || list[0].Key != c.problem)) {
				t.Fatalf("Load = %v, want a problem of %q alone", err, c.problem)
			}
			if text := fmt.Sprint(got, err); strings.Contains(text, "hunter2") {
				t.Errorf("the password shows: %s", text)
			}
		})
	}
}

func TestCertificateBringsItsDefaults(t *testing.T) {
	c := load(t, env(map[string]string{"HERALD_TLS_DOMAIN": "Relay.Example."}))
	if c.Listen != ":443" || c.Origin != "https://relay.example" || c.ListensOnLoopback() {
		t.Errorf("Listen %q, Origin %q", c.Listen, c.Origin)
	}
}

func TestDataFollowsTheUsersDirectories(t *testing.T) {
	for _, c := range []struct{ xdg, want string }{
		{"", "/home/someone/.local/share/herald"}, {"/var/x", "/var/x/herald"}, {"relative", "/home/someone/.local/share/herald"},
	} {
		if got := load(t, env(map[string]string{"XDG_DATA_HOME": c.xdg})).Data; got != c.want {
			t.Errorf("XDG_DATA_HOME=%q: Data = %q, want %q", c.xdg, got, c.want)
		}
	}
}

func TestSecretsComeFromFiles(t *testing.T) {
	ok := write(t, 0o640, goodSecret+"\n")
	if c := load(t, env(map[string]string{"RELAY_SECRET_FILE": ok})); c.RelaySecret.Reveal() != goodSecret {
		t.Errorf("RelaySecret = %q", c.RelaySecret.Reveal())
	}
	for name, vars := range map[string]map[string]string{
		"which others can read": {"RELAY_SECRET_FILE": write(t, 0o644, goodSecret)},
		"which is missing":      {"RELAY_SECRET_FILE": filepath.Join(t.TempDir(), "none")},
		"which is empty":        {"RELAY_SECRET_FILE": write(t, 0o600, "\n")},
		"which is a directory":  {"RELAY_SECRET_FILE": t.TempDir()},
		"and directly":          {"RELAY_SECRET_FILE": ok, "RELAY_SECRET": goodSecret},
	} {
		if _, err := Load(env(vars)); len(Problems(err)) != 1 || Problems(err)[0].Key != "RELAY_SECRET_FILE" {
			t.Errorf("a secret from a file %s: Load = %v, want one problem of RELAY_SECRET_FILE", name, err)
		}
	}
}

func TestASecretIsNeverShown(t *testing.T) {
	c := load(t, env(map[string]string{"RELAY_SECRET": goodSecret, "HERALD_DATABASE": "postgres://u:" + goodSecret + "@db/herald?password=" + goodSecret}))
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", c, "secret", c.RelaySecret)
	asJSON, err := json.Marshal(struct{ S Secret }{c.RelaySecret})
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %+v %#v %s %q %x %d", c, c, c, c.RelaySecret, c.RelaySecret, c.RelaySecret, c.RelaySecret) + log.String() + string(asJSON) + fmt.Sprint(c.Describe())
	if strings.Contains(all, goodSecret) || strings.Contains(all, fmt.Sprintf("%x", goodSecret)) {
		t.Errorf("a secret shows:\n%s", all)
	}
	if !strings.Contains(all, "postgres://db/herald") || !strings.Contains(all, "[redacted]") {
		t.Errorf("what is not secret is missing:\n%s", all)
	}
}

func TestOtherVariablesAreLeftAlone(t *testing.T) {
	load(t, env(map[string]string{"HERALD_KEY": "hrk_x", "HERALD_TEST_POSTGRES": "x", "PATH": "/bin", "HERALD_EMPTY": ""}))
}

func TestProblemsOfOtherErrors(t *testing.T) {
	if got := Problems(errors.New("x")); got != nil {
		t.Errorf("Problems = %v", got)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("MAX_DEVICES=3\n# c\nA=\"b\"\n"))
	f.Add([]byte("=\n\"'\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v := parseLines(data)
		if len(v.keys) != len(v.byKey) {
			t.Errorf("%d keys in order, %d in the map", len(v.keys), len(v.byKey))
		}
		for _, k := range v.keys {
			if !isKey(k) || strings.ContainsAny(v.byKey[k], "\n\x00") {
				t.Errorf("accepted %q=%q", k, v.byKey[k])
			}
		}
	})
}
