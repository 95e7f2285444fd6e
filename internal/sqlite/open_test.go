package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/fault"
)

// refused opens path, which must fail with that code and name the path.
func refused(t *testing.T, path, code string) {
	t.Helper()
	s, err := Open(t.Context(), path, &Options{BusyTimeout: 50 * time.Millisecond})
	if err == nil {
		s.Close()
		t.Fatal("Open succeeded")
	}
	f := fault.From(err)
	if f.Code != code || f.Kind != fault.Unavailable {
		t.Errorf("Open = %v, want code %s", err, code)
	}
	if !strings.Contains(f.Detail, path) {
		t.Errorf("detail %q does not name %s", f.Detail, path)
	}
}

// unchanged fails when the file's bytes differ after the test.
func unchanged(t *testing.T, path string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("the refused file was changed (%v)", err)
		}
	})
}

func TestASecondOpenerIsRefusedUntilTheFirstCloses(t *testing.T) {
	path := newPath(t)
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, path, "database_in_use")
	_, err = Open(t.Context(), path, nil)
	if want := fmt.Sprint("process ", os.Getpid()); !strings.Contains(fault.From(err).Detail, want) {
		t.Errorf("detail %q does not name the %s", fault.From(err).Detail, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestAMissingDirectoryIsRefused(t *testing.T) {
	refused(t, filepath.Join(t.TempDir(), "nowhere", "herald.db"), "database_unreachable")
}

func TestAFileThatIsNoDatabaseIsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"short": "hello", "long": strings.Repeat("this is a letter, not a database\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			unchanged(t, path)
			refused(t, path, "database_foreign")
		})
	}
}

func TestTheDatabaseOfAnotherProgramIsRefused(t *testing.T) {
	path := newPath(t)
	execSQL(t, path, "CREATE TABLE bookmarks (url TEXT)")
	unchanged(t, path)
	refused(t, path, "database_foreign")
}

func TestANewerSchemaIsRefused(t *testing.T) {
	path := newPath(t)
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)", "PRAGMA wal_checkpoint(TRUNCATE)")
	unchanged(t, path)
	refused(t, path, "database_newer")
}

func TestADatabaseAnotherProgramWorksOnIsRefused(t *testing.T) {
	path := newPath(t)
	db := openSQL(t, path)
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "database_locked")
	if _, err := c.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestALockTakenLaterFailsUpdatesUntilItIsLetGo(t *testing.T) {
	path := newPath(t)
	s, err := Open(t.Context(), path, &Options{BusyTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := settle(t, s)
	db := openSQL(t, path)
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.send(t.Context(), h.note(t0)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Update = %v, want unavailable", err)
	}
	if got := h.countWaiting(t); got != 0 {
		t.Errorf("Views go on, and count %d waiting", got)
	}
	if _, err := c.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if n := h.mustSend(t, h.note(t0)); n.Seq != 1 {
		t.Errorf("Seq = %d, want 1", n.Seq)
	}
}

func openSQL(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func execSQL(t *testing.T, path string, statements ...string) {
	t.Helper()
	db := openSQL(t, path)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnEndedContextOpensNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := newPath(t)
	if _, err := Open(ctx, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v, want context.Canceled", err)
	}
	open(t, path)
}

func TestAnOldLibraryIsRefused(t *testing.T) {
	if err := checkLibrary("3.51.2", 3051002); fault.From(err).Code != "database_library" {
		t.Errorf("3.51.2: %v", err)
	}
	if err := checkLibrary("3.51.3", 3051003); err != nil {
		t.Errorf("3.51.3: %v", err)
	}
}

func TestTheFileIsItsOwnersOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	path := newPath(t)
	settle(t, open(t, path))
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o, want 600", filepath.Base(path)+suffix, got)
		}
	}
}

func TestAReadOnlyDirectoryIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories are not read-only there")
	}
	for _, made := range []bool{false, true} {
		t.Run(fmt.Sprint("database exists: ", made), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "herald.db")
			if made {
				s, err := Open(t.Context(), path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				unchanged(t, path)
			}
			if err := os.Chmod(dir, 0o555); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(dir, 0o755)
			out := runChild(t, "open", path, true)
			if !strings.HasPrefix(out, "database_unreachable ") || !strings.Contains(out, path) {
				t.Errorf("Open says %q", out)
			}
		})
	}
}

// runChild starts this test binary in another role and returns what it prints. With nobody, it gives up root's power to
// write everywhere.
func runChild(t *testing.T, role, path string, nobody bool) string {
	t.Helper()
	cmd := childCommand(t, role, path)
	if nobody && os.Getuid() == 0 {
		for dir := filepath.Dir(filepath.Dir(path)); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil { // the child must reach the file
				t.Fatal(err)
			}
		}
		cmd.Path = reachable(t, cmd.Path)
		becomeNobody(cmd)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	return string(out)
}

func childCommand(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+role, childEnv+"_PATH="+path)
	return cmd
}

// reachable copies the test binary to where everybody may run it.
func reachable(t *testing.T, binary string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "herald-sqlite-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	from, err := os.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	name := filepath.Join(dir, "child")
	to, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(to.Close(), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return name
}

// child is what this binary does when a test starts it as another process.
func child(role, path string) {
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		f := fault.From(err)
		fmt.Println(f.Code, f.Detail)
		return
	}
	switch role {
	case "open":
		fmt.Println("opened", s.Close())
	case "write":
		writeUntilKilled(s)
	case "events":
		eventsUntilKilled(s)
	}
}
