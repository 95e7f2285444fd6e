// Package profile keeps what makes this machine a device: the relay's address and the token that pairing gave.
//
// A profile is a small JSON file that only its owner may read; one that others could read is refused, as the token in
// it opens the mailbox.
package profile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Profile is a paired device.
type Profile struct {
	Relay    string `json:"relay"`    // the address
	DeviceID string `json:"deviceId"` // the mailbox
	Token    string `json:"deviceToken"`
	Name     string `json:"deviceName,omitzero"`
}

// maxSize bounds the file; a real one has a few hundred bytes.
const maxSize = 64 << 10

// ErrNone says that this machine is not paired.
var ErrNone = errors.New("this machine is not paired with a relay")

// Path returns where the profile is without being told: herald/profile.json in the user's configuration directory.
func Path() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no configuration directory: %w", err)
	}
	return filepath.Join(dir, "herald", "profile.json"), nil
}

// Load reads a profile. One that is missing is ErrNone.
func Load(path string) (Profile, error) {
	data, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Profile{}, ErrNone
	}
	if err != nil {
		return Profile{}, err
	}
	var p Profile
	if err := json.Unmarshal(data, &p); err != nil || p.Relay == "" || p.Token == "" {
		return Profile{}, fmt.Errorf("%s is no profile that herald pair wrote; pair again", path) // the cause could quote the token
	}
	return p, nil
}

// ReadSecret reads a small file and refuses one that others may read.
func ReadSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := private(path, info); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxSize))
}

func private(path string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s can be read by others, and what it holds is secret; run: chmod 600 %s", path, path)
	}
	return nil
}

// Save writes the profile whole or not at all, readable by its owner only, and makes its directory.
func Save(path string, p Profile) error {
	data, err := json.Marshal(p, jsontext.Multiline(true))
	if err != nil {
		return err
	}
	return Keep(path, append(data, '\n'))
}

// Keep writes a secret to a file as Save does.
func Keep(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".herald-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
