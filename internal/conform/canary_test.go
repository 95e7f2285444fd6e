package conform_test

import (
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/conform"
	"github.com/herald-relay/herald/mcpevents"
)

// TestCanarySeesWhoConnects runs the one rule that needs a real listener, with a server that leaves it alone and one that does not.
func TestCanarySeesWhoConnects(t *testing.T) {
	curious := asked("events/subscribe", func(c *call) {
		to, _ := in(c.params, "delivery")["url"].(string)
		if u, err := url.Parse(to); err == nil && strings.HasPrefix(u.Hostname(), "127.") {
			if conn, err := net.Dial("tcp", u.Host); err == nil {
				_ = conn.Close()
			}
		}
	})
	for name, c := range map[string]struct {
		ways ways
		want conform.Outcome
	}{"discreet": {ways{}, conform.Pass}, "curious": {curious, conform.Fail}} {
		t.Run(name, func(t *testing.T) {
			canary, err := conform.ListenCanary()
			if err != nil {
				t.Fatal(err)
			}
			defer canary.Close()
			report := checkHere(t, mcpevents.SEP(), conform.SEP, c.ways, func(o *conform.Options) {
				o.Canary = canary
				o.Chosen, _ = conform.ParseChoice("317")
			})
			if res := report.Passages[0].Results; len(res) != 1 || res[0].Outcome != c.want {
				t.Errorf("got %+v, want %s", res, c.want)
			}
		})
	}
}
