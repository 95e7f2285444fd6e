package e2e

import (
	"crypto/rand"
	"database/sql"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

const databaseFile = "herald.db"

// nobody runs a process without root's power over permissions.
func nobody(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// shared makes a directory that every user may enter and write to.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "herald-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func wantWords(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(strings.ToLower(said), strings.ToLower(w)) {
			t.Errorf("the refusal does not mention %q:\n%s", w, said)
		}
	}
}

func TestAReadOnlyDirectoryIsRefusedByName(t *testing.T) {
	dir := shared(t)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o777) })
	wantWords(t, refused(t, filepath.Join(dir, "data"), nobody(t)), "data", "permission denied")
}

func TestAReadOnlyDatabaseIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir).stop(10 * time.Second)
	before := fileSum(t, filepath.Join(dir, databaseFile))
	public := shared(t)
	data := filepath.Join(public, "data")
	if out, err := exec.Command("cp", "-r", dir, data).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if out, err := exec.Command("chmod", "-R", "a=rX", data).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	wantWords(t, refused(t, data, nobody(t)), data)
	if after := fileSum(t, filepath.Join(data, databaseFile)); after != before {
		t.Error("the refused start changed the database")
	}
}

func fileSum(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestASecondProcessOnOneDataDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	wantWords(t, refused(t, dir, nil), dir)
	if status, _, err := s.call(t.Context(), "GET", "/health", "", nil); err != nil || status != http.StatusOK {
		t.Errorf("the first process suffered: %d %v", status, err)
	}
	s.kill()
	serve(t, dir).stop(10 * time.Second) // the lock died with its holder
}

func TestANewerDatabaseIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir).stop(10 * time.Second)
	path := filepath.Join(dir, databaseFile)
	edit(t, path, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`)
	before := fileSum(t, path)
	wantWords(t, refused(t, dir, nil), "newer", "9999")
	if fileSum(t, path) != before {
		t.Error("the refused start changed the database")
	}
}

func TestAFileThatIsNoDatabaseIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, databaseFile)
	noise := make([]byte, 64<<10)
	rand.Read(noise)
	if err := os.WriteFile(path, noise, 0o600); err != nil {
		t.Fatal(err)
	}
	wantWords(t, refused(t, dir, nil), databaseFile)
	if fileSum(t, path) != string(noise) {
		t.Error("the refused start changed the file")
	}
}

// edit changes a database that no process holds, and leaves no write-ahead log behind.
func edit(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAFullDiskRefusesAndRecovers fills a small file system, and empties it again.
func TestAFullDiskRefusesAndRecovers(t *testing.T) {
	dir := smallDisk(t)
	s := serve(t, dir, plenty...)
	device, key := s.pair("phone")
	filler := filepath.Join(dir, "filler")
	fill(t, filler)

	var kept []string
	status, got := 0, map[string]any(nil)
	for n := range 400 { // what is in the log already has room; soon it is used up
		id := "full-" + strings.Repeat("x", n%5) + time.Now().Format("150405.000000000")
		var err error
		status, got, err = s.call(t.Context(), "POST", "/v1/notify", key, map[string]any{"title": strings.Repeat("t", 200), "body": strings.Repeat("b", 4000), "notificationId": id})
		if err != nil {
			t.Fatal(err)
		}
		if status != http.StatusAccepted {
			break
		}
		kept = append(kept, id)
	}
	if status != http.StatusServiceUnavailable {
		t.Fatalf("a full disk answered %d %v, want 503", status, got)
	}
	if status, _, err := s.call(t.Context(), "GET", "/v1/device/info", device, nil); err != nil || status != http.StatusOK {
		t.Errorf("reading on a full disk: %d %v", status, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	again := s.must("POST", "/v1/notify", key, map[string]any{"title": "room again", "notificationId": "after"})
	if again["received"] != true {
		t.Errorf("after making room: %v", again)
	}
	s.kill()
	s = serve(t, dir, plenty...)
	for _, id := range append(kept, "after") {
		s.must("GET", "/v1/receipts/"+id, key, nil)
	}
	s.stop(10 * time.Second)
}

// smallDisk mounts a file system of 4 MiB. Where that is not allowed the test cannot run; the full check runs as root.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mount a small file system: %v %s", err, out)
		}
		t.Skipf("needs the right to mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v %s", err, out)
		}
	})
	return dir
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 4096)
	for {
		if _, err := f.Write(chunk); err != nil {
			return // full
		}
	}
}
