package postgres

import (
	"errors"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

var errReadOnly = errors.New("postgres: a View cannot write")

// tx is one transaction as its fn sees it. Exactly one of its fields is set.
type tx struct {
	u *update
	v *member
}

var _ store.Tx = (*tx)(nil)

func (t *tx) People() store.People               { return people{t} }
func (t *tx) Mailboxes() store.Mailboxes         { return mailboxes{t} }
func (t *tx) Devices() store.Devices             { return devices{t} }
func (t *tx) Keys() store.Keys                   { return keys{t} }
func (t *tx) Notifications() store.Notifications { return notifications{t} }
func (t *tx) Usage() store.Usage                 { return usage{t} }
func (t *tx) Pairing() store.Pairing             { return pairing{t} }
func (t *tx) Marks() store.Marks                 { return marks{t} }

// read asks about a mailbox, which an Update owns from then on.
func (t *tx) read(m relay.MailboxID, queries ...*query) error { return t.ask(string(m), queries) }

// readShared asks about what no mailbox owns.
func (t *tx) readShared(queries ...*query) error { return t.ask(directory, queries) }

func (t *tx) ask(scope string, queries []*query) error {
	if t.v != nil {
		for _, q := range queries {
			if err := q.check(); err != nil {
				return err
			}
		}
		return t.v.take(&step{queries: queries})
	}
	if err := t.u.own(scope); err != nil {
		return err
	}
	return t.u.ask(&step{queries: queries})
}

// writer returns the update, owning a scope.
func (t *tx) writer(scope string) (*update, error) {
	if t.u == nil {
		return nil, errReadOnly
	}
	return t.u, t.u.own(scope)
}

// change runs one statement that writes for a scope, now.
func (t *tx) change(scope string, q *query) error {
	u, err := t.writer(scope)
	if err != nil {
		return err
	}
	q.writes = true
	return u.ask(&step{queries: []*query{q}})
}

// changeLater puts off one statement that writes for a scope.
func (t *tx) changeLater(scope string, q *query) error {
	if t.u == nil {
		return errReadOnly
	}
	if err := t.u.ownLater(scope); err != nil {
		return err
	}
	q.writes = true
	return t.u.later(q)
}

// owner returns the update, owning a scope and sharing its transaction with nobody.
func (t *tx) owner(scope string) (*update, error) {
	if t.u == nil {
		return nil, errReadOnly
	}
	if err := t.u.wide(); err != nil {
		return nil, err
	}
	return t.u, t.u.own(scope)
}

// exists is NotFound when the mailbox is gone; the update owns it afterwards.
func (t *tx) exists(m relay.MailboxID) error {
	if t.u == nil {
		return errReadOnly
	}
	b, err := t.u.ownBox(m)
	if err == nil && !b.exists {
		err = noMailbox()
	}
	return err
}

// sweep runs one statement over rows that no Update reads any more.
func (t *tx) sweep(q *query) (int, error) {
	if t.u == nil {
		return 0, errReadOnly
	}
	if err := t.u.wide(); err != nil {
		return 0, err
	}
	q.writes = true
	err := t.u.ask(&step{queries: []*query{q}})
	return int(q.count), err
}
