package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SecretFile is where the embedded default keeps RELAY_SECRET in its data directory.
const SecretFile = "relay.secret"

// Secrets returns the RELAY_SECRET kept in dataDir and makes it on the first call, the directory included: 32 random
// bytes in hex, in a file of mode 0600 in a directory of mode 0700. created tells that it is new.
//
// The file appears whole or not at all, survives a power cut once Secrets has returned, and is never replaced: when two
// processes start at once, both get the same secret.
func Secrets(dataDir string) (secret Secret, created bool, err error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return "", false, fmt.Errorf("make the data directory: %w; name a directory you may write with --data", err)
	}
	path := filepath.Join(dataDir, SecretFile)
	text, err := readSecretFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if created, err = createSecret(dataDir, path); err == nil {
			text, err = readSecretFile(path)
		}
	}
	if _, loose := errors.AsType[*looseError](err); loose {
		return "", false, fmt.Errorf("relay secret: %w", err)
	}
	if err != nil {
		return "", false, fmt.Errorf("relay secret: %w; restore it from a backup: with another one every device must pair again", err)
	}
	if len(text) < 32 {
		return "", false, fmt.Errorf("relay secret: %s holds fewer than 32 characters; restore it from a backup", path)
	}
	return Secret(text), created, nil
}

// createSecret writes the secret aside and links it into place, which fails when somebody was faster.
func createSecret(dir, path string) (created bool, err error) {
	var secret [32]byte
	rand.Read(secret[:])
	aside, err := os.CreateTemp(dir, SecretFile+".*") // mode 0600
	if err != nil {
		return false, err
	}
	defer os.Remove(aside.Name())
	_, err = aside.WriteString(hex.EncodeToString(secret[:]) + "\n")
	if err = errors.Join(err, aside.Sync(), aside.Close()); err != nil {
		return false, err
	}
	if err = os.Link(aside.Name(), path); errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, errors.Join(err, syncDir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
