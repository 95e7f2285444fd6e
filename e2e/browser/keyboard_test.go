package browser

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// visited presses Tab until the page was walked once, and names the stops. Each has to be seen.
func (b *tab) visited() (stops []string) {
	b.t.Helper()
	for range 20 {
		b.do(chromedp.KeyEvent(kb.Tab))
		stop := b.focused()
		if stop == "" || slices.Contains(stops, stop) {
			return stops
		}
		stops = append(stops, stop)
		if !value[bool](b, "(s => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2)(getComputedStyle(document.activeElement))") {
			b.t.Errorf("nothing shows that the keyboard is at %s", stop)
		}
	}
	return stops
}

func TestByKeyboardAlone(t *testing.T) {
	both(t, func(t *testing.T, may script) {
		r := newRelay(t, "Studio")
		a := r.app("Terminal agent")
		userCode, _ := a.begin()
		b := newTab(t, may)
		b.open(r.url + "/activate")
		if got := b.visited(); !slices.Equal(got, []string{"user_code", "Continue"}) {
			t.Errorf("the order is %v", got)
		}
		b.open(r.url + "/activate")
		b.do(chromedp.KeyEvent(kb.Tab + userCode + kb.Enter))
		b.until(waits)
		want := []string{"code", "Approve", "Deny"}
		if !may {
			want = append(want, "I decided on my device: go on")
		}
		if got := b.visited(); !slices.Equal(got, want) {
			t.Errorf("the order is %v, want %v", got, want)
		}
		value[bool](b, "(() => { document.activeElement.blur(); return true })()")
		b.do(chromedp.KeyEvent(kb.Enter)) // Enter outside the form decides nothing
		b.until(waits)
		value[bool](b, "(() => { document.getElementById('code').focus(); return true })()")
		b.do(chromedp.KeyEvent(wrong(r.newest(r.device).code) + kb.Enter))
		b.untilText("4 tries are left")
		b.until("document.activeElement.id === 'code'") // ready to be typed in again
		b.do(chromedp.KeyEvent(r.newest(r.device).code + kb.Enter))
		b.untilText("Approved")
	})
}
