package app_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
)

// stored sums up what a mailbox holds: anything that bad input left behind shows here.
func stored(d *testkit.Device) string {
	d.T.Helper()
	a := d.Call("GET", "/v1/device/usage", nil)
	return fmt.Sprint(a.Body["notifications"], " notifications, ", a.Body["queued"], " waiting, ", a.Body["storageBytes"], " bytes")
}

const nothingStored = "0 notifications, 0 waiting, 0 bytes"

func wantNothingStored(t *testing.T, d *testkit.Device) {
	t.Helper()
	if got := stored(d); got != nothingStored {
		t.Errorf("stored: %s", got)
	}
}

// badBodies are requests to send that no relay may accept.
func badBodies() map[string]struct {
	body   string
	code   string
	fields []string
} {
	nested := func(open, shut string, depth int) string {
		return `{"title":"x","tags":` + strings.Repeat(open, depth) + strings.Repeat(shut, depth) + `}`
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(`{"title":"x"}`))
	_ = z.Close()
	return map[string]struct {
		body   string
		code   string
		fields []string
	}{
		"nothing":                            {"", "invalid_request", nil},
		"white space":                        {" \n\t ", "invalid_request", nil},
		"no JSON":                            {"title=x", "invalid_request", nil},
		"JSON cut short":                     {`{"title":"x"`, "invalid_request", nil},
		"JSON with more behind it":           {`{"title":"x"}{"title":"y"}`, "invalid_request", nil},
		"JSON with a byte behind it":         {`{"title":"x"}]`, "invalid_request", nil},
		"JSON with a NUL behind it":          {"{\"title\":\"x\"}\x00", "invalid_request", nil},
		"JSON behind a byte order mark":      {"\ufeff" + `{"title":"x"}`, "invalid_request", nil},
		"JSON with a comment":                {`{"title":"x" /* hi */}`, "invalid_request", nil},
		"JSON with a comma too many":         {`{"title":"x",}`, "invalid_request", nil},
		"JSON in single quotes":              {`{'title':'x'}`, "invalid_request", nil},
		"JSON in UTF-16":                     {"\xfe\xff\x00{\x00}", "invalid_request", nil},
		"a number that is none":              {`{"title":"x","speed":NaN}`, "invalid_request", nil},
		"a number beyond every range":        {`{"title":"x","speed":1e999}`, "invalid_request", []string{"speed"}},
		"an array":                           {`[{"title":"x"}]`, "invalid_request", nil},
		"null":                               {`null`, "invalid_request", nil},
		"a string":                           {`"title"`, "invalid_request", nil},
		"a number":                           {`7`, "invalid_request", nil},
		"an empty object":                    {`{}`, "invalid_request", []string{"title"}},
		"a zipped body":                      {zipped.String(), "invalid_request", nil},
		"an unknown field":                   {`{"title":"x","constructor":1}`, "forbidden_fields", []string{"constructor"}},
		"an unknown field of a prototype":    {`{"title":"x","__proto__":{"title":"y"}}`, "forbidden_fields", []string{"__proto__"}},
		"a repeated field":                   {`{"title":"x","title":"y"}`, "invalid_request", []string{"title"}},
		"a field repeated with its value":    {`{"title":"x","title":"x"}`, "invalid_request", []string{"title"}},
		"a field repeated by escapes":        {`{"title":"x","\u0074itle":"y"}`, "invalid_request", []string{"title"}},
		"a field in another case":            {`{"Title":"x"}`, "invalid_request", []string{"Title"}},
		"a field in two cases":               {`{"title":"x","TITLE":"y"}`, "invalid_request", []string{"TITLE"}},
		"a field of speak repeated":          {`{"title":"x","speak":{"text":"a","text":"b"}}`, "invalid_request", []string{"speak.text"}},
		"a field of speak in another case":   {`{"title":"x","speak":{"Text":"a"}}`, "invalid_request", []string{"speak.Text"}},
		"invalid UTF-8 in a value":           {"{\"title\":\"\xff\"}", "invalid_request", nil},
		"invalid UTF-8 in a name":            {"{\"title\":\"x\",\"\xff\":1}", "invalid_request", nil},
		"an overlong slash":                  {"{\"title\":\"\xc0\xaf\"}", "invalid_request", nil},
		"a lone surrogate":                   {`{"title":"\ud800"}`, "invalid_request", nil},
		"a surrogate as UTF-8":               {"{\"title\":\"\xed\xa0\x80\"}", "invalid_request", nil},
		"NUL in a value":                     {`{"title":"a\u0000b"}`, "invalid_request", []string{"title"}},
		"a bare NUL in a value":              {"{\"title\":\"a\x00b\"}", "invalid_request", nil},
		"NUL in an id":                       {`{"title":"x","notificationId":"a\u0000"}`, "invalid_request", []string{"notificationId"}},
		"an override of direction":           {`{"title":"pay \u202efdp.exe"}`, "invalid_request", []string{"title"}},
		"an isolate in the body":             {`{"title":"x","body":"a\u2066b"}`, "invalid_request", []string{"body"}},
		"a terminal's escape":                {`{"title":"\u001b]0;x\u0007"}`, "invalid_request", []string{"title"}},
		"arrays 10,000 deep":                 {nested("[", "]", 10_000), "invalid_request", nil},
		"objects 5,000 deep":                 {nested(`{"a":`, "}", 5_000)[:30_000], "invalid_request", nil},
		"arrays that never end":              {`{"title":` + strings.Repeat("[", 30_000), "invalid_request", nil},
		"ten thousand members":               {`{"title":"x"` + strings.Repeat(`,"":1`, 5_000) + `}`, "invalid_request", nil},
		"ten thousand tags":                  {`{"title":"x","tags":["a"` + strings.Repeat(`,"a"`, 7_000) + `]}`, "invalid_request", []string{"tags"}},
		"a name of thirty thousand letters":  {`{"title":"x","` + strings.Repeat("a", 30_000) + `":1}`, "forbidden_fields", []string{strings.Repeat("a", 64) + "…"}},
		"a number of thirty thousand digits": {`{"title":"x","duration":` + strings.Repeat("9", 30_000) + `}`, "invalid_request", []string{"duration"}},
	}
}

func TestBadBodiesAreRefusedAndNothingIsStored(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	for name, test := range badBodies() {
		t.Run(name, func(t *testing.T) {
			a := agent.Call("POST", "/v1/notify", test.body)
			if len(a.Raw) > 4_000 {
				t.Errorf("the answer takes %d bytes", len(a.Raw))
			}
			wantRefusal(t, a, 400, test.code, test.fields...)
		})
	}
	wantNothingStored(t, d)
	agent.Send(map[string]any{"title": "x"}) // and nothing was counted
}

func TestContentTypesThatAreNoJSON(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	for _, kind := range []string{
		"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "application/xml", "application/json; charset=utf-16", "junk",
	} {
		wantRefusal(t, agent.Call("POST", "/v1/notify", `{"title":"x"}`, "Content-Type", kind), 415, "unsupported_media_type")
	}
	wantNothingStored(t, d)
	for _, kind := range []string{"application/json", "application/json; charset=UTF-8", "APPLICATION/JSON", "application/vnd.example+json", ""} {
		if a := agent.Call("POST", "/v1/notify", []byte(`{"title":"x"}`), "Content-Type", kind); a.Status != 202 {
			t.Errorf("%q: %d %s", kind, a.Status, a.Raw)
		}
	}
}

func TestWrongMethodsNameTheRightOnes(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	for path, allowed := range map[string]string{
		"/v1/notify": "POST", "/v1/receipts/x": "GET, HEAD", "/v1/replies/x": "GET, HEAD", "/v1/status": "GET, HEAD", "/health": "GET, HEAD", "/healthz": "GET, HEAD",
		"/v1/audio/x/y.m4a": "GET, HEAD", "/v1/pair": "POST", "/v1/pair/start": "POST",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "notify"} {
			if strings.Contains(allowed, method) {
				continue
			}
			a := agent.Call(method, path, nil)
			wantRefusal(t, a, 405, "method_not_allowed")
			if got := a.Header.Get("Allow"); got != allowed {
				t.Errorf("%s %s: Allow = %q, want %q", method, path, got, allowed)
			}
		}
	}
	wantNothingStored(t, d)
}

// endless is a body that goes on and on.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	for i := range p[:n] {
		p[i] = 'a'
	}
	e.left -= n
	return int(n), nil
}

// TestCase141HugeBodiesCostNothing: 100 MB, declared or not, to every route that takes a body, are refused early and in
// little memory. It runs alone, for it measures.
func TestCase141HugeBodiesCostNothing(t *testing.T) {
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	q := ask(d, d.Agent("other"))
	before := stored(d)
	const size = 100 << 20
	var start, end runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&start)
	requests := uint64(0)
	for _, route := range []struct {
		method, path, token string
		status              int
	}{
		{"POST", "/v1/notify", agent.Token, 413}, {"POST", "/v1/notify", "", 401}, {"POST", "/v1/notify", d.Token, 403},
		{"POST", "/v1/pair/start", "", 413}, {"POST", "/v1/pair", "", 413}, {"POST", "/v1/device/receipt", d.Token, 413},
		{"POST", "/v1/device/reply", d.Token, 413}, {"POST", "/v1/device/keys", d.Token, 413}, {"PUT", "/v1/device/reply/" + q.relay + "/audio", d.Token, 413},
		{"GET", "/v1/status", agent.Token, 200}, {"GET", "/health", "", 200}, {"POST", "/nothing", "", 404},
	} {
		for _, declared := range []bool{true, false} {
			requests++
			status, err := sendHuge(t, r, route.method, route.path, route.token, size, declared)
			if err != nil || status != route.status {
				t.Errorf("%s %s, declared %v: %d %v, want %d", route.method, route.path, declared, status, err, route.status)
			}
		}
	}
	runtime.ReadMemStats(&end)
	if each := (end.TotalAlloc - start.TotalAlloc) / requests; each > 4<<20 {
		t.Errorf("a body of 100 MB had %d KB allocated, client included", each>>10)
	}
	if after := stored(d); after != before {
		t.Errorf("stored: %s, and before: %s", after, before)
	}
}

// sendHuge sends until the relay has answered or hung up, then reads the answer.
func sendHuge(t *testing.T, r *testkit.Relay, method, path, token string, size int64, declared bool) (int, error) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	length := fmt.Sprint("Content-Length: ", size)
	if !declared {
		length = "Transfer-Encoding: chunked"
	}
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", method, path, token, length)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		var w io.Writer = conn
		if !declared {
			w = chunks{conn}
		}
		_, _ = io.Copy(w, &endless{size}) // fails when the relay hangs up
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = conn.Close()
	<-sent
	return res.StatusCode, err
}

// chunks writes each piece as a chunk.
type chunks struct{ w io.Writer }

func (c chunks) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(c.w, "%x\r\n%s\r\n", len(p), p)
	return len(p), err
}

// slow is a connection inside a bubble to which a test writes what and when it likes.
func slow(t *testing.T, r *testkit.Relay, text string) net.Conn {
	t.Helper()
	conn, err := r.HTTP.Transport.(*http.Transport).DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Hour)) // or a relay that never answers would hold up the test
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowBodies: whoever dawdles is answered after 15 seconds and hung up on, whatever the answer would have been.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		request string // TOKEN, DEVICE and ID stand for those
		status  int
		took    time.Duration
	}{
		"a body that never comes":                      {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 100\r\n\r\n", 400, 15 * time.Second},
		"a body that stops":                            {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 100\r\n\r\n{\"title\":", 400, 15 * time.Second},
		"chunks that stop":                             {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"title\":\r\n", 400, 15 * time.Second},
		"a body of nobody that never comes":            {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", 401, 15 * time.Second},
		"chunks of nobody that never come":             {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 401, 15 * time.Second},
		"a body to nowhere that never comes":           {"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", 404, 15 * time.Second},
		"a body for a route that takes none":           {"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 5\r\n\r\n", 200, 15 * time.Second},
		"a body of the wrong type that never comes":    {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n", 415, 15 * time.Second},
		"a body too large that never comes":            {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 9999999\r\n\r\n", 413, 0},
		"a body that was expected and never comes":     {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n", 401, 0},
		"a pairing that never comes":                   {"POST /v1/pair HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", 400, 15 * time.Second},
		"a device's report that never comes":           {"POST /v1/device/receipt HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer DEVICE\r\nContent-Length: 100\r\n\r\n", 400, 15 * time.Second},
		"a clip for nothing that never comes":          {"PUT /v1/device/reply/r_0123456789abcdef01234567/audio HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer DEVICE\r\nContent-Length: 100\r\n\r\n", 404, 2 * time.Minute},
		"a clip that never comes":                      {"PUT /v1/device/reply/ID/audio HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer DEVICE\r\nContent-Length: 100\r\n\r\nxyz", 400, 2 * time.Minute},
		"a body for a wait, which does not hold it up": {"GET /v1/replies/x?wait=60 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 5\r\n\r\n", 404, 15 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := testkit.New(t, testkit.Options{Pipes: true})
				d := r.Pair("laptop")
				agent := d.Agent("bot")
				request := test.request
				if strings.Contains(request, "ID/") { // asking makes a notification, which the others do without
					request = strings.ReplaceAll(request, "ID/", ask(d, agent).relay+"/")
				}
				before := stored(d)
				start := time.Now()
				conn := slow(t, r, strings.NewReplacer("TOKEN", agent.Token, "DEVICE", d.Token).Replace(request))
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatalf("no answer: %v", err)
				}
				if took := time.Since(start); res.StatusCode != test.status || took != test.took {
					t.Errorf("answered %d after %s, want %d after %s", res.StatusCode, took, test.status, test.took)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					t.Error("the connection stays open")
				}
				if took := time.Since(start); took > test.took+20*time.Second {
					t.Errorf("hung up on after %s", took)
				}
				if after := stored(d); after != before {
					t.Errorf("stored: %s, and before: %s", after, before)
				}
			})
		})
	}
}

func TestABodyMayTakeAFewSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		agent := r.Pair("laptop").Agent("bot")
		conn := slow(t, r, "POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+agent.Token+"\r\nContent-Length: 13\r\n\r\n")
		for _, c := range `{"title":"x"}` {
			time.Sleep(time.Second)
			if _, err := io.WriteString(conn, string(c)); err != nil {
				t.Fatal(err)
			}
		}
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != 202 {
			t.Fatalf("answer: %v, %v", res, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		time.Sleep(time.Minute) // the deadline of that body must not catch the next request
		go io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+agent.Token+"\r\n\r\n")
		if res, err = http.ReadResponse(in, nil); err != nil || res.StatusCode != 200 {
			t.Fatalf("the next request on the connection: %v, %v", res, err)
		}
	})
}

func TestSlowHeadersAndIdleConnections(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		took time.Duration
	}{
		"a header that stops":         {"GET /health HTTP/1.1\r\nHost: loc", 10 * time.Second},
		"a connection without a word": {"", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := testkit.New(t, testkit.Options{Pipes: true})
				start := time.Now()
				conn := slow(t, r, test.text)
				_, err := io.Copy(io.Discard, conn)
				if took := time.Since(start); err != nil || took != test.took {
					t.Errorf("hung up on after %s (%v), want %s", took, err, test.took)
				}
			})
		})
	}
}

// TestAClientThatReadsNothingIsGivenUp: the answer it does not take holds its connection for three minutes at most.
func TestAClientThatReadsNothingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		conn := slow(t, r, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if data, err := io.ReadAll(conn); err != nil || strings.Contains(string(data), "herald-relay") {
			t.Errorf("after three minutes the connection gives %q, %v", data, err)
		}
	})
}

func TestABodyThatBreaksOffIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		for _, text := range []string{
			"Content-Length: 14\r\n\r\n{\"title\":\"x\"}", // whole JSON, but a byte is missing
			"Transfer-Encoding: chunked\r\n\r\nd\r\n{\"title\":\"x\"}\r\n",
			"Transfer-Encoding: chunked\r\n\r\nd\r\n{\"title\":\"x\"}\r\nzz\r\n",
		} {
			conn := slow(t, r, "POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+agent.Token+"\r\n"+text)
			_ = conn.Close()
			synctest.Wait()
		}
		wantNothingStored(t, d)
	})
}

// TestHeadersThatAreNone: what net/http refuses by itself, before any route is looked for.
func TestHeadersThatAreNone(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	bearer := "Authorization: Bearer " + agent.Token + "\r\n"
	many := strings.Repeat("X-Many: aaaaaaaaaaaaaaaaaaaaaaaa\r\n", 2_000)
	const body = "Content-Length: 13\r\n\r\n{\"title\":\"x\"}"
	tests := map[string]struct {
		request string
		status  []int
	}{
		"a header of 100 KB":           {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\n" + bearer + "X-Big: " + strings.Repeat("a", 100<<10) + "\r\n" + body, []int{431}},
		"a token of 100 KB":            {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + strings.Repeat("a", 100<<10) + "\r\n" + body, []int{431}},
		"two thousand headers":         {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\n" + bearer + many + body, []int{431}},
		"an address of 100 KB":         {"GET /v1/receipts/" + strings.Repeat("a", 100<<10) + " HTTP/1.1\r\nHost: localhost\r\n" + bearer + "\r\n", []int{431}},
		"two lengths":                  {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\n" + bearer + "Content-Length: 12\r\n" + body, []int{400}},
		"a negative length":            {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\n" + bearer + "Content-Length: -1\r\n\r\n", []int{400}},
		"two credentials":              {"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n" + bearer + bearer + "\r\n", []int{401}},
		"two hosts":                    {"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\n" + bearer + "\r\n", []int{400}},
		"no host":                      {"GET /v1/status HTTP/1.1\r\n" + bearer + "\r\n", []int{400}},
		"a space before a colon":       {"GET /v1/status HTTP/1.1\r\nHost : localhost\r\n" + bearer + "\r\n", []int{400}},
		"a NUL in a header":            {"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX-A: a\x00b\r\n" + bearer + "\r\n", []int{400}},
		"an unknown transfer encoding": {"POST /v1/notify HTTP/1.1\r\nHost: localhost\r\n" + bearer + "Transfer-Encoding: gzip, chunked\r\n\r\n", []int{400, 501}},
		"an address of another server": {"GET http://evil.test/health HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{403}},
		"a tunnel":                     {"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", []int{403}},
		"a version that is none":       {"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", []int{400, 505}},
		"no HTTP at all":               {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_, _ = io.WriteString(conn, test.request) // may be cut short by the refusal
			}()
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || !slices.Contains(test.status, res.StatusCode) {
				t.Errorf("answer: %v, %v; want one of %v", res, err, test.status)
			}
			_ = conn.Close()
			<-sent
		})
	}
	wantNothingStored(t, d)
}

// TestWhatIsOddButHarmlessIsServed guards against refusing too much.
func TestWhatIsOddButHarmlessIsServed(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	for _, text := range []string{
		`{"title":"x"}`, " \n\t{\"title\":\"x\"}\r\n ", `{"\u0074itle":"\u0078"}`, `{"title":"x","tags":[],"speak":{}}`, `{"title":"\ud83d\ude00"}`,
	} {
		if a := agent.Call("POST", "/v1/notify", text); a.Status != 202 {
			t.Errorf("%s: %d %s", text, a.Status, a.Raw)
		}
	}
	header := map[string]string{"User-Agent": "Python-urllib/3.13", "Accept": "text/html", "X-Anything": strings.Repeat("a", 20_000), "Accept-Encoding": "gzip, br"}
	for name := range maps.Keys(header) {
		if a := agent.Call("GET", "/v1/status", nil, name, header[name]); a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Raw)
		}
	}
}
