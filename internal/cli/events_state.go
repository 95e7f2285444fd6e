package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/mcpevents/subscriber"
)

// tailKey is the only subscription of a tail.
const tailKey = "tail"

const (
	keptRecent = 100      // ids behind the position: a server may repeat a few events before it
	maxRecent  = 10_000   // ids of a batch whose position is not stored yet
	maxState   = 16 << 20 // bytes of the file
)

// position is what a tail leaves behind, as its file has it.
type position struct {
	Server    string          `json:"server"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Cursor    *string         `json:"cursor"`
	// Recent are the events that were printed last.
	Recent []string `json:"recent"`
}

// tailStore keeps the position of one subscription in a file, or nowhere. The subscriber calls it for one event at a time.
type tailStore struct {
	subscriber.Memory
	path string // "" for none
	at   position
	// noted is called once an event is kept.
	noted func()
}

// openTail reads what an earlier tail of the same wish left.
func openTail(ctx context.Context, path string, wish position) (*tailStore, error) {
	s := &tailStore{path: path, at: wish, noted: func() {}}
	if path == "" {
		return s, nil
	}
	left, err := readPosition(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, s.write() // a file that cannot be written is found now
	}
	if err != nil {
		return nil, err
	}
	if left.Server != wish.Server || left.Name != wish.Name || string(left.Arguments) != string(wish.Arguments) {
		return nil, failed("give each a file of its own", "%s is of another subscription: %s at %s", path, left.Name, left.Server)
	}
	if wish.Cursor != nil {
		return nil, &outcome{status: statusUsage, text: "--cursor and a file with a position cannot be together", hint: "delete the file to begin elsewhere"}
	}
	s.at = left
	record := subscriber.Record{Key: tailKey, Name: left.Name, Arguments: left.Arguments, Cursor: left.Cursor}
	if err := s.Memory.Put(ctx, record); err != nil {
		return nil, err
	}
	for _, id := range left.Recent {
		if err := s.Memory.Received(ctx, tailKey, id, nil); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func readPosition(path string) (p position, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return p, err
	}
	if info.Size() > maxState || !info.Mode().IsRegular() {
		return p, failed("name another file", "%s is no file that herald events tail wrote", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	if json.Unmarshal(data, &p) != nil || p.Server == "" || p.Name == "" {
		return p, failed("name another file, or delete it to begin from now", "%s is no file that herald events tail wrote", path)
	}
	return p, nil
}

// Put stores a position that moved without an event.
func (s *tailStore) Put(ctx context.Context, r subscriber.Record) error {
	if err := s.Memory.Put(ctx, r); err != nil {
		return err
	}
	if r.Cursor == nil || s.at.Cursor != nil && *r.Cursor == *s.at.Cursor {
		return nil
	}
	s.at.Cursor = r.Cursor
	s.forget(keptRecent)
	return s.write()
}

// Received stores that an event was printed.
func (s *tailStore) Received(ctx context.Context, key, event string, cursor *string) error {
	if err := s.Memory.Received(ctx, key, event, cursor); err != nil {
		return err
	}
	s.at.Recent = append(s.at.Recent, event)
	s.forget(maxRecent)
	if cursor != nil {
		s.at.Cursor = cursor
		s.forget(keptRecent)
	}
	err := s.write()
	s.noted()
	return err
}

// forget drops all but the last ids.
func (s *tailStore) forget(most int) {
	s.at.Recent = slices.Clone(s.at.Recent[max(0, len(s.at.Recent)-most):])
}

func (s *tailStore) write() error {
	if s.path == "" {
		return nil
	}
	data, err := json.Marshal(s.at)
	if err == nil {
		err = profile.Keep(s.path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep the position: %w", err)
	}
	return nil
}
