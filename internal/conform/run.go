package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Options of a run. URL and HTTP are required.
type Options struct {
	// URL is the MCP endpoint.
	URL string
	// HTTP makes the requests. It must follow no redirect.
	HTTP http.RoundTripper
	// Authorize adds the credential. Nil has none.
	Authorize func(h http.Header)
	// UserAgent is sent with every request.
	UserAgent string
	// Dialects to speak; nil is all that the server announces.
	Dialects []Dialect
	// Event is the event type to use; "" chooses one. Arguments are its arguments, a JSON object; nil is {}.
	Event     string
	Arguments json.RawMessage
	// Receiver takes the webhooks; it must be served already. Nil has none.
	Receiver *Receiver
	// Closed is an address where nobody listens, of a kind that the server may call; "" is none.
	Closed string
	// Canary is a listener on the server's own machine that must never be called; nil is none.
	Canary *Canary
	// Trigger makes the server emit one event of a type. Nil cannot.
	Trigger func(ctx context.Context, event string) error
	// End makes the server end all subscriptions of an event type by itself, for good. Nil cannot.
	End func(ctx context.Context, event string) error
	// Watch has rules that need an event wait for one that happens by itself, where there is no Trigger.
	Watch bool
	// Chosen says which rules to check; nil chooses all.
	Chosen func(*Rule) bool
	// Timeout bounds one answer, 30 s when zero. Wait bounds how long an event or a further attempt may take, 90 s when zero.
	// Silence bounds how long a stream may say nothing, 32 s when zero.
	Timeout, Wait, Silence time.Duration
	// Limit bounds the whole run, 10 minutes a dialect when zero.
	Limit time.Duration
}

// Outcome is what became of a rule.
type Outcome string

// The outcomes.
const (
	Pass        Outcome = "pass"
	Fail        Outcome = "fail"
	NotTestable Outcome = "not testable"
)

// Result is the outcome of one rule.
type Result struct {
	Rule    Rule
	Outcome Outcome
	// Reason says why a rule is not testable.
	Reason string
	// Sent, Want and Got say how a rule fails.
	Sent, Want, Got string
	Elapsed         time.Duration
}

// Passage is what came of all rules in one dialect.
type Passage struct {
	Dialect Dialect
	// Event is the event type that was used, "" when there was none to use.
	Event   string
	Results []Result
}

// Report is a whole run.
type Report struct {
	URL      string
	Passages []Passage
}

// ErrUnreachable says that the server gave no answer, so nothing could be checked.
var ErrUnreachable = errors.New("the server does not answer")

// ErrDenied says that the server did not take the credential, or wants one.
var ErrDenied = errors.New("the server answers 401 or 403: give a credential that it takes")

// run is one passage.
type run struct {
	o       *Options
	ctx     context.Context
	dialect Dialect
	facts   map[string]any
	calls   int
	secrets []string  // never to be shown
	errors  []*answer // all that were errors
	leaks   []*answer // all that held a secret
	live    []*sub    // to be unsubscribed at the end
	hooks   []*hook
	streams []*stream
}

// Run checks a server. An error says that it could not be checked at all.
func Run(ctx context.Context, o Options) (*Report, error) {
	defaults(&o)
	dialects, err := announced(ctx, &o)
	if err != nil {
		return nil, err
	}
	report := &Report{URL: o.URL}
	for _, d := range dialects {
		report.Passages = append(report.Passages, passage(ctx, &o, d))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return report, nil
}

func defaults(o *Options) {
	orElse(&o.Timeout, 30*time.Second)
	orElse(&o.Wait, 90*time.Second)
	orElse(&o.Silence, 32*time.Second)
	orElse(&o.Limit, 10*time.Minute)
	orElse(&o.UserAgent, "herald-events-check")
	if len(o.Arguments) == 0 {
		o.Arguments = json.RawMessage(`{}`)
	}
}

func orElse[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// announced finds out whether there is a server, and which dialects it speaks: both when it says nothing of events, so that the
// rules about that can fail.
func announced(ctx context.Context, o *Options) ([]Dialect, error) {
	r := &run{o: o, ctx: ctx, dialect: SEP, facts: map[string]any{}}
	a, err := r.call("server/discover", nil)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		return nil, ErrDenied
	case a.message == nil:
		return nil, fmt.Errorf("%w: what it says is no JSON-RPC: %s", ErrUnreachable, a)
	}
	if o.Dialects != nil {
		return o.Dialects, nil
	}
	top, extension := places(a.result)
	switch {
	case len(top) > 0 && len(extension) == 0:
		return []Dialect{Sketch}, nil
	case len(extension) > 0 && len(top) == 0:
		return []Dialect{SEP}, nil
	}
	return []Dialect{Sketch, SEP}, nil
}

func passage(ctx context.Context, o *Options, d Dialect) Passage {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, errors.New("the time for the whole run is over"))
	defer cancel()
	r := &run{o: o, ctx: ctx, dialect: d, facts: map[string]any{}}
	defer r.tidy()
	p := Passage{Dialect: d}
	for _, rule := range Rules() {
		if rule.In(d) && (o.Chosen == nil || o.Chosen(&rule)) {
			p.Results = append(p.Results, r.judge(rule))
		}
	}
	if e, err := r.target(); err == nil {
		p.Event = e.Name
	}
	return p
}

func (r *run) judge(rule Rule) Result {
	started := time.Now()
	err := rule.check(r)
	result := Result{Rule: rule, Outcome: Pass, Elapsed: time.Since(started)}
	if err == nil {
		return result
	}
	if r.ctx.Err() != nil {
		err = cannot("%v", context.Cause(r.ctx))
	}
	if f, is := errors.AsType[*finding](err); is {
		result.Outcome, result.Sent, result.Want, result.Got = Fail, r.redact([]byte(f.sent)), f.want, r.redact([]byte(f.got))
		return result
	}
	result.Outcome, result.Reason = NotTestable, quote(r.redact([]byte(err.Error())))
	return result
}

// tidy unsubscribes what is still subscribed and closes streams, whatever became of the run.
func (r *run) tidy() {
	for _, s := range r.streams {
		s.close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 10*time.Second)
	defer cancel()
	r.ctx = ctx
	for _, s := range slices.Clone(r.live) {
		_, _ = r.end(s) // a server that does not let go was reported by the rules
	}
}

// Failed counts the rules of a level that failed.
func (p *Passage) Failed(l Level) (n int) {
	for _, res := range p.Results {
		if res.Outcome == Fail && res.Rule.Level == l {
			n++
		}
	}
	return n
}

// Count counts the results with an outcome.
func (p *Passage) Count(o Outcome) (n int) {
	for _, res := range p.Results {
		if res.Outcome == o {
			n++
		}
	}
	return n
}

// OK reports whether no Must rule failed.
func (rep *Report) OK() bool {
	return !slices.ContainsFunc(rep.Passages, func(p Passage) bool { return p.Failed(Must) > 0 })
}

// once gets a fact the first time it is asked for, and remembers it with its error.
func once[T any](r *run, name string, get func() (T, error)) (T, error) {
	type fact struct {
		value T
		err   error
	}
	if f, known := r.facts[name]; known {
		return f.(fact).value, f.(fact).err
	}
	value, err := get()
	r.facts[name] = fact{value, err}
	return value, err
}
