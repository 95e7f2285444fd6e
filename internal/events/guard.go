package events

import (
	"context"
	"errors"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/mcpevents"
)

func isNotFound(err error) bool { return errors.Is(err, mcpevents.ErrNotFound) }

// Guard returns st with one promise more: whoever revokes or removes a key within a transaction ends its subscriptions
// and drops what waits for them; and once that has committed, the streams of that key in this process end. Those in others
// end at their next heartbeat. server need not run.
func Guard(st store.Store, server *mcpevents.Server) store.Store { return guarded{st, server} }

type guarded struct {
	store.Store
	server *mcpevents.Server
}

func (g guarded) Update(ctx context.Context, fn func(store.Tx) error) error {
	var revoked []string
	err := g.Store.Update(ctx, func(tx store.Tx) error {
		revoked = nil // fn may run more than once
		return fn(guardedTx{tx, g.server, &revoked})
	})
	if err == nil {
		for _, p := range revoked { // what streams to them ends now
			g.server.Revoked(p)
		}
	}
	return err
}

type guardedTx struct {
	store.Tx
	server  *mcpevents.Server
	revoked *[]string // principals
}

func (t guardedTx) People() store.People       { return guardedPeople{t.Tx.People(), t} }
func (t guardedTx) Mailboxes() store.Mailboxes { return guardedMailboxes{t.Tx.Mailboxes(), t} }
func (t guardedTx) Keys() store.Keys           { return guardedKeys{t.Tx.Keys(), t} }

// end ends what a key subscribed to.
func (t guardedTx) end(m relay.MailboxID, k relay.KeyID) error {
	*t.revoked = append(*t.revoked, principal(m, k))
	return t.server.RevokeTx(t.Tx.Events(), principal(m, k))
}

// endAll ends what the keys of a mailbox subscribed to.
func (t guardedTx) endAll(m relay.MailboxID) error {
	keys, err := t.Tx.Keys().List(m)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := t.end(m, k.ID); err != nil {
			return err
		}
	}
	return nil
}

type guardedKeys struct {
	store.Keys
	t guardedTx
}

func (k guardedKeys) Revoke(m relay.MailboxID, id relay.KeyID, at time.Time) error {
	if err := k.Keys.Revoke(m, id, at); err != nil {
		return err
	}
	return k.t.end(m, id)
}

func (k guardedKeys) Purge(m relay.MailboxID, id relay.KeyID) error {
	if err := k.Keys.Purge(m, id); err != nil {
		return err
	}
	return k.t.end(m, id)
}

type guardedMailboxes struct {
	store.Mailboxes
	t guardedTx
}

func (b guardedMailboxes) Delete(m relay.MailboxID) error {
	if err := b.t.endAll(m); err != nil {
		return err
	}
	return b.Mailboxes.Delete(m)
}

type guardedPeople struct {
	store.People
	t guardedTx
}

func (p guardedPeople) Delete(id relay.PersonID) error {
	boxes, err := p.t.Tx.Mailboxes().List(id)
	if err != nil {
		return err
	}
	for _, b := range boxes {
		if err := p.t.endAll(b.ID); err != nil {
			return err
		}
	}
	return p.People.Delete(id)
}
