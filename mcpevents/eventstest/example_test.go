package eventstest_test

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/herald-relay/herald/mcpevents/eventstest"
)

func ExampleReceiver() {
	net := eventstest.NewNet()
	r := eventstest.NewReceiver().Script(eventstest.Statuses(500, 204)...)
	net.Handle("agent.example.com", r)

	client := &http.Client{Transport: net}
	for range 2 {
		resp, err := client.Post("https://agent.example.com/hooks", "application/json", bytes.NewReader([]byte(`{"eventId":"e1"}`)))
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	fmt.Println(len(r.Deliveries()), r.Events())
	// Output:
	// 500
	// 204
	// 2 [e1]
}
