package npm

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// conformance is conformance.json: which scenarios of the suite are run against which server, what is expected to fail in
// them and why, and why the others are left out.
type conformance struct {
	Relay, Library []scenario
	LeftOut        map[string]string // reasons by the scenario, or a pattern of such
}

type scenario struct {
	Scenario, Version string
	Expected          map[string]string // reasons by the check's id
}

func readConformance(t *testing.T) (c conformance) {
	t.Helper()
	raw, err := os.ReadFile("conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func suite(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, node(t), append([]string{"node_modules/@modelcontextprotocol/conformance/dist/index.js"}, args...)...)
	cmd.Env = environment(t.TempDir())
	return cmd
}

// withCredential returns the address of a proxy on loopback that adds a credential to each request, because the suite has
// none. Host and Origin pass as they came, but for the port.
func withCredential(t *testing.T, target, token string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewUnstartedServer(nil)
	_, port, err := net.SplitHostPort(proxy.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	straight := func(s string) string { return strings.ReplaceAll(s, ":"+port, ":"+u.Port()) }
	proxy.Config.Handler = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: u.Scheme, Host: u.Host})
			r.Out.Host = straight(r.In.Host)
			if origin := r.In.Header.Get("Origin"); origin != "" {
				r.Out.Header.Set("Origin", straight(origin))
			}
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	proxy.Start()
	t.Cleanup(proxy.Close)
	return proxy.URL + u.Path
}

// check is one line of the suite's results.
type check struct {
	ID, Name, Status, ErrorMessage string
}

func (c check) failed() bool { return c.Status == "FAILURE" || c.Status == "WARNING" }

func TestTheConformanceSuiteOnTheLibrary(t *testing.T) {
	t.Parallel()
	k := newTickets(t, policies()["sep"])
	runScenarios(t, withCredential(t, k.url+"/mcp", ticketsToken), readConformance(t).Library)
}

// run runs scenarios, each as a test.
func runScenarios(t *testing.T, target string, scenarios []scenario) {
	for _, s := range scenarios {
		t.Run(s.Scenario+" "+s.Version, func(t *testing.T) {
			out := t.TempDir()
			cmd := suite(t, "server", "--url", target, "--scenario", s.Scenario, "--spec-version", s.Version, "-o", out)
			text, err := cmd.CombinedOutput() // fails over what is expected, too
			results, _ := filepath.Glob(filepath.Join(out, "*", "checks.json"))
			if len(results) != 1 {
				t.Fatalf("no results (%v):\n%s", err, text)
			}
			judge(t, results[0], s.Expected)
		})
	}
}

// judge compares a scenario's results with what is expected to fail: more is a fault of ours, less a list out of date.
func judge(t *testing.T, results string, expected map[string]string) {
	t.Helper()
	raw, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	var checks []check
	if err := json.Unmarshal(raw, &checks); err != nil {
		t.Fatal(err)
	}
	failed, passed := map[string]bool{}, 0
	for _, c := range checks {
		switch {
		case c.failed() && expected[c.ID] == "":
			t.Errorf("%s: %s (%s): %s", c.Status, c.ID, c.Name, c.ErrorMessage)
		case c.failed():
			failed[c.ID] = true
		case c.Status == "SUCCESS":
			passed++
		}
	}
	for id := range expected {
		if !failed[id] {
			t.Errorf("%s is expected to fail and did not: take it off conformance.json", id)
		}
	}
	if passed == 0 {
		t.Errorf("nothing passed: %s", raw)
	}
}

var scenarioLine = regexp.MustCompile(`(?m)^  - (\S+) \[`)

// TestEveryScenarioOfTheSuiteIsAccountedFor fails when a newer suite has scenarios that conformance.json does not know, or
// lacks some that it does.
func TestEveryScenarioOfTheSuiteIsAccountedFor(t *testing.T) {
	t.Parallel()
	out, err := suite(t, "list", "--server").Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range scenarioLine.FindAllStringSubmatch(string(out), -1) {
		names = append(names, m[1])
	}
	c := readConformance(t)
	used := map[string]bool{}
	for _, name := range names {
		run := slices.ContainsFunc(append(c.Relay, c.Library...), func(s scenario) bool { return s.Scenario == name })
		left := leftOut(c, name, used)
		if run == left {
			t.Errorf("%s: run %v, left out %v; decide in conformance.json", name, run, left)
		}
	}
	for pattern := range c.LeftOut {
		if !used[pattern] {
			t.Errorf("%s is left out, but the suite has no such scenario", pattern)
		}
	}
	if len(names) < 20 || !slices.Contains(names, "server-stateless") {
		t.Errorf("the suite lists only %s", strings.Join(names, ", "))
	}
}

func leftOut(c conformance, name string, used map[string]bool) (found bool) {
	for pattern, reason := range c.LeftOut {
		if match, err := path.Match(pattern, name); err == nil && match && reason != "" {
			used[pattern], found = true, true
		}
	}
	return found
}
