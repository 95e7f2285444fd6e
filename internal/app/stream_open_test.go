package app_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/testkit"
)

// handshake is what turns a request for the stream's route into an upgrade, as the reference page has it.
var handshake = []string{
	"Connection", "Upgrade", "Upgrade", "websocket",
	"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
}

func TestTheStreamsRouteRefusesInOrder(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	forged := strings.Replace(d.Token, d.Mailbox, strings.Repeat("0", 48), 1)
	unknown := d.Token[:len(d.Token)-64] + strings.Repeat("0", 64)
	with := func(name, value string) []string {
		out := append([]string(nil), handshake...)
		for i := 0; i < len(out); i += 2 {
			if out[i] == name {
				out[i+1] = value
			}
		}
		return out
	}
	tests := []struct {
		name, token string
		header      []string
		status      int
		code        string
	}{
		{"no credential, no upgrade", "", nil, 401, "unauthorized"},
		{"no credential", "", handshake, 401, "unauthorized"},
		{"a malformed token, no upgrade", "hrd_x", nil, 401, "unauthorized"},
		{"a forged mailbox", forged, handshake, 401, "unauthorized"},
		{"an unknown secret", unknown, handshake, 401, "unauthorized"},
		{"an agent key without an upgrade (decision 36)", agent.Token, nil, 403, "wrong_credential"},
		{"an agent key", agent.Token, handshake, 403, "wrong_credential"},
		{"an access token", "hra_" + d.Mailbox + "_" + strings.Repeat("0", 64), handshake, 403, "wrong_credential"},
		{"a device without an upgrade", d.Token, nil, 426, "upgrade_required"},
		{"Upgrade without Connection", d.Token, with("Connection", "keep-alive"), 426, "upgrade_required"},
		{"another protocol", d.Token, with("Upgrade", "h2c"), 426, "upgrade_required"},
		{"another version", d.Token, with("Sec-WebSocket-Version", "8"), 426, "upgrade_required"},
		{"a key that is none", d.Token, with("Sec-WebSocket-Key", "c2hvcnQ="), 400, "invalid_request"},
		{"no key", d.Token, with("Sec-WebSocket-Key", ""), 400, "invalid_request"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := r.Do("GET", "/v1/device/stream", test.token, nil, test.header...)
			devRefused(t, a, test.status, test.code)
			if test.status == 426 && a.Header.Get("Upgrade") != "websocket" {
				t.Errorf("426 does not name the protocol: %v", a.Header)
			}
			if test.name == "another version" && a.Header.Get("Sec-WebSocket-Version") != "13" {
				t.Errorf("the version that is spoken is not named: %v", a.Header)
			}
		})
	}
}

func TestARefusedHandshakeLeavesTheOpenStreamAlone(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	s := d.Stream()
	d.Call("GET", "/v1/device/stream", nil)
	d.Call("GET", "/v1/device/stream", nil, append(append([]string(nil), handshake...), "Sec-WebSocket-Key", "no")...)
	devSettle(s)
	links := d.Call("GET", "/v1/device/links", nil)
	devMatch(t, "links", links.Raw, `{"links":[{"id":"<hex16>","name":"laptop","owner":true,"online":true,"lastSeenAt":"<time>","createdAt":"<time>","thisDevice":true}]}`)
}

// rawStream speaks the handshake by hand and returns the connection behind it. early is sent right behind the request.
func rawStream(t *testing.T, r *testkit.Relay, token, early string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	var req strings.Builder
	fmt.Fprintf(&req, "GET /v1/device/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n", token)
	for i := 0; i < len(handshake); i += 2 {
		fmt.Fprintf(&req, "%s: %s\r\n", handshake[i], handshake[i+1])
	}
	if _, err := io.WriteString(conn, req.String()+"\r\n"+early); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	return conn, br, res
}

// rawMessage reads one unmasked, unfragmented text message.
func rawMessage(t *testing.T, br *bufio.Reader) string {
	t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		t.Fatal(err)
	}
	if head[0] != 0x81 {
		t.Fatalf("message begins with %#x, want one whole text message", head[0])
	}
	size := int(head[1])
	if size == 126 {
		var more [2]byte
		if _, err := io.ReadFull(br, more[:]); err != nil {
			t.Fatal(err)
		}
		size = int(binary.BigEndian.Uint16(more[:]))
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(br, data); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// masked is a text message as a client sends it, with the mask 0.
func masked(text string) string {
	if len(text) < 126 {
		return string([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}) + text
	}
	return string([]byte{0x81, 0x80 | 126, byte(len(text) >> 8), byte(len(text)), 0, 0, 0, 0}) + text
}

func TestTheStreamOpensAsTheReferencePageShows(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	_, br, res := rawStream(t, r, d.Token, "")
	if res.Status != "101 Switching Protocols" {
		t.Errorf("status = %s", res.Status)
	}
	if got := res.Header.Get("Sec-WebSocket-Accept"); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Errorf("Sec-WebSocket-Accept = %q, want the one of RFC 6455's example", got)
	}
	if got := res.Header.Get("Sec-WebSocket-Extensions"); got != "" {
		t.Errorf("the relay agreed to %q", got)
	}
	devMatch(t, "first message", []byte(rawMessage(t, br)), `{"type":"welcome","ttlSeconds":86400}`)
}

// A client should wait for the 101. One that does not must not have its bytes mixed up.
func TestWhatIsSentRightBehindTheHandshakeArrivesWhole(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	for _, size := range []int{1, 400, 600, 3000} {
		early := masked(`{"type":"status","muted":true,"filler":"`+strings.Repeat("x", size)+`"}`) + masked("ping")
		_, br, _ := rawStream(t, r, d.Token, early)
		rawMessage(t, br) // welcome
		if got := rawMessage(t, br); got != "pong" {
			t.Errorf("%d bytes early: answer = %q, want pong", size, got)
		}
	}
	if got := devUsage(d, "wsMessages"); got != 4 {
		t.Errorf("wsMessages = %d, want the 4 that were sent early", got)
	}
}

func TestTheWelcomeTellsTheConfiguredWaitingTime(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.QueueTTL = 90 * time.Minute }})
	s, err := r.Pair("laptop").Dial()
	if err != nil {
		t.Fatal(err)
	}
	devMatch(t, "welcome", []byte(devRaw(s)), `{"type":"welcome","ttlSeconds":5400}`)
}

func TestANotificationArrivesWithItsSenderAndPayload(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	made := d.Call("POST", "/v1/device/keys", map[string]any{"name": "build-bot", "client": "claude"})
	agent := &testkit.Agent{Relay: r, ID: made.Text("id"), Token: made.Text("key")}
	s := d.Stream()
	agent.Send(map[string]any{"title": " Ship <it>? ", "notificationId": "build-1", "speak": "go", "expectReply": true})
	devMatch(t, "frame", []byte(devRaw(s)), `{"type":"notify","id":"<r>","notificationId":"build-1","createdAt":"<time>",`+
		`"key":{"id":"`+agent.ID+`","name":"build-bot","client":"claude"},`+
		`"payload":{"title":"Ship <it>?","notificationId":"build-1","speak":{"text":"go"},"expectReply":true}}`)
	agent.Send(map[string]any{"title": "x"})
	devMatch(t, "frame", []byte(devRaw(s)), `{"type":"notify","id":"<r>","notificationId":"<n>","createdAt":"<time>",`+
		`"key":{"id":"`+agent.ID+`","name":"build-bot","client":"claude"},"payload":{"title":"x","expectReply":false}}`)
}

func TestOnConnectEverythingThatWaitsComesInOrderBehindTheWelcome(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agents := []*testkit.Agent{d.Agent("one"), d.Agent("two")}
	var want []string
	for i := range 9 { // more than the stream takes from the store at a time
		want = append(want, agents[i%2].Send(map[string]any{"title": fmt.Sprint(i)}))
	}
	s := d.Stream()
	for i, id := range want {
		if f := s.Next(); f.Text("notificationId") != id {
			t.Fatalf("place %d holds %v, want %s", i, f, id)
		}
	}
	devSettle(s)

	again := d.Stream()
	for i, id := range want {
		if f := again.Next(); f.Text("notificationId") != id {
			t.Fatalf("on the next stream place %d holds %v, want %s", i, f, id)
		}
	}
}

func TestOnlyWhatIsStillUnknownIsSentAgain(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	s := d.Stream()
	ids := map[string]string{}
	for _, what := range []string{"untouched", "acked", "displayed", "spoken", "replied", "suppressed", "held speech", "untouched too"} {
		agent.Send(map[string]any{"title": what, "notificationId": strings.ReplaceAll(what, " ", "-")})
		ids[what] = s.Next().Text("id")
	}
	s.Send(testkit.Frame{"type": "ack", "id": ids["acked"]})
	for _, kind := range []string{"displayed", "spoken", "suppressed"} {
		s.Send(testkit.Frame{"type": "receipt", "id": ids[kind], "kind": kind})
	}
	s.Send(testkit.Frame{"type": "receipt", "id": ids["replied"], "kind": "replied", "text": "yes"})
	s.Send(testkit.Frame{"type": "receipt", "id": ids["held speech"], "kind": "suppressed", "scope": "speech"})
	devSettle(s)

	next := d.Stream()
	for _, want := range []string{"untouched", "untouched-too"} {
		if f := next.Next(); f.Text("notificationId") != want {
			t.Errorf("sent again: %v, want %s", f, want)
		}
	}
	devSettle(next)
}

// Case 74 of the public cases: what is sent while the stream is down comes on the next one, once and in order.
func TestCase074NothingSentInAGapIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	s := d.Stream()
	_, before := devNotified(agent, s)
	s.Send(testkit.Frame{"type": "ack", "id": before})
	devSettle(s)
	s.Conn.CloseNow()
	var want []string
	for range 3 {
		want = append(want, agent.Send(map[string]any{"title": "in the gap"}))
	}
	s = d.Stream()
	for _, id := range want {
		f := s.Next()
		if f.Text("notificationId") != id {
			t.Fatalf("frame = %v, want %s", f, id)
		}
		s.Send(testkit.Frame{"type": "ack", "id": f["id"]})
	}
	devSettle(s)
	devSettle(d.Stream())
}

func TestOnlineIsForElevenMinutesAfterTheLastSignOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		online := func(want bool) {
			t.Helper()
			for who, a := range map[string]testkit.Answer{
				"agent": agent.Call("GET", "/v1/status", nil), "device": d.Call("GET", "/v1/device/info", nil),
			} {
				if a.Body["online"] != want {
					t.Errorf("%s: online = %v, want %v: %s", who, a.Body["online"], want, a.Raw)
				}
			}
		}
		online(false)
		s := d.Stream()
		online(true)
		time.Sleep(11*time.Minute - time.Second)
		online(true)
		time.Sleep(2 * time.Second)
		online(false)
		seen := time.Now()
		s.Text("ping")
		devRaw(s)
		online(true)
		if got := agent.Call("GET", "/v1/status", nil).Text("lastSeenAt"); got != seen.UTC().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("lastSeenAt = %s, want the ping's time", got)
		}
		time.Sleep(10 * time.Minute)
		s.Send(testkit.Frame{"type": "nothing that is known"})
		time.Sleep(10 * time.Minute)
		online(true) // any JSON message is a sign of life
		s.Text("ping ")
		if err := s.Conn.Write(t.Context(), websocket.MessageBinary, []byte("ping")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		online(false) // what is ignored is none
		s.Text("ping")
		devRaw(s)
		s.Conn.CloseNow()
		synctest.Wait()
		online(false) // a closed stream is not online, however fresh
	})
}
