package app_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/herald-relay/herald/internal/testkit"
)

// bearer sends a credential with every request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// The official Go SDK's client, an implementation that knows nothing of ours, with a key and with a connector's token.
func TestTheOfficialSDKsClientUsesTheTools(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("Mac")
	a := d.Agent("bot")
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: r.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer{a.Token, http.DefaultTransport}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ServerInfo; got.Name != "herald-relay" {
		t.Errorf("server %+v", got)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 4 {
		t.Fatalf("tools %v, %v", list, err)
	}
	sent, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "send_notification", Arguments: map[string]any{"title": "x", "notificationId": "one"}})
	if err != nil || sent.IsError {
		t.Fatalf("send: %v, %v", sent, err)
	}
	refused, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "send_notification", Arguments: map[string]any{"exec": "x"}})
	if err != nil || !refused.IsError {
		t.Errorf("a forbidden field: %v, %v", refused, err)
	}
	// Public case 136: calls of one id at once are independent, for nothing is kept between them.
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			got := plain(a, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_receipt","arguments":{"notificationId":"one"}}}`)
			if got.Status != 200 {
				t.Errorf("one of many: %d %s", got.Status, got.Raw)
			}
		})
	}
	wg.Wait()
}
