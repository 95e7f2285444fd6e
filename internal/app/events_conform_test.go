package app_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/conform"
)

// relayDeviates are rules of dialect sep that the relay breaks on purpose: it answers as the published one does.
var relayDeviates = map[int]string{
	326: "a ttlMs that makes no sense is refused",
	411: "a failed verification has words of its own", 414: "likewise", 415: "likewise",
	706: "a cursor of nobody's is ignored, so there is no gap to tell",
}

// TestTheRelayHoldsTheRulesOfEvents checks the relay itself, as herald events check does, in both dialects.
func TestTheRelayHoldsTheRulesOfEvents(t *testing.T) {
	inHooked(t, func(t *testing.T, h *hooked) {
		receiver := &conform.Receiver{URL: "https://check.example.net"}
		h.net.Handle("check.example.net", receiver)
		sent := 0
		report, err := conform.Run(t.Context(), conform.Options{
			URL: h.URL + "/mcp", HTTP: h.HTTP.Transport, Receiver: receiver, Closed: "https://closed.example.net/hook",
			Authorize: func(head http.Header) { head.Set("Authorization", "Bearer "+h.agent.Token) },
			Wait:      10 * time.Minute, Limit: 1000 * time.Hour,
			Trigger: func(context.Context, string) error {
				sent++
				h.answered(h.agent, map[string]any{"notificationId": fmt.Sprint("check-", sent)})
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		passed := 0
		for _, p := range report.Passages {
			for _, res := range p.Results {
				switch {
				case res.Outcome == conform.Pass:
					passed++
				case res.Outcome == conform.Fail && (p.Dialect != conform.SEP || relayDeviates[res.Rule.Number] == ""):
					t.Errorf("%s: rule %d fails: %s\nsent %s\nwant %s\ngot %s", p.Dialect, res.Rule.Number, res.Rule.Text, res.Sent, res.Want, res.Got)
				}
			}
		}
		if len(report.Passages) != 2 || passed < 180 {
			t.Errorf("%d rules pass in %d dialects", passed, len(report.Passages))
		}
	})
}
