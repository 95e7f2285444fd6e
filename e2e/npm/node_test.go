// Package npm holds other people's implementations against ours: clients and tools from npm, at the versions of
// package-lock.json, talk to servers that the tests start on loopback. scripts/npm.sh installs them.
package npm

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// leastNode is the oldest major version of Node that the packages run on.
const leastNode = 22

// node returns the Node to run scripts with. Without one, or without the very packages of the lock file, it skips the
// test, or fails it where CI is set.
func node(t *testing.T) string {
	t.Helper()
	path, err := findNode()
	if err == nil {
		return path
	}
	how := err.Error() + ": no clients from npm to test with; run: scripts/npm.sh"
	if os.Getenv("CI") != "" {
		t.Fatal(how)
	}
	t.Skip("SKIPPED: " + how)
	return ""
}

var findNode = sync.OnceValues(func() (string, error) {
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(lock)
	installed, err := os.ReadFile("node_modules/.herald-lock")
	if err != nil {
		return "", fmt.Errorf("the packages of e2e/npm are not installed")
	}
	if strings.TrimSpace(string(installed)) != hex.EncodeToString(sum[:]) {
		return "", fmt.Errorf("the packages of e2e/npm are not those of its lock file")
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	own, err := filepath.Abs(filepath.Join("node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node"))
	if err != nil {
		return "", err
	}
	if err := tryNode(own); err == nil {
		return own, nil
	}
	found, err := exec.LookPath("node")
	if err != nil {
		return "", fmt.Errorf("there is no node")
	}
	return found, tryNode(found)
})

func tryNode(path string) error {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return err
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < leastNode {
		return fmt.Errorf("node is version %s, older than %d", bytes.TrimSpace(out), leastNode)
	}
	return nil
}

// environment is what a script sees: nothing of this process but where to find programs, and a home of its own.
func environment(home string, more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir(), "NO_COLOR=1"}, more...)
}

// script is one of the scripts of this folder, running.
type script struct {
	t      *testing.T
	name   string
	in     io.WriteCloser
	out    *bufio.Reader
	errors bytes.Buffer // of exec's own goroutine until the process has ended

	one sync.Mutex // one command at a time
}

// start runs a script until the test ends.
func start(t *testing.T, name string) *script {
	t.Helper()
	program := node(t)
	ctx, cancel := context.WithTimeout(context.Background(), 80*time.Second)
	cmd := exec.CommandContext(ctx, program, filepath.Join("scripts", name+".mjs"))
	cmd.Env = environment(t.TempDir())
	s := &script{t: t, name: name}
	cmd.Stderr = &s.errors
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		_ = in.Close() // the script ends over it
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		if s.errors.Len() > 0 {
			t.Logf("%s wrote on standard error:\n%s", name, &s.errors)
		}
	})
	return s
}

// scriptError is what a script's command threw.
type scriptError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Code    any    `json:"code"`
	Status  any    `json:"status"`
}

func (e *scriptError) Error() string { return fmt.Sprintf("%s: %s (%v)", e.Name, e.Message, e.Code) }

// try runs a command and decodes its result into out, unless that is nil. The error is a *scriptError; anything else that
// goes wrong ends the test.
func (s *script) try(op string, params, out any) error {
	s.t.Helper()
	s.one.Lock()
	defer s.one.Unlock()
	line, err := json.Marshal(map[string]any{"op": op, "params": params})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		s.t.Fatalf("%s: %s: write: %v", s.name, op, err)
	}
	raw, err := s.out.ReadBytes('\n')
	if err != nil {
		s.t.Fatalf("%s: %s: no answer: %v", s.name, op, err)
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *scriptError    `json:"error"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		s.t.Fatalf("%s: %s: answered %.200q: %v", s.name, op, raw, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Result, out); err != nil {
		s.t.Fatalf("%s: %s: result %.200s: %v", s.name, op, answer.Result, err)
	}
	return nil
}

// must is try for commands that have to succeed.
func (s *script) must(op string, params, out any) {
	s.t.Helper()
	if err := s.try(op, params, out); err != nil {
		s.t.Fatalf("%s: %s: %v", s.name, op, err)
	}
}
