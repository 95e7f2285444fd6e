package subscriber_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/herald-relay/herald/mcpevents/subscriber"
)

func Example() {
	handle := func(_ context.Context, e subscriber.Event) error {
		fmt.Println(e.Name, e.ID) // make it durable before returning nil
		return nil
	}
	sub := subscriber.New(&subscriber.Memory{}, handle, &subscriber.Options{URL: "https://agent.example.com/events"})
	http.Handle("/events", sub)
	go func() { log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil)) }() // behind something that does TLS

	server := subscriber.Dial("https://mcp.example.com/mcp", &subscriber.ClientOptions{
		Authorize: func(_ context.Context, h http.Header) error {
			h.Set("Authorization", "Bearer …")
			return nil
		},
	})
	if err := sub.Add(context.Background(), subscriber.Want{Key: "tickets", Server: server, Name: "ticket.opened"}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(sub.Run(context.Background()))
}
