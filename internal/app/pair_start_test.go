package app_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

// behindProxy makes the relay believe the test's X-Forwarded-For, so that requests come from any address.
func behindProxy(c *config.Config) {
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

func startFrom(r *testkit.Relay, address string, body any, header ...string) testkit.Answer {
	r.T.Helper()
	return r.Do("POST", "/v1/pair/start", "", body, append([]string{"X-Forwarded-For", address}, header...)...)
}

func exchangeFrom(r *testkit.Relay, address, code string) testkit.Answer {
	r.T.Helper()
	return r.Do("POST", "/v1/pair", "", map[string]any{"code": code}, "X-Forwarded-For", address)
}

func TestPairingStartsWithACode(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.PairStartsPerHour = 100 }})
	long := strings.Repeat("完", 61)
	for _, test := range []struct{ name, body, contentType, device string }{
		{"a name", `{"deviceName":"laptop"}`, "application/json", `"laptop"`},
		{"under any content type (decision 31)", `{"deviceName":"typed"}`, "text/plain", `"typed"`},
		{"form-encoded, as curl does", `{"deviceName":"curl"}`, "application/x-www-form-urlencoded", `"curl"`},
		{"trimmed", `{"deviceName":"  trimmed \n"}`, "", `"trimmed"`},
		{"the first 60 characters", `{"deviceName":"` + long + `"}`, "", `"` + long[:180] + `"`},
		{"line breaks in a name", `{"deviceName":"a\u0000b\r\nX-Evil: 1"}`, "", `"a b  X-Evil: 1"`},
		{"a name that is no string", `{"deviceName":7}`, "", "null"},
		{"a name that is null", `{"deviceName":null}`, "", "null"},
		{"other members", `{"deviceName":"others","model":"M9"}`, "", `"others"`},
		{"an empty body", ``, "application/json", "null"},
		{"not JSON", `laptop`, "application/json", "null"},
		{"half of JSON", `{"deviceName":"lap`, "application/json", "null"},
		{"an array", `["laptop"]`, "application/json", "null"},
		{"an empty object", `{}`, "", "null"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := r.Do("POST", "/v1/pair/start", "", test.body, "Content-Type", test.contentType)
			devOK(t, a, 201, `{"code":"<code>","expiresInSeconds":600}`)
			paired := r.Do("POST", "/v1/pair", "", map[string]any{"code": a.Text("code")})
			devOK(t, paired, 200, `{"deviceId":"<hex48>","deviceToken":"hrd_`+paired.Text("deviceId")+`_<hex64>"}`)
			d := &testkit.Device{Relay: r, Mailbox: paired.Text("deviceId"), Token: paired.Text("deviceToken")}
			list := d.Call("GET", "/v1/device/devices", nil)
			if !strings.Contains(string(list.Raw), `"id":"`+d.Mailbox+`","name":`+test.device+`,`) {
				t.Errorf("devices = %s, want the name %s", list.Raw, test.device)
			}
			devOK(t, d.Call("DELETE", "/v1/device", nil), 200, `{"unpaired":true}`)
		})
	}
	devRefused(t, r.Do("POST", "/v1/pair/start", "", `{"deviceName":"a","deviceName":"b"}`), 400, "invalid_request", `"fields":["deviceName"]`)
	devRefused(t, r.Do("POST", "/v1/pair/start", "", `{"devicename":"a"}`), 400, "invalid_request", `"fields":["devicename"]`)
	devRefused(t, r.Do("POST", "/v1/pair/start", "", strings.Repeat(" ", 70<<10)), 413, "too_large")
	devRefused(t, r.Do("GET", "/v1/pair/start", "", nil), 405, "method_not_allowed")
}

func TestCodesAreRandomAndUseTheWholeAlphabet(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.PairStartsPerHour, c.PairStartsGlobalPerHour = 1000, 1000 }})
	seen, codes := map[rune]bool{}, map[string]bool{}
	for range 60 {
		code := r.Do("POST", "/v1/pair/start", "", nil).Text("code")
		if codes[code] {
			t.Errorf("the code %s came twice", code)
		}
		codes[code] = true
		for _, c := range code {
			seen[c] = true
		}
		r.Redeem(code, "again")
	}
	// 480 draws of 31 characters leave one out with a chance of about 1 in 200,000.
	if want := "ABCDEFGHJKMNPQRSTUVWXYZ23456789-"; len(seen) != len(want) || strings.Trim(want, keysOf(seen)) != "" {
		t.Errorf("characters = %s, want %s", keysOf(seen), want)
	}
}

func keysOf(set map[rune]bool) (out string) {
	for c := range set {
		out += string(c)
	}
	return out
}

func TestThePairingSecretComesBeforeEverythingElse(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) {
		c.PairingSecret, c.MaxDevices = "open sesame", 0
	}})
	for name, secret := range map[string]string{
		"none": "", "a wrong one": "open sesamf", "a part of it": "open sesam", "more than it": "open sesame!", "another case": "Open Sesame",
	} {
		a := r.Do("POST", "/v1/pair/start", "", `{"deviceName":"a","deviceName":"b"}`, "X-Pairing-Secret", secret)
		t.Run(name, func(t *testing.T) { devRefused(t, a, 401, "unauthorized") })
	}
	devRefused(t, r.Do("POST", "/v1/pair/start", "", strings.Repeat(" ", 70<<10)), 401, "unauthorized")
	devRefused(t, r.Do("POST", "/v1/pair/start", "", nil, "X-Pairing-Secret", "open sesame"), 403, "device_limit")
	// Exchanging a code needs no secret: holding the code is enough.
	devRefused(t, r.Do("POST", "/v1/pair", "", `{"code":"AAAA-AAAA"}`), 403, "bad_code")
}

// The checks come in the order secret, device limit, rate of the address, rate of all, waiting codes.
func TestPairingStartsAreRefusedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) {
			behindProxy(c)
			c.PairStartsPerHour, c.PairStartsGlobalPerHour, c.MaxDevices = 4, 6, 2
		}})
		const perHour, waiting = `"retryAfterSeconds":3600`, `"retryAfterSeconds":600`
		start := func(address string) testkit.Answer { return startFrom(r, address, nil) }
		for range 3 {
			devOK(t, start("1.1.1.1"), 201, `{"code":"<code>","expiresInSeconds":600}`)
		}
		a := start("1.1.1.1")
		devRefused(t, a, 429, "rate_limited", waiting) // three codes wait
		devRetryAfter(t, a, "")
		time.Sleep(10*time.Minute - time.Millisecond)
		devRefused(t, start("1.1.1.1"), 429, "rate_limited", waiting)
		time.Sleep(time.Millisecond)
		last := start("1.1.1.1").Text("code") // refused starts count for nothing
		a = start("1.1.1.1")
		devRefused(t, a, 429, "rate_limited", perHour) // four starts within the hour
		devRetryAfter(t, a, "")
		devOK(t, start("2.2.2.2"), 201, `{"code":"<code>","expiresInSeconds":600}`)
		devOK(t, start("2.2.2.2"), 201, `{"code":"<code>","expiresInSeconds":600}`)
		devRefused(t, start("3.3.3.3"), 429, "rate_limited", perHour) // six in all

		exchangeFrom(r, "9.9.9.9", last)
		time.Sleep(50*time.Minute - time.Millisecond) // an hour after the first start
		devRefused(t, start("3.3.3.3"), 429, "rate_limited", perHour)
		time.Sleep(time.Millisecond)
		second := start("3.3.3.3").Text("code")
		if second == "" {
			t.Fatal("an hour after the first starts the next is refused")
		}
		for range 2 {
			start("3.3.3.3")
		}
		exchangeFrom(r, "9.9.9.9", second)
		devRefused(t, start("3.3.3.3"), 403, "device_limit") // before the rates
		devRefused(t, start("1.1.1.1"), 403, "device_limit")
	})
}

func TestSixPairingsMayBeStartedFromAnAddressWithinAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: behindProxy})
		for i := range 6 {
			a := startFrom(r, "1.1.1.1", nil)
			devOK(t, a, 201, `{"code":"<code>","expiresInSeconds":600}`)
			r.Redeem(a.Text("code"), "again") // so that no code waits
			time.Sleep(time.Duration(i) * time.Minute)
		}
		devRefused(t, startFrom(r, "1.1.1.1", nil), 429, "rate_limited", `"retryAfterSeconds":3600`)
		devOK(t, startFrom(r, "1.1.1.2", nil), 201, `{"code":"<code>","expiresInSeconds":600}`)
		time.Sleep(45 * time.Minute) // the first start is an hour ago
		devOK(t, startFrom(r, "1.1.1.1", nil), 201, `{"code":"<code>","expiresInSeconds":600}`)
		devOK(t, startFrom(r, "1.1.1.1", nil), 201, `{"code":"<code>","expiresInSeconds":600}`) // and so is the second
		devRefused(t, startFrom(r, "1.1.1.1", nil), 429, "rate_limited", `"retryAfterSeconds":3600`)
	})
}

func TestThreeHundredPairingsMayBeStartedWithinAnHourInAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: behindProxy})
		for i := range 300 {
			a := startFrom(r, fmt.Sprintf("1.1.%d.%d", i/200, i%200), nil)
			if a.Status != 201 {
				t.Fatalf("start %d: %d %s", i, a.Status, a.Raw)
			}
			r.Redeem(a.Text("code"), "again")
		}
		devRefused(t, startFrom(r, "2.2.2.2", nil), 429, "rate_limited", `"retryAfterSeconds":3600`)
		time.Sleep(time.Hour)
		devOK(t, startFrom(r, "2.2.2.2", nil), 201, `{"code":"<code>","expiresInSeconds":600}`)
	})
}

func TestSixtyCodesMayWaitInAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: behindProxy})
		var codes []string
		for i := range 60 {
			a := startFrom(r, fmt.Sprintf("1.1.1.%d", i/3), nil)
			if a.Status != 201 {
				t.Fatalf("start %d: %d %s", i, a.Status, a.Raw)
			}
			codes = append(codes, a.Text("code"))
		}
		devRefused(t, startFrom(r, "2.2.2.2", nil), 429, "rate_limited", `"retryAfterSeconds":600`)
		exchangeFrom(r, "3.3.3.3", codes[17])
		devOK(t, startFrom(r, "2.2.2.2", nil), 201, `{"code":"<code>","expiresInSeconds":600}`)
		devRefused(t, startFrom(r, "2.2.2.2", nil), 429, "rate_limited", `"retryAfterSeconds":600`)
		time.Sleep(10 * time.Minute)
		devOK(t, startFrom(r, "2.2.2.2", nil), 201, `{"code":"<code>","expiresInSeconds":600}`)
	})
}

// Which address a start is counted for.
func TestAddressesBehindProxies(t *testing.T) {
	t.Parallel()
	untrusted := func(*config.Config) {}
	tests := []struct {
		name          string
		config        func(*config.Config)
		first, second string // X-Forwarded-For
		same          bool
	}{
		{"the header of a stranger is not believed", untrusted, "1.1.1.1", "2.2.2.2", true},
		{"that of a trusted proxy is", behindProxy, "1.1.1.1", "2.2.2.2", false},
		{"what stands before the nearest hop is the stranger's own word", behindProxy, "5.5.5.5, 1.1.1.1", "6.6.6.6, 1.1.1.1", true},
		{"trusted hops are passed over", behindProxy, "1.1.1.1, 127.0.0.9", "2.2.2.2, 127.0.0.9", false},
		{"an IPv6 caller owns a /64", behindProxy, "2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		{"and not the neighbour's", behindProxy, "2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"IPv4 in IPv6 clothes is IPv4", behindProxy, "::ffff:1.1.1.1", "1.1.1.1", true},
		{"no address at all", behindProxy, "", "unknown", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.New(t, testkit.Options{Config: func(c *config.Config) {
				test.config(c)
				c.PairStartsPerHour = 1
			}})
			devOK(t, startFrom(r, test.first, nil), 201, `{"code":"<code>","expiresInSeconds":600}`)
			if a := startFrom(r, test.second, nil); (a.Status == 429) != test.same {
				t.Errorf("the second: %d %s, want counted together: %v", a.Status, a.Raw, test.same)
			}
		})
	}
}
