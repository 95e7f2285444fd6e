// Package conform checks any server of MCP Events against numbered rules, from outside: it speaks as a client of either
// dialect, stands in for a webhook receiver, and says of each rule whether it holds.
//
// It knows the protocol from the texts alone and shares no code with the library that this project's own servers are made of,
// signatures included: two ends that are wrong in the same way would agree with each other.
//
// A rule has one check. What checks have in common, such as a subscription or the events of a poll, is got once by a fact (see
// once) and remembered. A fact that cannot be had leaves the rules that lean on it not testable; the one rule that is about it
// fails. So one mistake of a server is one failed rule.
package conform

import "slices"

// Dialect is a named set of wire choices: the sketch that most clients were built from, or SEP-3415.
type Dialect string

// The dialects.
const (
	Sketch Dialect = "sketch"
	SEP    Dialect = "sep"
)

// Level is how strongly the text asks for a rule.
type Level string

// The levels. A failed Must fails the run.
const (
	Must   Level = "must"
	Should Level = "should"
)

// Group is what a rule is about.
type Group string

// The groups, in the order of a run.
const (
	Basics       Group = "JSON-RPC and HTTP"
	Discovery    Group = "Discovery and capability"
	List         Group = "events/list"
	Subscribe    Group = "events/subscribe"
	Verification Group = "Endpoint verification"
	Delivery     Group = "Webhook delivery"
	Unsubscribe  Group = "events/unsubscribe"
	Poll         Group = "events/poll"
	Stream       Group = "events/stream"
	Control      Group = "Ends and control bodies"
	Errors       Group = "Errors"
)

// Consumer is a client or a text that leans on a rule.
type Consumer string

// The consumers.
const (
	ChatGPT Consumer = "chatgpt"
	AISDK   Consumer = "ai-sdk"
	Relay   Consumer = "relay"  // the published notification relay
	Ledger  Consumer = "ledger" // the published business ledger
	ByText  Consumer = "sep"    // whoever holds to SEP-3415
)

// Consumers returns all of them.
func Consumers() []Consumer { return []Consumer{ChatGPT, AISDK, Relay, Ledger, ByText} }

// Dialect is the one that a consumer speaks.
func (c Consumer) Dialect() Dialect {
	if c == ByText {
		return SEP
	}
	return Sketch
}

// Rule is one thing that a server does or does not do.
type Rule struct {
	// Number is stable; its hundreds are the group's.
	Number int
	Group  Group
	Level  Level
	// Dialects that it holds for; nil is both.
	Dialects []Dialect
	// Source names the text and what it calls the place, with the letter of the project's digest of all texts.
	Source string
	// Needs lists who leans on it.
	Needs []Consumer
	// Text is the rule in one sentence.
	Text string

	check func(r *run) error
}

// In reports whether the rule holds for a dialect.
func (r *Rule) In(d Dialect) bool {
	if r.Dialects == nil {
		return true
	}
	return slices.Contains(r.Dialects, d)
}

// Rules returns all rules in the order of a run.
func Rules() []Rule {
	var all []Rule
	for _, group := range [][]Rule{basicRules, discoveryRules, listRules, subscribeRules, verificationRules, deliveryRules,
		unsubscribeRules, pollRules, streamRules, endRules, controlRules, errorRules} {
		all = append(all, group...)
	}
	return all
}
