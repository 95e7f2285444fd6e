package postgres

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

const (
	// maxAttempts bounds how often one Update is run after a conflict or a lost connection.
	maxAttempts = 10
	// maxMoves bounds how often it is begun anew because it needed more than it owned. Each time it owns more.
	maxMoves = 1000
	// lonelyAfter is after how many attempts an Update stops sharing, so that no neighbour can hold it up for ever.
	lonelyAfter = 4
	// longestPause bounds the pause before an attempt.
	longestPause = 200 * time.Millisecond
)

// directory is the latch of what no mailbox owns; no mailbox id looks like it.
const directory = "directory"

var errElsewhere = errors.New("postgres: owned elsewhere, to be run again")

// Update implements store.Store. fn may run more than once, see the package comment.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.exit()
	u := &update{}
	for attempt, moves := 1, 0; ; {
		u = s.newUpdate(ctx, u.scopes, u.alone || attempt > lonelyAfter)
		err := u.attempt(fn)
		end, failed := errors.AsType[*setback](u.dead)
		if !failed {
			return err
		}
		if end.cause == errElsewhere && moves < maxMoves {
			moves++
			continue
		}
		if end.retry == never || attempt == maxAttempts {
			return translate(end.cause)
		}
		attempt++
		u.alone = u.alone || end.retry == aloneAgain
		if end.retry == afterWait {
			if err := pause(ctx, attempt); err != nil {
				return err
			}
		}
	}
}

func (s *Store) newUpdate(ctx context.Context, scopes []string, alone bool) *update {
	u := &update{member: member{s: s, ctx: ctx, line: s.updates, reply: make(chan error, 1)}, scopes: scopes, alone: alone}
	if alone {
		u.line = s.lonely
	}
	return u
}

// pause waits a random while that grows with every attempt.
func pause(ctx context.Context, attempt int) error {
	limit := min(longestPause, time.Millisecond<<attempt)
	t := time.NewTimer(rand.N(limit) + time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// update is one attempt at an Update, and what it has learned under its locks.
type update struct {
	member
	scopes []string // what it owns, or has to own from the start of the next attempt
	alone  bool     // it shares its transaction with nobody
	within bool     // its events are those of a mailbox that it owns, so it need not be alone for them

	boxes     facts[relay.MailboxID, *box] // mailboxes owned
	held      []string                     // latches of everything owned
	unlocked  []*box                       // owned mailboxes that the next step locks
	gate      bool                         // the next step locks the directory
	directory bool                         // the directory is owned

	learned
	put *writes
}

// learned is what an update knows of the database because it owns the mailboxes concerned.
type learned struct {
	waiting facts[place, bool]     // whether a notification waits
	lastSeq facts[sender, int64]   // newest key_seq of a key, 0 when there is none
	holders facts[agentID, holder] // who answers to an agent's id
	counted facts[usageKey, bool]  // whether a day has a row in usage
}

// place is a notification in its mailbox.
type place struct {
	mailbox relay.MailboxID
	id      relay.NotificationID
}

type sender struct {
	mailbox relay.MailboxID
	key     relay.KeyID
}

type agentID struct {
	sender
	id string
}

// holder is the notification that answers to an agent's id; none when id is "".
type holder struct {
	id        relay.NotificationID
	createdAt time.Time
}

// attempt runs fn once. When it returns, the update owns nothing any more.
func (u *update) attempt(fn func(store.Tx) error) error {
	defer u.release()
	returned := false
	defer func() {
		if !returned {
			u.depart() // fn panicked or ended its goroutine
		}
	}()
	err := fn(&tx{u: u})
	returned = true
	if u.dead != nil || err != nil {
		u.depart()
		return cmp.Or(err, u.dead)
	}
	if u.group == nil && u.put == nil {
		return nil // it asked nothing and changed nothing
	}
	return u.ask(&step{end: commits})
}

// depart leaves the group and waits for its end, so that nothing of this update is locked when it returns.
func (u *update) depart() {
	u.leave()
	if u.group != nil {
		<-u.group.done
	}
}

// own makes the update the owner of a scope before it goes on. While it owns nothing and shares no transaction, it may
// wait for that. Afterwards, a scope that is taken ends the attempt, because its owner may be waiting for this update.
func (u *update) own(scope string) error {
	if err := u.ownLater(scope); err != nil {
		return err
	}
	return u.settle()
}

// ownLater is own for what is put off: as long as nothing is owned, the scope is only noted.
func (u *update) ownLater(scope string) error {
	switch {
	case u.dead != nil:
		return u.dead
	case u.owns(scope):
		return nil
	case !slices.Contains(u.scopes, scope):
		u.scopes = append(u.scopes, scope)
	}
	if u.free() {
		return nil
	}
	if !u.s.latches.tryLock(scope) {
		return u.rerun(again)
	}
	u.hold(scope)
	return nil
}

func (u *update) owns(scope string) bool {
	if scope == directory {
		return u.directory
	}
	_, owned := u.boxes.get(relay.MailboxID(scope))
	return owned
}

// free reports whether nobody can be waiting for this update.
func (u *update) free() bool { return len(u.held) == 0 && u.group == nil }

// settle takes what was noted, in the one order that everybody keeps, so that no two updates wait for each other.
func (u *update) settle() error {
	if !u.free() {
		return u.dead
	}
	slices.Sort(u.scopes)
	for _, scope := range u.scopes {
		if err := u.s.latches.lock(u.ctx, scope); err != nil {
			u.dead = err
			return err
		}
		u.hold(scope)
	}
	return u.dead
}

func (u *update) hold(scope string) {
	u.held = append(u.held, scope)
	if scope == directory {
		u.directory, u.gate = true, true
		return
	}
	b := &box{id: relay.MailboxID(scope), raw: idBytes(scope)}
	u.boxes.learn(b.id, b)
	u.unlocked = append(u.unlocked, b)
}

func (u *update) release() {
	for _, scope := range u.held {
		u.s.latches.unlock(scope)
	}
}

// rerun ends the attempt, to be repeated with every scope so far owned from the start.
func (u *update) rerun(how retry) error {
	u.depart()
	u.dead = &setback{how, errElsewhere}
	return u.dead
}

// ownBox owns a mailbox and knows its counters.
func (u *update) ownBox(m relay.MailboxID) (*box, error) {
	if err := u.own(string(m)); err != nil {
		return nil, err
	}
	if len(u.unlocked) > 0 {
		if err := u.ask(&step{}); err != nil {
			return nil, err
		}
	}
	b, _ := u.boxes.get(m)
	return b, nil
}

// wide makes sure that the update shares its transaction with nobody, before it touches rows of mailboxes that it does
// not own by name, or many rows.
func (u *update) wide() error {
	switch {
	case u.dead != nil:
		return u.dead
	case u.alone:
		return nil
	case u.group == nil:
		u.alone, u.line = true, u.s.lonely
		return nil
	}
	u.alone = true
	return u.rerun(again)
}

// ask takes a step, with the locks that are due and the writes that were put off.
func (u *update) ask(st *step) error {
	if err := u.settle(); err != nil {
		return err
	}
	for _, q := range st.queries {
		if err := q.check(); err != nil {
			return err
		}
	}
	st.directory, st.boxes, st.writes = u.gate, u.unlocked, u.put
	u.gate, u.unlocked, u.put = false, nil, nil
	if st.writes != nil {
		for _, b := range st.writes.boxes {
			b.dirty = false
		}
	}
	return u.take(st)
}

// putOff returns the writes that travel with the next step.
func (u *update) putOff() *writes {
	if u.put == nil {
		u.put = &writes{}
	}
	return u.put
}

// later puts off a statement whose answer does not matter.
func (u *update) later(q *query) error {
	if u.dead != nil {
		return u.dead
	}
	if err := q.check(); err != nil {
		return err
	}
	w := u.putOff()
	w.rest = append(w.rest, q)
	return nil
}

// changed puts off storing the counters of b.
func (u *update) changed(b *box) {
	if !b.dirty {
		b.dirty = true
		w := u.putOff()
		w.boxes = append(w.boxes, b)
	}
}

// addWaiting changes how many notifications of b wait.
func (u *update) addWaiting(b *box, delta int64) {
	if delta != 0 {
		b.waiting += delta
		u.changed(b)
	}
}

// relearn forgets what is known of notifications and counters, because a statement has changed them behind its back.
func (u *update) relearn() {
	u.learned = learned{}
	for _, scope := range u.held {
		if b, ok := u.boxes.get(relay.MailboxID(scope)); ok {
			u.unlocked = append(u.unlocked, b)
		}
	}
}
