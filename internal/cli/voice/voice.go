// Package voice speaks text with the speech program that the machine has.
//
// Text goes to the program's standard input where it can, because arguments of a process are shown to every user of the
// machine. The text never becomes an option, a command or markup of the program.
package voice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/cli/screen"
)

// longest bounds one utterance: two thousand characters at half speed take about eight minutes.
const longest = 10 * time.Minute

// Utterance is what to say. Voices are names of other programs' and are left to the engine.
type Utterance struct {
	Text  string
	Lang  string  // such as en-us; "" is the engine's own
	Speed float64 // 0.5 to 2; 0 is normal
}

// Voice is a speech program.
type Voice struct {
	Name   string
	path   string
	engine engine
}

// engine knows how one program is spoken to.
type engine struct {
	name    string
	args    func(u Utterance) []string
	byInput bool // the text goes to standard input; else it is the last argument
	tidy    func(string) string
}

// wordsPerMinute is the normal speed of the programs that count so.
const wordsPerMinute = 175

// engines in the order in which they are preferred: those that keep the text to themselves first.
var engines = []engine{
	{name: "say", byInput: true, tidy: unbracket, args: func(u Utterance) []string {
		return append([]string{"-f", "-"}, rate("-r", u, wordsPerMinute)...)
	}},
	{name: "espeak-ng", byInput: true, args: espeak},
	{name: "espeak", byInput: true, args: espeak},
	{name: "spd-say", args: func(u Utterance) []string {
		args := []string{"--wait"}
		if u.Lang != "" {
			args = append(args, "--language", u.Lang)
		}
		if u.Speed != 0 { // -100 to 100, 0 is normal
			args = append(args, "--rate", strconv.Itoa(int(max(-100, min(100, math.Round(100*(u.Speed-1)))))))
		}
		return append(args, "--")
	}},
}

func espeak(u Utterance) []string {
	args := append([]string{"--stdin"}, rate("-s", u, wordsPerMinute)...)
	if u.Lang != "" {
		args = append(args, "-v", u.Lang)
	}
	return args
}

func rate(flag string, u Utterance, normal float64) []string {
	if u.Speed == 0 {
		return nil
	}
	return []string{flag, strconv.Itoa(int(math.Round(u.Speed * normal)))}
}

// unbracket takes [[ apart, with which text commands the speech of macOS.
func unbracket(s string) string { return strings.ReplaceAll(s, "[[", "[ [") }

// Find returns the best speech program that lookPath finds, or the one called want when it is not "". nil means none.
func Find(want string, lookPath func(string) (string, error)) *Voice {
	for _, e := range engines {
		if want != "" && want != e.name {
			continue
		}
		if path, err := lookPath(e.name); err == nil {
			return &Voice{e.name, path, e}
		}
	}
	return nil
}

// Names lists the programs that Find knows.
func Names() (names []string) {
	for _, e := range engines {
		names = append(names, e.name)
	}
	return names
}

// ErrNothing says that there was nothing to say.
var ErrNothing = errors.New("nothing to say")

// Say speaks and returns nil only when the program said everything and ended well. Ending ctx silences it.
func (v *Voice) Say(ctx context.Context, u Utterance) error {
	text := strings.TrimSpace(screen.Block(u.Text))
	if v.engine.tidy != nil {
		text = v.engine.tidy(text)
	}
	if text == "" {
		return ErrNothing
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	args := v.engine.args(u)
	if !v.engine.byInput {
		args = append(args, text)
	}
	cmd := exec.CommandContext(ctx, v.path, args...)
	cmd.WaitDelay = time.Second
	if v.engine.byInput {
		cmd.Stdin = strings.NewReader(text)
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", v.Name, err)
	}
	return nil
}
