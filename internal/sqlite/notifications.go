package sqlite

import (
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

type notifications struct{ *tx }

func noNotification() error { return fault.NotFoundf("there is no such notification") }

// row is where a notification lies, with what the tallies need to know of it.
type row struct {
	id             relay.NotificationID
	mailbox        relay.MailboxID
	n              int64
	waiting        bool
	payload, bytes int64 // bytes counts the payload too
}

const notificationColumns = `nt.n, nt.id, nt.key, nt.seq, nt.waiting, nt.bytes, nt.created_at, nt.agent_id, nt.expect_reply,
	nt.acked_at, nt.displayed_at, nt.spoken_at, nt.replied_at, nt.text, nt.transcript, nt.duration,
	nt.clip_bytes, nt.clip_type, nt.suppressed, nt.reason, nt.scope, nt.payload`

const columnsOfNotification = 22

func scanNotification(s *native.Stmt, m relay.MailboxID) (n relay.Notification, at row) {
	var id [12]byte
	s.ColBytes(1, id[:])
	n = relay.Notification{
		ID: notificationID(id[:]), Mailbox: m, Key: keyID(s.ColInt(2)), Seq: s.ColInt(3), CreatedAt: s.ColTime(6),
		AgentID: s.ColText(7), ExpectReply: s.ColBool(8),
		AckedAt: s.ColTime(9), DisplayedAt: s.ColTime(10), SpokenAt: s.ColTime(11), RepliedAt: s.ColTime(12),
		Text: s.ColText(13), Transcript: s.ColText(14), Duration: s.ColFloat(15), ClipBytes: s.ColInt(16), ClipType: s.ColText(17),
		Suppressed: s.ColBool(18), Reason: s.ColText(19), Scope: s.ColText(20), Payload: s.ColBlob(21),
	}
	if n.AgentID == "" {
		n.AgentID = n.ID.MadeAgentID()
	}
	return n, row{id: n.ID, mailbox: m, n: s.ColInt(0), waiting: s.ColBool(4), bytes: s.ColInt(5), payload: int64(len(n.Payload))}
}

// find runs a query for one notification of m and remembers where it lies.
func (t notifications) find(m relay.MailboxID, s *native.Stmt) (n relay.Notification, err error) {
	return single(t.tx, "read notification", s, func(s *native.Stmt) relay.Notification {
		n, t.seen = scanNotification(s, m)
		return n
	}, noNotification)
}

func (t notifications) Get(m relay.MailboxID, id relay.NotificationID) (relay.Notification, error) {
	const query = `SELECT ` + notificationColumns + ` FROM notifications nt
		WHERE nt.id = ? AND nt.mailbox = (SELECT n FROM mailboxes WHERE id = ?)`
	return t.find(m, t.prepare(query).Blob(idBytes(id)).Text(string(m)))
}

func (t notifications) Sent(m relay.MailboxID, k relay.KeyID, agentID string, since time.Time) (relay.Notification, error) {
	const own = `SELECT ` + notificationColumns + ` FROM notifications nt INDEXED BY notifications_agent_id
		WHERE nt.mailbox = (SELECT n FROM mailboxes WHERE id = ?) AND nt.key = ? AND nt.agent_id = ? AND nt.created_at >= ?`
	n, err := t.find(m, t.prepare(own).Text(string(m)).Int(keyNumber(k)).Text(agentID).Int(before(since)))
	id, made := relay.FromMadeAgentID(agentID)
	if !made || !fault.Is(err, fault.NotFound) {
		return n, err
	}
	const derived = `SELECT ` + notificationColumns + ` FROM notifications nt
		WHERE nt.id = ? AND nt.mailbox = (SELECT n FROM mailboxes WHERE id = ?) AND nt.key = ? AND nt.agent_id IS NULL
		AND nt.created_at >= ?`
	return t.find(m, t.prepare(derived).Blob(idBytes(id)).Text(string(m)).Int(keyNumber(k)).Int(before(since)))
}

// Insert does not look whether another notification claims the id derived from n.ID: half of that id is random, so nobody
// can have claimed it before.
func (t notifications) Insert(n *relay.Notification, forget time.Time) error {
	b, err := t.box(n.Mailbox)
	if err != nil {
		return err
	}
	agentID := n.AgentID
	if agentID == n.ID.MadeAgentID() {
		agentID = ""
	}
	if id, made := relay.FromMadeAgentID(agentID); made {
		if err := t.derivedIsFree(n.Mailbox, n.Key, id, forget); err != nil {
			return err
		}
	}
	err = t.insert(n, b, agentID)
	if isUnique(err) && agentID != "" {
		if err := t.takeOver(b, keyNumber(n.Key), agentID, forget); err != nil {
			return err
		}
		err = t.insert(n, b, agentID)
	}
	if err != nil {
		return t.failed("insert notification", err, func() error { return conflict("a notification with that id exists") })
	}
	return t.tallySent(n, b)
}

// derivedIsFree refuses an agent's own id that equals the one derived from a younger notification of the key.
func (t notifications) derivedIsFree(m relay.MailboxID, k relay.KeyID, id relay.NotificationID, forget time.Time) error {
	other, err := t.Get(m, id)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case other.Key == k && other.AgentID == id.MadeAgentID() && other.CreatedAt.UnixMilli() >= before(forget):
		return agentIDTaken()
	}
	return nil
}

func agentIDTaken() error { return conflict("the key has sent another notification under that id") }

// takeOver makes the notification that holds an agent's id give it up, if it is old enough. When none holds it, the
// duplicate was the relay's own id.
func (t notifications) takeOver(b *box, key int64, agentID string, forget time.Time) error {
	const query = `SELECT created_at FROM notifications INDEXED BY notifications_agent_id
		WHERE mailbox = ? AND key = ? AND agent_id = ?`
	created, err := single(t.tx, "find agent id", t.prepare(query).Int(b.n).Int(key).Text(agentID),
		func(s *native.Stmt) int64 { return s.ColInt(0) },
		func() error { return conflict("a notification with that id exists") })
	if err != nil {
		return err
	}
	if created >= before(forget) {
		return agentIDTaken()
	}
	const update = `UPDATE notifications SET agent_id = NULL WHERE mailbox = ? AND key = ? AND agent_id = ?`
	_, err = t.change(update).Int(b.n).Int(key).Text(agentID).Exec()
	return t.fail("take over agent id", err)
}

// insert writes the row as the mailbox's next. Its errors are the library's own.
func (t notifications) insert(n *relay.Notification, b *box, agentID string) error {
	const insert = `INSERT INTO notifications (id, mailbox, prev, key, seq, waiting, bytes, created_at, agent_id, expect_reply,
		acked_at, displayed_at, spoken_at, replied_at, text, transcript, duration, clip_bytes, clip_type,
		suppressed, reason, scope, payload)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	s := t.change(insert).Blob(idBytes(n.ID)).Int(b.n).Int(b.last).Int(keyNumber(n.Key)).Int(b.seq + 1).Bool(n.Waiting()).
		Int(int64(len(n.Payload)) + replyBytes(n)).Int(n.CreatedAt.UnixMilli()).OptText(agentID).Bool(n.ExpectReply)
	_, err := bindReceipt(s, n).Blob(n.Payload).Exec()
	return err
}

// bindReceipt binds what became of n, in the order of the columns from acked_at to scope.
func bindReceipt(s *native.Stmt, n *relay.Notification) *native.Stmt {
	return s.Time(n.AckedAt).Time(n.DisplayedAt).Time(n.SpokenAt).Time(n.RepliedAt).OptText(n.Text).OptText(n.Transcript).
		Float(n.Duration).Int(n.ClipBytes).OptText(n.ClipType).Bool(n.Suppressed).OptText(n.Reason).OptText(n.Scope)
}

func replyBytes(n *relay.Notification) int64 {
	return int64(len(n.Text)+len(n.Transcript)) + n.ClipBytes
}

// tallySent counts a new notification and gives it its place.
func (t notifications) tallySent(n *relay.Notification, b *box) error {
	place := t.c.LastInsertID()
	if err := t.turnDay(b, relay.Day(n.CreatedAt)); err != nil {
		return err
	}
	c := t.mem.change(b)
	c.last = place
	c.seq++
	c.notified++
	c.bytes += int64(len(n.Payload)) + replyBytes(n)
	if n.Waiting() {
		c.waiting++
		t.mem.waitsSince(n.CreatedAt.UnixMilli())
	}
	t.mem.sent(b, keyNumber(n.Key), n.CreatedAt.UnixMilli())
	n.Seq = c.seq
	return nil
}

func (t notifications) Save(n relay.Notification) error {
	at, err := t.locate(n.Mailbox, n.ID)
	if err != nil {
		return err
	}
	b, err := t.box(n.Mailbox)
	if err != nil {
		return err
	}
	// Columns that are indexed are only named when they change: naming them rewrites the index entries.
	const receipt = `acked_at = ?, displayed_at = ?, spoken_at = ?, replied_at = ?, text = ?, transcript = ?, duration = ?,
		clip_bytes = ?, clip_type = ?, suppressed = ?, reason = ?, scope = ?, bytes = ?`
	const update = `UPDATE notifications SET ` + receipt + ` WHERE n = ?`
	const updateWaiting = `UPDATE notifications SET ` + receipt + `, waiting = ? WHERE n = ?`
	waiting, bytes := n.Waiting(), at.payload+replyBytes(&n)
	if waiting == at.waiting {
		_, err = bindReceipt(t.change(update), &n).Int(bytes).Int(at.n).Exec()
	} else {
		_, err = bindReceipt(t.change(updateWaiting), &n).Int(bytes).Bool(waiting).Int(at.n).Exec()
	}
	if err != nil {
		return t.fail("save notification", err)
	}
	t.tallySaved(b, at, waiting, bytes, n.CreatedAt)
	return nil
}

func (t notifications) tallySaved(b *box, at row, waiting bool, bytes int64, created time.Time) {
	t.seen = at
	t.seen.waiting, t.seen.bytes = waiting, bytes
	if waiting == at.waiting && bytes == at.bytes {
		return
	}
	c := t.mem.change(b)
	c.bytes += bytes - at.bytes
	switch {
	case waiting && !at.waiting:
		c.waiting++
		t.mem.oldest = unknown // n.CreatedAt is the caller's word
	case !waiting && at.waiting:
		c.waiting--
	}
}

// locate finds where a notification lies; right after it was read or sent, that is known.
func (t notifications) locate(m relay.MailboxID, id relay.NotificationID) (row, error) {
	if err := t.writable(); err != nil {
		return row{}, err
	}
	if t.seen.n != 0 && t.seen.id == id && t.seen.mailbox == m && t.broken == nil {
		return t.seen, nil
	}
	const query = `SELECT n, waiting, bytes, octet_length(payload) FROM notifications
		WHERE id = ? AND mailbox = (SELECT n FROM mailboxes WHERE id = ?)`
	return single(t.tx, "locate notification", t.prepare(query).Blob(idBytes(id)).Text(string(m)), func(s *native.Stmt) row {
		return row{id: id, mailbox: m, n: s.ColInt(0), waiting: s.ColBool(1), bytes: s.ColInt(2), payload: s.ColInt(3)}
	}, noNotification)
}

func (t notifications) Waiting(m relay.MailboxID, after int64, limit int) ([]store.Waiting, error) {
	const query = `SELECT ` + notificationColumns + `, coalesce(k.name, ?), coalesce(k.client, ?)
		FROM notifications nt INDEXED BY notifications_waiting LEFT JOIN keys k ON k.mailbox = nt.mailbox AND k.id = nt.key
		WHERE nt.mailbox = (SELECT n FROM mailboxes WHERE id = ?) AND nt.waiting = 1 AND nt.seq > ? ORDER BY nt.seq LIMIT ?`
	s := t.prepare(query).Text(store.UnknownName).Text(store.UnknownClient).Text(string(m)).Int(after).Int(int64(limit))
	return list(t.tx, "list waiting notifications", s, func(s *native.Stmt) store.Waiting {
		n, _ := scanNotification(s, m)
		return store.Waiting{Notification: n, KeyName: s.ColText(columnsOfNotification), KeyClient: s.ColText(columnsOfNotification + 1)}
	})
}

func (t notifications) CountWaiting(m relay.MailboxID) (int64, error) {
	b, err := t.box(m)
	if err != nil {
		return 0, absent(err)
	}
	return b.waiting, nil
}

func (t notifications) Size(m relay.MailboxID) (int64, error) {
	b, err := t.box(m)
	if err != nil {
		return 0, absent(err)
	}
	return b.bytes, nil
}

// absent turns NotFound into nothing: sums over a mailbox that is gone are zero.
func absent(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
