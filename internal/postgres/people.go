package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

type people struct{ t *tx }

const personColumns = `id, name, created_at`

func scanPerson(rows pgx.Rows, p *relay.Person) error {
	return rows.Scan((*hexText)(&p.ID), &p.Name, (*instant)(&p.CreatedAt))
}

func nameTaken(what, name string) error {
	return fault.New(fault.Conflict, "name_taken", "%s named %q exists already; choose another name", what, name)
}

const createPerson = `INSERT INTO people (id, name, created_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING`

func (p people) Create(v relay.Person) error {
	q := &query{what: "create person", sql: createPerson, args: []any{idBytes(v.ID), v.Name, millis(v.CreatedAt)}}
	if err := p.t.change(directory, q); err != nil {
		return err
	}
	if q.count == 0 {
		return nameTaken("a person", v.Name)
	}
	return nil
}

const listPeople = `SELECT ` + personColumns + ` FROM people ORDER BY created_at, place`

func (p people) List() (out []relay.Person, err error) {
	err = p.t.readShared(&query{what: "list people", sql: listPeople, each: list(&out, scanPerson)})
	return out, err
}

const findPerson = `SELECT ` + personColumns + ` FROM people WHERE name = $1`

func (p people) ByName(name string) (v relay.Person, err error) {
	noSuch := fault.NotFoundf("no person has that name; list the people to see them")
	if !storable(name) {
		return v, noSuch
	}
	q := &query{what: "find person", sql: findPerson, args: []any{name}, each: func(r pgx.Rows) error { return scanPerson(r, &v) }}
	if err = p.t.readShared(q); err == nil && q.count == 0 {
		err = noSuch
	}
	return v, err
}

const (
	lockPersonBoxes = `
SELECT c.mailbox FROM counters c JOIN mailboxes m ON m.id = c.mailbox WHERE m.person = $1
ORDER BY c.mailbox FOR NO KEY UPDATE OF c`
	deletePersonNotes = `DELETE FROM notifications n USING mailboxes m WHERE m.person = $1 AND n.mailbox = m.id`
	deletePersonUsage = `DELETE FROM usage u USING mailboxes m WHERE m.person = $1 AND u.mailbox = m.id`
	deletePersonAsked = `DELETE FROM consents c USING mailboxes m WHERE m.person = $1 AND c.mailbox = m.id`
	deletePersonBoxes = `DELETE FROM mailboxes WHERE person = $1`
	deletePerson      = `DELETE FROM people WHERE id = $1`
)

func (p people) Delete(id relay.PersonID) error {
	u, err := p.t.owner(directory)
	if err != nil {
		return err
	}
	args := []any{idBytes(id)}
	last := &query{what: "delete person", sql: deletePerson, args: args, writes: true}
	err = u.ask(&step{queries: []*query{
		{what: "lock mailboxes of person", sql: lockPersonBoxes, args: args},
		{what: "delete notifications of person", sql: deletePersonNotes, args: args, writes: true},
		{what: "delete usage of person", sql: deletePersonUsage, args: args, writes: true},
		{what: "delete requests of person", sql: deletePersonAsked, args: args, writes: true},
		{what: "delete mailboxes of person", sql: deletePersonBoxes, args: args, writes: true},
		last,
	}})
	u.relearn()
	if err == nil && last.count == 0 {
		err = fault.NotFoundf("that person does not exist")
	}
	return err
}
