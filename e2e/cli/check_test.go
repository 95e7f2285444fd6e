package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/egress"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

// checked is a server to check, and a pipe through which a trigger reaches it.
type checked struct {
	url, pipe string
}

// startChecked serves events with waits that a test has patience for. A line in the pipe is an event type to emit, or "end".
func startChecked(t *testing.T, change func(*mcpevents.Policy)) checked {
	t.Helper()
	policy := mcpevents.SEP()
	policy.Schedule = mcpevents.Schedule{Base: 20 * time.Millisecond, Factor: 1.5, Max: 200 * time.Millisecond, Attempts: 6}
	policy.Heartbeat, policy.Timeout, policy.Polling.Next = 300*time.Millisecond, time.Second, 50*time.Millisecond
	if change != nil {
		change(&policy)
	}
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened", Description: "A ticket was opened.", SubjectArgument: "team",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"team":{"type":"string"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "tickets", Policy: policy, Catalog: catalog}},
		&mcpevents.Options{Egress: egress.New(&egress.Options{Dev: true}), ListChanged: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() { done <- srv.Run(ctx) }()
	go func() { done <- obey(ctx, in, srv, catalog) }()
	front := httptest.NewServer(mcpevents.NewHandler(srv, whoIsIt, nil))
	t.Cleanup(func() {
		cancel()
		front.CloseClientConnections()
		front.Close()
		_, _ = in.WriteString("quit\n") // to ourselves
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		_ = in.Close()
	})
	return checked{front.URL + "/mcp", pipe}
}

func obey(ctx context.Context, in *os.File, srv *mcpevents.Server, catalog *mcpevents.Catalog) error {
	var n atomic.Int64
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		switch name := lines.Text(); name {
		case "quit":
			return nil
		case "end":
			change, err := catalog.Replace()
			if err == nil {
				err = srv.Announce(ctx, "tickets", "", change)
			}
			if err != nil {
				return err
			}
		default:
			e := mcpevents.Emission{Name: name, ID: fmt.Sprint("t_", n.Add(1)), Subject: "a", Data: json.RawMessage(`{}`)}
			if _, err := srv.Emit(ctx, e); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// runCheck runs herald events check and returns its exit status and what it printed.
func runCheck(t *testing.T, args ...string) (status int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, herald, append([]string{"events", "check"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(), "HERALD_TOKEN=good", "HERALD_PROFILE=", "HERALD_RELAY=")
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

type junit struct {
	Suites []struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Cases    []struct {
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func readJUnit(t *testing.T, name string) (report junit) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = xml.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestCheckPassesARightServer checks a right server with the built binary, over sockets, and reads what it reports for programs.
func TestCheckPassesARightServer(t *testing.T) {
	t.Parallel()
	server := startChecked(t, nil)
	dir := t.TempDir()
	status, out := runCheck(t, server.url, "--dialect", "sep", "--name", "ticket.opened", "--arg", "team=a",
		"--trigger", `echo "$HERALD_EVENT_NAME" >`+server.pipe, "--end", "echo end >"+server.pipe,
		"--junit", filepath.Join(dir, "report.xml"), "--json", filepath.Join(dir, "report.json"))
	if status != 0 {
		t.Fatalf("status %d, want 0:\n%s", status, out)
	}
	report := readJUnit(t, filepath.Join(dir, "report.xml"))
	if len(report.Suites) != 1 || report.Suites[0].Failures != 0 || len(report.Suites[0].Cases) != report.Suites[0].Tests {
		t.Fatalf("got %+v, want one suite without failures", report)
	}
	if s := report.Suites[0]; s.Tests-s.Skipped < 135 {
		t.Errorf("only %d of %d rules were judged:\n%s", s.Tests-s.Skipped, s.Tests, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	var shown struct{ OK bool }
	if err != nil || json.Unmarshal(text, &shown) != nil || !shown.OK {
		t.Errorf("the JSON report does not say ok: %v\n%s", err, text)
	}
}

// TestCheckTellsWhatIsWrong wants the exit statuses of a server that breaks a rule, of none, and of wrong usage.
func TestCheckTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := startChecked(t, func(p *mcpevents.Policy) { p.Unsubscribed = mcpevents.AlwaysOK })
	file := filepath.Join(t.TempDir(), "report.xml")
	status, out := runCheck(t, server.url, "--dialect", "sep", "--name", "ticket.opened", "--rules", "301-305,604", "--junit", file)
	if status != 1 || !strings.Contains(out, "FAIL 604") {
		t.Errorf("status %d, want 1 because of rule 604:\n%s", status, out)
	}
	report := readJUnit(t, file)
	for _, c := range report.Suites[0].Cases {
		if (c.Failure != nil) != strings.HasPrefix(c.Name, "604 ") {
			t.Errorf("%s: failed is %v", c.Name, c.Failure != nil)
		}
	}
	nothing := httptest.NewServer(http.NotFoundHandler())
	nothing.Close()
	for _, args := range [][]string{{nothing.URL}, {server.url, "--rules", "9999"}, {server.url, "--rules", "x"}, {"ftp://x"}} {
		if status, out := runCheck(t, args...); status != 2 {
			t.Errorf("%v: status %d, want 2:\n%s", args, status, out)
		}
	}
}
