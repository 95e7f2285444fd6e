package listen

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/herald-relay/herald/internal/cli/desk"
)

// maxLine bounds one typed or piped line, in bytes: a longest answer of four-byte characters, with room.
const maxLine = 64 << 10

// Keyboard is a terminal on which a person types while cards appear above the line.
type Keyboard struct {
	term  *term.Terminal
	fd    int
	saved *term.State
	watch *watched
	paste strings.Builder
}

// NewKeyboard takes a terminal over; Close gives it back. aim is asked when a line is begun.
func NewKeyboard(in io.Reader, fd int, out io.Writer, aim func() desk.Aim) (*Keyboard, error) {
	saved, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	w := &watched{Reader: in, Writer: out, take: aim, fresh: true}
	k := &Keyboard{term: term.NewTerminal(w, "› "), fd: fd, saved: saved, watch: w}
	k.term.AutoCompleteCallback = func(line string, _ int, _ rune) (string, int, bool) {
		if line == "" {
			w.aimNow()
		}
		return "", 0, false
	}
	k.term.SetBracketedPasteMode(true)
	k.Columns()
	return k, nil
}

// Close gives the terminal back, without the prompt.
func (k *Keyboard) Close() error {
	k.term.SetBracketedPasteMode(false)
	_, _ = io.WriteString(k.watch, "\r\x1b[K") // a prompt that stays is not worth failing for
	return term.Restore(k.fd, k.saved)
}

// Columns is the width of the terminal now.
func (k *Keyboard) Columns() int {
	columns, rows, err := term.GetSize(k.fd)
	if err != nil {
		return 80
	}
	_ = k.term.SetSize(columns, rows) // fails only with the terminal, which the next write tells
	return columns
}

// Write shows text above the line being typed.
func (k *Keyboard) Write(text []byte) (int, error) { return k.term.Write(text) }

// next returns a line when Enter was pressed. Pasted line breaks do not send: they are kept until Enter is pressed.
func (k *Keyboard) next() (line string, aim desk.Aim, err error) {
	for {
		line, err = k.term.ReadLine()
		if !errors.Is(err, term.ErrPasteIndicator) {
			break
		}
		if k.paste.Len() < maxLine {
			k.paste.WriteString(line + "\n")
		}
		_, _ = k.term.Write([]byte("(pasted; press Enter to send)\n"))
	}
	line = k.paste.String() + line
	k.paste.Reset()
	return line, k.watch.done(), err
}

// watched notices when typing begins.
type watched struct {
	io.Reader
	io.Writer
	take func() desk.Aim

	mu    sync.Mutex // guards the rest
	fresh bool       // no key was pressed since the last line
	aim   desk.Aim
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.mu.Lock()
	fresh := w.fresh
	w.mu.Unlock()
	if fresh {
		w.aimNow()
	}
	return n, err
}

func (w *watched) aimNow() {
	aim := w.take()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aim, w.fresh = aim, false
}

// done returns the aim of the line that ended. Another line from the same read keeps it, so that a burst of lines
// does not run through the questions.
func (w *watched) done() desk.Aim {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fresh = true
	return w.aim
}

// pipe reads lines that a program wrote. Empty ones are skipped.
type pipe struct{ scanner *bufio.Scanner }

func newPipe(in io.Reader) *pipe {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	return &pipe{s}
}

func (p *pipe) next() (string, error) {
	for p.scanner.Scan() {
		if line := strings.TrimSpace(p.scanner.Text()); line != "" {
			return line, nil
		}
	}
	if err := p.scanner.Err(); err != nil {
		return "", err
	}
	return "", io.EOF
}
