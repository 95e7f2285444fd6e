package catalog

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/ledger"
	"github.com/herald-relay/herald/internal/strictjson"
	"github.com/herald-relay/herald/mcpevents"
)

// Bounds of a catalog.
const (
	MaxFile        = 1 << 20 // bytes
	MaxTypes       = 200
	MaxDescription = 4000 // characters
)

// reserved is the prefix of names that the relay itself publishes.
const reserved = "notification."

// SubjectArgument is the one argument of every subscription: only events about that subject.
const SubjectArgument = "subject"

// Type is an event type of a workspace.
type Type struct {
	Name          string          `json:"name"`
	Description   string          `json:"description"`
	Subject       string          `json:"subject"` // the kind; every event is about one
	PayloadSchema json.RawMessage `json:"payloadSchema"`
}

// Catalog is a checked file. It never changes.
type Catalog struct {
	types  []Type
	engine *mcpevents.Catalog
}

//go:embed default.yaml
var standard []byte

// Default is the catalog of an opportunity pipeline, which a workspace has until it is given another.
var Default = sync.OnceValue(func() *Catalog {
	data, err := FromYAML(standard)
	if err != nil {
		panic("catalog: the default is broken: " + err.Error())
	}
	c, err := Read(data)
	if err != nil {
		panic("catalog: the default is broken: " + err.Error())
	}
	return c
})

var errSize = fmt.Errorf("a catalog has at most %d bytes", MaxFile)

// Read parses and checks a catalog in JSON. The error has a line for everything that is wrong.
func Read(data []byte) (*Catalog, error) {
	if len(data) > MaxFile {
		return nil, errSize
	}
	tree, err := strictjson.ParseObject(data)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(tree.RefuseUnknown([]string{"events"}), tree.RefuseRepeatsDeep()); err != nil {
		return nil, err
	}
	var file struct{ Events []json.RawMessage }
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, errors.New("events must be a list")
	}
	if len(file.Events) == 0 || len(file.Events) > MaxTypes {
		return nil, fmt.Errorf("events has %d entries; a catalog has 1 to %d", len(file.Events), MaxTypes)
	}
	list, _ := tree.Member("events")
	c := &Catalog{}
	var problems []error
	for i, raw := range file.Events {
		t, err := readType(list.Items[i], raw)
		if err != nil {
			problems = append(problems, fmt.Errorf("events[%d] %s: %w", i, strictjson.ShownName(t.Name), err))
		}
		c.types = append(c.types, t)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return c, c.compile()
}

// eventName is what a type may be called: words of lower-case letters, digits, _ and -, joined by dots.
var eventName = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)

func readType(v strictjson.Value, raw json.RawMessage) (t Type, err error) {
	if v.Kind != strictjson.Object {
		return t, errors.New("must be an object")
	}
	t.Name, _ = v.Text("name")
	if err := v.RefuseUnknown([]string{"name", "description", "subject", "payloadSchema"}); err != nil {
		return t, err
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return t, errors.New("name, description and subject must be strings")
	}
	switch {
	case len(t.Name) > 128 || !eventName.MatchString(t.Name):
		return t, errors.New("name must be words of a-z 0-9 _ - joined by dots, at most 128 characters, such as deal.won")
	case strings.HasPrefix(t.Name, reserved):
		return t, errors.New("names that begin with " + reserved + " belong to the relay")
	case strings.TrimSpace(t.Description) == "" || utf8.RuneCountInString(t.Description) > MaxDescription:
		return t, fmt.Errorf("description must tell an agent when to subscribe, in 1 to %d characters", MaxDescription)
	case !ledger.ValidKind(t.Subject):
		return t, errors.New("subject must be the kind that events are about: 1 to 64 of a-z 0-9 _ -, such as deal")
	}
	if schema, _ := v.Member("payloadSchema"); schema.Kind != strictjson.Object {
		return t, errors.New("payloadSchema must be a JSON Schema, an object")
	} else if kind, _ := schema.Text("type"); kind != "object" {
		return t, errors.New(`payloadSchema must say "type": "object"; the data of an event is one`)
	}
	return t, nil
}

func (c *Catalog) compile() error {
	types := make([]mcpevents.EventType, len(c.types))
	for i, t := range c.types {
		types[i] = mcpevents.EventType{
			Name: t.Name, Description: t.Description, PayloadSchema: t.PayloadSchema,
			InputSchema: subjectSchema(t.Subject), SubjectArgument: SubjectArgument,
		}
	}
	var err error
	c.engine, err = mcpevents.NewCatalog(types...)
	return err
}

// subjectSchema describes the arguments of a subscription to events about things of that kind.
func subjectSchema(kind string) json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"` + SubjectArgument + `":{"type":"string","description":"Only events about this ` +
		kind + `: ` + kind + `/<id>. Leave it out for all.","pattern":"^` + kind + `/[^\\s]+$","maxLength":256}},"additionalProperties":false}`)
}

// Engine is the catalog as the events engine needs it.
func (c *Catalog) Engine() *mcpevents.Catalog { return c.engine }

// Types are the event types in the order of the file.
func (c *Catalog) Types() []Type { return slices.Clone(c.types) }

// Type returns the one with that name.
func (c *Catalog) Type(name string) (Type, bool) {
	i := slices.IndexFunc(c.types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return Type{}, false
	}
	return c.types[i], true
}

// JSON is the file that Read makes this catalog of.
func (c *Catalog) JSON() []byte {
	data, err := json.Marshal(struct {
		Events []Type `json:"events"`
	}{c.types})
	if err != nil {
		panic("catalog: what was JSON is none: " + err.Error())
	}
	return data
}

// Breaks lists, as sentences, what next changes that applications or readers of c rely on: nil when every change is
// additive. Names may be added; one that is gone breaks those who subscribe to it.
func (c *Catalog) Breaks(next *Catalog) (breaks []string) {
	for _, t := range c.types {
		n, there := next.Type(t.Name)
		if !there {
			breaks = append(breaks, t.Name+": removed; agents may be subscribed to it")
			continue
		}
		if n.Subject != t.Subject {
			breaks = append(breaks, fmt.Sprintf("%s: its subject was %q and is %q", t.Name, t.Subject, n.Subject))
		}
		for _, b := range mcpevents.Breaks(mcpevents.PayloadSchema, t.PayloadSchema, n.PayloadSchema) {
			breaks = append(breaks, t.Name+": payloadSchema "+b)
		}
	}
	return breaks
}
