package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/postgres"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// load inserts and reads from several goroutines until it is stopped, and remembers what was acknowledged.
type load struct {
	t    *testing.T
	s    *postgres.Store
	keys []relay.Key

	wg       sync.WaitGroup
	stop     chan struct{}
	progress chan struct{} // filled when one more was acknowledged

	mu       sync.Mutex // guards the rest
	kept     []relay.Notification
	attempts int
	refused  int
}

func startLoad(t *testing.T, s *postgres.Store, keys []relay.Key) *load {
	l := &load{t: t, s: s, keys: keys, stop: make(chan struct{}), progress: make(chan struct{}, 1)}
	for i := range 16 {
		l.wg.Go(func() { l.run(i) })
	}
	return l
}

func (l *load) run(i int) {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		n := noteOf(l.keys[i%len(l.keys)], "")
		err := insert(l.t.Context(), l.s, n)
		l.count(n, err)
		if err == nil {
			err = l.s.View(l.t.Context(), func(tx store.Tx) error { _, err := tx.Notifications().Get(n.Mailbox, n.ID); return err })
		}
		if err != nil && !fault.Is(err, fault.Unavailable) {
			l.t.Errorf("under failures: %v (%v), want unavailable", err, fault.From(err).Kind)
			return
		}
	}
}

func (l *load) count(n relay.Notification, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts++
	if err != nil {
		l.refused++
		return
	}
	l.kept = append(l.kept, n)
	select {
	case l.progress <- struct{}{}:
	default:
	}
}

func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.kept)
}

// grow waits until more have been acknowledged.
func (l *load) grow(by int) {
	l.t.Helper()
	want, deadline := l.acknowledged()+by, time.After(60*time.Second)
	for l.acknowledged() < want {
		select {
		case <-l.progress:
		case <-deadline:
			l.t.Fatalf("the store does not recover: %d acknowledged, %d wanted", l.acknowledged(), want)
		}
	}
}

// end stops the load and checks that all it was told is true.
func (l *load) end() {
	l.t.Helper()
	close(l.stop)
	l.wg.Wait()
	stored := map[relay.NotificationID]int{}
	total := 0
	for _, k := range l.keys {
		list := waitingOf(l.t, l.s, k.Mailbox)
		total += len(list)
		for i, w := range list {
			stored[w.ID]++
			if w.Seq != int64(i+1) {
				l.t.Fatalf("place %d holds Seq %d: a number was lost or given twice", i, w.Seq)
			}
		}
		must(l.t, l.s.View(l.t.Context(), func(tx store.Tx) error {
			n, err := tx.Notifications().CountWaiting(k.Mailbox)
			if n != int64(len(list)) {
				l.t.Errorf("%d counted, %d there", n, len(list))
			}
			return err
		}))
	}
	for _, n := range l.kept {
		if stored[n.ID] != 1 {
			l.t.Errorf("an acknowledged notification is there %d times", stored[n.ID])
		}
	}
	if total > l.attempts {
		l.t.Errorf("%d stored of %d sent", total, l.attempts)
	}
	l.t.Logf("%d sent, %d acknowledged, %d refused, %d stored", l.attempts, len(l.kept), l.refused, total)
}

// Connections that are cut in the middle of anything cost at most an honest refusal.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := pgtest.OpenURL(t, url, nil)
	l := startLoad(t, s, newKeys(t, s, 4))
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for range 25 {
		l.grow(10)
		_, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		must(t, err)
	}
	l.grow(10)
	l.end()
}

// server is a PostgreSQL of a test's own, which it may stop and kill.
type server struct {
	t   *testing.T
	dir string
}

// ownServer starts a server in a new directory.
func ownServer(t *testing.T) (*server, string) {
	t.Helper()
	pgtest.Server(t) // skips or fails like every other test
	// Not in t.TempDir, which only its owner may enter: as root, the server runs as another user.
	s := &server{t, filepath.Join(os.TempDir(), "herald-test-server-"+relay.RandomHex(4))}
	t.Cleanup(func() {
		_, _ = s.script("stop")
		must(t, os.RemoveAll(s.dir))
	})
	return s, s.start()
}

func (s *server) script(command string, env ...string) (string, error) {
	cmd := exec.Command("../../scripts/postgres.sh", command, s.dir)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, e.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

func (s *server) start() string {
	s.t.Helper()
	url, err := s.script("start")
	if err != nil {
		if os.Getenv("CI") == "" {
			s.t.Skipf("SKIPPED: no server of its own can be started here: %v", err)
		}
		s.t.Fatal(err)
	}
	return url
}

func (s *server) stop() {
	s.t.Helper()
	if _, err := s.script("stop"); err != nil {
		s.t.Fatal(err)
	}
}

// crash ends the server without a shutdown: what was acknowledged must come back from its log.
func (s *server) crash() {
	s.t.Helper()
	if _, err := s.script("stop", "HERALD_POSTGRES_STOP=immediate"); err != nil {
		s.t.Fatal(err)
	}
}

func TestServerRestart(t *testing.T) {
	own, url := ownServer(t)
	s := pgtest.OpenURL(t, url, nil)
	other := pgtest.OpenURL(t, url, nil)
	in := listen(t, other, s)
	keys := newKeys(t, s, 4)
	l := startLoad(t, s, keys)
	l.grow(50)
	for name, end := range map[string]func(){"stop": own.stop, "crash": own.crash} {
		end()
		began := time.Now()
		if err := s.Ready(t.Context()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: Ready = %v, want unavailable", name, err)
		}
		if err := insert(t.Context(), s, noteOf(keys[0], "")); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: Update = %v, want unavailable", name, err)
		}
		err := s.View(t.Context(), func(tx store.Tx) error { _, err := tx.People().List(); return err })
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: View = %v, want unavailable", name, err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%s: three refusals took %v", name, took)
		}
		own.start()
		l.grow(50)
		must(t, s.Ready(t.Context()))
		in.ready(s)
	}
	l.end()
}

func TestDatabaseTurnsReadOnly(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := pgtest.OpenURL(t, url, nil)
	k := newKey(t, s)
	must(t, insert(t.Context(), s, noteOf(k, "")))
	name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	// Updates ask for a writing transaction in so many words, so only a standby can refuse them. Ready tells the default.
	pgtest.Exec(t, url, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	pgtest.Exec(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	var err error
	for range 50 {
		if err = s.Ready(t.Context()); err != nil && strings.Contains(fault.From(err).Detail, "read-only") {
			break
		}
	}
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.From(err).Detail, "primary") {
		t.Errorf("Ready = %v, want unavailable with a hint at the primary", err)
	}
}
