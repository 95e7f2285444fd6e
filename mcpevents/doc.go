// Package mcpevents adds MCP Events to a Go MCP server: clients subscribe to what happens there, and are told by signed
// webhooks, by polling or by a stream. SEP-3415 is the text; the package also speaks the sketch that most clients were
// built from (see Dialect).
//
// # Using it
//
// Describe the event types in a [Catalog], choose a [Policy], make a [Server] over a store, run it, and hand it the
// requests of the extension:
//
//	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened", Description: "…"})
//	srv, err := mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "tickets", Catalog: catalog}}, nil)
//	go srv.Run(ctx)
//	http.Handle("/mcp", mcpevents.NewHandler(srv, authenticate, nil))
//	…
//	srv.Emit(ctx, mcpevents.Emission{Name: "ticket.opened", ID: ticket.ID, Data: ticket})
//
// Package gosdk does the same for a server built on the official SDK. Package subscriber is the other side: a receiver
// and a client. Package eventstest helps to test both.
//
// # Words
//
// An event is emitted into a ledger and gets the next sequence there. A cursor is a position in a ledger, opaque to
// clients. A subscription is a principal's standing wish for events of one type at one destination. For each event that
// it is owed, a delivery is queued: the obligation to bring that event there. Trying is an attempt; its outcome has a
// verdict: delivered, again, drop, or end. A family is a group of event types under one policy.
//
// # Durability
//
// An event and its deliveries are written in one transaction: the caller's own with [Server.EmitTx], so that a fact and
// its event become durable together or not at all. Once that has committed, nothing loses a delivery but its policy (a
// deadline, a used-up schedule, an answer that means so), the end of its subscription, or the quota of waiting ones; each
// is recorded with its reason, and a subscriber who lost events to the quota is told of a gap.
//
// An attempt is made under a lease, a right that ends by itself and has a number. Its outcome is stored under that
// number; one whose lease has moved on changes nothing. So a crash at any point, an answer of the store that was lost, or
// two processes at once cost a repeated attempt with the same event id, and nothing else. There is no recovery procedure:
// a lease that ran out is claimed by the query that claims everything.
//
// Delivery is at least once. Receivers drop repetitions by (subscription, event id).
//
// # Order
//
// Poll and stream show a ledger in its order. For webhooks the policy decides. Under strict order only the oldest waiting
// event of a subscription is attempted, and a newer one is attempted once that is delivered or dropped. Under free order
// each event is attempted on its own, several at a time, and a failing one delays no other. Nothing is promised across
// subscriptions.
//
// The cursor in a webhook body never passes an event that is outstanding: its own position when nothing older waits,
// else the position before the oldest that did when the event was queued. The body of a delivery is fixed then; every
// attempt sends the same bytes, with a timestamp and signatures of its own.
//
// # Failure
//
// What a destination answers is judged by its status alone. A destination that hangs holds at most its host's share of
// workers, and one with many waiting deliveries weighs as much as one with a single one, so neither delays others. A
// destination that fails nearly always is given a rest until its subscriber refreshes.
//
// When the store fails, attempts under way finish and their outcomes are kept in memory until it is back; no new ones
// begin. When the process stops, [Server.Run] lets attempts finish within a grace period and gives the leases of the rest
// back.
//
// # Safety
//
// Addresses come from strangers. Every request goes through a guard that refuses addresses that are not public at the
// time of connecting, follows no redirect and reads no proxy settings; Options.Egress replaces it. An address gets
// deliveries only after it proved, to that principal, that it wants them. What an endpoint says is shown to nobody but as
// one of six words. Every number that a stranger controls has a bound in [Quotas].
package mcpevents
