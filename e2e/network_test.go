package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
)

// bad is a client on a bad network, or with bad intent.
type bad struct {
	send   string        // at once
	drip   string        // then a byte a second
	status int           // of the answer; 0 when the connection just ends
	within time.Duration // until the relay has closed the connection
}

// TestBadNetworksAreBoundedAndHurtNobodyElse has clients send a byte a second, half a request, or nothing, and 200
// connections of the last kind at once, while an agent and a device go on.
func TestBadNetworksAreBoundedAndHurtNobodyElse(t *testing.T) {
	t.Parallel()
	s := serveWatched(t, t.TempDir(), plenty...)
	laptop := s.relay().Pair("laptop")
	agent := laptop.Agent("bot")
	stream := laptop.Stream()
	before := s.numbers()

	auth := "Authorization: Bearer " + agent.Token + "\r\n"
	post := func(header string) string {
		return "POST /v1/notify HTTP/1.1\r\nHost: " + strings.TrimPrefix(s.URL, "http://") + "\r\nContent-Type: application/json\r\n" + header + "\r\n"
	}
	endless := strings.Repeat("a", 1000)
	// The relay allows 10 seconds for a header and 15 for a body.
	const slack = 5 * time.Second
	header, body := 10*time.Second+slack, 15*time.Second+slack
	tests := map[string]bad{
		"a byte of a request a second":         {drip: post("X: " + endless), within: header},
		"half a request line":                  {send: "POST /v1/noti", within: header},
		"half a header":                        {send: strings.TrimSuffix(post(auth), "\r\n"), within: header},
		"a byte of a body a second":            {send: post(auth + "Content-Length: 1000\r\n"), drip: `{"title":"` + endless, status: 400, within: body},
		"half a body":                          {send: post(auth+"Content-Length: 1000\r\n") + `{"title":"`, status: 400, within: body},
		"half a chunk":                         {send: post(auth+"Transfer-Encoding: chunked\r\n") + "400\r\n{", status: 400, within: body},
		"a chunk size that never ends":         {send: post(auth + "Transfer-Encoding: chunked\r\n"), drip: strings.Repeat("0", 1000), status: 400, within: body},
		"half a body without a credential":     {send: post("Content-Length: 1000\r\n") + `{"title":"`, status: 401, within: body},
		"half a body where there is nothing":   {send: strings.Replace(post("Content-Length: 1000\r\n"), "/v1/notify", "/nothing", 1) + "x", status: 404, within: body},
		"a declared body that is far too long": {send: post(auth + "Content-Length: 104857600\r\n"), drip: endless, status: 413, within: body},
		"half an upgrade":                      {send: "GET /v1/device/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: ", within: header},
		"an upgrade without a credential":      {send: "GET /v1/device/stream HTTP/1.1\r\nHost: " + strings.TrimPrefix(s.URL, "http://") + "\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n\r\n", status: 401, within: slack},
		"a header that is far too long":        {send: post("X: " + strings.Repeat(endless, 100)), status: 431, within: header},
		"no HTTP at all":                       {send: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", within: header},
	}
	var all sync.WaitGroup
	for name, client := range tests {
		all.Go(func() { client.run(s, name) })
	}
	for i := range 200 {
		all.Go(func() { bad{within: header}.run(s, fmt.Sprint("silent connection ", i)) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	rounds, slowest := goOn(agent, stream, done)
	t.Logf("%d rounds meanwhile, the slowest took %s", rounds, slowest)
	if slowest > 3*time.Second {
		t.Errorf("others had to wait: the slowest round took %s", slowest)
	}
	s.settles(before, 5*time.Second)
	s.stop(10 * time.Second)
}

// goOn goes round the main loop until done, and returns how often and how long the slowest round took.
func goOn(agent *testkit.Agent, stream *testkit.Stream, done <-chan struct{}) (rounds int, slowest time.Duration) {
	for {
		select {
		case <-done:
			return rounds, slowest
		case <-time.After(50 * time.Millisecond):
		}
		begin := time.Now()
		agent.Send(map[string]any{"title": "t"})
		f := stream.Next()
		stream.Send(testkit.Frame{"type": "ack", "id": f["id"]})
		slowest, rounds = max(slowest, time.Since(begin)), rounds+1
	}
}

// run plays the client and holds the relay to its answer and its time.
func (b bad) run(s *server, name string) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		s.t.Errorf("%s: %v", name, err)
		return
	}
	defer conn.Close()
	begin := time.Now()
	_ = conn.SetDeadline(begin.Add(b.within + 30*time.Second))
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	if _, err := io.WriteString(conn, b.send); err != nil && b.status == 0 {
		s.t.Errorf("%s: %v", name, err)
	}
	go b.dripOn(ctx, conn)

	in := bufio.NewReader(conn)
	status := 0
	if res, err := http.ReadResponse(in, nil); err == nil {
		status = res.StatusCode
		_, _ = io.Copy(io.Discard, res.Body)
	}
	if b.status != 0 && status != b.status {
		s.t.Errorf("%s: answered %d after %s, want %d", name, status, time.Since(begin), b.status)
	}
	if b.status == 0 && status != 0 && (status < 400 || status >= 500) {
		s.t.Errorf("%s: answered %d", name, status)
	}
	_, _ = io.Copy(io.Discard, in) // until the relay closes
	if took := time.Since(begin); took > b.within {
		s.t.Errorf("%s: the connection stayed for %s, want at most %s", name, took, b.within)
	}
}

func (b bad) dripOn(ctx context.Context, conn net.Conn) {
	for i := range len(b.drip) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if _, err := conn.Write([]byte{b.drip[i]}); err != nil {
			return
		}
	}
}

// TestADeviceThatStopsInTheMiddleOfAFrameIsReplaced leaves a frame unfinished and comes back on another connection.
func TestADeviceThatStopsInTheMiddleOfAFrameIsReplaced(t *testing.T) {
	t.Parallel()
	s := serveWatched(t, t.TempDir(), plenty...)
	laptop := s.relay().Pair("laptop")
	first := laptop.Stream()
	before := s.numbers()
	for range 20 {
		half(t, s, laptop.Token)
	}
	laptop.Stream()
	if code := first.Closed(); code != 4000 {
		t.Errorf("the first stream closed with %d, want 4000", code)
	}
	s.settles(before, 8*time.Second)
	s.stop(10 * time.Second)
}

// half opens a stream by hand and sends the beginning of a long text frame.
func half(t *testing.T, s *server, token string) {
	t.Helper()
	host := strings.TrimPrefix(s.URL, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET /v1/device/stream HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", host, token)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v %v", res, err)
	}
	// A final text frame of 4096 masked bytes, of which ten come.
	if _, err := conn.Write(append([]byte{0x81, 0x80 | 126, 0x10, 0x00, 1, 2, 3, 4}, "0123456789"...)); err != nil {
		t.Fatal(err)
	}
}
