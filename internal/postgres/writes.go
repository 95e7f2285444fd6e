package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/herald-relay/herald/internal/relay"
)

// writes are what an Update has put off: it needs no answer, so it travels with the next question or with the COMMIT,
// merged with what the neighbours put off. All of it lies under the mailbox lock of its Update.
type writes struct {
	freed   []relay.NotificationID // agent ids to give up
	inserts []insertion
	saves   []relay.Notification
	boxes   []*box // whose counters changed
	usage   []usageRow
	rest    []*query // in their order, after everything else
}

type insertion struct {
	*relay.Notification
	keySeq int64
}

type usageKey struct {
	mailbox relay.MailboxID
	day     string
}

// usageRow is what is to be added to the row of a day. exists says that the row is known to be there.
type usageRow struct {
	usageKey
	relay.Usage
	exists bool
}

// write adds the merged writes of all steps.
func (t *trip) write(steps []*step) {
	var all writes
	var sent, old, fresh []usageRow
	for _, st := range steps {
		w := st.writes
		if w == nil {
			continue
		}
		st.from.wrote = true
		all.freed = append(all.freed, w.freed...)
		all.inserts = append(all.inserts, w.inserts...)
		all.saves = append(all.saves, w.saves...)
		all.boxes = append(all.boxes, w.boxes...)
		all.rest = append(all.rest, w.rest...)
		for _, u := range w.usage {
			switch {
			case u.exists && u.Usage == relay.Usage{Notifications: u.Notifications}:
				sent = append(sent, u)
			case u.exists:
				old = append(old, u)
			default:
				fresh = append(fresh, u)
			}
		}
	}
	t.free(all.freed)
	t.insert(all.inserts)
	t.save(all.saves)
	t.count(all.boxes)
	t.sent(sent)
	t.use("add to usage", addUsage, old)
	t.use("begin usage", beginUsage, fresh)
	for _, q := range all.rest {
		t.add(q)
	}
}

const freeSQL = `UPDATE notifications SET agent_id = '' WHERE id = ANY($1)`

func (t *trip) free(ids []relay.NotificationID) {
	if len(ids) > 0 {
		t.add(&query{what: "give up agent ids", sql: freeSQL, args: []any{column(ids, func(id *relay.NotificationID) []byte { return noteBytes(*id) })}})
	}
}

// A new notification has an empty receipt; one that was inserted with another is saved right after.
const insertSQL = `
INSERT INTO notifications (id, mailbox, key, seq, key_seq, agent_id, created_at, payload, expect_reply, reply_text,
    reply_transcript, clip_bytes, clip_type, suppressed, reason, scope)
SELECT u.*, '', '', 0, '', false, '', '' FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[],
    $6::text[], $7::bigint[], $8::bytea[], $9::boolean[]) u`

func (t *trip) insert(rows []insertion) {
	if len(rows) == 0 {
		return
	}
	t.add(&query{what: "insert notifications", sql: insertSQL, args: []any{
		column(rows, func(r *insertion) []byte { return noteBytes(r.ID) }),
		column(rows, func(r *insertion) []byte { return idBytes(r.Mailbox) }),
		column(rows, func(r *insertion) []byte { return idBytes(r.Key) }),
		column(rows, func(r *insertion) int64 { return r.Seq }),
		column(rows, func(r *insertion) int64 { return r.keySeq }),
		column(rows, func(r *insertion) *string { return storedAgentID(r.Notification) }),
		column(rows, func(r *insertion) int64 { return r.CreatedAt.UnixMilli() }),
		column(rows, func(r *insertion) []byte { return notNil(r.Payload) }),
		column(rows, func(r *insertion) bool { return r.ExpectReply }),
	}})
}

const saveSQL = `
UPDATE notifications n SET acked_at = u.acked_at, displayed_at = u.displayed_at, spoken_at = u.spoken_at,
    replied_at = u.replied_at, reply_text = u.reply_text, reply_transcript = u.reply_transcript,
    reply_duration = u.reply_duration, clip_bytes = u.clip_bytes, clip_type = u.clip_type, suppressed = u.suppressed,
    reason = u.reason, scope = u.scope
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
    $8::double precision[], $9::bigint[], $10::text[], $11::boolean[], $12::text[], $13::text[])
    AS u (id, acked_at, displayed_at, spoken_at, replied_at, reply_text, reply_transcript, reply_duration, clip_bytes,
    clip_type, suppressed, reason, scope)
WHERE n.id = u.id`

func (t *trip) save(notes []relay.Notification) {
	if len(notes) == 0 {
		return
	}
	ids := column(notes, func(n *relay.Notification) []byte { return noteBytes(n.ID) })
	t.add(&query{what: "save receipts", sql: saveSQL, args: append([]any{ids}, receiptColumns(notes)...)})
}

// receiptColumns are what Save may change, in the order of the statements above.
func receiptColumns(notes []relay.Notification) []any {
	instants := func(value func(*relay.Notification) time.Time) []pgtype.Int8 {
		return column(notes, func(n *relay.Notification) pgtype.Int8 { return millis(value(n)) })
	}
	return []any{
		instants(func(n *relay.Notification) time.Time { return n.AckedAt }),
		instants(func(n *relay.Notification) time.Time { return n.DisplayedAt }),
		instants(func(n *relay.Notification) time.Time { return n.SpokenAt }),
		instants(func(n *relay.Notification) time.Time { return n.RepliedAt }),
		column(notes, func(n *relay.Notification) string { return n.Text }),
		column(notes, func(n *relay.Notification) string { return n.Transcript }),
		column(notes, func(n *relay.Notification) *float64 { return n.Duration }),
		column(notes, func(n *relay.Notification) int64 { return n.ClipBytes }),
		column(notes, func(n *relay.Notification) string { return n.ClipType }),
		column(notes, func(n *relay.Notification) bool { return n.Suppressed }),
		column(notes, func(n *relay.Notification) string { return n.Reason }),
		column(notes, func(n *relay.Notification) string { return n.Scope }),
	}
}

// storedAgentID is NULL for an agent id that can be made from the relay's own, which spares an index entry.
func storedAgentID(n *relay.Notification) *string {
	if n.AgentID == n.ID.MadeAgentID() {
		return nil
	}
	return &n.AgentID
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

const countSQL = `
UPDATE counters c SET last_seq = u.last_seq, waiting = u.waiting
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS u (mailbox, last_seq, waiting)
WHERE c.mailbox = u.mailbox`

func (t *trip) count(boxes []*box) {
	if len(boxes) == 0 {
		return
	}
	t.add(&query{what: "count notifications", sql: countSQL, args: []any{
		column(boxes, func(b **box) []byte { return (*b).raw }),
		column(boxes, func(b **box) int64 { return (*b).lastSeq }),
		column(boxes, func(b **box) int64 { return (*b).waiting }),
	}})
}

const (
	// addSent is the everyday case: notifications of a day that has begun.
	addSent = `
UPDATE usage t SET notifications = t.notifications + u.n FROM unnest($1::bytea[], $2::text[], $3::bigint[]) AS u (mailbox, day, n)
WHERE t.mailbox = u.mailbox AND t.day = u.day`
	usageColumns = `unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::bigint[]) AS u (mailbox, day, requests, ws_messages, notifications, poll_seconds, audio_uploads, audio_bytes)`
	addUsage = `
UPDATE usage t SET requests = t.requests + u.requests, ws_messages = t.ws_messages + u.ws_messages,
    notifications = t.notifications + u.notifications, poll_seconds = t.poll_seconds + u.poll_seconds,
    audio_uploads = t.audio_uploads + u.audio_uploads, audio_bytes = t.audio_bytes + u.audio_bytes
FROM ` + usageColumns + ` WHERE t.mailbox = u.mailbox AND t.day = u.day`
	// A mailbox that is gone has no counters and keeps nothing.
	beginUsage = `
INSERT INTO usage AS t (mailbox, day, requests, ws_messages, notifications, poll_seconds, audio_uploads, audio_bytes)
SELECT u.* FROM ` + usageColumns + ` WHERE EXISTS (SELECT FROM counters c WHERE c.mailbox = u.mailbox)
ON CONFLICT (mailbox, day) DO UPDATE SET requests = t.requests + excluded.requests,
    ws_messages = t.ws_messages + excluded.ws_messages, notifications = t.notifications + excluded.notifications,
    poll_seconds = t.poll_seconds + excluded.poll_seconds, audio_uploads = t.audio_uploads + excluded.audio_uploads,
    audio_bytes = t.audio_bytes + excluded.audio_bytes`
)

func (t *trip) sent(rows []usageRow) {
	if len(rows) == 0 {
		return
	}
	t.add(&query{what: "count sent", sql: addSent, args: []any{
		column(rows, func(r *usageRow) []byte { return idBytes(r.mailbox) }),
		column(rows, func(r *usageRow) string { return r.day }),
		column(rows, func(r *usageRow) int64 { return r.Notifications }),
	}})
}

func (t *trip) use(what, sql string, rows []usageRow) {
	if len(rows) == 0 {
		return
	}
	t.add(&query{what: what, sql: sql, args: []any{
		column(rows, func(r *usageRow) []byte { return idBytes(r.mailbox) }),
		column(rows, func(r *usageRow) string { return r.day }),
		column(rows, func(r *usageRow) int64 { return r.Requests }),
		column(rows, func(r *usageRow) int64 { return r.WSMessages }),
		column(rows, func(r *usageRow) int64 { return r.Notifications }),
		column(rows, func(r *usageRow) int64 { return r.PollSeconds }),
		column(rows, func(r *usageRow) int64 { return r.AudioUploads }),
		column(rows, func(r *usageRow) int64 { return r.AudioBytes }),
	}})
}

// admission is a question that neighbours ask as one statement.
type admission struct {
	mailbox relay.MailboxID
	key     relay.KeyID
	perKey  int
	day     string
	lastSeq int64 // the key's newest key_seq, 0 when none
	nth     time.Time
	today   int64
	counted bool // the day has a row in usage
}

// The nth last is found by its number, so its cost does not depend on n or on how much the key has sent. When it was
// removed already, it is far outside the window that the caller judges. OFFSET 0 keeps the planner from merging the
// search for the last number into the one for the nth, which then would read all that the key has sent.
const admitSQL = `
SELECT a.i, s.last, u.mailbox IS NOT NULL, COALESCE(u.notifications, 0), CASE WHEN s.last >= a.per_key THEN
    (SELECT created_at FROM notifications WHERE mailbox = a.mailbox AND key = a.key AND key_seq = s.last - a.per_key + 1) END
FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::text[]) WITH ORDINALITY AS a (mailbox, key, per_key, day, i)
CROSS JOIN LATERAL (SELECT COALESCE((SELECT key_seq FROM notifications WHERE mailbox = a.mailbox AND key = a.key
    ORDER BY mailbox, key, key_seq DESC LIMIT 1), 0) AS last OFFSET 0) s
LEFT JOIN usage u ON u.mailbox = a.mailbox AND u.day = a.day`

func (t *trip) admit(steps []*step) {
	var rows []*admission
	for _, st := range steps {
		if st.admission != nil {
			rows = append(rows, st.admission)
		}
	}
	if len(rows) == 0 {
		return
	}
	var i int64
	var got admission
	t.add(&query{what: "read admissions", sql: admitSQL, args: []any{
		column(rows, func(a **admission) []byte { return idBytes((*a).mailbox) }),
		column(rows, func(a **admission) []byte { return idBytes((*a).key) }),
		column(rows, func(a **admission) int64 { return int64(max((*a).perKey, 1)) }),
		column(rows, func(a **admission) string { return (*a).day }),
	}, each: func(r pgx.Rows) error {
		if err := r.Scan(&i, &got.lastSeq, &got.counted, &got.today, (*instant)(&got.nth)); err != nil {
			return err
		}
		a := rows[i-1]
		a.lastSeq, a.nth, a.today, a.counted = got.lastSeq, got.nth, got.today, got.counted
		return nil
	}})
}
