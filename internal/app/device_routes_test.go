package app_test

import (
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/testkit"
)

// deviceRoutes are all routes that take a device token, the stream's apart, which has tests of its own.
var deviceRoutes = []string{
	"POST /v1/device/receipt", "POST /v1/device/reply", "PUT /v1/device/reply/" + unknownID + "/audio",
	"POST /v1/device/status", "GET /v1/device/info", "GET /v1/device/usage",
	"GET /v1/device/keys", "POST /v1/device/keys", "DELETE /v1/device/keys/00000000",
	"GET /v1/device/devices", "POST /v1/device/prune", "DELETE /v1/device/devices/" + strings.Repeat("0", 48), "DELETE /v1/device",
	"GET /v1/device/links", "POST /v1/device/links", "DELETE /v1/device/links/0000000000000000",
}

func TestDeviceRoutesTakeADeviceTokenAlone(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	zeros := strings.Repeat("0", 64)
	tests := []struct {
		name, authorization string
		status              int
		code                string
	}{
		{"none", "", 401, "unauthorized"},
		{"another scheme", "Basic " + d.Token, 401, "unauthorized"},
		{"two tokens", "Bearer " + d.Token + " " + d.Token, 401, "unauthorized"},
		{"a malformed one", "Bearer hrd_" + d.Mailbox, 401, "unauthorized"},
		{"an unsigned mailbox", "Bearer hrd_" + strings.Repeat("0", 48) + "_" + zeros, 401, "unauthorized"},
		{"an unsigned mailbox of the wrong kind", "Bearer hrk_" + strings.Repeat("0", 48) + "_00000000_" + zeros, 401, "unauthorized"},
		{"an unknown secret", "Bearer hrd_" + d.Mailbox + "_" + zeros, 401, "unauthorized"},
		{"an agent key", "Bearer " + agent.Token, 403, "wrong_credential"},
		{"an unknown agent key", "Bearer hrk_" + d.Mailbox + "_00000000_" + zeros, 403, "wrong_credential"},
		{"an access token", "Bearer hra_" + d.Mailbox + "_" + zeros, 403, "wrong_credential"},
		{"a refresh token", "Bearer hrr_" + d.Mailbox + "_" + zeros, 401, "unauthorized"},
	}
	paths := append([]string{"GET /v1/device/nothing", "GET /v1/device", "POST /v1/device/keys/ZZ"}, deviceRoutes...)
	for _, route := range paths {
		method, path, _ := strings.Cut(route, " ")
		for _, test := range tests {
			a := r.Do(method, path, "", nil, "Authorization", test.authorization)
			t.Run(route+" with "+test.name, func(t *testing.T) { devRefused(t, a, test.status, test.code) })
		}
		if a := r.Do(method, path, "", nil, "Authorization", "bEaReR "+d.Token); a.Status == 401 || a.Status == 403 {
			t.Errorf("%s with the device's token: %d %s", route, a.Status, a.Raw)
		}
		if path == "/v1/device" && method == "DELETE" {
			d = r.Pair("laptop") // that one was obeyed
		}
	}
}

// Whatever matches no route below /v1/device is one answer, a wrong method and a parameter of the wrong shape included.
func TestNoSuchDeviceEndpoint(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	for _, route := range []string{
		"GET /v1/device", "POST /v1/device", "GET /v1/device/", "GET /v1/device/nothing", "PUT /v1/device/keys",
		"GET /v1/device/receipt", "PATCH /v1/device/receipt", "DELETE /v1/device/reply", "POST /v1/device/info", "POST /v1/device/usage",
		"POST /v1/device/stream", "GET /v1/device/prune", "DELETE /v1/device/devices", "PUT /v1/device/devices/" + d.Mailbox,
		"DELETE /v1/device/keys", "DELETE /v1/device/keys/", "DELETE /v1/device/keys/0a1b2c3", "DELETE /v1/device/keys/0A1B2C3D",
		"DELETE /v1/device/keys/0a1b2c3d5", "DELETE /v1/device/keys/0a1b2c3d/x", "GET /v1/device/keys/0a1b2c3d",
		"PUT /v1/device/reply/r_0123/audio", "PUT /v1/device/reply/n_0123456789abcdef01234567/audio", "PUT /v1/device/reply/R_0123456789ABCDEF01234567/audio",
		"POST /v1/device/reply/" + unknownID + "/audio", "PUT /v1/device/reply/" + unknownID, "PUT /v1/device/reply/" + unknownID + "/audio/x",
		"DELETE /v1/device/devices/" + strings.Repeat("0", 47), "DELETE /v1/device/devices/" + strings.Repeat("A", 48),
		"DELETE /v1/device/links/0", "DELETE /v1/device/links/000000000000000g", "PUT /v1/device/links",
	} {
		method, path, _ := strings.Cut(route, " ")
		a := d.Call(method, path, []byte("x"))
		if a.Text("message") != "no such device endpoint" {
			t.Errorf("%s: message = %q, want the published one", route, a.Text("message"))
		}
		t.Run(route, func(t *testing.T) { devRefused(t, a, 404, "not_found") })
	}
}

func TestPathsThatAreNotCleanAreNeverRedirected(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	for _, path := range []string{
		"/v1/device/../device/info", "/v1/device//info", "/v1//device/info", "/v1/device/./info", "/v1/device/keys/../info",
		"/v1/device/%2e%2e/device/info", "/internal/keys", "/v1/device/info/", "/v1/device%2finfo",
	} {
		a := d.Call("GET", path, nil)
		if a.Status != 404 && a.Status != 401 && a.Status != 405 {
			t.Errorf("%s: %d %s, want 401, 404 or 405", path, a.Status, a.Raw)
		}
	}
}
