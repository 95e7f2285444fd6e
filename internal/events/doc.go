// Package events is the relay's use of package mcpevents: agents are told when the person answers (contract section 5).
//
// The engine runs on the relay's own database. A mailbox is a ledger of its replies, a key is a principal, and a reply's
// event is for that principal alone. The event is written in the transaction that stores the reply (decision 15).
//
// Subscriptions go with the key that made them. Guard wraps a store so that whoever revokes or removes a key, a mailbox or
// a person, for whatever reason, ends the subscriptions in the same transaction.
package events
