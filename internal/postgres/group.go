package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxGroup bounds the members of a group.
	maxGroup = 128
	// acquireWithin is how long a group waits for a connection.
	acquireWithin = 5 * time.Second
	// waitWithin is how long a caller waits for a leader, or for whoever owns its mailbox: with a database that hangs,
	// each caller is told so within half a minute, however many there are.
	waitWithin = 15 * time.Second
)

// kind says what a group is for, how many members it has at most, and how long its transaction may live.
type kind struct {
	begin  string
	reads  bool // a snapshot for Views: members are served as they come and owe no commit
	limit  int
	within time.Duration
	// patience is how long a caller waits for one of the first leaders before any will do.
	patience time.Duration
}

var (
	sharedUpdates = kind{begin: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", limit: maxGroup, within: 10 * time.Second, patience: 10 * time.Millisecond}
	lonelyUpdate  = kind{begin: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", limit: 1, within: 30 * time.Second, patience: time.Second}
	sharedViews   = kind{begin: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", reads: true, limit: maxGroup, within: 10 * time.Second, patience: 5 * time.Millisecond}
)

// retry says how an attempt that failed may be repeated.
type retry uint8

const (
	never      retry = iota
	again            // at once
	afterWait        // after a moment
	aloneAgain       // in a transaction of its own
)

// setback is the end of an attempt through no fault of the member itself, or through its own when retry is never.
type setback struct {
	retry retry
	cause error
}

func (s *setback) Error() string { return s.cause.Error() }
func (s *setback) Unwrap() error { return s.cause }

var (
	errLeft       = errors.New("postgres: the transaction was left")
	errRolledBack = errors.New("the database rolled back instead of committing")
	errQueue      = errors.New("too many callers are waiting for the database, or it hangs")
	errStall      = errors.New("a neighbour in the same transaction did not go on")
	errSpoil      = errors.New("a neighbour in the same transaction failed after it wrote")
)

// group is one transaction and the members who share it. Its leader is a goroutine of the Store; everything but steps
// and done is the leader's alone until done is closed.
type group struct {
	kind
	s    *Store
	conn *pgxpool.Conn
	live int // members that have neither ended nor left

	// steps has room for one step and one leave of every member, so that no member blocks on a leader that has gone.
	steps   chan *step
	parked  []*step // steps that wait for an answer
	endings []*step // steps of members that wait for the commit
	begun   bool
	// committing says that all statements before the COMMIT have been answered.
	committing bool

	done    chan struct{} // closed when the group is over
	outcome error         // what it came to, for those who wait; set before done is closed
}

func (g *group) over() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// lead runs a group from its first steps to its end.
func (s *Store) lead(first []*step, k kind) {
	ctx, cancel := context.WithTimeout(context.Background(), k.within)
	defer cancel()
	g := &group{kind: k, s: s, live: len(first), steps: make(chan *step, 2*len(first)), done: make(chan struct{}), parked: first}
	conn, err := s.acquire(ctx)
	if err != nil {
		g.finish(&setback{never, err})
		return
	}
	defer conn.Release()
	g.conn = conn
	for _, st := range first {
		st.from.group = g
	}
	outcome := g.run(ctx)
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "ROLLBACK") // should it fail, Release closes the connection, which rolls back too
	}
	g.finish(outcome) // last, so that whoever left finds its locks free
}

// run serves steps until everybody has ended or left.
func (g *group) run(ctx context.Context) error {
	for {
		if g.sort() {
			return &setback{again, errSpoil}
		}
		if g.live == 0 && (g.reads || len(g.endings) == 0) {
			return nil
		}
		if g.live == 0 {
			return g.commit(ctx)
		}
		if len(g.parked) > 0 {
			if err := g.serve(ctx, g.parked, false); err != nil {
				return g.judge(ctx, err, false)
			}
			g.parked = g.parked[:0]
		}
		if !g.collect(ctx) {
			return &setback{never, unavailable(fmt.Errorf("%w: %w", errStall, context.Cause(ctx)))}
		}
	}
}

// sort moves ended and departed members out of the parked ones. spoiled tells that one left writes behind.
func (g *group) sort() (spoiled bool) {
	g.parked = slices.DeleteFunc(g.parked, func(st *step) bool {
		switch st.end {
		case goesOn:
			return false
		case commits:
			g.endings = append(g.endings, st)
		case leaves:
			spoiled = spoiled || st.from.wrote
		}
		g.live--
		return true
	})
	return spoiled
}

// collect waits until every living member has asked for something; in a snapshot, until one has.
func (g *group) collect(ctx context.Context) bool {
	want := g.live
	if g.reads {
		want = 1
	}
	for len(g.parked) < want {
		select {
		case st := <-g.steps:
			g.parked = append(g.parked, st)
		case <-ctx.Done():
			return false
		}
	}
	for len(g.parked) < g.live {
		select {
		case st := <-g.steps:
			g.parked = append(g.parked, st)
		default:
			return true
		}
	}
	return true
}

// finish tells everybody who waits, and those who will, how it went.
func (g *group) finish(outcome error) {
	g.outcome = outcome
	close(g.done)
	for _, st := range slices.Concat(g.parked, g.endings) {
		if !st.answered {
			st.from.reply <- outcome
		}
	}
}

// commit sends what was put off and the COMMIT. When the connection breaks now, the outcome is unknown, unless the server
// said that it ended at an earlier statement: it takes them in order.
func (g *group) commit(ctx context.Context) error {
	err := g.serve(ctx, g.endings, true)
	if err == nil {
		return nil
	}
	return g.judge(ctx, err, sqlState(err) == "" || g.committing)
}

// judge decides what a failed round trip means for the members.
func (g *group) judge(ctx context.Context, err error, unknown bool) error {
	closed, code := g.conn.Conn().IsClosed(), sqlState(err)
	if closed {
		g.s.log.Warn("connection to the database lost", "outcome_unknown", unknown, "err", err)
		g.s.pool.Reset() // its neighbours have most likely broken too
	}
	switch {
	case closed && unknown:
		return &setback{never, unavailable(fmt.Errorf("%w while committing, the outcome is unknown: %w", errLost, err))}
	case ctx.Err() != nil:
		return &setback{never, unavailable(err)}
	case closed:
		return &setback{again, fmt.Errorf("%w: %w", errLost, err)}
	case code == codeSerialization, code == codeDeadlock:
		return &setback{afterWait, err}
	case g.live+len(g.endings) > 1 && (code == codeLockTimeout || !isUnavailable(code)):
		return &setback{aloneAgain, err}
	}
	return &setback{never, err}
}

// serve does one round trip for the steps and, unless it commits, answers each as soon as its part has arrived.
func (g *group) serve(ctx context.Context, steps []*step, commit bool) error {
	t := &trip{}
	if !g.begun {
		t.add(&query{what: "begin", sql: g.begin})
	}
	t.plan(steps)
	if commit {
		t.add(&query{what: "commit", sql: "COMMIT"})
	}
	results := g.conn.SendBatch(ctx, &t.batch)
	defer results.Close()
	for i, q := range t.queries {
		g.committing = commit && i == len(t.queries)-1
		rows, _ := results.Query()
		if err := q.read(rows); err != nil {
			return err
		}
		if g.committing && rows.CommandTag().String() != "COMMIT" {
			return errRolledBack
		}
		if !commit {
			answer(t.answers[i])
		}
	}
	g.begun = true
	return results.Close()
}

func answer(steps []*step) {
	for _, st := range steps {
		st.answered = true
		st.from.reply <- nil
	}
}

// trip is one round trip: the statements in their order, and whose answers are complete after which.
type trip struct {
	batch   pgx.Batch
	queries []*query
	answers map[int][]*step
}

func (t *trip) add(q *query) {
	t.batch.Queue(q.sql, q.args...)
	t.queries = append(t.queries, q)
}

// plan puts the statements of all steps in order: what they share first, so that it is done for everybody.
func (t *trip) plan(steps []*step) {
	t.lock(steps)
	t.write(steps)
	t.admit(steps)
	t.answers = map[int][]*step{}
	for _, st := range steps {
		for _, q := range st.queries {
			t.add(q)
			st.from.wrote = st.from.wrote || q.writes
		}
		last := max(len(t.queries)-1, 0)
		t.answers[last] = append(t.answers[last], st)
	}
	if len(t.queries) == 0 {
		t.add(&query{what: "do nothing", sql: "SELECT"}) // a step that asks nothing is answered all the same
	}
}

const (
	lockDirectory = `SELECT name FROM gates WHERE name = 'directory' FOR UPDATE`
	lockBoxes     = `SELECT mailbox, last_seq, waiting FROM counters WHERE mailbox = ANY($1) ORDER BY mailbox FOR NO KEY UPDATE`
)

// lock takes the owners' rows: the directory first, then mailboxes in the order of their ids, as every process does.
func (t *trip) lock(steps []*step) {
	boxes := map[string]*box{}
	shared := false
	for _, st := range steps {
		shared = shared || st.directory
		for _, b := range st.boxes {
			boxes[string(b.raw)] = b
		}
	}
	if shared {
		t.add(&query{what: "lock directory", sql: lockDirectory})
	}
	if len(boxes) == 0 {
		return
	}
	ids := make([][]byte, 0, len(boxes))
	for _, b := range boxes {
		b.exists, b.lastSeq, b.waiting = false, 0, 0
		ids = append(ids, b.raw)
	}
	var id pgtype.DriverBytes
	var seq, waiting int64
	t.add(&query{what: "lock mailboxes", sql: lockBoxes, args: []any{ids}, each: func(rows pgx.Rows) error {
		if err := rows.Scan(&id, &seq, &waiting); err != nil {
			return err
		}
		if b := boxes[string(id)]; b != nil {
			b.exists, b.lastSeq, b.waiting = true, seq, waiting
		}
		return nil
	}})
}
