package mcpevents

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Mode is a way to receive events.
type Mode string

// The modes.
const (
	Poll    Mode = "poll"
	Push    Mode = "push"
	Webhook Mode = "webhook"
)

// Policy holds every choice that the texts leave to a server, as values. Each part documents what its zero means; the
// zero Policy as a whole is what SEP-3415 recommends, and equals SEP(). Relay and Ledger are others in use.
type Policy struct {
	Identity     Identity
	Lifetime     Lifetime
	Replay       Replay
	Order        Order
	Schedule     Schedule
	Rotation     Rotation
	Verification Verification
	Verdicts     Verdicts
	Suspension   Suspension
	Quotas       Quotas
	Retention    Retention
	Polling      Polling

	// Deadline is how long after it was queued a delivery may be attempted. Zero is 15 minutes, negative without bound.
	Deadline time.Duration
	// Timeout bounds one attempt and one challenge, headers and body. Zero is 10 s.
	Timeout time.Duration
	// Heartbeat is the longest silence of a stream. Zero is 25 s; the extension wants at most 30.
	Heartbeat time.Duration
	// EventIDs says what an event is called on the wire. Zero is SharedIDs.
	EventIDs EventIDs
	// Modes are the delivery modes shown to and accepted from a dialect, of those that the event type has. Absent
	// dialects have all.
	Modes map[Dialect][]Mode
	// Unsubscribed says what unsubscribing answers when nothing was there. Zero is ByDialect.
	Unsubscribed Unsubscribed
	// Control says to whom gap and terminated bodies are posted. Zero is ControlSEP: ChatGPT does not know them.
	Control Control
	// Refusals replace how grounds are refused; see Refusal.
	Refusals map[Problem]Refusal
	// Reasons replace the words of a failed verification (see Category) in data.reason.
	Reasons map[Category]string
}

// EventIDs says how an event's id on the wire comes about. It is also the webhook-id.
type EventIDs uint8

const (
	// SharedIDs sends the event's own id to everybody.
	SharedIDs EventIDs = iota
	// PerSubscription sends evt_<sequence>_<hex part of the subscription's id>, as the original relay does.
	PerSubscription
)

// Unsubscribed says what unsubscribing answers when nothing was there.
type Unsubscribed uint8

// The answers: by the dialect's text, or the same for both.
const (
	ByDialect Unsubscribed = iota // success in Sketch, NotFound in SEP
	AlwaysOK
	AlwaysNotFound
)

// Control says which subscriptions are posted control bodies.
type Control uint8

// The choices for control bodies.
const (
	ControlSEP Control = iota // those whose last subscribe call was in dialect SEP
	ControlNone
	ControlAll
)

// Identity says how a subscription's id comes about. Its key is always principal, address, event name, canonical
// arguments and, unless it is "", the ledger.
type Identity struct {
	// Random makes ids random. Zero derives them from the key, so that they survive even a lost store.
	Random bool
	// Digits is how many hex digits follow "sub_". Zero is 32.
	Digits int
}

// NullGrant says what an explicit "ttlMs": null is granted.
type NullGrant uint8

// The grants for null.
const (
	NullDefault NullGrant = iota // the default, finite
	NullMax                      // the longest finite one
	NullForever                  // no expiry; needs a store that outlives the process (see Options.Durable)
)

// Lifetime says how long a subscription is granted. ttlMs is tri-state: absent gets Default, null gets what Null says,
// a number is clamped to Min and Max.
type Lifetime struct {
	// Default, Min and Max are 24 h, 1 h and 7 days when zero.
	Default, Min, Max time.Duration
	Null              NullGrant
	// Endless subscriptions never lapse whatever was asked, and report Default as their grant.
	Endless bool
	// Strict refuses a ttlMs that is neither null nor a positive whole number. Otherwise it gets Default: the extension
	// rejects no value.
	Strict bool
}

// Replay says what a cursor in a subscribe call does. Poll and push keep positions whatever it says.
type Replay struct {
	// None ignores the cursor and reports null: webhooks get events from now on only.
	None bool
	// Limit bounds how many events one call replays. Zero is 1,000.
	Limit int
	// Stop replays the oldest Limit events and returns the cursor of the last one, to go on from by another call. Zero
	// replays the newest Limit and says truncated.
	Stop bool
	// Live replays at the refresh of a live subscription too. Zero replays for one that is new, ended or lapsed: a live
	// one has or gets those events anyway.
	Live bool
	// Digits makes a cursor the plain sequence. Zero adds the ledger's epoch, so that a cursor of another ledger is
	// recognised.
	Digits bool
	// Lenient replays nothing for a cursor that is none of ours. Zero says truncated.
	Lenient bool
	// OwnPosition reports the newest event that the principal may see, instead of the ledger's end.
	OwnPosition bool
}

// Order says in which order a subscription's events are attempted.
type Order struct {
	// Strict attempts only the oldest waiting event of a subscription. Zero attempts each on its own.
	Strict bool
	// Parallel bounds the attempts under way for one subscription that is not strict. Zero is 8.
	Parallel int
}

// Rotation says how long the previous secret goes on signing beside a new one.
type Rotation struct {
	// Overlap is 24 h when zero; negative puts the new one in force alone at once.
	Overlap time.Duration
}

// Verification says when an address must prove that it wants deliveries. The proof counts for one principal only.
type Verification struct {
	// Remember is how long a proof spares further ones. Zero is 24 h.
	Remember time.Duration
	// EveryNew asks for every new subscription, whatever is remembered.
	EveryNew bool
	// Recheck asks at a refresh too, once what is remembered is too old. Zero never asks a live subscription again.
	Recheck bool
	// Allow names addresses that were agreed on out of band and need no proof. Nil allows none.
	Allow func(principal string, u *url.URL) bool
	// WellKnown accepts the origin's /.well-known/mcp-webhook-receiver.json instead of a challenge. It is off by default
	// because the document tells everybody where the origin receives.
	WellKnown bool
	// IDPrefix begins the webhook-id of a challenge. Zero is "msg_verification_".
	IDPrefix string
}

// Suspension says when a failing destination is given a rest. It is woken by a refresh.
type Suspension struct {
	// Rate of failures over Window, from MinAttempts on, suspends. Zeros are 0.95, 60 minutes and 100; a negative Rate
	// never suspends.
	Rate        float64
	Window      time.Duration
	MinAttempts int
	// FailingFor suspends when every attempt has failed for that long. Zero never does.
	FailingFor time.Duration
}

// Quotas bound what one stranger can make the server hold or do. Negative is without bound.
type Quotas struct {
	// Subscriptions of one principal that have not ended. Zero is 100.
	Subscriptions int
	// Waiting deliveries of one subscription: beyond it the oldest are dropped and a gap is told. Zero is 100,000.
	Waiting int
	// Streams open for one principal, in one process; callers without one count as one together. Zero is 64.
	Streams int
	// ProbesPerMinute bounds challenges to one host, by one process. Zero is 60.
	ProbesPerMinute int
}

// Retention says how long records are kept. Zero durations are 30 days; negative keeps for ever.
type Retention struct {
	// Events bounds what a cursor can reach back to. It is the same for all families of a server: the longest counts.
	Events time.Duration
	// Deliveries, with their attempts, after they settled.
	Deliveries time.Duration
	// Subscriptions after they ended.
	Subscriptions time.Duration
}

// Polling says how polls are answered.
type Polling struct {
	// Next is reported as nextPollMs. Zero is 5 s.
	Next time.Duration
	// MaxEvents bounds one answer. Zero is 100.
	MaxEvents int
	// Hold bounds how long a poll with timeoutMs waits for an event. Zero ignores timeoutMs, which only a proposal to
	// the extension knows.
	Hold time.Duration
}

// SEP is the policy that SEP-3415 recommends, spelled out. It equals the zero Policy.
func SEP() Policy { return Policy{}.withDefaults() }

// Relay is the policy of the original notification relay: ordered per subscription, never lapsing, replay by cursor of
// up to 100 events, eight attempts within 24 hours, a new secret in force at once, 410 ends.
func Relay() Policy {
	p := Policy{
		Identity: Identity{Random: true, Digits: 20},
		Lifetime: Lifetime{Default: 3650 * 24 * time.Hour, Endless: true, Strict: true},
		Replay:   Replay{Limit: 100, Stop: true, Live: true, Digits: true, Lenient: true, OwnPosition: true},
		Order:    Order{Strict: true},
		Schedule: Schedule{Base: time.Minute, Factor: 2, Max: time.Hour, Attempts: 8, Jitter: -1, MaxRetryAfter: 365 * day},
		Rotation: Rotation{Overlap: -1},
		Verification: Verification{
			EveryNew: true, IDPrefix: "ver_",
		},
		Verdicts:   Verdicts{Gone: End, Refused: Drop, TooEarly: Drop},
		Suspension: Suspension{Rate: -1},
		Quotas:     Quotas{Subscriptions: 5},
		Deadline:   24 * time.Hour,
		EventIDs:   PerSubscription,
		Modes:      map[Dialect][]Mode{DialectSketch: {Webhook}},
		Refusals: map[Problem]Refusal{
			UnknownEvent: {Meaning: InvalidParams}, WrongMode: {Meaning: InvalidParams},
			TooMany: {Meaning: InvalidParams},
		},
		Reasons: map[Category]string{
			ConnectionRefused: "unreachable", TimedOut: "unreachable", TLSFailed: "unreachable",
			Status4xx: "bad_status", Status5xx: "bad_status", ChallengeFailed: "challenge_mismatch",
		},
	}
	return p.withDefaults()
}

// Ledger is the policy of a business ledger: unordered, granted one hour to thirty days, no replay, ten attempts over
// about 75 hours, both secrets for a day, 410 ends.
func Ledger() Policy {
	p := Policy{
		Lifetime: Lifetime{Default: 7 * day, Min: time.Hour, Max: 30 * day, Null: NullMax, Strict: true},
		Replay:   Replay{None: true},
		Schedule: Schedule{Delays: StandardWebhooks(), Jitter: 0.1},
		Deadline: -1,
		Verification: Verification{
			Recheck: true,
		},
		Verdicts:   Verdicts{Gone: End},
		Suspension: Suspension{Rate: -1, FailingFor: 5 * day},
		Quotas:     Quotas{Subscriptions: 50},
		Modes:      map[Dialect][]Mode{DialectSketch: {Webhook}},
		Refusals: map[Problem]Refusal{
			UnknownEvent: {InvalidParams, "unknown_event"},
			BadArguments: {InvalidParams, "invalid_arguments"},
			BadTTL:       {InvalidParams, "invalid_arguments"},
			BadSecret:    {InvalidParams, "secret_invalid"},
			WrongMode:    {InvalidParams, "delivery_mode"},
			BadURL:       {CallbackEndpointError, "url_rejected"},
			RefusedURL:   {CallbackEndpointError, "url_rejected"},
		},
		Reasons: map[Category]string{
			ConnectionRefused: "challenge_failed", TLSFailed: "challenge_failed", Status4xx: "challenge_failed",
			Status5xx: "challenge_failed",
		},
	}
	return p.withDefaults()
}

const day = 24 * time.Hour

// orElse fills a zero with its documented value.
func orElse[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

func (p Policy) withDefaults() Policy {
	orElse(&p.Identity.Digits, 32)
	orElse(&p.Lifetime.Default, day)
	orElse(&p.Lifetime.Min, min(time.Hour, p.Lifetime.Default))
	orElse(&p.Lifetime.Max, max(7*day, p.Lifetime.Default))
	orElse(&p.Replay.Limit, 1000)
	orElse(&p.Order.Parallel, 8)
	p.Schedule = p.Schedule.withDefaults()
	orElse(&p.Rotation.Overlap, day)
	orElse(&p.Verification.Remember, day)
	orElse(&p.Verification.IDPrefix, "msg_verification_")
	p.Verdicts = p.Verdicts.withDefaults()
	orElse(&p.Suspension.Rate, 0.95)
	orElse(&p.Suspension.Window, time.Hour)
	orElse(&p.Suspension.MinAttempts, 100)
	orElse(&p.Quotas.Subscriptions, 100)
	orElse(&p.Quotas.Waiting, 100_000)
	orElse(&p.Quotas.Streams, 64)
	orElse(&p.Quotas.ProbesPerMinute, 60)
	orElse(&p.Retention.Events, 30*day)
	orElse(&p.Retention.Deliveries, 30*day)
	orElse(&p.Retention.Subscriptions, 30*day)
	orElse(&p.Polling.Next, 5*time.Second)
	orElse(&p.Polling.MaxEvents, 100)
	orElse(&p.Deadline, 15*time.Minute)
	orElse(&p.Timeout, 10*time.Second)
	orElse(&p.Heartbeat, 25*time.Second)
	return p
}

// validate reports every value that cannot be meant.
func (p *Policy) validate() error {
	var problems []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	l := p.Lifetime
	wrong(!l.Endless && (l.Min < 0 || l.Min > l.Default || l.Default > l.Max), "Lifetime: want Min <= Default <= Max, have %v, %v, %v", l.Min, l.Default, l.Max)
	wrong(p.Identity.Digits < 16 || p.Identity.Digits > 64, "Identity.Digits: want 16 to 64, have %d", p.Identity.Digits)
	wrong(p.Replay.Limit < 1 || p.Replay.Limit > 100_000, "Replay.Limit: want 1 to 100000, have %d", p.Replay.Limit)
	wrong(p.Order.Parallel < 1, "Order.Parallel: want at least 1, have %d", p.Order.Parallel)
	wrong(p.Timeout < 0 || p.Timeout > 2*time.Minute, "Timeout: want up to 2 minutes, have %v", p.Timeout)
	wrong(p.Heartbeat < 0, "Heartbeat: want a positive duration, have %v", p.Heartbeat)
	wrong(p.Suspension.Rate > 1, "Suspension.Rate: want at most 1, have %v", p.Suspension.Rate)
	wrong(p.Polling.MaxEvents < 1 || p.Polling.MaxEvents > 10_000, "Polling.MaxEvents: want 1 to 10000, have %d", p.Polling.MaxEvents)
	wrong(p.Verdicts.TooLarge == Again, "Verdicts.TooLarge: the same bytes would be too large again")
	for d := range p.Modes {
		wrong(d != DialectSketch && d != DialectSEP, "Modes: %q is no dialect", d)
	}
	problems = append(problems, p.Schedule.validate()...)
	return errors.Join(problems...)
}

// offers reports whether a dialect may use a mode at all.
func (p *Policy) offers(d Dialect, m Mode) bool {
	modes, limited := p.Modes[d]
	return !limited || slices.Contains(modes, m)
}
