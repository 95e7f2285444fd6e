package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a window of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex // guards the rest
	hosts      map[string]bool
	complaints []string // what the browser, or a script in it, found wrong
}

// script says whether pages may run theirs.
type script bool

const (
	withScript    script = true
	withoutScript script = false
)

func (s script) String() string {
	if s {
		return "with script"
	}
	return "without script"
}

// newTab opens one until the test ends, and then requires that the browser had nothing to complain about.
func newTab(t *testing.T, may script) *tab {
	t.Helper()
	b := bareTab(t)
	if !may {
		b.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	}
	t.Cleanup(func() {
		for _, c := range b.complained() {
			t.Errorf("the browser complains: %s", c)
		}
	})
	return b
}

func bareTab(t *testing.T) *tab {
	t.Helper()
	b := &tab{t: t, hosts: map[string]bool{}}
	var stop context.CancelFunc
	b.ctx, stop = chromedp.NewContext(chromium, chromedp.WithListener(b.heard))
	t.Cleanup(stop)
	if err := chromedp.Do(b.ctx); err != nil { // the tab lives as long as the context that opens it
		t.Fatal(err)
	}
	b.do(
		command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(page.Enable, page.EnableParams{}),
		command(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
	)
	return b
}

// command makes an action of a command whose answer does not matter.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// heard takes the browser's events.
func (b *tab) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Host != "" {
			b.hosts[u.Host] = true
		}
	case *log.EventEntryAdded:
		// A page with status 400 or 410 is no fault, and a relay that is away is some tests' point.
		// Tests are sometimes at a field before the browser is.
		if e.Entry.Source != log.EntrySourceNetwork && !strings.HasPrefix(e.Entry.Text, "Autofocus processing was blocked") {
			b.complaints = append(b.complaints, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, "console: "+string(e.Type))
	case *page.EventJavascriptDialogOpening:
		b.complaints = append(b.complaints, "dialog: "+e.Message)
	}
}

func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.complaints...)
}

// asked lists the hosts that the browser asked for anything.
func (b *tab) asked() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for host := range b.hosts {
		list = append(list, host)
	}
	return list
}

func (b *tab) open(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
}

// back goes back by one page, without waiting for it to be there.
func (b *tab) back() {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		h, err := cdp.Call(ctx, t, page.GetNavigationHistory, cdp.Empty{})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: h.Entries[h.CurrentIndex-1].ID})
		return err
	}))
}

// value evaluates an expression in the page. It works where pages may run no script, too.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true, over as many pages as it takes.
func (b *tab) until(expression string) {
	b.t.Helper()
	give := time.After(patience)
	again := time.NewTicker(40 * time.Millisecond)
	defer again.Stop()
	for {
		// While one page gives way to another there is nothing to evaluate in; that passes.
		if yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("document.readyState === 'complete' && Boolean("+expression+")")); err == nil && yes {
			return
		}
		select {
		case <-again.C:
		case <-give:
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText"))
			b.t.Fatalf("never came true: %s\nthe page:\n%s", expression, text)
		}
	}
}

// untilText waits until the page says something.
func (b *tab) untilText(text string) {
	b.t.Helper()
	b.until("document.body.innerText.includes(" + quoted(text) + ")")
}

func quoted(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(data)
}

// text is what an element shows; "" where there is none, or nothing to be seen.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return strings.TrimSpace(value[string](b, "(e => e && e.checkVisibility() ? e.innerText : '')(document.querySelector("+quoted(selector)+"))"))
}

// click presses the mouse on what a selector names.
func (b *tab) click(selector string) {
	b.t.Helper()
	at := value[[]float64](b, `(() => {
		const e = document.querySelector(`+quoted(selector)+`);
		e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`)
	b.do(chromedp.MouseClickXY(at[0], at[1]))
}

// fill types into a field in place of what it holds.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	value[bool](b, "(() => { const e = document.querySelector("+quoted(selector)+"); e.focus(); e.select(); return true; })()")
	b.do(chromedp.KeyEvent(text))
}

// focused names the element that has the keyboard; "" when none has.
func (b *tab) focused() string {
	b.t.Helper()
	return value[string](b, "(e => e === document.body ? '' : e.id || e.textContent.trim())(document.activeElement)")
}
