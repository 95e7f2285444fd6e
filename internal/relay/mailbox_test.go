package relay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/relay"
)

func TestOnlineIsAnOpenStreamHeardFromWithinElevenMinutes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		d    relay.Device
		want bool
	}{
		"just heard from":                {relay.Device{Stream: "s", LastSeenAt: noon}, true},
		"eleven minutes less an instant": {relay.Device{Stream: "s", LastSeenAt: minute(-11).Add(time.Millisecond)}, true},
		"eleven minutes":                 {relay.Device{Stream: "s", LastSeenAt: minute(-11)}, false},
		"heard from, but closed":         {relay.Device{LastSeenAt: noon}, false},
		"never":                          {relay.Device{}, false},
	}
	for name, test := range tests {
		if got := test.d.Online(noon); got != test.want {
			t.Errorf("%s: online = %v", name, got)
		}
	}
}

// TestWhoMayRemoveWhom holds the contract's sections 7.3 and 10: the reasons in their order, and which of them prune acts on.
func TestWhoMayRemoveWhom(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	self := relay.Mailbox{ID: "self", Name: "laptop", CreatedAt: noon.Add(-100 * day), LastSeenAt: noon}
	seen := func(name string, ago time.Duration) relay.Mailbox {
		return relay.Mailbox{ID: "other", Name: name, CreatedAt: noon.Add(-100 * day), LastSeenAt: noon.Add(-ago)}
	}
	never := func(name string, made time.Duration) relay.Mailbox {
		return relay.Mailbox{ID: "other", Name: name, CreatedAt: noon.Add(-made)}
	}
	nameless := self
	nameless.Name = ""
	tests := map[string]struct {
		self, other relay.Mailbox
		rotated     bool // the other's id was signed with an earlier secret
		reason      string
		pruned      bool
	}{
		"itself":                              {self: self, other: self},
		"itself, whatever its id says":        {self: self, other: self, rotated: true},
		"another that is in use":              {self: self, other: seen("phone", 0)},
		"one of the same name":                {self: self, other: seen("laptop", 0), reason: "same_name", pruned: true},
		"two without a name":                  {self: nameless, other: seen("", 0)},
		"names differ in case":                {self: self, other: seen("Laptop", 0)},
		"one with an id of an earlier secret": {self: self, other: seen("phone", 0), rotated: true, reason: "credentials_rotated", pruned: true},
		"the name is judged before the id":    {self: self, other: seen("laptop", 0), rotated: true, reason: "same_name", pruned: true},
		"silent for almost 7 days":            {self: self, other: seen("phone", 7*day-time.Millisecond)},
		"silent for 7 days":                   {self: self, other: seen("phone", 7*day), reason: "idle"},
		"silent for almost 30 days":           {self: self, other: seen("phone", 30*day-time.Millisecond), reason: "idle"},
		"silent for 30 days":                  {self: self, other: seen("phone", 30*day), reason: "idle", pruned: true},
		"never seen, made 6 days ago":         {self: self, other: never("phone", 6*day)},
		"never seen, made 7 days ago":         {self: self, other: never("phone", 7*day), reason: "idle"},
		"never seen, made 30 days ago":        {self: self, other: never("", 30*day), reason: "idle", pruned: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := relay.RemovableReason(test.self, test.other, !test.rotated, noon); got != test.reason {
				t.Errorf("removable because %q, want %q", got, test.reason)
			}
			if got := relay.Prunable(test.self, test.other, !test.rotated, noon); got != test.pruned {
				t.Errorf("prunable = %v", got)
			}
		})
	}
}

func TestUsageAddsUp(t *testing.T) {
	t.Parallel()
	a := relay.Usage{Requests: 1, WSMessages: 2, Notifications: 3, PollSeconds: 4, AudioUploads: 5, AudioBytes: 6}
	b := relay.Usage{Requests: 10, WSMessages: 20, Notifications: 30, PollSeconds: 40, AudioUploads: 50, AudioBytes: 60}
	if got, want := a.Add(b), (relay.Usage{11, 22, 33, 44, 55, 66}); got != want {
		t.Errorf("sum = %+v, want %+v", got, want)
	}
}

func TestAKeyIsActiveUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	if !(relay.Key{}).Active() || (relay.Key{RevokedAt: noon}).Active() {
		t.Error("a key's activity is not whether it was revoked")
	}
}

func TestWhatADeviceSaysOfItselfIsCleaned(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"2026-10-06T07:00:00Z":        "2026-10-06T07:00:00Z",
		"":                            "",
		"\x00a\x00":                   "a",
		strings.Repeat("ä", 41):       strings.Repeat("ä", 40),
		strings.Repeat("\x00b", 1000): strings.Repeat("b", 40),
	} {
		got := relay.State{QuietActive: true, QuietUntil: sent, Muted: true}.Clean()
		if want := (relay.State{QuietActive: true, QuietUntil: want, Muted: true}); got != want {
			t.Errorf("%.10q becomes %+v, want %+v", sent, got, want)
		}
	}
}
