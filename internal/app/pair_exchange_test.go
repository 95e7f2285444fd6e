package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

func TestACodeWorksOnceInAnySpelling(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.PairStartsPerHour = 100 }})
	spellings := map[string]func(string) string{
		"as it was shown": func(s string) string { return s },
		"lower case":      strings.ToLower,
		"without dash":    func(s string) string { return strings.ReplaceAll(s, "-", "") },
		"with blanks":     func(s string) string { return " " + strings.ReplaceAll(s, "-", " ") + " " },
		"dashes anywhere": func(s string) string { return "-" + strings.ReplaceAll(s, "", "-") },
	}
	for name, spell := range spellings {
		code := r.Do("POST", "/v1/pair/start", "", map[string]any{"deviceName": "laptop"}).Text("code")
		a := r.Do("POST", "/v1/pair", "", map[string]any{"code": spell(code)})
		if a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Raw)
		}
		devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": code}), 403, "bad_code")
	}
}

func TestACodeWorksForTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		start := func() string { return r.Do("POST", "/v1/pair/start", "", nil).Text("code") }
		early, late := start(), start()
		time.Sleep(10*time.Minute - time.Millisecond)
		r.Redeem(early, "laptop")
		time.Sleep(time.Millisecond)
		devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": late}), 403, "bad_code")
	})
}

func TestWhatIsNoCode(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: behindProxy})
	waiting := r.Do("POST", "/v1/pair/start", "", nil).Text("code")
	for i, test := range []struct{ name, body string }{
		{"no body", ``}, {"not JSON", waiting}, {"an array", `["` + waiting + `"]`}, {"an empty object", `{}`},
		{"an empty code", `{"code":""}`}, {"a number", `{"code":12345678}`}, {"a code that is null", `{"code":null}`},
		{"a code in a list", `{"code":["` + waiting + `"]}`}, {"another code", `{"code":"ABCD-2345"}`},
		{"half of a code", `{"code":"` + waiting[:4] + `"}`}, {"a code and more", `{"code":"` + waiting + `A"}`},
		{"a code of a megabyte, nearly", `{"code":"` + strings.Repeat("A", 60000) + `"}`},
	} {
		a := r.Do("POST", "/v1/pair", "", test.body, "X-Forwarded-For", fmt.Sprint("1.1.1.", i))
		t.Run(test.name, func(t *testing.T) { devRefused(t, a, 403, "bad_code") })
	}
	devRefused(t, r.Do("POST", "/v1/pair", "", `{"code":"`+waiting+`","code":"`+waiting+`"}`), 400, "invalid_request", `"fields":["code"]`)
	devRefused(t, r.Do("POST", "/v1/pair", "", strings.Repeat(" ", 70<<10)), 413, "too_large")
	devRefused(t, r.Do("PUT", "/v1/pair", "", nil), 405, "method_not_allowed")
	a := r.Do("POST", "/v1/pair", "", `{"code":"`+waiting+`"}`, "Content-Type", "text/plain") // decision 31
	devOK(t, a, 200, `{"deviceId":"<hex48>","deviceToken":"hrd_<hex48>_<hex64>"}`)
}

func TestTenWrongCodesBarAnAddressForTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: behindProxy})
		code := r.Do("POST", "/v1/pair/start", "", nil).Text("code")
		for range 10 {
			devRefused(t, exchangeFrom(r, "6.6.6.6", "ABCD-2345"), 403, "bad_code")
			time.Sleep(30 * time.Second)
		}
		for _, tried := range []string{"ABCD-2345", code} { // the right one too
			a := exchangeFrom(r, "6.6.6.6", tried)
			devRefused(t, a, 429, "rate_limited", `"retryAfterSeconds":600`)
			devRetryAfter(t, a, "")
		}
		exchange := exchangeFrom(r, "7.7.7.7", code) // another address is not barred, and the code is still good
		devOK(t, exchange, 200, `{"deviceId":"<hex48>","deviceToken":"hrd_<hex48>_<hex64>"}`)

		time.Sleep(5*time.Minute - time.Millisecond) // ten minutes after the first wrong one
		devRefused(t, exchangeFrom(r, "6.6.6.6", "ABCD-2345"), 429, "rate_limited", `"retryAfterSeconds":600`)
		time.Sleep(time.Millisecond)
		devRefused(t, exchangeFrom(r, "6.6.6.6", "ABCD-2345"), 403, "bad_code")
		devRefused(t, exchangeFrom(r, "6.6.6.6", "ABCD-2345"), 429, "rate_limited", `"retryAfterSeconds":600`)
	})
}

// A restart forgives nothing.
func TestWrongCodesAreRememberedAcrossARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := testkit.New(t, testkit.Options{Dir: dir})
	code := r.Do("POST", "/v1/pair/start", "", nil).Text("code")
	for range 10 {
		r.Do("POST", "/v1/pair", "", map[string]any{"code": "ABCD-2345"})
	}
	r.Stop()
	r = testkit.New(t, testkit.Options{Dir: dir})
	devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": code}), 429, "rate_limited", `"retryAfterSeconds":600`)
}

func TestGuessesThatComeAtOnceCountAll(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	counts := inParallel(t, 40, func(int) testkit.Answer {
		a, err := r.Try(t.Context(), "POST", "/v1/pair", "", map[string]any{"code": "ABCD-2345"})
		if err != nil {
			t.Error(err)
		}
		return a
	})
	if counts[403] != 10 || counts[429] != 30 {
		t.Errorf("answers = %v, want ten guesses and thirty refusals", counts)
	}
}

// inParallel counts the statuses of n requests sent at once.
func inParallel(t *testing.T, n int, do func(i int) testkit.Answer) map[int]int {
	t.Helper()
	statuses := make(chan int)
	for i := range n {
		go func() { statuses <- do(i).Status }()
	}
	counts := map[int]int{}
	for range n {
		counts[<-statuses]++
	}
	return counts
}

func TestOfExchangesOfOneCodeThatRaceOneSucceeds(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: behindProxy})
	code := r.Do("POST", "/v1/pair/start", "", nil).Text("code")
	counts := inParallel(t, 30, func(i int) testkit.Answer {
		a, err := r.Try(t.Context(), "POST", "/v1/pair", "", map[string]any{"code": code}, "X-Forwarded-For", fmt.Sprint("1.1.1.", i))
		if err != nil {
			t.Error(err)
		}
		return a
	})
	if counts[200] != 1 || counts[403] != 29 {
		t.Errorf("answers = %v, want one success", counts)
	}
}

func TestTheNameOfTheExchangeBeatsTheNameOfTheStart(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	for _, test := range []struct{ start, exchange, want string }{
		{`{"deviceName":"start"}`, `"deviceName":"exchange"`, `"exchange"`},
		{`{"deviceName":"start"}`, `"deviceName":"  "`, `"start"`},
		{`{"deviceName":"start"}`, `"deviceName":7`, `"start"`},
		{`{}`, `"deviceName":"` + strings.Repeat("n", 70) + `"`, `"` + strings.Repeat("n", 60) + `"`},
	} {
		code := r.Do("POST", "/v1/pair/start", "", test.start).Text("code")
		a := r.Do("POST", "/v1/pair", "", `{"code":"`+code+`",`+test.exchange+`}`)
		d := &testkit.Device{Relay: r, Mailbox: a.Text("deviceId"), Token: a.Text("deviceToken")}
		if got := d.Call("GET", "/v1/device/devices", nil); !strings.Contains(string(got.Raw), `"`+d.Mailbox+`","name":`+test.want+`,`) {
			t.Errorf("%s, %s: %s", test.start, test.exchange, got.Raw)
		}
	}
}

func TestPairingUnderANameAgainReplacesTheEarlierMailbox(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	first, other := r.Pair("laptop"), r.Pair("Laptop") // another case is another name
	linked := first.Link("phone")
	agent := first.Agent("bot")
	_, id := devQueued(first, agent)
	devOK(t, upload(first, id, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)
	streams := []*testkit.Stream{first.Stream(), linked.Stream()}
	for _, s := range streams {
		s.Next()
	}
	others := other.Stream()

	second := r.Pair("laptop")
	if second.Mailbox == first.Mailbox {
		t.Error("the mailbox was kept")
	}
	for _, s := range streams {
		wantClosed(t, s, unpaired)
	}
	devSettle(others)
	for _, token := range []string{first.Token, linked.Token} {
		devRefused(t, r.Do("GET", "/v1/device/info", token, nil), 401, "unauthorized")
	}
	devRefused(t, agent.Call("GET", "/v1/status", nil), 401, "unauthorized")
	if files := clipFiles(t, r, first.Mailbox); len(files) != 0 {
		t.Errorf("clips left: %v", files)
	}
	devOK(t, second.Call("GET", "/v1/device/keys", nil), 200, `{"keys":[]}`)
	devSettle(second.Stream())
	if got := reasons(second); len(got) != 2 {
		t.Errorf("devices = %v, want the two", got)
	}
}

func TestPairingsWithoutANameNeverReplaceEachOther(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	first, second := r.Pair(""), r.Pair(" ")
	for _, d := range []*testkit.Device{first, second} {
		if got := reasons(d); len(got) != 2 || got[0] != " -" || got[1] != " -" {
			t.Errorf("devices = %v, want both to stay", got)
		}
	}
}

func TestADeviceThatIsPairedAlreadyTakesItsOwnPlace(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.MaxDevices, c.PairStartsPerHour = 2, 100 }})
	r.Pair("one")
	start := func(name string) testkit.Answer {
		return r.Do("POST", "/v1/pair/start", "", map[string]any{"deviceName": name})
	}
	codes := []string{start("").Text("code"), start("").Text("code")} // asked for while there was room
	r.Pair("two")
	devRefused(t, start("three"), 403, "device_limit")
	devRefused(t, start(""), 403, "device_limit")
	two := r.Pair("two") // again
	devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": codes[0], "deviceName": "three"}), 403, "device_limit")
	r.Redeem(codes[0], "one") // a refused code is still good, under a name that has a place
	devOK(t, two.Call("DELETE", "/v1/device", nil), 200, `{"unpaired":true}`)
	r.Redeem(codes[1], "three")
}

func TestFiveDevicesMayBePaired(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.PairStartsPerHour = 100 }})
	for i := range 5 {
		r.Pair(fmt.Sprint("device ", i))
	}
	devRefused(t, r.Do("POST", "/v1/pair/start", "", nil), 403, "device_limit")
	r.Pair("device 3")
}

// A device whose pairing is replaced must learn why its stream ended, not just that it did.
func TestTheReplacedDevicesStreamSaysUnpaired(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	s := r.Pair("laptop").Stream()
	code := closing(s)
	r.Pair("laptop")
	if got := <-code; got != websocket.StatusCode(4001) {
		t.Errorf("close code = %d, want 4001", got)
	}
	devRefused(t, s.Do("GET", "/v1/device/stream", s.Token, nil, handshake...), http.StatusUnauthorized, "unauthorized")
}
