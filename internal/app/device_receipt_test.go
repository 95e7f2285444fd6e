package app_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
)

const unknownID = "r_000000000000000000000000"

func TestReceiptsAndRepliesAreRefusedInOrder(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	agentID, id := devQueued(d, agent)
	other := r.Pair("other")
	_, foreign := devQueued(other, other.Agent("bot"))
	kindField, textField := `"fields":["kind"]`, `"fields":["text"]`
	tests := []struct {
		name, route, body string
		status            int
		code              string
		more              []string
	}{
		{"not JSON", "receipt", `displayed`, 400, "invalid_request", nil},
		{"no body", "receipt", ``, 400, "invalid_request", nil},
		{"not an object", "receipt", `["` + id + `"]`, 400, "invalid_request", nil},
		{"the id twice", "receipt", `{"id":"` + id + `","id":"` + id + `","kind":"displayed"}`, 400, "invalid_request", []string{`"fields":["id"]`}},
		{"a key in other case", "receipt", `{"Id":"` + id + `","kind":"displayed"}`, 400, "invalid_request", []string{`"fields":["Id"]`}},
		{"no id", "receipt", `{"kind":"displayed"}`, 404, "not_found", nil},
		{"the agent's id", "receipt", `{"id":"` + agentID + `","kind":"displayed"}`, 404, "not_found", nil},
		{"an id in capitals", "receipt", `{"id":"` + strings.ToUpper(id) + `","kind":"displayed"}`, 404, "not_found", nil},
		{"an unknown id", "receipt", `{"id":"` + unknownID + `","kind":"displayed"}`, 404, "not_found", nil},
		{"another mailbox's id", "receipt", `{"id":"` + foreign + `","kind":"displayed"}`, 404, "not_found", nil},
		{"an unknown id with an unknown kind", "receipt", `{"id":"` + unknownID + `","kind":"read"}`, 404, "not_found", nil},
		{"an unknown kind", "receipt", `{"id":"` + id + `","kind":"read"}`, 400, "invalid_request", []string{kindField}},
		{"no kind", "receipt", `{"id":"` + id + `"}`, 400, "invalid_request", []string{kindField}},
		{"replied without content", "receipt", `{"id":"` + id + `","kind":"replied"}`, 400, "invalid_request", []string{textField}},
		{"replied with blanks", "receipt", `{"id":"` + id + `","kind":"replied","text":"  ","transcript":"\n"}`, 400, "invalid_request", []string{textField}},

		{"a reply that is not JSON", "reply", `yes`, 400, "invalid_request", nil},
		{"a reply without id", "reply", `{"text":"yes"}`, 404, "not_found", nil},
		{"a reply to an unknown id", "reply", `{"id":"` + unknownID + `","text":"yes"}`, 404, "not_found", nil},
		{"a reply to an unknown id without content", "reply", `{"id":"` + unknownID + `"}`, 404, "not_found", nil},
		{"a reply without content", "reply", `{"id":"` + id + `"}`, 400, "invalid_request", []string{textField}},
		{"a reply with a duration alone", "reply", `{"id":"` + id + `","durationSeconds":3}`, 400, "invalid_request", []string{textField}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			devRefused(t, d.Call("POST", "/v1/device/"+test.route, test.body), test.status, test.code, test.more...)
		})
	}
	big := `{"id":"` + id + `","kind":"displayed","x":"` + strings.Repeat("x", 300<<10) + `"}`
	devRefused(t, d.Call("POST", "/v1/device/receipt", big), 413, "too_large")
	devRefused(t, d.Call("POST", "/v1/device/receipt", `{"id":"`+id+`","kind":"displayed"}`, "Content-Type", "text/plain"), 415, "unsupported_media_type")
	if got := devReceipt(agent, agentID); got.Body["queued"] != true {
		t.Errorf("a refusal changed the receipt: %s", got.Raw)
	}
}

func TestNotificationIdIsAcceptedInPlaceOfId(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	for _, body := range []string{
		`{"notificationId":"ID","kind":"displayed"}`,
		`{"id":null,"notificationId":"ID","kind":"displayed"}`,
		`{"id":"ID","notificationId":"` + unknownID + `","kind":"displayed"}`, // id wins
	} {
		agentID, id := devQueued(d, agent)
		body = strings.ReplaceAll(body, "ID\"", id+"\"")
		devOK(t, d.Call("POST", "/v1/device/receipt", body), 200, `{"ok":true}`)
		if got := devReceipt(agent, agentID); got.Body["displayed"] != true {
			t.Errorf("%s: %s", body, got.Raw)
		}
	}
	agentID, id := devQueued(d, agent)
	devOK(t, d.Call("POST", "/v1/device/reply", `{"notificationId":"`+id+`","text":"yes"}`), 200, `{"ok":true}`)
	if got := devReceipt(agent, agentID); got.Text("reply") != "yes" {
		t.Errorf("receipt = %s", got.Raw)
	}
	// Members of newer apps pass.
	devOK(t, d.Call("POST", "/v1/device/receipt", `{"id":"`+id+`","kind":"spoken","voice":"af_heart"}`), 200, `{"ok":true}`)
}

func TestAReplyIsARepliedReceipt(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	agentID, id := devQueued(d, agent)
	// kind, reason and scope have no meaning here.
	devOK(t, d.Call("POST", "/v1/device/reply", `{"id":"`+id+`","kind":"suppressed","scope":"all","text":" Ship it. ","transcript":"ship it","durationSeconds":1.5}`),
		200, `{"ok":true}`)
	devOK(t, devReceipt(agent, agentID), 200, `{"notificationId":"`+agentID+`","received":true,"receivedAt":"<time>","queued":false,`+
		`"displayed":false,"spoken":false,"replied":true,"repliedAt":"<time>","reply":"Ship it.","text":"Ship it.","transcript":"ship it",`+
		`"transcriptNote":"Transcribed on the person's device from speech; words may be wrong.","durationSeconds":1.5,"expectReply":true,"suppressed":false}`)
	devOK(t, agent.Call("GET", "/v1/replies/"+agentID, nil), 200, `{"notificationId":"`+agentID+`","replied":true,"repliedAt":"<time>",`+
		`"reply":"Ship it.","text":"Ship it.","transcript":"ship it",`+
		`"transcriptNote":"Transcribed on the person's device from speech; words may be wrong.","durationSeconds":1.5,"suppressed":false}`)
}

// The first time of displayed, spoken and replied stays; each over both ways.
func TestTheFirstTimeOfAFactStays(t *testing.T) {
	t.Parallel()
	for _, way := range receiptWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := testkit.New(t, testkit.Options{Pipes: true})
				d := r.Pair("laptop")
				agent := d.Agent("bot")
				s := d.Stream()
				agentID, id := devNotified(agent, s)
				first := map[string]string{}
				for _, report := range []map[string]any{
					{"kind": "displayed"}, {"kind": "spoken"}, {"kind": "replied", "text": "yes"},
				} {
					time.Sleep(1500 * time.Millisecond)
					report["id"] = id
					first[report["kind"].(string)] = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
					way.say(t, d, s, report)
					time.Sleep(time.Minute)
					way.say(t, d, s, report)
				}
				got := devReceipt(agent, agentID)
				for kind, at := range first {
					if got.Text(kind+"At") != at {
						t.Errorf("%sAt = %s, want the first time, %s", kind, got.Text(kind+"At"), at)
					}
				}
			})
		})
	}
}

// What a device reports ends a wait of the agent, or does not (contract section 6.3 and reference page 5).
func TestWhichReportsEndAWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, report string
		ends         bool
	}{
		{"displayed", `{"kind":"displayed"}`, false},
		{"spoken", `{"kind":"spoken"}`, false},
		{"suppressed speech", `{"kind":"suppressed","reason":"quiet-hours","scope":"speech"}`, false},
		{"suppressed whole", `{"kind":"suppressed","reason":"muted","scope":"all"}`, true},
		{"suppressed without a scope", `{"kind":"suppressed"}`, true},
		{"replied", `{"kind":"replied","text":"yes"}`, true},
	}
	for _, way := range receiptWays {
		for _, test := range tests {
			t.Run(way.name+", "+test.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := testkit.New(t, testkit.Options{Pipes: true})
					d := r.Pair("laptop")
					agent := d.Agent("bot")
					s := d.Stream()
					agentID, id := devNotified(agent, s)
					start := time.Now()
					answered := make(chan testkit.Answer, 1)
					go func() {
						a, err := r.Try(t.Context(), "GET", "/v1/replies/"+agentID+"?wait=30", agent.Token, nil)
						if err != nil {
							t.Error(err)
						}
						answered <- a
					}()
					time.Sleep(5 * time.Second)
					way.say(t, d, s, withID(t, test.report, id))
					a, want := <-answered, 30*time.Second
					if test.ends {
						want = 5 * time.Second
					}
					if waited := time.Since(start); waited != want || (a.Body["timedOut"] == true) == test.ends {
						t.Errorf("the wait took %s and answered %s, want %s", waited, a.Raw, want)
					}
				})
			})
		}
	}
}

// A mark of being told: whatever the report, the notification is not sent again and no longer counts as waiting.
func TestEveryReceiptAcknowledges(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	for _, report := range []string{`{"kind":"displayed"}`, `{"kind":"spoken"}`, `{"kind":"replied","text":"a"}`, `{"kind":"suppressed","scope":"speech"}`} {
		agentID, id := devQueued(d, agent)
		devOK(t, d.Call("POST", "/v1/device/receipt", withID(t, report, id)), 200, `{"ok":true}`)
		if got := devReceipt(agent, agentID); got.Body["queued"] != false {
			t.Errorf("%s: %s", report, got.Raw)
		}
		devSettle(d.Stream())
	}
}
