package receive

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
)

// Folder keeps arrivals as files that only their owner may read: 000001.body as it came, byte for byte, and 000001.json about
// it.
type Folder struct {
	dir  string
	next int
}

// NewFolder makes the directory unless it is there. What is in it stays.
func NewFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for arrivals: %w", err)
	}
	return &Folder{dir: dir, next: 1}, nil
}

// Save writes one arrival under the next number that is free.
func (f *Folder) Save(a Arrival) error {
	about, err := a.about()
	if err != nil {
		return err
	}
	for ; ; f.next++ {
		err := f.write(".body", a.Body)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = f.write(".json", about)
		}
		f.next++
		if err != nil {
			return fmt.Errorf("save an arrival: %w", err)
		}
		return nil
	}
}

func (f *Folder) write(ending string, data []byte) error {
	file, err := os.OpenFile(filepath.Join(f.dir, fmt.Sprintf("%06d%s", f.next, ending)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// about is the line for programs, with the headers, and with the body as text only in its own file.
func (a Arrival) about() ([]byte, error) {
	head := http.Header{}
	for name, values := range a.Header {
		head[http.CanonicalHeaderKey(name)] = values
	}
	a.Body = nil
	return a.json(head)
}
