// Package local lets other programs on this machine use its paired device: agents through an MCP server on standard input
// and output, scripts through HTTP on loopback. Both ask the same questions and get the same answers.
//
// Nothing here approves an app, and the six digits that approve one are in no answer: a program that could read them could
// let itself in. A new key is in the answer that made it and in no other. What the relay answers in JSON is passed on as it
// is, so that a newer relay's fields arrive.
//
// The device is looked up for each question: pairing takes effect without a restart, and without one the answer says so.
package local
