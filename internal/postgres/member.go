package postgres

import (
	"context"

	"github.com/herald-relay/herald/internal/relay"
)

// member is one call of View or Update on its way through a group. Its caller's goroutine runs fn; whenever fn needs the
// database, it hands a step to the group's leader and sleeps until the leader has the answer.
type member struct {
	s     *Store
	ctx   context.Context
	line  *line      // where a first step waits for a leader
	reply chan error // room for one, so that a leader never waits for a member

	group *group // set by the leader before its first reply
	dead  error  // why this attempt is over; every later step gets it
	told  bool   // results were handed to fn
	wrote bool   // the open transaction may hold writes of this member; kept by the leader
}

// step is what a member asks of its group at once. Locks come first, then the writes that were put off, then the
// admission, then the queries in their order.
type step struct {
	from      *member
	directory bool // lock what no mailbox owns
	boxes     []*box
	writes    *writes
	admission *admission
	queries   []*query
	end       ending
	answered  bool // by the leader; it has been told its answer
}

type ending uint8

const (
	goesOn ending = iota
	commits
	leaves
)

// box is what an Update knows of a mailbox that it owns.
type box struct {
	id      relay.MailboxID
	raw     []byte // id as stored
	exists  bool
	lastSeq int64
	waiting int64
	dirty   bool // last_seq or waiting differ from the database
}

// take hands a step to the group, joining one first, and waits for the answer.
func (m *member) take(st *step) error {
	if m.dead != nil {
		return m.dead
	}
	st.from = m
	if m.group == nil {
		m.dead = m.join(st)
	} else {
		m.dead = m.follow(st)
	}
	m.told = m.told || m.dead == nil
	return m.dead
}

// join waits for a leader. A first step always gets a reply once a leader has taken it.
func (m *member) join(st *step) error {
	if err := m.line.join(m.ctx, st); err != nil {
		return err
	}
	return <-m.reply
}

func (m *member) follow(st *step) error {
	m.group.steps <- st // never blocks, see group.steps
	select {
	case err := <-m.reply:
		return err
	case <-m.group.done:
		return m.group.outcome
	}
}

// leave takes the member out of its group. Whatever it wrote there is undone, by the end of the group at the latest.
func (m *member) leave() {
	if m.group != nil && !m.group.over() {
		m.group.steps <- &step{from: m, end: leaves}
		m.dead = errLeft
	}
}
