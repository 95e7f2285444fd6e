package listen

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/cli/desk"
	"github.com/herald-relay/herald/internal/cli/quiet"
	"github.com/herald-relay/herald/internal/cli/voice"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/testkit"
)

// screenful collects what a person would see.
type screenful struct {
	mu   sync.Mutex
	text bytes.Buffer
	err  error
}

func (s *screenful) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return s.text.Write(p)
}

func (s *screenful) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// scene is a relay with a listening terminal, in a bubble.
type scene struct {
	t      *testing.T
	relay  *testkit.Relay
	device *testkit.Device
	agent  *testkit.Agent
	out    *screenful
	in     *io.PipeWriter // standard input of the listener
	desk   *desk.Desk
	cancel context.CancelFunc
	ended  chan error
}

// listening starts a listener and waits until it is live. set may adjust its options.
func listening(t *testing.T, set func(*Options)) *scene {
	t.Helper()
	r := testkit.New(t, testkit.Options{Pipes: true})
	s := &scene{t: t, relay: r, device: r.Pair("desk"), out: &screenful{}, desk: new(desk.Desk)}
	s.agent = s.device.Agent("build-bot")
	s.start(set)
	return s
}

func (s *scene) start(set func(*Options)) {
	s.t.Helper()
	in, feed := io.Pipe()
	s.in = feed
	opt := Options{Device: s.client().Device(s.device.Token), Out: s.out, Err: s.out, Piped: in}
	if set != nil {
		set(&opt)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	s.cancel, s.ended = cancel, make(chan error, 1)
	ended := s.ended
	go func() { ended <- New(opt, s.desk).Run(ctx) }()
	s.t.Cleanup(func() { s.stop() })
	time.Sleep(time.Second)
	synctest.Wait()
}

func (s *scene) client() *client.Relay {
	s.t.Helper()
	r, err := client.New(s.relay.URL, &client.Options{HTTP: s.relay.HTTP})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// stop ends the listener and returns how it ended.
func (s *scene) stop() error {
	s.cancel()
	s.in.Close()
	select {
	case err := <-s.ended:
		s.ended <- err
		return err
	case <-time.After(time.Minute):
		s.t.Error("the listener did not end")
		return nil
	}
}

func (s *scene) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func (s *scene) types(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(s.in, line+"\n"); err != nil {
			s.t.Fatal(err)
		}
	}
	s.settle()
}

func (s *scene) shows(want ...string) {
	s.t.Helper()
	got := s.out.String()
	for _, w := range want {
		if !strings.Contains(got, w) {
			s.t.Errorf("the screen lacks %q:\n%s", w, got)
		}
	}
}

func (s *scene) hides(unwanted ...string) {
	s.t.Helper()
	got := s.out.String()
	for _, w := range unwanted {
		if strings.Contains(got, w) {
			s.t.Errorf("the screen shows %q:\n%s", w, got)
		}
	}
}

// receipt asks what the agent knows of a notification.
func (s *scene) receipt(id string) map[string]any {
	s.t.Helper()
	return s.agent.Call("GET", "/v1/receipts/"+id, nil).Body
}

func (s *scene) facts(id string, want map[string]any) {
	s.t.Helper()
	got := s.receipt(id)
	for k, v := range want {
		if got[k] != v {
			s.t.Errorf("receipt.%s = %v, want %v: %v", k, got[k], v, got)
		}
	}
}

func ask(title string) map[string]any { return map[string]any{"title": title, "expectReply": true} }

func TestAnAnswerOnStandardInputReachesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		s.shows("live: waiting")
		id := s.agent.Send(map[string]any{"title": "Ship it?", "body": "All tests pass.", "project": "shop", "expectReply": true})
		s.settle()
		s.shows("#1", "build-bot", "shop", "Ship it?", "All tests pass.")
		s.facts(id, map[string]any{"displayed": true, "replied": false, "queued": false, "spoken": false})
		s.types(" yes, go ")
		s.facts(id, map[string]any{"replied": true, "reply": "yes, go"})
		s.shows("answered #1")
	})
}

func TestPipedLinesWaitForTheirQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		go io.WriteString(s.in, "first\nsecond\n") // before any question
		s.settle()
		s.agent.Send(map[string]any{"title": "just so you know"})
		one := s.agent.Send(ask("one"))
		s.settle()
		two := s.agent.Send(ask("two"))
		s.settle()
		s.facts(one, map[string]any{"reply": "first"})
		s.facts(two, map[string]any{"reply": "second"})
	})
}

func TestAPipedLineMayNameItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		one, two := s.agent.Send(ask("one")), s.agent.Send(ask("two"))
		s.settle()
		s.types("#2 for two", "#7 for nobody", "##1 for one")
		s.facts(two, map[string]any{"reply": "for two"})
		s.facts(one, map[string]any{"reply": "#1 for one"})
		s.shows("#7 is not here")
	})
}

// Public case 74: what is sent while the device is away comes once and in order.
func TestCase074WhatWaitedIsShownOnceAndBeforeLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		s.stop()
		for _, title := range []string{"first", "second", "third"} {
			s.agent.Send(map[string]any{"title": title})
		}
		s.out = &screenful{}
		s.start(nil)
		s.settle()
		got := s.out.String()
		last := -1
		for _, title := range []string{"first", "second", "third", "live: waiting"} {
			at := strings.Index(got, title)
			if at < last || at < 0 || strings.Count(got, title) != 1 {
				t.Errorf("%q is at %d, after %d:\n%s", title, at, last, got)
			}
			last = at
		}
	})
}

func TestAnAnswerElsewhereIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		phone := s.device.Link("phone")
		id := s.agent.Send(ask("Ship it?"))
		s.settle()
		phone.Call("POST", "/v1/device/reply", map[string]any{"id": s.desk.Open()[0].ID, "text": "from the phone"})
		s.settle()
		s.shows("#1 was answered on ")
		go io.WriteString(s.in, "too late\n") // waits: no question is open
		s.settle()
		s.facts(id, map[string]any{"reply": "from the phone"})
	})
}

// Public case 67: of two answers one wins, and the loser sees it.
func TestCase067TheLoserOfTwoAnswersIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		phone := s.device.Link("phone")
		id := s.agent.Send(ask("Ship it?"))
		s.settle()
		go phone.Call("POST", "/v1/device/reply", map[string]any{"id": s.desk.Open()[0].ID, "text": "from the phone"})
		s.types("from the desk")
		switch reply := s.receipt(id)["reply"]; reply {
		case "from the phone":
			s.shows("that answer counts")
		case "from the desk":
			s.hides("that answer counts", "on another device")
		default:
			t.Errorf("reply = %v", reply)
		}
	})
}

func TestItsOwnAnswerIsNotTakenForAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		s.agent.Send(ask("Ship it?"))
		s.settle()
		s.types("yes")
		s.shows("answered #1")
		s.hides("was answered on")
	})
}

func TestMutedMeansSuppressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, func(o *Options) { o.Wishes.Muted = true })
		id := s.agent.Send(map[string]any{"title": "psst", "priority": "urgent", "speak": true})
		s.settle()
		s.facts(id, map[string]any{"suppressed": true, "reason": "muted", "suppressedScope": "all", "displayed": false, "spoken": false})
		s.hides("psst")
		s.shows("held back a notification from build-bot (muted)")
	})
}

func hours(t *testing.T, window string) quiet.Hours {
	t.Helper()
	h, err := quiet.Parse(window, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestQuietHoursAreToldAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a bubble begins at midnight UTC
		s := listening(t, func(o *Options) { o.Wishes = Wishes{Hours: hours(t, "00:00-01:00"), UrgentRings: true} })
		status := s.agent.Call("GET", "/v1/status", nil)
		if q, _ := status.Body["quietHours"].(map[string]any); q["active"] != true || q["until"] != "2000-01-01T01:00:00Z" {
			t.Errorf("status = %s", status.Raw)
		}
		held := s.agent.Send(map[string]any{"title": "held"})
		rings := s.agent.Send(map[string]any{"title": "rings", "priority": "urgent"})
		s.settle()
		s.facts(held, map[string]any{"suppressed": true, "reason": "quiet-hours", "suppressedScope": "all", "displayed": false})
		s.facts(rings, map[string]any{"suppressed": false, "displayed": true})
		time.Sleep(time.Hour)
		s.settle()
		s.shows("quiet hours: off")
		status = s.agent.Call("GET", "/v1/status", nil)
		if q, _ := status.Body["quietHours"].(map[string]any); q["active"] != false {
			t.Errorf("status an hour later = %s", status.Raw)
		}
		shown := s.agent.Send(map[string]any{"title": "shown"})
		s.settle()
		s.facts(shown, map[string]any{"suppressed": false, "displayed": true})
	})
}

// mouth speaks in virtual time, or fails.
type mouth struct {
	mu   sync.Mutex
	said []voice.Utterance
	err  error
}

func (m *mouth) Say(ctx context.Context, u voice.Utterance) error {
	m.mu.Lock()
	m.said = append(m.said, u)
	err := m.err
	m.mu.Unlock()
	select {
	case <-time.After(10 * time.Second):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestSpokenIsReportedWhenSpeechEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mouth{}
		s := listening(t, func(o *Options) { o.Speaker = m })
		id := s.agent.Send(map[string]any{"title": "T", "body": "B", "speak": true, "speed": 1.5})
		silent := s.agent.Send(map[string]any{"title": "silent", "speak": false, "presentation": "voice"})
		s.settle()
		s.facts(id, map[string]any{"displayed": true, "spoken": false})
		time.Sleep(10 * time.Second)
		s.settle()
		s.facts(id, map[string]any{"displayed": true, "spoken": true})
		s.facts(silent, map[string]any{"displayed": true, "spoken": false})
		if len(m.said) != 1 || m.said[0] != (voice.Utterance{Text: "T.\nB", Speed: 1.5}) {
			t.Errorf("said %+v", m.said)
		}
		m.err = errors.New("no sound card")
		id = s.agent.Send(map[string]any{"title": "T", "speak": "words"})
		time.Sleep(time.Minute)
		s.facts(id, map[string]any{"displayed": true, "spoken": false})
	})
}

func TestQuietHoursMayHoldSpeechOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mouth{}
		s := listening(t, func(o *Options) {
			o.Speaker, o.Wishes = m, Wishes{Hours: hours(t, "00:00-01:00"), QuietSpeech: true}
		})
		id := s.agent.Send(map[string]any{"title": "T", "speak": true, "expectReply": true})
		s.settle()
		s.facts(id, map[string]any{"displayed": true, "suppressed": true, "suppressedScope": "speech", "spoken": false})
		s.types("heard you") // the question is open all the same
		s.facts(id, map[string]any{"reply": "heard you"})
		if len(m.said) != 0 {
			t.Errorf("said %+v", m.said)
		}
	})
}

// Public case 101: a long text is cut on a character, and who wrote it is told.
func TestCase101ALongAnswerIsCutAndSaidToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		for _, extra := range []string{"", "é", "👩"} {
			id := s.agent.Send(ask("Tell me all"))
			s.settle()
			s.types(strings.Repeat("ü", maxAnswer) + extra)
			if got := s.receipt(id)["reply"]; got != strings.Repeat("ü", maxAnswer) {
				t.Errorf("with %q more: %d bytes arrived", extra, len(got.(string)))
			}
			if told := strings.Contains(s.out.String(), "the rest is left off"); told != (extra != "") {
				t.Errorf("with %q more: told %v", extra, told)
			}
		}
	})
}

func TestUnpairingEndsListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		s.device.Call("DELETE", "/v1/device", nil)
		s.settle()
		select {
		case err := <-s.ended:
			if !errors.Is(err, client.ErrUnpaired) {
				t.Errorf("Run = %v", err)
			}
			s.ended <- err
		default:
			t.Error("still listening")
		}
	})
}

func TestANewerStreamOfTheSameDeviceEndsListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		s.device.Stream()
		s.settle()
		select {
		case err := <-s.ended:
			if !errors.Is(err, client.ErrReplaced) {
				t.Errorf("Run = %v", err)
			}
			s.ended <- err
		default:
			t.Error("still listening")
		}
	})
}

func TestCountEndsListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mouth{}
		s := listening(t, func(o *Options) { o.Count, o.Speaker = 2, m })
		told := s.agent.Send(map[string]any{"title": "told", "speak": true})
		asked := s.agent.Send(ask("asked"))
		s.settle()
		select {
		case err := <-s.ended:
			t.Fatalf("ended with an open question: %v", err)
		default:
		}
		s.types("yes")
		time.Sleep(20 * time.Second) // what is being spoken is spoken to its end
		synctest.Wait()
		select {
		case err := <-s.ended:
			if err != nil {
				t.Errorf("Run = %v", err)
			}
			s.ended <- nil
		default:
			t.Error("still listening")
		}
		s.facts(told, map[string]any{"displayed": true, "spoken": true})
		s.facts(asked, map[string]any{"displayed": true, "reply": "yes"})
	})
}

func TestWhatCannotBeShownIsNotReportedShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, nil)
		s.out.mu.Lock()
		s.out.err = io.ErrClosedPipe
		s.out.mu.Unlock()
		id := s.agent.Send(map[string]any{"title": "unseen"})
		s.settle()
		if err := <-s.ended; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Run = %v", err)
		}
		s.ended <- nil
		s.facts(id, map[string]any{"displayed": false, "queued": true})
	})
}

func TestDesktopNotificationsCarryNoMarkup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		s := listening(t, func(o *Options) {
			o.Desktop = func(title, body string) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, title, body)
				return nil
			}
		})
		s.agent.Send(map[string]any{"title": "<b>T</b>", "body": `-h <a href="x">y</a>`})
		s.settle()
		mu.Lock()
		defer mu.Unlock()
		if strings.Join(got, "|") != `build-bot: ‹b›T‹/b›| -h ‹a href="x"›y‹/a›` {
			t.Errorf("desktop = %q", got)
		}
	})
}
