// Package admin is what a relay's operator may do from the command line: see, add and remove people, and invite their
// devices.
//
// A running relay serves it on a unix socket that only its own user can reach, so the command never opens a database that
// the relay holds. Without a running relay the same service works on the store directly.
package admin

import (
	"context"
	"time"

	"github.com/herald-relay/herald/internal/pairing"
	"github.com/herald-relay/herald/internal/relay"
)

// Person is one row of the operator's list.
type Person struct {
	Name      string `json:"name"`
	CreatedAt string `json:"createdAt"`
	Mailboxes int    `json:"mailboxes"`
}

// Invitation lets one device pair. Anybody who holds it can, once, until ExpiresAt.
type Invitation struct {
	Person    string `json:"person"`
	Code      string `json:"code"`
	Link      string `json:"link"`
	ExpiresAt string `json:"expiresAt"`
}

// Admin is the operator's interface. Errors are faults.
type Admin interface {
	// People lists everybody, oldest first. The first is whose mailboxes open pairing makes.
	People(ctx context.Context) ([]Person, error)
	// AddPerson makes a person and invites their first device.
	AddPerson(ctx context.Context, name string) (Invitation, error)
	// Invite makes a new pairing link for a person.
	Invite(ctx context.Context, name string) (Invitation, error)
	// RemovePerson removes a person with every mailbox of theirs.
	RemovePerson(ctx context.Context, name string) error
	// Close releases what Open took.
	Close() error
}

// Direct works on the services of this process.
type Direct struct {
	Pairing *pairing.Service
	Origin  func() string // under which devices reach the relay
	Release func() error  // called by Close; may be nil
}

// People lists everybody.
func (d *Direct) People(ctx context.Context) ([]Person, error) {
	list, err := d.Pairing.People(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Person, 0, len(list))
	for _, p := range list {
		out = append(out, Person{Name: p.Name, CreatedAt: relay.Timestamp(p.CreatedAt), Mailboxes: p.Mailboxes})
	}
	return out, nil
}

// AddPerson makes a person and invites their first device.
func (d *Direct) AddPerson(ctx context.Context, name string) (Invitation, error) {
	if _, err := d.Pairing.AddPerson(ctx, name, time.Now()); err != nil {
		return Invitation{}, err
	}
	return d.Invite(ctx, name)
}

// Invite makes a new pairing link.
func (d *Direct) Invite(ctx context.Context, name string) (Invitation, error) {
	now := time.Now()
	code, err := d.Pairing.StartFor(ctx, name, now)
	if err != nil {
		return Invitation{}, err
	}
	// The code stands behind #, which browsers keep to themselves: no server or proxy logs it.
	return Invitation{
		Person: name, Code: code, Link: d.Origin() + "/pair#" + code,
		ExpiresAt: relay.Timestamp(now.Add(relay.PairCodeLife)),
	}, nil
}

// RemovePerson removes a person.
func (d *Direct) RemovePerson(ctx context.Context, name string) error {
	return d.Pairing.RemovePerson(ctx, name)
}

// Close releases the store, when it was opened for this.
func (d *Direct) Close() error {
	if d.Release == nil {
		return nil
	}
	return d.Release()
}
