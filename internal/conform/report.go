package conform

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Standing is how a server stands with one consumer: the rules that it leans on, in its dialect.
type Standing struct {
	Consumer Consumer `json:"client"`
	// OK says that none of them that is a Must failed.
	OK          bool `json:"ok"`
	Passed      int  `json:"passed"`
	NotTestable int  `json:"notTestable"`
	// Failed are the numbers of those that failed, Should included.
	Failed []int `json:"failed"`
}

// Standings tells about each consumer whose dialect was spoken.
func (rep *Report) Standings() (list []Standing) {
	for _, c := range Consumers() {
		i := slices.IndexFunc(rep.Passages, func(p Passage) bool { return p.Dialect == c.Dialect() })
		if i < 0 {
			continue
		}
		s := Standing{Consumer: c, OK: true, Failed: []int{}}
		for _, res := range rep.Passages[i].Results {
			if slices.Contains(res.Rule.Needs, c) {
				s.add(res)
			}
		}
		list = append(list, s)
	}
	return list
}

func (s *Standing) add(res Result) {
	switch res.Outcome {
	case Pass:
		s.Passed++
	case NotTestable:
		s.NotTestable++
	case Fail:
		s.Failed = append(s.Failed, res.Rule.Number)
		s.OK = s.OK && res.Rule.Level != Must
	}
}

// The report as programs read it.
type (
	reportJSON struct {
		URL      string        `json:"url"`
		OK       bool          `json:"ok"`
		Dialects []passageJSON `json:"dialects"`
		Clients  []Standing    `json:"clients"`
	}
	passageJSON struct {
		Dialect Dialect    `json:"dialect"`
		Event   string     `json:"event,omitempty"`
		Rules   []ruleJSON `json:"rules"`
	}
	ruleJSON struct {
		Number  int        `json:"number"`
		Outcome Outcome    `json:"outcome"`
		Level   Level      `json:"level"`
		Group   Group      `json:"group"`
		Text    string     `json:"text"`
		Source  string     `json:"source"`
		Needs   []Consumer `json:"clients"`
		Reason  string     `json:"reason,omitempty"`
		Sent    string     `json:"sent,omitempty"`
		Want    string     `json:"want,omitempty"`
		Got     string     `json:"got,omitempty"`
		Seconds float64    `json:"seconds"`
	}
)

// WriteJSON writes the report for programs.
func (rep *Report) WriteJSON(w io.Writer) error {
	out := reportJSON{URL: rep.URL, OK: rep.OK(), Dialects: []passageJSON{}, Clients: rep.Standings()}
	for _, p := range rep.Passages {
		one := passageJSON{Dialect: p.Dialect, Event: p.Event, Rules: []ruleJSON{}}
		for _, res := range p.Results {
			r := res.Rule
			one.Rules = append(one.Rules, ruleJSON{r.Number, res.Outcome, r.Level, r.Group, r.Text, r.Source, r.Needs,
				res.Reason, res.Sent, res.Want, res.Got, seconds(res.Elapsed)})
		}
		out.Dialects = append(out.Dialects, one)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// The report as JUnit has it.
type (
	suitesXML struct {
		XMLName xml.Name   `xml:"testsuites"`
		Suites  []suiteXML `xml:"testsuite"`
	}
	suiteXML struct {
		Name     string    `xml:"name,attr"`
		Tests    int       `xml:"tests,attr"`
		Failures int       `xml:"failures,attr"`
		Skipped  int       `xml:"skipped,attr"`
		Time     float64   `xml:"time,attr"`
		Cases    []caseXML `xml:"testcase"`
	}
	caseXML struct {
		Class   string    `xml:"classname,attr"`
		Name    string    `xml:"name,attr"`
		Time    float64   `xml:"time,attr"`
		Failure *noteXML  `xml:"failure"`
		Skipped *noteXML  `xml:"skipped"`
		Out     *innerXML `xml:"system-out"`
	}
	noteXML struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	innerXML struct {
		Text string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as JUnit XML: a suite for each dialect. A rule that only recommends does not fail there; what it
// found is in system-out.
func (rep *Report) WriteJUnit(w io.Writer) error {
	var all suitesXML
	for _, p := range rep.Passages {
		s := suiteXML{Name: "MCP Events, dialect " + string(p.Dialect), Tests: len(p.Results), Failures: p.Failed(Must), Skipped: p.Count(NotTestable)}
		for _, res := range p.Results {
			s.Time += seconds(res.Elapsed)
			s.Cases = append(s.Cases, caseOf(res))
		}
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func caseOf(res Result) caseXML {
	c := caseXML{Class: string(res.Rule.Group), Name: fmt.Sprintf("%03d %s", res.Rule.Number, res.Rule.Text), Time: seconds(res.Elapsed)}
	text := "sent: " + res.Sent + "\nwant: " + res.Want + "\ngot: " + res.Got + "\nby: " + res.Rule.Source
	switch {
	case res.Outcome == NotTestable:
		c.Skipped = &noteXML{Message: printable(res.Reason)}
	case res.Outcome == Fail && res.Rule.Level == Must:
		c.Failure = &noteXML{printable("want " + res.Want), printable(text)}
	case res.Outcome == Fail:
		c.Out = &innerXML{printable("recommended only\n" + text)}
	}
	return c
}

// printable drops what XML cannot hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return -1
		}
		return r
	}, s)
}
