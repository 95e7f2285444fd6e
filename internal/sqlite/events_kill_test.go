package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/webhook"
)

// killPoints are the moments at which a process is killed on purpose: before and after each write of a transaction, before
// and after its commit, and before and after a request.
var killPoints = []string{
	"before append", "after append", "before queue", "after queue", "before commit of emit", "after commit of emit",
	"before claim", "after claim", "before settle", "after settle", "before health", "after health",
	"before commit of turn", "after commit of turn", "before send", "after send",
}

const (
	killSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	killLease  = 150 * time.Millisecond // instead of the half minute that a test cannot wait for
	killEmits  = 12
)

// killPlan tells a process where deliveries go, what its events are called, and when it dies.
type killPlan struct {
	Address string // of the receiver
	Prefix  string // of its events' ids
	Point   string // "" to be killed from outside
	Nth     int    // time that the point is reached
}

// killServer makes a server with a strict and a free family.
func killServer(db driver.Driver, out mcpevents.Egress) (*mcpevents.Server, error) {
	var families []mcpevents.Family
	for name, p := range map[string]mcpevents.Policy{"strict": mcpevents.Relay(), "free": mcpevents.SEP()} {
		catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: name})
		if err != nil {
			return nil, err
		}
		p.Verification.Allow = func(string, *url.URL) bool { return true }
		p.Schedule = mcpevents.Schedule{Base: 2 * time.Millisecond, Factor: 1, Max: 2 * time.Millisecond, Attempts: 1_000_000}
		p.Suspension.Rate, p.Deadline, p.EventIDs = -1, -1, mcpevents.SharedIDs
		families = append(families, mcpevents.Family{Name: name, Policy: p, Catalog: catalog})
	}
	return mcpevents.New(db, families, &mcpevents.Options{Egress: out, Engine: mcpevents.Engine{Workers: 16, PollEvery: 20 * time.Millisecond}})
}

// eventsUntilKilled emits and delivers, says what was emitted, and waits to be killed.
func eventsUntilKilled(s *Store) {
	var plan killPlan
	if err := json.Unmarshal([]byte(os.Getenv(childEnv+"_PLAN")), &plan); err != nil {
		fmt.Println("failed", err)
		return
	}
	k := &killer{plan: plan}
	srv, err := killServer(killDriver{s.Events(), k}, killEgress{newKillEgress(plan.Address), k})
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	var run sync.WaitGroup
	run.Go(func() { _ = srv.Run(context.Background()) })
	fmt.Println("ready")
	for i := range killEmits {
		for _, name := range []string{"strict", "free"} {
			id := fmt.Sprintf("%s-%s-%d", plan.Prefix, name, i)
			if _, err := srv.Emit(context.Background(), mcpevents.Emission{ID: id, Name: name, Data: map[string]string{"id": id}}); err != nil {
				fmt.Println("failed", err)
				return
			}
			fmt.Println("emitted", id)
		}
	}
	run.Wait()
}

// killer kills its own process at the planned point.
type killer struct {
	plan killPlan
	mu   sync.Mutex // guards seen
	seen int
}

func (k *killer) at(point string) {
	if point != k.plan.Point {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen++; k.seen == k.plan.Nth {
		fmt.Println("at", point)
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {} // nothing more happens here
	}
}

// killDriver is a store that may kill its process at each of its writes.
type killDriver struct {
	driver.Driver
	k *killer
}

func (d killDriver) Update(ctx context.Context, fn func(driver.Tx) error) error {
	kind := ""
	err := d.Driver.Update(ctx, func(tx driver.Tx) error {
		err := fn(killTx{tx, d.k, &kind})
		d.k.at("before commit of " + kind)
		return err
	})
	d.k.at("after commit of " + kind)
	return err
}

// killTx notes in kind what its transaction is for.
type killTx struct {
	driver.Tx
	k    *killer
	kind *string
}

func (t killTx) Events() driver.Events { return killEvents{t.Tx.Events(), t} }
func (t killTx) Subscriptions() driver.Subscriptions {
	return killSubscriptions{t.Tx.Subscriptions(), t}
}
func (t killTx) Deliveries() driver.Deliveries { return killDeliveries{t.Tx.Deliveries(), t} }

func (t killTx) around(what, kind string, do func()) {
	*t.kind = kind
	t.k.at("before " + what)
	do()
	t.k.at("after " + what)
}

type killEvents struct {
	driver.Events
	t killTx
}

func (e killEvents) Append(event *driver.Event) (err error) {
	e.t.around("append", "emit", func() { err = e.Events.Append(event) })
	return err
}

type killSubscriptions struct {
	driver.Subscriptions
	t killTx
}

func (s killSubscriptions) SetHealth(id string, h driver.Health) (err error) {
	s.t.around("health", "turn", func() { err = s.Subscriptions.SetHealth(id, h) })
	return err
}

type killDeliveries struct {
	driver.Deliveries
	t killTx
}

func (d killDeliveries) Queue(ds []driver.Delivery) (err error) {
	d.t.around("queue", "emit", func() { err = d.Deliveries.Queue(ds) })
	return err
}

func (d killDeliveries) Claim(p driver.ClaimParams) (ls []driver.Lease, err error) {
	p.Until = p.Now.Add(killLease)
	d.t.around("claim", "turn", func() { ls, err = d.Deliveries.Claim(p) })
	return ls, err
}

func (d killDeliveries) Settle(s []driver.Settlement) (held []bool, err error) {
	d.t.around("settle", "turn", func() { held, err = d.Deliveries.Settle(s) })
	return held, err
}

// killEgress is a way out to one receiver that may kill its process before and after each request.
type killEgress struct {
	*http.Transport
	k *killer
}

// newKillEgress goes to one address on loopback, whatever the host.
func newKillEgress(address string) *http.Transport {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // a certificate of the test's own
	t := &http.Transport{MaxIdleConnsPerHost: 16}
	t.DialTLSContext = func(ctx context.Context, network, _ string) (c net.Conn, err error) {
		return dialer.DialContext(ctx, network, address)
	}
	return t
}

func (killEgress) CheckURL(raw string) (*url.URL, error) { return url.Parse(raw) }

func (e killEgress) RoundTrip(r *http.Request) (*http.Response, error) {
	e.k.at("before send")
	resp, err := e.Transport.RoundTrip(r)
	e.k.at("after send")
	return resp, err
}

// sink is a receiver that refuses every fifth request and checks all.
type sink struct {
	t       *testing.T
	secret  webhook.Secret
	mu      sync.Mutex        // guards what follows
	bodies  map[string][]byte // by event
	order   []string          // events by their first arrival
	taken   map[string]bool   // events answered with success
	untaken map[string]string // by event, an older event of the same name that had not been taken when it came first
	posts   int
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender was killed
	}
	var e struct{ EventID, Name string }
	if err := json.Unmarshal(body, &e); err != nil {
		s.t.Errorf("body %s: %v", body, err)
	}
	if _, err := webhook.Verify(r.Header, body, time.Now(), s.secret); err != nil || r.Header.Get(webhook.HeaderID) != e.EventID {
		s.t.Errorf("event %s came with id %s: %v", e.EventID, r.Header.Get(webhook.HeaderID), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	switch before := s.bodies[e.EventID]; {
	case before == nil:
		s.bodies[e.EventID] = body
		s.noteFirst(e.EventID, e.Name)
	case !bytes.Equal(before, body):
		s.t.Errorf("event %s came again with another body", e.EventID)
	}
	if s.posts%5 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.taken[e.EventID] = true
	w.WriteHeader(http.StatusNoContent)
}

// noteFirst remembers that an event came while an earlier one of its name had been refused only.
func (s *sink) noteFirst(id, name string) {
	for _, older := range s.order {
		if strings.Contains(older, "-"+name+"-") && !s.taken[older] {
			s.untaken[id] = older
		}
	}
	s.order = append(s.order, id)
}

// TestKilledProcessesLoseAndReorderNothing kills processes that emit and deliver, half of them at a named point, half from
// outside at a random moment; each works on with what the last one left.
func TestKilledProcessesLoseAndReorderNothing(t *testing.T) {
	const groups = 4
	rounds := 200 / groups
	if testing.Short() {
		rounds = 20 / groups
	}
	var mu sync.Mutex
	reached := map[string]int{}
	t.Run("groups", func(t *testing.T) {
		for group := range groups {
			t.Run(fmt.Sprint("seed ", group), func(t *testing.T) {
				t.Parallel()
				k := newKilling(t, uint64(group))
				for round := range rounds {
					if point := k.round(group*rounds+round, round); point != "" {
						mu.Lock()
						reached[point]++
						mu.Unlock()
					}
				}
				k.finish()
			})
		}
	})
	for _, point := range killPoints {
		if reached[point] == 0 && !testing.Short() && !t.Failed() {
			t.Errorf("no process was killed %s", point)
		}
	}
}

// killing is a store and a receiver that outlive their processes.
type killing struct {
	*testing.T
	path    string
	rand    *rand.Rand
	sink    *sink
	address string
	emitted []string
}

func newKilling(t *testing.T, seed uint64) *killing {
	secret, err := webhook.ParseSecret(killSecret)
	if err != nil {
		t.Fatal(err)
	}
	k := &killing{T: t, path: newPath(t), rand: rand.New(rand.NewPCG(seed, 7)), sink: &sink{t: t, secret: secret, bodies: map[string][]byte{},
		taken: map[string]bool{}, untaken: map[string]string{}}}
	receiver := httptest.NewUnstartedServer(k.sink)
	receiver.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that a kill broke off
	receiver.StartTLS()
	t.Cleanup(receiver.Close)
	k.address = receiver.Listener.Addr().String()
	k.withStore(func(s *Store) {
		srv, err := killServer(s.Events(), killEgress{newKillEgress(k.address), &killer{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"strict", "free"} {
			_, err := srv.Call(t.Context(), mcpevents.Request{Method: mcpevents.MethodSubscribe, Caller: mcpevents.Caller{Principal: "p"},
				Params: fmt.Appendf(nil, `{"name":%q,"delivery":{"mode":"webhook","url":"https://%s.example.com/","secret":%q}}`, name, name, killSecret)})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	return k
}

// withStore opens the store between processes, and looks whether its invariants hold.
func (k *killing) withStore(fn func(*Store)) {
	k.Helper()
	s, err := Open(k.Context(), k.path, nil)
	if err != nil {
		k.Fatal(err)
	}
	fn(s)
	if err := verify(s); err != nil {
		k.Error(err)
	}
	if err := s.Close(); err != nil {
		k.Fatal(err)
	}
}

// round lets one process live and die, and returns the point at which it killed itself, if it did.
func (k *killing) round(number, turn int) (reached string) {
	k.Helper()
	plan := killPlan{Address: k.address, Prefix: fmt.Sprint("e", number)}
	if turn%2 == 0 {
		plan.Point, plan.Nth = killPoints[number/2%len(killPoints)], 1+k.rand.IntN(4)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		k.Fatal(err)
	}
	cmd := childCommand(k.T, "events", k.path)
	cmd.Env = append(cmd.Env, childEnv+"_PLAN="+string(text))
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		k.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	patience := time.Minute // a point is always reached
	if plan.Point == "" {
		patience = time.Duration(k.rand.IntN(120_000)) * time.Microsecond
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "ready":
			defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
		case "emitted":
			k.emitted = append(k.emitted, rest)
		case "at":
			reached = rest
		default:
			k.Errorf("round %d, %q: the process says %q", number, plan.Point, lines.Text())
		}
	}
	_ = cmd.Wait() // killed, as meant
	if reached != plan.Point {
		k.Errorf("round %d: reached %q, want %q", number, reached, plan.Point)
	}
	return reached
}

// finish delivers what is left and compares what arrived with what the ledger holds and with what was answered.
func (k *killing) finish() {
	k.Helper()
	k.withStore(func(s *Store) {
		out := newKillEgress(k.address)
		defer out.CloseIdleConnections()
		srv, err := killServer(s.Events(), killEgress{out, &killer{}})
		if err != nil {
			k.Fatal(err)
		}
		ctx, stop := context.WithTimeout(k.Context(), time.Minute)
		defer stop()
		ran := make(chan error, 1)
		go func() { ran <- srv.Run(ctx) }()
		for k.pending(s) > 0 && ctx.Err() == nil {
			<-time.After(5 * time.Millisecond)
		}
		stop()
		if err := <-ran; err != nil {
			k.Error(err)
		}
		k.compare(s)
	})
}

func (k *killing) pending(s *Store) (n int64) {
	k.Helper()
	err := s.View(k.Context(), func(t store.Tx) (err error) {
		n, err = t.(*tx).count("count", t.(*tx).prepare(`SELECT count(*) FROM deliveries WHERE state = 0`))
		return err
	})
	if err != nil {
		k.Fatal(err)
	}
	return n
}

func (k *killing) compare(s *Store) {
	k.Helper()
	var events []driver.Event
	if err := s.Events().View(k.Context(), func(tx driver.Tx) (err error) {
		events, err = tx.Events().Read(driver.Query{Limit: 1_000_000})
		return err
	}); err != nil {
		k.Fatal(err)
	}
	var ids, strict []string
	for _, e := range events {
		ids = append(ids, e.ID)
		if e.Name == "strict" {
			strict = append(strict, e.ID)
		}
		if !k.sink.taken[e.ID] {
			k.Errorf("event %s never arrived", e.ID)
		}
	}
	for _, id := range k.emitted {
		if !slices.Contains(ids, id) {
			k.Errorf("event %s was emitted and is gone", id)
		}
	}
	var arrived []string
	for _, id := range k.sink.order {
		if !slices.Contains(ids, id) {
			k.Errorf("event %s arrived and was never stored", id)
		}
		if strings.Contains(id, "-strict-") {
			arrived = append(arrived, id)
			if older := k.sink.untaken[id]; older != "" {
				k.Errorf("event %s came before %s had been taken", id, older)
			}
		}
	}
	if !slices.Equal(arrived, strict) {
		k.Errorf("strict order broken: %d events arrived first in the order\n%v\nwant\n%v", len(arrived), arrived, strict)
	}
	k.Logf("%d events, %d of them known to their emitter, in %d posts", len(ids), len(k.emitted), k.sink.posts)
}
