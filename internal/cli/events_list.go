package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/subscriber"
)

type eventsListCmd struct {
	endpointFlags
	jsonFlag
}

// Help is shown below the flags.
func (*eventsListCmd) Help() string {
	return `What the server announces of itself is told beside the list. With --json the descriptors are printed as they came.

Examples:
  herald events list https://mcp.example.com/mcp
  herald events list http://127.0.0.1:8080/mcp --dialect sketch --json`
}

// Run lists.
func (c *eventsListCmd) Run(ctx context.Context, w *World) error {
	server, err := c.dial(w)
	if err != nil {
		return err
	}
	found, err := server.Discover(ctx)
	if err != nil {
		return err
	}
	var types []subscriber.Type
	for t, err := range subscriber.Types(ctx, server) {
		if err != nil {
			return err
		}
		types = append(types, t)
	}
	if c.JSON {
		return w.json(listing{serverOf(found), orEmpty(types)})
	}
	w.say("%s", introduction(found))
	for i, t := range types {
		if i > 0 {
			w.print("")
		}
		showType(w, t)
	}
	if len(types) == 0 {
		w.say("it lists no event types to whoever asked")
	}
	return nil
}

// listing is how a list is printed for programs.
type listing struct {
	Server serverShown       `json:"server"`
	Events []subscriber.Type `json:"events"`
}

type serverShown struct {
	Name      string              `json:"name,omitzero"`
	Version   string              `json:"version,omitzero"`
	Revision  string              `json:"revision"`
	Announced []mcpevents.Dialect `json:"announced"`
}

func serverOf(f subscriber.Found) serverShown {
	return serverShown{f.Name, f.Version, f.Revision, f.Announced}
}

// introduction says what a server is.
func introduction(f subscriber.Found) string {
	name := strings.TrimSpace(screen.Line(f.Name + " " + f.Version))
	if name == "" {
		name = "the server"
	}
	places := make([]string, len(f.Announced))
	for i, d := range f.Announced {
		places[i] = string(d)
	}
	return fmt.Sprintf("%s speaks revision %s and announces events as %s do", name, f.Revision, strings.Join(places, " and "))
}

func showType(w *World, t subscriber.Type) {
	style := w.style()
	modes := make([]string, len(t.Delivery))
	for i, m := range t.Delivery {
		modes[i] = screen.Line(string(m))
	}
	w.print("%s  %s", style.Bold(screen.Line(t.Name)), style.Dim(strings.Join(modes, ", ")))
	for _, line := range screen.Wrap(screen.Line(t.Description), w.columns()-2) {
		if line != "" {
			w.print("  %s", line)
		}
	}
	for _, line := range argumentsOf(t.InputSchema) {
		w.print("  --arg %s", line)
	}
}

// argumentsOf describes the arguments that a schema names, a line each.
func argumentsOf(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil // a server may describe arguments in ways that need no properties
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		line := screen.Line(name) + "="
		var p struct {
			Type        any    `json:"type"`
			Enum        []any  `json:"enum"`
			Description string `json:"description"`
		}
		_ = json.Unmarshal(s.Properties[name], &p) // true and false are schemas too
		switch {
		case len(p.Enum) > 0:
			line += screen.Line(strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Enum), " ", "|"), "[]"))
		case p.Type != nil:
			line += screen.Line(strings.ToUpper(fmt.Sprint(p.Type)))
		}
		if slices.Contains(s.Required, name) {
			line += "  (required)"
		}
		if p.Description != "" {
			line += "  " + screen.Line(p.Description)
		}
		lines = append(lines, line)
	}
	return lines
}
