package e2e

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/testkit"
)

// postgresScript runs scripts/postgres.sh and returns what it printed.
func postgresScript(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("../scripts/postgres.sh", args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("scripts/postgres.sh %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestADatabaseThatStopsForAWhileIsAnsweredClearlyAndSurvived stops PostgreSQL under load.
func TestADatabaseThatStopsForAWhileIsAnsweredClearlyAndSurvived(t *testing.T) {
	t.Parallel()
	pgtest.Server(t) // skips where PostgreSQL is not to be tested
	dir := filepath.Join(shared(t), "postgres")
	database := postgresScript(t, "start", dir)
	t.Cleanup(func() { postgresScript(t, "stop", dir) })
	o := newOutage(t, database)
	postgresScript(t, "stop", dir)
	o.during(5 * time.Second)
	postgresScript(t, "start", dir)
	o.after()
}

// TestADatabaseThatHangsIsAnsweredClearlyAndSurvived stops the traffic to PostgreSQL without a word, as a lost network does.
func TestADatabaseThatHangsIsAnsweredClearlyAndSurvived(t *testing.T) {
	t.Parallel()
	database, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	way := newWay(t, database.Host)
	database.Host = way.Addr()
	o := newOutage(t, database.String())
	way.freeze()
	o.during(12 * time.Second)
	way.thaw()
	o.after()
}

// outage is two processes, an agent at the first and a device at the second, while their database is away.
type outage struct {
	*testing.T
	a, b   *server
	agent  *testkit.Agent
	device *testkit.Device
	stream *testkit.Stream
	calm   numbers // of a, before
}

func newOutage(t *testing.T, database string) *outage {
	dir, env := t.TempDir(), together(database, plenty...)
	o := &outage{T: t, a: serveWatched(t, dir, env...), b: serve(t, dir, env...)}
	paired := o.a.relay().Pair("laptop")
	o.agent, o.device = paired.Agent("bot"), deviceAt(o.b, paired)
	o.stream = o.device.Stream()
	o.roundTrip("before")
	o.calm = o.a.numbers()
	return o
}

// during asks the first process for everything, from many clients, for a while. Each is told within a bounded time that the
// database is away; what needs no database goes on.
func (o *outage) during(while time.Duration) {
	o.Helper()
	const clients, patience = 40, 30 * time.Second
	var refused atomic.Int64
	end := time.Now().Add(while)
	var all sync.WaitGroup
	for i := range clients {
		call := []struct {
			method, path, token string
			body                any
		}{
			{"POST", "/v1/notify", o.agent.Token, map[string]any{"title": "t"}},
			{"GET", "/v1/receipts/before", o.agent.Token, nil},
			{"GET", "/v1/replies/before?wait=5", o.agent.Token, nil},
			{"GET", "/v1/status", o.agent.Token, nil},
			{"POST", "/v1/device/reply", o.device.Token, map[string]any{"id": "r_000000000000000000000000", "text": "x"}},
			{"GET", "/v1/device/info", o.device.Token, nil},
			{"POST", "/v1/pair/start", "", map[string]any{}},
		}[i%7]
		all.Go(func() {
			for time.Now().Before(end) {
				begin := time.Now()
				ctx, cancel := context.WithTimeout(o.Context(), patience)
				got, err := o.agent.Try(ctx, call.method, call.path, call.token, call.body)
				cancel()
				switch {
				case err != nil:
					o.Errorf("%s %s: no answer after %s: %v", call.method, call.path, time.Since(begin), err)
					return
				case got.Status == http.StatusServiceUnavailable && got.Code() == "unavailable" && got.Text("message") != "":
					refused.Add(1)
				default:
					o.Errorf("%s %s answered %d %s after %s", call.method, call.path, got.Status, got.Raw, time.Since(begin))
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	for time.Now().Before(end) {
		begin := time.Now()
		if got := o.agent.Do("GET", "/health", "", nil); got.Status != http.StatusOK || time.Since(begin) > 2*time.Second {
			o.Errorf("health answered %d after %s", got.Status, time.Since(begin))
		}
		if n := o.a.numbers(); n.goroutines > o.calm.goroutines+8*clients || n.files > o.calm.files+4*clients {
			o.Errorf("the process holds %+v, before the outage %+v", n, o.calm)
		}
		time.Sleep(500 * time.Millisecond)
	}
	all.Wait()
	if refused.Load() == 0 {
		o.Error("nobody was refused: the database was not away")
	}
	o.Logf("%d requests were refused in %s", refused.Load(), while)
}

// after waits until the relay has recovered, and holds that it kept what it had.
func (o *outage) after() {
	o.Helper()
	begin := time.Now()
	for {
		got := o.agent.Call("GET", "/v1/status", nil)
		other := agentAt(o.b, o.agent).Call("GET", "/v1/status", nil)
		if got.Status == http.StatusOK && other.Status == http.StatusOK {
			break
		}
		if time.Since(begin) > 30*time.Second {
			o.Fatalf("not recovered 30 seconds after the database came back: %d %s", got.Status, got.Raw)
		}
		time.Sleep(100 * time.Millisecond)
	}
	o.Logf("recovered after %s", time.Since(begin))
	o.roundTrip("after")
	if got := o.agent.Call("GET", "/v1/receipts/before", nil); got.Text("reply") != "answer to before" {
		o.Errorf("what was there before: %d %s", got.Status, got.Raw)
	}
	o.agent.HTTP.CloseIdleConnections()
	o.a.settles(o.calm, 10*time.Second)
	o.a.stop(15 * time.Second)
	o.b.stop(15 * time.Second)
}

// roundTrip goes round the main loop.
func (o *outage) roundTrip(id string) {
	o.Helper()
	o.agent.Send(map[string]any{"title": "t", "notificationId": id, "expectReply": true})
	var frame testkit.Frame
	for frame.Text("notificationId") != id { // notifications of unknown outcome may come first
		frame = o.stream.Next()
	}
	waiting := parked(o.agent, id)
	begin := time.Now()
	o.stream.Send(testkit.Frame{"type": "receipt", "kind": "replied", "id": frame["id"], "text": "answer to " + id})
	if got := <-waiting; got.Text("reply") != "answer to "+id {
		o.Errorf("%s: %d %s", id, got.Status, got.Raw)
	}
	if took := time.Since(begin); took > 10*time.Second {
		o.Errorf("%s: the answer took %s", id, took)
	}
}

// way is a TCP relay to a server, whose traffic can be stopped without closing anything.
type way struct {
	net.Listener
	server string

	mu    sync.Mutex // guards flows
	flows chan struct{}
	conns sync.WaitGroup
}

func newWay(t *testing.T, server string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{Listener: l, server: server, flows: make(chan struct{})}
	close(w.flows)
	w.conns.Go(w.serve)
	t.Cleanup(func() {
		l.Close()
		w.thaw()
		w.conns.Wait()
	})
	return w
}

// Addr is where the way begins.
func (w *way) Addr() string { return w.Listener.Addr().String() }

func (w *way) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flows = make(chan struct{})
}

func (w *way) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.flows:
	default:
		close(w.flows)
	}
}

func (w *way) open() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flows
}

func (w *way) serve() {
	for {
		client, err := w.Accept()
		if err != nil {
			return
		}
		w.conns.Go(func() {
			defer client.Close()
			<-w.open()
			server, err := net.Dial("tcp", w.server)
			if err != nil {
				return
			}
			defer server.Close()
			w.conns.Go(func() { w.copy(client, server) })
			w.copy(server, client)
		})
	}
}

func (w *way) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		<-w.open()
		if _, werr := to.Write(buf[:n]); werr != nil || err != nil {
			return
		}
	}
}
