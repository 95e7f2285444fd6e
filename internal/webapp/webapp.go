// Package webapp serves the pages that a person's browser sees: for now the relay's front page and the page behind a
// pairing link. Both are static, load nothing, run nothing and cannot be framed.
package webapp

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/herald-relay/herald/internal/web"
)

//go:embed pages/style.css
var style string

//go:embed pages/root.html
var rootPage string

//go:embed pages/pair.html
var pairPage string

// Register adds the pages.
func Register(rt *web.Router) {
	rt.Handle("GET /{$}", page(rootPage))
	rt.Handle("GET /pair", page(pairPage))
}

// page puts the one style sheet into the page and allows it by its hash.
func page(text string) web.Handler {
	body := []byte(strings.Replace(text, "/*style*/", style, 1))
	sum := sha256.Sum256([]byte(style))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return func(w http.ResponseWriter, _ *http.Request) error {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body) // a failure means that the reader is gone
		return nil
	}
}
