// Package sqlite is the embedded store: one database file, nothing to install.
//
// # Who writes
//
// One process owns the database; a lock file beside it keeps others out and is let go even by a kill. Inside, one
// goroutine writes. It takes all Updates that wait, at most maxBatch, runs them one after the other in one
// transaction, commits once and then answers all of them: a commit waits for the disk, and many share one wait.
// Every commit is synced (synchronous=FULL) before anyone is answered.
//
// An fn that fails before it wrote simply gets its error. One that fails after it wrote takes its writes back: the
// batch is rolled back and run once more, each fn behind a savepoint. A statement that fails for want of room or for a
// disk error ends the batch, and its calls are then tried one by one. All are answered after the commit, errors too,
// because each may have seen what its neighbours wrote.
//
// # Who reads
//
// A View runs on the goroutine of its caller, on one of a few reading connections, in a read transaction: write-ahead
// logging gives it a snapshot that no writer disturbs. Another goroutine copies the log into the database behind the
// writer's back, a tenth of a second after writes and never when there are none.
//
// # What is in memory
//
// The writer remembers tallies and send times of the mailboxes it met (type memory), so that accepting a notification
// reads nothing from disk. Memory follows the transaction: it is undone with it, and tallies are written once per
// commit. It can be dropped at any time; everything in it is read again from rows. No call that a notification or a
// receipt makes reads as many rows as its mailbox holds; what must (removals) walks the mailbox's chain.
package sqlite
