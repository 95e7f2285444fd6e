package app_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/testkit"
)

// twoPeople is a relay of the first person and of eve, each with a device.
func twoPeople(t *testing.T, o testkit.Options) (r *testkit.Relay, first, eve *testkit.Device, name string) {
	t.Helper()
	r = testkit.New(t, o)
	people, err := r.App.Admin().People(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first = r.Pair("Mac")
	i, err := r.App.Admin().AddPerson(t.Context(), "eve")
	if err != nil {
		t.Fatal(err)
	}
	return r, first, r.Redeem(i.Code, "Eve's Mac"), people[0].Name
}

func TestOnARelayOfSeveralPeopleThePageAsksWhoseApproval(t *testing.T) {
	t.Parallel()
	r, first, eve, name := twoPeople(t, testkit.Options{})
	c := register(t, r, nil)
	p := c.browse(t, "GET", "/authorize", c.asks())
	if p.Status != 200 || ridField.Match(p.Raw) || !strings.Contains(string(p.Raw), `name="person"`) || !strings.Contains(string(p.Raw), `value="st&amp;ä te"`) {
		t.Fatalf("%d %s", p.Status, p.Raw)
	}
	if rid := c.authorize(t, "person", "eve"); rid[:48] != eve.Mailbox || len(consents(eve)) != 1 || len(consents(first)) != 0 {
		t.Error("the request did not go to eve")
	}
	c2 := register(t, r, nil)
	rid := c2.authorize(t, "person", " "+strings.ToUpper(name)+" ")
	if rid[:48] != first.Mailbox {
		t.Error("the request did not go to the first person")
	}
	if held := c2.exchange(t, approved(t, first, rid)); !works(r, held.access) {
		t.Error("the token does not work")
	}
	if n := len(eve.Call("GET", "/v1/device/audit", nil).Body["entries"].([]any)); n != 0 {
		t.Errorf("eve reads %d decisions of another person", n)
	}
}

// steady is an answer without what differs from request to request.
func steady(a testkit.Answer) string {
	return regexp.MustCompile(`[0-9a-f]{48,}|[BCDFGHJKMNPQRTWXZ]{4}-[BCDFGHJKMNPQRTWXZ]{4}|data-seconds="\d+"|hc_[0-9a-f]+`).ReplaceAllString(string(a.Raw), "…")
}

func TestAHandleThatNobodyHasLooksLikeOneThatNeverApproves(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		r, _, eve, _ := twoPeople(t, testkit.Options{Pipes: true, Config: roomy})
		eve.Stream()
		known, unknown := "eve", "nobody-here"
		answers := map[string][]string{}
		for _, person := range []string{known, unknown} {
			note := func(a testkit.Answer) { answers[person] = append(answers[person], steady(a)) }
			c := register(t, r, nil)
			p := c.browse(t, "GET", "/authorize", c.asks("person", person))
			note(p.Answer)
			rid := p.rid(t)
			note(c.browse(t, "GET", "/authorize/status", values(nil, "rid", rid)).Answer)
			for range 5 {
				note(c.browse(t, "POST", "/authorize/code", values(nil, "rid", rid, "code", "x")).Answer)
			}
			note(c.browse(t, "GET", "/authorize/status", values(nil, "rid", rid)).Answer)
			d := deviceClient(t, r)
			begun := d.beginDevice(t, "person", person, "device", "2")
			note(begun)
			note(d.beginDevice(t, "person", person, "device", "1"))
			begun = d.beginDevice(t, "person", person)
			note(begun)
			note(d.browse(t, "POST", "/activate", values(nil, "user_code", begun.Text("user_code"))).Answer)
			time.Sleep(6 * time.Second)
			note(d.poll(t, begun.Text("device_code")))
			time.Sleep(10 * time.Minute)
			note(d.poll(t, begun.Text("device_code")))
			for range 13 {
				note(register(t, r, nil).beginDevice(t, "person", person))
			}
			time.Sleep(time.Hour)
		}
		if diff := cmp.Diff(answers[known], answers[unknown]); diff != "" {
			t.Errorf("a stranger can tell them apart (-known +unknown):\n%s", diff)
		}
	})
}

func TestTheDeviceFlowNeedsAHandleOnARelayOfSeveralPeople(t *testing.T) {
	t.Parallel()
	r, _, eve, _ := twoPeople(t, testkit.Options{})
	c := deviceClient(t, r)
	if a := c.beginDevice(t); a.Status != 400 || a.Code() != "invalid_request" || !strings.Contains(a.Text("error_description"), "person") {
		t.Errorf("%d %s", a.Status, a.Raw)
	}
	if a := c.beginDevice(t, "person", "eve"); a.Status != 200 || a.Text("device_name") != "Mac 1" || len(consents(eve)) != 1 {
		t.Errorf("%d %s", a.Status, a.Raw)
	}
}

func TestARequestOfAnotherPersonsClientIsNotSuperseded(t *testing.T) {
	t.Parallel()
	r, first, eve, name := twoPeople(t, testkit.Options{})
	c := register(t, r, nil)
	mine := c.authorize(t, "person", name)
	theirs := c.authorize(t, "person", "eve")
	if a := decide(eve, theirs, "approve"); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Raw)
	}
	if a := decide(first, mine, "approve"); a.Status != 200 {
		t.Errorf("the first person's request was closed by another's: %d %s", a.Status, a.Raw)
	}
}
