package gosdk_test

import (
	"context"
	"log"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/gosdk"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

func Example() {
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened", Description: "A ticket was opened."})
	if err != nil {
		log.Fatal(err)
	}
	events, err := mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "tickets", Catalog: catalog}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(events.Run(context.Background())) }()

	sdk := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1"}, nil)
	gosdk.Announce(sdk, events)
	base := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk }, nil)
	authenticate := func(r *http.Request) (mcpevents.Caller, error) {
		return mcpevents.Caller{Principal: r.Header.Get("X-User")}, nil // your own way
	}
	http.Handle("/mcp", gosdk.NewHandler(events, base, authenticate, nil))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}

func ExampleTransport() {
	var sdk *mcp.Server          // with its tools
	var events *mcpevents.Server // with its catalog
	gosdk.Announce(sdk, events)
	err := sdk.Run(context.Background(), &gosdk.Transport{Transport: &mcp.StdioTransport{}, Events: events})
	log.Fatal(err)
}
