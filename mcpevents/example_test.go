package mcpevents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

func newExample() (*mcpevents.Server, driver.Driver) {
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened", Description: "A ticket was opened."})
	if err != nil {
		panic(err)
	}
	db := memdriver.New()
	srv, err := mcpevents.New(db, []mcpevents.Family{{Name: "tickets", Catalog: catalog}}, nil)
	if err != nil {
		panic(err)
	}
	return srv, db
}

func ExampleNew() {
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{
		Name:        "ticket.opened",
		Description: "A ticket was opened. Read it with get_ticket.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"severity":{"enum":["P1","P2"]}},"additionalProperties":false}`),
		Filter:      mcpevents.Equal("severity", "severity"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := mcpevents.SEP()
	policy.Order.Strict = true
	_, err = mcpevents.New(memdriver.New(), []mcpevents.Family{{Name: "tickets", Policy: policy, Catalog: catalog}}, nil)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleServer_Emit() {
	srv, _ := newExample()
	first, _ := srv.Emit(context.Background(), mcpevents.Emission{Name: "ticket.opened", ID: "T-1", Data: map[string]string{"id": "T-1"}})
	again, err := srv.Emit(context.Background(), mcpevents.Emission{Name: "ticket.opened", ID: "T-1", Data: map[string]string{"id": "T-1"}})
	fmt.Println(first.Event.Sequence, first.Duplicate, again.Event.Sequence, again.Duplicate, err)
	// Output: 1 false 1 true <nil>
}

// A store that implements the driver natively runs EmitTx in the transaction that also writes the fact.
func ExampleServer_EmitTx() {
	srv, db := newExample()
	err := db.Update(context.Background(), func(tx driver.Tx) error {
		// Write the ticket here, in the same transaction.
		_, err := srv.EmitTx(tx, mcpevents.Emission{Name: "ticket.opened", ID: "T-1", Data: map[string]string{"id": "T-1"}})
		return err
	})
	srv.Wake("") // after the commit
	fmt.Println(err)
	// Output: <nil>
}

func ExampleServer_Call() {
	srv, _ := newExample()
	result, err := srv.Call(context.Background(), mcpevents.Request{Method: mcpevents.MethodList})
	fmt.Println(string(result), err)
	// Output: {"events":[{"name":"ticket.opened","description":"A ticket was opened.","delivery":["webhook","poll","push"],"inputSchema":{"type":"object","additionalProperties":false,"properties":{}},"payloadSchema":{"type":"object"}}]} <nil>
}

func ExampleNewHandler() {
	srv, _ := newExample()
	authenticate := func(r *http.Request) (mcpevents.Caller, error) {
		return mcpevents.Caller{Principal: r.Header.Get("X-User")}, nil // your own way
	}
	http.Handle("/mcp", mcpevents.NewHandler(srv, authenticate, &mcpevents.HandlerOptions{Info: mcpevents.Info{Name: "tickets", Version: "1"}}))
}

func ExampleErrorOf() {
	err := &mcpevents.Error{Meaning: mcpevents.NotFound, Message: "there is no such ticket"}
	fmt.Println(mcpevents.ErrorOf(err, mcpevents.DialectSketch).Code, mcpevents.ErrorOf(err, mcpevents.DialectSEP).Code)
	// Output: -32011 -32023
}

func ExampleSchedule_Wait() {
	s := mcpevents.Relay().Schedule
	for n := 1; ; n++ {
		wait, ok := s.Wait(n)
		if !ok {
			break
		}
		fmt.Print(wait, " ")
	}
	// Output: 1m0s 2m0s 4m0s 8m0s 16m0s 32m0s 1h0m0s
}

func ExampleBreaks() {
	old := json.RawMessage(`{"properties":{"id":{"type":"string"}}}`)
	next := json.RawMessage(`{"properties":{"id":{"type":"integer"}}}`)
	fmt.Println(mcpevents.Breaks(mcpevents.PayloadSchema, old, next))
	// Output: [/properties/id: type changed]
}
