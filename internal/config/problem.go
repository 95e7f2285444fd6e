package config

import "strings"

// Problem is one mistake in the configuration. Neither text ever holds the value of a secret.
type Problem struct {
	Key    string // the setting, or the unknown name
	Source string // file, environment or flag; empty for a rule between settings
	Detail string // what is wrong
	Hint   string // what to do about it
}

// Error tells all of it in one line.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Key)
	if p.Source != "" {
		b.WriteString(" (" + p.Source + ")")
	}
	b.WriteString(": " + p.Detail)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Problems takes apart the error of Load. Any other error yields nothing.
func Problems(err error) (list []*Problem) {
	switch e := err.(type) {
	case *Problem:
		return []*Problem{e}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			list = append(list, Problems(one)...)
		}
	}
	return list
}

// wrong makes a Problem whose key and source the caller fills in.
func wrong(detail, hint string) error { return &Problem{Detail: detail, Hint: hint} }

// quote shows a stranger's value in a message, cut to a bearable length.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return `"` + strings.ToValidUTF8(s, "�") + `"`
}
