package browser

import (
	"database/sql"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite" // the relay's data, between two of its runs
)

// TestRunningOut stops the relay under a waiting page, ages the request, and starts it again: the page says that nobody is
// there, and then that it is too late.
func TestRunningOut(t *testing.T) {
	both(t, func(t *testing.T, may script) {
		r := newRelay(t, "Studio")
		var at atomic.Pointer[url.URL] // where the relay is at the time; browsers know the proxy's address only
		aim := func() {
			u, err := url.Parse(r.url)
			if err != nil {
				t.Fatal(err)
			}
			at.Store(u)
		}
		aim()
		proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(at.Load())
			p.Out.Host = p.In.Host
		}})
		t.Cleanup(proxy.Close)
		front := func(address string) string { return strings.Replace(address, r.url, proxy.URL, 1) }

		a := r.app("slow")
		b := newTab(t, may)
		b.open(front(a.link()))
		b.until(waits)
		code := r.newest(r.device).code
		if may {
			value[bool](b, "(now => { Date.now = () => now() + 560000; return true })(Date.now.bind(Date))")
			b.untilText("Less than a minute is left")
			b.until(waits) // the relay knows better than a clock that jumps
		}
		r.stop()
		if may {
			b.untilText("The relay cannot be reached")
		}
		age(t, filepath.Join(r.home, "data", "herald.db"))
		r.start()
		aim()
		if !may {
			b.fill("#code", code)
			b.click("button[type=submit]")
		}
		b.untilText("Too late")
		if may {
			b.look("expired")
		}
		if _, _, times := a.came(); times != 0 {
			t.Error("the browser was sent to the app")
		}
	})
}

// age lets all requests for approval have run out a second ago.
func age(t *testing.T, file string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got, err := db.ExecContext(t.Context(), "UPDATE consents SET expires_at = created_at - 1000, created_at = created_at - 601000")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := got.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%d requests were aged: %v", n, err)
	}
}
