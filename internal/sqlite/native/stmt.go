package native

import (
	"math"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// Stmt is a prepared statement. Bind its arguments in order, then run it once with Exec, Row or Rows; Prepare makes it
// ready again. Bind methods return the statement, and the first failure to bind surfaces when it runs.
type Stmt struct {
	c      *Conn
	sql    string
	handle uintptr
	params int32 // how many arguments it takes

	err   error // why it could not be prepared
	arg   int32 // how many arguments have been bound
	rc    int32 // first failure to bind
	text  uintptr
	size  int // of text
	used  int // of text
	large []uintptr
}

// Failed returns a statement that fails with err when it is run.
func (c *Conn) Failed(err error) *Stmt { return &Stmt{c: c, err: err} }

func (s *Stmt) begin() { s.arg, s.rc, s.used = 0, 0, 0 }

// Params returns how many arguments the statement takes.
func (s *Stmt) Params() int { return int(s.params) }

func (s *Stmt) bound(rc int32) *Stmt {
	if s.rc == sqlite3.SQLITE_OK {
		s.rc = rc
	}
	return s
}

// next returns the number of the argument to bind, counted from 1.
func (s *Stmt) next() int32 {
	s.arg++
	return s.arg
}

// Int binds an integer.
func (s *Stmt) Int(v int64) *Stmt {
	return s.bound(sqlite3.Xsqlite3_bind_int64(s.c.tls, s.handle, s.next(), v))
}

// Bool binds 1 or 0.
func (s *Stmt) Bool(v bool) *Stmt {
	if v {
		return s.Int(1)
	}
	return s.Int(0)
}

// Time binds Unix milliseconds, or NULL for the zero time.
func (s *Stmt) Time(t time.Time) *Stmt {
	if t.IsZero() {
		return s.Null()
	}
	return s.Int(t.UnixMilli())
}

// Null binds NULL.
func (s *Stmt) Null() *Stmt {
	return s.bound(sqlite3.Xsqlite3_bind_null(s.c.tls, s.handle, s.next()))
}

// Float binds a floating point number, or NULL for nil.
func (s *Stmt) Float(v *float64) *Stmt {
	if v == nil {
		return s.Null()
	}
	return s.bound(sqlite3.Xsqlite3_bind_double(s.c.tls, s.handle, s.next(), *v))
}

// Text binds a string.
func (s *Stmt) Text(v string) *Stmt {
	p := s.room(len(v))
	if p == 0 {
		return s.bound(sqlite3.SQLITE_NOMEM)
	}
	copy(bytesAt(p, len(v)), v)
	return s.bound(sqlite3.Xsqlite3_bind_text(s.c.tls, s.handle, s.next(), p, int32(len(v)), 0))
}

// OptText binds a string, or NULL for an empty one.
func (s *Stmt) OptText(v string) *Stmt {
	if v == "" {
		return s.Null()
	}
	return s.Text(v)
}

// Blob binds bytes.
func (s *Stmt) Blob(v []byte) *Stmt {
	p := s.room(len(v))
	if p == 0 {
		return s.bound(sqlite3.SQLITE_NOMEM)
	}
	copy(bytesAt(p, len(v)), v)
	return s.bound(sqlite3.Xsqlite3_bind_blob(s.c.tls, s.handle, s.next(), p, int32(len(v)), 0))
}

// keptRoom is how much memory for arguments a statement keeps between runs.
const keptRoom = 1024

// room returns memory of the library's own for n bytes, which stays put until the statement has run.
func (s *Stmt) room(n int) uintptr {
	n = max(n, 1)
	if s.handle == 0 || n > math.MaxInt32 {
		return 0
	}
	if s.text == 0 {
		if s.text = sqlite3.Xsqlite3_malloc(s.c.tls, keptRoom); s.text == 0 {
			return 0
		}
		s.size = keptRoom
	}
	if s.used+n <= s.size {
		p := s.text + uintptr(s.used)
		s.used += n
		return p
	}
	p := sqlite3.Xsqlite3_malloc(s.c.tls, int32(n))
	if p != 0 {
		s.large = append(s.large, p)
	}
	return p
}

// Exec runs the statement to its end and returns how many rows it changed.
func (s *Stmt) Exec() (int64, error) {
	before := s.c.Changes()
	err := s.Rows(func(*Stmt) error { return nil })
	return s.c.Changes() - before, err
}

// Row runs the statement and calls fn for the first row, if there is one.
func (s *Stmt) Row(fn func(*Stmt)) (found bool, err error) {
	defer s.reset()
	ok, err := s.step()
	if err != nil || !ok {
		return false, err
	}
	fn(s)
	return true, nil
}

// Rows runs the statement and calls fn for each row until it returns an error, which Rows returns. fn must not run
// this statement again.
func (s *Stmt) Rows(fn func(*Stmt) error) error {
	defer s.reset()
	for {
		ok, err := s.step()
		if err != nil || !ok {
			return err
		}
		if err := fn(s); err != nil {
			return err
		}
	}
}

func (s *Stmt) step() (row bool, err error) {
	if s.err != nil {
		return false, s.err
	}
	if s.rc != 0 {
		return false, s.c.fail(s.rc, s.sql)
	}
	if s.arg != s.params { // an argument left out would keep the value of the run before
		return false, &Error{Code: sqlite3.SQLITE_MISUSE, Message: "wrong number of arguments", Doing: s.sql}
	}
	switch rc := sqlite3.Xsqlite3_step(s.c.tls, s.handle); rc {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
		return false, nil
	default:
		return false, s.c.fail(rc, s.sql)
	}
}

func (s *Stmt) reset() {
	if s.handle == 0 {
		return
	}
	sqlite3.Xsqlite3_reset(s.c.tls, s.handle) // repeats the code of the last step, which was reported
	if s.large != nil {
		sqlite3.Xsqlite3_clear_bindings(s.c.tls, s.handle)
		for _, p := range s.large {
			sqlite3.Xsqlite3_free(s.c.tls, p)
		}
		s.large = nil
	}
}

func (s *Stmt) finalize() {
	sqlite3.Xsqlite3_finalize(s.c.tls, s.handle)
	if s.text != 0 {
		sqlite3.Xsqlite3_free(s.c.tls, s.text)
	}
}

// ColInt returns an integer column; 0 for NULL. Columns count from 0.
func (s *Stmt) ColInt(i int) int64 { return sqlite3.Xsqlite3_column_int64(s.c.tls, s.handle, int32(i)) }

// ColBool returns whether an integer column is not 0.
func (s *Stmt) ColBool(i int) bool { return s.ColInt(i) != 0 }

// ColNull reports whether a column is NULL.
func (s *Stmt) ColNull(i int) bool {
	return sqlite3.Xsqlite3_column_type(s.c.tls, s.handle, int32(i)) == sqlite3.SQLITE_NULL
}

// ColTime returns Unix milliseconds as a time in UTC; zero for NULL.
func (s *Stmt) ColTime(i int) time.Time {
	if s.ColNull(i) {
		return time.Time{}
	}
	return time.UnixMilli(s.ColInt(i)).UTC()
}

// ColFloat returns a floating point column; nil for NULL.
func (s *Stmt) ColFloat(i int) *float64 {
	if s.ColNull(i) {
		return nil
	}
	return new(sqlite3.Xsqlite3_column_double(s.c.tls, s.handle, int32(i)))
}

// ColText returns a text column; "" for NULL.
func (s *Stmt) ColText(i int) string {
	p := sqlite3.Xsqlite3_column_text(s.c.tls, s.handle, int32(i))
	return string(s.column(i, p))
}

// ColBlob returns a copy of a blob column; nil for NULL and for no bytes.
func (s *Stmt) ColBlob(i int) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.handle, int32(i))
	return append([]byte(nil), s.column(i, p)...)
}

// ColBytes copies a blob column into dst and returns how many bytes it holds; none for NULL.
func (s *Stmt) ColBytes(i int, dst []byte) int {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.handle, int32(i))
	return copy(dst, s.column(i, p))
}

// column views the column that the library put at p. Asking for its size must follow asking for its bytes.
func (s *Stmt) column(i int, p uintptr) []byte {
	if p == 0 {
		return nil
	}
	return bytesAt(p, int(sqlite3.Xsqlite3_column_bytes(s.c.tls, s.handle, int32(i))))
}
