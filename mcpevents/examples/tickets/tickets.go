// Command tickets is the whole of an MCP server with events: whoever posts to /tickets opens one, and every subscriber is
// told. It is the code of docs/add-events.md.
package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

func main() {
	handler, events, err := newServer()
	if err == nil {
		var background sync.WaitGroup
		background.Go(func() { _ = events.Run(context.Background()) }) // it ends with its context only
		server := &http.Server{Addr: "127.0.0.1:8080", Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		err = server.ListenAndServe()
	}
	panic(err)
}

func newServer() (http.Handler, *mcpevents.Server, error) {
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened", Description: "A ticket was opened. Read it by its id."})
	if err != nil {
		return nil, nil, err
	}
	events, err := mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "tickets", Catalog: catalog}}, nil)
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcpevents.NewHandler(events, whoIsIt, nil))
	mux.HandleFunc("POST /tickets/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, err := events.Emit(r.Context(), mcpevents.Emission{Name: "ticket.opened", Data: map[string]string{"id": r.PathValue("id")}})
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
	return mux, events, nil
}

// whoIsIt is where your own authentication belongs.
func whoIsIt(r *http.Request) (mcpevents.Caller, error) {
	return mcpevents.Caller{Principal: r.Header.Get("Authorization")}, nil
}
