// Package subscriber is the receiving side of MCP Events: it keeps subscriptions to any number of servers alive and hands
// each event to the application once.
//
// A [Subscriber] is told what is wanted ([Subscriber.Add]) and runs the loops: it subscribes, refreshes in time, chooses
// between webhook, stream and poll by what both sides can do, and goes on from the last position after any interruption.
// It is also the http.Handler that webhooks arrive at. [Dial] reaches servers over HTTP, in either dialect.
//
// # What it promises
//
// An event is acknowledged only after the application's Handle has returned nil and the store has noted it. So nothing
// is lost by a crash, and Handle sees an event again only when the crash fell between those two. Otherwise it sees each
// event once for each subscription, in whatever mode it came, however often it was repeated. Positions are stored and
// always sent back to the server, so that changing the mode, or having been away, loses nothing that the server can
// still replay; what it cannot is reported as a gap.
//
// Events of one subscription are handled one after the other. Order is what the server gives: that of its ledger for
// stream and poll, best effort for webhooks.
//
// # What a receiver answers
//
// 401 to whoever proves no secret, and no more. 503 when an event may be ours but cannot be placed yet, or could not be
// stored: the server tries again. 2xx to what was taken, to repetitions and to kinds of message from the future. Never
// 410: servers end the subscription on it.
package subscriber
