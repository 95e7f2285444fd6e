package local

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/client"
	"github.com/herald-relay/herald/internal/testkit"
)

// inBubble answers for a device of a relay on a network of pipes.
func inBubble(d *testkit.Device) *Local {
	return New(Options{
		Open: func() (*client.Relay, profile.Profile, error) {
			r, err := client.New(d.URL, &client.Options{MaxWait: -1, HTTP: d.HTTP})
			return r, profile.Profile{Relay: d.URL, Token: d.Token}, err
		},
		Explain: func(err error) *Problem { return &Problem{Code: "failed", Message: err.Error()} },
	})
}

func TestATrialGivesUpOnADeviceThatShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := testkit.New(t, testkit.Options{Pipes: true}).Pair("desk")
		d.Stream()
		began := time.Now()
		got, err := inBubble(d).Test(t.Context())
		if err != nil || got.OK || got.State != "queued" || got.Message != judge(client.Receipt{}, true).Message {
			t.Errorf("Test = %+v, %v", got, err)
		}
		if waited := time.Since(began); waited < trialWithin || waited > trialWithin+time.Second {
			t.Errorf("it waited %s", waited)
		}
	})
}

func TestATrialRemovesWhatAnEarlierOneLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := testkit.New(t, testkit.Options{Pipes: true}).Pair("desk")
		d.Agent("herald-test-00000001")
		d.Agent("herald-test-mine")
		time.Sleep(leftOver + time.Minute)
		d.Agent("herald-test-00000002")
		if _, err := inBubble(d).Test(t.Context()); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, k := range d.Call("GET", "/v1/device/keys", nil).Body["keys"].([]any) {
			names = append(names, k.(map[string]any)["name"].(string))
		}
		if len(names) != 2 || names[0] != "herald-test-mine" || names[1] != "herald-test-00000002" {
			t.Errorf("keys: %v", names)
		}
	})
}
