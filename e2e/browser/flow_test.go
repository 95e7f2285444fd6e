package browser

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// both runs a test with script and without.
func both(t *testing.T, test func(t *testing.T, may script)) {
	t.Parallel()
	for _, may := range []script{withScript, withoutScript} {
		t.Run(may.String(), func(t *testing.T) {
			t.Parallel()
			test(t, may)
		})
	}
}

// goOn is what somebody without script presses after deciding elsewhere. Pages with script notice by themselves.
func (b *tab) goOn(may script) {
	b.t.Helper()
	if !may {
		b.click(".wait a")
	}
}

// waits shows whether the page of a request stands there.
const waits = "document.querySelector('input[name=rid]') && document.body.innerText.includes('Waiting for your decision')"

func TestApprovingOnTheDevice(t *testing.T) {
	both(t, func(t *testing.T, may script) {
		r := newRelay(t, "Studio")
		r.connect()
		a := r.app("ChatGPT")
		b := newTab(t, may)
		b.open(a.link())
		b.until(waits)
		if may { // it follows the device
			b.untilText("“Studio” shows this request now")
		}
		if got := b.text(".host"); got != "127.0.0.1" {
			t.Errorf("where the browser goes: %q", got)
		}
		before := r.newest(r.device)
		b.do(chromedp.Reload())
		b.until(waits)
		again := r.newest(r.device)
		if again.id != before.id || may && again.code != before.code { // without script, the address still begins a request
			t.Errorf("after a reload %v, before %v", again, before)
		}
		r.decide("approve")
		b.goOn(may)
		b.untilText("Back in the app")
		a.approved()
		if !may { // with script the page gave way, and the way back leads past it
			b.back()
			b.until(waits) // what the address begins is a request of its own
			if r.newest(r.device).id == before.id {
				t.Error("going back opened what was decided")
			}
		}
		own := []string{strings.TrimPrefix(r.url, "http://"), strings.TrimPrefix(a.back.URL, "http://")}
		for _, host := range b.asked() {
			if !slices.Contains(own, host) {
				t.Errorf("the browser asked %s", host)
			}
		}
	})
}

func TestApprovingByTheSixDigits(t *testing.T) {
	both(t, func(t *testing.T, may script) {
		r := newRelay(t, "Studio")
		a := r.app("Claude")
		b := newTab(t, may)
		b.open(a.link())
		b.until(waits)
		code := r.newest(r.device).code
		b.fill("#code", wrong(code))
		b.click("button[type=submit]")
		b.untilText("That code is wrong. 4 tries are left")
		b.until("document.activeElement.id === 'code'") // set as the page is drawn, after its text is there
		if !value[bool](b, "document.getElementById('code').getAttribute('aria-invalid') === 'true' && document.title.startsWith('Wrong code')") {
			t.Error("the wrong code is not told to who cannot see it")
		}
		if may { // the address is that of the request, not of the form's answer
			b.look("wrong-code")
			b.do(chromedp.Reload())
			b.until(waits)
		}
		b.fill("#code", code[:3]+" "+code[3:])
		b.click("button[type=submit]")
		b.untilText("Back in the app")
		a.approved()
	})
}

// wrong is another code.
func wrong(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return string(code[0]+1) + code[1:]
}

func TestDenying(t *testing.T) {
	both(t, func(t *testing.T, may script) {
		r := newRelay(t, "Studio")
		onPage, onDevice := r.app("one"), r.app("two")
		b := newTab(t, may)
		b.open(onPage.link())
		b.until(waits)
		b.click("button.quiet")
		b.untilText("Back in the app")
		onPage.refused()
		b.open(onDevice.link())
		b.until(waits)
		r.decide("deny")
		b.goOn(may)
		b.untilText("Back in the app")
		onDevice.refused()
	})
}

func TestTheFifthWrongCodeDenies(t *testing.T) {
	both(t, func(t *testing.T, may script) {
		r := newRelay(t, "Studio")
		a := r.app("guesser")
		b := newTab(t, may)
		b.open(a.link())
		b.until(waits)
		code := r.newest(r.device).code
		for _, left := range []string{"4 tries are left", "3 tries are left", "2 tries are left", "One try is left"} {
			b.fill("#code", wrong(code))
			b.click("button[type=submit]")
			b.untilText(left)
		}
		if may {
			b.picture("one-try-left")
		}
		b.fill("#code", wrong(code))
		b.click("button[type=submit]")
		b.untilText("Back in the app")
		a.refused()
	})
}

func TestAskingAgainInAnotherWindowSupersedes(t *testing.T) {
	both(t, func(t *testing.T, may script) {
		r := newRelay(t, "Studio")
		a := r.app("twice")
		first, second := newTab(t, may), newTab(t, may)
		first.open(a.link())
		first.until(waits)
		second.open(a.link("state", "another"))
		second.until(waits)
		first.goOn(may)
		first.untilText("Asked again elsewhere")
		if may {
			first.look("superseded")
		}
		second.until(waits)
	})
}

func TestTheDeviceFlow(t *testing.T) {
	both(t, func(t *testing.T, may script) {
		r := newRelay(t, "Studio")
		a := r.app("Terminal agent")
		b := newTab(t, may)
		userCode, deviceCode := a.begin()
		b.open(r.url + "/activate")
		b.fill("#user_code", "bcdf-bcdf")
		b.click("button")
		b.untilText("o device or app shows that code")
		b.until("document.activeElement.id === 'user_code'")
		if may {
			b.look("activate-problem")
		}
		b.fill("#user_code", strings.ToLower(strings.ReplaceAll(userCode, "-", " ")))
		b.click("button")
		b.until(waits)
		if got := b.text(".usercode"); got != userCode {
			t.Errorf("the page shows %q, the app %q", got, userCode)
		}
		if b.text(".host") != "" {
			t.Error("the browser goes nowhere, and the page says it does")
		}
		if may {
			b.look("approval-device-flow")
			b.do(chromedp.Reload())
			b.until(waits)
		}
		b.fill("#code", r.newest(r.device).code)
		b.click("button[type=submit]")
		b.untilText("Approved")
		if may {
			b.look("approved")
		}
		got, err := a.post("/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {a.id}, "device_code": {deviceCode}})
		if err != nil || got["access_token"] == nil {
			t.Errorf("tokens: %v %v", got, err)
		}

		denied := r.app("Unwanted")
		userCode, _ = denied.begin()
		b.open(r.url + "/activate?user_code=" + userCode)
		if may {
			b.look("activate")
		}
		b.click("button")
		b.until(waits)
		r.decide("deny")
		b.goOn(may)
		b.untilText("Denied")
		if may {
			b.look("denied")
		}
	})
}

func TestOnARelayOfSeveralPeople(t *testing.T) {
	both(t, func(t *testing.T, may script) {
		r := newRelay(t, "Studio")
		eve := r.person("eve")
		a := r.app("Claude")
		b := newTab(t, may)
		b.open(a.link())
		b.untilText("Who are you here?")
		if may {
			b.look("person")
		}
		b.fill("#person", "  ")
		b.click("button")
		b.untilText("That is only blanks")
		b.fill("#person", "Eve")
		b.click("button")
		b.until(waits)
		if got := b.text(".device"); strings.Contains(got, "eve") || strings.Contains(got, "Studio") {
			t.Errorf("the page tells a stranger of devices: %q", got)
		}
		b.fill("#code", r.newest(eve).code)
		b.click("button[type=submit]")
		b.untilText("Back in the app")
		a.approved()
	})
}

func TestThePageFollowsTheDevice(t *testing.T) {
	t.Parallel()
	r := newRelay(t, "Studio")
	a := r.app("ChatGPT")
	b := newTab(t, withScript)
	b.open(a.link())
	b.until(waits)
	if got := b.text(".device"); !strings.Contains(got, "“Studio” is not connected") {
		t.Errorf("of the device it says %q", got)
	}
	b.look("approval-away")
	r.connect()
	b.untilText("“Studio” shows this request now")
	b.look("approval")
	b.prefers("forced-colors", "active")
	b.picture("approval-forced-colors")
	if left := b.text("#left"); !strings.Contains(left, ":") || !strings.HasSuffix(left, "left") {
		t.Errorf("of the time it says %q", left)
	}
	if !value[bool](b, "document.getElementById('bar').value > 500 && document.getElementById('bar').value <= 600") {
		t.Error("the bar does not show the time")
	}
}

func TestWhatCannotBegin(t *testing.T) {
	t.Parallel()
	r := newRelay(t, "Studio")
	a := r.app("ChatGPT")
	b := newTab(t, withScript)
	for name, address := range map[string]string{
		"The app’s return address is not registered": a.link("redirect_uri", "https://evil.example/"),
		"This relay does not know the app":           a.link("client_id", "hc_00000000000000000000000000000000"),
		"There is no such device":                    a.link("device", "7"),
		"There is no such request":                   r.url + "/authorize/wait?rid=0",
	} {
		b.open(address)
		b.untilText(name)
		b.untilText("What to do next")
	}
	b.open(a.link("client_id", "nobody"))
	b.look("problem")
	for range 3 {
		b.open(r.app("many").link())
		b.until(waits)
	}
	b.open(a.link())
	b.untilText("Too many requests")
	b.picture("too-many")
	empty := newRelay(t, "Studio")
	empty.must("DELETE", "/v1/device", empty.device, nil)
	b.open(empty.app("early").link())
	b.untilText("No device is paired yet")
}
