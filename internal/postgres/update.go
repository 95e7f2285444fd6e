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
	// maxAttempts bounds how often one Update is run.
	maxAttempts = 10
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
	var scopes []string
	alone := false
	for attempt := 1; ; attempt++ {
		u := &update{member: member{s: s, ctx: ctx, queue: s.updates, reply: make(chan error, 1)}, scopes: scopes, alone: alone}
		if alone || attempt > lonelyAfter {
			u.alone, u.queue = true, s.lonely
		}
		err := u.attempt(fn)
		how, bad := errors.AsType[*setback](u.dead)
		if !bad {
			return err
		}
		if how.retry == never || attempt == maxAttempts {
			return translate(how.cause)
		}
		scopes, alone = u.scopes, u.alone || how.retry == aloneAgain
		if how.retry == afterWait {
			if err := pause(ctx, attempt); err != nil {
				return err
			}
		}
	}
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

	owned    map[string]bool // latches held
	unlocked []*box          // owned mailboxes that the next step locks
	gate     bool            // the next step locks the directory

	boxes   map[relay.MailboxID]*box
	waiting map[relay.NotificationID]bool // what is known of notifications: whether they wait
	lastSeq map[sender]int64              // newest key_seq by key
	holders map[agentID]holder
	put     *writes
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
	u.owned, u.boxes = map[string]bool{}, map[relay.MailboxID]*box{}
	u.learnNothing()
	defer u.release()
	if err := u.ownAll(); err != nil {
		return err
	}
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

func (u *update) learnNothing() {
	u.waiting, u.lastSeq, u.holders = map[relay.NotificationID]bool{}, map[sender]int64{}, map[agentID]holder{}
}

// ownAll takes the latches wanted from the start, in their order, so that no two updates wait for each other.
func (u *update) ownAll() error {
	slices.Sort(u.scopes)
	for _, name := range u.scopes {
		if err := u.s.latches.lock(u.ctx, name); err != nil {
			return err
		}
		u.hold(name)
	}
	return nil
}

func (u *update) hold(name string) {
	u.owned[name] = true
	if name == directory {
		u.gate = true
		return
	}
	b := &box{id: relay.MailboxID(name)}
	u.boxes[b.id] = b
	u.unlocked = append(u.unlocked, b)
}

func (u *update) release() {
	for name := range u.owned {
		u.s.latches.unlock(name)
	}
}

// own makes the update the owner of a scope. The first one it may wait for; another one that is taken ends the attempt,
// because its owner may be waiting for what this update holds.
func (u *update) own(name string) error {
	switch {
	case u.dead != nil:
		return u.dead
	case u.owned[name]:
		return nil
	case len(u.owned) == 0:
		if err := u.s.latches.lock(u.ctx, name); err != nil {
			u.dead = err
			return err
		}
	case !u.s.latches.tryLock(name):
		return u.rerun(again, name)
	}
	if !slices.Contains(u.scopes, name) {
		u.scopes = append(u.scopes, name)
	}
	u.hold(name)
	return nil
}

// rerun ends the attempt, to be repeated with one more scope owned from the start.
func (u *update) rerun(how retry, scope string) error {
	if scope != "" {
		u.scopes = append(u.scopes, scope)
	}
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
	return u.boxes[m], nil
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
		u.alone, u.queue = true, u.s.lonely
		return nil
	}
	return u.rerun(aloneAgain, "")
}

// ask takes a step, with the locks that are due and the writes that were put off.
func (u *update) ask(st *step) error {
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
		u.put = &writes{usage: map[usageKey]relay.Usage{}}
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
	u.learnNothing()
	for _, b := range u.boxes {
		u.unlocked = append(u.unlocked, b)
	}
}
