package pairing

import (
	"context"
	"regexp"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// FirstPerson is the name of the person that a fresh relay has.
const FirstPerson = "owner"

var handle = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// EnsureFirst makes the first person of a fresh relay. made tells that there was none before.
func (s *Service) EnsureFirst(ctx context.Context, now time.Time) (made bool, err error) {
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		people, err := tx.People().List()
		if err != nil || len(people) > 0 {
			made = false
			return err
		}
		made = true
		return tx.People().Create(newPerson(FirstPerson, now))
	})
	if fault.Is(err, fault.Conflict) {
		return false, nil // another process was first
	}
	return made, err
}

func newPerson(name string, now time.Time) relay.Person {
	return relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: name, CreatedAt: relay.Millis(now)}
}

// AddPerson makes another person. A bad name is invalid_request, a taken one name_taken.
func (s *Service) AddPerson(ctx context.Context, name string, now time.Time) (relay.Person, error) {
	if !handle.MatchString(name) {
		return relay.Person{}, fault.InvalidRequest("name", "a person's name must be 1 to 32 of a-z, 0-9 and -, beginning with a letter or digit")
	}
	p := newPerson(name, now)
	return p, s.Store.Update(ctx, func(tx store.Tx) error { return tx.People().Create(p) })
}

// PersonSummary is a person with the number of their mailboxes.
type PersonSummary struct {
	relay.Person
	Mailboxes int
}

// People lists everybody, oldest first. The first one is whose mailboxes POST /v1/pair/start makes.
func (s *Service) People(ctx context.Context) (list []PersonSummary, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		list = nil
		people, err := tx.People().List()
		for _, p := range people {
			boxes, err := tx.Mailboxes().List(p.ID)
			if err != nil {
				return err
			}
			list = append(list, PersonSummary{p, len(boxes)})
		}
		return err
	})
	return list, err
}

// RemovePerson removes a person with every mailbox of theirs. The last one stays: a relay needs somebody to reach.
func (s *Service) RemovePerson(ctx context.Context, name string) error {
	var hints []relay.Hint
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		p, err := tx.People().ByName(name)
		if err != nil {
			return err
		}
		people, err := tx.People().List()
		if err != nil {
			return err
		}
		if len(people) == 1 {
			return fault.New(fault.Conflict, "invalid_request", "%s is the only person of this relay; add another before removing this one", name)
		}
		boxes, err := tx.Mailboxes().List(p.ID)
		if err != nil {
			return err
		}
		hints = nil
		for _, b := range boxes {
			hints = append(hints, relay.Hint{Kind: relay.HintUnpaired, Mailbox: b.ID})
		}
		return tx.People().Delete(p.ID)
	})
	if err == nil {
		s.forgotten(hints)
	}
	return err
}
