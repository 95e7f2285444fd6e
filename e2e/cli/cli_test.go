// Package cli drives the built herald binary through scripts, as a person or a script would.
package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// herald is the path of the binary under test.
var herald string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "herald-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	herald = filepath.Join(dir, "herald")
	compile := exec.Command("go", "build", "-o", herald, "../../cmd/herald")
	compile.Stderr = os.Stderr
	if err := compile.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build herald:", err)
		return 1
	}
	return m.Run()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               prepare,
		Cmds:                scriptCommands,
	})
}

// scriptCommands are what scripts know beside testscript's own.
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"relay":       startRelay,
	"relay-stop":  stopRelay,
	"capture":     capture,
	"until":       until,
	"bind":        bind,
	"app":         askApproval,
	"mcp":         callLocal,
	"local":       askLocal,
	"events":      startEvents,
	"events-stop": stopEvents,
	"emit":        emit,
	"aside":       startAside,
	"aside-end":   endAside,
	"holds":       holds,
}

// prepare gives each script a machine of its own: nothing paired, no desktop, no speech.
func prepare(e *testscript.Env) error {
	bin := filepath.Join(e.WorkDir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(herald, filepath.Join(bin, "herald")); err != nil {
		return err
	}
	for _, dir := range []string{"home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(e.WorkDir, dir), 0o755); err != nil {
			return err
		}
	}
	e.Setenv("PATH", bin+":/usr/bin:/bin")
	e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
	e.Setenv("TMPDIR", filepath.Join(e.WorkDir, "tmp"))
	e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "home", "config"))
	e.Setenv("HERALD_DATA", filepath.Join(e.WorkDir, "data"))
	e.Setenv("TZ", "UTC")
	e.Setenv("NO_COLOR", "1")
	e.Values[relayKey{}] = &relay{}
	e.Values[eventsKey{}] = &eventsSide{asides: map[string]*aside{}}
	return nil
}

type relayKey struct{}

// relay is the herald serve of a script.
type relay struct {
	cmd *exec.Cmd
	mu  sync.Mutex // guards out
	out bytes.Buffer
	end chan error
}

var (
	readyLine = regexp.MustCompile(`(?m)^ready: the relay answers on (\S+) `)
	linkLine  = regexp.MustCompile(`herald pair (\S+)`)
)

// startRelay is "relay [flags]": it runs herald serve until the script ends, waits until it is ready, and sets $ADDR and $LINK.
func startRelay(ts *testscript.TestScript, neg bool, args []string) {
	r := ts.Value(relayKey{}).(*relay)
	if neg || r.cmd != nil {
		ts.Fatalf("one relay at a time")
	}
	r.cmd = exec.Command(herald, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	r.cmd.Dir, r.cmd.Env = ts.Getenv("WORK"), environ(ts)
	r.cmd.Stderr = r
	pipe, err := r.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(r.cmd.Start())
	ts.Defer(func() { r.stop() })
	r.end = make(chan error, 1)
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			fmt.Fprintln(r, lines.Text())
			if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
				ready <- m[1]
			}
		}
		close(ready)
		r.end <- r.cmd.Wait()
	}()
	select {
	case addr := <-ready:
		if addr == "" {
			ts.Fatalf("the relay ended:\n%s", r.text())
		}
		ts.Setenv("ADDR", addr)
	case <-time.After(30 * time.Second):
		ts.Fatalf("the relay is not ready:\n%s", r.text())
	}
	ts.Setenv("LINK", "")
	if m := linkLine.FindStringSubmatch(r.text()); m != nil {
		ts.Setenv("LINK", m[1])
	}
}

// environ is the script's environment.
func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "XDG_CONFIG_HOME", "HERALD_DATA", "TZ", "NO_COLOR", "PAIRING_SECRET", "QUEUE_TTL_HOURS",
		"HERALD_RELAY", "HERALD_KEY_FILE", "HERALD_TOKEN", "HERALD_EVENT_SECRET"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func (r *relay) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

func (r *relay) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

func (r *relay) stop() error {
	if r.cmd == nil {
		return nil
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case err := <-r.end:
		r.cmd = nil
		return err
	case <-time.After(20 * time.Second):
		_ = r.cmd.Process.Kill()
		return fmt.Errorf("it did not stop; killed: %v", <-r.end)
	}
}

// stopRelay is "relay-stop": it stops the relay gently, requires status 0, and leaves what it printed in the file relay.out.
func stopRelay(ts *testscript.TestScript, _ bool, _ []string) {
	r := ts.Value(relayKey{}).(*relay)
	if err := r.stop(); err != nil {
		ts.Fatalf("the relay did not stop cleanly: %v\n%s", err, r.text())
	}
	ts.Check(os.WriteFile(ts.MkAbs("relay.out"), []byte(r.text()), 0o600))
	r.out.Reset()
}

// askApproval is "app NAME": software of that name asks for approval by the device flow; it sets $USER_CODE.
func askApproval(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: app NAME")
	}
	code, err := appAsks(ts.Getenv("ADDR"), args[0])
	ts.Check(err)
	ts.Setenv("USER_CODE", code)
}

// appAsks registers a client by the device flow, has it ask for approval, and returns the code that it shows.
func appAsks(relay, name string) (userCode string, err error) {
	post := func(path, kind, body string) (out map[string]any) {
		res, failed := http.Post(relay+path, kind, strings.NewReader(body))
		if failed != nil {
			err = failed
			return nil
		}
		defer res.Body.Close()
		err = json.NewDecoder(res.Body).Decode(&out)
		return out
	}
	client, _ := post("/register", "application/json", `{"client_name":"`+name+`","grant_types":["urn:ietf:params:oauth:grant-type:device_code"]}`)["client_id"].(string)
	if err != nil {
		return "", err
	}
	userCode, _ = post("/device_authorization", "application/x-www-form-urlencoded", "client_id="+client)["user_code"].(string)
	if err == nil && userCode == "" {
		err = errors.New("the app got no code")
	}
	return userCode, err
}

// capture is "capture NAME [pattern]": it sets $NAME to the trimmed standard output of the last command, or to the first group of
// a pattern in it.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: capture NAME [pattern]")
	}
	text := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) == 2 {
		m := regexp.MustCompile(args[1]).FindStringSubmatch(text)
		if m == nil {
			ts.Fatalf("%s is not in %q", args[1], text)
		}
		text = m[1]
	}
	ts.Setenv(args[0], text)
}

// until is "until pattern command...": it runs a command until its standard output matches, for ten seconds at most.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until pattern command...")
	}
	want := regexp.MustCompile(args[0])
	var out []byte
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		cmd := exec.Command(filepath.Join(ts.Getenv("WORK"), "bin", args[1]), args[2:]...)
		cmd.Dir, cmd.Env = ts.Getenv("WORK"), environ(ts)
		if out, _ = cmd.CombinedOutput(); want.Match(out) {
			return
		}
	}
	ts.Fatalf("%s never came; last:\n%s", args[0], out)
}

// bind is "bind NAME": it holds a port of this machine until the script ends and sets $NAME to its address.
func bind(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: bind NAME")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}
