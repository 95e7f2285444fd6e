package relay_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
)

// noon and what follows it; times of the tables are minutes after it.
var noon = time.Date(2026, 10, 5, 12, 0, 0, 0, time.UTC)

func minute(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

type report struct {
	relay.Receipt
	at      int  // minutes after noon
	first   bool // the one that answered
	refused bool
}

// TestReceiptsAreRecorded walks the rules of the contract's section 6.3, one story a row.
func TestReceiptsAreRecorded(t *testing.T) {
	t.Parallel()
	replied := func(text, transcript string) relay.Receipt {
		return relay.Receipt{Kind: "replied", Text: text, Transcript: transcript}
	}
	tests := map[string]struct {
		begin   relay.Notification
		reports []report
		want    relay.Notification
	}{
		"displayed": {
			reports: []report{{Receipt: relay.Receipt{Kind: "displayed"}, at: 1}},
			want:    relay.Notification{AckedAt: minute(1), DisplayedAt: minute(1)},
		},
		"the first displayed stays": {
			reports: []report{{Receipt: relay.Receipt{Kind: "displayed"}, at: 1}, {Receipt: relay.Receipt{Kind: "displayed"}, at: 2}},
			want:    relay.Notification{AckedAt: minute(1), DisplayedAt: minute(1)},
		},
		"the first spoken stays": {
			reports: []report{{Receipt: relay.Receipt{Kind: "spoken"}, at: 1}, {Receipt: relay.Receipt{Kind: "spoken"}, at: 2}},
			want:    relay.Notification{AckedAt: minute(1), SpokenAt: minute(1)},
		},
		"spoken does not say displayed": {
			reports: []report{{Receipt: relay.Receipt{Kind: "spoken"}, at: 3}},
			want:    relay.Notification{AckedAt: minute(3), SpokenAt: minute(3)},
		},
		"an acknowledgement stays when receipts follow": {
			begin:   relay.Notification{AckedAt: minute(0)},
			reports: []report{{Receipt: relay.Receipt{Kind: "displayed"}, at: 5}},
			want:    relay.Notification{AckedAt: minute(0), DisplayedAt: minute(5)},
		},
		"a typed reply": {
			reports: []report{{Receipt: replied(" yes\n", ""), at: 1, first: true}},
			want:    relay.Notification{AckedAt: minute(1), RepliedAt: minute(1), Text: "yes"},
		},
		"a second typed reply changes nothing": {
			reports: []report{{Receipt: replied("yes", ""), at: 1, first: true}, {Receipt: replied("no", ""), at: 2}},
			want:    relay.Notification{AckedAt: minute(1), RepliedAt: minute(1), Text: "yes"},
		},
		"text and transcript are each filled once": {
			reports: []report{
				{Receipt: replied("", "spoken words"), at: 1, first: true}, {Receipt: replied("typed", "other words"), at: 2},
				{Receipt: replied("typed again", "third words"), at: 3},
			},
			want: relay.Notification{AckedAt: minute(1), RepliedAt: minute(1), Text: "typed", Transcript: "spoken words"},
		},
		"a later valid duration takes the place of the earlier": {
			reports: []report{
				{Receipt: relay.Receipt{Kind: "replied", Transcript: "a", Duration: new(3.5)}, at: 1, first: true},
				{Receipt: relay.Receipt{Kind: "replied", Transcript: "b", Duration: new(600.0)}, at: 2},
			},
			want: relay.Notification{AckedAt: minute(1), RepliedAt: minute(1), Transcript: "a", Duration: new(600.0)},
		},
		"durations outside 0 to 600 are ignored": {
			reports: []report{
				{Receipt: relay.Receipt{Kind: "replied", Transcript: "a", Duration: new(0.0)}, at: 1, first: true},
				{Receipt: relay.Receipt{Kind: "replied", Transcript: "a", Duration: new(-0.001)}, at: 2},
				{Receipt: relay.Receipt{Kind: "replied", Transcript: "a", Duration: new(600.001)}, at: 3},
				{Receipt: relay.Receipt{Kind: "replied", Transcript: "a", Duration: new(math.Inf(1))}, at: 4},
				{Receipt: relay.Receipt{Kind: "replied", Transcript: "a", Duration: new(math.NaN())}, at: 5},
			},
			want: relay.Notification{AckedAt: minute(1), RepliedAt: minute(1), Transcript: "a", Duration: new(0.0)},
		},
		"an uploaded clip alone is a reply": {
			begin:   relay.Notification{ClipBytes: 7},
			reports: []report{{Receipt: replied(" ", ""), at: 1, first: true}},
			want:    relay.Notification{ClipBytes: 7, AckedAt: minute(1), RepliedAt: minute(1)},
		},
		"a reply of nothing is refused and changes nothing": {
			reports: []report{{Receipt: replied(" \n", "\x00"), at: 1, refused: true}},
		},
		"an unknown kind is refused and changes nothing": {
			reports: []report{{Receipt: relay.Receipt{Kind: "exploded"}, at: 1, refused: true}, {Receipt: relay.Receipt{Kind: "Displayed"}, at: 1, refused: true}, {at: 1, refused: true}},
		},
		"suppressed whole": {
			reports: []report{{Receipt: relay.Receipt{Kind: "suppressed", Reason: "muted", Scope: "all"}, at: 1}},
			want:    relay.Notification{AckedAt: minute(1), Suppressed: true, Reason: "muted", Scope: "all"},
		},
		"suppressed in speech only": {
			reports: []report{{Receipt: relay.Receipt{Kind: "suppressed", Reason: "quiet-hours", Scope: "speech"}, at: 1}},
			want:    relay.Notification{AckedAt: minute(1), Suppressed: true, Reason: "quiet-hours", Scope: "speech"},
		},
		"a later suppression overwrites": {
			reports: []report{
				{Receipt: relay.Receipt{Kind: "suppressed", Reason: "muted", Scope: "all"}, at: 1},
				{Receipt: relay.Receipt{Kind: "suppressed", Reason: "quiet-hours", Scope: "speech"}, at: 2},
			},
			want: relay.Notification{AckedAt: minute(1), Suppressed: true, Reason: "quiet-hours", Scope: "speech"},
		},
		"a suppression without reason or scope": {
			reports: []report{{Receipt: relay.Receipt{Kind: "suppressed"}, at: 1}},
			want:    relay.Notification{AckedAt: minute(1), Suppressed: true, Reason: "suppressed", Scope: "all"},
		},
		"an unknown scope counts as all": {
			reports: []report{{Receipt: relay.Receipt{Kind: "suppressed", Reason: "x", Scope: "Speech"}, at: 1}},
			want:    relay.Notification{AckedAt: minute(1), Suppressed: true, Reason: "x", Scope: "all"},
		},
		"a person may still answer what was suppressed": {
			begin:   relay.Notification{Suppressed: true, Reason: "expired", Scope: "all"},
			reports: []report{{Receipt: replied("late", ""), at: 9, first: true}},
			want:    relay.Notification{AckedAt: minute(9), RepliedAt: minute(9), Text: "late", Suppressed: true, Reason: "expired", Scope: "all"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := test.begin
			for i, r := range test.reports {
				before := n
				first, err := n.Record(r.Receipt, minute(r.at))
				if first != r.first || (err != nil) != r.refused {
					t.Errorf("report %d: first = %v, err = %v", i+1, first, err)
				}
				if r.refused && (!fault.Is(err, fault.Invalid) || fault.From(err).Code != "invalid_request") {
					t.Errorf("report %d: err = %v, want invalid_request", i+1, err)
				}
				if r.refused && !cmp.Equal(before, n) {
					t.Errorf("report %d was refused and changed something: %s", i+1, cmp.Diff(before, n))
				}
			}
			if diff := cmp.Diff(test.want, n); diff != "" {
				t.Errorf("notification (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReasonsOfASuppression(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("a", 40)
	tests := map[string]string{
		"muted": "muted", "quiet-hours": "quiet-hours", "delivery-failed": "delivery-failed", "7": "7", "-": "-", longest: longest,
		"":            "suppressed",
		"Muted":       "suppressed",
		"quiet hours": "suppressed",
		"quiet_hours": "suppressed",
		"müde":        "suppressed",
		" muted":      "suppressed",
		"muted\n":     "suppressed",
		longest + "a": "suppressed",
	}
	for sent, want := range tests {
		var n relay.Notification
		if _, err := n.Record(relay.Receipt{Kind: "suppressed", Reason: sent}, noon); err != nil || n.Reason != want {
			t.Errorf("reason %q is stored as %q (%v), want %q", sent, n.Reason, err, want)
		}
	}
}

func TestWhatStillWaits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		n    relay.Notification
		want bool
	}{
		"new":                       {relay.Notification{}, true},
		"spoken of, never acked":    {relay.Notification{SpokenAt: noon}, true},
		"acknowledged":              {relay.Notification{AckedAt: noon}, false},
		"displayed":                 {relay.Notification{DisplayedAt: noon}, false},
		"suppressed whole":          {relay.Notification{Suppressed: true, Scope: "all"}, false},
		"suppressed in speech only": {relay.Notification{Suppressed: true, Scope: "speech"}, false},
	}
	for name, test := range tests {
		if got := test.n.Waiting(); got != test.want {
			t.Errorf("%s: Waiting = %v", name, got)
		}
		expired := test.n
		if got := expired.Expire(); got != test.want {
			t.Errorf("%s: Expire = %v", name, got)
		}
		want := test.n
		if test.want {
			want.Suppressed, want.Reason, want.Scope = true, "expired", "all"
		}
		if diff := cmp.Diff(want, expired); diff != "" {
			t.Errorf("%s, expired (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnAcknowledgementIsRecordedOnce(t *testing.T) {
	t.Parallel()
	var n relay.Notification
	n.Acknowledge(noon.Add(1234567 * time.Nanosecond))
	n.Acknowledge(minute(5))
	if want := noon.Add(time.Millisecond); !n.AckedAt.Equal(want) {
		t.Errorf("acknowledged at %v, want the first time in whole milliseconds, %v", n.AckedAt, want)
	}
}

func TestTheAnswerIsWhatWasTypedElseTheTranscript(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		n          relay.Notification
		text, kind string
	}{
		"typed":                {relay.Notification{Text: "a"}, "a", "text"},
		"spoken":               {relay.Notification{Transcript: "b"}, "b", "voice"},
		"typed and spoken":     {relay.Notification{Text: "a", Transcript: "b"}, "a", "text"},
		"a clip without words": {relay.Notification{ClipBytes: 9}, "", "voice"},
	}
	for name, test := range tests {
		if test.n.ReplyText() != test.text || test.n.ReplyKind() != test.kind {
			t.Errorf("%s: %q of kind %s", name, test.n.ReplyText(), test.n.ReplyKind())
		}
	}
	for scope, whole := range map[string]bool{"all": true, "speech": false} {
		if n := (relay.Notification{Suppressed: true, Scope: scope}); n.SuppressedWhole() != whole {
			t.Errorf("suppressed with scope %s: SuppressedWhole = %v", scope, n.SuppressedWhole())
		}
	}
}

func TestRepliesAreTrimmedAndCut(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ sent, want string }{
		"white space around":                {" \t\r\n yes  please \n", "yes  please"},
		"lines stay":                        {"a\nb", "a\nb"},
		"NUL is dropped":                    {"a\x00b\x00", "ab"},
		"white space that NUL hid":          {"\x00 yes \x00", "yes"},
		"nothing but NUL":                   {"\x00", ""},
		"4000 characters":                   {strings.Repeat("ä", 4000), strings.Repeat("ä", 4000)},
		"4001 characters lose the last":     {strings.Repeat("a", 4000) + "b", strings.Repeat("a", 4000)},
		"characters are counted, not bytes": {strings.Repeat("😀", 4001), strings.Repeat("😀", 4000)},
		"trimmed before it is cut":          {strings.Repeat(" ", 5000) + "yes", "yes"},
	}
	for name, test := range tests {
		if got := relay.CleanReply(test.sent); got != test.want {
			t.Errorf("%s: %.40q of %d bytes, want %.40q of %d", name, got, len(got), test.want, len(test.want))
		}
	}
	for n, want := range []string{"", "a", "aß", "aß😀", "aß😀"} {
		if got := relay.FirstChars("aß😀", n); got != want {
			t.Errorf("the first %d characters are %q, want %q", n, got, want)
		}
	}
}
