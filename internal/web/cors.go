package web

import "net/http"

// allowedHeaders are what a web page may send beside what every page may (contract section 8), and what MCP clients of
// either kind send.
const allowedHeaders = "authorization, content-type, mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id"

// openToAll lets web pages of any origin call the bearer-only routes and read why they were refused: no cookie is ever
// read there (decisions 17 and 29), and a browser sends none where the answer allows every origin.
func openToAll(h http.Header, r *http.Request) {
	if r.Header.Get("Origin") == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After")
}

// preflight reports whether a browser asks on behalf of a page whether the page may send a request.
func preflight(r *http.Request) bool {
	return r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// writeOptions answers OPTIONS for a path that takes the methods in allow. It says nothing of who may use them: a
// preflight carries no credential.
func writeOptions(w http.ResponseWriter, allow string) {
	h := w.Header()
	h.Set("Allow", allow)
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", allow)
	h.Set("Access-Control-Allow-Headers", allowedHeaders)
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}
