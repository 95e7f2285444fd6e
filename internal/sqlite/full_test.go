package sqlite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite/native"
	"github.com/herald-relay/herald/internal/store"
)

// quota lets the database grow by that many pages at most; a negative number lifts it.
func quota(t *testing.T, s *Store, pages int64) {
	t.Helper()
	mustUpdate(t, s, func(tx_ store.Tx) error {
		c := tx_.(*tx).c
		var n int64
		if _, err := c.Prepare("PRAGMA page_count").Row(func(s *native.Stmt) { n = s.ColInt(0) }); err != nil {
			return err
		}
		if pages < 0 {
			n, pages = 0xfffffffe, 0
		}
		return c.Exec(fmt.Sprint("PRAGMA max_page_count = ", n+pages))
	})
}

// fillUp sends until there is no room, and returns what was answered well.
func (h home) fillUp(t *testing.T) (sent []relay.Notification) {
	t.Helper()
	for range 10_000 {
		n := h.note(t0)
		n.Payload = make([]byte, 3000)
		n, err := h.send(t.Context(), n)
		if fault.Is(err, fault.Unavailable) {
			if fault.From(err).Code != "unavailable" {
				t.Errorf("code = %s", fault.From(err).Code)
			}
			return sent
		}
		if err != nil {
			t.Fatalf("no room: %v, want unavailable", err)
		}
		sent = append(sent, n)
	}
	t.Fatal("it never filled up")
	return nil
}

func (h home) wantAll(t *testing.T, sent []relay.Notification) {
	t.Helper()
	if got := h.countWaiting(t); got != int64(len(sent)) {
		t.Errorf("waiting = %d, want %d", got, len(sent))
	}
	answered := map[relay.NotificationID]bool{}
	for _, n := range sent {
		answered[n.ID] = false
	}
	h.wantAnswered(t, answered)
}

func TestAFullDatabaseRefusesAndRecovers(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	quota(t, h.Store, 20)
	sent := h.fillUp(t)
	h.wantAll(t, sent)
	quota(t, h.Store, -1)
	if n := h.mustSend(t, h.note(t0)); n.Seq != int64(len(sent))+1 {
		t.Errorf("Seq = %d, want %d: a refused one took a number", n.Seq, len(sent)+1)
	}
}

func TestInAFullDatabaseOnlyWhatNeedsRoomFails(t *testing.T) {
	h := settle(t, open(t, newPath(t)))
	quota(t, h.Store, 20)
	sent := h.fillUp(t)
	large := h.note(t0)
	large.Payload = make([]byte, 40_000)
	errs := together(t, h.Store,
		func(tx store.Tx) error {
			sent[0].Acknowledge(t0)
			return tx.Notifications().Save(sent[0])
		},
		func(tx store.Tx) error { return tx.Notifications().Insert(&large, t0) },
		func(tx store.Tx) error {
			_ = tx.Notifications().Insert(&large, t0) // whatever fn makes of the failure
			return nil
		},
		func(tx store.Tx) error { return tx.Keys().Touch(h.box, h.key, t0) })
	if errs[0] != nil || errs[3] != nil {
		t.Errorf("those that need no room: %v, %v", errs[0], errs[3])
	}
	if !fault.Is(errs[1], fault.Unavailable) || !fault.Is(errs[2], fault.Unavailable) {
		t.Errorf("those that need room: %v, %v, want unavailable", errs[1], errs[2])
	}
	if got := h.countWaiting(t); got != int64(len(sent))-1 {
		t.Errorf("waiting = %d, want %d", got, len(sent)-1)
	}
	forgotten := 0
	mustUpdate(t, h.Store, func(tx store.Tx) (err error) {
		forgotten, err = tx.Notifications().Forget(t0.Add(1), 1000)
		return err
	})
	if forgotten != len(sent) {
		t.Errorf("forgot %d, want %d", forgotten, len(sent))
	}
	h.mustSend(t, large) // there is room again
}

// TestAFullDiskRefusesAndRecovers uses a disk of 2 MiB, where it may make one.
func TestAFullDiskRefusesAndRecovers(t *testing.T) {
	dir := smallDisk(t)
	h := settle(t, open(t, filepath.Join(dir, "herald.db")))
	sent := h.fillUp(t)
	h.wantAll(t, sent)
	ballast := filepath.Join(dir, "ballast")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if n := h.mustSend(t, h.note(t0)); n.Seq != int64(len(sent))+1 {
		t.Errorf("Seq = %d, want %d", n.Seq, len(sent)+1)
	}
	h.log.copy()
	if err := h.Ready(t.Context()); err != nil {
		t.Errorf("with room again, Ready = %v", err)
	}
}

// smallDisk mounts a memory disk with a removable ballast.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root on Linux may mount a small disk; the quota tests cover the rest")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk can be mounted here: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 600_000), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
