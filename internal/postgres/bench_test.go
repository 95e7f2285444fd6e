package postgres_test

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/postgres"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Start the server with HERALD_POSTGRES_FSYNC=on to measure commits that reach the disk.

var benchConns = flag.Int("conns", 0, "connections of the measured store, 0 for the default")

var benchDay = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

var benchPayload = []byte(`{"title":"Build 4711 is green","body":"All 1,204 tests passed in 3 minutes. Deploy it to production now?","expectReply":true,"speak":{"text":"The build is green"}}`)

// send does what the relay does with one notification.
func send(ctx context.Context, s store.Store, k relay.Key, now time.Time) (n relay.Notification, err error) {
	n = relay.Notification{ID: relay.NewNotificationID(now), Mailbox: k.Mailbox, Key: k.ID, CreatedAt: now, Payload: benchPayload, ExpectReply: true}
	n.AgentID = n.ID.MadeAgentID()
	limits := relay.AdmissionLimits{PerKey: 1e9, PerDay: 1e9, Queue: 1e9}
	return n, s.Update(ctx, func(tx store.Tx) error {
		a, err := tx.Notifications().Admission(k.Mailbox, k.ID, limits.PerKey, now)
		if err != nil {
			return err
		}
		if err := limits.AdmitRate(a, now); err != nil {
			return err
		}
		if err := limits.AdmitQueue(a); err != nil {
			return err
		}
		return tx.Notifications().Insert(&n, now.Add(-24*time.Hour))
	})
}

// callers runs fn b.N times from n goroutines.
func callers(b *testing.B, n int, fn func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range n {
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

func BenchmarkSend(b *testing.B) {
	s := pgtest.OpenURL(b, pgtest.URL(b), &postgres.Options{MaxConns: *benchConns})
	keys := newKeys(b, s, 1000)
	for _, n := range []int{1, 16, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", n), func(b *testing.B) {
			callers(b, n, func(i int) error {
				_, err := send(b.Context(), s, keys[i%len(keys)], benchDay.Add(time.Duration(i)*time.Millisecond))
				return err
			})
		})
	}
}

func BenchmarkRead(b *testing.B) {
	s := pgtest.OpenURL(b, pgtest.URL(b), &postgres.Options{MaxConns: *benchConns})
	keys := newKeys(b, s, 1000)
	notes := make([]relay.Notification, len(keys))
	var wg sync.WaitGroup
	for i, k := range keys {
		wg.Go(func() {
			var err error
			notes[i], err = send(b.Context(), s, k, benchDay)
			must(b, err)
		})
	}
	wg.Wait()
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("key/callers=%d", n), func(b *testing.B) {
			callers(b, n, func(i int) error {
				k := keys[i%len(keys)]
				return s.View(b.Context(), func(tx store.Tx) error { _, err := tx.Keys().Get(k.Mailbox, k.ID); return err })
			})
		})
		b.Run(fmt.Sprintf("receipt/callers=%d", n), func(b *testing.B) {
			callers(b, n, func(i int) error {
				v := notes[i%len(notes)]
				return s.View(b.Context(), func(tx store.Tx) error {
					_, err := tx.Notifications().Sent(v.Mailbox, v.Key, v.AgentID, benchDay)
					return err
				})
			})
		})
	}
}

// BenchmarkReceipt is what a device costs: read a notification, record, save.
func BenchmarkReceipt(b *testing.B) {
	s := pgtest.OpenURL(b, pgtest.URL(b), &postgres.Options{MaxConns: *benchConns})
	keys := newKeys(b, s, 1000)
	notes := make([]relay.Notification, len(keys))
	for i, k := range keys {
		var err error
		notes[i], err = send(b.Context(), s, k, benchDay)
		must(b, err)
	}
	b.Run("callers=64", func(b *testing.B) {
		callers(b, 64, func(i int) error {
			v := notes[i%len(notes)]
			return s.Update(b.Context(), func(tx store.Tx) error {
				n, err := tx.Notifications().Get(v.Mailbox, v.ID)
				if err != nil {
					return err
				}
				if _, err := n.Record(relay.Receipt{Kind: relay.KindReplied, Text: "yes, ship it"}, benchDay); err != nil {
					return err
				}
				return tx.Notifications().Save(n)
			})
		})
	})
}

// BenchmarkUnshared is the same work as BenchmarkSend the plain way, one transaction and one statement at a time, to
// compare within one run.
func BenchmarkUnshared(b *testing.B) {
	url := pgtest.URL(b)
	keys := newKeys(b, pgtest.OpenURL(b, url, nil), 1000)
	pool, err := pgxpool.New(b.Context(), url+"&pool_max_conns=12")
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	var seq atomic.Int64
	b.Run("callers=64", func(b *testing.B) {
		callers(b, 64, func(i int) error {
			k, now := keys[i%len(keys)], benchDay.Add(time.Duration(i)*time.Millisecond)
			id, _ := hex.DecodeString(string(relay.NewNotificationID(now))[2:])
			box, _ := hex.DecodeString(string(k.Mailbox))
			key, _ := hex.DecodeString(string(k.ID))
			return pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
				n := seq.Add(1)
				for _, st := range []struct {
					sql  string
					args []any
				}{
					{`UPDATE counters SET last_seq = last_seq + 1, waiting = waiting + 1 WHERE mailbox = $1`, []any{box}},
					{`INSERT INTO usage (mailbox, day, notifications) VALUES ($1, '2026-03-14', 1)
					  ON CONFLICT (mailbox, day) DO UPDATE SET notifications = usage.notifications + 1`, []any{box}},
					{`INSERT INTO notifications (id, mailbox, key, seq, key_seq, created_at, payload, expect_reply, reply_text,
					  reply_transcript, clip_bytes, clip_type, suppressed, reason, scope)
					  VALUES ($1, $2, $3, $4, $4, $5, $6, true, '', '', 0, '', false, '', '')`, []any{id, box, key, n, now.UnixMilli(), benchPayload}},
				} {
					if _, err := tx.Exec(b.Context(), st.sql, st.args...); err != nil {
						return err
					}
				}
				return nil
			})
		})
	})
}
