package screen

import "strings"

// Style colours text, or leaves it alone.
type Style struct{ on bool }

// NewStyle colours when on.
func NewStyle(on bool) Style { return Style{on} }

// The looks.
func (s Style) Bold(text string) string   { return s.paint("1", text) }
func (s Style) Dim(text string) string    { return s.paint("2", text) }
func (s Style) Red(text string) string    { return s.paint("31", text) }
func (s Style) Green(text string) string  { return s.paint("32", text) }
func (s Style) Yellow(text string) string { return s.paint("33", text) }
func (s Style) Cyan(text string) string   { return s.paint("36", text) }

// paint wraps each line by itself, so that a colour never outlives its line.
func (s Style) paint(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "\x1b[" + code + "m" + line + "\x1b[0m"
		}
	}
	return strings.Join(lines, "\n")
}
