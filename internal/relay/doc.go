// Package relay holds the relay's domain: its nouns, ids, states and pure rules.
//
// Nothing here does I/O and nothing here reads the clock: every rule that depends on time takes now as an argument.
// Instants are whole Unix milliseconds once stored (see Millis), so a value read back equals the value written.
//
// A person owns mailboxes. A mailbox (wire name deviceId) belongs to the device that paired it and may have more
// devices linked to it. Agents hold keys of one mailbox. A notification goes from a key to every device of the
// mailbox; its receipt records what happened to it, its reply at most once.
package relay
