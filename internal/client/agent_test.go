package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

const key = "hrk_d_k_s"

func TestNotifySendsEveryFieldThatIsSet(t *testing.T) {
	yes, no := true, false
	n := Notification{
		Title: "T", Body: "B", Subtitle: "S", Status: "done", Project: "p", Session: "s", Task: "t", Tool: "l", Group: "g",
		Duration: "3 min", Link: "https://a.example/", NotificationID: "id-1", Tags: []string{"x", "y"}, Priority: "high",
		Persistent: &yes, TimeoutSeconds: 30, Sound: "default", Presentation: "both", Icon: "https://a.example/i.png",
		ImageURL: "https://a.example/p.png", Speak: &Speak{Text: "hi", Voice: "af_heart", Lang: "en-us", Speed: 1.5},
		Voice: "v", Speed: 2, ExpectReply: true, AllowVoiceReply: &no,
		Extra: ExtraField{"later": jsontext.Value(`{"a":1}`)},
	}
	body := `{"title":"T","body":"B","subtitle":"S","status":"done","project":"p","session":"s","task":"t","tool":"l","group":"g",
		"duration":"3 min","link":"https://a.example/","notificationId":"id-1","tags":["x","y"],"priority":"high",
		"persistent":true,"timeoutSeconds":30,"sound":"default","presentation":"both","icon":"https://a.example/i.png",
		"imageURL":"https://a.example/p.png","speak":{"text":"hi","voice":"af_heart","lang":"en-us","speed":1.5},
		"voice":"v","speed":2,"expectReply":true,"allowVoiceReply":false,"later":{"a":1}}`
	r := fake(t, exchange{method: "POST", path: "/v1/notify", token: key, body: body, status: 202,
		answer: `{"notificationId":"id-1","received":true,"receivedAt":"2026-10-05T06:00:00.123Z","queued":true,"displayed":false,
		"spoken":false,"replied":false,"expectReply":true,"suppressed":false,"duplicate":false,"new":1}`})
	got, err := r.Agent(key).Notify(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	want := Sent{Receipt: Receipt{NotificationID: "id-1", Received: true, Queued: true, ExpectReply: true,
		ReceivedAt: time.Date(2026, 10, 5, 6, 0, 0, 123e6, time.UTC)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("receipt (-want +got):\n%s", diff)
	}
}

func TestNotifyIsSafeToRepeat(t *testing.T) {
	var ids []string
	opt := &Options{HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		var n Notification
		if err := json.UnmarshalRead(r.Body, &n); err != nil {
			t.Error(err)
		}
		ids = append(ids, n.NotificationID)
		return nil, errors.New("lost")
	})}}
	r, err := New("https://relay.example", opt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Agent(key).Notify(t.Context(), Notification{Title: "t"}); !isUnreachable(err) {
		t.Fatalf("error = %v", err)
	}
	if len(ids) != maxAttempts || ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] || strings.HasPrefix(ids[0], "n_") {
		t.Errorf("ids of the attempts = %q, want one id of our own", ids)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestIdsAreEscapedInPaths(t *testing.T) {
	r := fake(t, exchange{method: "GET", path: "/v1/receipts/a%2F..%2Fb%3Fc", token: key, status: 404,
		answer: `{"error":"not_found","message":"m"}`})
	if _, err := r.Agent(key).Receipt(t.Context(), "a/../b?c"); Code(err) != "not_found" {
		t.Errorf("error = %v", err)
	}
}

func TestSpeakShapes(t *testing.T) {
	for text, want := range map[string]Speak{
		`true`:                     {},
		`false`:                    {Off: true},
		`{"text":"a"}`:             {Text: "a"},
		`{"speed":1.5}`:            {Speed: 1.5},
		`{"voice":"v","lang":"e"}`: {Voice: "v", Lang: "e"},
	} {
		var got Speak
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s = %+v, %v; want %+v", text, got, err, want)
		}
		again, err := json.Marshal(got)
		if diff := cmp.Diff(tree(t, text), tree(t, string(again))); err != nil || diff != "" {
			t.Errorf("%s written again: %v\n%s", text, err, diff)
		}
	}
	var got Speak
	if err := json.Unmarshal([]byte(`"a"`), &got); err != nil || got != (Speak{Text: "a"}) {
		t.Errorf("a string = %+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`[]`), &got); err == nil {
		t.Error("an array was taken")
	}
	if _, err := json.Marshal(Speak{Off: true, Text: "a"}); err == nil {
		t.Error("a silent speech with a text was written")
	}
}

func TestOverride(t *testing.T) {
	n := Notification{Title: "T", Tags: []string{"a"}, ExpectReply: true}
	err := n.Override(ExtraField{"title": jsontext.Value(`"U"`), "tags": jsontext.Value(`null`), "speak": jsontext.Value(`"x"`), "later": jsontext.Value(`[1]`)})
	want := Notification{Title: "U", ExpectReply: true, Speak: &Speak{Text: "x"}, Extra: ExtraField{"later": jsontext.Value(`[1]`)}}
	if diff := cmp.Diff(want, n); err != nil || diff != "" {
		t.Errorf("Override: %v (-want +got):\n%s", err, diff)
	}
	if _, err := json.Marshal(n); err != nil {
		t.Errorf("cannot be written: %v", err)
	}
	if err := n.Override(ExtraField{"title": jsontext.Value(`5`)}); err == nil || !strings.Contains(err.Error(), "title") {
		t.Errorf("a number for a title = %v", err)
	}
}

// answers is a relay of one notification in virtual time: each poll lasts and yields what its step says.
type answers struct {
	t     *testing.T
	steps []step
	asked []string // query of each poll
}

type step struct {
	lasts  time.Duration
	err    error
	status int
	body   string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, strings.TrimPrefix(r.URL.RequestURI(), "/v1/"))
	if len(a.steps) == 0 {
		a.t.Fatalf("unexpected request %s", r.URL)
	}
	s := a.steps[0]
	a.steps = a.steps[1:]
	if !sleep(r.Context(), s.lasts) {
		return nil, r.Context().Err()
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.status == 0 {
		s.status = 200
	}
	body := io.NopCloser(strings.NewReader(s.body))
	return &http.Response{StatusCode: s.status, Body: body, Request: r, Header: http.Header{}}, nil
}

func (a *answers) agent(t *testing.T) *Agent {
	t.Helper()
	r, err := New("https://relay.example", &Options{HTTP: &http.Client{Transport: a}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Agent(key)
}

func TestAwait(t *testing.T) {
	const (
		open     = `{"notificationId":"n","replied":false,"suppressed":false}`
		timedOut = `{"notificationId":"n","replied":false,"suppressed":false,"timedOut":true}`
		replied  = `{"notificationId":"n","replied":true,"reply":"yes","text":"yes","suppressed":false}`
		held     = `{"notificationId":"n","replied":false,"suppressed":true,"reason":"quiet-hours"}`
		heldAll  = `{"notificationId":"n","received":true,"suppressed":true,"suppressedScope":"all","reason":"quiet-hours"}`
		heldMute = `{"notificationId":"n","received":true,"suppressed":true,"suppressedScope":"speech","reason":"quiet-hours"}`
	)
	answer := Answer{Reply: "yes", Text: "yes"}
	for _, c := range []struct {
		name    string
		timeout time.Duration
		steps   []step
		want    Reply
		code    string // of the error
		took    time.Duration
		asked   []string
	}{
		{
			name: "a reply ends the wait", timeout: 2 * time.Minute,
			steps: []step{{lasts: 50 * time.Second, body: timedOut}, {lasts: 10 * time.Second, body: replied}},
			want:  Reply{NotificationID: "n", Replied: true, Answer: answer},
			took:  time.Minute, asked: []string{"replies/n?wait=50", "replies/n?wait=50"},
		}, {
			name: "time runs out", timeout: 80 * time.Second,
			steps: []step{{lasts: 50 * time.Second, body: timedOut}, {lasts: 30 * time.Second, body: timedOut}},
			want:  Reply{NotificationID: "n", TimedOut: true},
			took:  80 * time.Second, asked: []string{"replies/n?wait=50", "replies/n?wait=30"},
		}, {
			name: "suppression of everything ends it", timeout: time.Minute,
			steps: []step{{lasts: time.Second, body: held}, {body: heldAll}},
			want:  Reply{NotificationID: "n", Suppressed: true, Reason: "quiet-hours"},
			took:  time.Second, asked: []string{"replies/n?wait=50", "receipts/n"},
		}, {
			name: "suppressed speech does not", timeout: 51 * time.Second,
			steps: []step{{lasts: time.Second, body: held}, {body: heldMute}, {lasts: 10 * time.Second, body: replied}},
			want:  Reply{NotificationID: "n", Replied: true, Answer: answer},
			took:  13 * time.Second, asked: []string{"replies/n?wait=50", "receipts/n", "replies/n?wait=48"},
		}, {
			name: "a poll that may not wait is not repeated at once", timeout: 20 * time.Second,
			steps: slices.Repeat([]step{{body: open}}, 12),
			want:  Reply{NotificationID: "n", TimedOut: true}, took: 20 * time.Second,
		}, {
			name: "no time means one look", timeout: 0,
			steps: []step{{body: open}},
			want:  Reply{NotificationID: "n", TimedOut: true}, took: 0, asked: []string{"replies/n"},
		}, {
			name: "an unknown notification is an error at once", timeout: time.Hour,
			steps: []step{{status: 404, body: `{"error":"not_found","message":"m"}`}},
			code:  "not_found",
		}, {
			name: "a spent day is not waited for", timeout: 24 * time.Hour,
			steps: []step{{status: 503, body: `{"error":"budget_exhausted","message":"m","retryAfterSeconds":30000}`}},
			code:  "budget_exhausted",
		}, {
			name: "a read limit is", timeout: 2 * time.Minute,
			steps: []step{{status: 429, body: `{"error":"rate_limited","message":"m","retryAfterSeconds":60}`}, {body: replied}},
			want:  Reply{NotificationID: "n", Replied: true, Answer: answer}, took: time.Minute,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &answers{t: t, steps: c.steps}
				start := time.Now()
				got, err := a.agent(t).Await(t.Context(), "n", c.timeout)
				if Code(err) != c.code || c.code == "" && err != nil {
					t.Fatalf("error = %v, want code %q", err, c.code)
				}
				if err == nil {
					if diff := cmp.Diff(c.want, got); diff != "" {
						t.Errorf("reply (-want +got):\n%s", diff)
					}
				}
				if took := time.Since(start).Round(3 * time.Second); took != c.took.Round(3*time.Second) {
					t.Errorf("took %v, want about %v", time.Since(start), c.took)
				}
				if c.asked != nil && len(a.asked) == len(c.asked) {
					for i := range c.asked {
						if p, q := c.asked[i], a.asked[i]; p != q && !nearly(p, q) {
							t.Errorf("request %d = %s, want %s", i, q, p)
						}
					}
				} else if c.asked != nil {
					t.Errorf("requests = %q, want %q", a.asked, c.asked)
				}
			})
		})
	}
}

// nearly forgives what jitter does to the last poll's wait.
func nearly(want, got string) bool {
	w, _, _ := strings.Cut(want, "=")
	g, _, _ := strings.Cut(got, "=")
	return w == g && strings.HasSuffix(want, "=48")
}

// Public case 84: clients and proxies on the way give up after a minute, so no single request lasts that long.
func TestCase084NoPollLastsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timedOut := step{lasts: longPoll, body: `{"notificationId":"n","replied":false,"timedOut":true}`}
		a := &answers{t: t, steps: slices.Repeat([]step{timedOut}, 6)}
		r, err := a.agent(t).Await(t.Context(), "n", 5*time.Minute)
		if err != nil || !r.TimedOut || r.NotificationID != "n" {
			t.Errorf("Await = %+v, %v", r, err)
		}
		for _, asked := range a.asked {
			if asked != "replies/n?wait=50" {
				t.Errorf("asked %s", asked)
			}
		}
	})
}

func TestAwaitRidesOutALostRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := step{err: errors.New("refused")}
		replied := step{body: `{"notificationId":"n","replied":true,"reply":"yes","suppressed":false}`}
		a := &answers{t: t, steps: append(make([]step, 0), gone, gone, gone, gone, gone, gone, gone, replied)}
		got, err := a.agent(t).Await(t.Context(), "n", 10*time.Minute)
		if err != nil || got.Reply != "yes" {
			t.Errorf("Await = %+v, %v", got, err)
		}
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		a := &answers{t: t, steps: []step{{lasts: time.Hour}}}
		start := time.Now()
		if _, err := a.agent(t).Await(ctx, "n", time.Hour); err == nil {
			t.Error("no error")
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
