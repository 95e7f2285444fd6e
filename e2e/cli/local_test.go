package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// callLocal is "mcp REVISION TOOL ARGUMENTS PATTERN": the official SDK's client starts herald mcp, calls a tool and expects its
// answer to match; the first group becomes $ANSWER. The program must end by itself, cleanly, once its input is closed.
func callLocal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: mcp REVISION TOOL ARGUMENTS PATTERN")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.Command(herald, "mcp")
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), environ(ts)
	var said strings.Builder
	cmd.Stderr = &said
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: args[0]})
	ts.Check(err)
	if got := session.InitializeResult().ProtocolVersion; got != args[0] {
		ts.Fatalf("revision %s, want %s", got, args[0])
	}
	list, err := session.ListTools(ctx, nil)
	ts.Check(err)
	if len(list.Tools) != 9 {
		ts.Fatalf("%d tools", len(list.Tools))
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: args[1], Arguments: json.RawMessage(args[2])})
	ts.Check(err)
	ts.Check(session.Close())
	if !cmd.ProcessState.Success() || said.Len() > 0 {
		ts.Fatalf("herald mcp ended with %v and said %q", cmd.ProcessState, said.String())
	}
	text := result.Content[0].(*mcp.TextContent).Text
	m := regexp.MustCompile(args[3]).FindStringSubmatch(text)
	if m == nil || result.IsError != neg {
		ts.Fatalf("%s answered %s (error: %t)", args[1], text, result.IsError)
	}
	if len(m) > 1 {
		ts.Setenv("ANSWER", m[1])
	}
}

var localLine = regexp.MustCompile(`local API at (\S+), its token in (\S+)`)

// askLocal is "local METHOD PATH PATTERN": it asks the loopback API that listen.err tells of, as a script would, and expects
// a match in the answer; with ! it leaves the token out.
func askLocal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: local METHOD PATH PATTERN")
	}
	var m []string
	for end := time.Now().Add(10 * time.Second); m == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("no local API")
		}
		text, err := os.ReadFile(ts.MkAbs("listen.err"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			ts.Check(err)
		}
		m = localLine.FindStringSubmatch(string(text))
	}
	token, err := os.ReadFile(m[2])
	ts.Check(err)
	req, err := http.NewRequest(args[0], m[1]+args[1], nil)
	ts.Check(err)
	if !neg {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	if answer := res.Status + " " + string(body); !regexp.MustCompile(args[2]).MatchString(answer) {
		ts.Fatalf("%s %s answered %s", args[0], args[1], answer)
	}
}

// TestMCPEndsWithASignal holds the input open, as a client that forgot it would.
func TestMCPEndsWithASignal(t *testing.T) {
	cmd := exec.Command(herald, "mcp", "--profile", filepath.Join(t.TempDir(), "none.json"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
		t.Errorf("ping: %q, %v", line, err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil || !killed.Stop() {
		t.Errorf("herald mcp ended with %v", err)
	}
}
