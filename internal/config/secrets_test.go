package config

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestFirstStartMakesTheSecretOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "share", "herald")
	first, created, err := Secrets(dir)
	if err != nil || !created || len(first.Reveal()) != 64 {
		t.Fatalf("Secrets = %d characters, created %v, %v", len(first.Reveal()), created, err)
	}
	again, created, err := Secrets(dir)
	if err != nil || created || again != first {
		t.Errorf("second call: same %v, created %v, %v", again == first, created, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "relay.secret"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", filepath.Base(path), info.Mode(), err, want)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files in the data directory, want the secret alone", len(left))
	}
}

func TestRacingFirstStartsAgree(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	got := make([]Secret, 16)
	made := make([]bool, len(got))
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], made[i], err = Secrets(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	creators := 0
	for i := range got {
		if got[i] != got[0] {
			t.Errorf("start %d has another secret", i)
		}
		if made[i] {
			creators++
		}
	}
	if creators != 1 {
		t.Errorf("%d starts made the secret, want 1", creators)
	}
}

func TestSpoiltSecretsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"readable by others": func(p string) error { return os.Chmod(p, 0o644) },
		"emptied":            func(p string) error { return os.Truncate(p, 0) },
		"cut short":          func(p string) error { return os.Truncate(p, 20) },
	} {
		dir := t.TempDir()
		if _, _, err := Secrets(dir); err != nil {
			t.Fatal(err)
		}
		if err := spoil(filepath.Join(dir, "relay.secret")); err != nil {
			t.Fatal(err)
		}
		if s, _, err := Secrets(dir); err == nil || s != "" {
			t.Errorf("a secret %s: Secrets = %v, want a refusal", name, err)
		}
	}
}

func TestAnUnwritableDataDirectoryIsToldClearly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Secrets(filepath.Join(file, "data"))
	if err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("Secrets = %v, want a hint at --data", err)
	}
}

func TestASecretThatOthersCanReadIsRefusedWithTheCommandThatMendsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, _, err := Secrets(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, SecretFile)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := Secrets(dir)
	if err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) || strings.Contains(err.Error(), "backup") {
		t.Errorf("Secrets = %v, want the command that mends the mode and no talk of backups", err)
	}
}
