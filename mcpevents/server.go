package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/herald-relay/herald/internal/egress"
	"github.com/herald-relay/herald/mcpevents/driver"
)

// Caller is who a request comes from, as the application's own authentication found.
type Caller struct {
	// Principal identifies them for ever; "" is nobody, who may list, poll and stream but not subscribe.
	Principal string
	// Ledger is the order of events that they read.
	Ledger string
	// Value is the application's own, for its Admit and Authorize functions.
	Value any
}

// Ask is what a caller wants to do, for Family.Authorize.
type Ask struct {
	Type      *EventType
	Mode      Mode
	Arguments map[string]any
}

// Family is a group of event types under one policy.
type Family struct {
	// Name is stored with each subscription: never change it.
	Name   string
	Policy Policy
	// Catalog holds the event types. Names are unique over all families of a server.
	Catalog *Catalog
	// CatalogOf is asked instead when ledgers have catalogs of their own. It must answer from memory: it runs inside
	// transactions. Nil uses Catalog for all.
	CatalogOf func(ledger string) *Catalog
	// Admit turns a caller into the one that this family knows, or refuses: with an *Error of meaning Forbidden the
	// family is hidden from events/list, and whoever names an event type of the returned caller's ledger is told so. Nil
	// admits everybody as they are.
	Admit func(ctx context.Context, c Caller) (Caller, error)
	// Authorize decides on one wish. It is asked again while a stream is open. Nil allows everything.
	Authorize func(ctx context.Context, c Caller, a Ask) error
	// Hold returns why nothing may be sent for a ledger, "" when it may: its deliveries are recorded as held. Nil never
	// holds.
	Hold func(ledger string) string
}

func (f *Family) catalog(ledger string) *Catalog {
	if f.CatalogOf == nil {
		return f.Catalog
	}
	if c := f.CatalogOf(ledger); c != nil {
		return c
	}
	return &Catalog{}
}

func (f *Family) admit(ctx context.Context, c Caller) (Caller, error) {
	if f.Admit == nil {
		return c, nil
	}
	return f.Admit(ctx, c)
}

// Egress is the way out to destinations. A guard that cannot reach private addresses is the default; tests put their own
// in its place (package eventstest).
type Egress interface {
	http.RoundTripper
	// CheckURL returns the normal form of an address that deliveries may go to, or refuses it.
	CheckURL(raw string) (*url.URL, error)
}

// Sealer protects signing secrets at rest. Seal and Open must be inverse; context says what a secret belongs to and must
// be authenticated with it.
type Sealer interface {
	Seal(secret []byte, context string) ([]byte, error)
	Open(sealed []byte, context string) ([]byte, error)
}

// Options are what a server can do without. The zero value is useful.
type Options struct {
	// Egress is the way out. Nil is a guard that reaches public https addresses on port 443 only.
	Egress Egress
	// Sealer protects secrets at rest. Nil stores them as they are.
	Sealer Sealer
	// Log gets one line per attempt and per change of a subscription. Nil is silent.
	Log *slog.Logger
	// Observer is told what happens, for metrics. Nil is nobody.
	Observer Observer
	// UserAgent is sent with every request. Empty is "mcpevents".
	UserAgent string
	// Engine tunes deliveries.
	Engine Engine
	// ListChanged promises notifications/events/list_changed, which Announce causes.
	ListChanged bool
}

// Server offers the events of one application. It is safe for concurrent use.
type Server struct {
	db        driver.Driver
	durable   bool
	families  []*Family
	opts      Options
	log       *slog.Logger
	watch     Observer
	hub       *hub
	listeners listeners
	probes    *probes
	wake      chan struct{}
	posts     chan controlPost
}

// New makes a server over a store. The error names every value of the families that cannot be meant.
func New(db driver.Driver, families []Family, opts *Options) (*Server, error) {
	s := &Server{db: db, durable: true, hub: newHub(), probes: newProbes(), wake: make(chan struct{}, 1),
		posts: make(chan controlPost, maxControlPosts)}
	if d, ok := db.(interface{ Durable() bool }); ok {
		s.durable = d.Durable()
	}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Engine = s.opts.Engine.withDefaults()
	orElse(&s.opts.UserAgent, "mcpevents")
	if s.opts.Egress == nil {
		s.opts.Egress = egress.New(&egress.Options{Timeout: 2 * time.Minute, ConnsPerHost: s.opts.Engine.PerHost})
	}
	if s.log = s.opts.Log; s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.watch = s.opts.Observer; s.watch == nil {
		s.watch = NopObserver{}
	}
	return s, s.setFamilies(families)
}

func (s *Server) setFamilies(families []Family) error {
	var problems []error
	names, types := map[string]bool{}, map[string]string{}
	for _, f := range families {
		f.Policy = f.Policy.withDefaults()
		if err := f.Policy.validate(); err != nil {
			problems = append(problems, fmt.Errorf("family %q: %w", f.Name, err))
		}
		if names[f.Name] {
			problems = append(problems, fmt.Errorf("family %q: named twice", f.Name))
		}
		if f.Catalog == nil && f.CatalogOf == nil {
			problems = append(problems, fmt.Errorf("family %q: has no catalog", f.Name))
		}
		names[f.Name] = true
		if f.Catalog != nil {
			for _, t := range f.Catalog.Types() {
				if other, taken := types[t.Name]; taken {
					problems = append(problems, fmt.Errorf("event type %q: in families %q and %q", t.Name, other, f.Name))
				}
				types[t.Name] = f.Name
			}
		}
		s.families = append(s.families, &f)
	}
	if len(families) == 0 {
		problems = append(problems, errors.New("no families"))
	}
	return errors.Join(problems...)
}

func (s *Server) family(name string) *Family {
	for _, f := range s.families {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Request is one call of a method of the extension.
type Request struct {
	Method string
	// ID is the JSON-RPC id as it came; only Stream needs it.
	ID json.RawMessage
	// Params are the raw parameters; nil is like {}.
	Params  json.RawMessage
	Dialect Dialect
	Caller  Caller
}

// The methods of the extension.
const (
	MethodList        = "events/list"
	MethodPoll        = "events/poll"
	MethodStream      = "events/stream"
	MethodSubscribe   = "events/subscribe"
	MethodUnsubscribe = "events/unsubscribe"
)

// Methods are those that Call and Stream serve.
func Methods() []string {
	return []string{MethodList, MethodPoll, MethodStream, MethodSubscribe, MethodUnsubscribe}
}

// Call serves every method but events/stream and returns the result's members, without what the base protocol adds
// (resultType, server info). The error is for ErrorOf.
func (s *Server) Call(ctx context.Context, r Request) (json.RawMessage, error) {
	serve, known := map[string]func(context.Context, Request) (any, error){
		MethodList: s.list, MethodPoll: s.poll, MethodSubscribe: s.subscribe, MethodUnsubscribe: s.unsubscribe,
	}[r.Method]
	if !known {
		return nil, &Error{Meaning: MethodNotFound, Message: "no such method"}
	}
	result, err := serve(ctx, r)
	if err != nil {
		return nil, err
	}
	return wireJSON(result), nil
}

// Capabilities adds what announces the extension to a capabilities object: the top-level member for dialect Sketch and
// the extensions member for SEP.
func (s *Server) Capabilities(capabilities map[string]any) {
	settings := map[string]any{}
	if s.opts.ListChanged {
		settings["listChanged"] = true
	}
	capabilities["events"] = settings
	extensions, _ := capabilities["extensions"].(map[string]any)
	if extensions == nil {
		extensions = map[string]any{}
	}
	extensions[Extension] = settings
	capabilities["extensions"] = extensions
}

// target is what a request turned out to be about.
type target struct {
	family *Family
	kind   *EventType
	caller Caller
	raw    json.RawMessage // arguments as they came
	// arguments are checked against the type's schema.
	arguments map[string]any
}

func (t *target) policy() *Policy { return &t.family.Policy }

// find looks up the event type named in the parameters among what the caller may know of.
func (s *Server) find(ctx context.Context, r Request, m members) (*target, error) {
	name, err := m.text("name")
	if err != nil {
		return nil, err
	}
	var hidden error
	for _, f := range s.families {
		caller, err := f.admit(ctx, r.Caller)
		if err == nil {
			if kind := f.catalog(caller.Ledger).Lookup(name); kind != nil {
				return &target{family: f, kind: kind, caller: caller, raw: m.object("arguments")}, nil
			}
			continue
		}
		if !isRefusal(err) {
			return nil, internal("admit the caller", err)
		}
		if f.knows(name, caller.Ledger) {
			hidden = err
		}
	}
	if hidden != nil {
		return nil, hidden
	}
	return nil, s.families[0].Policy.refuse(r.Dialect, UnknownEvent, "name: there is no event %q", shown(name)).with("kind", "event")
}

// knows reports whether the name is one of the family's, so that a caller who is not admitted learns why.
func (f *Family) knows(name, ledger string) bool { return f.catalog(ledger).Lookup(name) != nil }

// isRefusal tells an *Error, which the client may read, from a trouble.
func isRefusal(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// shown bounds what of a stranger's text is repeated to them.
func shown(s string) string {
	if len(s) > 64 {
		s = s[:64] + "…"
	}
	return s
}

// readArguments checks arguments against the schema of the type.
func (t *target) readArguments(d Dialect) (err error) {
	if t.arguments, err = t.kind.checkArguments(t.raw); err != nil {
		return t.policy().refuse(d, BadArguments, "arguments: they do not fit the event's inputSchema: %s", shownLong(err.Error()))
	}
	return nil
}

func shownLong(s string) string {
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

// mayUse checks that the type offers a mode to the dialect.
func (t *target) mayUse(d Dialect, m Mode) error {
	if t.kind.offers(m) && t.policy().offers(d, m) {
		return nil
	}
	return unsupportedMode(t.policy(), d, string(m))
}

func unsupportedMode(p *Policy, d Dialect, mode string) *Error {
	return p.refuse(d, WrongMode, "delivery.mode: %q is not offered for this event", shown(mode)).
		with("feature", "deliveryMode").with("value", shown(mode))
}

func (s *Server) authorize(ctx context.Context, t *target, m Mode) error {
	if t.family.Authorize == nil {
		return nil
	}
	err := t.family.Authorize(ctx, t.caller, Ask{Type: t.kind, Mode: m, Arguments: t.arguments})
	if err != nil && !isRefusal(err) {
		return internal("authorize", err)
	}
	return err
}

// modesFor returns the modes of a type that a dialect is shown.
func (f *Family) modesFor(t *EventType, d Dialect) []Mode {
	return slices.DeleteFunc(slices.Clone(t.Delivery), func(m Mode) bool { return !f.Policy.offers(d, m) })
}
