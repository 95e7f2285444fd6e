package browser

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// relay is a running `herald serve` on loopback, with one paired device.
type relay struct {
	t      *testing.T
	home   string
	url    string
	device string // its token
	cmd    *exec.Cmd
	log    bytes.Buffer // of exec's own goroutine until the process has ended
}

var readyAddress = regexp.MustCompile(`http://[0-9.:]+`)

// newRelay starts one until the test ends, and pairs a device of that name.
func newRelay(t *testing.T, device string) *relay {
	t.Helper()
	r := &relay{t: t, home: t.TempDir()}
	r.start()
	t.Cleanup(r.stop)
	code := r.must("POST", "/v1/pair/start", "", map[string]any{"deviceName": device})["code"]
	r.device, _ = r.must("POST", "/v1/pair", "", map[string]any{"code": code})["deviceToken"].(string)
	return r
}

func (r *relay) start() {
	r.t.Helper()
	r.cmd = exec.Command(herald, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(r.home, "data"))
	r.cmd.Env, r.cmd.Stderr = r.environment(), &r.log
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.url = ""
	for lines := bufio.NewScanner(out); r.url == "" && lines.Scan(); {
		if strings.Contains(lines.Text(), "ready") {
			r.url = readyAddress.FindString(lines.Text())
		}
	}
	if r.url == "" {
		r.t.Fatal("herald serve ended before it was ready")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
}

func (r *relay) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "TMPDIR=" + os.TempDir(), "HERALD_DATA=" + filepath.Join(r.home, "data"),
		"NO_COLOR=1", "REGISTER_PER_HOUR=1000"}
}

func (r *relay) stop() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	killed := time.AfterFunc(patience, func() { _ = r.cmd.Process.Kill() })
	err := r.cmd.Wait()
	if r.cmd = nil; !killed.Stop() || err != nil {
		r.t.Errorf("herald serve stopped with %v", err)
	}
	if r.t.Failed() {
		r.t.Logf("herald serve wrote:\n%s", &r.log)
	}
}

// person adds a person, and returns the token of their device.
func (r *relay) person(name string) (device string) {
	r.t.Helper()
	cmd := exec.Command(herald, "person", "add", name, "--json")
	cmd.Env = r.environment()
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("herald person add: %v", err)
	}
	var made struct{ Code string }
	if err := json.Unmarshal(out, &made); err != nil || made.Code == "" {
		r.t.Fatalf("herald person add: %s %v", out, err)
	}
	device, _ = r.must("POST", "/v1/pair", "", map[string]any{"code": made.Code, "deviceName": name})["deviceToken"].(string)
	return device
}

// call sends one request and decodes the answer; anything but a success is an error.
func (r *relay) call(method, path, token, kind, body string) (answer map[string]any, err error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err = json.NewDecoder(res.Body).Decode(&answer); err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %d %v", method, path, res.StatusCode, answer)
	}
	return answer, err
}

func (r *relay) must(method, path, token string, body any) map[string]any {
	r.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := r.call(method, path, token, "application/json", string(data))
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// connect has the device listen until the test ends.
func (r *relay) connect() {
	r.t.Helper()
	conn, _, err := websocket.Dial(r.t.Context(), r.url+"/v1/device/stream",
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + r.device}}})
	if err != nil {
		r.t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			if _, _, err := conn.Read(context.Background()); err != nil {
				return
			}
		}
	}()
	r.t.Cleanup(func() {
		_ = conn.CloseNow()
		<-gone
	})
}

// request is what a device shows of a request for approval.
type request struct{ id, code, status string }

// newest returns the request that came last to a device.
func (r *relay) newest(device string) request {
	r.t.Helper()
	list, _ := r.must("GET", "/v1/device/consents", device, nil)["consents"].([]any)
	if len(list) == 0 {
		r.t.Fatal("no request reached the device")
	}
	c := list[0].(map[string]any)
	return request{c["id"].(string), c["code"].(string), c["status"].(string)}
}

// decide answers the newest request as the person at the device.
func (r *relay) decide(decision string) {
	r.t.Helper()
	r.must("POST", "/v1/device/consent", r.device, map[string]any{"id": r.newest(r.device).id, "decision": decision})
}

// app is software that asks for approval, with a web server that browsers are sent back to.
type app struct {
	*relay
	id   string
	back *httptest.Server

	mu       sync.Mutex // guards the next
	returned []*http.Request
}

const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // RFC 7636, appendix B

// app registers one of that name.
func (r *relay) app(name string) *app {
	r.t.Helper()
	a := &app{relay: r}
	a.back = httptest.NewServer(http.HandlerFunc(a.callback))
	r.t.Cleanup(a.back.Close)
	a.id, _ = r.must("POST", "/register", "", map[string]any{"client_name": name, "redirect_uris": []string{a.back.URL + "/callback"},
		"grant_types": []string{"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"}})["client_id"].(string)
	return a
}

func (a *app) callback(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/callback" {
		http.NotFound(w, r)
		return
	}
	a.mu.Lock()
	a.returned = append(a.returned, r)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>the app</title><h1>Back in the app</h1></html>`)
}

// came returns the last request of a browser that was sent back.
func (a *app) came() (query url.Values, referrer string, times int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.returned) == 0 {
		return nil, "", 0
	}
	last := a.returned[len(a.returned)-1]
	return last.URL.Query(), last.Referer(), len(a.returned)
}

// link is where the app sends a browser.
func (a *app) link(pairs ...string) string {
	sum := sha256.Sum256([]byte(verifier))
	q := url.Values{"response_type": {"code"}, "client_id": {a.id}, "redirect_uri": {a.back.URL + "/callback"}, "state": {"a state & more"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return a.url + "/authorize?" + q.Encode()
}

// post posts a form and returns the answer.
func (a *app) post(path string, form url.Values) (map[string]any, error) {
	return a.call("POST", path, "", "application/x-www-form-urlencoded", form.Encode())
}

// begin asks by the device flow.
func (a *app) begin() (userCode, deviceCode string) {
	a.t.Helper()
	got, err := a.post("/device_authorization", url.Values{"client_id": {a.id}})
	if err != nil {
		a.t.Fatal(err)
	}
	userCode, _ = got["user_code"].(string)
	deviceCode, _ = got["device_code"].(string)
	return userCode, deviceCode
}

// approved requires that the browser came back with a code, and that the code is worth a token that works.
func (a *app) approved() {
	a.t.Helper()
	q, referrer, _ := a.came()
	if q.Get("code") == "" || q.Get("state") != "a state & more" || q.Get("iss") != a.url || referrer != "" {
		a.t.Fatalf("the browser came back with %v from %q", q, referrer)
	}
	got, err := a.post("/token", url.Values{"grant_type": {"authorization_code"}, "client_id": {a.id}, "code": {q.Get("code")},
		"redirect_uri": {a.back.URL + "/callback"}, "code_verifier": {verifier}})
	if err != nil {
		a.t.Fatal(err)
	}
	access, _ := got["access_token"].(string)
	if _, err := a.call("GET", "/v1/status", access, "", ""); err != nil {
		a.t.Errorf("the token does not work: %v", err)
	}
}

// refused requires that the browser came back with a denial.
func (a *app) refused() {
	a.t.Helper()
	if q, _, _ := a.came(); q.Get("error") != "access_denied" || q.Get("code") != "" || q.Get("state") != "a state & more" {
		a.t.Errorf("the browser came back with %v", q)
	}
}
