package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/testkit"
)

// secret is the RELAY_SECRET of processes that share a database.
const secret = "e2e-secret-of-more-than-32-characters"

// together is the environment of processes on one database.
func together(database string, more ...string) []string {
	return append([]string{"HERALD_DATABASE=" + database, "RELAY_SECRET=" + secret}, more...)
}

// cluster starts two processes on one new PostgreSQL database and one data directory, as docs/operate.md has it.
func cluster(t *testing.T, env ...string) (a, b *server) {
	t.Helper()
	dir, env := t.TempDir(), together(pgtest.URL(t), env...)
	return serve(t, dir, env...), serve(t, dir, env...)
}

// relay speaks to the process with the helpers of testkit.
func (s *server) relay() *testkit.Relay {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	s.t.Cleanup(client.CloseIdleConnections)
	return &testkit.Relay{T: s.t, URL: s.URL, HTTP: client}
}

// deviceAt is the same device, speaking to another process.
func deviceAt(s *server, d *testkit.Device) *testkit.Device {
	return &testkit.Device{Relay: s.relay(), Mailbox: d.Mailbox, Token: d.Token}
}

// agentAt is the same agent, speaking to another process.
func agentAt(s *server, a *testkit.Agent) *testkit.Agent {
	return &testkit.Agent{Relay: s.relay(), ID: a.ID, Token: a.Token}
}

// parked begins a long-poll, gives it time to be parked, and returns where its answer arrives.
func parked(a *testkit.Agent, id string) <-chan testkit.Answer {
	out := make(chan testkit.Answer, 1)
	go func() {
		got, err := a.Try(a.T.Context(), "GET", "/v1/replies/"+id+"?wait=60", a.Token, nil)
		if err != nil {
			a.T.Errorf("wait for a reply to %s: %v", id, err)
		}
		out <- got
	}()
	time.Sleep(300 * time.Millisecond) // real processes: until it is parked
	return out
}

// TestTwoProcessesAreOneRelay goes round the main loop with the agent at one process and the device at the other. Ten rounds
// have to be much quicker than waiters that only look for themselves every five seconds could be.
func TestTwoProcessesAreOneRelay(t *testing.T) {
	t.Parallel()
	a, b := cluster(t, plenty...)
	laptop := a.relay().Pair("laptop")
	agent := laptop.Agent("bot")
	stream := deviceAt(b, laptop).Stream()
	if status := agent.Call("GET", "/v1/status", nil); status.Body["online"] != true {
		t.Errorf("a device at the other process is offline: %s", status.Raw)
	}
	begin := time.Now()
	for round := range 10 {
		id := agent.Send(map[string]any{"title": "t", "expectReply": true})
		frame := stream.Next()
		if frame.Text("notificationId") != id {
			t.Fatalf("round %d: frame = %v, want %s", round, frame, id)
		}
		waiting := parked(agent, id)
		text := fmt.Sprint("answer ", round)
		stream.Send(testkit.Frame{"type": "receipt", "kind": "replied", "id": frame["id"], "text": text})
		if got := <-waiting; got.Text("reply") != text {
			t.Fatalf("round %d: %d %s", round, got.Status, got.Raw)
		}
		if got := agentAt(b, agent).Call("GET", "/v1/receipts/"+id, nil); got.Text("reply") != text {
			t.Errorf("round %d: the other process says %d %s", round, got.Status, got.Raw)
		}
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("ten rounds took %s: the processes do not wake each other", took)
	}
}

func TestSeveralDevicesAtDifferentProcessesHearTheSame(t *testing.T) {
	t.Parallel()
	a, b := cluster(t)
	laptop := a.relay().Pair("laptop")
	agent := laptop.Agent("bot")
	atLaptop, atPhone := laptop.Stream(), deviceAt(b, laptop.Link("phone")).Stream()
	id := agent.Send(map[string]any{"title": "t", "expectReply": true})
	frame := atLaptop.Next()
	if other := atPhone.Next(); other.Text("notificationId") != id || frame.Text("notificationId") != id {
		t.Fatalf("frames = %v and %v, want both %s", frame, other, id)
	}
	atPhone.Send(testkit.Frame{"type": "receipt", "kind": "replied", "id": frame["id"], "text": "from the phone"})
	if f := atLaptop.Next(); f.Text("type") != "replied" || f["id"] != frame["id"] {
		t.Errorf("the laptop hears %v, want that the phone replied", f)
	}
}

func TestAVoiceClipIsServedByEitherProcess(t *testing.T) {
	t.Parallel()
	a, b := cluster(t)
	laptop := a.relay().Pair("laptop")
	agent := laptop.Agent("bot")
	stream := laptop.Stream()
	id := agent.Send(map[string]any{"title": "t", "expectReply": true})
	clip := append([]byte("\x00\x00\x00\x18ftypM4A "), make([]byte, 500)...)
	relayID := stream.Next().Text("id")
	if up := laptop.Call("PUT", "/v1/device/reply/"+relayID+"/audio", clip, "Content-Type", "audio/mp4"); up.Status != http.StatusOK {
		t.Fatalf("upload: %d %s", up.Status, up.Raw)
	}
	deviceAt(b, laptop).Call("POST", "/v1/device/reply", map[string]any{"id": relayID, "transcript": "yes"})
	got := agentAt(b, agent).Call("GET", "/v1/receipts/"+id, nil)
	link := got.Text("audioUrl")
	if len(link) < len(b.URL) || link[:len(b.URL)] != b.URL {
		t.Fatalf("receipt = %s, want a link at %s", got.Raw, b.URL)
	}
	for _, s := range []*server{a, b} {
		if audio := s.relay().Do("GET", link[len(b.URL):], "", nil); audio.Status != http.StatusOK || len(audio.Raw) != len(clip) {
			t.Errorf("the clip at %s: %d, %d bytes", s.URL, audio.Status, len(audio.Raw))
		}
	}
}

// TestTwoProcessesCountTogether sends to both at once: what is promised once per key, mailbox or address holds for all.
func TestTwoProcessesCountTogether(t *testing.T) {
	t.Parallel()
	const limit, sends = 12, 60
	tests := map[string]struct {
		env      []string
		id       string // the notificationId of every send; each has its own when empty
		accepted int32
		code     string // of what is not accepted
	}{
		"one id":    {id: "the-same", accepted: 1},
		"the rate":  {env: []string{"RATE_LIMIT_PER_KEY=12"}, accepted: limit, code: "rate_limited"},
		"the day":   {env: []string{"DEVICE_NOTIFICATIONS_PER_DAY=12"}, accepted: limit, code: "daily_cap"},
		"the queue": {env: []string{"DEVICE_QUEUE_MAX=12"}, accepted: limit, code: "queue_full"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := cluster(t, test.env...)
			agent := a.relay().Pair("laptop").Agent("bot")
			at := []*testkit.Agent{agent, agentAt(b, agent)}
			var accepted atomic.Int32
			var all sync.WaitGroup
			for i := range sends {
				all.Go(func() {
					body := map[string]any{"title": "t"}
					if test.id != "" {
						body["notificationId"] = test.id
					}
					got, err := at[i%2].Try(t.Context(), "POST", "/v1/notify", agent.Token, body)
					switch {
					case err != nil:
						t.Error(err)
					case got.Status == http.StatusAccepted:
						accepted.Add(1)
					case got.Status == http.StatusOK && got.Body["duplicate"] == true && test.id != "":
					case got.Status != http.StatusTooManyRequests || got.Code() != test.code:
						t.Errorf("answer = %d %s", got.Status, got.Raw)
					}
				})
			}
			all.Wait()
			if accepted.Load() != test.accepted {
				t.Errorf("%d of %d sends were accepted, want %d", accepted.Load(), sends, test.accepted)
			}
		})
	}
}

func TestPairingIsLimitedAcrossProcesses(t *testing.T) {
	t.Parallel()
	a, b := cluster(t, "PAIR_STARTS_PER_HOUR=2")
	both := []*testkit.Relay{a.relay(), b.relay()}
	code := both[0].Do("POST", "/v1/pair/start", "", nil).Text("code")
	if again := both[1].Do("POST", "/v1/pair/start", "", nil); again.Status != http.StatusCreated {
		t.Errorf("the second start: %d %s", again.Status, again.Raw)
	}
	for i, r := range both {
		if third := r.Do("POST", "/v1/pair/start", "", nil); third.Status != http.StatusTooManyRequests {
			t.Errorf("a third start at process %d: %d %s", i, third.Status, third.Raw)
		}
	}
	for i := range 10 {
		wrong := both[i%2].Do("POST", "/v1/pair", "", map[string]any{"code": fmt.Sprintf("AAAA-%04d", i)})
		if wrong.Status != http.StatusForbidden {
			t.Errorf("wrong code %d: %d %s", i, wrong.Status, wrong.Raw)
		}
	}
	for i, r := range both {
		if barred := r.Do("POST", "/v1/pair", "", map[string]any{"code": code}); barred.Status != http.StatusTooManyRequests {
			t.Errorf("the right code after ten wrong ones at process %d: %d %s", i, barred.Status, barred.Raw)
		}
	}
}

func TestADevicesStreamMovesToTheOtherProcess(t *testing.T) {
	t.Parallel()
	a, b := cluster(t)
	laptop := a.relay().Pair("laptop")
	agent := laptop.Agent("bot")
	there := deviceAt(b, laptop)
	older := laptop.Stream()
	for round, next := range []*testkit.Device{there, laptop, there} {
		begin := time.Now()
		newer := next.Stream()
		if code := older.Closed(); code != websocket.StatusCode(4000) {
			t.Errorf("round %d: the older stream closed with %d, want 4000", round, code)
		}
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("round %d: that took %s", round, took)
		}
		id := agent.Send(map[string]any{"title": "t"})
		for { // what no stream acknowledged comes first
			f := newer.Next()
			if f.Text("notificationId") == id {
				break
			}
		}
		older = newer
	}
}

// TestRacingStreamsOfOneDeviceLeaveOne opens many streams at both processes at once.
func TestRacingStreamsOfOneDeviceLeaveOne(t *testing.T) {
	t.Parallel()
	a, b := cluster(t)
	laptop := a.relay().Pair("laptop")
	at := []*testkit.Device{laptop, deviceAt(b, laptop)}
	const racers = 10
	ended := make(chan websocket.StatusCode, racers)
	opened := make(chan *testkit.Stream, racers)
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() {
			s, err := at[i%2].Dial()
			if err != nil {
				t.Error(err)
				return
			}
			opened <- s
			for err == nil {
				_, _, err = s.Conn.Read(t.Context())
			}
			ended <- websocket.CloseStatus(err)
		})
	}
	for range racers - 1 {
		select {
		case code := <-ended:
			if code != websocket.StatusCode(4000) {
				t.Errorf("a stream closed with %d, want 4000", code)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("more than one stream of one device stays open")
		}
	}
	select {
	case code := <-ended:
		t.Errorf("no stream stayed: the last closed with %d", code)
	case <-time.After(time.Second):
	}
	for range racers {
		(<-opened).Conn.CloseNow()
	}
	all.Wait()
}

func TestUnpairingAtOneProcessClosesTheStreamAtTheOther(t *testing.T) {
	t.Parallel()
	a, b := cluster(t)
	laptop := a.relay().Pair("laptop")
	agent := laptop.Agent("bot")
	phone := laptop.Link("phone")
	id := agent.Send(map[string]any{"title": "t", "expectReply": true})
	atPhone, atLaptop := deviceAt(b, phone).Stream(), deviceAt(b, laptop).Stream()
	waiting := parked(agentAt(b, agent), id)

	phone.Call("DELETE", "/v1/device", nil)
	if code := atPhone.Closed(); code != websocket.StatusCode(4001) {
		t.Errorf("the phone's stream closed with %d, want 4001", code)
	}
	begin := time.Now()
	laptop.Call("DELETE", "/v1/device", nil)
	if code := atLaptop.Closed(); code != websocket.StatusCode(4001) {
		t.Errorf("the laptop's stream closed with %d, want 4001", code)
	}
	if got := <-waiting; got.Status != http.StatusUnauthorized {
		t.Errorf("a wait at the other process ended with %d %s, want 401", got.Status, got.Raw)
	}
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the other process needed %s", took)
	}
	for _, d := range []*testkit.Device{phone, laptop} {
		if got := deviceAt(b, d).Call("GET", "/v1/device/info", nil); got.Status != http.StatusUnauthorized {
			t.Errorf("an unpaired device is served: %d", got.Status)
		}
	}
}

func TestAKeyRevokedAtOneProcessIsDeadAtTheOtherAtOnce(t *testing.T) {
	t.Parallel()
	a, b := cluster(t)
	laptop := a.relay().Pair("laptop")
	for round := range 5 {
		agent := laptop.Agent(fmt.Sprint("bot-", round))
		there := agentAt(b, agent)
		id := there.Send(map[string]any{"title": "t", "expectReply": true})
		waiting := parked(there, id)
		begin := time.Now()
		laptop.Call("DELETE", "/v1/device/keys/"+agent.ID, nil)
		if got := there.Call("POST", "/v1/notify", map[string]any{"title": "t"}); got.Status != http.StatusUnauthorized {
			t.Errorf("round %d: the other process took a revoked key: %d %s", round, got.Status, got.Raw)
		}
		if got := <-waiting; got.Status != http.StatusUnauthorized {
			t.Errorf("round %d: a wait with a revoked key ended with %d %s, want 401", round, got.Status, got.Raw)
		}
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("round %d: the wait outlived its key by %s", round, took)
		}
	}
}

// TestKillingOneOfTwoLosesNothingAcknowledged kills one process after the other under load. Each fact that any of them
// acknowledged has to be there afterwards, at both.
func TestKillingOneOfTwoLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	const rounds = 20
	dir, env := t.TempDir(), together(pgtest.URL(t), plenty...)
	known := &book{}
	alive := []*server{serve(t, dir, env...), serve(t, dir, env...)}
	laptop := alive[0].relay().Pair("laptop")
	key, devices := laptop.Agent("bot").Token, []string{laptop.Token, laptop.Link("phone").Token}
	for round := range rounds {
		var load []func()
		for i, s := range alive {
			load = append(load, s.load(known, devices[i], key, fmt.Sprintf("round-%d-%d", round, i)))
		}
		time.Sleep(time.Duration(50+rand.IntN(300)) * time.Millisecond)
		victim := round % 2
		alive[victim].kill()
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond) // the other goes on
		for _, stop := range load {
			stop()
		}
		alive[victim] = serve(t, dir, env...)
		alive[victim].verify(known.some(150), key)
	}
	all := known.some(1 << 20)
	if len(all) < rounds {
		t.Fatalf("only %d facts were acknowledged in %d rounds", len(all), rounds)
	}
	t.Logf("%d facts acknowledged", len(all))
	for _, s := range alive {
		s.verify(shuffled(all, 400), key)
	}
	alive[0].noneTwice(all, devices[0], key)
	for _, s := range alive {
		s.stop(20 * time.Second)
	}
}

// shuffled picks n of the facts by chance.
func shuffled(all []fact, n int) []fact {
	all = slices.Clone(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}
