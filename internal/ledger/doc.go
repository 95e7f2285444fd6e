// Package ledger holds the domain of business events: its nouns, ids, states and pure rules.
//
// A workspace is one team's ledger, with a catalog of event types, members and keys. An application appends entries with a
// workspace key; an entry is never changed and never reordered. Members are people: their connectors read for them.
//
// Nothing here does I/O and nothing here reads the clock, as in package relay, whose hashes and person ids it shares.
package ledger
