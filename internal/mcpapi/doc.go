// Package mcpapi is the edge for agents that speak MCP: POST /mcp (contract sections 4 and 5).
//
// Two kinds of client share the URL. A session-less one begins with initialize, or with nothing at all, and has tools. A
// stateless one states its context in every request and has events too. Nothing is kept between requests of either.
//
// A tool is a thin layer over the agent routes: it calls the same functions of package agentapi and returns what the
// route would have answered. Events are answered by package mcpevents.
//
// A request is judged in this order: shape of the credential, HTTP method, content type, body, credential and budget,
// protocol version, what the headers repeat of the body, method. So a stranger learns nothing but how to sign in.
package mcpapi
