package profile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "profile.json")
	want := Profile{"https://relay.example", "d", "hrd_d_s", "desk"}
	for range 2 { // the second replaces the first
		if err := Save(path, want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Load(path); err != nil || got != want {
		t.Errorf("Load = %+v, %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".herald-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, ErrNone) {
		t.Errorf("a missing profile = %v", err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("a directory was read")
	}
	for name, content := range map[string]string{
		"empty": "", "junk": "junk hrd_secret", "half": `{"relay":"https://relay.example"}`, "list": "[]",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || strings.Contains(err.Error(), "hrd_secret") {
			t.Errorf("%s: error = %v", name, err)
		}
	}
	open := filepath.Join(dir, "open")
	if err := Save(open, Profile{Relay: "https://relay.example", Token: "hrd_d_s"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(open); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a profile that others can read = %v", err)
	}
}

func TestPathFollowsTheConfigurationDirectory(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", "/somewhere")
	if got, err := Path(); err != nil || got != "/somewhere/herald/profile.json" {
		t.Errorf("Path = %s, %v", got, err)
	}
}
