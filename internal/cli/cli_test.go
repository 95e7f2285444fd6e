package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/fault"
)

// world is a world without terminals.
func world(in string) (w *World, out, err *bytes.Buffer) {
	out, err = &bytes.Buffer{}, &bytes.Buffer{}
	return &World{In: strings.NewReader(in), Out: out, Err: err, InTerminal: -1, OutTerminal: -1}, out, err
}

// alone takes what the machine knows of Herald away.
func alone(t *testing.T) {
	t.Helper()
	for _, name := range []string{"HERALD_RELAY", "HERALD_KEY", "HERALD_KEY_FILE", "HERALD_PROFILE", "HERALD_CONFIG", "HERALD_TOKEN", "HERALD_TOKEN_FILE", "HERALD_EVENT_SECRET"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HERALD_DATA", t.TempDir())
}

func run(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	w, o, e := world("")
	status = Main(t.Context(), args, w)
	return status, o.String(), e.String()
}

func TestReadLink(t *testing.T) {
	for text, want := range map[string][2]string{
		"https://relay.example/pair#ABCD-EFGH":      {"https://relay.example", "ABCD-EFGH"},
		" https://relay.example/pair/#abcdefgh\n":   {"https://relay.example", "abcdefgh"},
		"http://127.0.0.1:8787/pair?code=ABCD-EFGH": {"http://127.0.0.1:8787", "ABCD-EFGH"},
		"ABCD-EFGH":                        {"", "ABCD-EFGH"},
		"abcd efgh":                        {"", "abcd efgh"},
		"ABCDEFGH":                         {"", "ABCDEFGH"},
		"":                                 {},
		"ABCD":                             {},
		"https://relay.example/pair":       {},
		"https://relay.example/#ABCD-EFGH": {},
		"https://relay.example/pair#ABCD-EFGH-IJKL":    {},
		"https://user@relay.example/pair#ABCD-EFGH":    {},
		"ftp://relay.example/pair#ABCD-EFGH":           {},
		"https:///pair#ABCD-EFGH":                      {},
		"https://relay.example/pair#\x1b[31mABCD-EFGH": {},
	} {
		address, code, err := readLink(text)
		if (err == nil) != (want[1] != "") || address != want[0] || code != want[1] {
			t.Errorf("readLink(%q) = %q, %q, %v; want %q", text, address, code, err, want)
		}
	}
}

func FuzzReadLink(f *testing.F) {
	for _, s := range []string{"https://relay.example/pair#ABCD-EFGH", "ABCD-EFGH", "http://[::1]:1/pair?code=ABCDEFGH", "://", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		address, code, err := readLink(s)
		if err == nil && (!codeShape.MatchString(code) || address != "" && !strings.HasPrefix(address, "http")) {
			t.Errorf("readLink(%q) = %q, %q", s, address, code)
		}
	})
}

// everyField is the list of contract section 2.1.
var everyField = []string{"title", "body", "subtitle", "status", "project", "session", "task", "tool", "group", "duration", "link",
	"notificationId", "tags", "priority", "persistent", "timeoutSeconds", "sound", "presentation", "icon", "imageURL", "speak",
	"voice", "speed", "expectReply", "allowVoiceReply"}

func TestEveryFieldHasAFlag(t *testing.T) {
	args := []string{"notify", "T", "B"}
	for _, a := range []string{"subtitle=S", "status=done", "project=p", "session=s", "task=t", "tool=l", "group=g", "duration=3 min",
		"link=https://a.example/", "id=n-1", "tag=a", "tag=b", "priority=high", "timeout-seconds=30", "sound=default", "presentation=both",
		"icon=https://a.example/i.png", "image-url=https://a.example/p.png", "say=hello", "lang=en-us", "voice=af_heart", "speed=1.5"} {
		args = append(args, "--"+a)
	}
	args = append(args, "--persistent", "--no-voice-reply", "--expect-reply")
	var c commands
	w, _, _ := world("")
	parser, err := newParser(&c, w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Fatal(err)
	}
	n, err := c.Notify.notification(w)
	if err != nil {
		t.Fatal(err)
	}
	n.ExpectReply = c.Notify.ExpectReply
	text, err := wire.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(everyField)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"a", "b"}, got["tags"]); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"text": "hello", "lang": "en-us"}, got["speak"]); diff != "" {
		t.Errorf("speak (-want +got):\n%s", diff)
	}
}

func TestFieldsFromJSON(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags fieldFlags
		want  string // of the error; "" wants none
	}{
		{"a title as JSON", fieldFlags{Field: map[string]string{"title": `"T"`}}, ""},
		{"no title", fieldFlags{}, "no title"},
		{"no JSON", fieldFlags{Title: "T", Field: map[string]string{"body": `text`}}, "--field body is not JSON"},
		{"the wrong type", fieldFlags{Title: "T", Field: map[string]string{"tags": `"ci"`}}, "field tags"},
		{"silent and speaking", fieldFlags{Title: "T", Silent: true, Say: "x"}, "--silent"},
	} {
		w, _, _ := world("")
		n, err := c.flags.notification(w)
		switch {
		case c.want == "" && (err != nil || n.Title != "T"):
			t.Errorf("%s: %+v, %v", c.name, n, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error = %v, want one that says %q", c.name, err, c.want)
		}
		if o := (*outcome)(nil); err != nil && (!errors.As(err, &o) || o.status != statusUsage) {
			t.Errorf("%s: %v is no usage error", c.name, err)
		}
	}
}

func TestIcon(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	png := "\x89PNG\r\n\x1a\n"
	for value, want := range map[string]string{
		"":                           "",
		"https://a.example/i.png":    "https://a.example/i.png",
		"data:image/png;base64,AAAA": "data:image/png;base64,AAAA",
		write("i.png", png):          "data:image/png;base64,iVBORw0KGgo=",
		write("i.txt", "text"):       "error",
		write("big.png", png+strings.Repeat("x", maxIcon)): "error",
		filepath.Join(dir, "none"):                         "error",
		dir:                                                "error",
	} {
		got, err := icon(value)
		if (err != nil) != (want == "error") || err == nil && got != want {
			t.Errorf("icon(%q) = %q, %v; want %q", value, got, err, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want failure
	}{
		{"a relay's refusal", &client.Error{Status: 429, Code: "queue_full", Message: "full\x1b[2J"},
			failure{Message: "full�[2J", Code: "queue_full", Hint: advice["queue_full"]}},
		{"a refusal that passes", &client.Error{Status: 429, Code: "rate_limited", Message: "m", RetryAfter: 90 * time.Second, Fields: []string{"a\n"}},
			failure{Message: "m", Code: "rate_limited", Fields: []string{"a"}, Hint: "try again in 90 seconds", RetryAfterSeconds: 90}},
		{"an operator's fault", fault.NotFoundf("there is no such person"),
			failure{Message: "there is no such person", Code: "not_found"}},
		{"a person's name that is taken", fault.New(fault.Conflict, "name_taken", "taken"), failure{Message: "taken", Code: "name_taken",
			Hint: "choose another name; herald person list shows the people, and herald person link NAME pairs another device of one"}},
		{"nobody there", &client.Unreachable{Host: "h", Err: errors.New("refused")},
			failure{Message: "h cannot be reached: refused", Code: "unreachable", Hint: "is the relay running, and is this its address? herald doctor looks closer"}},
		{"a missing file", &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission},
			failure{Message: "open /x: permission denied", Hint: "check who owns the file and its directory"}},
	} {
		if diff := cmp.Diff(c.want, describe(c.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestErrorsAreJSONWhereTheOutputIs(t *testing.T) {
	alone(t)
	status, out, errs := run(t, "device", "info", "--json")
	var f failure
	if err := json.Unmarshal([]byte(errs), &f); err != nil || status != statusFailed || out != "" || f.Code != "not_paired" {
		t.Errorf("status %d, out %q, err %q (%v)", status, out, errs, err)
	}
	status, _, errs = run(t, "device", "info")
	if status != statusFailed || !strings.HasPrefix(errs, "herald: this machine is not paired") {
		t.Errorf("status %d, err %q", status, errs)
	}
}

// The refusal of a pairing that is not removable, and the removal of one that is, as programs read them.
func TestDeviceRemoveInJSON(t *testing.T) {
	alone(t)
	id := strings.Repeat("0a", 24)
	removable := true
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodDelete || r.URL.Path != "/v1/device/devices/"+id || !removable {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"error":"not_removable","message":"it is in use"}`)
			return
		}
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	defer relay.Close()
	path, err := profile.Path()
	if err != nil {
		t.Fatal(err)
	}
	if err := profile.Save(path, profile.Profile{Relay: relay.URL, Token: "hrd_d_s"}); err != nil {
		t.Fatal(err)
	}
	status, out, errs := run(t, "device", "remove", id, "--json")
	if status != statusDone || out != `{"removed":["`+id+`"]}`+"\n" || errs != "" {
		t.Errorf("status %d, out %q, err %q", status, out, errs)
	}
	removable = false
	status, out, errs = run(t, "device", "remove", id, "--json")
	var f failure
	if err := json.Unmarshal([]byte(errs), &f); err != nil || status != statusFailed || out != "" || f.Code != "not_removable" {
		t.Errorf("status %d, out %q, err %q (%v)", status, out, errs, err)
	}
}

func TestUsageErrorsAreStatus2(t *testing.T) {
	alone(t)
	t.Setenv("HERALD_KEY", "hrk_x")
	t.Setenv("HERALD_RELAY", "http://127.0.0.1:1")
	for _, args := range [][]string{
		{"bogus"}, {"serve", "--bogus"}, {"key"}, {"key", "create"}, {"ask", "x", "--timeout", "soon"}, {"ask"}, {"notify", "x", "--field", "a=b"},
		{"listen", "--quiet-hours", "late"}, {"key", "create", "a", "--client", "robot"},
		{"device", "remove", "abc"}, {"link", "remove", "0123456789ABCDEF"},
	} {
		if status, _, errs := run(t, args...); status != statusUsage || errs == "" {
			t.Errorf("herald %s: status %d, %q", strings.Join(args, " "), status, errs)
		}
	}
}

func TestHelpAndNothingAtAll(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"ask", "--help"}} {
		status, out, _ := run(t, args...)
		if status != statusDone || !strings.Contains(out, "Usage: herald") {
			t.Errorf("herald %q: status %d, %q", args, status, out)
		}
	}
}

func TestInterruptedIsStatus130(t *testing.T) {
	alone(t)
	t.Setenv("HERALD_KEY", "hrk_x")
	t.Setenv("HERALD_RELAY", "http://127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, _, _ := world("")
	if status := Main(ctx, []string{"ask", "x"}, w); status != statusInterrupted {
		t.Errorf("status = %d", status)
	}
}

// Every flag of settingFlags is a setting that package config knows by that name.
func TestSettingFlagsAreSettings(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[settingFlags]()) {
		if f.Anonymous {
			continue
		}
		name := f.Tag.Get("name")
		if name == "" {
			name = dashed(f.Name)
		}
		if name == "config" {
			continue // names the file itself
		}
		_, err := config.Load(config.Sources{Flags: map[string]string{name: "x"}})
		for _, p := range config.Problems(err) {
			if strings.Contains(p.Detail, "no such flag") {
				t.Errorf("--%s is no setting", name)
			}
		}
	}
}

func dashed(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

func TestTheVariablesOfClientsDoNotStopTheRelay(t *testing.T) {
	environ := func() []string {
		return []string{"HERALD_RELAY=x", "HERALD_KEY=x", "HERALD_KEY_FILE=x", "HERALD_PROFILE=x", "HOME=/root"}
	}
	_, err := config.Load(config.Sources{Environ: environ, Flags: map[string]string{"data": t.TempDir()}})
	if err != nil {
		t.Error(err)
	}
}

func TestAgentKeysComeFromFilesOrTheEnvironment(t *testing.T) {
	alone(t)
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("  hrk_from_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HERALD_KEY", "hrk_from_env")
	for file, want := range map[string]string{"": "hrk_from_env", path: "hrk_from_file", "-": "hrk_from_input"} {
		w, _, _ := world("hrk_from_input\n")
		f := agentFlags{KeyFile: file}
		if got, err := f.key(w); err != nil || got != want {
			t.Errorf("key from %q = %q, %v; want %q", file, got, err, want)
		}
	}
	t.Setenv("HERALD_KEY", "two words")
	w, _, _ := world("")
	f := agentFlags{}
	if key, err := f.key(w); err == nil {
		t.Errorf("key = %q", key)
	}
}

func TestPairRefusesToForgetAPairing(t *testing.T) {
	alone(t)
	path, err := profile.Path()
	if err != nil {
		t.Fatal(err)
	}
	if err := profile.Save(path, profile.Profile{Relay: "https://relay.example", Token: "hrd_d_s"}); err != nil {
		t.Fatal(err)
	}
	status, _, errs := run(t, "pair", "https://other.example/pair#ABCD-EFGH")
	if status != statusFailed || !strings.Contains(errs, "paired with https://relay.example already") || !strings.Contains(errs, "--replace") {
		t.Errorf("status %d, %q", status, errs)
	}
}

func TestInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		10 * time.Millisecond: "a moment", 90 * time.Second: "90 seconds", 10 * time.Minute: "10 minutes", 9 * time.Hour: "9 hours",
	} {
		if got := inWords(d); got != want {
			t.Errorf("inWords(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestDoctorTakesNoTokenToAnotherRelay(t *testing.T) {
	alone(t)
	met := map[string]bool{}
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		met[r.Header.Get("Authorization")] = true
		io.WriteString(w, `{"ok":true,"service":"herald-relay"}`)
	}))
	defer relay.Close()
	path := filepath.Join(t.TempDir(), "profile.json")
	if err := profile.Save(path, profile.Profile{Relay: "https://relay.example", DeviceID: "d", Token: "hrd_mine"}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HERALD_KEY", "hrk_mine")
	run(t, "doctor", relay.URL, "--profile", path)
	if met["Bearer hrd_mine"] || met["Bearer hrk_mine"] || len(met) == 0 {
		t.Errorf("another relay met %v", met)
	}
	run(t, "doctor", relay.URL, "--profile", path, "--token", "hrk_given")
	if met["Bearer hrd_mine"] || met["Bearer hrk_mine"] || !met["Bearer hrk_given"] {
		t.Errorf("with a token given, another relay met %v", met)
	}
	t.Setenv("HERALD_RELAY", relay.URL+"/")
	run(t, "doctor", relay.URL, "--profile", path)
	if met["Bearer hrd_mine"] || !met["Bearer hrk_mine"] {
		t.Errorf("the relay of HERALD_RELAY met %v", met)
	}
}
