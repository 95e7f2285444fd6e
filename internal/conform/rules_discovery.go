package conform

import (
	"encoding/json"
	"slices"
)

var bySketch, bySEP = []Dialect{Sketch}, []Dialect{SEP}

var discoveryRules = []Rule{
	{Number: 101, Group: Discovery, Level: Must, Source: "MCP 2026-07-28, server/discover (0.1)", Needs: everyone,
		Text: "server/discover answers, and supportedVersions has 2026-07-28.", check: func(r *run) error { _, err := r.discovered(); return owned(err) }},
	{Number: 102, Group: Discovery, Level: Must, Dialects: bySketch, Source: "design sketch, capability (a.1); OpenAI, MCP Events", Needs: []Consumer{ChatGPT, AISDK, Relay, Ledger},
		Text: "capabilities.events is an object: the only place where ChatGPT and the AI SDK look.", check: func(r *run) error { return r.announces(false) }},
	{Number: 103, Group: Discovery, Level: Must, Dialects: bySEP, Source: "SEP-3415, capability (a.1)", Needs: []Consumer{ByText},
		Text: `capabilities.extensions["io.modelcontextprotocol/events"] is an object.`, check: func(r *run) error { return r.announces(true) }},
	{Number: 104, Group: Discovery, Level: Must, Source: "SEP-3415, capability (a.1)", Needs: []Consumer{ByText},
		Text: "listChanged, where the capability has it, is true or false.", check: (*run).listChangedIsBool},
	{Number: 105, Group: Discovery, Level: Should, Source: "interop trap: two places are read (c)", Needs: []Consumer{ChatGPT, AISDK, ByText},
		Text: "The capability stands in both places, so that clients of both dialects find it.", check: (*run).announcesTwice},
	{Number: 106, Group: Discovery, Level: Must, Source: "MCP 2026-07-28, cacheable results", Needs: []Consumer{ByText},
		Text: "The discovery result says how long it may be cached: ttlMs, a whole number, and cacheScope, public or private.", check: (*run).discoveryIsCacheable},
	{Number: 107, Group: Discovery, Level: Must, Source: "OpenAI, MCP Events (c)", Needs: []Consumer{ChatGPT},
		Text: "What initialize announces is true: where it names events, events/list answers a client that began with it.", check: (*run).legacyIsServed},
	{Number: 108, Group: Discovery, Level: Must, Dialects: bySEP, Source: "SEP-3415, list_changed (a.3)", Needs: []Consumer{ByText},
		Text: "subscriptions/listen acknowledges eventsListChanged if, and only if, the capability promises listChanged.", check: (*run).acknowledgesListChanged},
}

// places are the two capability objects, empty where there is none.
func places(discovery object) (top, inMap json.RawMessage) {
	var capabilities struct {
		Events     json.RawMessage            `json:"events"`
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	_ = json.Unmarshal(discovery["capabilities"], &capabilities) // what is no object announces nothing
	return capabilities.Events, capabilities.Extensions[extension]
}

// discovered is a usable answer to server/discover.
func (r *run) discovered() (*answer, error) {
	return once(r, "discover", func() (*answer, error) {
		a, err := r.call("server/discover", nil)
		if err != nil {
			return nil, err
		}
		var versions []string
		_ = json.Unmarshal(a.result["supportedVersions"], &versions) // what is no list has none
		if a.wantResult() != nil || !slices.Contains(versions, revision) {
			return nil, &refused{"server/discover does not answer", a.but("a result whose supportedVersions has %s", revision)}
		}
		return a, nil
	})
}

func (r *run) announces(inExtensions bool) error {
	a, err := r.discovered()
	if err != nil {
		return err
	}
	top, ext := places(a.result)
	if inExtensions && !isObject(ext) {
		return a.but(`capabilities.extensions["%s"]: an object`, extension)
	}
	if !inExtensions && !isObject(top) {
		return a.but("capabilities.events: an object")
	}
	return nil
}

func (r *run) listChangedIsBool() error {
	a, err := r.discovered()
	if err != nil {
		return err
	}
	top, ext := places(a.result)
	for _, place := range []json.RawMessage{top, ext} {
		var o object
		_ = json.Unmarshal(place, &o) // what is no object is another rule's matter
		if value, has := o["listChanged"]; has && !isBool(value) {
			return a.but("listChanged: true or false")
		}
	}
	return nil
}

func (r *run) announcesTwice() error {
	a, err := r.discovered()
	if err != nil {
		return err
	}
	top, ext := places(a.result)
	other, name := ext, `capabilities.extensions["`+extension+`"]`
	if r.dialect == SEP {
		other, name = top, "capabilities.events"
	}
	if len(other) == 0 {
		return a.but("%s too", name)
	}
	return nil
}

func (r *run) discoveryIsCacheable() error {
	a, err := r.discovered()
	if err != nil {
		return err
	}
	scope := text(a.result["cacheScope"])
	if !isWhole(a.result["ttlMs"]) || (scope != "public" && scope != "private") {
		return a.but("ttlMs, a whole number, and cacheScope, public or private")
	}
	return nil
}

func (r *run) legacyIsServed() error {
	a, err := r.do(request{method: "initialize", id: "1", legacy: true, params: params{"protocolVersion": "2025-06-18",
		"capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "herald", "version": "1"}}})
	if err != nil {
		return err
	}
	top, ext := places(a.result)
	if len(top) == 0 && len(ext) == 0 {
		return cannot("initialize announces no events")
	}
	header := map[string]string{"MCP-Protocol-Version": text(a.result["protocolVersion"])}
	if session := a.header.Get("Mcp-Session-Id"); session != "" {
		header["Mcp-Session-Id"] = session
	}
	listed, err := r.do(request{method: "events/list", id: "2", legacy: true, header: header})
	if err != nil {
		return err
	}
	if _, err := r.list(); err != nil {
		return lean(err)
	}
	if listed.wantResult() != nil || len(listed.result["events"]) == 0 {
		return listed.but("events, as initialize announced")
	}
	return nil
}

// acknowledgesListChanged opens subscriptions/listen and looks at its first message.
func (r *run) acknowledgesListChanged() error {
	if err := r.announces(true); err != nil {
		return cannot("the capability is not there; rule 103 looks at it")
	}
	found, _ := r.discovered()
	_, ext := places(found.result)
	var capability object
	_ = json.Unmarshal(ext, &capability) // what is no object promises nothing
	promised := string(capability["listChanged"]) == "true"
	s, err := r.open("subscriptions/listen", `"listen"`, params{"notifications": map[string]any{"eventsListChanged": true}})
	if err != nil {
		return err
	}
	defer s.close()
	if s.plain != nil {
		if !promised && s.plain.err != nil {
			return nil // it has nothing to tell
		}
		return s.plain.but("a stream")
	}
	first, ok := s.await(r.ctx, 1, r.o.Timeout, func(*frame) bool { return true })
	if !ok {
		return s.but("notifications/subscriptions/acknowledged")
	}
	var filter object
	_ = json.Unmarshal(first.params["notifications"], &filter) // what is no object acknowledges nothing
	if got := string(filter["eventsListChanged"]) == "true"; got != promised {
		return s.but("an acknowledged filter that has eventsListChanged only where listChanged is announced")
	}
	return nil
}
