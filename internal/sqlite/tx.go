package sqlite

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

// tx is one fn's view of a transaction. The nouns of store.Tx are types with a tx inside.
type tx struct {
	c    *native.Conn
	mem  *memory // the writer's memory; nil in a View
	last *box    // the mailbox met last
	seen row     // the notification met last, of an Update
	// broken is why the transaction cannot go on: a statement failed in a way that may have ended it. Once it is set no
	// statement runs, whatever fn makes of the error.
	broken error
}

func (t *tx) People() store.People               { return people{t} }
func (t *tx) Mailboxes() store.Mailboxes         { return mailboxes{t} }
func (t *tx) Devices() store.Devices             { return devices{t} }
func (t *tx) Keys() store.Keys                   { return keys{t} }
func (t *tx) Notifications() store.Notifications { return notifications{t} }
func (t *tx) Usage() store.Usage                 { return usage{t} }
func (t *tx) Pairing() store.Pairing             { return pairing{t} }
func (t *tx) Marks() store.Marks                 { return marks{t} }

// prepare returns the statement for sql, or one that fails when the transaction cannot go on.
func (t *tx) prepare(sql string) *native.Stmt {
	if t.broken != nil {
		return t.c.Failed(t.broken)
	}
	return t.c.Prepare(sql)
}

// change is prepare for statements that write.
func (t *tx) change(sql string) *native.Stmt {
	if err := t.writable(); err != nil {
		return t.c.Failed(err)
	}
	return t.prepare(sql)
}

// writable breaks a View that tries to write.
func (t *tx) writable() error {
	if t.mem == nil && t.broken == nil {
		t.broken = errReadOnly
	}
	return t.broken
}

// fail translates an unexpected failure of a statement and breaks the transaction.
func (t *tx) fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	if t.broken == nil {
		t.broken = translate(doing, err)
	}
	return t.broken
}

// failed is fail for the statements of which a duplicate is a foreseen answer.
func (t *tx) failed(doing string, err error, duplicate func() error) error {
	if isUnique(err) {
		return duplicate()
	}
	return t.fail(doing, err)
}

// one reports whether a statement that must change a row did.
func (t *tx) one(doing string, changed int64, err error, missing func() error) error {
	if err != nil {
		return t.fail(doing, err)
	}
	if changed == 0 {
		return missing()
	}
	return nil
}

// list collects what scan makes of each row.
func list[T any](t *tx, doing string, s *native.Stmt, scan func(*native.Stmt) T) ([]T, error) {
	var out []T
	err := s.Rows(func(s *native.Stmt) error {
		out = append(out, scan(s))
		return nil
	})
	if err != nil {
		return nil, t.fail(doing, err)
	}
	return out, nil
}

// single returns what scan makes of the first row.
func single[T any](t *tx, doing string, s *native.Stmt, scan func(*native.Stmt) T, missing func() error) (v T, err error) {
	found, err := s.Row(func(s *native.Stmt) { v = scan(s) })
	if err != nil {
		return v, t.fail(doing, err)
	}
	if !found {
		return v, missing()
	}
	return v, nil
}

// count returns the only number of the only row.
func (t *tx) count(doing string, s *native.Stmt) (n int64, err error) {
	if _, err = s.Row(func(s *native.Stmt) { n = s.ColInt(0) }); err != nil {
		return 0, t.fail(doing, err)
	}
	return n, nil
}

// keyNumber is a key's id as it is stored. Ids have been parsed at the edge; anything else is nobody's.
func keyNumber(k relay.KeyID) int64 {
	n, err := strconv.ParseUint(string(k), 16, 32)
	if err != nil {
		return -1
	}
	return int64(n)
}

func keyID(n int64) relay.KeyID {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	return relay.KeyID(hex.EncodeToString(b[:]))
}

// idBytes is a notification's id as it is stored: the 12 bytes that its digits name, none when they name none.
func idBytes(id relay.NotificationID) []byte {
	if _, ok := relay.ParseNotificationID(string(id)); !ok {
		return nil
	}
	b, _ := hex.DecodeString(string(id[2:]))
	return b
}

func notificationID(b []byte) relay.NotificationID {
	return relay.NotificationID("r_" + hex.EncodeToString(b))
}

// before returns the least stored instant that is not before t: x < before(t) holds for the instants before t, and
// x >= before(t) for those at or after it.
func before(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}
