package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

const token = "hrd_d_s"

// pipes is a network of net.Pipe connections, which a bubble understands.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.done) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// peer is the relay's end of one stream.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
}

// hears reads one message.
func (p *peer) hears(want string) {
	p.t.Helper()
	_, got, err := p.conn.Read(p.t.Context())
	if err != nil || string(got) != want {
		p.t.Errorf("the relay heard %s (%v), want %s", got, err, want)
	}
}

func (p *peer) says(text string) {
	p.t.Helper()
	if err := p.conn.Write(p.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		p.t.Errorf("say %s: %v", text, err)
	}
}

// greets is how every stream begins.
func (p *peer) greets() {
	p.t.Helper()
	p.says(`{"type":"welcome","ttlSeconds":86400}`)
	p.hears(`{"type":"hello","quietActive":false,"muted":false}`)
}

// lineTest is a line over pipes to a relay that plays one scene per connection.
type lineTest struct {
	t        *testing.T
	line     *Line
	log      []string // frames and conditions in order
	scenes   []func(p *peer)
	waits    []int                         // what the relay says still waits, each time it is asked; 0 at the end
	refuse   []func(w http.ResponseWriter) // answers instead of streams, before the scenes
	dials    []time.Duration               // since the start
	start    time.Time
	fail     error  // what OnFrame answers to notifications
	onNotify func() // done before that
	accept   websocket.AcceptOptions
}

// run plays the scenes and returns what Run did.
func (l *lineTest) run(ctx context.Context) error {
	l.t.Helper()
	l.start = time.Now()
	network := newPipes()
	var serving sync.WaitGroup
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Add(1)
		defer serving.Done()
		l.serve(w, r)
	})}
	serving.Go(func() { srv.Serve(network) })
	client := &http.Client{Transport: &http.Transport{DialContext: network.dial}}
	r, err := New("http://127.0.0.1", &Options{HTTP: client})
	if err != nil {
		l.t.Fatal(err)
	}
	l.line = r.Device(token).Line(LineOptions{
		OnFrame: func(_ context.Context, f Frame, raw jsontext.Value) error {
			l.log = append(l.log, strings.TrimPrefix(fmt.Sprintf("%T", f), "client."))
			if n, ok := f.(Notified); ok {
				l.log[len(l.log)-1] += " " + n.ID
				if l.onNotify != nil {
					l.onNotify()
				}
				return l.fail
			}
			return nil
		},
		OnCondition: func(c Condition, err error, retry time.Duration) {
			l.log = append(l.log, [...]string{"connecting", "live", "lost"}[c])
		},
		Jitter: func() float64 { return 1 },
	})
	err = l.line.Run(ctx)
	srv.Close()
	serving.Wait()
	client.CloseIdleConnections()
	return err
}

func (l *lineTest) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/device/info" {
		pending := 0
		if len(l.waits) > 0 {
			pending, l.waits = l.waits[0], l.waits[1:]
		}
		fmt.Fprintf(w, `{"online":true,"pending":%d}`, pending)
		return
	}
	l.dials = append(l.dials, time.Since(l.start))
	if r.URL.Path != "/v1/device/stream" || r.Header.Get("Authorization") != "Bearer "+token {
		l.t.Errorf("stream request %s with %q", r.URL, r.Header.Get("Authorization"))
	}
	if len(l.refuse) > 0 {
		no := l.refuse[0]
		l.refuse = l.refuse[1:]
		no(w)
		return
	}
	if len(l.scenes) == 0 {
		l.t.Error("unexpected stream")
		w.WriteHeader(http.StatusUnauthorized) // which ends the line
		return
	}
	scene := l.scenes[0]
	l.scenes = l.scenes[1:]
	conn, err := websocket.Accept(w, r, &l.accept)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer conn.CloseNow()
	scene(&peer{l.t, conn})
}

func refusal(status int, code string, after int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":%q,"message":"m","retryAfterSeconds":%d}`, code, after)
	}
}

func notifyText(id string) string {
	return `{"type":"notify","id":"` + id + `","notificationId":"n","createdAt":"2026-10-05T06:00:00.000Z",` +
		`"key":{"id":"k","name":"bot","client":"claude"},"payload":{"title":"T","expectReply":true}}`
}

func ack(id string) string { return `{"type":"ack","id":"` + id + `"}` }

func bubble(t *testing.T, fn func(t *testing.T, l *lineTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, &lineTest{t: t}) })
}

func unpaired(p *peer) { p.conn.Close(closeUnpaired, "unpaired") }

func TestLineCatchesUpBeforeItIsLive(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		l.waits = []int{1, 1, 1, 1, 1}
		l.scenes = []func(*peer){func(p *peer) {
			p.greets()
			p.says(notifyText("r_1"))
			p.hears(ack("r_1"))
			time.Sleep(time.Second) // a slow relay
			p.says(notifyText("r_2"))
			p.hears(ack("r_2"))
			time.Sleep(20 * time.Second)
			p.says("pong")
			p.says(`{"type":"replied","id":"r_1"}`)
			p.says(`{"type":"weather","id":"c"}`)
			unpaired(p)
		}}
		if err := l.run(t.Context()); !errors.Is(err, ErrUnpaired) {
			t.Errorf("Run = %v, want ErrUnpaired", err)
		}
		want := []string{"connecting", "Welcome", "Notified r_1", "Notified r_2", "live", "Pong", "RepliedElsewhere", "Other"}
		if diff := cmp.Diff(want, l.log); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestLineHandsOverEachNotificationOnceAndAcknowledgesAgain(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		l.scenes = []func(*peer){
			func(p *peer) {
				p.greets()
				p.says(notifyText("r_1"))
				p.hears(ack("r_1"))
			}, // breaks
			func(p *peer) {
				p.greets()
				p.hears(ack("r_1")) // said shortly before the break, so it is in doubt
				p.says(notifyText("r_1"))
				p.says(notifyText("r_2"))
				p.hears(ack("r_1"))
				p.hears(ack("r_2"))
				p.conn.Close(closeReplaced, "replaced")
			},
		}
		if err := l.run(t.Context()); !errors.Is(err, ErrReplaced) {
			t.Errorf("Run = %v, want ErrReplaced", err)
		}
		want := []string{"connecting", "Welcome", "Notified r_1", "lost", "connecting", "Welcome", "Notified r_2"}
		if diff := cmp.Diff(want, l.log); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestLineSaysWhatWasReportedWhileItWasDown(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		l.scenes = []func(*peer){
			func(p *peer) {
				p.greets()
				go func() {
					time.Sleep(time.Second) // the line is down by now
					l.line.Report(Report{ID: "r_1", Kind: Displayed})
					l.line.StateChanged()
				}()
			},
			func(p *peer) {
				p.greets()
				p.hears(`{"type":"receipt","id":"r_1","kind":"displayed"}`)
				p.hears(`{"type":"status","quietActive":false,"muted":false}`)
				unpaired(p)
			},
		}
		l.run(t.Context())
	})
}

func TestLineSaysItsLastWordsWhenItIsPutDown(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan string, 1)
		l.scenes = []func(*peer){func(p *peer) {
			p.greets()
			p.says(notifyText("r_1"))
			p.hears(ack("r_1"))
			go func() {
				l.line.Report(Report{ID: "r_1", Kind: Displayed})
				cancel()
			}()
			_, text, _ := p.conn.Read(t.Context())
			heard <- string(text)
			_, _, err := p.conn.Read(t.Context())
			if got := websocket.CloseStatus(err); got != websocket.StatusNormalClosure {
				t.Errorf("close = %v (%v), want a normal one", got, err)
			}
		}}
		if err := l.run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
		if got := <-heard; got != `{"type":"receipt","id":"r_1","kind":"displayed"}` {
			t.Errorf("last words = %s", got)
		}
	})
}

func TestLinePutDownByItsOwnerStillAcknowledges(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		ctx, cancel := context.WithCancel(t.Context())
		l.onNotify = func() {
			cancel()
			for range 1000 {
				runtime.Gosched() // long enough for a hasty farewell
			}
		}
		l.scenes = []func(*peer){func(p *peer) {
			p.greets()
			p.says(notifyText("r_1"))
			p.says(notifyText("r_2"))
			p.hears(ack("r_1"))
			if _, text, err := p.conn.Read(t.Context()); err == nil {
				t.Errorf("the farewell was followed by %s", text)
			}
		}}
		if err := l.run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
		if got := strings.Join(l.log, " "); strings.Contains(got, "r_2") {
			t.Errorf("log = %s", got)
		}
	})
}

func TestLinePingsEveryFiveMinutesAndKeepsProxiesAwake(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		protocolPings := 0
		l.scenes = []func(*peer){func(p *peer) {
			p.greets()
			start := time.Now()
			for n := 1; n <= 3; n++ {
				p.hears("ping")
				if got := time.Since(start).Round(time.Second); got != time.Duration(n)*PingEvery {
					t.Errorf("ping %d after %v", n, got)
				}
			}
			unpaired(p)
		}}
		l.accept.OnPingReceived = func(context.Context, []byte) bool { protocolPings++; return true }
		l.run(t.Context())
		if protocolPings < 15 || protocolPings > 18 {
			t.Errorf("%d protocol pings in a quarter of an hour, want one each %v", protocolPings, keepAlive)
		}
	})
}

func TestLineNoticesADeadPeer(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		l.scenes = []func(*peer){
			func(p *peer) {
				p.greets()
				time.Sleep(10 * time.Minute) // neither reads nor closes
			},
			func(p *peer) { p.greets(); unpaired(p) },
		}
		l.run(t.Context())
		if len(l.dials) != 2 || l.dials[1] > 2*time.Minute {
			t.Errorf("dials at %v, want a second one within two minutes", l.dials)
		}
	})
}

func TestLineEndsWhenTheRelayMayNotBeAskedAgain(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
	}{{401, "unauthorized"}, {403, "wrong_credential"}, {404, "not_found"}, {426, "upgrade_required"}} {
		bubble(t, func(t *testing.T, l *lineTest) {
			l.refuse = []func(http.ResponseWriter){refusal(c.status, c.code, 0)}
			if err := l.run(t.Context()); Code(err) != c.code {
				t.Errorf("Run = %v, want %s", err, c.code)
			}
		})
	}
}

func TestLineSaysWhenSomethingSwallowsTheUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		l.refuse = []func(http.ResponseWriter){func(w http.ResponseWriter) { fmt.Fprint(w, "hello") }}
		if err := l.run(t.Context()); err == nil || !strings.Contains(err.Error(), "does not let WebSockets through") {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestLineComesBackWithGrowingDelays(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		busy := refusal(503, "internal", 0)
		l.refuse = []func(http.ResponseWriter){busy, busy, busy, busy, busy, busy, busy, refusal(429, "rate_limited", 90), refusal(429, "rate_limited", 90000)}
		l.scenes = []func(*peer){unpaired}
		l.run(t.Context())
		var gaps []time.Duration
		for i := 1; i < len(l.dials); i++ {
			gaps = append(gaps, (l.dials[i] - l.dials[i-1]).Round(time.Second))
		}
		s := time.Second
		want := []time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 90 * s, 300 * s}
		if diff := cmp.Diff(want, gaps); diff != "" {
			t.Errorf("gaps between dials (-want +got):\n%s", diff)
		}
	})
}

func TestLineOnceUpBelievesThatErrorsPass(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		l.scenes = []func(*peer){
			func(p *peer) {
				p.greets()
				l.refuse = []func(http.ResponseWriter){refusal(404, "", 0), refusal(502, "", 0)}
			},
			unpaired,
		}
		if err := l.run(t.Context()); !errors.Is(err, ErrUnpaired) || len(l.dials) != 4 {
			t.Errorf("Run = %v after %d dials", err, len(l.dials))
		}
	})
}

func TestLineReportsWhatItCannotRead(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		l.scenes = []func(*peer){func(p *peer) {
			p.greets()
			p.says(`{"type":"notify","id":"r_1","payload":{"title":7}}`)
			p.says(`not JSON`)
			p.says(`{"type":"notify"}`)
			p.conn.Write(t.Context(), websocket.MessageBinary, []byte("x"))
			p.hears(`{"type":"receipt","id":"r_1","kind":"suppressed","reason":"delivery-failed"}`)
			unpaired(p)
		}}
		l.run(t.Context())
		if slices.ContainsFunc(l.log, func(s string) bool { return strings.HasPrefix(s, "Notified") }) {
			t.Errorf("log = %q", l.log)
		}
	})
}

func TestLineEndsWhenItsOwnerFails(t *testing.T) {
	bubble(t, func(t *testing.T, l *lineTest) {
		broken := errors.New("standard output is closed")
		l.fail = broken
		l.scenes = []func(*peer){func(p *peer) {
			p.greets()
			p.says(notifyText("r_1"))
			if _, text, err := p.conn.Read(t.Context()); err == nil {
				t.Errorf("an unshown notification was followed by %s", text)
			}
		}}
		if err := l.run(t.Context()); !errors.Is(err, broken) {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestOutboxIsBounded(t *testing.T) {
	o := newOutbox()
	now := time.Now()
	for i := range 2 * maxOutbox {
		o.add(jsontext.Value(fmt.Sprintf("%d", i)))
	}
	first, _ := o.next()
	if string(first) != fmt.Sprint(maxOutbox) {
		t.Errorf("oldest kept = %s, want %d", first, maxOutbox)
	}
	n := 0
	for text, ok := o.next(); ok; text, ok = o.next() {
		o.wrote(text, now)
		n++
	}
	if n != maxOutbox {
		t.Errorf("%d messages, want %d", n, maxOutbox)
	}
	o.restart(now.Add(doubtFor))
	if text, _ := o.next(); string(text) != fmt.Sprint(maxOutbox) {
		t.Errorf("after a restart the first is %s", text)
	}
	for text, ok := o.next(); ok; text, ok = o.next() {
		o.wrote(text, now)
	}
	if o.restart(now.Add(doubtFor + time.Second)); len(o.waiting) != 0 {
		t.Errorf("%d messages past doubt are said again", len(o.waiting))
	}
}

func TestRecentIsBounded(t *testing.T) {
	r := newRecent(3)
	for _, id := range []string{"a", "b", "a", "c", "d"} {
		r.add(id)
	}
	if r.has("a") || !r.has("b") || !r.has("c") || !r.has("d") || len(r.ids) > 3 {
		t.Errorf("ids = %v", r.ids)
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, s := range []string{"pong", "ping", notifyText("r_1"), `{"type":"welcome","ttlSeconds":1}`, `{"type":"replied","id":"x"}`,
		`{"type":"notify","id":"r_1","payload":{"speak":[]}}`, `{"type":"x","type":"y"}`, `{}`, `[]`, ``, `{"type":"notify","payload":{"extra":1e999}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		frame, err := ReadFrame(text)
		if err != nil {
			return
		}
		if frame == nil {
			t.Fatal("neither frame nor error")
		}
		if n, ok := frame.(Notified); ok && n.ID == "" {
			t.Error("a notification without an id")
		}
	})
}
