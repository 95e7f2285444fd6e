// Package native is a thin typed door to the SQLite library: connections, prepared statements, typed columns.
//
// It calls the library of modernc.org/sqlite directly instead of through database/sql, because the relay lives on its
// one writing connection: a row read costs a quarter, a row written half, and nothing allocates but what is kept.
//
// The library is C translated to Go, and so is the shape of what this package calls; its version and that of
// modernc.org/libc belong together, as the go.mod of modernc.org/sqlite says.
//
// A Conn belongs to one goroutine at a time. Statements are prepared once, on first use, and kept until Close. SQL is
// never made at run time, so their number is bounded by the program's text.
package native

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Flags of Open.
const (
	// ReadWrite opens an existing database for reading and writing.
	ReadWrite = sqlite3.SQLITE_OPEN_READWRITE
	// ReadOnly opens an existing database for reading.
	ReadOnly = sqlite3.SQLITE_OPEN_READONLY
)

// Conn is one connection to a database file.
type Conn struct {
	tls   *libc.TLS
	db    uintptr
	stmts map[string]*Stmt
	out   uintptr // 16 bytes of the library's memory for results by pointer
}

// Version returns the library's version as text and as number: 3.54.1 is 3054001.
func Version() (text string, number int) {
	tls := libc.NewTLS()
	defer tls.Close()
	return libc.GoString(sqlite3.Xsqlite3_libversion(tls)), int(sqlite3.Xsqlite3_libversion_number(tls))
}

// Open connects to the file at path, which must exist. busy is how long a statement waits for another program's lock.
func Open(path string, flags int32, busy time.Duration) (*Conn, error) {
	c := &Conn{tls: libc.NewTLS(), stmts: map[string]*Stmt{}}
	name, err := libc.CString(path)
	if err != nil {
		c.tls.Close()
		return nil, err
	}
	defer libc.Xfree(c.tls, name)
	if c.out = sqlite3.Xsqlite3_malloc(c.tls, 16); c.out == 0 {
		c.tls.Close()
		return nil, &Error{Code: sqlite3.SQLITE_NOMEM, Message: "out of memory"}
	}
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.out, flags|sqlite3.SQLITE_OPEN_NOMUTEX|sqlite3.SQLITE_OPEN_EXRESCODE, 0)
	c.db = *at[uintptr](c.out)
	if rc != sqlite3.SQLITE_OK {
		err := c.fail(rc, "open")
		c.Close()
		return nil, err
	}
	if rc := c.keepPlans(); rc != sqlite3.SQLITE_OK {
		err := c.fail(rc, "keep plans")
		c.Close()
		return nil, err
	}
	c.Patience(busy)
	return c, nil
}

// keepPlans has a statement planned once, by its text. Otherwise the library looks at the values of some arguments, such as
// that of LIMIT, and so compiles the statement anew each time it is run.
func (c *Conn) keepPlans() int32 {
	args := libc.NewVaList(int32(1), uintptr(0))
	defer libc.Xfree(c.tls, args)
	return sqlite3.Xsqlite3_db_config(c.tls, c.db, sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG, args)
}

// Patience sets how long a statement waits for a lock.
func (c *Conn) Patience(d time.Duration) {
	sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, int32(d.Milliseconds()))
}

// Close finalizes the statements and closes the connection. Closing again does nothing.
func (c *Conn) Close() error {
	if c.tls == nil {
		return nil
	}
	for _, s := range c.stmts {
		s.finalize()
	}
	var err error
	if c.db != 0 {
		if rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db); rc != sqlite3.SQLITE_OK {
			err = &Error{Code: int(rc), Message: "close"}
		}
	}
	sqlite3.Xsqlite3_free(c.tls, c.out)
	c.tls.Close()
	c.tls, c.db, c.stmts = nil, 0, nil
	return err
}

// Prepare returns the statement for sql, ready to have its arguments bound from the first on. What is wrong with sql
// surfaces when the statement runs.
func (c *Conn) Prepare(sql string) *Stmt {
	if s := c.stmts[sql]; s != nil {
		s.begin()
		return s
	}
	s, err := c.compile(sql)
	if err != nil {
		return c.Failed(err)
	}
	c.stmts[sql] = s
	return s
}

func (c *Conn) compile(sql string) (*Stmt, error) {
	text, err := libc.CString(sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, int32(len(sql)+1), sqlite3.SQLITE_PREPARE_PERSISTENT, c.out, 0)
	if rc != sqlite3.SQLITE_OK {
		return nil, c.fail(rc, sql)
	}
	handle := *at[uintptr](c.out)
	return &Stmt{c: c, sql: sql, handle: handle, params: sqlite3.Xsqlite3_bind_parameter_count(c.tls, handle)}, nil
}

// Prepared lists the statements that have been prepared.
func (c *Conn) Prepared() []string { return slices.Collect(maps.Keys(c.stmts)) }

// Exec runs one statement without arguments or results.
func (c *Conn) Exec(sql string) error {
	_, err := c.Prepare(sql).Exec()
	return err
}

// Changes counts the rows that statements of this connection have changed since it was opened.
func (c *Conn) Changes() int64 { return int64(sqlite3.Xsqlite3_total_changes64(c.tls, c.db)) }

// LastInsertID returns the integer key of the row inserted last.
func (c *Conn) LastInsertID() int64 { return sqlite3.Xsqlite3_last_insert_rowid(c.tls, c.db) }

// InTransaction reports whether a transaction is open. Some errors end it on their own.
func (c *Conn) InTransaction() bool { return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// Modes of Checkpoint.
const (
	// Passive copies what it can without waiting for anybody.
	Passive = sqlite3.SQLITE_CHECKPOINT_PASSIVE
	// Restart waits for writers and readers, so that the next writer begins the log anew.
	Restart = sqlite3.SQLITE_CHECKPOINT_RESTART
)

// Checkpoint copies the write-ahead log into the database. It returns how many pages the log holds and how many of
// them have been copied.
func (c *Conn) Checkpoint(mode int32) (logged, copied int, err error) {
	rc := sqlite3.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, mode, c.out, c.out+4)
	logged, copied = int(*at[int32](c.out)), int(*at[int32](c.out + 4))
	if rc != sqlite3.SQLITE_OK {
		err = c.fail(rc, "checkpoint")
	}
	return logged, copied, err
}

func (c *Conn) fail(rc int32, doing string) error {
	message := "no connection"
	if c.db != 0 {
		message = libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))
	}
	return &Error{Code: int(rc), Message: message, Doing: doing}
}

// Error is a result code of the library.
type Error struct {
	Code    int    // extended result code
	Message string // the library's words; they may name tables and columns, never values
	Doing   string // the statement
}

// Error describes the failure for logs.
func (e *Error) Error() string {
	return fmt.Sprintf("sqlite: %s (code %d) in %q", e.Message, e.Code, e.Doing)
}

// Primary returns the code without its extension.
func (e *Error) Primary() int { return e.Code & 0xff }

// at views memory of the library, which lies outside the Go heap and does not move.
func at[T any](p uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

func bytesAt(p uintptr, n int) []byte { return unsafe.Slice(at[byte](p), n) }
