package webapp

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// The pages of an approval: templates, one style sheet and one script. They work without the script.
//
//go:embed pages/approval.html pages/activate.html pages/person.html pages/outcome.html
var approvalFiles embed.FS

//go:embed pages/approval.js
var approvalScript string

var approvalPages = template.Must(template.New("").Funcs(template.FuncMap{
	// Both elements are made here, so that what stands in them is byte for byte what the policy's hashes allow.
	"style":  func() template.HTML { return template.HTML("<style>" + style + "</style>") },
	"script": func() template.HTML { return template.HTML("<script>" + approvalScript + "</script>") },
}).ParseFS(approvalFiles, "pages/*.html"))

// ApprovalPage is what approval.html shows: a request that waits for a person, who decides on a device or types the six
// digits that only the devices show. Everything that the client says of itself is quoted as its claim.
type ApprovalPage struct {
	ClientName string   // what the client calls itself; proves nothing
	Origin     string   // where the browser will be sent afterwards: a host, or "scheme:"; "" in the device flow
	ClientHost string   // host of the client's own description, "" for clients that registered
	Scopes     []string // what it asks for: "notify"
	RID        string   // the request's id, 72 hex digits, for the hidden field rid
	UserCode   string   // device flow: what the client shows, to be compared
	DeviceName string   // of the mailbox that was asked, "" when unnamed or not to be told
	Online     bool     // whether a device of it is connected
	Left       int      // tries that are left for the code
	Wrong      bool     // the code just typed was wrong
	Seconds    int      // until the request runs out
	CodeURL    string   // POST rid, code
	DenyURL    string   // POST rid
	StatusURL  string   // GET: {"status", "redirect"?}, polled by the script
	WaitURL    string   // GET: this page again, for browsers without script

}

// ActivatePage is what activate.html shows: a form for the code that a device-flow client shows.
type ActivatePage struct {
	UserCode string // to be filled in
	Problem  string // why the code before was not taken, "" at first
}

// PersonPage is what person.html shows on a relay of several people: whose approval is asked for?
type PersonPage struct {
	ClientName string
	Fields     []Field // of the request, to be sent again by GET /authorize
	Problem    string
}

// Field is one hidden field of a form.
type Field struct{ Name, Value string }

// OutcomePage is what outcome.html shows: how something ended, or why it could not begin.
type OutcomePage struct {
	Kind  string // approved, denied, expired, superseded, problem: picks the tone
	Title string
	Text  string
	Next  string // where to go on, "" for nowhere
}

// ShowApproval answers with the page of a request. redirect is where the browser may be sent when a form is answered.
func ShowApproval(w http.ResponseWriter, status int, p ApprovalPage, redirect string) {

	show(w, status, "approval.html", p, redirect)
}

// ShowActivate answers with the form for a user code.
func ShowActivate(w http.ResponseWriter, status int, p ActivatePage) {
	show(w, status, "activate.html", p, "")
}

// ShowPerson answers with the form for a person's handle.
func ShowPerson(w http.ResponseWriter, status int, p PersonPage) {
	show(w, status, "person.html", p, "")
}

// ShowOutcome answers with an end.
func ShowOutcome(w http.ResponseWriter, status int, p OutcomePage) {
	show(w, status, "outcome.html", p, "")
}

// show renders whole before it sends: a template that fails must not leave half a page.
func show(w http.ResponseWriter, status int, name string, data any, redirect string) {
	var body bytes.Buffer
	if err := approvalPages.ExecuteTemplate(&body, name, data); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", approvalPolicy(redirect))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer") // a request's id stands in addresses
	h.Set("Cache-Control", "no-store")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a failure means that the reader is gone
}

// approvalPolicy allows the one style sheet, the one script, polling and forms to ourselves. A form's answer may send the
// browser on to the client, which browsers hold to form-action too.
func approvalPolicy(redirect string) string {
	return "default-src 'none'; style-src " + hashSource(style) + "; script-src " + hashSource(approvalScript) +
		"; connect-src 'self'; form-action 'self'" + formSource(redirect) + "; base-uri 'none'; frame-ancestors 'none'"
}

func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// formSource is the redirect address as a source of a policy: its origin, or its scheme where an origin cannot be written.
func formSource(redirect string) string {
	u, err := url.Parse(redirect)
	switch {
	case err != nil || redirect == "":
		return ""
	case u.Host == "" || strings.Contains(u.Host, "[") || u.Scheme != "https" && u.Scheme != "http":
		return " " + u.Scheme + ":"
	}
	return " " + u.Scheme + "://" + u.Host
}
