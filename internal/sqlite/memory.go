package sqlite

import (
	"math"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
)

// tally is a row of the table tallies.
type tally struct {
	seq, last, waiting, bytes int64
	day                       string // UTC day of the last notification
	notified                  int64  // notifications of that day
}

// box is a mailbox as the writer remembers it, or as one View read it.
type box struct {
	n  int64 // mailboxes.n
	id relay.MailboxID
	tally
	rates map[int64]*rate // by key, those asked for
	dirty bool            // tally differs from its row
	gone  bool            // deleted
}

// maxBoxes bounds the memory of the writer. Beyond it everything is dropped and read again as needed.
const maxBoxes = 16384

// memory is what the writer knows without reading. It belongs to the writer's goroutine. Invariants, between batches:
// every tally equals its row, every rate the rows of its key, nothing is dirty and there is nothing to undo.
type memory struct {
	boxes map[relay.MailboxID]*box
	dirty []*box
	undo  []undo
	// oldest is no later than the creation of any waiting notification, in milliseconds.
	oldest int64
	// matched is how many subscriptions the last event concerned; a guess of how many the next one does.
	matched int
}

// unknown is the value of oldest before anybody has looked.
const unknown = math.MinInt64

func newMemory() *memory { return &memory{boxes: map[relay.MailboxID]*box{}, oldest: unknown} }

// undo takes one change of memory back.
type undo struct {
	b       *box
	tally   tally
	key, at int64 // of a send
	what    undoKind
}

type undoKind uint8

const (
	undoTally undoKind = iota // tally becomes what it was
	undoSend                  // the send of key at at did not happen
	undoLoad                  // the mailbox was made in this transaction: forget it
)

// change returns b's tally to be changed; it will be written before the commit.
func (m *memory) change(b *box) *tally {
	m.undo = append(m.undo, undo{b: b, tally: b.tally, what: undoTally})
	if !b.dirty {
		b.dirty = true
		m.dirty = append(m.dirty, b)
	}
	return &b.tally
}

// sent records a send for the key's rate. It is recorded for undoing even while the rate is not loaded: it may be
// loaded later in the transaction, from rows that hold the send.
func (m *memory) sent(b *box, key, at int64) {
	m.undo = append(m.undo, undo{b: b, key: key, at: at, what: undoSend})
	if r := b.rates[key]; r != nil {
		r.add(at)
	}
}

// waitsSince keeps the promise of oldest for a notification that waits.
func (m *memory) waitsSince(ms int64) { m.oldest = min(m.oldest, ms) }

// created notes that a mailbox exists only if the transaction commits.
func (m *memory) created(id relay.MailboxID) {
	m.drop(id)
	m.undo = append(m.undo, undo{b: &box{id: id}, what: undoLoad})
}

// drop forgets a mailbox, for instance because it is deleted.
func (m *memory) drop(id relay.MailboxID) {
	if b := m.boxes[id]; b != nil {
		b.gone = true
		delete(m.boxes, id)
	}
}

// rollback takes back, last first, all changes after the first keep ones.
func (m *memory) rollback(keep int) {
	for i := len(m.undo) - 1; i >= keep; i-- {
		switch u := &m.undo[i]; u.what {
		case undoTally:
			u.b.tally = u.tally
		case undoSend:
			u.b.unsend(u.key, u.at)
		case undoLoad:
			m.drop(u.b.id)
		}
	}
	clear(m.undo[keep:])
	m.undo = m.undo[:keep]
	m.clean()
	m.oldest = unknown
}

// unsend takes a send back. A rate that knows the latest sends only would then know one too few: it is read again.
func (b *box) unsend(key, at int64) {
	r := b.rates[key]
	switch {
	case r == nil:
	case r.covers < math.MaxInt64:
		delete(b.rates, key)
	default:
		r.remove(at)
	}
}

// clean declares that every remembered tally equals its row.
func (m *memory) clean() {
	for _, b := range m.dirty {
		b.dirty = false
	}
	clear(m.dirty)
	m.dirty = m.dirty[:0]
}

// committed ends a transaction well.
func (m *memory) committed() {
	clear(m.undo)
	m.undo = m.undo[:0]
	if len(m.boxes) > maxBoxes {
		clear(m.boxes)
	}
}

const writeTally = `UPDATE tallies SET seq = ?, last = ?, waiting = ?, bytes = ?, day = ?, notified = ? WHERE mailbox = ?`

// flush writes the changed tallies.
func (m *memory) flush(c *native.Conn) error {
	for _, b := range m.dirty {
		if b.gone {
			continue
		}
		s := c.Prepare(writeTally).Int(b.seq).Int(b.last).Int(b.waiting).Int(b.bytes).Text(b.day).Int(b.notified).Int(b.n)
		if _, err := s.Exec(); err != nil {
			return err
		}
	}
	m.clean()
	return nil
}

const readBox = `SELECT m.n, t.seq, t.last, t.waiting, t.bytes, t.day, t.notified
	FROM mailboxes m JOIN tallies t ON t.mailbox = m.n WHERE m.id = ?`

// box returns the mailbox, from memory if it is there. NotFound when there is none.
func (t *tx) box(id relay.MailboxID) (*box, error) {
	if t.last != nil && t.last.id == id && !t.last.gone {
		return t.last, nil
	}
	if t.mem != nil {
		if b := t.mem.boxes[id]; b != nil {
			t.last = b
			return b, nil
		}
	}
	b, err := single(t, "read mailbox tally", t.prepare(readBox).Text(string(id)), func(s *native.Stmt) *box {
		return &box{n: s.ColInt(0), id: id, rates: map[int64]*rate{},
			tally: tally{seq: s.ColInt(1), last: s.ColInt(2), waiting: s.ColInt(3), bytes: s.ColInt(4), day: s.ColText(5), notified: s.ColInt(6)}}
	}, noMailbox)
	if err != nil {
		return nil, err
	}
	if t.mem != nil {
		t.mem.boxes[id] = b
	}
	t.last = b
	return b, nil
}
