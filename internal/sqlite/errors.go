package sqlite

import (
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/sqlite/native"
)

// errClosed answers calls after Close.
var errClosed = fault.New(fault.Unavailable, "unavailable", "the relay is stopping; try again")

// errOver answers a Tx that is used after its fn returned.
var errOver = errors.New("sqlite: a transaction was used after it was over")

// errReadOnly answers writes in a View.
var errReadOnly = errors.New("sqlite: a View may not write")

// reasons says, by primary result code, why the database cannot serve now. All of them may pass.
var reasons = map[int]string{
	sqlite3.SQLITE_FULL:      "the relay's disk is full; try again later",
	sqlite3.SQLITE_BUSY:      "another program holds the relay's database; try again later",
	sqlite3.SQLITE_LOCKED:    "another program holds the relay's database; try again later",
	sqlite3.SQLITE_IOERR:     "the relay's disk does not answer properly; try again later",
	sqlite3.SQLITE_CANTOPEN:  "the relay's database cannot be opened; try again later",
	sqlite3.SQLITE_READONLY:  "the relay's database cannot be written; try again later",
	sqlite3.SQLITE_NOMEM:     "the relay is short of memory; try again later",
	sqlite3.SQLITE_PROTOCOL:  "another program holds the relay's database; try again later",
	sqlite3.SQLITE_PERM:      "the relay's database cannot be written; try again later",
	sqlite3.SQLITE_INTERRUPT: "the relay is stopping; try again",
}

// translate wraps an error of the library with what was being done. What may pass becomes a fault of kind Unavailable;
// the library's words stay in the log.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*native.Error](err); ok {
		if why := reasons[e.Primary()]; why != "" {
			return fault.New(fault.Unavailable, "unavailable", "%s", why).Because(fmt.Errorf("%s: %w", doing, err))
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isUnique reports whether err says that a row with that key is there already.
func isUnique(err error) bool {
	e, ok := errors.AsType[*native.Error](err)
	return ok && (e.Code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY ||
		e.Code == sqlite3.SQLITE_CONSTRAINT_ROWID)
}

func conflict(detail string) error { return fault.New(fault.Conflict, "conflict", "%s", detail) }

func nameTaken(detail string) error { return fault.New(fault.Conflict, "name_taken", "%s", detail) }

func noMailbox() error { return fault.NotFoundf("there is no such mailbox") }
