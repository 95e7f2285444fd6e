package mcpevents_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"

	"encoding/json"
	"github.com/herald-relay/herald/mcpevents"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

func rawMessage(s string) json.RawMessage { return json.RawMessage(s) }

func newMemory() driver.Driver { return memdriver.New() }

// durable pretends that a store outlives the process.
type durable struct{ driver.Driver }

func (durable) Durable() bool { return true }

func bubbleOn(t *testing.T, outlives bool, p mcpevents.Policy, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := newMemory()
		if outlives {
			db = durable{db}
		}
		w := newWorld(t, db, p, nil)
		w.run()
		fn(w)
		w.halt()
	})
}

func bubbleWith(t *testing.T, p mcpevents.Policy, change func(*mcpevents.Family, *mcpevents.Options), fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMemory(), p, change)
		w.run()
		fn(w)
		w.halt()
	})
}

func logInto(b *bytes.Buffer) func(*mcpevents.Family, *mcpevents.Options) {
	return func(_ *mcpevents.Family, o *mcpevents.Options) { o.Log = slog.New(slog.NewTextHandler(b, nil)) }
}
