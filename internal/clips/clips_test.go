package clips_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/clips"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

const (
	mailbox = relay.MailboxID("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	note    = relay.NotificationID("r_0123456789abcdef01234567")
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) (*clips.Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clips")
	d, err := clips.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, path
}

func write(t *testing.T, d *clips.Dir, m relay.MailboxID, kind, data string, at time.Time) *clips.Aside {
	t.Helper()
	a, err := d.Write(m, note, kind, []byte(data), at)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func keep(t *testing.T, d *clips.Dir, m relay.MailboxID, kind, data string, at time.Time) {
	t.Helper()
	a := write(t, d, m, kind, data, at)
	defer a.Discard() // does nothing any more
	if err := a.Keep(); err != nil {
		t.Fatal(err)
	}
}

// read returns the clip as "type: bytes", "" when there is none.
func read(t *testing.T, d *clips.Dir, m relay.MailboxID) string {
	t.Helper()
	f, kind, err := d.Read(m, note)
	if fault.Is(err, fault.NotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return kind + ": " + string(data)
}

func files(t *testing.T, path string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, e.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestIdentifyLooksAtTheBytesFirst(t *testing.T) {
	t.Parallel()
	const (
		mp4  = "\x00\x00\x00\x18ftypM4A "
		webm = "\x1a\x45\xdf\xa3rest"
		ogg  = "OggS\x00rest"
	)
	tests := []struct {
		name, data, label string
		kind              string
		known             bool
	}{
		{"mp4", mp4, "", "audio/mp4", true},
		{"mp4 of any brand", "\xff\xff\xff\xffftypisom", "audio/ogg", "audio/mp4", true},
		{"mp4 that ends in its first box's name", "\x00\x00\x00\x18ftyp", "", "audio/mp4", true},
		{"ftyp elsewhere", "ftyp\x00\x00\x00\x18", "", "audio/mp4", false},
		{"webm", webm, "audio/mp4", "audio/webm", true},
		{"ogg", ogg, "audio/aac", "audio/ogg", true},
		{"ogg in small letters", "oggs", "", "audio/mp4", false},
		{"ADTS without checksum", "\xff\xf1\x50", "", "audio/aac", true},
		{"ADTS with checksum", "\xff\xf0\x50", "", "audio/aac", true},
		{"ADTS of MPEG-2", "\xff\xf9\x50", "audio/mp4", "audio/aac", true},
		{"MP3 is no ADTS: its layer is not 0", "\xff\xfb\x90", "", "audio/mp4", false},
		{"eleven sync bits", "\xff\xe1\x50", "", "audio/mp4", false},
		{"one byte", "\xff", "audio/aac", "audio/aac", true},
		{"nothing", "", "audio/x-m4a", "audio/mp4", true},
		{"unknown bytes, a documented label", "RIFF", "audio/x-m4a; codecs=alac", "audio/mp4", true},
		{"unknown bytes, a label in capitals with blanks", "RIFF", " AUDIO/AAC ; q=1", "audio/aac", true},
		{"unknown bytes, a browser's label", "RIFF", "audio/webm", "audio/mp4", false},
		{"unknown bytes, a label that is none", "RIFF", ";;;", "audio/mp4", false},
		{"unknown bytes, two labels", "RIFF", "audio/mp4, text/html", "audio/mp4", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			kind, known := clips.Identify([]byte(test.data), test.label)
			if kind != test.kind || known != test.known {
				t.Errorf("Identify = %s, %v; want %s, %v", kind, known, test.kind, test.known)
			}
		})
	}
}

// What is served is always one of four types, so no upload becomes a page.
func FuzzIdentify(f *testing.F) {
	f.Add([]byte("<!doctype html>"), "text/html")
	f.Add([]byte("\x00\x00\x00\x18ftyp"), "audio/mp4")
	f.Add([]byte("\xff\xf1"), "audio/aac;x")
	f.Fuzz(func(t *testing.T, data []byte, label string) {
		kind, known := clips.Identify(data, label)
		if again, same := clips.Identify(data, label); again != kind || same != known {
			t.Error("two answers to one question")
		}
		switch kind {
		case "audio/mp4", "audio/aac":
		case "audio/webm", "audio/ogg":
			if !known {
				t.Errorf("unknown, and yet %s", kind)
			}
		default:
			t.Errorf("served as %q", kind)
		}
	})
}

func TestAClipIsThereOnceItIsKept(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	if got := read(t, d, mailbox); got != "" {
		t.Errorf("clip = %q before there was one", got)
	}
	a := write(t, d, mailbox, "audio/mp4", "one", noon)
	if got := read(t, d, mailbox); got != "" {
		t.Errorf("clip = %q before it was kept", got)
	}
	if err := a.Keep(); err != nil {
		t.Fatal(err)
	}
	a.Discard()
	if got := read(t, d, mailbox); got != "audio/mp4: one" {
		t.Errorf("clip = %q", got)
	}
	info, err := os.Stat(filepath.Join(path, string(mailbox), string(note)+".m4a"))
	if err != nil || info.Mode().Perm() != 0o600 || !info.ModTime().Equal(noon) {
		t.Errorf("file = %v %v, %v; want mode 0600 and the given time", info.Mode(), info.ModTime(), err)
	}
	if info, err = os.Stat(filepath.Join(path, string(mailbox))); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder = %v, %v; want mode 0700", info.Mode(), err)
	}
}

func TestADiscardedClipLeavesNothingAndTheOlderStays(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	keep(t, d, mailbox, "audio/mp4", "older", noon)
	a := write(t, d, mailbox, "audio/ogg", "newer", noon)
	a.Discard()
	a.Discard()
	if got := read(t, d, mailbox); got != "audio/mp4: older" {
		t.Errorf("clip = %q", got)
	}
	if got := files(t, path); len(got) != 1 {
		t.Errorf("files = %v", got)
	}
}

func TestANewerClipReplacesTheOlderOfAnyType(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	for i, kind := range []string{"audio/mp4", "audio/mp4", "audio/webm", "audio/ogg", "audio/aac", "audio/mp4"} {
		data := strings.Repeat("x", i+1)
		keep(t, d, mailbox, kind, data, noon)
		if got, want := read(t, d, mailbox), kind+": "+data; got != want {
			t.Errorf("clip = %q, want %q", got, want)
		}
		if got := files(t, path); len(got) != 1 {
			t.Errorf("files = %v", got)
		}
	}
}

func TestRemoveTakesOneMailboxsClipsAlone(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	other := relay.MailboxID(strings.Repeat("b", 48))
	for _, m := range []relay.MailboxID{mailbox, other} {
		keep(t, d, m, "audio/mp4", "x", noon)
		write(t, d, m, "audio/mp4", "in progress", noon)
	}
	for range 2 { // the second time there is nothing, and that is no error
		if err := d.Remove(mailbox); err != nil {
			t.Error(err)
		}
	}
	if read(t, d, mailbox) != "" || read(t, d, other) == "" {
		t.Errorf("files = %v", files(t, path))
	}
}

// An upload whose mailbox is removed meanwhile fails; it does not come back.
func TestAClipWhoseMailboxGoesMeanwhileIsNotKept(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	a := write(t, d, mailbox, "audio/mp4", "x", noon)
	if err := d.Remove(mailbox); err != nil {
		t.Fatal(err)
	}
	if err := a.Keep(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Keep = %v, want Unavailable", err)
	}
	a.Discard()
	if got := files(t, path); got != nil {
		t.Errorf("files = %v", got)
	}
}

func TestSweepRemovesWhatIsOldInBoundedNumbers(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	cutoff := noon.Add(-clips.Keep)
	ids := []string{"a", "b", "c", "d", "e"}
	for _, digit := range ids {
		m := relay.MailboxID(strings.Repeat(digit, 48))
		keep(t, d, m, "audio/mp4", "old", cutoff.Add(-time.Second))
	}
	keep(t, d, mailbox[:47]+"9", "audio/mp4", "at the cutoff", cutoff)
	write(t, d, mailbox[:47]+"8", "audio/mp4", "a leftover", cutoff.Add(-time.Hour))
	write(t, d, mailbox[:47]+"7", "audio/mp4", "in progress", noon)
	for _, want := range []int{4, 2, 0} {
		if n, err := d.Sweep(cutoff, 4); err != nil || n != want {
			t.Errorf("Sweep = %d, %v; want %d", n, err, want)
		}
	}
	if got := files(t, path); len(got) != 2 {
		t.Errorf("files = %v, want the young ones", got)
	}
}

func TestNothingEscapesTheDirectory(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	outside := filepath.Join(filepath.Dir(path), "secret.m4a")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []relay.NotificationID{"../secret", "../../secret"} {
		if f, _, err := d.Read("..", id); err == nil {
			data, _ := io.ReadAll(f)
			t.Errorf("%s was read: %s", id, data)
		}
	}
	if err := os.Symlink(filepath.Dir(path), filepath.Join(path, "link")); err != nil {
		t.Fatal(err)
	}
	if f, _, err := d.Read("link", "secret"); err == nil {
		data, _ := io.ReadAll(f)
		t.Errorf("a link was followed: %s", data)
	}
	if _, err := d.Write("..", note, "audio/mp4", nil, noon); err == nil {
		t.Error("a clip was written outside")
	}
	if err := d.Remove(".."); err == nil {
		t.Error("the directory's parent was removed")
	}
}

func TestADirectoryThatCannotBeWrittenIsUnavailable(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	if err := os.WriteFile(filepath.Join(path, string(mailbox)), nil, 0o600); err != nil { // in the folder's place
		t.Fatal(err)
	}
	if _, err := d.Write(mailbox, note, "audio/mp4", []byte("x"), noon); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Write = %v, want Unavailable", err)
	}
	if _, err := clips.Open(filepath.Join(path, string(mailbox))); err == nil {
		t.Error("a file was opened as the directory")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Read(mailbox, note); err == nil || fault.Is(err, fault.NotFound) {
		t.Errorf("Read of a closed directory = %v, want a failure", err)
	}
}

// Readers see one clip or the other, never half of one. It is for the race detector too.
func TestReadersAndWritersAtOnce(t *testing.T) {
	t.Parallel()
	d, path := open(t)
	kinds := []string{"audio/mp4", "audio/webm", "audio/ogg", "audio/aac"}
	keep(t, d, mailbox, kinds[0], strings.Repeat(kinds[0], 5000), noon)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 20 {
				a, err := d.Write(mailbox, note, kinds[i], bytes.Repeat([]byte(kinds[i]), 5000), noon)
				if err != nil {
					t.Error(err)
					return
				}
				if err := a.Keep(); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 50 {
				f, kind, err := d.Read(mailbox, note)
				if err != nil {
					t.Error(err)
					continue
				}
				data, err := io.ReadAll(f)
				if err = errors.Join(err, f.Close()); err != nil || string(data) != strings.Repeat(kind, 5000) {
					t.Errorf("read %d bytes of %s, %v", len(data), kind, err)
				}
			}
		})
	}
	wg.Wait()
	if got := files(t, path); len(got) != 1 {
		t.Errorf("files = %v, want the one that was kept last", got)
	}
}
