package app_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
)

// shared is a mailbox with two devices and an agent (decision 5).
type shared struct {
	owner, phone *testkit.Device
	agent        *testkit.Agent
}

func newShared(r *testkit.Relay) shared {
	owner := r.Pair("laptop")
	return shared{owner, owner.Link("phone"), owner.Agent("bot")}
}

func TestANotificationGoesToEveryDeviceOfTheMailbox(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	m := newShared(r)
	if m.owner.Mailbox != m.phone.Mailbox || m.owner.Token == m.phone.Token {
		t.Fatalf("owner and linked device: mailboxes %s and %s, want one, with a token each", m.owner.Mailbox, m.phone.Mailbox)
	}
	owners, phones := m.owner.Stream(), m.phone.Stream()
	id := m.agent.Send(map[string]any{"title": "everywhere"})
	a, b := devRaw(owners), devRaw(phones)
	if a != b {
		t.Errorf("the devices got different frames:\n%s\n%s", a, b)
	}
	devMatch(t, "frame", []byte(a), `{"type":"notify","id":"<r>","notificationId":"`+id+`","createdAt":"<time>",`+
		`"key":{"id":"<hex8>","name":"bot","client":"other"},"payload":{"title":"everywhere","expectReply":false}}`)
}

// A device that acknowledges at once must not hide the notification from one that is slow to take what came before.
func TestAnAcknowledgementDoesNotHideANotificationFromTheOtherStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		m := newShared(r)
		fast, slow := m.owner.Stream(), m.phone.Stream()
		var want []string
		for i := range 12 {
			agentID, id := devNotified(m.agent, fast)
			kind := map[string]any{"type": "ack", "id": id}
			switch i % 4 {
			case 1:
				kind = map[string]any{"type": "receipt", "id": id, "kind": "displayed"}
			case 2:
				kind = map[string]any{"type": "receipt", "id": id, "kind": "suppressed", "reason": "quiet-hours"}
			}
			if i%4 != 3 {
				fast.Send(kind)
				devSettle(fast)
			}
			want = append(want, agentID)
		}
		for i, id := range want { // only now does the slow one read: a pipe holds nothing
			if f := slow.Next(); f.Text("notificationId") != id {
				t.Fatalf("place %d on the slow stream holds %v, want %s", i, f, id)
			}
		}
		devSettle(slow)
		// A stream that opens later is told of what still waits alone.
		late := m.phone.Stream()
		for i := 3; i < len(want); i += 4 {
			if f := late.Next(); f.Text("notificationId") != want[i] {
				t.Errorf("the later stream got %v, want %s", f, want[i])
			}
		}
		devSettle(late)
	})
}

func TestWhatExpiredIsNotBroughtLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		agentID := agent.Send(map[string]any{"title": "too late"})
		time.Sleep(24*time.Hour - time.Millisecond)
		s := d.Stream()
		if f := s.Next(); f.Text("notificationId") != agentID {
			t.Errorf("a millisecond before its time is over: %v, want %s", f, agentID)
		}
		s.Conn.CloseNow()
		time.Sleep(2 * time.Millisecond)
		devSettle(d.Stream()) // the sweep has not come round yet
		a := agent.Call("POST", "/v1/notify", map[string]any{"title": "too late", "notificationId": agentID})
		if a.Status != http.StatusAccepted {
			t.Errorf("the id of an expired notification after 24 hours: %d %s", a.Status, a.Raw)
		}
	})
}

func TestTheFirstReplyWinsAndTheOthersAreTold(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"stream", "http"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			r := testkit.New(t, testkit.Options{})
			m := newShared(r)
			tablet := m.owner.Link("tablet")
			owners, phones, tablets := m.owner.Stream(), m.phone.Stream(), tablet.Stream()
			agentID, id := devNotified(m.agent, owners)
			for _, s := range []*testkit.Stream{phones, tablets} {
				s.Next()
			}
			if way == "http" {
				devOK(t, m.phone.Call("POST", "/v1/device/reply", map[string]any{"id": id, "text": "mine"}), 200, `{"ok":true}`)
			} else {
				phones.Send(testkit.Frame{"type": "receipt", "id": id, "kind": "replied", "text": "mine"})
			}
			for _, s := range []*testkit.Stream{owners, tablets} {
				devMatch(t, "frame of another device", []byte(devRaw(s)), `{"type":"replied","id":"`+id+`"}`)
			}
			devSettle(phones) // the winner knows

			devOK(t, m.owner.Call("POST", "/v1/device/reply", map[string]any{"id": id, "text": "late"}), 200, `{"ok":true}`)
			for _, s := range []*testkit.Stream{owners, phones, tablets} {
				devSettle(s) // nobody hears of a second reply
			}
			if got := devReceipt(m.agent, agentID); got.Text("reply") != "mine" || got.Text("text") != "mine" {
				t.Errorf("receipt = %s, want the first reply", got.Raw)
			}
		})
	}
}

// Cases 67 and 146 of the public cases, twenty times: of replies that race exactly one is first.
func TestCase067OfRacingRepliesOneIsFirst(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	m := newShared(r)
	tablet := m.owner.Link("tablet")
	streams := []*testkit.Stream{m.owner.Stream(), m.phone.Stream(), tablet.Stream()}
	for round := range 20 {
		// That the winner of the round before was told nothing shows here: its next frame is the next notification.
		agentID, id := devNotified(m.agent, streams[0])
		for _, s := range streams[1:] {
			if f := s.Next(); f.Text("type") != "notify" || f.Text("id") != id {
				t.Fatalf("round %d: frame = %v, want notify of %s", round, f, id)
			}
		}
		answered := make(chan testkit.Answer, 1)
		go func() {
			a, err := r.Try(t.Context(), "GET", "/v1/replies/"+agentID+"?wait=30", m.agent.Token, nil)
			if err != nil {
				t.Error(err)
			}
			answered <- a
		}()
		var wg sync.WaitGroup
		for i, s := range streams {
			wg.Go(func() {
				text := fmt.Sprintf("%d from %d", round, i)
				if (round+i)%2 == 0 {
					a, err := r.Try(t.Context(), "POST", "/v1/device/reply", s.Token, map[string]any{"id": id, "text": text})
					if err != nil || a.Status != 200 {
						t.Errorf("reply: %d %v", a.Status, err)
					}
					return
				}
				s.Send(testkit.Frame{"type": "receipt", "id": id, "kind": "replied", "text": text})
			})
		}
		wg.Wait()
		first := (<-answered).Text("reply")
		if got := devReceipt(m.agent, agentID).Text("text"); got != first || first == "" {
			t.Errorf("round %d: the wait said %q, the receipt says %q", round, first, got)
		}
		for i, s := range streams {
			if first == fmt.Sprintf("%d from %d", round, i) {
				continue
			}
			if f := s.Next(); f.Text("type") != "replied" || f.Text("id") != id {
				t.Errorf("round %d: %d lost and got %v, want replied of %s", round, i, f, id)
			}
		}
	}
	devNotified(m.agent, streams[0])
}

func TestADeviceHearsOfANotificationBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		m := newShared(r)
		fast, slow := m.owner.Stream(), m.phone.Stream()
		devNotified(m.agent, fast) // keeps the slow stream busy
		_, id := devNotified(m.agent, fast)
		fast.Send(testkit.Frame{"type": "receipt", "id": id, "kind": "replied", "text": "quick"})
		devSettle(fast)
		slow.Next()
		if f := slow.Next(); f.Text("type") != "notify" || f.Text("id") != id {
			t.Errorf("frame = %v, want notify of %s", f, id)
		}
		if f := slow.Next(); f.Text("type") != "replied" || f.Text("id") != id {
			t.Errorf("frame = %v, want replied of %s", f, id)
		}
	})
}

func TestOnlineIsTrueWhileAnyDeviceIs(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	m := newShared(r)
	online := func(want bool) {
		t.Helper()
		if got := m.agent.Call("GET", "/v1/status", nil).Body["online"]; got != want {
			t.Errorf("online = %v, want %v", got, want)
		}
	}
	online(false)
	phones := m.phone.Stream()
	online(true)
	m.owner.Stream()
	online(true)
	devOK(t, m.phone.Call("DELETE", "/v1/device", nil), 200, `{"unpaired":true}`)
	wantClosed(t, phones, unpaired)
	online(true)
}

func TestTheStateOfAMailboxIsWhatAnyOfItsDevicesSaidLast(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	m := newShared(r)
	owners, phones := m.owner.Stream(), m.phone.Stream()
	owners.Text(`{"type":"status","quietActive":true}`)
	devSettle(owners)
	phones.Text(`{"type":"hello"}`)
	devSettle(phones)
	if got := m.agent.Call("GET", "/v1/status", nil); fmt.Sprint(got.Body["quietHours"]) != "map[active:false]" {
		t.Errorf("status = %s", got.Raw)
	}
}
