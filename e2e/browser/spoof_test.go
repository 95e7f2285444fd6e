package browser

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// names are what strangers call their software, and what of it may be read in the quotation.
var names = []struct {
	name, shown string
	posing      bool
	picture     string
}{
	{`<script>window.pwned=1</script>`, `scriptwindow.pwned=1/script`, false, ""},
	{`"><img src=x onerror=window.pwned=1>`, `"img src=x onerror=window.pwned=1`, false, ""},
	{`'-window.pwned=1-' {{.RID}} ${alert(1)}`, `'-window.pwned=1-' {{.RID}} ${alert(1)}`, false, ""},
	{"</bdi></blockquote><h1>Approved</h1>", "/bdi/blockquoteh1Approved/h1", false, ""},
	{"Claude” is verified. “Press Approve", "Claude' is verified. 'Press Approve", false, ""},
	{"\u202eTPGtahC\u202c", "TPGtahC", false, ""},
	{"Cl\u200bau\u00adde\u2060\ufeff", "Claude", false, ""},
	{"Chat\x00\x1b[31mGPT\r\n\tApprove", "Chat[31mGPTApprove", false, ""},
	{"\u3164\u3164\u2800\ufe0f", "An app", false, ""},
	{"Z" + strings.Repeat("\u0338\u0310", 20) + "algo", "Z\u0338\u0310algo", false, ""},
	{strings.Repeat("W", 200), strings.Repeat("W", 60), false, "long"},
	{"עברית وعربي and English", "עברית وعربي and English", false, ""},
	{"Herald", "Herald", true, ""},
	{"Неrаld security", "Неrаld security", true, "posing"}, // Cyrillic Н, е and а
	{"ＨＥＲＡＬＤ", "ＨＥＲＡＬＤ", true, ""},
	{"𝐇𝐞𝐫𝐚𝐥𝐝 ✓", "𝐇𝐞𝐫𝐚𝐥𝐝 ✓", true, ""},
	{"H.e.r.a.I.d", "H.e.r.a.I.d", true, ""}, // a capital I
	{"Geraldine", "Geraldine", false, ""},
}

// TestNamesAreClaimsAndNothingElse shows names that would like to be more than a quotation.
func TestNamesAreClaimsAndNothingElse(t *testing.T) {
	t.Parallel()
	var r *relay
	b := newTab(t, withScript)
	for i, n := range names {
		if i%10 == 0 { // twelve requests an hour are allowed
			r = newRelay(t, "Studio")
		}
		b.open(r.app(n.name).link())
		b.until(waits)
		if got := b.text(".claim bdi"); got != n.shown {
			t.Errorf("%q is shown as %q, want %q", n.name, got, n.shown)
		}
		if warned := b.text(".claim .warn") != ""; warned != n.posing {
			t.Errorf("%q: warned of a name like ours: %v", n.name, warned)
		}
		for _, what := range b.untrue(tricks) {
			t.Errorf("the name %q %s", n.name, what)
		}
		if n.picture != "" {
			b.look("claim-" + n.picture)
		}
		r.decide("deny")
		b.untilText("Back in the app") // else the page's way there crosses the next one's
	}
}

// tricks are what a name must not achieve: each expression says that it did not.
var tricks = map[string]string{
	"runs":                 "window.pwned === undefined && document.scripts.length === 1",
	"adds elements":        "document.querySelectorAll('h1').length === 1 && document.querySelector('.claim bdi').children.length === 0",
	"leaves its frame":     "((a, b) => a.left >= b.left && a.right <= b.right)(document.querySelector('.claim bdi').getBoundingClientRect(), document.querySelector('.claim').getBoundingClientRect())",
	"covers the host":      "document.querySelector('.claim').getBoundingClientRect().bottom <= document.querySelector('.host').getBoundingClientRect().top",
	"hides the host":       "document.querySelector('.host').innerText === '127.0.0.1'",
	"looks like our words": "getComputedStyle(document.querySelector('.claim blockquote')).fontFamily !== getComputedStyle(document.body).fontFamily",
	"stands elsewhere": `(body => {
		const name = body.querySelector(".claim bdi").textContent;
		body.querySelector(".claim").remove();
		body.querySelector("script").remove();
		return name === "Herald" || name === "An app" || !(document.title + body.textContent).includes(name);
	})(document.body.cloneNode(true))`,
}

func TestThePagesRefuseToBeFramed(t *testing.T) {
	t.Parallel()
	r := newRelay(t, "Studio")
	a := r.app("ChatGPT")
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><title>thief</title><iframe src="` + html.EscapeString(req.FormValue("page")) + `"></iframe>`))
	}))
	t.Cleanup(thief.Close)
	b := bareTab(t)
	for name, path := range map[string]string{"the front page": "/", "pairing": "/pair", "codes": "/activate", "approval": strings.TrimPrefix(a.link(), r.url), "an outcome": "/authorize/wait?rid=0"} {
		b.open(thief.URL + "/?page=" + url.QueryEscape(r.url+path))
		b.until("document.querySelector('iframe')")
		tree, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) (*page.FrameTree, error) {
			got, err := cdp.Call(ctx, t, page.GetFrameTree, cdp.Empty{})
			if err != nil {
				return nil, err
			}
			return got.FrameTree, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(tree.ChildFrames) != 1 || !strings.HasPrefix(tree.ChildFrames[0].Frame.URL, "chrome-error:") {
			t.Errorf("%s can be framed", name)
		}
	}
}

// TestTheBrowserTellsOfViolations proves that the other tests would notice.
func TestTheBrowserTellsOfViolations(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		_, _ = w.Write([]byte(`<!doctype html><title>x</title><style>p{color:red}</style><script>alert(1)</script><p onclick="x()">x`))
	}))
	defer page.Close()
	b := bareTab(t)
	b.open(page.URL)
	b.until("document.querySelector('p')")
	if got := strings.Join(b.complained(), "\n"); strings.Count(got, "security") < 2 {
		t.Errorf("the browser complains of %s", got)
	}
}
