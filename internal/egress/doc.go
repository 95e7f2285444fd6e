// Package egress makes outbound HTTP calls that cannot reach private addresses.
//
// Strangers choose where the program calls: webhook destinations, push services, client metadata documents, pictures.
// Every such call goes through a [Guard], and so does every later call that a first one leads to (a key document, a
// token address). A Guard takes five steps, in this order:
//
//  1. It reads the URL strictly and normalises it ([Parse]).
//  2. It judges scheme, port and host by syntax, and the allowlist if there is one ([Guard.CheckURL]).
//  3. It resolves the host, once for each connection, and checks all records ([CheckAddr]). One address that is not
//     globally reachable refuses the host.
//  4. It connects to exactly an address that it checked, and does TLS with the original host.
//  5. It follows no redirect and reads no proxy variable.
//
// A step that refuses leaves nothing behind: no connection was tried. Steps 3 and 4 stand on their own: [Guard.DialContext]
// gives the same promise about addresses to a caller that skipped the first two.
//
// A connection that is kept alive was checked when it was made; a name that moves to a private address afterwards does
// not move the connection, and the next one is refused.
//
// Names are resolved as absolute ones, so the search list of the machine is never applied. A resolver that reports an IPv4
// line of the hosts file in mapped form, as Go's own does, has that line refused: the hosts file is no way around the guard.
//
// All failures are an [*Error] or can be classed by [KindOf]. The package imports nothing of this program, so that the
// public library can use it.
package egress
