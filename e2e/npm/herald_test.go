package npm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// binaryVariable names the environment variable that names the binary under test; without it one is built for the run.
const binaryVariable = "HERALD_E2E_BINARY"

// scratch is this run's directory; see TestMain.
var scratch string

var heraldBinary = sync.OnceValues(func() (string, error) {
	if named := os.Getenv(binaryVariable); named != "" {
		return named, nil
	}
	path := filepath.Join(scratch, "herald")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/herald").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build herald: %w\n%s", err, out)
	}
	return path, nil
})

// relay is a running `herald serve` on loopback, with one paired device and one agent's key.
type relay struct {
	t           *testing.T
	url         string
	device, key string
	log         bytes.Buffer // of exec's own goroutine until the process has ended
}

var readyAddress = regexp.MustCompile(`http://[0-9.:]+`)

// newRelay starts one for development, so that events may go to receivers on 127.0.0.1, until the test ends.
func newRelay(t *testing.T) *relay {
	t.Helper()
	node(t) // a test that will be skipped needs no relay
	binary, err := heraldBinary()
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t}
	home := t.TempDir()
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(home, "data"), "--dev")
	cmd.Env, cmd.Stderr = environment(home), &r.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.stop(cmd) })
	lines := bufio.NewScanner(out)
	for r.url == "" && lines.Scan() {
		if strings.Contains(lines.Text(), "ready") {
			r.url = readyAddress.FindString(lines.Text())
		}
	}
	if r.url == "" {
		t.Fatalf("herald serve ended before it was ready")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	r.pair()
	return r
}

func (r *relay) stop(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	killed := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !killed.Stop() || err != nil {
		r.t.Errorf("herald serve stopped with %v", err)
	}
	if r.t.Failed() {
		r.t.Logf("herald serve wrote:\n%s", &r.log)
	}
}

// mcp is the address of the relay's MCP endpoint.
func (r *relay) mcp() string { return r.url + "/mcp" }

// call calls a route of the relay and returns the answer. Anything but a success is an error.
func (r *relay) call(ctx context.Context, method, path, token string, body any) (answer map[string]any, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err = json.NewDecoder(res.Body).Decode(&answer); err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %d %v", method, path, res.StatusCode, answer)
	}
	return answer, err
}

// must is call for requests that have to succeed.
func (r *relay) must(method, path, token string, body any) map[string]any {
	r.t.Helper()
	answer, err := r.call(r.t.Context(), method, path, token, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

func (r *relay) pair() {
	r.t.Helper()
	code := r.must("POST", "/v1/pair/start", "", map[string]any{"deviceName": "Mac"})["code"]
	r.device, _ = r.must("POST", "/v1/pair", "", map[string]any{"code": code})["deviceToken"].(string)
	r.key, _ = r.must("POST", "/v1/device/keys", r.device, map[string]any{"name": "agent"})["key"].(string)
}
