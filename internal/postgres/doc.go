// Package postgres is the scale-out adapter of package store: several relay processes on one PostgreSQL database.
//
// # Transactions
//
// Round trips are what a database over a network costs, so callers that are busy at the same time share them. A few
// writers each hold one connection; a writer takes whatever Updates are waiting as a group, opens one READ COMMITTED
// transaction and moves them forward in step: all that the members ask for travels in one pipelined round trip, their
// writes are put off and travel with the COMMIT, as one statement per table. One member alone pays two round trips for
// reading, deciding and writing; sixty-four pay the same two. Views share a REPEATABLE READ, READ ONLY transaction in
// the same way, and are answered before it ends.
//
// What keeps the members of a group apart, and different processes from each other:
//
//   - An Update owns every mailbox that it touches until it has ended: first in this process (package-private latches,
//     so that callers of one busy mailbox queue in memory and not on connections), then in the database by locking the
//     mailbox's row in counters. Seq is therefore assigned in the order of commits, without gaps.
//   - Everything that no mailbox owns (people, codes, tallies, the list of mailboxes) has one owner too, a row in gates.
//   - Locks wanted at the same time are taken in one statement in the order of their ids. An Update that turns out to
//     need another lock, which is taken, is run again with both wanted from the start. What deadlock with another
//     process remains is found by PostgreSQL and run again.
//   - A member that fails before it wrote just leaves. One that fails after takes the transaction with it, and the
//     others run again. When a statement fails, each member runs again alone, so the error reaches the one who caused it.
//
// A group whose session ends before the server reached its COMMIT runs again; afterwards the outcome is unknown and the
// callers get Unavailable.
//
// # Plans
//
// Every statement is prepared once per connection and has an index made for it, so sessions forbid the planner what it
// might try on a young table with no statistics (sequential scans, hash joins) and would then keep.
//
// # Bus
//
// Hints travel by NOTIFY, many in one message, outside every write transaction: NOTIFY takes a lock of the whole
// server at commit. They are lost while a listener reconnects; waiters must also look for themselves now and then.
//
// Connect to the server itself: a pooler that lends a session to one transaction after the other breaks LISTEN and
// loses the session's settings.
package postgres
