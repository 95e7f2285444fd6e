// Package doctor finds what is wrong with a relay and says what to change: on this machine, where it reads the
// configuration, the data and the device's profile, and from outside, where it plays the clients that will come.
//
// A report is a list of findings, each the result of one check: whether it passed, what was seen, and, when it did not, the
// fix. A check that rests on one that failed is noted as not made, so that one mistake is one failure. Nothing is changed.
//
// What others wrote, servers above all, is made safe for a terminal before it enters a finding, and so are its bounds: every
// question has a time, every answer a size.
package doctor

import "github.com/herald-relay/herald/internal/cli/screen"

// State is the result of a check.
type State string

// The states. A note is neither good nor bad: something that is not there, or a check that could not be made.
const (
	Pass State = "pass"
	Note State = "note"
	Warn State = "warn"
	Fail State = "fail"
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Seen  string `json:"seen"`
	Fix   string `json:"fix,omitzero"` // what to change; set when State is Warn or Fail
}

// Report gathers findings in the order in which they were made.
type Report struct{ Findings []Finding }

// Add adds one.
func (r *Report) Add(check string, state State, seen, fix string) {
	r.Findings = append(r.Findings, Finding{check, state, screen.Line(seen), screen.Line(fix)})
}

func (r *Report) pass(check, seen string)      { r.Add(check, Pass, seen, "") }
func (r *Report) note(check, seen string)      { r.Add(check, Note, seen, "") }
func (r *Report) warn(check, seen, fix string) { r.Add(check, Warn, seen, fix) }
func (r *Report) fail(check, seen, fix string) { r.Add(check, Fail, seen, fix) }

// OK reports whether nothing failed.
func (r *Report) OK() bool {
	for _, f := range r.Findings {
		if f.State == Fail {
			return false
		}
	}
	return true
}

// failed reports whether a check did.
func (r *Report) failed(check string) bool {
	for _, f := range r.Findings {
		if f.Check == check && f.State == Fail {
			return true
		}
	}
	return false
}
