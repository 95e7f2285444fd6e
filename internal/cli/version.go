package cli

import "github.com/herald-relay/herald/internal/telemetry"

type versionCmd struct{ jsonFlag }

// Help is shown below the flags.
func (*versionCmd) Help() string { return "Example:\n  herald version --json" }

// Run prints.
func (c *versionCmd) Run(w *World) error {
	b := telemetry.ReadBuild()
	if c.JSON {
		return w.json(b)
	}
	w.print("%s", b)
	return nil
}
