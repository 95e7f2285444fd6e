package memdriver_test

import (
	"testing"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/drivertest"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

func TestDriver(t *testing.T) {
	drivertest.Run(t, func(*testing.T) driver.Driver { return memdriver.New() })
}
