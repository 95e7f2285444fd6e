// Command tickets is the whole of an MCP server with events: whoever posts to /tickets opens one, and every subscriber is
// told. It is the code of docs/add-events.md.
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

func main() {
	mux, events := newServer()
	go func() { log.Fatal(events.Run(context.Background())) }()
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", mux))
}

func newServer() (*http.ServeMux, *mcpevents.Server) {
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened", Description: "A ticket was opened. Read it by its id."})
	if err != nil {
		log.Fatal(err)
	}
	events, err := mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "tickets", Catalog: catalog}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcpevents.NewHandler(events, whoIsIt, nil))
	mux.HandleFunc("POST /tickets/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, err := events.Emit(r.Context(), mcpevents.Emission{Name: "ticket.opened", Data: map[string]string{"id": r.PathValue("id")}})
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
	return mux, events
}

// whoIsIt is where your own authentication belongs.
func whoIsIt(r *http.Request) (mcpevents.Caller, error) {
	return mcpevents.Caller{Principal: r.Header.Get("Authorization")}, nil
}
