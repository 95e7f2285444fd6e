// Package desk keeps the notifications that lie before a person, numbered, and decides which one a typed line answers.
//
// A late answer must never resolve a newer question. So a line is aimed when the person begins to type it, and it
// reaches the question that lay there then or none: not one that came since, and none at random when several lie open.
// A line that begins with a number, as in "#2 yes", says itself what it answers.
package desk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// kept bounds the notifications that are remembered; older ones are off the desk.
const kept = 1000

// State of an item.
type State int

// The states. A notification that expects no reply is Shown, and can be answered all the same.
const (
	Open State = iota
	Shown
	Answered  // here
	Elsewhere // answered on another device
	Ended     // can no longer be answered
)

// Item is one notification.
type Item struct {
	Number int
	ID     string // the relay's
	Title  string
	State  State
}

// Desk is safe for concurrent use.
type Desk struct {
	mu    sync.Mutex // guards the rest
	last  int        // number given last
	items []Item     // oldest first
}

// Put lays a notification down and returns its number.
func (d *Desk) Put(id, title string, expectsReply bool) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	state := Shown
	if expectsReply {
		state = Open
	}
	d.items = append(d.items, Item{Number: d.last, ID: id, Title: title, State: state})
	if over := len(d.items) - kept; over > 0 {
		d.items = append(d.items[:0:0], d.items[over:]...)
	}
	return d.last
}

// Settle gives an item that was open or shown its final state. It returns the item as it was before.
func (d *Desk) Settle(id string, to State) (before Item, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.items {
		it := &d.items[i]
		if it.ID != id {
			continue
		}
		before = *it
		if it.State == Open || it.State == Shown {
			it.State = to
		}
		return before, true
	}
	return Item{}, false
}

// Open lists the questions that wait for an answer, oldest first.
func (d *Desk) Open() []Item {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.openLocked()
}

func (d *Desk) openLocked() (list []Item) {
	for _, it := range d.items {
		if it.State == Open {
			list = append(list, it)
		}
	}
	return list
}

// Aim is what lay open when a person began to type.
type Aim struct{ numbers []int }

// Aim takes aim now.
func (d *Desk) Aim() Aim {
	var a Aim
	for _, it := range d.Open() {
		a.numbers = append(a.numbers, it.Number)
	}
	return a
}

// Why a line answers nothing.
var (
	ErrNothingOpen = errors.New("no question waits for an answer")
	ErrNoText      = errors.New("there is no answer behind the number")
)

// SeveralError tells that a line without a number could mean any of several questions.
type SeveralError struct{ Items []Item }

// Error says what to type.
func (e *SeveralError) Error() string {
	return fmt.Sprintf("%d questions are open; say which one you answer, as in #%d yes", len(e.Items), e.Items[0].Number)
}

// GoneError tells that the question is not on the desk any more, or never was.
type GoneError struct {
	Number int
	State  State
}

// Error says what became of it.
func (e *GoneError) Error() string {
	what := "is not here"
	switch e.State {
	case Answered:
		what = "was answered already"
	case Elsewhere:
		what = "was answered on another device meanwhile"
	case Ended:
		what = "cannot be answered any more"
	}
	return fmt.Sprintf("#%d %s; your line was not sent", e.Number, what)
}

// Resolve finds the item that a line answers, and the answer in it. A line that begins with ## is text that begins
// with #.
func (d *Desk) Resolve(line string, aim Aim) (Item, string, error) {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "##") {
		line = line[1:]
	} else if number, text, ok := numbered(line); ok {
		if text == "" {
			return Item{}, "", ErrNoText
		}
		it, err := d.find(number)
		return it, text, err
	}
	switch len(aim.numbers) {
	case 0:
		return Item{}, "", ErrNothingOpen
	case 1:
		it, err := d.find(aim.numbers[0])
		return it, line, err
	}
	if open := d.Open(); len(open) > 0 {
		return Item{}, "", &SeveralError{open}
	}
	return Item{}, "", ErrNothingOpen
}

// numbered splits "#2 yes".
func numbered(line string) (number int, text string, ok bool) {
	if !strings.HasPrefix(line, "#") {
		return 0, "", false
	}
	digits, text, _ := strings.Cut(line[1:], " ")
	number, err := strconv.Atoi(strings.TrimSuffix(digits, ":"))
	return number, strings.TrimSpace(text), err == nil && number > 0
}

func (d *Desk) find(number int) (Item, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, it := range d.items {
		if it.Number != number {
			continue
		}
		if it.State != Open && it.State != Shown {
			return Item{}, &GoneError{number, it.State}
		}
		return it, nil
	}
	return Item{}, &GoneError{Number: number}
}
