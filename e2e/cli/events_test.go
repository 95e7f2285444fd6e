package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/herald-relay/herald/internal/egress"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

// TestEventsTools runs the scripts of testdata/events against a server in each policy, from clients of each dialect. They know
// $PRESET and $DIALECT, and the conditions [sep], [relay] and [ledger] for the one, [sketch] for the other.
func TestEventsTools(t *testing.T) {
	for preset := range presets {
		for _, dialect := range []string{"sketch", "sep"} {
			t.Run(preset+" "+dialect, func(t *testing.T) {
				testscript.Run(t, testscript.Params{
					Dir:                 "testdata/events",
					RequireExplicitExec: true,
					RequireUniqueNames:  true,
					Setup: func(e *testscript.Env) error {
						e.Setenv("PRESET", preset)
						e.Setenv("DIALECT", dialect)
						return prepare(e)
					},
					Condition: func(name string) (bool, error) {
						return name == preset || name == "sketch" && dialect == name, nil
					},
					Cmds: scriptCommands,
				})
			})
		}
	}
}

type eventsKey struct{}

// eventsSide is the MCP server of a script, and the herald commands that run beside it.
type eventsSide struct {
	driver *memdriver.Driver // outlives a server, as a database does
	events *mcpevents.Server
	server *http.Server
	cancel context.CancelFunc
	ran    chan error
	asides map[string]*aside
}

// presets are the library's policies, with waits that a test has patience for.
var presets = map[string]func() mcpevents.Policy{"sep": mcpevents.SEP, "relay": mcpevents.Relay, "ledger": mcpevents.Ledger}

// startEvents is "events PRESET [ADDR]": a server of the library's answers until the script ends, or events-stop. It sets $MCP, and
// $MCPADDR, on which another may go on. It knows "Bearer good" and sends to http://127.0.0.1.
func startEvents(ts *testscript.TestScript, neg bool, args []string) {
	side := ts.Value(eventsKey{}).(*eventsSide)
	if neg || len(args) < 1 || len(args) > 2 || presets[args[0]] == nil || side.server != nil {
		ts.Fatalf("usage: events sep|relay|ledger [ADDR], one at a time")
	}
	policy := presets[args[0]]()
	policy.Schedule = mcpevents.Schedule{Base: 20 * time.Millisecond, Factor: 1.5, Max: 200 * time.Millisecond, Attempts: 6}
	policy.Polling.Next = 50 * time.Millisecond
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened", Description: "A ticket was opened. Read it by its id.",
		InputSchema:     json.RawMessage(`{"type":"object","properties":{"team":{"type":"string"}}}`),
		SubjectArgument: "team"},
		mcpevents.EventType{Name: "ticket.closed", Delivery: []mcpevents.Mode{mcpevents.Webhook}})
	ts.Check(err)
	if side.driver == nil {
		side.driver = memdriver.New()
	}
	side.events, err = mcpevents.New(side.driver, []mcpevents.Family{{Name: "tickets", Policy: policy, Catalog: catalog}},
		&mcpevents.Options{Egress: egress.New(&egress.Options{Dev: true})})
	ts.Check(err)
	listen := "127.0.0.1:0"
	if len(args) == 2 {
		listen = args[1]
	}
	l, err := net.Listen("tcp", listen)
	ts.Check(err)
	var ctx context.Context
	ctx, side.cancel = context.WithCancel(context.Background())
	side.server = &http.Server{Handler: mcpevents.NewHandler(side.events, whoIsIt, nil), BaseContext: func(net.Listener) context.Context { return ctx }}
	side.ran = make(chan error, 2)
	go func() { side.ran <- side.events.Run(ctx) }()
	go func() { side.ran <- side.server.Serve(l) }()
	ts.Defer(side.stop)
	ts.Setenv("MCP", "http://"+l.Addr().String()+"/mcp")
	ts.Setenv("MCPADDR", l.Addr().String())
}

func whoIsIt(r *http.Request) (mcpevents.Caller, error) {
	switch r.Header.Get("Authorization") {
	case "":
		return mcpevents.Caller{}, nil
	case "Bearer good":
		return mcpevents.Caller{Principal: "somebody"}, nil
	}
	return mcpevents.Caller{}, errors.New("a wrong token")
}

func (s *eventsSide) stop() {
	if s.server == nil {
		return
	}
	s.cancel()
	_ = s.server.Close()
	<-s.ran
	<-s.ran
	s.server = nil
}

// stopEvents is "events-stop": the server goes away; what it stored stays for the next.
func stopEvents(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Value(eventsKey{}).(*eventsSide).stop()
}

// emit is "emit NAME ID TEAM JSON": the server emits an event; TEAM may be "-".
func emit(ts *testscript.TestScript, neg bool, args []string) {
	side := ts.Value(eventsKey{}).(*eventsSide)
	if neg || len(args) != 4 {
		ts.Fatalf("usage: emit NAME ID TEAM JSON")
	}
	e := mcpevents.Emission{Name: args[0], ID: args[1], Data: json.RawMessage(args[3])}
	if args[2] != "-" {
		e.Subject = args[2]
	}
	_, err := side.events.Emit(context.Background(), e)
	ts.Check(err)
}

// aside is a herald command that runs beside the script.
type aside struct {
	cmd *exec.Cmd
	end chan error
	out *os.File

	mu   sync.Mutex // guards what follows
	errs bytes.Buffer
	said chan struct{} // closed once the first line of standard error is whole
	done bool
}

func (a *aside) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errs.Write(p)
	if !a.done && bytes.IndexByte(a.errs.Bytes(), '\n') >= 0 {
		a.done = true
		close(a.said)
	}
	return len(p), nil
}

func (a *aside) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.errs.String()
}

var receivingOn = regexp.MustCompile(`(http://127\.0\.0\.1:\d+/)`)

// startAside is "aside NAME herald args...": it runs herald in the background, its standard output in the file NAME.out. Of one
// that receives it waits for the address, and sets $NAME to it.
func startAside(ts *testscript.TestScript, neg bool, args []string) {
	side := ts.Value(eventsKey{}).(*eventsSide)
	if neg || len(args) < 3 || args[1] != "herald" || side.asides[args[0]] != nil {
		ts.Fatalf("usage: aside NAME herald args...")
	}
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	a := &aside{cmd: exec.Command(herald, args[2:]...), end: make(chan error, 1), out: out, said: make(chan struct{})}
	a.cmd.Dir, a.cmd.Env, a.cmd.Stdout, a.cmd.Stderr = ts.Getenv("WORK"), environ(ts), out, a
	ts.Check(a.cmd.Start())
	go func() { a.end <- a.cmd.Wait() }()
	side.asides[args[0]] = a
	ts.Defer(func() {
		if side.asides[args[0]] == a {
			_ = a.cmd.Process.Kill()
			<-a.end
			_ = out.Close()
		}
	})
	if args[3] != "receive" {
		return
	}
	select {
	case <-a.said:
		m := receivingOn.FindStringSubmatch(a.text())
		if m == nil {
			ts.Fatalf("it does not receive: %s", a.text())
		}
		ts.Setenv(args[0], m[1])
	case err := <-a.end:
		a.end <- err
		ts.Fatalf("it ended: %v, %s", err, a.text())
	case <-time.After(30 * time.Second):
		ts.Fatalf("it does not receive")
	}
}

// endAside is "aside-end NAME STATUS [stop]": it waits until a command beside the script ends, having told it to if "stop" is
// given, requires its status, and leaves what it said on standard error in NAME.err.
func endAside(ts *testscript.TestScript, neg bool, args []string) {
	side := ts.Value(eventsKey{}).(*eventsSide)
	if neg || len(args) < 2 || side.asides[args[0]] == nil {
		ts.Fatalf("usage: aside-end NAME STATUS [stop]")
	}
	a := side.asides[args[0]]
	if len(args) == 3 {
		_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	}
	select {
	case <-a.end:
	case <-time.After(60 * time.Second):
		ts.Fatalf("%s goes on and on: %s", args[0], a.text())
	}
	delete(side.asides, args[0])
	ts.Check(a.out.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".err"), []byte(a.text()), 0o600))
	if have := strconv.Itoa(a.cmd.ProcessState.ExitCode()); have != args[1] {
		shown, _ := os.ReadFile(ts.MkAbs(args[0] + ".out"))
		ts.Fatalf("%s ended with status %s, want %s: %s\n%s", args[0], have, args[1], a.text(), shown)
	}
}

// holds is "holds FILE PATTERN": it waits until a file matches, for ten seconds at most.
func holds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: holds FILE PATTERN")
	}
	want := regexp.MustCompile("(?m)" + args[1])
	var text []byte
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text, _ = os.ReadFile(ts.MkAbs(args[0])); want.Match(text) {
			return
		}
	}
	ts.Fatalf("%s never came into %s; it holds:\n%s", args[1], args[0], text)
}
