package sqlite

import "github.com/herald-relay/herald/internal/sqlite/native"

// chain begins a statement that reads, as nt, the notifications of the mailbox with number ?1 whose latest is ?2, latest
// first. A row that is gone ends it.
const chain = `WITH RECURSIVE nt(n, prev, key, waiting, bytes, created_at) AS (
	SELECT n, prev, key, waiting, bytes, created_at FROM notifications WHERE n = ?2 AND mailbox = ?1
	UNION ALL
	SELECT o.n, o.prev, o.key, o.waiting, o.bytes, o.created_at FROM nt CROSS JOIN notifications o ON o.n = nt.prev AND o.mailbox = ?1) `

// link is a notification as a part of its mailbox's chain.
type link struct {
	n, prev, key int64
	waiting      bool
	bytes        int64
}

// links lists the mailbox's whole chain.
func (t notifications) links(b *box) ([]link, error) {
	const query = chain + `SELECT nt.n, nt.prev, nt.key, nt.waiting, nt.bytes FROM nt`
	return list(t.tx, "walk a mailbox", t.prepare(query).Int(b.n).Int(b.last), func(s *native.Stmt) link {
		return link{n: s.ColInt(0), prev: s.ColInt(1), key: s.ColInt(2), waiting: s.ColBool(3), bytes: s.ColInt(4)}
	})
}

// removeFrom removes the mailbox's notifications that match and closes the chain over the gaps.
func (t notifications) removeFrom(b *box, match func(link) bool) error {
	links, err := t.links(b)
	if err != nil {
		return err
	}
	var kept *link // the latest one kept behind which the chain is open
	for i := range links {
		l := &links[i]
		if match(*l) {
			if err := t.remove(b, *l); err != nil {
				return err
			}
			continue
		}
		if err := t.join(b, kept, l.n); err != nil {
			return err
		}
		kept = l
	}
	return t.join(b, kept, 0)
}

// join makes the chain go on from the link kept, or from the beginning when there is none, with row n.
func (t notifications) join(b *box, kept *link, n int64) error {
	switch {
	case kept == nil:
		if b.last != n {
			t.mem.change(b).last = n
		}
		return nil
	case kept.prev == n:
		return nil
	}
	const update = `UPDATE notifications SET prev = ? WHERE n = ?`
	_, err := t.change(update).Int(n).Int(kept.n).Exec()
	return t.fail("join a chain", err)
}

// remove deletes one row and what the tally counts of it. Closing the chain is left to the caller.
func (t notifications) remove(b *box, l link) error {
	const remove = `DELETE FROM notifications WHERE n = ?`
	if _, err := t.change(remove).Int(l.n).Exec(); err != nil {
		return t.fail("remove notification", err)
	}
	t.seen = row{}
	c := t.mem.change(b)
	c.bytes -= l.bytes
	if l.waiting {
		c.waiting--
	}
	return nil
}

// forget removes one notification, in all likelihood the mailbox's oldest: then the chain simply ends earlier.
func (t notifications) forget(b *box, l link) error {
	const query = `SELECT count(*) FROM notifications WHERE n = (SELECT prev FROM notifications WHERE n = ?)`
	older, err := t.count("look for an older notification", t.prepare(query).Int(l.n))
	switch {
	case err != nil:
		return err
	case older != 0: // the clock was wrong once: this one is in the middle
		return t.removeFrom(b, func(other link) bool { return other.n == l.n })
	case b.last == l.n:
		t.mem.change(b).last = 0
	}
	return t.remove(b, l)
}
