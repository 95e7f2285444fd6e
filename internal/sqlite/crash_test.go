package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// writeUntilKilled sends and acknowledges from several goroutines, and prints what was answered: "sent ID", "acked ID".
func writeUntilKilled(s *Store) {
	var h home
	ctx := context.Background()
	err := s.Update(ctx, func(tx store.Tx) error {
		people, err := tx.People().List()
		if err != nil {
			return err
		}
		boxes, err := tx.Mailboxes().List(people[0].ID)
		if err != nil {
			return err
		}
		keys, err := tx.Keys().List(boxes[0].ID)
		h = home{s, boxes[0].ID, keys[0].ID}
		return err
	})
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	var out sync.Mutex
	say := func(what string, n relay.Notification) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(what, n.ID)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				n, err := h.send(ctx, h.note(t0))
				if err != nil {
					fmt.Println("failed", err)
					return
				}
				say("sent", n)
				n.Acknowledge(t0)
				if err := s.Update(ctx, func(tx store.Tx) error { return tx.Notifications().Save(n) }); err != nil {
					fmt.Println("failed", err)
					return
				}
				say("acked", n)
			}
		})
	}
	wg.Wait()
}

// TestAKillLosesNothingThatWasAnswered kills a writing process at random moments and reads after it.
func TestAKillLosesNothingThatWasAnswered(t *testing.T) {
	path := newPath(t)
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := settle(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		answered := killWhileWriting(t, path)
		s, err := Open(t.Context(), path, nil) // the lock went with the process
		if err != nil {
			t.Fatal(err)
		}
		h.Store = s
		h.wantAnswered(t, answered)
		if err := verify(s); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killWhileWriting returns what a process said before it was killed: for each id whether it was acknowledged.
func killWhileWriting(t *testing.T, path string) map[relay.NotificationID]bool {
	t.Helper()
	cmd := childCommand(t, "write", path)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answered := map[relay.NotificationID]bool{}
	lines := bufio.NewScanner(pipe)
	var kill *time.Timer
	for lines.Scan() {
		if kill == nil {
			kill = time.AfterFunc(time.Duration(20+rand.IntN(200))*time.Millisecond, func() { cmd.Process.Kill() })
		}
		what, id, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "sent", "acked":
			if _, ok := relay.ParseNotificationID(id); ok { // the last line may be cut short
				answered[relay.NotificationID(id)] = what == "acked"
			}
		default:
			t.Errorf("child says %q", lines.Text())
		}
	}
	_ = cmd.Wait() // killed, as meant
	if len(answered) == 0 {
		t.Fatal("the child was killed before it wrote anything")
	}
	return answered
}

func (h home) wantAnswered(t *testing.T, answered map[relay.NotificationID]bool) {
	t.Helper()
	err := h.View(t.Context(), func(tx store.Tx) error {
		for id, acked := range answered {
			n, err := tx.Notifications().Get(h.box, id)
			if err != nil {
				return fmt.Errorf("%s was answered and is gone: %w", id, err)
			}
			if acked && n.AckedAt.IsZero() {
				return fmt.Errorf("the acknowledgement of %s was answered and is gone", id)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
