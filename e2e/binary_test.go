// Package e2e drives the built herald binary as its users do: from outside, over its sockets and its exit codes.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
)

// herald is the path of the binary under test: the one that binaryVariable names, else one built for the run.
var herald = os.Getenv(binaryVariable)

const binaryVariable = "HERALD_E2E_BINARY"

func TestMain(m *testing.M) {
	if herald != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "herald-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Chmod(dir, 0o755) // tests start the binary as another user too
	herald = filepath.Join(dir, "herald")
	build := exec.Command("go", "build", "-o", herald, "../cmd/herald")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	code := 1
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build herald:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// server is a running `herald serve`.
type server struct {
	t       *testing.T
	cmd     *exec.Cmd
	URL     string
	dir     string
	env     []string // beside what environment gives
	private string   // URL of the private listener, "" when there is none
	done    chan error

	mu     sync.Mutex // guards output
	output bytes.Buffer
}

// plenty lifts the limits that a load test would meet.
var plenty = []string{
	"DEVICE_NOTIFICATIONS_PER_DAY=10000000", "DEVICE_QUEUE_MAX=10000000", "DEVICE_REQUESTS_PER_DAY=100000000",
	"RATE_LIMIT_PER_KEY=10000000", "DEVICE_POLL_SECONDS_PER_DAY=100000000",
	"PAIR_STARTS_PER_HOUR=10000", "PAIR_STARTS_GLOBAL_PER_HOUR=10000", "MAX_DEVICES=1000",
}

// environment is this process's, without what would steer the binary, and with more.
func environment(dir string, more ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir()}
	return append(env, more...)
}

var address = regexp.MustCompile(`https?://[0-9a-z.\[\]:-]+`)

// serve starts the binary on a data directory and waits until it is ready.
func serve(t *testing.T, dir string, env ...string) *server {
	t.Helper()
	s := spawn(t, dir, nil, env...)
	if s.URL == "" {
		t.Fatalf("herald serve ended before it was ready (%v):\n%s", <-s.done, s.text())
	}
	return s
}

// spawn starts the binary and waits until it is ready or has ended; URL is empty then.
func spawn(t *testing.T, dir string, as *syscall.SysProcAttr, env ...string) *server {
	t.Helper()
	s := &server{t: t, dir: dir, env: env, done: make(chan error, 1)}
	s.cmd = exec.Command(herald, "serve", "--listen", "127.0.0.1:0", "--data", dir)
	s.cmd.Env, s.cmd.SysProcAttr = environment(dir, env...), as
	pipe, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = s
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	go s.watch(pipe, ready)
	t.Cleanup(s.kill)
	select {
	case s.URL = <-ready:
	case <-time.After(30 * time.Second):
		t.Fatalf("herald serve was not ready within 30 seconds:\n%s", s.text())
	}
	return s
}

// watch keeps the output, and tells the address of the line that says ready; "" when the process ends without one.
func (s *server) watch(out io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(out)
	told := false
	for lines.Scan() {
		line := lines.Text()
		_, _ = s.Write([]byte(line + "\n"))
		if strings.Contains(line, "ready") && !told {
			told = true
			ready <- address.FindString(line)
		}
	}
	err := s.cmd.Wait()
	s.done <- err
	if !told {
		ready <- ""
	}
}

// Write takes standard error.
func (s *server) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.Write(b)
}

func (s *server) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// kill ends the process at once, as a power cut would end it, and waits.
func (s *server) kill() {
	if s.cmd.Process.Kill() == nil {
		s.done <- <-s.done // wait, and leave the outcome for others
	}
}

// stop asks the process to end and fails the test unless it does so cleanly within the time.
func (s *server) stop(within time.Duration) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatalf("signal: %v", err)
	}
	select {
	case err := <-s.done:
		s.done <- err
		if err != nil {
			s.t.Errorf("herald serve stopped with %v:\n%s", err, s.text())
		}
	case <-time.After(within):
		s.t.Errorf("herald serve did not stop within %s:\n%s", within, s.text())
	}
}

// call sends one request and decodes the JSON answer.
func (s *server) call(ctx context.Context, method, path, token string, body any) (int, map[string]any, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, reader)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return res.StatusCode, nil, fmt.Errorf("%s %s answered %d %q: %w", method, path, res.StatusCode, data, err)
	}
	return res.StatusCode, out, nil
}

// must is call for requests that have to succeed.
func (s *server) must(method, path, token string, body any) map[string]any {
	s.t.Helper()
	status, out, err := s.call(s.t.Context(), method, path, token, body)
	if err != nil || status >= 300 {
		s.t.Fatalf("%s %s: %d %v %v\n%s", method, path, status, out, err, s.text())
	}
	return out
}

// pair makes a device and a key.
func (s *server) pair(name string) (device, key string) {
	s.t.Helper()
	code := s.must("POST", "/v1/pair/start", "", map[string]any{"deviceName": name})["code"]
	device, _ = s.must("POST", "/v1/pair", "", map[string]any{"code": code})["deviceToken"].(string)
	key, _ = s.must("POST", "/v1/device/keys", device, map[string]any{"name": "bot"})["key"].(string)
	return device, key
}

// refused starts the binary where it has to refuse, and returns what it said.
func refused(t *testing.T, dir string, as *syscall.SysProcAttr, env ...string) string {
	t.Helper()
	s := spawn(t, dir, as, env...)
	if s.URL != "" {
		t.Fatalf("herald serve started where it had to refuse:\n%s", s.text())
	}
	err := <-s.done
	s.done <- err
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("herald serve ended with %v, want exit code 1", err)
	}
	return s.text()
}
