package native

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

func open(t *testing.T) *Conn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path, ReadWrite, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestValuesComeBackAsTheyWent(t *testing.T) {
	c := open(t)
	at := time.Date(2026, 3, 14, 10, 0, 0, 7e6, time.UTC)
	text, blob := "grüß \x00 \U0001F680", bytes.Repeat([]byte{0, 255, 1}, 50_000)
	const query = `SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?`
	for range 2 { // the second run uses the statement again
		s := c.Prepare(query).Int(-1 << 62).Bool(true).Time(at).Null().Float(new(0.1)).Text(text).Blob(blob).
			Time(time.Time{}).Float(nil).OptText("").Text("")
		found, err := s.Row(func(s *Stmt) {
			var head [2]byte
			switch {
			case s.ColInt(0) != -1<<62, !s.ColBool(1), !s.ColTime(2).Equal(at), !s.ColNull(3), *s.ColFloat(4) != 0.1:
				t.Error("a number changed")
			case s.ColText(5) != text, !bytes.Equal(s.ColBlob(6), blob), s.ColBytes(6, head[:]) != 2, head != [2]byte{0, 255}:
				t.Error("a text or blob changed")
			case !s.ColTime(7).IsZero(), s.ColFloat(8) != nil, !s.ColNull(9), s.ColText(9) != "", s.ColBlob(9) != nil:
				t.Error("an absent value changed")
			case s.ColNull(10), s.ColText(10) != "":
				t.Error("an empty text changed")
			}
		})
		if err != nil || !found {
			t.Fatal(found, err)
		}
	}
}

func TestAnArgumentTooFewOrTooManyIsAnError(t *testing.T) {
	c := open(t)
	const query = `SELECT ?, ?`
	for name, s := range map[string]func() *Stmt{
		"none":     func() *Stmt { return c.Prepare(query) },
		"too few":  func() *Stmt { return c.Prepare(query).Int(1) },
		"too many": func() *Stmt { return c.Prepare(query).Int(1).Int(2).Int(3) },
	} {
		if _, err := s().Exec(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := c.Prepare(query).Int(1).Int(2).Exec(); err != nil {
		t.Errorf("after the mistakes: %v", err)
	}
}

func TestErrorsCarryTheLibrarysCode(t *testing.T) {
	c := open(t)
	if err := c.Exec("CREATE TABLE t (a INTEGER UNIQUE) STRICT"); err != nil {
		t.Fatal(err)
	}
	insert := func() error { _, err := c.Prepare("INSERT INTO t VALUES (?)").Int(1).Exec(); return err }
	if err := insert(); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]struct {
		err  error
		code int
	}{
		"duplicate":      {insert(), sqlite3.SQLITE_CONSTRAINT_UNIQUE},
		"syntax":         {c.Exec("SELEC 1"), sqlite3.SQLITE_ERROR},
		"no transaction": {c.Exec("COMMIT"), sqlite3.SQLITE_ERROR},
	} {
		e, ok := errors.AsType[*Error](want.err)
		if !ok || e.Code != want.code {
			t.Errorf("%s: %v, want code %d", what, want.err, want.code)
		}
	}
	_, err := Open(filepath.Join(t.TempDir(), "absent"), ReadWrite, 0)
	if e, ok := errors.AsType[*Error](err); !ok || e.Primary() != sqlite3.SQLITE_CANTOPEN {
		t.Errorf("absent file: %v", err)
	}
}

func TestChangesAndTransactionsAreTold(t *testing.T) {
	c := open(t)
	for _, sql := range []string{"CREATE TABLE t (n INTEGER PRIMARY KEY, a TEXT) STRICT", "BEGIN"} {
		if err := c.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	if !c.InTransaction() {
		t.Error("BEGIN began nothing")
	}
	before := c.Changes()
	for range 3 {
		if n, err := c.Prepare("INSERT INTO t (a) VALUES (?)").Text("x").Exec(); n != 1 || err != nil {
			t.Errorf("inserted %d: %v", n, err)
		}
	}
	if got := c.Changes() - before; got != 3 || c.LastInsertID() != 3 {
		t.Errorf("changes = %d, last id = %d, want 3 and 3", got, c.LastInsertID())
	}
	if err := c.Exec("ROLLBACK"); err != nil || c.InTransaction() {
		t.Errorf("ROLLBACK: %v", err)
	}
}

func TestRowsStopsWhereItsFunctionDoes(t *testing.T) {
	c := open(t)
	const query = `WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT n FROM n`
	enough := errors.New("enough")
	for range 2 {
		seen := int64(0)
		err := c.Prepare(query).Rows(func(s *Stmt) error {
			if seen = s.ColInt(0); seen == 5 {
				return enough
			}
			return nil
		})
		if err != enough || seen != 5 {
			t.Errorf("seen %d, %v", seen, err)
		}
	}
}

func TestVersion(t *testing.T) {
	text, number := Version()
	if !strings.HasPrefix(text, "3.") || number < 3_051_003 {
		t.Errorf("Version = %s, %d", text, number)
	}
}

// TestAStatementIsCompiledOnce runs one whose plan could depend on its arguments.
func TestAStatementIsCompiledOnce(t *testing.T) {
	c := open(t)
	if err := c.Exec("CREATE TABLE t (a INTEGER, b TEXT) STRICT"); err != nil {
		t.Fatal(err)
	}
	for n := range int64(3) {
		s := c.Prepare("SELECT b FROM t WHERE a > ? AND b LIKE ? ORDER BY a LIMIT ?").Int(n).Text("x%").Int(n)
		if _, err := s.Exec(); err != nil {
			t.Fatal(err)
		}
		if again := sqlite3.Xsqlite3_stmt_status(c.tls, s.handle, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0); again != 0 {
			t.Errorf("run %d: the statement has been compiled anew %d times", n, again)
		}
	}
}
