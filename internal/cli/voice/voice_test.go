package voice

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program puts a speech program in place that writes its arguments and its input to a file, then ends as told.
func program(t *testing.T, name, ending string) (v *Voice, said func() string) {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "said")
	script := "#!/bin/sh\n{ printf '%s|' \"$@\"; [ -p /dev/stdin ] && cat; } > " + out + "\n" + ending + "\n"
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	v = Find(name, func(want string) (string, error) {
		if want == name {
			return path, nil
		}
		return "", exec.ErrNotFound
	})
	return v, func() string {
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
}

func TestSay(t *testing.T) {
	text := "-v evil\x1b[[rate 9]] <speak> $(id)"
	for name, want := range map[string]string{
		"say":       "-f|-|-r|263|-v evil�[ [rate 9]] <speak> $(id)",
		"espeak-ng": "--stdin|-s|263|-v|en-us|-v evil�[[rate 9]] <speak> $(id)",
		"espeak":    "--stdin|-s|263|-v|en-us|-v evil�[[rate 9]] <speak> $(id)",
		"spd-say":   "--wait|--language|en-us|--rate|50|--|-v evil�[[rate 9]] <speak> $(id)|",
	} {
		v, said := program(t, name, "exit 0")
		if err := v.Say(t.Context(), Utterance{Text: text, Lang: "en-us", Speed: 1.5}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := said(); got != want {
			t.Errorf("%s was told %q, want %q", name, got, want)
		}
	}
}

func TestSayFailsUnlessSpeechEnded(t *testing.T) {
	v, _ := program(t, "espeak-ng", "exit 3")
	if err := v.Say(t.Context(), Utterance{Text: "a"}); err == nil {
		t.Error("a program that failed counts as speech")
	}
	if err := v.Say(t.Context(), Utterance{Text: " \n"}); !errors.Is(err, ErrNothing) {
		t.Errorf("Say of nothing = %v", err)
	}
	v, _ = program(t, "espeak-ng", "exec sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := v.Say(ctx, Utterance{Text: "a"}); err == nil {
		t.Error("interrupted speech counts as speech")
	}
}

func TestFind(t *testing.T) {
	has := func(names ...string) func(string) (string, error) {
		return func(want string) (string, error) {
			for _, n := range names {
				if n == want {
					return "/bin/" + n, nil
				}
			}
			return "", exec.ErrNotFound
		}
	}
	if v := Find("", has("spd-say", "espeak-ng")); v == nil || v.Name != "espeak-ng" {
		t.Errorf("Find = %+v, want the program that keeps the text to itself", v)
	}
	if v := Find("spd-say", has("spd-say", "espeak-ng")); v == nil || v.Name != "spd-say" {
		t.Errorf("Find = %+v, want the one asked for", v)
	}
	if v := Find("", has()); v != nil {
		t.Errorf("Find = %+v on a machine without speech", v)
	}
	if got := strings.Join(Names(), " "); got != "say espeak-ng espeak spd-say" {
		t.Errorf("Names = %s", got)
	}
}
