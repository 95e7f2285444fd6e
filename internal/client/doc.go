// Package client speaks the relay's wire from the outside: as the agent that asks and as the device that answers.
//
// A Relay is the address of one; it serves what needs no credential. Relay.Agent and Relay.Device bind a credential to it.
// A Line is a device's standing stream: it reconnects with jitter, catches up, and hands over every notification once.
//
// Every call is bounded: answers by size, attempts by number, waits by MaxWait. A call that is safe to repeat is
// repeated when its answer was lost; one that is not (a new key, a pairing) is tried once. A refusal that says when to
// come back is waited out when that is soon enough. Redirects are never followed: a credential goes to the address it
// was given for, over TLS unless the address is this machine.
//
// What a relay refuses is an *Error. Whatever else went wrong on the way is an error that wraps its cause.
package client
