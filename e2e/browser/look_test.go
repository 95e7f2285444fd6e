package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// screen is what a page is shown on.
type screen struct {
	name          string
	width, height int64
	scale         float64
	phone         bool
}

var (
	phone   = screen{"phone", 390, 844, 1, true}
	desktop = screen{"desktop", 1280, 860, 1, false}
	narrow  = screen{"narrow", 320, 640, 1, true} // where pages must fit without scrolling sideways (WCAG 1.4.10)
)

func (b *tab) on(s screen) {
	b.t.Helper()
	b.do(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: s.width, Height: s.height, DeviceScaleFactor: s.scale, Mobile: s.phone}))
}

func (b *tab) prefers(features ...string) {
	b.t.Helper()
	var list []*emulation.MediaFeature
	for i := 0; i+1 < len(features); i += 2 {
		list = append(list, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: list}))
}

// look holds a page to what every page owes its reader, on screens of each kind, light and dark, and takes its pictures.
func (b *tab) look(name string) {
	b.t.Helper()
	for _, missing := range b.untrue(owed) {
		b.t.Errorf("%s lacks %s", name, missing)
	}
	b.on(narrow)
	b.fits(name + " at 320 pixels")
	for _, scheme := range []string{"light", "dark"} {
		b.prefers("prefers-color-scheme", scheme, "prefers-reduced-motion", "reduce")
		for _, s := range []screen{desktop, phone} {
			what := name + "-" + s.name + "-" + scheme
			b.on(s)
			b.fits(what)
			if everything || (s == phone) == (scheme == "light") {
				b.picture(what)
			}
		}
		b.accessible(name+", "+scheme, map[string]string{"dark": "color-contrast"}[scheme]) // the rest is the same
	}
	b.roomForFingers(name)
}

// owed is what a reader of a page leans on, whatever it looks like.
var owed = map[string]string{
	"one main landmark":           "document.querySelectorAll('main').length === 1",
	"one h1":                      "document.querySelectorAll('h1').length === 1",
	"a language":                  "document.documentElement.lang === 'en'",
	"a title of its own":          "document.title.includes('Herald') && document.title.length > 8",
	"standards mode":              "document.compatMode === 'CSS1Compat'",
	"no script in attributes":     "![...document.querySelectorAll('*')].some(e => [...e.attributes].some(a => a.name.startsWith('on') || a.name === 'style'))",
	"no second script":            "document.scripts.length <= 1",
	"nothing loaded":              "document.querySelectorAll('[src], link, iframe, object, embed, img').length === 0",
	"a label for each field":      "[...document.querySelectorAll('input:not([type=hidden])')].every(e => e.labels.length === 1)",
	"descriptions that are there": "[...document.querySelectorAll('[aria-describedby]')].every(e => e.getAttribute('aria-describedby').split(' ').every(id => document.getElementById(id)))",
}

// untrue returns the names of the expressions that are not true of the page.
func (b *tab) untrue(expressions map[string]string) []string {
	b.t.Helper()
	var list strings.Builder
	for name, expression := range expressions {
		list.WriteString("[" + quoted(name) + ", () => " + expression + "],")
	}
	return value[[]string](b, "["+list.String()+"].filter(([, holds]) => !holds()).map(([name]) => name)")
}

// fits requires that nothing makes the page wider than its screen.
func (b *tab) fits(what string) {
	b.t.Helper()
	if wide := value[float64](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		b.t.Errorf("%s is %v pixels wider than the screen", what, wide)
	}
}

// roomForFingers requires targets of 44 pixels, those inside running text apart.
func (b *tab) roomForFingers(what string) {
	b.t.Helper()
	small := value[[]string](b, `[...document.querySelectorAll("button, input:not([type=hidden]), a, summary")]
		.filter(e => e.checkVisibility() && !(e.tagName === "A" && e.parentElement.textContent.trim() !== e.textContent.trim()))
		.map(e => [e, e.getBoundingClientRect()]).filter(([, r]) => r.width < 44 || r.height < 44)
		.map(([e, r]) => e.outerHTML.slice(0, 60) + " " + r.width + "x" + r.height)`)
	if len(small) > 0 {
		b.t.Errorf("%s has targets that fingers miss: %v", what, small)
	}
}

// accessible has axe look for what it knows to be a barrier: by one of its rules, or by all.
func (b *tab) accessible(what, rule string) {
	b.t.Helper()
	if !value[bool](b, "Boolean(window.axe)") {
		b.do(chromedp.Evaluate[chromedp.Void](axe))
	}
	only := ""
	if rule != "" {
		only = ", runOnly: [" + quoted(rule) + "]"
	}
	raw, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`axe.run(document, {resultTypes: ["violations"]`+only+`}).then(r => JSON.stringify(
		r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => n.html + " " + n.failureSummary)}))))`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("axe on %s: %v", what, err)
	}
	var found []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(raw), &found); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range found {
		b.t.Errorf("%s: %s: %s\n%s", what, v.ID, v.Help, strings.Join(v.Nodes, "\n"))
	}
}

// picture saves the whole page as it looks now.
func (b *tab) picture(what string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		got, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: new(true), OptimizeForSpeed: new(true)})
		if err != nil {
			return nil, err
		}
		return got.Data, nil
	})
	if err != nil || !bytes.HasPrefix(png, []byte("\x89PNG")) {
		b.t.Fatalf("picture of %s: %v", what, err)
	}
	if err := os.WriteFile(filepath.Join(screenshots, what+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func TestTheFrontPageAndThePairingPage(t *testing.T) {
	t.Parallel()
	r := newRelay(t, "Mac")
	b := newTab(t, withScript)
	b.open(r.url + "/")
	b.look("root")
	b.click("a")
	b.untilText("Enter the app’s code")

	b.open(r.url + "/pair")
	if b.text("#link") != "" {
		t.Error("without a code there is nothing to copy")
	}
	b.open(r.url + "/pair#ABCD-EFGH")
	b.untilText("herald pair " + r.url + "/pair#ABCD-EFGH")
	b.look("pair")
	b.open(r.url + "/pair#<img src=x onerror=alert(1)>")
	b.until("document.getElementById('link').hidden")
	plain := newTab(t, withoutScript)
	plain.open(r.url + "/pair#ABCD-EFGH")
	if text := plain.text("main"); plain.text("#link") != "" || !strings.Contains(text, "the whole address of this page") {
		t.Errorf("without script: %s", text)
	}
	if hosts := b.asked(); fmt.Sprint(hosts) != fmt.Sprint([]string{strings.TrimPrefix(r.url, "http://")}) {
		t.Errorf("the browser asked %v", hosts)
	}
}
