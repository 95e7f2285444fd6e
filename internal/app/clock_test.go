package app

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/allowance"
	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/mailbox"
	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/pgtest"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// These tests hold what docs/operate.md promises of a clock that is set back: they call the services of a relay as its edges
// do, with the time as the argument that it is everywhere.

// noon is when every story begins, back is what the clock says after it was set back.
var (
	noon = time.Date(2026, 10, 5, 12, 0, 0, 0, time.UTC)
	back = noon.Add(-time.Hour)
)

// services are a relay's, with one mailbox, its device and a key of its.
type services struct {
	*testing.T
	*core
	agent  credential.Principal
	device credential.Principal
}

// withServices runs a story on each store.
func withServices(t *testing.T, change func(*config.Config), story func(s *services)) {
	t.Helper()
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) store.Store{
		"sqlite":   func(*testing.T) store.Store { return nil }, // the core's own choice
		"postgres": func(t *testing.T) store.Store { return pgtest.Open(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(newServices(t, open(t), change))
		})
	}
}

func newServices(t *testing.T, st store.Store, change func(*config.Config)) *services {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.RelaySecret = t.TempDir(), "clock-secret-of-more-than-32-characters"
	change(&cfg)
	c, err := openCore(t.Context(), cfg, slog.New(slog.DiscardHandler), st, ways{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	s := &services{T: t, core: c}
	if _, err := c.pairing.EnsureFirst(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	code, err := c.pairing.Start(t.Context(), "laptop", "192.0.2.1", noon)
	if err != nil {
		t.Fatal(err)
	}
	paired, err := c.pairing.Exchange(t.Context(), code, "", "192.0.2.1", noon)
	if err != nil {
		t.Fatal(err)
	}
	auth := &credential.Authenticator{Signer: c.signer, Store: c.store}
	if s.device, err = auth.Device(t.Context(), "Bearer "+paired.Token); err != nil {
		t.Fatal(err)
	}
	key, _, err := c.mailbox.CreateKey(t.Context(), paired.Mailbox, mailbox.KeyRequest{Name: "bot"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	s.agent = credential.Principal{Mailbox: paired.Mailbox, Key: key.ID}
	return s
}

// try sends a notification; id may be "".
func (s *services) try(id string, now time.Time) (relay.Notification, bool, error) {
	return s.mailbox.Send(s.Context(), s.agent, payload.Payload{AgentID: id, JSON: []byte(`{"title":"t"}`), ExpectReply: true}, now)
}

// send sends a notification that has to be accepted.
func (s *services) send(id string, now time.Time) relay.Notification {
	s.Helper()
	n, duplicate, err := s.try(id, now)
	if err != nil || duplicate {
		s.Fatalf("send %q at %s: duplicate %v, %v", id, now, duplicate, err)
	}
	return n
}

func (s *services) refused(id string, now time.Time, code string, atMost time.Duration) {
	s.Helper()
	_, _, err := s.try(id, now)
	if f := fault.From(err); err == nil || f.Code != code || f.RetryAfter > atMost {
		s.Errorf("send at %s: %v, retry after %s; want %s within %s", now, err, f.RetryAfter, code, atMost)
	}
}

// owed lists what the device is still to be told, by the agent's ids.
func (s *services) owed(now time.Time) (ids []string) {
	s.Helper()
	list, err := s.mailbox.Owed(s.Context(), s.agent.Mailbox, s.device.Device, mailbox.Place{}, 1000, now)
	if err != nil {
		s.Fatal(err)
	}
	for _, n := range list {
		ids = append(ids, n.AgentID)
	}
	return ids
}

func (s *services) same(what string, got, want any) {
	s.Helper()
	if d := cmp.Diff(want, got); d != "" {
		s.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func defaults(*config.Config) {}

func TestAClockSetBackKeepsTheOrderOfArrival(t *testing.T) {
	withServices(t, defaults, func(s *services) {
		var want []string
		seen := map[relay.NotificationID]bool{}
		for i, at := range []time.Time{noon, noon.Add(time.Second), back, back, back.Add(time.Second), noon.Add(time.Minute)} {
			n := s.send(fmt.Sprint("n-", i), at)
			want = append(want, n.AgentID)
			if seen[n.ID] || n.Seq != int64(i+1) {
				s.Errorf("send %d: id %s, Seq %d; want another id and the next Seq", i, n.ID, n.Seq)
			}
			seen[n.ID] = true
		}
		s.same("owed", s.owed(back.Add(time.Minute)), want)
		for _, id := range want {
			if _, err := s.mailbox.Receipt(s.Context(), s.agent, id, back.Add(time.Minute)); err != nil {
				s.Errorf("receipt of %s: %v", id, err)
			}
		}
	})
}

func TestAReplyAfterTheClockWasSetBackCounts(t *testing.T) {
	withServices(t, defaults, func(s *services) {
		n := s.send("n", noon)
		waiting := make(chan error, 1)
		go func() { waiting <- s.await("n", back) }()
		report := relay.Receipt{Kind: relay.KindReplied, Text: "yes"}
		if err := s.mailbox.Record(s.Context(), s.agent.Mailbox, s.device.Device, n.ID, report, back); err != nil {
			s.Fatal(err)
		}
		if err := <-waiting; err != nil {
			s.Error(err)
		}
		got, err := s.mailbox.Receipt(s.Context(), s.agent, "n", back)
		if err != nil || got.Text != "yes" || !got.RepliedAt.Equal(back) || got.Waiting() {
			s.Errorf("receipt = %+v, %v; want the reply, dated %s", got, err, back)
		}
	})
}

// await waits for a reply as the edge does. Waiting itself knows no wall clock.
func (s *services) await(id string, now time.Time) error {
	n, wait, err := s.mailbox.BeginWait(s.Context(), s.agent, id, 20*time.Second, now)
	if err != nil || wait == nil && n.Replied() {
		return err
	}
	defer wait.End()
	out, err := wait.For(s.Context(), mailbox.MaxWait)
	if err == nil && !out.Replied() {
		err = fmt.Errorf("the wait ended without the reply: %+v", out)
	}
	return err
}

func TestAnIDStaysADuplicateWhenTheClockIsSetBack(t *testing.T) {
	withServices(t, defaults, func(s *services) {
		first := s.send("n", noon)
		tomorrow := noon.Add(24 * time.Hour)
		for _, at := range []time.Time{back, noon, tomorrow.Add(-time.Hour), tomorrow} {
			if n, duplicate, err := s.try("n", at); err != nil || !duplicate || n.ID != first.ID {
				s.Errorf("at %s: duplicate %v of %s, %v; want the first", at, duplicate, n.ID, err)
			}
		}
		if n := s.send("n", tomorrow.Add(time.Millisecond)); n.ID == first.ID || n.Seq != 2 {
			s.Errorf("a day later: %s, Seq %d; want another notification", n.ID, n.Seq)
		}
	})
}

func TestAClockSetBackNeitherBarsAKeyNorOpensItsLimit(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Minute, 9 * time.Minute, time.Hour, 365 * 24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			withServices(t, func(c *config.Config) { c.RateLimitPerKey = 5 }, func(s *services) {
				for range 5 {
					s.send("", noon)
				}
				s.refused("", noon.Add(-30*time.Second), "rate_limited", 11*time.Minute) // no clock set back, but requests that overtake
				earlier := noon.Add(-by)
				for range 5 {
					s.send("", earlier)
				}
				s.refused("", earlier.Add(time.Second), "rate_limited", 10*time.Minute)
				for _, over := range []time.Time{earlier, noon} { // neither hour's sends bar the key for longer than the window
					if at := over.Add(relay.RateWindow); by > 2*relay.RateWindow || over.Equal(noon) {
						s.send("", at)
					}
				}
			})
		})
	}
}

func TestDaysCountOnWhenTheClockCrossesMidnightBothWays(t *testing.T) {
	withServices(t, func(c *config.Config) { c.NotificationsPerDay = 3 }, func(s *services) {
		evening, night := time.Date(2026, 10, 5, 23, 30, 0, 0, time.UTC), time.Date(2026, 10, 6, 0, 20, 0, 0, time.UTC)
		s.send("", evening)
		for range 3 {
			s.send("", night)
		}
		s.refused("", night.Add(time.Second), "daily_cap", 24*time.Hour)
		s.send("", evening.Add(2*time.Second)) // set back: two of that day are left
		s.send("", evening.Add(3*time.Second))
		s.refused("", evening.Add(4*time.Second), "daily_cap", 30*time.Minute)
		s.refused("", night.Add(time.Minute), "daily_cap", 24*time.Hour) // and again tomorrow: its three are not forgotten
		for day, at := range map[string]time.Time{"2026-10-05": evening, "2026-10-06": night} {
			if u, err := s.mailbox.Usage(s.Context(), s.agent.Mailbox, at); err != nil || u.Day != day || u.Notifications != 3 {
				s.Errorf("usage = %+v, %v; want three on %s", u, err, day)
			}
		}
	})
}

// TestCountersSurviveAMidnightThatComesTwice has requests counted, flushed, and counted again on the day before. Less than a
// minute of counting may be lost at the turn.
func TestCountersSurviveAMidnightThatComesTwice(t *testing.T) {
	withServices(t, defaults, func(s *services) {
		evening, night := time.Date(2026, 10, 5, 23, 30, 0, 0, time.UTC), time.Date(2026, 10, 6, 0, 20, 0, 0, time.UTC)
		count := func(at time.Time, flush bool) {
			s.meter.Count(s.agent.Mailbox, at, relay.Usage{Requests: 10})
			if flush {
				s.meter.Flush(s.Context())
			}
		}
		count(evening, true)
		count(night, true)
		count(evening, true)
		count(night, false)
		for day, at := range map[string]time.Time{"2026-10-06": night, "2026-10-05": evening} {
			if used, err := s.meter.Used(s.Context(), s.agent.Mailbox, at); err != nil || used.Requests < 10 || used.Requests > 20 {
				s.Errorf("%s: %d requests are counted, %v; want 10 or 20", day, used.Requests, err)
			}
		}
	})
}

func TestWhatWasSentBeforeAndAfterTheClockWasSetBackExpiresByItsDate(t *testing.T) {
	withServices(t, defaults, func(s *services) {
		s.send("before", noon)
		s.send("after", back)
		expire := func(now time.Time) int {
			n, err := s.mailbox.Expire(s.Context(), now)
			if err != nil {
				s.Fatal(err)
			}
			return n
		}
		tomorrow := back.Add(24 * time.Hour)
		s.same("expired an hour too early", expire(back.Add(23*time.Hour)), 0)
		s.same("expired after 24 hours", expire(tomorrow.Add(time.Second)), 1)
		s.same("still owed", s.owed(tomorrow.Add(time.Second)), []string{"before"})
		s.same("expired after 25 hours", expire(tomorrow.Add(time.Hour+time.Second)), 1)
		s.same("left", s.owed(tomorrow.Add(2*time.Hour)), []string(nil))
	})
}

// TestAFullQueueEmptiesAlthoughTheClockWasSetBack fills the queue with notifications of both times: those whose time is over
// make room, whatever their order.
func TestAFullQueueEmptiesAlthoughTheClockWasSetBack(t *testing.T) {
	withServices(t, func(c *config.Config) { c.QueueMax = 3 }, func(s *services) {
		s.send("before", noon)
		s.send("after-1", back)
		s.send("after-2", back)
		s.refused("one too many", back.Add(time.Minute), "queue_full", 0)
		s.send("a day later", back.Add(24*time.Hour+time.Second))
		s.same("owed", s.owed(back.Add(24*time.Hour+time.Second)), []string{"before", "a day later"})
	})
}

func TestRetentionForgetsByDateAlthoughTheClockWasSetBack(t *testing.T) {
	withServices(t, defaults, func(s *services) {
		s.send("before-1", noon)
		s.send("before-2", noon)
		s.send("after-1", back)
		s.send("after-2", back)
		s.send("before-3", noon.Add(time.Minute))
		forget := func(now time.Time) int {
			n, err := s.mailbox.Forget(s.Context(), now)
			if err != nil {
				s.Fatal(err)
			}
			return n
		}
		over := back.Add(25*time.Hour + time.Second)
		s.same("forgotten too early", forget(back.Add(25*time.Hour)), 0)
		s.same("forgotten of the later hour", forget(over), 2)
		s.same("forgotten of the earlier", forget(over.Add(time.Hour)), 2)
		s.same("the last", forget(over.Add(2*time.Hour)), 1)
		if n := s.send("new", over.Add(2*time.Hour)); n.Seq != 6 {
			s.Errorf("Seq = %d after everything was forgotten, want 6", n.Seq)
		}
	})
}

func TestADeviceStaysOnlineAndReplaceableWhenTheClockIsSetBack(t *testing.T) {
	withServices(t, defaults, func(s *services) {
		ctx, box, d := s.Context(), s.agent.Mailbox, s.device.Device
		older := must(s.mailbox.OpenStream(ctx, box, d, noon))(s.T)
		online := func(now time.Time) bool { return must(s.mailbox.Presence(ctx, box, now))(s.T).Online }
		s.same("online right after", online(back), true)
		must(0, s.mailbox.Heard(ctx, box, d, back.Add(5*time.Minute)))(s.T)
		s.same("online later", online(back.Add(15*time.Minute)), true)
		newer := must(s.mailbox.OpenStream(ctx, box, d, back.Add(20*time.Minute)))(s.T)
		if newer <= older {
			s.Errorf("the stream opened later is called %s, the earlier %s: it would not replace it", newer, older)
		}
		must(0, s.mailbox.CloseStream(ctx, box, d, older, back.Add(21*time.Minute)))(s.T)
		s.same("online after the older one closed", online(back.Add(21*time.Minute)), true)
		must(0, s.mailbox.CloseStream(ctx, box, d, newer, back.Add(22*time.Minute)))(s.T)
		s.same("online after both closed", online(back.Add(22*time.Minute)), false)
		if seen := must(s.mailbox.Presence(ctx, box, back.Add(time.Hour)))(s.T).LastSeenAt; seen.Before(noon) {
			s.Errorf("last seen at %s, and at %s before: it went back", seen, noon)
		}
	})
}

// must fails the test for an error that no story has room for.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestPairingGoesOnWhenTheClockIsSetBack(t *testing.T) {
	withServices(t, func(c *config.Config) { c.PairStartsPerHour = 2; c.MaxDevices = 100 }, func(s *services) {
		start := func(address string, now time.Time) (string, error) {
			return s.pairing.Start(s.Context(), "", address, now)
		}
		const address = "192.0.2.7"
		code := must(start(address, noon))(s.T)
		must(start(address, noon))(s.T)
		if _, err := start(address, noon.Add(time.Minute)); fault.From(err).Code != "rate_limited" {
			s.Errorf("a third start: %v, want rate_limited", err)
		}
		if _, err := s.pairing.Exchange(s.Context(), code, "phone", address, back); err != nil {
			s.Errorf("a code made before: %v", err)
		}
		must(start(address, back))(s.T)
		must(start(address, back))(s.T)
		if _, err := start(address, back.Add(time.Minute)); fault.From(err).Code != "rate_limited" {
			s.Errorf("a third start after the clock was set back: %v, want rate_limited", err)
		}
		must(start("192.0.2.8", back.Add(time.Minute)))(s.T)
	})
}

func TestAnAddressBarredForGuessingIsFreeWhenTheClockIsSetBack(t *testing.T) {
	withServices(t, defaults, func(s *services) {
		guess := func(now time.Time) string {
			_, err := s.pairing.Exchange(s.Context(), "AAAA-AAAA", "", "192.0.2.9", now)
			return fault.From(err).Code
		}
		for _, hour := range []time.Time{noon, back} { // ten wrong ones each, then none
			for i := range 10 {
				if code := guess(hour); code != "bad_code" {
					s.Errorf("guess %d at %s: %s", i, hour, code)
				}
			}
			if code := guess(hour.Add(time.Second)); code != "rate_limited" {
				s.Errorf("guess 11 at %s: %s, want rate_limited", hour, code)
			}
		}
	})
}

func TestAKeyWorksOnWhenTheClockIsSetBack(t *testing.T) {
	withServices(t, defaults, func(s *services) {
		k, secret, err := s.mailbox.CreateKey(s.Context(), s.agent.Mailbox, mailbox.KeyRequest{Name: "ci"}, noon)
		if err != nil {
			s.Fatal(err)
		}
		auth := &credential.Authenticator{Signer: s.signer, Store: s.store}
		reads := &allowance.Window{Limit: 3, Span: readSpan}
		for _, hour := range []time.Time{noon, back} {
			for i := range 4 {
				if _, err := auth.Agent(s.Context(), "Bearer "+secret, hour); err != nil {
					s.Errorf("at %s: %v", hour, err)
				}
				if got := reads.Allow(string(k.ID), hour); got != (i < 3) {
					s.Errorf("read %d at %s: allowed = %v", i+1, hour, got)
				}
			}
		}
		must(0, s.mailbox.RevokeKey(s.Context(), s.agent.Mailbox, k.ID, false, "", back))(s.T)
		if _, err := auth.Agent(context.WithoutCancel(s.Context()), "Bearer "+secret, noon); !fault.Is(err, fault.Unauthenticated) {
			s.Errorf("a key revoked after the clock was set back: %v, want refused at once", err)
		}
	})
}
