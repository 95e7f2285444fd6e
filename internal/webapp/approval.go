package webapp

import (
	"bytes"
	"net/http"
)

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
	StatusURL  string   // GET: {"status", "redirect"?, "online"?, "seconds"?}, polled by the script
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
	Kind  string // approved, denied, expired, superseded, problem: picks the sign
	Title string
	Text  string // what happened
	Then  string // what to do next, "" for nothing
}

// ShowApproval answers with the page of a request. redirect is where the browser may be sent when a form is answered.
func ShowApproval(w http.ResponseWriter, status int, p ApprovalPage, redirect string) {
	// A form's answer may send the browser on to the client, which browsers hold to form-action too.
	show(w, status, "approval.html", p, policy{script: approvalScript, forms: "'self'" + formSource(redirect)})
}

// ShowActivate answers with the form for a user code.
func ShowActivate(w http.ResponseWriter, status int, p ActivatePage) {
	show(w, status, "activate.html", p, policy{forms: "'self'"})
}

// ShowPerson answers with the form for a person's handle.
func ShowPerson(w http.ResponseWriter, status int, p PersonPage) {
	show(w, status, "person.html", p, policy{forms: "'self'"})
}

// ShowOutcome answers with an end.
func ShowOutcome(w http.ResponseWriter, status int, p OutcomePage) {
	show(w, status, "outcome.html", p, policy{})
}

// show renders whole before it sends: a template that fails must not leave half a page.
func show(w http.ResponseWriter, status int, name string, data any, may policy) {
	var body bytes.Buffer
	if err := pages.ExecuteTemplate(&body, name, data); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	send(w, status, may.String(), "no-store", body.Bytes())
}
