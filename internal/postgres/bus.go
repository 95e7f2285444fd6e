package postgres

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/herald-relay/herald/internal/relay"
)

const (
	// channel carries every hint of the relay.
	channel = "herald_hints"
	// maxQueued bounds the hints that wait for the network; what does not fit is dropped.
	maxQueued = 8192
	// maxFlush bounds the hints of one flush.
	maxFlush = 2048
	// maxNotice bounds one message; PostgreSQL takes less than 8000 bytes.
	maxNotice = 7900
	// flushWithin bounds one flush, pingEvery how long a silent listener trusts its connection.
	flushWithin = 5 * time.Second
	pingEvery   = 30 * time.Second
	// longestReconnect bounds the pause before the next attempt to listen.
	longestReconnect = 5 * time.Second
)

// bus carries hints by LISTEN and NOTIFY. Every message names the process it came from.
type bus struct {
	s      *Store
	config *pgx.ConnConfig
	origin string
	queue  chan relay.Hint
}

func newBus(s *Store, config *pgx.ConnConfig) *bus {
	config = config.Copy()
	config.RuntimeParams["application_name"] += " listener"
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	return &bus{s: s, config: config, origin: relay.RandomHex(6), queue: make(chan relay.Hint, maxQueued)}
}

// notice is one message: hints of one process.
type notice struct {
	Origin string       `json:"p"`
	Hints  []relay.Hint `json:"h"`
}

// Publish implements store.Bus.
func (b *bus) Publish(hints ...relay.Hint) {
	for _, h := range hints {
		select {
		case b.queue <- h:
		default:
			return
		}
	}
}

// run flushes hints until the store closes. While one flush is on its way, the hints of the next gather.
func (b *bus) run() {
	for {
		select {
		case h := <-b.queue:
			b.send(b.gather(h))
		case <-b.s.stop:
			b.sendLast()
			return
		}
	}
}

// sendLast sends what was published before the store closed.
func (b *bus) sendLast() {
	select {
	case h := <-b.queue:
		b.send(b.gather(h))
	default:
	}
}

func (b *bus) send(hints []relay.Hint) {
	if err := b.flush(hints); err != nil {
		b.s.log.Debug("hints dropped", "count", len(hints), "err", err)
	}
}

func (b *bus) gather(first relay.Hint) []relay.Hint {
	hints := []relay.Hint{first}
	for len(hints) < maxFlush {
		select {
		case h := <-b.queue:
			hints = append(hints, h)
		default:
			return hints
		}
	}
	return hints
}

const notify = `SELECT pg_notify($1, p) FROM unnest($2::text[]) p`

// flush sends hints in one statement of its own, never within a write.
func (b *bus) flush(hints []relay.Hint) error {
	ctx, cancel := context.WithTimeout(context.Background(), flushWithin)
	defer cancel()
	notices, err := encodeNotices(b.origin, hints)
	if err != nil || len(notices) == 0 {
		return err
	}
	_, err = b.s.pool.Exec(ctx, notify, channel, notices)
	return err
}

// encodeNotices packs hints into as few messages as they need. A hint too large for a message is left out.
func encodeNotices(origin string, hints []relay.Hint) (out []string, err error) {
	head := `{"p":"` + origin + `","h":[`
	var body bytes.Buffer
	flush := func() {
		if body.Len() > 0 {
			out = append(out, head+body.String()+"]}")
			body.Reset()
		}
	}
	for _, h := range hints {
		text, err := json.Marshal(h)
		if err != nil {
			return nil, err
		}
		if body.Len()+len(text)+len(head)+3 > maxNotice {
			flush()
		}
		if len(text)+len(head)+2 > maxNotice {
			continue
		}
		if body.Len() > 0 {
			body.WriteByte(',')
		}
		body.Write(text)
	}
	flush()
	return out, nil
}

// decodeNotice reads a message. One of this process, or one that is not of this shape, holds no hints.
func decodeNotice(origin, payload string) []relay.Hint {
	var n notice
	if err := json.Unmarshal([]byte(payload), &n); err != nil || n.Origin == origin {
		return nil
	}
	return n.Hints
}

// Listen implements store.Bus. It reconnects by itself for as long as ctx and the store last; what is sent meanwhile
// is lost to it.
func (b *bus) Listen(ctx context.Context, fn func(relay.Hint)) error {
	if err := b.s.enter(ctx); err != nil {
		return err
	}
	b.s.leaders.Add(1) // Close ends listeners, and waits until they have
	defer b.s.leaders.Done()
	b.s.exit()
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-b.s.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := b.listenOnce(ctx, fn)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > pingEvery {
			failures = 0
		}
		b.s.log.Warn("listening for hints interrupted", "err", err)
		wait(ctx, failures)
	}
	return nil
}

// wait pauses for a random while that grows with every failure in a row.
func wait(ctx context.Context, failures int) {
	limit := min(longestReconnect, 50*time.Millisecond<<min(failures, 10))
	t := time.NewTimer(limit/2 + rand.N(limit/2))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (b *bus) listenOnce(ctx context.Context, fn func(relay.Hint)) error {
	conn, err := pgx.ConnectConfig(ctx, b.config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		_ = conn.Close(ctx) // it is given up either way
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	for {
		payload, err := b.await(ctx, conn)
		if err != nil {
			return err
		}
		for _, h := range decodeNotice(b.origin, payload) {
			fn(h)
		}
	}
}

// await returns the next message, or "" after a silence in which the connection proved to work.
func (b *bus) await(ctx context.Context, conn *pgx.Conn) (string, error) {
	quiet, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	n, err := conn.WaitForNotification(quiet)
	if err == nil {
		return n.Payload, nil
	}
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || conn.IsClosed() {
		return "", err
	}
	ping, cancelPing := context.WithTimeout(ctx, flushWithin)
	defer cancelPing()
	return "", conn.Ping(ping)
}
