package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

type notifications struct{ t *tx }

const noteColumns = `n.id, n.mailbox, n.key, n.agent_id, n.seq, n.created_at, n.payload, n.expect_reply, n.acked_at,
    n.displayed_at, n.spoken_at, n.replied_at, n.reply_text, n.reply_transcript, n.reply_duration, n.clip_bytes,
    n.clip_type, n.suppressed, n.reason, n.scope`

func scanNote(rows pgx.Rows, n *relay.Notification, more ...any) error {
	var agentID pgtype.Text
	fields := append([]any{(*noteID)(&n.ID), (*hexText)(&n.Mailbox), (*hexText)(&n.Key), &agentID, &n.Seq, (*instant)(&n.CreatedAt),
		&n.Payload, &n.ExpectReply, (*instant)(&n.AckedAt), (*instant)(&n.DisplayedAt), (*instant)(&n.SpokenAt),
		(*instant)(&n.RepliedAt), &n.Text, &n.Transcript, &n.Duration, &n.ClipBytes, &n.ClipType, &n.Suppressed, &n.Reason,
		&n.Scope}, more...)
	if err := rows.Scan(fields...); err != nil {
		return err
	}
	n.AgentID = agentID.String
	if !agentID.Valid {
		n.AgentID = n.ID.MadeAgentID()
	}
	return nil
}

func noNotification() error { return fault.NotFoundf("no such notification, or not any more") }

const getNote = `SELECT ` + noteColumns + ` FROM notifications n WHERE n.id = $1 AND n.mailbox = $2`

func (s notifications) Get(m relay.MailboxID, id relay.NotificationID) (n relay.Notification, err error) {
	q := &query{what: "get notification", sql: getNote, args: []any{noteBytes(id), idBytes(m)},
		each: func(r pgx.Rows) error { return scanNote(r, &n) }}
	if err = s.t.read(m, q); err == nil && q.count == 0 {
		err = noNotification()
	}
	if err == nil && s.t.u != nil {
		s.t.u.waiting.learn(place{m, id}, n.Waiting())
	}
	return n, err
}

const (
	sentNote = `
SELECT ` + noteColumns + ` FROM notifications n WHERE n.mailbox = $1 AND n.key = $2 AND n.agent_id = $3`
	// An id of the made shape is the relay's own, or an agent sent one that looks like it.
	sentMadeNote = `
SELECT ` + noteColumns + ` FROM notifications n WHERE n.id = $4 AND n.mailbox = $1 AND n.key = $2 AND n.agent_id IS NULL
UNION ALL ` + sentNote + ` LIMIT 1`
)

// sent finds the holder of an agent's id, however old. id is "" when there is none.
func (s notifications) sent(m relay.MailboxID, k relay.KeyID, id string) (n relay.Notification, err error) {
	if !storable(id) || id == "" {
		return n, nil // nothing holds what cannot be stored
	}
	q := &query{what: "find notification sent", sql: sentNote, args: []any{idBytes(m), idBytes(k), id},
		each: func(r pgx.Rows) error { return scanNote(r, &n) }}
	if made, ok := relay.FromMadeAgentID(id); ok {
		q.sql, q.args = sentMadeNote, append(q.args, noteBytes(made))
	}
	err = s.t.read(m, q)
	if err == nil && s.t.u != nil {
		s.t.u.holders.learn(agentID{sender{m, k}, id}, holder{n.ID, n.CreatedAt})
		if n.ID != "" {
			s.t.u.waiting.learn(place{m, n.ID}, n.Waiting())
		}
	}
	return n, err
}

func (s notifications) Sent(m relay.MailboxID, k relay.KeyID, id string, since time.Time) (relay.Notification, error) {
	n, err := s.sent(m, k, id)
	if err != nil {
		return relay.Notification{}, err
	}
	if n.ID == "" || n.CreatedAt.Before(since) {
		return relay.Notification{}, noNotification()
	}
	return n, nil
}

const viewAdmission = `SELECT waiting FROM counters WHERE mailbox = $1`

// Admission counts in the order of acceptance: once the nth last send is dated ahead, the clock was set back since, and
// fewer than n of those after it count.
func (s notifications) Admission(m relay.MailboxID, k relay.KeyID, perKey int, now time.Time) (relay.Admission, error) {
	a := &admission{mailbox: m, key: k, perKey: perKey, day: relay.Day(now)}
	waiting, err := s.admission(a)
	if err != nil {
		return relay.Admission{}, err
	}
	if a.nth.After(now.Add(relay.ClockSlack)) {
		a.nth = time.Time{}
	}
	return relay.Admission{NthSend: a.nth, Today: a.today, Waiting: waiting}, nil
}

func (s notifications) admission(a *admission) (waiting int64, err error) {
	if s.t.u == nil {
		q := &query{what: "count waiting", sql: viewAdmission, args: []any{idBytes(a.mailbox)}, each: one(&waiting)}
		if err = s.t.v.take(&step{admission: a, queries: []*query{q}}); err == nil && q.count == 0 {
			err = noMailbox()
		}
		return waiting, err
	}
	u := s.t.u
	if err := u.own(string(a.mailbox)); err != nil {
		return 0, err
	}
	if err := u.ask(&step{admission: a}); err != nil {
		return 0, err
	}
	u.lastSeq.learn(sender{a.mailbox, a.key}, a.lastSeq)
	u.counted.learn(usageKey{a.mailbox, a.day}, a.counted)
	b, _ := u.boxes.get(a.mailbox)
	if !b.exists {
		return 0, noMailbox()
	}
	return b.waiting, nil
}

// Insert only asks what this Update has not learned yet: after Sent and Admission it costs no round trip of its own.
func (s notifications) Insert(n *relay.Notification, forget time.Time) error {
	u, err := s.insertable(n)
	if err != nil {
		return err
	}
	b, err := u.ownBox(n.Mailbox)
	if err != nil {
		return err
	}
	if !b.exists {
		return noMailbox()
	}
	key := sender{n.Mailbox, n.Key}
	last, err := s.lastSeq(key)
	if err != nil {
		return err
	}
	old, err := s.holder(agentID{key, n.AgentID}, n.ID)
	if err != nil {
		return err
	}
	if old.id != "" && !old.createdAt.Before(forget) {
		return fault.New(fault.Conflict, "conflict", "this key sent a notification with that notificationId already")
	}
	b.lastSeq++
	n.Seq = b.lastSeq
	u.changed(b)
	stored := *n
	u.insert(b, insertion{&stored, last + 1}, old)
	return nil
}

// insert puts off an insertion that is known to be possible.
func (u *update) insert(b *box, in insertion, old holder) {
	w, key := u.putOff(), sender{in.Mailbox, in.Key}
	if old.id != "" {
		w.freed = append(w.freed, old.id)
	}
	w.inserts = append(w.inserts, in)
	if !blank(in.Notification) {
		w.saves = append(w.saves, *in.Notification)
	}
	u.lastSeq.learn(key, in.keySeq)
	u.holders.learn(agentID{key, in.AgentID}, holder{in.ID, relay.Millis(in.CreatedAt)})
	u.waiting.learn(place{in.Mailbox, in.ID}, in.Waiting())
	if in.Waiting() {
		u.addWaiting(b, 1)
	}
	u.addUsage(in.Mailbox, relay.Day(in.CreatedAt), relay.Usage{Notifications: 1})
}

// blank reports whether nothing has become of n yet.
func blank(n *relay.Notification) bool {
	return n.Waiting() && n.SpokenAt.IsZero() && n.RepliedAt.IsZero() && n.Text == "" && n.Transcript == "" && n.Duration == nil &&
		n.ClipBytes == 0 && n.ClipType == "" && n.Reason == "" && n.Scope == ""
}

func (s notifications) insertable(n *relay.Notification) (*update, error) {
	if _, ok := relay.ParseNotificationID(string(n.ID)); !ok {
		return nil, errors.New("insert notification: its id has not the shape of one")
	}
	if !storable(n.AgentID) || n.AgentID == "" {
		return nil, errors.New("insert notification: the agent's id is empty, or holds NUL or invalid UTF-8")
	}
	if err := storableReceipt(n); err != nil {
		return nil, err
	}
	return s.t.writer(string(n.Mailbox))
}

func storableReceipt(n *relay.Notification) error {
	for _, v := range []string{n.Text, n.Transcript, n.ClipType, n.Reason, n.Scope} {
		if !storable(v) {
			return errors.New("store receipt: a text holds NUL or invalid UTF-8")
		}
	}
	return nil
}

const lastKeySeq = `
SELECT key_seq FROM notifications WHERE mailbox = $1 AND key = $2 ORDER BY mailbox, key, key_seq DESC LIMIT 1`

// lastSeq returns the newest key_seq of a key, 0 when it has none.
func (s notifications) lastSeq(k sender) (seq int64, err error) {
	if seq, known := s.t.u.lastSeq.get(k); known {
		return seq, nil
	}
	err = s.t.read(k.mailbox, &query{what: "find last sent", sql: lastKeySeq, args: []any{idBytes(k.mailbox), idBytes(k.key)}, each: one(&seq)})
	s.t.u.lastSeq.learn(k, seq)
	return seq, err
}

// holder finds who answers to the agent's id of a new notification. One made from the notification's own random id has
// no holder, unless its agent guessed 48 random bits before.
func (s notifications) holder(a agentID, id relay.NotificationID) (holder, error) {
	if h, known := s.t.u.holders.get(a); known || a.id == id.MadeAgentID() {
		return h, nil
	}
	n, err := s.sent(a.mailbox, a.key, a.id)
	return holder{n.ID, n.CreatedAt}, err
}

const isWaiting = `SELECT waiting FROM notifications WHERE id = $1 AND mailbox = $2`

// Save costs no round trip of its own when this Update has read the notification.
func (s notifications) Save(n relay.Notification) error {
	if err := storableReceipt(&n); err != nil {
		return err
	}
	u, err := s.t.writer(string(n.Mailbox))
	if err != nil {
		return err
	}
	b, err := u.ownBox(n.Mailbox)
	if err != nil {
		return err
	}
	was, known := u.waiting.get(place{n.Mailbox, n.ID})
	if !known {
		q := &query{what: "find notification", sql: isWaiting, args: []any{noteBytes(n.ID), idBytes(n.Mailbox)}, each: one(&was)}
		if err := u.ask(&step{queries: []*query{q}}); err != nil {
			return err
		}
		if q.count == 0 {
			return noNotification()
		}
	}
	u.save(b, n, was)
	return nil
}

// save puts off storing a receipt, in place of what was put off for it before.
func (u *update) save(b *box, n relay.Notification, was bool) {
	u.waiting.learn(place{n.Mailbox, n.ID}, n.Waiting())
	switch is := n.Waiting(); {
	case is && !was:
		u.addWaiting(b, 1)
	case was && !is:
		u.addWaiting(b, -1)
	}
	w := u.putOff()
	for i := range w.saves {
		if w.saves[i].ID == n.ID {
			w.saves[i] = n
			return
		}
	}
	w.saves = append(w.saves, n)
}

const waitingNotes = `
SELECT ` + noteColumns + `, COALESCE(k.name, 'unknown'), COALESCE(k.client, 'other')
FROM notifications n LEFT JOIN keys k ON k.mailbox = n.mailbox AND k.id = n.key
WHERE n.waiting AND n.mailbox = $1 AND n.seq > $2 ORDER BY n.mailbox, n.seq LIMIT $3`

func (s notifications) Waiting(m relay.MailboxID, after int64, limit int) (out []store.Waiting, err error) {
	return out, s.t.read(m, &query{what: "list waiting", sql: waitingNotes, args: []any{idBytes(m), after, limit},
		each: list(&out, func(r pgx.Rows, w *store.Waiting) error {
			return scanNote(r, &w.Notification, &w.KeyName, &w.KeyClient)
		})})
}

func (s notifications) CountWaiting(m relay.MailboxID) (n int64, err error) {
	if s.t.u == nil {
		return n, s.t.read(m, &query{what: "count waiting", sql: viewAdmission, args: []any{idBytes(m)}, each: one(&n)})
	}
	b, err := s.t.u.ownBox(m)
	if err != nil {
		return 0, err
	}
	return b.waiting, nil
}

const sizeOf = `
SELECT COALESCE(sum(octet_length(payload) + octet_length(reply_text) + octet_length(reply_transcript) + clip_bytes), 0)::bigint
FROM notifications WHERE mailbox = $1`

func (s notifications) Size(m relay.MailboxID) (n int64, err error) {
	return n, s.t.read(m, &query{what: "sum sizes", sql: sizeOf, args: []any{idBytes(m)}, each: one(&n)})
}
