package mcpevents_test

import (
	"encoding/json"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

func rawMessage(s string) json.RawMessage { return json.RawMessage(s) }

func newMemory() driver.Driver { return memdriver.New() }
