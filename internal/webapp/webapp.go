// Package webapp serves the pages that a person's browser sees: the relay's front page, the page behind a pairing link, and
// the pages of an approval.
//
// They are rendered here, work without script, load nothing from anywhere and cannot be framed. One style sheet and, where
// a page has one, one script stand in the page and are allowed by hash.
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

	"github.com/herald-relay/herald/internal/web"
)

//go:embed pages/*.html
var files embed.FS

var (
	//go:embed pages/style.css
	style string
	//go:embed pages/approval.js
	approvalScript string
	//go:embed pages/pair.js
	pairScript string
)

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	// These elements are made here, so that what stands in them is byte for byte what the policy's hashes allow.
	"style":      func() template.HTML { return template.HTML("<style>" + style + "</style>") },
	"script":     func() template.HTML { return template.HTML("<script>" + approvalScript + "</script>") },
	"pairScript": func() template.HTML { return template.HTML("<script>" + pairScript + "</script>") },

	"claim": claim, "posing": posing, "destination": toDestination, "allows": allows, "remaining": remaining,
}).ParseFS(files, "pages/*.html"))

// Register adds the pages that are the same for everybody.
func Register(rt *web.Router) {
	rt.Handle("GET /{$}", static("root.html", ""))
	rt.Handle("GET /pair", static("pair.html", pairScript))
}

func static(name, script string) web.Handler {
	var body bytes.Buffer
	if err := pages.ExecuteTemplate(&body, name, nil); err != nil {
		panic(err) // a page without data either renders or is broken for good
	}
	policy := policy{script: script}.String()
	return func(w http.ResponseWriter, _ *http.Request) error {
		send(w, http.StatusOK, policy, "no-cache", body.Bytes())
		return nil
	}
}

// send answers with a page. A request's id stands in addresses, so no address is told to whom a page leads.
func send(w http.ResponseWriter, status int, policy, keep string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", keep)
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a failure means that the reader is gone
}

// policy is what a page may do beyond showing its style sheet.
type policy struct {
	script string // the one that may run, which may ask us
	forms  string // where forms may be sent and their answers lead, as sources; "" for nowhere
}

func (p policy) String() string {
	text := "default-src 'none'; style-src " + hashSource(style)
	if p.script != "" {
		text += "; script-src " + hashSource(p.script) + "; connect-src 'self'"
	}
	forms := p.forms
	if forms == "" {
		forms = "'none'"
	}
	return text + "; form-action " + forms + "; base-uri 'none'; frame-ancestors 'none'"
}

func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// formSource is a redirect address as a source of a policy: its origin, or its scheme where an origin cannot be written.
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
