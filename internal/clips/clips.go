// Package clips keeps voice clips as files in one directory that nothing can escape.
//
// A clip is written aside, flushed, and put in place by a rename, so a reader sees the old clip or the new one and a
// crash leaves at most a file that the next sweep removes. The file's extension records the true media type.
package clips

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

// Keep is how long clips are kept (contract section 10).
const Keep = 7 * 24 * time.Hour

// extensions maps the served media types to file extensions; the first is what unknown bytes under a known label get.
var extensions = map[string]string{
	"audio/mp4":  ".m4a",
	"audio/aac":  ".aac",
	"audio/webm": ".webm",
	"audio/ogg":  ".ogg",
}

const asideExtension = ".part"

// Identify names the media type under which the bytes are to be served. A recognised container wins over the label;
// bytes that nothing recognises keep the label when it is one of the documented three (decisions 8 and 32). known is
// false when neither helps.
func Identify(data []byte, label string) (kind string, known bool) {
	if kind := sniff(data); kind != "" {
		return kind, true
	}
	base, _, err := mime.ParseMediaType(label)
	if err != nil {
		base = strings.ToLower(strings.TrimSpace(strings.SplitN(label, ";", 2)[0]))
	}
	switch base {
	case "audio/mp4", "audio/x-m4a":
		return "audio/mp4", true
	case "audio/aac":
		return "audio/aac", true
	}
	return "audio/mp4", false
}

func sniff(b []byte) string {
	switch {
	case len(b) >= 8 && string(b[4:8]) == "ftyp":
		return "audio/mp4"
	case bytes.HasPrefix(b, []byte{0x1a, 0x45, 0xdf, 0xa3}):
		return "audio/webm"
	case bytes.HasPrefix(b, []byte("OggS")):
		return "audio/ogg"
	case len(b) >= 2 && b[0] == 0xff && b[1]&0xf6 == 0xf0: // ADTS: twelve sync bits, layer 0
		return "audio/aac"
	}
	return ""
}

// Dir is a directory of clips, one folder per mailbox.
type Dir struct {
	root *os.Root
	// swap is held while one clip takes the place of another, which may be a file of another name, and by readers while
	// they look for it: of two uploads at once exactly one stays, and a reader always finds one.
	swap sync.RWMutex
}

// Open makes the directory if need be.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the clip directory: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open the clip directory: %w", err)
	}
	return &Dir{root: root}, nil
}

// Close releases the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Aside is a clip that was written but is not in place yet.
type Aside struct {
	dir         *Dir
	temp, final string
	base        string
	kept        bool
}

// Write puts the bytes on disk beside their place, dated now. Keep or Discard the result.
func (d *Dir) Write(m relay.MailboxID, id relay.NotificationID, kind string, data []byte, now time.Time) (*Aside, error) {
	if err := d.root.Mkdir(string(m), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, unwritable(err)
	}
	base := filepath.Join(string(m), string(id))
	a := &Aside{dir: d, base: base, final: base + extensions[kind], temp: base + "-" + relay.RandomHex(4) + asideExtension}
	if err := d.flush(a.temp, data, now); err != nil {
		a.Discard()
		return nil, unwritable(err)
	}
	return a, nil
}

func (d *Dir) flush(name string, data []byte, now time.Time) error {
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = d.root.Chtimes(name, now, now)
	}
	return err
}

// Keep puts the clip in its place, takes an older one of another type away, and flushes the folder.
func (a *Aside) Keep() error {
	if err := a.replace(); err != nil {
		return unwritable(err)
	}
	folder, err := a.dir.root.Open(filepath.Dir(a.final))
	if err != nil {
		return unwritable(err)
	}
	defer folder.Close()
	return folder.Sync()
}

func (a *Aside) replace() error {
	a.dir.swap.Lock()
	defer a.dir.swap.Unlock()
	if err := a.dir.root.Rename(a.temp, a.final); err != nil {
		return err
	}
	a.kept = true
	for _, ext := range extensions {
		if a.base+ext != a.final {
			_ = a.dir.root.Remove(a.base + ext) // mostly absent
		}
	}
	return nil
}

// Discard removes the clip unless it was kept.
func (a *Aside) Discard() {
	if !a.kept {
		_ = a.dir.root.Remove(a.temp) // a leftover goes with the next sweep
	}
}

// Read opens a clip and tells its media type. One that is gone is NotFound. Close the file.
func (d *Dir) Read(m relay.MailboxID, id relay.NotificationID) (*os.File, string, error) {
	d.swap.RLock()
	defer d.swap.RUnlock()
	for kind, ext := range extensions {
		f, err := d.root.Open(filepath.Join(string(m), string(id)) + ext)
		if err == nil {
			return f, kind, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("read clip: %w", err)
		}
	}
	return nil, "", fault.NotFoundf("there is no such voice clip; clips are kept for 7 days")
}

// Remove takes every clip of the mailbox away.
func (d *Dir) Remove(m relay.MailboxID) error { return d.root.RemoveAll(string(m)) }

// Sweep removes clips and leftovers dated before cutoff, at most limit, and returns how many.
func (d *Dir) Sweep(cutoff time.Time, limit int) (removed int, err error) {
	err = fs.WalkDir(d.root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreGone(err)
		}
		info, err := e.Info()
		if err != nil || !info.ModTime().Before(cutoff) {
			return ignoreGone(err)
		}
		if err := d.root.Remove(path); err != nil {
			return ignoreGone(err)
		}
		if removed++; removed >= limit {
			return fs.SkipAll
		}
		return nil
	})
	return removed, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func unwritable(err error) error {
	return fault.New(fault.Unavailable, "internal", "the relay could not store the clip; try again later").Because(err)
}
