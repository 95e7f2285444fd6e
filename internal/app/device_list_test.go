package app_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/testkit"
)

func manyDevices(c *config.Config) { c.MaxDevices, c.PairStartsPerHour = 50, 100 }

func entry(d *testkit.Device, name, rest string) string {
	return `{"id":"` + d.Mailbox + `","name":` + name + `,` + rest + `}`
}

func TestTheDeviceListShowsThePersonsMailboxesOldestFirst(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	first, second, nameless := r.Pair("laptop"), r.Pair("studio"), r.Pair("")
	second.Link("phone") // a linked device is no entry of its own
	second.Stream()
	const never, rest = `"online":false,"lastSeenAt":null,"createdAt":"<time>",`, `"removable":false`
	devOK(t, first.Call("GET", "/v1/device/devices", nil), 200, `{"removed":[],"devices":[`+
		entry(first, `"laptop"`, never+`"thisDevice":true,`+rest)+`,`+
		entry(second, `"studio"`, `"online":true,"lastSeenAt":"<time>","createdAt":"<time>","thisDevice":false,`+rest)+`,`+
		entry(nameless, `null`, never+`"thisDevice":false,`+rest)+`]}`)
	devOK(t, nameless.Call("POST", "/v1/device/prune", nil), 200, `{"removed":[],"devices":[`+
		entry(first, `"laptop"`, never+`"thisDevice":false,`+rest)+`,`+
		entry(second, `"studio"`, `"online":true,"lastSeenAt":"<time>","createdAt":"<time>","thisDevice":false,`+rest)+`,`+
		entry(nameless, `null`, never+`"thisDevice":true,`+rest)+`]}`)
}

// reasons reads the list as "name removableReason", sorted; "-" is for an entry that may not be removed.
func reasons(d *testkit.Device) (out []string) {
	d.T.Helper()
	list, _ := d.Call("GET", "/v1/device/devices", nil).Body["devices"].([]any)
	for _, item := range list {
		e, _ := item.(map[string]any)
		name, _ := e["name"].(string)
		reason, _ := e["removableReason"].(string)
		if removable := e["removable"] == true; removable != (reason != "") {
			d.T.Errorf("removable = %v with reason %q", removable, reason)
		}
		out = append(out, name+" "+orDash(reason))
	}
	slices.Sort(out)
	return out
}

func orDash(reason string) string {
	if reason == "" {
		return "-"
	}
	return reason
}

// inStore changes the database of a relay that does not run.
func inStore(t *testing.T, dir string, fn func(store.Tx) error) {
	t.Helper()
	testkit.OnSQLite(t)
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, app.DatabaseFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(st.Update(t.Context(), fn), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// plant writes mailboxes of the first person that no present pairing would make: old ones, doubles, those of an
// earlier secret.
func plant(t *testing.T, dir string, boxes ...relay.Mailbox) {
	t.Helper()
	inStore(t, dir, func(tx store.Tx) error {
		people, err := tx.People().List()
		for _, b := range boxes {
			b.Person = people[0].ID
			err = errors.Join(err, tx.Mailboxes().Create(b))
		}
		return err
	})
}

// aged is a mailbox of the present secret that was paired, and if seen is not zero last seen, that long ago.
func aged(name string, paired, seen time.Duration) relay.Mailbox {
	m := relay.Mailbox{ID: credential.NewSigner(testkit.Secret).NewMailboxID(), Name: name, CreatedAt: time.Now().Add(-paired)}
	if seen != 0 {
		m.LastSeenAt = time.Now().Add(-seen)
	}
	return m
}

const day = 24 * time.Hour

// The reasons come in the order same_name, credentials_rotated, idle.
func TestWhyADeviceMayBeRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		old := testkit.New(t, testkit.Options{Pipes: true, Dir: dir, Config: func(c *config.Config) {
			c.RelaySecret = "an earlier secret of more than 32 characters"
		}})
		rotated := old.Pair("rotated")
		old.Stop()
		r := testkit.New(t, testkit.Options{Pipes: true, Dir: dir, Config: manyDevices})
		devRefused(t, r.Do("GET", "/v1/device/info", rotated.Token, nil), 401, "unauthorized")
		self, nameless := r.Pair("self"), r.Pair("")
		r.Stop()
		unsigned := func(digit, name string) relay.Mailbox {
			return relay.Mailbox{ID: relay.MailboxID(strings.Repeat(digit, 48)), Name: name, CreatedAt: time.Now().Add(-8 * day)}
		}
		plant(t, dir, unsigned("e", "self"), unsigned("f", ""),
			aged("self", 8*day, 0), aged("never seen", 7*day, 0), aged("paired just later", 7*day-time.Minute, 0),
			aged("seen long ago", 9*day, 8*day), aged("seen lately", 29*day, 7*day-time.Minute), aged("", 8*day, 0), aged("", day, 0))
		r = testkit.New(t, testkit.Options{Pipes: true, Dir: dir, Config: manyDevices})
		self.Relay, nameless.Relay = r, r
		want := []string{"rotated credentials_rotated", "self -", " -", "self same_name", " credentials_rotated", "self same_name",
			"never seen idle", "paired just later -", "seen long ago idle", "seen lately -", " idle", " -"}
		slices.Sort(want)
		if diff := cmp.Diff(want, reasons(self)); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
		want = []string{"rotated credentials_rotated", "self -", " -", "self credentials_rotated", " credentials_rotated", "self idle",
			"never seen idle", "paired just later -", "seen long ago idle", "seen lately -", " idle", " -"}
		slices.Sort(want)
		if diff := cmp.Diff(want, reasons(nameless)); diff != "" {
			t.Errorf("as one without a name sees it, reasons (-want +got):\n%s", diff)
		}
	})
}

func TestRemovingFromTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := testkit.New(t, testkit.Options{Pipes: true, Dir: dir, Config: manyDevices})
		self := r.Pair("self")
		r.Stop()
		box := aged("idle", 7*day-time.Minute, 0)
		plant(t, dir, box)
		idle := &testkit.Device{Mailbox: string(box.ID), Token: plantDevice(t, dir, box.ID)}
		r = testkit.New(t, testkit.Options{Pipes: true, Dir: dir, Config: manyDevices})
		self.Relay, idle.Relay = r, r
		remove := func(id string) testkit.Answer { return self.Call("DELETE", "/v1/device/devices/"+id, nil) }
		devRefused(t, remove(self.Mailbox), 400, "invalid_request", `"fields":["deviceId"]`)
		devRefused(t, remove(idle.Mailbox), 403, "not_removable")
		devRefused(t, remove(strings.Repeat("0", 48)), 404, "not_found")
		devRefused(t, remove("0"), 404, "not_found")

		agent := idle.Agent("bot")
		agentID := agent.Send(map[string]any{"title": "x"})
		time.Sleep(time.Minute)
		devOK(t, remove(idle.Mailbox), 200, `{"removed":["`+idle.Mailbox+`"]}`)
		devRefused(t, idle.Call("GET", "/v1/device/info", nil), 401, "unauthorized")
		devRefused(t, agent.Call("GET", "/v1/receipts/"+agentID, nil), 401, "unauthorized")
		devRefused(t, remove(idle.Mailbox), 404, "not_found")
	})
}

// plantDevice gives a planted mailbox its device and returns the device's token.
func plantDevice(t *testing.T, dir string, m relay.MailboxID) string {
	t.Helper()
	token, hash := credential.MintDeviceToken(m)
	inStore(t, dir, func(tx store.Tx) error {
		return tx.Devices().Create(relay.Device{ID: "0123456789abcdef", Mailbox: m, TokenHash: hash, Owner: true, CreatedAt: time.Now()})
	})
	return token
}

func TestPruneRemovesDoublesRotatedAndThoseIdleForThirtyDays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := testkit.New(t, testkit.Options{Pipes: true, Dir: dir, Config: manyDevices})
		self := r.Pair("self")
		r.Stop()
		// The sweep of the start takes those that were idle for more than thirty days; prune takes the thirty as well.
		double, idle, almost := aged("self", day, time.Hour), aged("idle", 30*day, 0), aged("almost", 40*day, 30*day-time.Hour)
		rotated := relay.Mailbox{ID: relay.MailboxID(strings.Repeat("f", 48)), Name: "other", CreatedAt: time.Now().Add(-time.Hour)}
		plant(t, dir, double, idle, almost, rotated)
		r = testkit.New(t, testkit.Options{Pipes: true, Dir: dir, Config: manyDevices})
		self.Relay = r
		a := self.Call("POST", "/v1/device/prune", nil)
		devOK(t, a, 200, `{"removed":["`+string(idle.ID)+`","`+string(double.ID)+`","`+string(rotated.ID)+`"],"devices":[`+
			`{"id":"`+string(almost.ID)+`","name":"almost","online":false,"lastSeenAt":"<time>","createdAt":"<time>","thisDevice":false,"removable":true,"removableReason":"idle"},`+
			entry(self, `"self"`, `"online":false,"lastSeenAt":null,"createdAt":"<time>","thisDevice":true,"removable":false`)+`]}`)
	})
}

func TestUnpairingEndsEverythingOfTheMailbox(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d, other := r.Pair("laptop"), r.Pair("other")
	phone := d.Link("phone")
	agent, others := d.Agent("bot"), other.Agent("bot")
	agent.Send(map[string]any{"title": "x"})
	pending := d.Call("POST", "/v1/device/links", nil).Text("code")
	devOK(t, d.Call("DELETE", "/v1/device", nil), 200, `{"unpaired":true}`)
	for name, token := range map[string]string{"owner": d.Token, "linked device": phone.Token, "agent key": agent.Token} {
		path := "/v1/device/info"
		if name == "agent key" {
			path = "/v1/status"
		}
		if a := r.Do("GET", path, token, nil); a.Status != 401 || a.Code() != "unauthorized" {
			t.Errorf("%s: %d %s, want 401", name, a.Status, a.Raw)
		}
	}
	devRefused(t, d.Call("DELETE", "/v1/device", nil), 401, "unauthorized")
	devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": pending}), 403, "bad_code")
	if got := reasons(other); len(got) != 1 {
		t.Errorf("devices = %v, want the other alone", got)
	}
	others.Send(map[string]any{"title": "the other's agent works"})
}

func TestMaxDevicesCountsMailboxesNotLinks(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.MaxDevices = 2 }})
	d := r.Pair("one")
	for i := range 4 {
		d.Link(fmt.Sprint("linked ", i))
	}
	r.Pair("two")
	devRefused(t, r.Do("POST", "/v1/pair/start", "", map[string]any{"deviceName": "three"}), 403, "device_limit")
	d.Link("linked still")
	devOK(t, d.Call("DELETE", "/v1/device", nil), 200, `{"unpaired":true}`)
	r.Pair("three")
}
