package sqlite

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// callers is how many requests the benchmarks keep in the air.
const callers = 64

var benchPayload = []byte(`{"title":"` + strings.Repeat("t", 40) + `","body":"` + strings.Repeat("b", 240) + `"}`)

// world is a store with some mailboxes, a key and a device in each.
type world struct {
	*Store
	boxes []relay.MailboxID
	keys  []relay.KeyID
}

func benchWorld(b *testing.B, mailboxes int) *world {
	b.Helper()
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "herald.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	w := &world{Store: s}
	now := time.Now()
	err = s.Update(b.Context(), func(tx store.Tx) error {
		p := relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: "bench", CreatedAt: now}
		if err := tx.People().Create(p); err != nil {
			return err
		}
		for range mailboxes {
			m := relay.Mailbox{ID: relay.MailboxID(relay.RandomHex(24)), Person: p.ID, Name: "bench", CreatedAt: now}
			k := relay.Key{ID: relay.KeyID(relay.RandomHex(4)), Mailbox: m.ID, Name: "agent", Client: "other", Scope: "notify", Kind: "static", CreatedAt: now}
			d := relay.Device{ID: relay.DeviceID(relay.RandomHex(8)), Mailbox: m.ID, Name: "bench", Owner: true, CreatedAt: now}
			if err := tx.Mailboxes().Create(m); err != nil {
				return err
			}
			if err := tx.Keys().Create(k); err != nil {
				return err
			}
			if err := tx.Devices().Create(d); err != nil {
				return err
			}
			w.boxes, w.keys = append(w.boxes, m.ID), append(w.keys, k.ID)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// fill stores n acknowledged notifications, spread over the mailboxes and the last day.
func (w *world) fill(b *testing.B, n int) {
	b.Helper()
	begin := time.Now().Add(-24 * time.Hour).UnixMilli()
	err := w.Update(b.Context(), func(t store.Tx) error {
		c := t.(*tx).c
		const rows = `INSERT INTO notifications (id, mailbox, prev, key, seq, waiting, bytes, created_at, expect_reply, acked_at, clip_bytes, suppressed, payload)
			WITH RECURSIVE i(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM i WHERE i + 1 < ?1),
			     at(i, at) AS (SELECT i, ?2 + i * 85000000 / ?1 FROM i)
			SELECT unhex(printf('%012x%012x', at, i)), 1 + (i * 7919) % ?3, max(0, i + 1 - ?3), 1, 1 + i / ?3, 0, ?4, at, 1, at, 0, 0, ?5 FROM at`
		if _, err := c.Prepare(rows).Int(int64(n)).Int(begin).Int(int64(len(w.boxes))).Int(int64(len(benchPayload))).Blob(benchPayload).Exec(); err != nil {
			return err
		}
		const sums = `UPDATE tallies SET seq = s.seq, last = s.last, bytes = s.bytes FROM
			(SELECT mailbox, max(seq) AS seq, max(n) AS last, sum(bytes) AS bytes FROM notifications GROUP BY mailbox) s WHERE s.mailbox = tallies.mailbox`
		return c.Exec(sums)
	})
	if err != nil {
		b.Fatal(err)
	}
	w.log.copy()
}

// inParallel runs fn b.N times on callers goroutines.
func inParallel(b *testing.B, fn func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := fn(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

var benchLimits = relay.AdmissionLimits{PerKey: 1e9, PerDay: 1e9, Queue: 1e9}

// accept is what the relay does with a notification.
func (w *world) accept(b *testing.B, i int) error {
	now := time.Now()
	m := rand.IntN(len(w.boxes))
	n := relay.Notification{ID: relay.NewNotificationID(now), Mailbox: w.boxes[m], Key: w.keys[m], CreatedAt: now, Payload: benchPayload, ExpectReply: true}
	n.AgentID = n.ID.MadeAgentID()
	return w.Update(b.Context(), func(tx store.Tx) error {
		a, err := tx.Notifications().Admission(n.Mailbox, n.Key, benchLimits.PerKey, now)
		if err != nil {
			return err
		}
		if err := benchLimits.AdmitRate(a, now); err != nil {
			return err
		}
		if err := benchLimits.AdmitQueue(a); err != nil {
			return err
		}
		return tx.Notifications().Insert(&n, now.Add(-24*time.Hour))
	})
}

// BenchmarkCommit compares group commit with a transaction for each request.
func BenchmarkCommit(b *testing.B) {
	b.Run("grouped", func(b *testing.B) {
		w := benchWorld(b, 1)
		inParallel(b, func(i int) error { return w.accept(b, i) })
	})
	b.Run("single", func(b *testing.B) {
		w := benchWorld(b, 1)
		var mu sync.Mutex
		inParallel(b, func(i int) error {
			mu.Lock()
			defer mu.Unlock()
			return w.accept(b, i)
		})
	})
}

// BenchmarkAccept compares accepting a notification with the least that could store its bytes durably.
func BenchmarkAccept(b *testing.B) {
	for _, boxes := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("relay/mailboxes=%d", boxes), func(b *testing.B) {
			w := benchWorld(b, boxes)
			inParallel(b, func(i int) error { return w.accept(b, i) })
		})
	}
	b.Run("bare insert", func(b *testing.B) {
		f := newFloor(b)
		inParallel(b, func(i int) error { return f.insert() })
	})
}

// floor commits bare rows in groups: one table, one index, database/sql, nothing else.
type floor struct {
	queue chan chan error
}

func newFloor(b *testing.B) *floor {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "floor.db")+"?_journal_mode=WAL&_synchronous=FULL")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE t (n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, payload BLOB NOT NULL) STRICT"); err != nil {
		b.Fatal(err)
	}
	f := &floor{queue: make(chan chan error, maxBatch)}
	var wg sync.WaitGroup
	wg.Go(func() { f.run(b, db) })
	b.Cleanup(func() {
		close(f.queue)
		wg.Wait()
		db.Close()
	})
	return f
}

func (f *floor) insert() error {
	done := make(chan error, 1)
	f.queue <- done
	return <-done
}

func (f *floor) run(b *testing.B, db *sql.DB) {
	for first := range f.queue {
		batch := []chan error{first}
		for more := true; more && len(batch) < maxBatch; {
			select {
			case next, open := <-f.queue:
				if more = open; open {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		err := f.commit(db, len(batch))
		for _, done := range batch {
			done <- err
		}
	}
}

func (f *floor) commit(db *sql.DB, n int) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	s, err := tx.Prepare("INSERT INTO t (id, payload) VALUES (?, ?)")
	if err != nil {
		return err
	}
	defer s.Close()
	for range n {
		id, _ := hex.DecodeString(string(relay.NewNotificationID(time.Now())[2:]))
		if _, err := s.Exec(id, benchPayload); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// BenchmarkStored compares a full store with an empty one.
func BenchmarkStored(b *testing.B) {
	const mailboxes = 10_000
	for _, rows := range []int{0, 1_000_000} {
		w := benchWorld(b, mailboxes)
		if rows > 0 {
			w.fill(b, rows)
		}
		w.warm(b)
		b.Run(fmt.Sprintf("accept/rows=%d", rows), func(b *testing.B) {
			inParallel(b, func(i int) error { return w.accept(b, i) })
		})
		ids := w.someIDs(b)
		b.Run(fmt.Sprintf("read/rows=%d", rows), func(b *testing.B) {
			inParallel(b, func(i int) error { return w.read(b, ids[i%len(ids)]) })
		})
		b.Run(fmt.Sprintf("save/rows=%d", rows), func(b *testing.B) {
			inParallel(b, func(i int) error { return w.display(b, ids[i%len(ids)]) })
		})
	}
}

// warm sends one notification to every mailbox: the first of a process and of a day costs more than the next.
func (w *world) warm(b *testing.B) {
	b.Helper()
	now := time.Now()
	err := w.Update(b.Context(), func(tx store.Tx) error {
		for i, m := range w.boxes {
			n := relay.Notification{ID: relay.NewNotificationID(now), Mailbox: m, Key: w.keys[i], CreatedAt: now, Payload: benchPayload}
			n.AgentID = n.ID.MadeAgentID()
			if _, err := tx.Notifications().Admission(m, n.Key, benchLimits.PerKey, now); err != nil {
				return err
			}
			if err := tx.Notifications().Insert(&n, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

type place struct {
	m  relay.MailboxID
	id relay.NotificationID
}

// someIDs stores a few thousand notifications of random mailboxes and returns where.
func (w *world) someIDs(b *testing.B) (out []place) {
	now := time.Now()
	err := w.Update(b.Context(), func(tx store.Tx) error {
		for range 5000 {
			m := rand.IntN(len(w.boxes))
			n := relay.Notification{ID: relay.NewNotificationID(now), Mailbox: w.boxes[m], Key: w.keys[m], CreatedAt: now, Payload: benchPayload}
			n.AgentID = n.ID.MadeAgentID()
			if err := tx.Notifications().Insert(&n, now); err != nil {
				return err
			}
			out = append(out, place{n.Mailbox, n.ID})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func (w *world) read(b *testing.B, p place) error {
	return w.View(b.Context(), func(tx store.Tx) error {
		_, err := tx.Notifications().Get(p.m, p.id)
		return err
	})
}

func (w *world) display(b *testing.B, p place) error {
	return w.Update(b.Context(), func(tx store.Tx) error {
		n, err := tx.Notifications().Get(p.m, p.id)
		if err != nil {
			return err
		}
		if _, err := n.Record(relay.Receipt{Kind: relay.KindDisplayed}, time.Now()); err != nil {
			return err
		}
		return tx.Notifications().Save(n)
	})
}

// BenchmarkView measures the reads that are on the path of every request.
func BenchmarkView(b *testing.B) {
	w := benchWorld(b, 1000)
	reads := map[string]func(tx store.Tx, i int) error{
		"key":     func(tx store.Tx, i int) error { _, err := tx.Keys().Get(w.boxes[i], w.keys[i]); return err },
		"devices": func(tx store.Tx, i int) error { _, err := tx.Devices().List(w.boxes[i]); return err },
		"mailbox": func(tx store.Tx, i int) error { _, err := tx.Mailboxes().Get(w.boxes[i]); return err },
		"usage":   func(tx store.Tx, i int) error { _, err := tx.Usage().Get(w.boxes[i], "2026-01-01"); return err },
		"waiting": func(tx store.Tx, i int) error { _, err := tx.Notifications().Waiting(w.boxes[i], 0, 100); return err },
		"nothing": func(tx store.Tx, i int) error { return nil },
	}
	for name, fn := range reads {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := w.View(b.Context(), func(tx store.Tx) error { return fn(tx, i%1000) }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen measures a start, on a new file and on one that is there.
func BenchmarkOpen(b *testing.B) {
	start := func(b *testing.B, path string) {
		s, err := Open(b.Context(), path, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("new", func(b *testing.B) {
		dir := b.TempDir()
		for i := 0; b.Loop(); i++ {
			start(b, filepath.Join(dir, fmt.Sprint(i)))
		}
	})
	b.Run("again", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "herald.db")
		for b.Loop() {
			start(b, path)
		}
	})
}
