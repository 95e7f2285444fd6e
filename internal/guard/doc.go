// Package guard holds no code, only tests about the repository: which package may import which, how large files and functions may
// grow, where SQL may stand, that documents are true where a program can tell.
//
// Each rule stands in a table with its reason. A rule that nothing runs is decoration; whoever wants to bend one changes
// the table, and so says it.
package guard
